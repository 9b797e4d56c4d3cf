"""Nodes by which a graph goes through a turn: its context, its tool calls, and what it leaves."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Any

from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda

from langmem_tiers.attempts import calls_in, messages_of, this_turn
from langmem_tiers.config import OrchestratorSettings
from langmem_tiers.coordinator import MemoryCoordinator
from langmem_tiers.errors import BudgetExceededError, InvalidInputError, InvalidTypeError
from langmem_tiers.learning_nodes import Judge, judged_of
from langmem_tiers.nodes import this_run
from langmem_tiers.orchestrator import MemoryOrchestrator
from langmem_tiers.planning import Plan, arun_plan, run_plan
from langmem_tiers.runs import (
    OfState,
    Remembered,
    checked_of_state,
    last_question,
    of_state,
    text_of,
)
from langmem_tiers.tool_clock import seconds_of
from langmem_tiers.turn.layout import ORCHESTRATOR, Layout
from langmem_tiers.turn.spending import Budget
from langmem_tiers.turn_flows import CommitReport
from langmem_tiers.turn_keeping import Router
from langmem_tiers.values import storable

try:
    from langgraph.runtime import get_runtime
except ImportError as error:
    from langmem_tiers.errors import MissingExtraError

    raise MissingExtraError(
        "nodes need LangGraph: pip install 'langmem-tiers[langgraph]'"
    ) from error

Body = Callable[[MemoryCoordinator, Any], Plan[dict[str, Any]]]
"""What a node does with the run's memory and the state, as a plan; it returns an update."""

_log = logging.getLogger(__name__)


def create_assemble_node(
    *,
    prompt: OfState | None = None,
    budget: Budget | None = None,
    layout: Layout = ORCHESTRATOR,
    sources: Mapping[str, Any] | None = None,
    tools: Sequence[Any] | None = None,
    mode: OfState | None = None,
    filters: Mapping[str, Any] | None = None,
    settings: OrchestratorSettings | None = None,
    tenant: str | None = None,
    project_id: str | None = None,
    session_id: str | None = None,
    coordinator: Callable[..., MemoryCoordinator] = MemoryCoordinator,
    name: str = "assemble",
) -> Runnable[Any, dict[str, Any]]:
    """A node that begins a turn and assembles its context, for `invoke` and `ainvoke`.

    It writes two keys of the state: `context`, a text for a prompt, and `turn`, the turn as JSON
    (see `MemoryState`). Passed again for the same message, the turn goes on and spends the same
    budget; for another message a new one begins, and one that was not committed leaves its trace
    alone. A retry of the node is the same turn.

    Args:
        prompt: What the turn is about: a key of the state, or a function of it. If not given, it is
            what the last human message says.
        budget: What the turn may spend.
        layout: `ORCHESTRATOR`, `PERSONA`, or a layout of one's own.
        sources: See `MemoryOrchestrator`.
        tools: What the agent can call.
        mode: The mode that the agent is in: a key of the state, or a function of it.
        filters: Options of `get_context` for every recall of the turn.
        settings: See `MemoryOrchestrator`.
        tenant: A label, in which `{name}` stands for `config["configurable"]["name"]`.
        project_id: Likewise.
        session_id: Likewise; `{thread_id}` for instance.
        coordinator: Makes the coordinator from a store and `context`.
        name: The node's name, in traces too.

    Example:
        ```python
        from langgraph.graph import StateGraph
        from langmem_tiers import MemoryContext
        from langmem_tiers.nodes import MemoryState
        from langmem_tiers.turn_nodes import create_assemble_node, create_commit_node

        builder = StateGraph(MemoryState, context_schema=MemoryContext)
        builder.add_node("assemble", create_assemble_node())
        builder.add_node("commit", create_commit_node())
        builder.add_edge("assemble", "commit")
        builder.set_entry_point("assemble")
        graph = builder.compile(store=store)
        graph.invoke({"messages": ["When do keys change?"]}, context=MemoryContext(tenant="acme"))
        ```
    """
    for what, given in {"prompt": prompt, "mode": mode}.items():
        if given is not None:
            checked_of_state(given, what)
    made: dict[str, Any] = {"layout": layout, "sources": sources, "settings": settings}

    def assemble(memory: MemoryCoordinator, state: Any) -> Plan[dict[str, Any]]:
        messages = messages_of(state)
        question = last_question(messages)
        about = None if question is None else question.id
        now_in = None if mode is None else of_state(state, mode)
        turn = MemoryOrchestrator(memory, budget=budget, mode=now_in, **made)
        known = of_state(state, "turn", None)
        if known and known["about"] == about:
            turn.begin(known)
        else:
            yield from _left(memory, known)
            turn = MemoryOrchestrator(
                memory, budget=budget, mode=now_in, turn_id=this_run().id, **made
            ).begin(about=about)
        asked = text_of(question) if prompt is None else of_state(state, prompt)
        found = yield from turn.assembling(
            storable(str(asked)), filters=filters, messages=messages or None, tools=tools
        )
        return {"context": found.text, "turn": turn.to_state()}

    return _node(name, _whose(tenant, project_id, session_id, coordinator), assemble)


