"""The graph of consolidation, alone or as a part of an agent, and when it is due."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import get_runtime
from langgraph.types import Checkpointer, RetryPolicy, Send

from langmem_tiers.consolidate import archive, cycle, models, stored
from langmem_tiers.consolidate.policy import (
    BY_TIME,
    ConsolidationPolicy,
    ConsolidationSchedule,
    due,
)
from langmem_tiers.consolidate.steps import CycleStep
from langmem_tiers.core import checks, errors, structured
from langmem_tiers.core.context import MemoryContext
from langmem_tiers.core.errors import short
from langmem_tiers.graph import consolidation_nodes as nodes
from langmem_tiers.graph.node import Remembered, Scope, asked, tiered, ways
from langmem_tiers.learn.general import generaliser_of
from langmem_tiers.postgres.flow import Flow, lasting
from langmem_tiers.remember.new import checked_text
from langmem_tiers.store.store import TieredStore

_NODES = (nodes.begin, nodes.select, nodes.propose, nodes.review, nodes.apply, nodes.report)
_STEPS = 100_000
_RETRY = RetryPolicy(retry_on=errors.DatabaseUnavailableError)
"""Everything but a model's answer can be had twice: what was written is known by its name."""


def create_consolidation_graph(
    model: BaseChatModel | None = None,
    *,
    policy: ConsolidationPolicy | None = None,
    store: TieredStore | None = None,
    checkpointer: Checkpointer = None,
    interrupt_before: Sequence[str] = (),
    context: Scope | None = None,
    name: str = "consolidation",
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """A compiled graph that consolidates the memory of a tenant, alone or as a subgraph.

    One invocation is one cycle. It looks at what changed since the last one, in batches, and
    writes the state key `consolidated`, which `ConsolidationReport.of` reads. A cycle that was
    broken off goes on from its checkpoint when it is invoked with None, and ends with the tables
    that an undisturbed one would have left. With `stream_mode="custom"` each node says what it did.

    Where the state's `session_ended` is true, the session of the run's context, else its thread, is
    over, and all of it rises; the key is false again after the cycle.

    Args:
        model: A chat model that is asked, in the node `propose` alone, which memories say the same
            or contradict each other, and to generalise what is promoted. Without one, what was
            said twice in a row is merged, and what is near is proposed in the report.
        policy: What a cycle does; everything but archival if not given.
        store: The store; a subgraph takes its parent's.
        checkpointer: As `compile` takes it. With one, give each tenant a thread of its own.
        interrupt_before: Nodes to stop before. `["apply"]` lets somebody see, and change, the
            state's `decisions` first; invoke with None to go on.
        context: Whose memory it is: a `MemoryContext` or a mapping of some of its fields;
            `{name}` in one stands for `config["configurable"]["name"]`; the run's `context` says
            it if not given.
        name: The graph's name, in traces too.

    Raises:
        InvalidTypeError: for a policy or a model that is none.
        InvalidInputError: for a node to interrupt that there is not.

    Example:
        ```python
        from langmem_tiers import (
            ConsolidationReport,
            MemoryContext,
            TieredStore,
            create_consolidation_graph,
        )

        with TieredStore.embedded("./.memory") as store:
            graph = create_consolidation_graph(store=store)
            state = graph.invoke({}, context=MemoryContext(tenant="acme"))
            print(ConsolidationReport.of(state))
        ```
    """
    if store is not None:
        tiered(store)
    stops = _checked(checkpointer, interrupt_before)
    graph = _wired(policy, model, Remembered(context))
    named: Any = {"interrupt_before": stops, "name": checked_text(name, "name")}
    return graph.compile(checkpointer, store=store, **named).with_config(recursion_limit=_STEPS)


def _checked(checkpointer: Checkpointer, names: Sequence[str]) -> list[str]:
    """The nodes to stop before; refuse what `compile` does not take."""
    if not isinstance(checkpointer, BaseCheckpointSaver | bool | None):
        raise errors.InvalidTypeError(
            f"checkpointer is what compile takes, not {short(checkpointer)}"
        )
    known = [one.__name__ for one in _NODES]
    stops = list(checks.checked_list(names, "interrupt_before", "nodes"))
    for one in stops:
        if not isinstance(one, str) or one not in known:
            raise errors.InvalidInputError(
                f"there is no node {short(one)}: use one of {', '.join(known)}"
            )
    return stops


def _wired(
    policy: ConsolidationPolicy | None, model: BaseChatModel | None, whose: Remembered
) -> StateGraph[Any, Any, Any, Any]:
    """The nodes of a cycle and the ways between them."""
    run = partial(nodes.CycleRun, whose, _steps(policy, model))
    graph = StateGraph(
        nodes.ConsolidationState,
        context_schema=MemoryContext,
        input_schema=nodes.Input,
        output_schema=nodes.Output,
    )
    for does in _NODES:
        retry = None if model is not None and does.__name__ == nodes.propose.__name__ else _RETRY
        graph.add_node(does.__name__, _node(does, run), retry_policy=retry)
    graph.add_edge(START, "begin")
    graph.add_conditional_edges("begin", _after_begin, ["select", "report"])
    graph.add_conditional_edges("select", _after_select, ["propose", "report"])
    graph.add_edge("propose", "review")
    graph.add_conditional_edges("review", _after_review, ["apply", "select"])
    graph.add_edge("apply", "select")
    graph.add_edge("report", END)
    return graph


def consolidation_due(
    schedule: ConsolidationSchedule,
    *,
    then: str = "consolidation",
    otherwise: str = END,
    context: Scope | None = None,
) -> Runnable[Any, str]:
    """A route for an agent's graph: to the subgraph when a cycle is due.

    `every` counts from the tenant's last cycle, in whichever thread; of several runs that find one
    due at once one begins it. Else the thread's state says: the turns among `messages`,
    `session_ended`, and `consolidated`, which the subgraph writes. Add these keys to the agent's
    state, and give it a checkpointer and a thread. LangGraph drops what a
    `TypedDict` does not name without a word; of a Pydantic model or a dataclass it is told.

    Args:
        schedule: When a cycle is due.
        then: The node of the subgraph.
        otherwise: Where the run goes on if none is.
        context: Whose memory it is, as `create_consolidation_graph` takes it.

    Raises:
        ConfigurationError: in a run, if its Pydantic model or dataclass lacks a key.
        InvalidTypeError: for a schedule that is none.

    Example:
        ```python
        from langmem_tiers import (
            ConsolidationSchedule,
            consolidation_due,
            create_consolidation_graph,
        )

        builder.add_node("consolidation", create_consolidation_graph())
        schedule = ConsolidationSchedule(every_turns=20, on_session_end=True)
        builder.add_conditional_edges("model", consolidation_due(schedule))
        ```
    """
    checks.checked_kind(schedule, ConsolidationSchedule, "schedule")
    whose = Remembered(context)

    def route(state: Any, config: RunnableConfig) -> Flow[str]:
        runtime, every = get_runtime(), schedule.every
        store, last, begins = tiered(runtime.store), None, None
        known = state if isinstance(state, Mapping) else vars(state)
        _check_kept(schedule, state, known)
        if every is not None:
            tenant = whose.context(runtime.context, config).root
            last = yield from asked(store.run, stored.last_cycle(tenant))
            begins = stored.claim_cycle(tenant, store.flows.now, every)
        turns = nodes.turns_since(known.get("messages") or (), known.get("consolidated"))
        over, now = bool(known.get("session_ended")), store.flows.now
        reason = due(schedule, last, now=now, turns=turns, session_ended=over)
        if begins is not None and reason == BY_TIME:
            return then if (yield from asked(store.run, begins)) else otherwise
        return otherwise if reason is None else then

    return RunnableLambda(*ways(route), name="consolidation_due")


def _check_kept(schedule: ConsolidationSchedule, state: Any, known: Mapping[str, Any]) -> None:
    """Raise if the state has no place for what says when the last cycle was."""
    needed = {
        "consolidated": schedule.every_turns is not None,
        "messages": schedule.every_turns is not None,
        "session_ended": schedule.on_session_end,
    }
    for name, is_needed in needed.items():
        if is_needed and name not in known and not isinstance(state, Mapping):
            raise errors.ConfigurationError(
                f"{type(state).__name__} has no {name!r}, by which a cycle is due: add it to the "
                "agent's state, with a default"
            )


def _steps(given: ConsolidationPolicy | None, model: BaseChatModel | None) -> dict[str, CycleStep]:
    chosen = ConsolidationPolicy() if given is None else given
    policy = checks.checked_kind(chosen, ConsolidationPolicy, "policy")
    asked_of: Any = {}
    if policy.archive is not None:
        from langmem_tiers.consolidate.files import ArchiveFiles  # noqa: PLC0415 - an extra of its own

        asked_of["archive_step"] = archive.Archive(policy.archive, ArchiveFiles())
    if model is not None:
        structured.checked_model(model)
        asked_of |= {
            "generaliser": generaliser_of(model),
            "judge": models.judge_of(model),
            "summariser": models.summariser_of(model),
        }
    return {one.name: one for one in cycle.steps(policy, **asked_of)}


def _node(does: nodes.Does, run: Callable[..., nodes.CycleRun]) -> Runnable[Any, Any]:
    """A node that is a flow, in both worlds; it says what it did to whoever streams `custom`."""

    def update(state: Any, config: RunnableConfig) -> Flow[dict[str, Any]]:
        runtime = get_runtime()
        one = run(tiered(runtime.store), config, runtime.context)
        does_it = lasting(None, does(one, state))
        done = yield from asked(one.store.run, does_it)
        runtime.stream_writer(nodes.progress(does.__name__, state, done))
        return done

    return RunnableLambda(*ways(update), name=does.__name__)


def _after_begin(state: Any) -> str:
    return "select" if state["skipped"] is None else "report"


def _after_select(state: Any) -> str | list[Send]:
    return _sends("propose", "ids", state, state["batches"]) or "report"


def _after_review(state: Any) -> str | list[Send]:
    return _sends("apply", "decisions", state, state["decisions"]) or "select"


def _sends(node: str, key: str, state: Any, batches: Sequence[Any]) -> list[Send]:
    shared = {name: state[name] for name in ("tenant", "cycle", "started_at", "ended", "step")}
    return [
        Send(node, {**shared, key: one, "batch": (number, len(batches))})
        for number, one in enumerate(batches, 1)
    ]
