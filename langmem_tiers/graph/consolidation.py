"""The graph of consolidation, alone or as a part of an agent, its nodes, and the route to it.

A node is a flow over the state of the graph, and returns an update of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Annotated, Any, NamedTuple, TypeVar
from uuid import uuid4

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage, convert_to_messages
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import get_runtime
from langgraph.types import Checkpointer, RetryPolicy, Send
from typing_extensions import TypedDict

from langmem_tiers.consolidation import archive, cycle, judges, lease
from langmem_tiers.consolidation.policy import (
    BY_TIME,
    ConsolidationPolicy,
    ConsolidationSchedule,
    due_reason,
)
from langmem_tiers.consolidation.report import VERDICTS, Counts, add_counts, total
from langmem_tiers.consolidation.steps import (
    Cycle,
    CycleStep,
    Proposal,
    StepDecision,
    StepFinding,
    combine_proposals,
    note_cycle,
)
from langmem_tiers.core import chat_models, checks, errors
from langmem_tiers.core.context import MemoryContext
from langmem_tiers.core.errors import short
from langmem_tiers.core.memory import Moment, Place, Tier, encode_namespace
from langmem_tiers.graph.runtime import NodeConfig, Scope, both_forms, checked_store, invoke
from langmem_tiers.learning.generalise import generaliser_of
from langmem_tiers.postgres.flow import Flow, with_deadline_for
from langmem_tiers.remember.new_memory import checked_text
from langmem_tiers.store.store import TieredStore

T = TypeVar("T")

BATCH = 100
"""Memories that are judged, and changed, together."""
FAN_OUT = 8
"""Batches at once."""
LEASE_KEY = "lease"
"""Key in `configurable` under which a worker puts the `HeldTenant` whose cycle it runs."""
CONFLICT = "another decision of this cycle concerns it"
TAKEN = "somebody else is consolidating this tenant"
NOT_OURS = (
    "nothing of it was carried out. Find out who wrote it; then the checkpointer's "
    "delete_thread('consolidation:' + tenant) lets the tenant's next cycle begin anew"
)
"""Advice about a checkpoint that no cycle of the tenant has written."""
LEFT_OUT = "the policy leaves this step out by now"
_HANDLED_KEYS = {"select": "batches", "propose": "ids", "review": "decisions", "apply": "decisions"}
"""Key of the state that holds the memories or decisions of each node."""


class HeldTenant(NamedTuple):
    """Tenant whose lease a worker holds."""

    tenant: str
    """Name of the tenant in the database."""
    fence: int


def _gather_proposals(old: list[Proposal], new: list[Proposal] | None) -> list[Proposal]:
    return [] if new is None else [*old, *new]


def _was_ever(old: bool, new: bool | None) -> bool:  # noqa: FBT001 - as LangGraph calls reducers
    return new is not None and (old or new)


class Input(TypedDict, total=False):
    """Input of the graph."""

    messages: list[Any]
    """Messages of the agent around it, if there is one; their turns are counted."""
    session_ended: bool
    """True if the run's session, its context's or else its thread, is over; False again after the
    cycle."""


class Output(TypedDict, total=False):
    """Output of the graph."""

    consolidated: dict[str, Any]
    """Report of the last cycle; `ConsolidationReport.of` reads it."""
    session_ended: bool


class ConsolidationState(Input, Output, total=False):
    """State that the graph keeps between its nodes; all of it is plain data."""

    tenant: str
    cycle: str
    started_at: str
    ended: list[str]
    skipped: str | None
    taken_over: Annotated[bool, _was_ever]
    """True if somebody else took the tenant over since the cycle began."""
    step: str | None
    """Name of the step that the cycle is at; None after the last one."""
    after: int
    """Id up to which the step has selected memories."""
    batches: list[list[int]]
    again: list[int]
    proposals: Annotated[list[Proposal], _gather_proposals]
    decisions: list[list[StepDecision]]
    """Decisions to apply, in batches."""
    counts: Annotated[Counts, add_counts]


class CycleRun(NamedTuple):
    """A run of a node: its config, steps, store and context."""

    node_config: NodeConfig
    steps: Mapping[str, CycleStep]
    store: TieredStore
    config: RunnableConfig
    context: Any

    @property
    def held_tenant(self) -> HeldTenant | None:
        """Return the tenant that a worker holds; None in a graph that no worker runs."""
        return (self.config.get("configurable") or {}).get(LEASE_KEY)

    @property
    def tenant(self) -> str:
        """Return the tenant whose memories the cycle consolidates."""
        held = self.held_tenant
        return held.tenant if held else self.node_config.context(self.context, self.config).root

    def ended_namespaces(self) -> list[str]:
        """Return the namespaces of the session that has ended: the shared one, and its user's.

        Raises:
            InvalidInputError: if the run does not name the session.
        """
        context = self.node_config.context(self.context, self.config)
        if context.session_id is None:
            raise errors.InvalidInputError(
                "session_ended is true, and the run does not say which session: run the graph "
                "in a thread, or with context=MemoryContext(tenant=…, session_id=…)"
            )
        return [encode_namespace(place).namespace for place in context.places(Tier.SHORT_TERM)]

    def visible_counts(self, tenant: str, counts: Counts) -> Counts:
        """Return a cycle's counts with the findings that its user may see; a worker sees all."""
        labels = {} if self.held_tenant else self.node_config.labels(self.context, self.config)
        if (user := labels.get("user_id")) is None:
            return counts

        def seen(finding: StepFinding) -> bool:
            return self.store.options.user_of(Place(tenant, finding["namespace"])) in (None, user)

        return {
            step: {**tally, "findings": [each for each in tally["findings"] if seen(each)]}
            if tally.get("findings")
            else tally
            for step, tally in counts.items()
        }

    def cycle(self, state: Mapping[str, Any]) -> Cycle:
        """Return the cycle that a node belongs to.

        Raises:
            CheckpointError: if a worker runs it, and it is a cycle of another tenant.
        """
        held = self.held_tenant
        if held and state["tenant"] != held.tenant:
            cycle_of = short(state["tenant"])
            raise errors.CheckpointError(
                f"a checkpoint of {held.tenant!r} is of a cycle of {cycle_of}: {NOT_OURS}"
            )
        omit_expired = self.store.flows.moment().omit_expired
        return Cycle(
            tenant=state["tenant"],
            cycle=state["cycle"],
            moment=Moment(datetime.fromisoformat(state["started_at"]), omit_expired),
            options=self.store.options,
            fence=held.fence if held else None,
            ended=frozenset(state["ended"]),
        )