def create_tool_tracking_node(
    *,
    budget: Budget | None = None,
    settings: OrchestratorSettings | None = None,
    tenant: str | None = None,
    project_id: str | None = None,
    session_id: str | None = None,
    coordinator: Callable[..., MemoryCoordinator] = MemoryCoordinator,
    name: str = "track",
) -> Runnable[Any, dict[str, Any]]:
    """A node that tracks the tool calls of the turn, after a tool node.

    It reads the calls since the last human message, each tracked once however often the node is
    passed, and writes the state key `turn`. How long a call took is known where the tool node is
    timed (see `ToolClock`). A call that there is no budget for is left out, and the trace says so.

    Args:
        budget: What the turn may spend; give it what the assemble node has.
        settings: See `MemoryOrchestrator`.
        tenant: A label, in which `{name}` stands for `config["configurable"]["name"]`.
        project_id: Likewise.
        session_id: Likewise.
        coordinator: Makes the coordinator from a store and `context`.
        name: The node's name, in traces too.

    Raises:
        InvalidInputError: when it runs, if no turn has begun.
    """

    def track(memory: MemoryCoordinator, state: Any) -> Plan[dict[str, Any]]:
        turn = MemoryOrchestrator(memory, budget=budget, settings=settings).begin(_going_on(state))
        track_calls(turn, messages_of(state))
        yield from ()
        return {"turn": turn.to_state()}

    return _node(name, _whose(tenant, project_id, session_id, coordinator), track)


def create_commit_node(
    *,
    success: Judge | None = None,
    memorize: OfState | None = None,
    budget: Budget | None = None,
    settings: OrchestratorSettings | None = None,
    router: Router | None = None,
    tenant: str | None = None,
    project_id: str | None = None,
    session_id: str | None = None,
    coordinator: Callable[..., MemoryCoordinator] = MemoryCoordinator,
    name: str = "commit",
) -> Runnable[Any, dict[str, Any]]:
    """A node that commits the turn: all that is pending, or nothing; a retry writes nothing twice.

    It writes two keys of the state: `committed`, what the turn left behind as JSON, and `turn`,
    None.

    Args:
        success: Whether the turn went well: a key of the state, or a function of it; if not given,
            it went as its last tool call did.
        memorize: What else is to be memorized: a key of the state, or a function of it, that holds
            a list of what `MemoryOrchestrator.memorize` takes.
        budget: What the turn may spend; give it what the assemble node has.
        settings: See `MemoryOrchestrator`.
        router: See `MemoryOrchestrator`.
        tenant: A label, in which `{name}` stands for `config["configurable"]["name"]`.
        project_id: Likewise.
        session_id: Likewise.
        coordinator: Makes the coordinator from a store and `context`.
        name: The node's name, in traces too.

    Raises:
        InvalidInputError: when it runs, if no turn has begun.
    """
    for what, given in {"success": success, "memorize": memorize}.items():
        if given is not None:
            checked_of_state(given, what)

    def commit(memory: MemoryCoordinator, state: Any) -> Plan[dict[str, Any]]:
        turn = MemoryOrchestrator(memory, budget=budget, settings=settings, router=router)
        turn.begin(_going_on(state))
        keep(turn, () if memorize is None else of_state(state, memorize, None) or ())
        judged = None if success is None else judged_of(state, success)
        report: CommitReport = yield turn.committing(success=judged)
        return {"committed": told(report), "turn": None}

    return _node(name, _whose(tenant, project_id, session_id, coordinator), commit)


def track_calls(turn: MemoryOrchestrator, messages: Sequence[Any]) -> None:
    """Track the tool calls since the last human message; what there is no budget for is told."""
    for one in calls_in(this_turn(messages)):
        try:
            turn.track_tool_invocation(
                one.call["name"],
                one.call["args"],
                result=one.said,
                error=one.said if one.failed else None,
                duration=seconds_of(one.answer),
                call_id=one.call["id"],
            )
        except BudgetExceededError as refused:
            _log.warning("a tool call is not tracked: %s", refused)


def keep(turn: MemoryOrchestrator, items: Iterable[Any]) -> None:
    """Memorize several things; what there is no budget for is told, and the turn goes on."""
    for one in items:
        try:
            turn.memorize(one)
        except BudgetExceededError as refused:
            _log.warning("something is not memorized: %s", refused)


def told(report: CommitReport) -> dict[str, Any]:
    """What a turn left behind, as JSON: of memories their keys."""
    return {
        "turn": report.turn,
        "summary": dict(report.summary),
        "episodic": [one["key"] for one in report.episodic],
        "semantic": [one["key"] for one in report.semantic],
        "goals": [dict(one) for one in report.goals],
        "lessons": list(report.lessons),
        "skills": list(report.skills),
    }


def _left(memory: MemoryCoordinator, known: Any) -> Generator[Any, Any, None]:
    """Leave a turn that another message ended."""
    if not known:
        return
    leaving = MemoryOrchestrator(memory).begin(known).leaving("another message came")
    if leaving is not None:
        yield leaving


def _going_on(state: Any) -> Mapping[str, Any]:
    known = of_state(state, "turn", None)
    if not known:
        raise InvalidInputError(
            "no turn has begun: put the assemble node before this one, and add the key 'turn' to "
            "the state (MemoryState has it)"
        )
    if not isinstance(known, Mapping):
        raise InvalidTypeError(f"the state's turn is JSON, not {type(known).__name__}")
    return known


def _whose(
    tenant: str | None,
    project_id: str | None,
    session_id: str | None,
    coordinator: Callable[..., MemoryCoordinator],
) -> Remembered:
    return Remembered(
        tenant=tenant, project_id=project_id, session_id=session_id, coordinator=coordinator
    )


def _node(name: str, whose: Remembered, body: Body) -> Runnable[Any, dict[str, Any]]:
    """A node for `invoke` and `ainvoke`, of one plan."""

    def step(state: Any, config: RunnableConfig) -> dict[str, Any]:
        memory = whose.memory(get_runtime(), config)
        return run_plan(body(memory, state), memory.tiered_store)

    async def astep(state: Any, config: RunnableConfig) -> dict[str, Any]:
        memory = whose.memory(get_runtime(), config)
        return await arun_plan(body(memory, state), memory.tiered_store)

    return RunnableLambda(step, astep, name=name)
