"""MemoryHooksMiddleware: an agent remembers what it is told and what it has done."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any, Literal, NotRequired

from langchain_core.messages import AIMessage
from langchain_core.runnables.config import ensure_config

from langmem_tiers.core.errors import MissingExtraError
from langmem_tiers.graph.attempts import this_turn
from langmem_tiers.graph.hooks import OnError, Said, careful_of, hooks_of, merged, noted, submitted
from langmem_tiers.graph.node import (
    Remembered,
    at_once,
    awaitable,
    blocking,
    checked_blocking,
    run_of,
)
from langmem_tiers.graph.remind import LEASE_SECONDS, reminders_text
from langmem_tiers.graph.tool_lessons import Answer
from langmem_tiers.graph.tool_reminders import held_once
from langmem_tiers.learn.outcome import Run
from langmem_tiers.memory.coordinator import MemoryCoordinator
from langmem_tiers.memory.hook_data import (
    EXPIRE_DAYS,
    Intends,
    checked_options,
)
from langmem_tiers.memory.hooks import MemoryHooks
from langmem_tiers.recall.recalled import with_recalled
from langmem_tiers.remind.asked import (
    DEFAULT_LIMIT,
    Predicates,
    checked_limit,
    checked_predicates,
    checked_seconds,
)

try:
    from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
    from langchain.agents.middleware.types import AgentState, ModelCallResult, PrivateStateAttr
    from langgraph.prebuilt.tool_node import ToolCallRequest
    from langgraph.runtime import Runtime
except ImportError as error:
    raise MissingExtraError(
        "the middleware needs LangChain's agents: pip install 'langmem-tiers[langchain]'"
    ) from error

_SESSION, _PROMPT, _TASKS = "session_start", "user_prompt", "completed_tasks"


class HooksState(AgentState[Any]):
    """An agent's state, with what hooks did and what they look out for."""

    hooks: NotRequired[Annotated[dict[str, Any], merged]]
    """What each hook did last, by its name; its `error` where something went wrong."""
    reminders_text: NotRequired[Annotated[str, PrivateStateAttr]]
    reminders_leased: NotRequired[Annotated[list[str], PrivateStateAttr]]
    """The tokens of what the model has not seen yet."""
    todos_seen: NotRequired[Annotated[dict[str, Any], PrivateStateAttr]]
    session_began: NotRequired[Annotated[bool, PrivateStateAttr]]