_OVER: dict[str, Any] = {"step": None, "batches": [], "again": []}
"""Update of the state after the last step."""

NodeFlow = Callable[[CycleRun, Any], Flow[dict[str, Any]]]
"""Function of a node: its flow returns the update of the state."""


def begin(run: CycleRun, state: Any) -> Flow[dict[str, Any]]:
    """Name the cycle and fix its time, which all later nodes use."""
    tenant, now = run.tenant, run.store.flows.now
    ended = run.ended_namespaces() if state.get("session_ended") else []
    yield from run.store.flows.flush()  # pending counts of reads are written
    held = run.held_tenant is None and (yield from lease.is_leased(tenant, now))
    return {
        "tenant": tenant,
        "cycle": str(uuid4()),
        "started_at": now.isoformat(),
        "ended": ended,
        "skipped": TAKEN if held else None,
        "taken_over": None,
        "step": next(iter(run.steps), None),
        "after": 0,
        "batches": [],
        "again": [],
        "proposals": None,
        "decisions": [],
        "counts": None,
    }


def select(run: CycleRun, state: Any) -> Flow[dict[str, Any]]:
    """Select the next batches: of this step, or of the next step that has any."""
    current, after = state["step"], state["after"]
    if state["again"] and current in run.steps:
        return {"batches": [state["again"]], "again": []}
    if state["taken_over"]:
        return _OVER
    names = list(run.steps)
    start = names.index(current) if current in run.steps else 0  # from the first: again is no harm
    cycle = run.cycle(state)
    stay: Counts = {}
    for name in names[start:]:
        last = after if name == current else 0
        ids = yield from run.steps[name].select(cycle, last, BATCH * FAN_OUT)
        if ids:
            batches = _chunks(ids)
            return {"step": name, "after": ids[-1], "batches": batches, "again": [], "counts": stay}
        try:
            if kept := (yield from run.steps[name].finish(cycle)):
                stay[name] = {"kept": kept}
        except errors.ConflictError as error:
            if run.held_tenant is not None or error.code != "lease_lost":
                raise  # a worker that has lost its lease stops
            return {**_OVER, "taken_over": True, "counts": stay}
    return {**_OVER, "counts": stay}


