"""The graph of consolidation: select, propose, review, apply, report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Annotated, Any, NamedTuple, TypedDict, TypeVar, cast
from uuid import uuid4

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage, convert_to_messages
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda

from langmem_tiers.consolidate.archive import Archive
from langmem_tiers.consolidate.cycle import steps
from langmem_tiers.consolidate.lease import is_held
from langmem_tiers.consolidate.policy import ConsolidationPolicy
from langmem_tiers.consolidate.report import Counts, StepCounts, with_counts
from langmem_tiers.consolidate.review import CONFLICT, reviewed
from langmem_tiers.consolidate.schedule import ConsolidationSchedule, due
from langmem_tiers.consolidate.steps import Cycle, Decision, Proposal, Step
from langmem_tiers.errors import InvalidTypeError, LeaseLostError, MissingExtraError
from langmem_tiers.flow import Flow
from langmem_tiers.generalising import generaliser_of
from langmem_tiers.memory import Moment
from langmem_tiers.runs import Remembered, tiered
from langmem_tiers.store import TieredStore
from langmem_tiers.structured import checked_model

try:
    from langgraph.graph import END, START, StateGraph
    from langgraph.graph.state import CompiledStateGraph
    from langgraph.runtime import get_runtime
    from langgraph.types import Checkpointer, Send
except ImportError as error:
    raise MissingExtraError(
        "the graph of consolidation needs LangGraph: pip install 'langmem-tiers[langgraph]'"
    ) from error

T = TypeVar("T")

BATCH = 100
"""Memories that are judged, and changed, together."""
FAN_OUT = 8
"""Batches at once."""
LEASE = "lease"
"""Where in `configurable` a worker says whose cycle it runs: a `Held`."""
HELD = "a worker is consolidating this tenant"
_MOST_STEPS = 100_000


class Held(NamedTuple):
    """A tenant that a worker holds the lease of."""

    tenant: str
    """As the database names it."""
    fence: int


def _gathered(old: list[Proposal], new: list[Proposal] | None) -> list[Proposal]:
    return [] if new is None else [*old, *new]


class ConsolidationState(TypedDict, total=False):
    """What the graph keeps between its nodes; all of it is plain data."""

    messages: list[Any]
    """Of the agent around it, if there is one; their turns are counted."""
    consolidated: dict[str, Any]
    """The report of the last cycle; `ConsolidationReport.of` reads it."""
    tenant: str
    cycle: str
    started_at: str
    skipped: str | None
    step: int
    after: int
    batches: list[list[int]]
    proposals: Annotated[list[Proposal], _gathered]
    decisions: list[list[Decision]]
    counts: Annotated[Counts, with_counts]


class _Input(TypedDict, total=False):
    messages: list[Any]


class _Output(TypedDict, total=False):
    consolidated: dict[str, Any]


class _Run(NamedTuple):
    """A node at work: what its flow goes by."""

    whose: Remembered
    policy: ConsolidationPolicy
    steps: Sequence[Step]
    store: TieredStore
    config: RunnableConfig
    context: Any

    @property
    def held(self) -> Held | None:
        """What a worker holds; None in anybody else's graph."""
        return (self.config.get("configurable") or {}).get(LEASE)

    @property
    def tenant(self) -> str:
        """Whose memory the cycle is about."""
        held = self.held
        return held.tenant if held else self.whose.context(self.context, self.config).root

    def step(self, state: Mapping[str, Any]) -> Step:
        """The step that the cycle is at."""
        number: int = state["step"]
        return self.steps[number]

    def cycle(self, state: Mapping[str, Any]) -> Cycle:
        """The cycle that a node belongs to."""
        omit_expired = self.store.flows.moment().omit_expired
        return Cycle(
            tenant=state["tenant"],
            cycle=state["cycle"],
            moment=Moment(datetime.fromisoformat(state["started_at"]), omit_expired),
            policy=self.policy,
            options=self.store.options,
            fence=self.held.fence if self.held else None,
        )


Does = Callable[[_Run, Any], Flow[dict[str, Any]]]
"""What a node does: its flow answers with the update of the state."""


