"""TurnMiddleware: a turn for each message of an agent made by `create_agent`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Final, NotRequired, TypeVar

from langchain_core.messages import BaseMessage
from langchain_core.runnables.config import ensure_config

from langmem_tiers.core.errors import DatabaseError
from langmem_tiers.core.settings import OrchestratorSettings
from langmem_tiers.core.values import storable
from langmem_tiers.graph.agents import (
    AgentMiddleware,
    AgentState,
    ModelCallResult,
    ModelHandler,
    ModelRequest,
    PrivateStateAttr,
    shown,
)
from langmem_tiers.graph.extra import GraphBubbleUp, Runtime, ToolCallRequest
from langmem_tiers.graph.messages import said
from langmem_tiers.graph.node import (
    OnError,
    careful_of,
    checked_blocking,
    errors_of,
    last_question,
    of_state,
    text_of,
)
from langmem_tiers.graph.runs import Remembered, Remembering, Scope, asked, handed_over
from langmem_tiers.graph.tool_calls import Answer, Handler, ToolClock
from langmem_tiers.graph.turn import begun, context_of, keep, on_store, track_calls
from langmem_tiers.memory.asking import checked_flag
from langmem_tiers.memory.coordinator import MemoryCoordinator
from langmem_tiers.postgres.flow import Flow, both, unit
from langmem_tiers.turn.ending import commit, fail
from langmem_tiers.turn.layout import ORCHESTRATOR, Layout
from langmem_tiers.turn.orchestrator import MemoryOrchestrator
from langmem_tiers.turn.spending import Budget
from langmem_tiers.turn.turn import Router, checked_turn

T = TypeVar("T")

LONGEST_SAID: Final = 20_000
"""Characters that are kept of a message: some 5,000 tokens, so that it still fits into a context
by itself; our own choice."""
_log = logging.getLogger(__name__)


class TurnState(AgentState[Any]):
    """An agent's state, with the turn that goes on and what it was shown."""

    turn: NotRequired[Annotated[dict[str, Any] | None, PrivateStateAttr]]
    context: NotRequired[Annotated[str, PrivateStateAttr]]
    committed: NotRequired[dict[str, Any]]
    """What the turn left behind; empty where it could not be committed."""
    memory_errors: NotRequired[dict[str, str]]
    """What the turn goes without as Postgres failed: the error of what was to be done."""