def propose(run: CycleRun, state: Any) -> Flow[dict[str, Any]]:
    """Propose the decisions on a batch; only this node asks models."""
    step = run.steps.get(state["step"])
    if step is None:
        return {"proposals": [Proposal(decisions=[], kept={LEFT_OUT: len(state["ids"])})]}
    proposal = yield from step.propose(run.cycle(state), state["ids"])
    return {"proposals": [proposal]}


def review(_: CycleRun, state: Any) -> Flow[dict[str, Any]]:
    """Keep the proposals of the batches that can stand together; the rest is judged again."""
    name = state["step"]
    result = combine_proposals(state["proposals"], hands_over=name == "merge")
    again, left = result.rejudge, {}
    if again and len(state["batches"]) == 1:  # it was judged as one batch already
        again, left = [], {CONFLICT: len(again)}
    return {
        "proposals": None,
        "decisions": _chunks(result.decisions),
        "again": again,
        "counts": {name: {"left": left, "kept": result.kept, "findings": result.findings}},
    }
    yield  # a flow, though it needs nothing


def apply(run: CycleRun, state: Any) -> Flow[dict[str, Any]]:
    """Carry out a batch of decisions, in one transaction."""
    name, decisions = state["step"], state["decisions"]
    if name not in run.steps:
        return {"counts": {name: {"left": {LEFT_OUT: len(decisions)}}}}
    try:
        done = yield from run.steps[name].apply(run.cycle(state), decisions)
    except errors.ConflictError as error:
        if run.held_tenant is not None or error.code != "lease_lost":
            raise  # a worker that has lost its lease stops
        return {"taken_over": True, "counts": {name: {"left": {TAKEN: len(decisions)}}}}
    return {"counts": {name: done}}


def report(run: CycleRun, state: Any) -> Flow[dict[str, Any]]:
    """Report the cycle, and note its end unless somebody else has taken the tenant over.

    The report names to a user no pair of memories that are another's.
    """
    names = ("tenant", "cycle", "started_at", "counts", "skipped")
    turns = human_messages(state.get("messages") or ())
    over = state["taken_over"]
    if state["skipped"] is None and not over:
        try:
            yield from note_cycle(run.cycle(state))
        except errors.ConflictError as error:
            if run.held_tenant is not None or error.code != "lease_lost":
                raise  # a worker that has lost its lease stops
            over = True
    fields = {
        **{name: state[name] for name in names},
        "counts": run.visible_counts(state["tenant"], state["counts"]),
        "taken_over": over,
        "finished_at": run.store.flows.now.isoformat(),
        "turns": len(turns),
        "turn": turns[-1].id if turns else None,
    }
    return {"consolidated": fields, "session_ended": False, "decisions": []}


def human_messages(messages: Sequence[Any]) -> list[HumanMessage]:
    """Return the human messages."""
    return [
        message for message in convert_to_messages(messages) if isinstance(message, HumanMessage)
    ]


def count_turns_since(messages: Sequence[Any], last: Mapping[str, Any] | None) -> int:
    """Return the number of human messages since the cycle of the `last` report.

    It finds the last counted message by its id, as older ones may be removed meanwhile. Messages
    without ids are counted.
    """
    turns = human_messages(messages)
    if last is None:
        return len(turns)
    if last["turn"] is None:
        return max(0, len(turns) - int(last["turns"]))
    ids = [turn.id for turn in turns]
    return len(turns) - ids.index(last["turn"]) - 1 if last["turn"] in ids else len(turns)


def progress(node: str, state: Mapping[str, Any], update: Mapping[str, Any]) -> dict[str, Any]:
    """Return the numbers of a node's run, for the stream of mode `custom`.

    They are the number of `memories`, the `batch` of the `batches` (from 1 on, 0 for all of them),
    and the numbers `done`, `left` and `kept`; at the end these are of the whole cycle.
    """
    now = {**state, **update}
    counts = update.get("consolidated", update).get("counts") or {}
    handled: Sequence[Any] = now[_HANDLED_KEYS[node]] if node in _HANDLED_KEYS else ()
    batch, batches = state.get("batch") or (0, len(now["batches"]))
    return {
        "consolidation": node,
        **{name: now[name] for name in ("tenant", "cycle", "step")},
        "batch": batch,
        "batches": batches,
        "memories": sum(len(item) if isinstance(item, list) else 1 for item in handled),
        **{verdict: total(counts, verdict) for verdict in VERDICTS},
    }