class MemoryHooksMiddleware(AgentMiddleware[HooksState, Any, Any]):
    """Remembers what the user says and intends, and how todos were done; raises what is due.

    Before the agent answers, what is due is shown to the model, at a session's first message with
    all that is open, by priority; then the user's message is kept as working memory, and what it
    intends as prospective memory. When tools have run, the todos of LangChain's
    `TodoListMiddleware` that are newly completed are kept as procedural memories. That a session
    ends no agent can know: call `MemoryHooks.on_session_stop`, or add `create_session_end_node`.

    The session is the context's, else the thread. It works alone and beside `TurnMiddleware`, best
    after it, so that the turn's context does not hold the message itself.

    Example:
        ```python
        from langchain.agents import create_agent
        from langchain.agents.middleware import TodoListMiddleware
        from langmem_tiers import MemoryContext, MemoryHooksMiddleware, TurnMiddleware

        agent = create_agent(
            model,
            tools,
            middleware=[TodoListMiddleware(), TurnMiddleware(), MemoryHooksMiddleware()],
            context_schema=MemoryContext,
            store=store,
        )
        ```
    """

    state_schema = HooksState

    def __init__(
        self,
        *,
        remind: bool = True,
        predicates: Predicates | None = None,
        limit: int = DEFAULT_LIMIT,
        before_tools: Sequence[str] = (),
        intends: Intends = "keywords",
        expire_days: float | None = EXPIRE_DAYS,
        lease_seconds: float = LEASE_SECONDS,
        on_error: OnError | Literal["continue"] = "tell",
        tenant: str | None = None,
        project_id: str | None = None,
        session_id: str | None = None,
        coordinator: Callable[..., MemoryCoordinator] = MemoryCoordinator,
    ) -> None:
        """Say what is remembered.

        Args:
            remind: Raise what is due, and show it to the model.
            predicates: The functions of the state by the names that intentions know them by.
            limit: Reminders at most, and open intentions at most that are listed.
            before_tools: Names of tools that a message may intend something before. A call of such
                a tool is answered with the reminder, once, and not run; see `ToolReminders`.
            intends: `keywords`, or `asked`; see `MemoryHooks`.
            expire_days: After how many days what names no occasion expires; None for never.
            lease_seconds: After how many seconds a reminder is due again that the model did not
                get to see, as its call failed.
            on_error: `tell` writes what went wrong to the log and to the state's `hooks`, and the
                agent goes on, for which `continue` is another word; `raise` lets it fail.
            tenant: A label, in which `{name}` stands for `config["configurable"]["name"]`.
            project_id: Likewise.
            session_id: Likewise.
            coordinator: Makes the coordinator from a store and `context`.

        Raises:
            InvalidInputError: for an option that cannot be.
        """
        super().__init__()
        for named, predicate in checked_predicates(predicates).items():
            checked_blocking(predicate, f"the predicate {named!r}")
        self._remind, self._predicates, self._limit = remind, predicates, checked_limit(limit)
        self._options = checked_options(before_tools, intends, expire_days)
        self._lease = checked_seconds(lease_seconds)
        self._careful = careful_of("tell" if on_error == "continue" else on_error)
        self._whose = Remembered(
            tenant=tenant, project_id=project_id, session_id=session_id, coordinator=coordinator
        )

    def before_agent(self, state: HooksState, runtime: Runtime[Any]) -> dict[str, Any]:
        """Raise what is due, and keep what the user said."""
        hooks = self._hooks(runtime)
        memory = blocking(hooks.memory)
        return at_once(self._begun(blocking(hooks), memory, state, run_of(runtime)))

    async def abefore_agent(self, state: HooksState, runtime: Runtime[Any]) -> dict[str, Any]:
        """Raise what is due, and keep what the user said."""
        hooks = self._hooks(runtime)
        return await self._begun(hooks, hooks.memory, state, run_of(runtime))

    def wrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], ModelResponse[Any]],
    ) -> ModelCallResult[Any]:
        """Show the reminders to the model; delivered they are once it has answered."""
        answer = handler(_shown(request))
        if tokens := _undelivered(request):
            at_once(self._delivered(blocking(self._memory(request.runtime)), tokens))
        return answer

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelCallResult[Any]:
        """Show the reminders to the model; delivered they are once it has answered."""
        answer = await handler(_shown(request))
        if tokens := _undelivered(request):
            await self._delivered(self._memory(request.runtime), tokens)
        return answer

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Answer]
    ) -> Answer:
        """Run a tool call, unless there is a reminder for before it."""
        if not self._remind:
            return handler(request)
        memory = self._memory(request.runtime)
        return at_once(held_once(request, awaitable(handler), lambda: blocking(memory)))

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Answer]]
    ) -> Answer:
        """Run a tool call, unless there is a reminder for before it."""
        if not self._remind:
            return await handler(request)
        return await held_once(request, handler, lambda: self._memory(request.runtime))

    def before_model(self, state: HooksState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Keep how the todos were done that the tools before have completed."""
        return at_once(self._noted(blocking(self._hooks(runtime)), state))

    async def abefore_model(
        self, state: HooksState, runtime: Runtime[Any]
    ) -> dict[str, Any] | None:
        """Keep how the todos were done that the tools before have completed."""
        return await self._noted(self._hooks(runtime), state)

    def after_agent(self, state: HooksState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Keep how the todos were done that the last tools have completed."""
        return at_once(self._noted(blocking(self._hooks(runtime)), state))

    async def aafter_agent(self, state: HooksState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Keep how the todos were done that the last tools have completed."""
        return await self._noted(self._hooks(runtime), state)

    async def _begun(
        self, hooks: MemoryHooks, memory: MemoryCoordinator, state: HooksState, run: Run
    ) -> dict[str, Any]:
        """Raise first: what a message intends is not to be raised by that message."""
        said = Said.of(state)
        raised = await self._careful(_SESSION, self._raised(hooks, memory, state, run))
        text, tokens = raised.pop("text", ""), raised.pop("tokens", [])
        kept = await self._careful(_PROMPT, submitted(hooks, said))
        began = {} if "error" in raised else {"session_began": True}
        told = {"reminders_text": text, "reminders_leased": tokens, **began}
        return {**told, "hooks": {_SESSION: raised, _PROMPT: kept}}

    async def _delivered(self, memory: MemoryCoordinator, tokens: Sequence[str]) -> None:
        """Say that the model saw them; where that fails, they are raised again."""

        async def acknowledge() -> dict[str, Any]:
            await memory.aacknowledge(*tokens)
            return {}

        await self._careful(_SESSION, acknowledge())

    async def _raised(
        self, hooks: MemoryHooks, memory: MemoryCoordinator, state: HooksState, run: Run
    ) -> dict[str, Any]:
        """What is due, and at a session's first message what is open as well."""
        if not self._remind:
            return {}
        said = Said.of(state).text or None
        asked: dict[str, Any] = {
            "limit": self._limit, "lease_seconds": self._lease, "run_id": run,
        }  # fmt: skip
        if self._predicates is not None:
            asked |= {"state": state, "predicates": self._predicates}
        if state.get("session_began"):
            reminders = await memory.aremind(said, **asked)
            return {
                "reminders": [one.key for one in reminders],
                "tokens": [one.token for one in reminders],
                "text": reminders_text(reminders),
            }
        start = await hooks.aon_session_start(said, **asked)
        known = {one.key for one in start.reminders}
        beside = [one for one in start.pending if one.key not in known]
        return {
            "reminders": [one.key for one in start.reminders],
            "tokens": [one.token for one in start.reminders],
            "pending": [one.key for one in start.pending],
            "text": reminders_text(start.reminders, beside),
        }

    async def _noted(self, hooks: MemoryHooks, state: HooksState) -> dict[str, Any] | None:
        todos: Any = state.get("todos")
        return await noted(hooks, todos, state, _TASKS, self._careful) if todos else None

    def _hooks(self, runtime: Runtime[Any]) -> MemoryHooks:
        return hooks_of(self._whose, runtime, ensure_config(), self._options)

    def _memory(self, runtime: Any) -> MemoryCoordinator:
        return self._whose.memory(runtime, ensure_config())


def _undelivered(request: ModelRequest[Any]) -> Sequence[str]:
    """What is leased for this turn, if the model answers for the first time in it."""
    tokens: Sequence[str] = request.state.get("reminders_leased") or ()  # type: ignore[assignment]
    answered = any(isinstance(one, AIMessage) for one in this_turn(request.messages))
    return () if answered else tokens


def _shown(request: ModelRequest[Any]) -> ModelRequest[Any]:
    text = str(request.state.get("reminders_text") or "")
    return request.override(system_message=with_recalled(request.system_message, text))