def create_consolidation_graph(
    model: BaseChatModel | None = None,
    *,
    policy: ConsolidationPolicy | None = None,
    store: TieredStore | None = None,
    checkpointer: Checkpointer = None,
    tenant: str | None = None,
    name: str = "consolidation",
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """A compiled graph that consolidates the memory of a tenant, alone or as a subgraph.

    One invocation is one cycle. It looks at what changed since the last one, in batches, and
    writes the state key `consolidated`, which `ConsolidationReport.of` reads. A cycle that was
    broken off goes on from its checkpoint when it is invoked with None, and ends with the tables
    that an undisturbed one would have left. Progress comes with `stream_mode="custom"`.

    Args:
        model: A chat model that is asked, in the node `propose` alone, which memories say the same
            or contradict each other, and to generalise what is promoted. Rules do if not given.
        policy: What a cycle does; everything but archival if not given.
        store: The store; a subgraph takes its parent's.
        checkpointer: As `compile` takes it. With one, give each tenant a thread of its own.
        tenant: A label, in which `{name}` stands for `config["configurable"]["name"]`; the run's
            `context` says whose memory it is if not given.
        name: The graph's name, in traces too.

    Raises:
        InvalidTypeError: for a policy or a model that is none.

    Example:
        ```python
        from langmem_tiers import (
            ConsolidationReport, MemoryContext, TieredStore, create_consolidation_graph,
        )

        with TieredStore.embedded("./.memory") as store:
            graph = create_consolidation_graph(store=store)
            state = graph.invoke({}, context=MemoryContext(tenant="acme"))
            print(ConsolidationReport.of(state["consolidated"]))
        ```
    """
    chosen = ConsolidationPolicy() if policy is None else policy
    if not isinstance(chosen, ConsolidationPolicy):
        raise InvalidTypeError(f"policy is a ConsolidationPolicy, not {policy!r:.80}")
    if store is not None:
        tiered(store)
    whose, todo = Remembered(tenant=tenant), _steps(chosen, model)
    graph = StateGraph(ConsolidationState, input_schema=_Input, output_schema=_Output)
    for does in (begin, select, propose, review, apply, report):
        graph.add_node(does.__name__, _node(does, partial(_Run, whose, chosen, todo)))
    graph.add_edge(START, "begin")
    graph.add_conditional_edges("begin", _after_begin, ["select", "report"])
    graph.add_conditional_edges("select", _after_select, ["propose", "report"])
    graph.add_edge("propose", "review")
    graph.add_conditional_edges("review", _after_review, ["apply", "select"])
    graph.add_edge("apply", "select")
    graph.add_edge("report", END)
    compiled = graph.compile(checkpointer=checkpointer, store=store, name=name)
    return compiled.with_config(recursion_limit=_MOST_STEPS)


def consolidation_due(
    schedule: ConsolidationSchedule,
    *,
    then: str = "consolidation",
    otherwise: str = END,
    session_ended: str = "session_ended",
) -> Callable[[Any], str]:
    """A routing function for an agent's graph: to the subgraph when a cycle is due.

    It reads the thread's checkpointed state alone: the turns among `messages`, and in
    `consolidated`, which the subgraph writes, when the last cycle was; add that key to the state.

    Args:
        schedule: When a cycle is due.
        then: The node of the subgraph.
        otherwise: Where the run goes on if none is.
        session_ended: The state key that says whether the session ended, for `on_session_end`.
    """
    if not isinstance(schedule, ConsolidationSchedule):
        raise InvalidTypeError(f"schedule is a ConsolidationSchedule, not {schedule!r:.80}")

    def route(state: Any) -> str:
        known = state if isinstance(state, Mapping) else vars(state)
        reason = due(
            schedule,
            known.get("consolidated"),
            now=tiered(get_runtime().store).flows.now,
            turns=turns_in(known.get("messages") or ()),
            session_ended=bool(known.get(session_ended)),
        )
        return otherwise if reason is None else then

    return route


def turns_in(messages: Sequence[Any]) -> int:
    """How many of these a human said."""
    return sum(isinstance(one, HumanMessage) for one in convert_to_messages(messages))


def _steps(policy: ConsolidationPolicy, model: BaseChatModel | None) -> Sequence[Step]:
    archive = None
    if policy.archive is not None:
        from langmem_tiers.archiving import ArchiveFiles  # noqa: PLC0415 - an extra of its own

        archive = Archive(ArchiveFiles())
    if model is None:
        return steps(policy, archive_step=archive)
    checked_model(model)
    return steps(policy, generaliser=generaliser_of(model), archive_step=archive)


def _node(does: Does, run: Callable[..., _Run]) -> Runnable[Any, Any]:
    """A node that is a flow, in both worlds; it says what it did to whoever streams `custom`."""

    def at_work(config: RunnableConfig) -> _Run:
        runtime = get_runtime()
        return run(tiered(runtime.store), config, runtime.context)

    def call(state: Any, config: RunnableConfig) -> dict[str, Any]:
        one = at_work(config)
        update = one.store.run(does(one, state))
        get_runtime().stream_writer(_progress(does.__name__, one, {**state, **update}))
        return update

    async def acall(state: Any, config: RunnableConfig) -> dict[str, Any]:
        one = at_work(config)
        update = await one.store.arun(does(one, state))
        get_runtime().stream_writer(_progress(does.__name__, one, {**state, **update}))
        return update

    return RunnableLambda(call, acall, name=does.__name__)


def begin(run: _Run, _: Any) -> Flow[dict[str, Any]]:
    """Name the cycle and fix its time, which everything after goes by."""
    yield from run.store.flows.flush()  # what was read counts
    tenant, now = run.tenant, run.store.flows.now
    held = run.held is None and (yield from is_held(tenant, now))
    return {
        "tenant": tenant,
        "cycle": str(uuid4()),
        "started_at": now.isoformat(),
        "skipped": HELD if held else None,
        "step": 0,
        "after": 0,
        "batches": [],
        "proposals": None,
        "decisions": [],
        "counts": None,
    }


def select(run: _Run, state: Any) -> Flow[dict[str, Any]]:
    """The next batches: of this step, or of the next one that has any."""
    number, after = state["step"], state["after"]
    cycle = run.cycle(state)
    while number < len(run.steps):
        ids = yield from run.steps[number].select(cycle, after, BATCH * FAN_OUT)
        if ids:
            return {"step": number, "after": ids[-1], "batches": _chunks(ids)}
        yield from run.steps[number].finish(cycle)
        number, after = number + 1, 0
    return {"step": number, "after": after, "batches": []}


def propose(run: _Run, state: Any) -> Flow[dict[str, Any]]:
    """What is to become of a batch; models are asked here alone."""
    step = run.step(state)
    proposal = yield from step.propose(run.cycle(state), state["ids"])
    return {"proposals": [proposal], "counts": {step.name: _counts(kept=proposal["kept"])}}


def review(run: _Run, state: Any) -> Flow[dict[str, Any]]:
    """Of what the batches propose, what can stand together."""
    name = run.step(state).name
    standing, fallen = reviewed(state["proposals"], hands_over=name == "merge")
    counts = {name: _counts(left={CONFLICT: len(fallen)} if fallen else {})}
    return {"proposals": None, "decisions": _chunks(standing), "counts": counts}
    yield  # a flow, though it needs nothing


def apply(run: _Run, state: Any) -> Flow[dict[str, Any]]:
    """Carry out a batch of decisions, in one transaction."""
    step, decisions = run.step(state), state["decisions"]
    try:
        done = yield from step.apply(run.cycle(state), decisions)
    except LeaseLostError:
        if run.held is not None:
            raise  # a worker that has lost its lease stops
        return {"counts": {step.name: _counts(left={HELD: len(decisions)})}}
    return {"counts": {step.name: _counts(**done)}}


def report(run: _Run, state: Any) -> Flow[dict[str, Any]]:
    """Say what the cycle did."""
    names = ("tenant", "cycle", "started_at", "counts", "skipped")
    said = {
        **{name: state[name] for name in names},
        "finished_at": run.store.flows.now.isoformat(),
        "turns": turns_in(state.get("messages") or ()),
    }
    return {"consolidated": said, "decisions": [], "batches": []}
    yield  # a flow, though it needs nothing


def _after_begin(state: Any) -> str:
    return "select" if state["skipped"] is None else "report"


def _after_select(state: Any) -> str | list[Send]:
    sends = [Send("propose", {**_shared(state), "ids": ids}) for ids in state["batches"]]
    return sends or "report"


def _after_review(state: Any) -> str | list[Send]:
    sends = [Send("apply", {**_shared(state), "decisions": some}) for some in state["decisions"]]
    return sends or "select"


def _shared(state: Any) -> dict[str, Any]:
    return {name: state[name] for name in ("tenant", "cycle", "started_at", "step")}


def _chunks(several: Sequence[T]) -> list[list[T]]:
    return [list(several[i : i + BATCH]) for i in range(0, len(several), BATCH)]


def _counts(
    *,
    done: dict[str, int] | None = None,
    left: dict[str, int] | None = None,
    kept: dict[str, int] | None = None,
    moves: Sequence[str] = (),
) -> StepCounts:
    return {"done": done or {}, "left": left or {}, "kept": kept or {}, "moves": list(moves)}


def _progress(node: str, run: _Run, state: Mapping[str, Any]) -> dict[str, Any]:
    """What whoever streams `custom` sees of a node."""
    number = state.get("step", 0)
    counts = cast("Counts", state.get("counts") or {})
    return {
        "consolidation": node,
        "tenant": state["tenant"],
        "step": run.steps[number].name if number < len(run.steps) else None,
        "counts": counts,
    }