def _chunks(items: Sequence[T]) -> list[list[T]]:
    return [list(items[i : i + BATCH]) for i in range(0, len(items), BATCH)]


_NODES = (begin, select, propose, review, apply, report)
_STEPS = 100_000
_RETRY = RetryPolicy(retry_on=errors.DatabaseUnavailableError)
"""All nodes but a model's `propose` can run twice: a write is known by its name."""


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
    """Create a compiled graph that consolidates a tenant's memory, alone or as a subgraph.

    One invocation is one cycle. It takes the memories that changed since the last one, in batches,
    and writes the state key `consolidated`, which `ConsolidationReport.of` reads. A cycle that was
    broken off goes on from its checkpoint when it is invoked with None, and ends with the same
    tables as an undisturbed one. With `stream_mode="custom"` each node reports its numbers.

    If the state's `session_ended` is true, the session of the run's context, else its thread, is
    over, and all its memories rise; the key is false again after the cycle.

    Args:
        model: A chat model that is asked, in the node `propose` alone, which memories say the same
            or contradict each other, and to generalise promoted ones. Without a model, memories
            that repeat each other in a row are merged, and the report proposes near ones.
        policy: The steps of a cycle; all but archival if not given.
        store: The store; a subgraph takes its parent's.
        checkpointer: The option of `compile`. With one, give each tenant a thread of its own.
        interrupt_before: Nodes to stop before. `["apply"]` lets somebody see, and change, the
            state's `decisions` first; invoke with None to go on.
        context: Whose memory it is: a `MemoryContext` or a mapping of some of its fields;
            `{name}` in a field stands for `config["configurable"]["name"]`; the run's `context` if
            not given.
        name: The graph's name, in traces too.

    Raises:
        InvalidTypeError: for a policy or a model of another type.
        InvalidInputError: for an unknown node to interrupt.

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
        checked_store(store)
    stops = _checked_stops(checkpointer, interrupt_before)
    graph = _build_graph(policy, model, NodeConfig(context))
    named: Any = {"interrupt_before": stops, "name": checked_text(name, "name")}
    return graph.compile(checkpointer, store=store, **named).with_config(recursion_limit=_STEPS)


def _checked_stops(checkpointer: Checkpointer, names: Sequence[str]) -> list[str]:
    """Return the nodes to stop before; refuse arguments that `compile` does not take."""
    if not isinstance(checkpointer, BaseCheckpointSaver | bool | None):
        raise errors.InvalidTypeError(f"compile takes no checkpointer like {short(checkpointer)}")
    node_names = [node.__name__ for node in _NODES]
    stops = list(checks.checked_list(names, "interrupt_before", "nodes"))
    for stop in stops:
        if not isinstance(stop, str) or stop not in node_names:
            use = ", ".join(node_names)
            raise errors.InvalidInputError(f"there is no node {short(stop)}: use one of {use}")
    return stops


def _build_graph(
    policy: ConsolidationPolicy | None, model: BaseChatModel | None, node_config: NodeConfig
) -> StateGraph[Any, Any, Any, Any]:
    """Build the graph of a cycle: its nodes and edges."""
    run = partial(CycleRun, node_config, _cycle_steps(policy, model))
    graph = StateGraph(
        ConsolidationState, context_schema=MemoryContext, input_schema=Input, output_schema=Output
    )
    for does in _NODES:
        retry = None if model is not None and does.__name__ == propose.__name__ else _RETRY
        graph.add_node(does.__name__, _make_node(does, run), retry_policy=retry)
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
    """Create a route for an agent's graph: to the subgraph when a cycle is due.

    `every` counts from the tenant's last cycle, in whichever thread; of several runs that find a
    cycle due at once, one begins it. The other conditions come from the thread's state: the turns
    among `messages`, `session_ended`, and `consolidated`, which the subgraph writes. Add these keys
    to the agent's state, and give it a checkpointer and a thread. LangGraph silently drops keys
    that a `TypedDict` does not name; for a Pydantic model or a dataclass the route raises an error.

    Args:
        schedule: The schedule of cycles.
        then: The node of the subgraph.
        otherwise: The node where the run goes on if no cycle is due.
        context: Whose memory it is, as `create_consolidation_graph` takes it.

    Raises:
        ConfigurationError: in a run, if its Pydantic model or dataclass lacks a key.
        InvalidTypeError: for a schedule of another type.

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
    checks.checked_instance(schedule, ConsolidationSchedule, "schedule")
    node_config = NodeConfig(context)

    def route(state: Any, config: RunnableConfig) -> Flow[str]:
        runtime, every = get_runtime(), schedule.every
        store, last, begins = checked_store(runtime.store), None, None
        fields = state if isinstance(state, Mapping) else vars(state)
        _check_state_keys(schedule, state, fields)
        if every is not None:
            tenant = node_config.context(runtime.context, config).root
            last = yield from invoke(store.run, lease.last_cycle_start(tenant))
            begins = lease.claim_cycle(tenant, store.flows.now, every)
        turns = count_turns_since(fields.get("messages") or (), fields.get("consolidated"))
        over, now = bool(fields.get("session_ended")), store.flows.now
        reason = due_reason(schedule, last, now=now, turns=turns, session_ended=over)
        if begins is not None and reason == BY_TIME:
            return then if (yield from invoke(store.run, begins)) else otherwise
        return otherwise if reason is None else then

    return RunnableLambda(*both_forms(route), name="consolidation_due")


