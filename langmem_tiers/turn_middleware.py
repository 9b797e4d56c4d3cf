"""TurnMiddleware: a turn for each message of an agent made by `create_agent`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, NotRequired

from langchain_core.messages import BaseMessage
from langchain_core.runnables.config import ensure_config

from langmem_tiers.config import OrchestratorSettings
from langmem_tiers.coordinator import MemoryCoordinator
from langmem_tiers.errors import InvalidTypeError, MissingExtraError
from langmem_tiers.middleware import said
from langmem_tiers.orchestrator import MemoryOrchestrator
from langmem_tiers.planning import Plan, arun_plan, run_plan
from langmem_tiers.recalled import with_recalled
from langmem_tiers.runs import Remembered, checked_blocking, last_question, text_of
from langmem_tiers.tool_clock import Answer, ToolClock
from langmem_tiers.turn.layout import ORCHESTRATOR, Layout
from langmem_tiers.turn.spending import Budget
from langmem_tiers.turn_keeping import Router
from langmem_tiers.turn_nodes import keep, told, track_calls
from langmem_tiers.values import storable

try:
    from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
    from langchain.agents.middleware.types import AgentState, ModelCallResult, PrivateStateAttr
    from langgraph.prebuilt.tool_node import ToolCallRequest
    from langgraph.runtime import Runtime
except ImportError as error:
    raise MissingExtraError(
        "the middleware needs LangChain's agents: pip install 'langmem-tiers[langchain]'"
    ) from error


class TurnState(AgentState[Any]):
    """An agent's state, with the turn that goes on and what it was shown."""

    turn: NotRequired[Annotated[dict[str, Any] | None, PrivateStateAttr]]
    context: NotRequired[Annotated[str, PrivateStateAttr]]
    committed: NotRequired[dict[str, Any]]


class TurnMiddleware(AgentMiddleware[TurnState, Any, Any]):
    """Goes through a turn with each message: its context, its tool calls, and its commit.

    The context is assembled once and enters through the system message of each request. Every tool
    call is recorded, with its parameters, its result or error and how long it took, and all of it
    is committed in one transaction when the agent is done. An agent that fails leaves nothing. Not
    to be used beside `TieredMemoryMiddleware`, which recalls as well.

    Example:
        ```python
        from langchain.agents import create_agent
        from langmem_tiers import MemoryContext
        from langmem_tiers.turn_middleware import TurnMiddleware

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
        tenant: str | None = None,
        project_id: str | None = None,
        session_id: str | None = None,
        coordinator: Callable[..., MemoryCoordinator] = MemoryCoordinator,
    ) -> None:
        """Say what a turn is.

        Args:
            budget: What each turn may spend.
            layout: `ORCHESTRATOR`, `PERSONA`, or a layout of one's own.
            sources: See `MemoryOrchestrator`.
            mode: The mode that the agent is in.
            filters: Options of `get_context` for every recall.
            remember: Memorize what the user and the assistant said.
            outcome: Whether the turn succeeded, as a function of the agent's state, or None if
                that is not known: then it went as its last tool call did.
            settings: See `MemoryOrchestrator`.
            router: See `MemoryOrchestrator`.
            tenant: A label, in which `{name}` stands for `config["configurable"]["name"]`.
            project_id: Likewise.
            session_id: Likewise.
            coordinator: Makes the coordinator from a store and `context`.
        """
        super().__init__()
        if not isinstance(remember, bool):
            raise InvalidTypeError(f"remember is True or False, not {remember!r:.80}")
        checked_blocking(outcome, "outcome")
        labels = {"tenant": tenant, "project_id": project_id, "session_id": session_id}
        self._whose = Remembered(**labels, coordinator=coordinator)
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

    def before_agent(self, state: TurnState, runtime: Runtime[Any]) -> dict[str, Any]:
        """Begin a turn, and assemble its context."""
        memory = self._memory(runtime)
        return run_plan(self._begun(memory, state), memory.tiered_store)

    async def abefore_agent(self, state: TurnState, runtime: Runtime[Any]) -> dict[str, Any]:
        """Begin a turn, and assemble its context."""
        memory = self._memory(runtime)
        return await arun_plan(self._begun(memory, state), memory.tiered_store)

    def wrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], ModelResponse[Any]],
    ) -> ModelCallResult[Any]:
        """Show the turn's context to the model."""
        return handler(_shown(request))

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelCallResult[Any]:
        """Show the turn's context to the model."""
        return await handler(_shown(request))

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Answer]
    ) -> Answer:
        """Run a tool call, and note how long it took."""
        return self._clock.wrap_tool_call(request, handler)

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Answer]]
    ) -> Answer:
        """Run a tool call, and note how long it took."""
        return await self._clock.awrap_tool_call(request, handler)

    def after_agent(self, state: TurnState, runtime: Runtime[Any]) -> dict[str, Any]:
        """Track the tool calls, memorize what was said, and commit."""
        memory = self._memory(runtime)
        return run_plan(self._ended(memory, state), memory.tiered_store)

    async def aafter_agent(self, state: TurnState, runtime: Runtime[Any]) -> dict[str, Any]:
        """Track the tool calls, memorize what was said, and commit."""
        memory = self._memory(runtime)
        return await arun_plan(self._ended(memory, state), memory.tiered_store)

    def _begun(self, memory: MemoryCoordinator, state: TurnState) -> Plan[dict[str, Any]]:
        messages: Sequence[BaseMessage] = state["messages"]
        question = last_question(messages)
        turn = self._turn(memory).begin(about=None if question is None else question.id)
        asked = storable(text_of(question))
        found = yield from turn.assembling(asked, filters=self._filters, messages=messages[:-1])
        return {"turn": turn.to_state(), "context": found.text}

    def _ended(self, memory: MemoryCoordinator, state: TurnState) -> Plan[dict[str, Any]]:
        turn = self._turn(memory).begin(state.get("turn"))
        messages: Sequence[BaseMessage] = state["messages"]
        track_calls(turn, messages)
        spoken = said(messages, memory.context, ensure_config()) if self._remember else ()
        keep(turn, ({**one, "memory_type": "episodic"} for one in spoken))
        judged = None if self._outcome is None else self._outcome(state)
        report = yield turn.committing(success=judged)
        return {"turn": None, "committed": told(report)}

    def _memory(self, runtime: Runtime[Any]) -> MemoryCoordinator:
        return self._whose.memory(runtime, ensure_config())


def _shown(request: ModelRequest[Any]) -> ModelRequest[Any]:
    text = str(request.state.get("context") or "")
    return request.override(system_message=with_recalled(request.system_message, text))
