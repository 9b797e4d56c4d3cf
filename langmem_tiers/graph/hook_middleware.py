"""MemoryHooksMiddleware: an agent remembers what it is told and what it has done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, NotRequired

from langchain_core.messages import AIMessage
from langchain_core.runnables.config import ensure_config

from langmem_tiers.graph.agents import (
    AgentMiddleware,
    AgentState,
    ModelCallResult,
    ModelHandler,
    ModelRequest,
    PrivateStateAttr,
    shown,
)
from langmem_tiers.graph.extra import Runtime, ToolCallRequest
from langmem_tiers.graph.hooks import at_starts, merged, noted, said_last, started, submitted
from langmem_tiers.graph.messages import this_turn
from langmem_tiers.graph.node import OnHookError, careful_of
from langmem_tiers.graph.remind import LEASE_SECONDS, Reminding, remind
from langmem_tiers.graph.runs import Remembered, Remembering, Scope, asked, handed_over
from langmem_tiers.graph.tool_calls import Answer, Handler, held_once
from langmem_tiers.memory.coordinator import MemoryCoordinator
from langmem_tiers.memory.hook_data import EXPIRE_DAYS, Intends, checked_options
from langmem_tiers.memory.hooks import MemoryHooks
from langmem_tiers.postgres.flow import Flow, both
from langmem_tiers.remind.intentions import DEFAULT_REMINDERS, Predicates

_SESSION, _PROMPT, _TASKS = "session_start", "user_prompt", "completed_tasks"


class HooksState(AgentState[Any]):
    """An agent's state, with what hooks did and what they look out for."""

    hooks: NotRequired[Annotated[dict[str, Any], merged]]
    """What each hook did last, by its name; its `error` where something went wrong."""
    reminders: NotRequired[Annotated[list[dict[str, Any]], PrivateStateAttr]]
    """What was raised last; a session begins where nothing has been yet."""
    reminders_text: NotRequired[Annotated[str, PrivateStateAttr]]
    intentions: NotRequired[Annotated[list[dict[str, Any]], PrivateStateAttr]]
    todos_seen: NotRequired[Annotated[dict[str, Any], PrivateStateAttr]]


class MemoryHooksMiddleware(Remembering, AgentMiddleware[HooksState, Any, Any]):
    """Remembers what the user says and intends, and how todos were done; raises what is due.

    Before the agent answers, what is due is shown to the model; then the user's message is kept as
    working memory, and what it intends as prospective memory. When tools have run, the todos of
    LangChain's `TodoListMiddleware` that are newly completed are kept as procedural memories. That
    a session ends no agent can know: call `MemoryHooks.on_session_stop`, or add
    `create_session_end_node`.

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
        limit: int = DEFAULT_REMINDERS,
        before_tools: Sequence[str] = (),
        intends: Intends = "keywords",
        expire_days: float | None = EXPIRE_DAYS,
        lease_seconds: float = LEASE_SECONDS,
        on_error: OnHookError | Literal["continue"] = "tell",
        context: Scope | None = None,
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
            context, coordinator: Those of `TieredMemoryMiddleware`.

        Raises:
            InvalidInputError: for an option that cannot be.
        """
        super().__init__()
        self._asking = Reminding(None, at_starts(predicates), limit, limit, False, lease_seconds)  # noqa: FBT003 - no message
        self._remind = remind
        self._options = checked_options(before_tools, intends, expire_days)
        self._careful = careful_of("tell" if on_error == "continue" else on_error, "tell")
        self._whose = Remembered(context, coordinator)

    def _before_agent(self, state: HooksState, runtime: Runtime[Any]) -> Flow[dict[str, Any]]:
        """Raise what is due, and keep what the user said."""
        # Raised first: what a message intends is not to be raised by that message.
        hooks, careful = self._hooks(runtime), self._careful
        raised: dict[str, Any] = {"hooks": {}}
        if self._remind:
            raising = remind(hooks.memory, state, ensure_config(), asking=self._asking)
            raised = yield from started(_SESSION, careful, state, raising)
        kept = yield from submitted(_PROMPT, careful, hooks, said_last(state))
        return {**raised, "hooks": merged(raised["hooks"], kept["hooks"])}

    def _wrap_model_call(
        self, request: ModelRequest[Any], handler: ModelHandler
    ) -> Flow[ModelCallResult[Any]]:
        """Show the reminders to the model; delivered they are once it has answered."""
        text = str(request.state.get("reminders_text") or "")
        answer: ModelCallResult[Any] = yield from handed_over(handler, shown(request, text))
        leased: Any = request.state.get("reminders") or ()
        answered = any(isinstance(one, AIMessage) for one in this_turn(request.messages))
        if text and leased and not answered:
            memory = self._memory(request.runtime)
            with self._careful(_SESSION, None):
                yield from asked(
                    memory.acknowledge, memory.aacknowledge, *[one["token"] for one in leased]
                )
        return answer

    def _wrap_tool_call(self, request: ToolCallRequest, handler: Handler) -> Flow[Answer]:
        """Run a tool call, unless there is a reminder for before it."""
        if not self._remind:
            return handed_over(handler, request)
        return held_once(request, handler, self._memory)

    def _before_model(
        self, state: HooksState, runtime: Runtime[Any]
    ) -> Flow[dict[str, Any] | None]:
        """Keep how the todos were done that the tools before have completed."""
        todos: Any = state.get("todos")
        if not todos:
            return None
        return (yield from noted(_TASKS, self._careful, self._hooks(runtime), state, todos))

    before_agent, abefore_agent = both(_before_agent)
    wrap_model_call, awrap_model_call = both(_wrap_model_call)
    wrap_tool_call, awrap_tool_call = both(_wrap_tool_call)
    before_model, abefore_model = both(_before_model)
    after_agent, aafter_agent = both(_before_model)

    def _hooks(self, runtime: Runtime[Any]) -> MemoryHooks:
        return MemoryHooks(self._memory(runtime), **self._options)