def _check_state_keys(
    schedule: ConsolidationSchedule, state: Any, fields: Mapping[str, Any]
) -> None:
    """Raise an error if the state lacks a key by which the schedule counts."""
    needed = {
        "consolidated": schedule.every_turns is not None,
        "messages": schedule.every_turns is not None,
        "session_ended": schedule.on_session_end,
    }
    for name, is_needed in needed.items():
        if is_needed and name not in fields and not isinstance(state, Mapping):
            raise errors.ConfigurationError(
                f"{type(state).__name__} has no {name!r}, by which a cycle is due: add it to the "
                "agent's state, with a default"
            )


def _cycle_steps(
    policy: ConsolidationPolicy | None, model: BaseChatModel | None
) -> dict[str, CycleStep]:
    chosen = ConsolidationPolicy() if policy is None else policy
    policy = checks.checked_instance(chosen, ConsolidationPolicy, "policy")
    asked_of: Any = {}
    if policy.archive is not None:
        from langmem_tiers.consolidation.archive_files import ArchiveFiles  # noqa: PLC0415 - an extra of its own

        asked_of["archive_step"] = archive.Archive(policy.archive, ArchiveFiles())
    if model is not None:
        chat_models.checked_model(model)
        asked_of |= {
            "generaliser": generaliser_of(model),
            "judge": judges.judge_of(model),
            "summariser": judges.summariser_of(model),
        }
    return {step.name: step for step in cycle.steps(policy, **asked_of)}


def _make_node(does: NodeFlow, run: Callable[..., CycleRun]) -> Runnable[Any, Any]:
    """Make a node of a flow; it writes its numbers to the stream of mode `custom`."""

    def update(state: Any, config: RunnableConfig) -> Flow[dict[str, Any]]:
        runtime = get_runtime()
        cycle_run = run(checked_store(runtime.store), config, runtime.context)
        does_it = with_deadline_for(None, does(cycle_run, state))
        done = yield from invoke(cycle_run.store.run, does_it)
        runtime.stream_writer(progress(does.__name__, state, done))
        return done

    return RunnableLambda(*both_forms(update), name=does.__name__)


def _after_begin(state: Any) -> str:
    return "select" if state["skipped"] is None else "report"


def _after_select(state: Any) -> str | list[Send]:
    return _sends("propose", "ids", state, state["batches"]) or "report"


def _after_review(state: Any) -> str | list[Send]:
    return _sends("apply", "decisions", state, state["decisions"]) or "select"


def _sends(node: str, key: str, state: Any, batches: Sequence[Any]) -> list[Send]:
    shared = {name: state[name] for name in ("tenant", "cycle", "started_at", "ended", "step")}
    return [
        Send(node, {**shared, key: batch, "batch": (number, len(batches))})
        for number, batch in enumerate(batches, 1)
    ]