class TurnMiddleware(Remembering, AgentMiddleware[TurnState, Any, Any]):
    """Goes through a turn with each message: its context, its tool calls, and its commit.

    The context is assembled once and enters through the system message of each request. Every tool
    call is recorded, with its parameters, its result or error and how long it took, and all of it
    is committed in one transaction when the agent is done. An agent whose model or tool raises
    leaves the trace of its turn alone; one that is resumed goes on with it. Beside
    `TieredMemoryMiddleware`, which recalls as well, an agent is refused.

    Example:
        ```python
        from langchain.agents import create_agent
        from langmem_tiers import MemoryContext
        from langmem_tiers.graph.turn_middleware import TurnMiddleware

        agent = create_agent(
            model, tools, middleware=[TurnMiddleware()], context_schema=MemoryContext, store=store
        )
        agent.invoke({"messages": ["When do keys change?"]}, context=MemoryContext(tenant="acme"))
        ```
    """

    state_schema = TurnState

    def __init__(
        self,
        *,
        budget: Budget | None = None,
        layout: Layout = ORCHESTRATOR,
        sources: Mapping[str, Any] | None = None,
        mode: str | None = None,
        filters: Mapping[str, Any] | None = None,
        remember: bool = True,
        outcome: Callable[[Any], bool | None] | None = None,
        settings: OrchestratorSettings | None = None,
        router: Router | None = None,
        on_error: OnError = "continue",
        context: Scope | None = None,
        coordinator: Callable[..., MemoryCoordinator] = MemoryCoordinator,
    ) -> None:
        """Say what a turn is.

        Args:
            budget: What each turn may spend.
            layout: `ORCHESTRATOR`, `PERSONA`, or a layout of one's own.
            sources: See `MemoryOrchestrator`.
            mode: The mode that the agent is in.
            filters: Options of `get_context` for every recall.
            remember: Memorize what the user and the assistant said; of a message longer than
                20,000 characters both ends.
            outcome: Whether the turn succeeded, as a function of the agent's state, or None if
                that is not known: then it went as its last tool call did.
            settings: See `MemoryOrchestrator`.
            router: See `MemoryOrchestrator`.
            on_error: What comes of a `DatabaseError`: `continue` tells it to the log, the stream
                and the state's `memory_errors`, and the agent goes on; `raise` lets it fail.
            context: Whose memory it is, a `MemoryContext` or a mapping with some of its fields:
                `{name}` in one stands for `config["configurable"]["name"]`.
            coordinator: Makes the coordinator from a store and `context`.
        """
        super().__init__()
        checked_flag(remember, "remember")
        checked_turn(budget=budget, layout=layout, settings=settings, filters=filters)
        checked_blocking(outcome, "outcome")
        self._careful = careful_of(on_error, "continue")
        self._whose = Remembered(context, coordinator)
        self._turn = partial(
            MemoryOrchestrator,
            budget=budget,
            layout=layout,
            sources=sources,
            mode=mode,
            settings=settings,
            router=router,
        )
        self._filters, self._remember, self._outcome = filters, remember, outcome
        self._clock = ToolClock()

    def _before_agent(self, state: TurnState, runtime: Runtime[Any]) -> Flow[dict[str, Any]]:
        """Begin a turn, and assemble its context."""
        memory = self._memory(runtime)
        return on_store(memory, self._begun(memory, state, runtime))

    def _wrap_model_call(
        self, request: ModelRequest[Any], handler: ModelHandler
    ) -> Flow[ModelCallResult[Any]]:
        """Show the turn's context to the model; if it fails, the turn leaves its trace."""
        request = shown(request, str(request.state.get("context") or ""))
        answered: Flow[Any] = handed_over(handler, request)
        return self._leaving_trace(request, answered)

    def _wrap_tool_call(self, request: ToolCallRequest, handler: Handler) -> Flow[Answer]:
        """Run a tool call, and note how long it took; if it raises, the turn leaves its trace."""
        timed = asked(self._clock.wrap_tool_call, self._clock.awrap_tool_call, request, handler)
        return self._leaving_trace(request, timed)

    def _after_agent(self, state: TurnState, runtime: Runtime[Any]) -> Flow[dict[str, Any]]:
        """Track the tool calls, memorize what was said, and commit."""
        memory = self._memory(runtime)
        return on_store(memory, self._ended(memory, state, runtime))

    before_agent, abefore_agent = both(_before_agent)
    wrap_model_call, awrap_model_call = both(_wrap_model_call)
    wrap_tool_call, awrap_tool_call = both(_wrap_tool_call)
    after_agent, aafter_agent = both(_after_agent)

    def _leaving_trace(
        self, request: ModelRequest[Any] | ToolCallRequest, doing: Flow[T]
    ) -> Flow[T]:
        """Do something; if it raises, the turn is told to have failed by it."""
        try:
            return (yield from doing)
        except GraphBubbleUp:
            raise
        except Exception as error:  # anything may fail; it is told in the trace, and goes on
            memory = self._memory(request.runtime)
            turn = self._turn(memory).begin(of_state(request.state, "turn"))
            try:
                yield from on_store(memory, fail(turn, error))
            except DatabaseError as refused:
                _log.warning("the trace of a turn that failed is not written: %s", refused)
            raise

    def _begun(
        self, memory: MemoryCoordinator, state: TurnState, runtime: Runtime[Any]
    ) -> Flow[dict[str, Any]]:
        messages: Sequence[BaseMessage] = state["messages"]
        question = last_question(messages)
        turn, prompt = self._turn(memory), storable(text_of(question))
        told: dict[str, str] = {}
        context = ""
        with self._careful("leave", runtime, told):  # the turn of an earlier message
            yield from begun(turn, state.get("turn"), question)
        if told:
            turn.begin(about=None if question is None else question.id)
        with self._careful("recall", runtime, told):
            about: Any = {"filters": self._filters, "show_messages": False}
            context = yield from context_of(turn, prompt, told, messages=messages[:-1], **about)
        return {"turn": turn.to_state(), "context": context, **errors_of(state, told, known=None)}

    def _ended(
        self, memory: MemoryCoordinator, state: TurnState, runtime: Runtime[Any]
    ) -> Flow[dict[str, Any]]:
        """Commit; a turn that cannot be leaves its trace when the next one begins."""
        told: dict[str, str] = {}
        with self._careful("commit", runtime, told):
            turn = self._turn(memory).begin(state.get("turn"))
            messages: Sequence[BaseMessage] = state["messages"]
            track_calls(turn, messages)
            spoken = said(messages, memory.context, ensure_config()) if self._remember else ()
            episodes = [{**one, "memory_type": "episodic"} for one in spoken]
            yield from keep(turn, episodes, longest=LONGEST_SAID)
            judged = None if self._outcome is None else self._outcome(state)
            report = yield from unit(commit(turn, success=judged))
            return {"turn": None, "committed": report.to_state()}
        return {"committed": {}, **errors_of(state, told, known=state)}
