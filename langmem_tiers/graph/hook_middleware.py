"""MemoryHooksMiddleware: an agent remembers what it is told and what it has done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, NotRequired

from langchain_core.messages import AIMessage

from langmem_tiers.graph.agents import (
    AgentMiddleware,
    AgentState,
    ModelCallResult,
    ModelHandler,
    ModelRequest,
    PrivateStateAttr,
    Remembering,
)
from langmem_tiers.graph.careful import OnHookError, careful_of
from langmem_tiers.graph.driven import asked
from langmem_tiers.graph.extra import Runtime, ToolCallRequest
from langmem_tiers.graph.hooks import Said, merged, noted, submitted
from langmem_tiers.graph.messages import this_turn
from langmem_tiers.graph.node import checked_blocking, run_of
from langmem_tiers.graph.remind import LEASE_SECONDS, reminders_text
from langmem_tiers.graph.scope import Remembered, Scope
from langmem_tiers.graph.tool_calls import Answer, Handler, held_once
from langmem_tiers.learn.outcome import Run
from langmem_tiers.memory.coordinator import MemoryCoordinator
from langmem_tiers.memory.hook_data import EXPIRE_DAYS, Intends, checked_options
from langmem_tiers.memory.hooks import MemoryHooks
from langmem_tiers.postgres.flow import Flow, both
from langmem_tiers.recall.recalled import with_recalled
from langmem_tiers.remind.intentions import (
    DEFAULT_REMINDERS,
    Intention,
    Predicates,
    Reminder,
    checked_limit,
    checked_predicates,
    checked_seconds,
)

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


class MemoryHooksMiddleware(Remembering, AgentMiddleware[HooksState, Any, Any]):
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
            context: Whose memory it is, a `MemoryContext` or a mapping with some of its fields:
                `{name}` in one stands for `config["configurable"]["name"]`.
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
        self._whose = Remembered(context, coordinator)

    def _before_agent(self, state: HooksState, runtime: Runtime[Any]) -> Flow[dict[str, Any]]:
        """Raise what is due, and keep what the user said."""
        # Raised first: what a message intends is not to be raised by that message.
        hooks = self._hooks(runtime)
        raised = yield from self._careful(_SESSION, self._raised(hooks, state, run_of(runtime)))
        text, tokens = raised.pop("text", ""), raised.pop("tokens", [])
        kept = yield from self._careful(_PROMPT, submitted(hooks, Said.of(state)))
        began = {} if "error" in raised else {"session_began": True}
        told = {"reminders_text": text, "reminders_leased": tokens, **began}
        return {**told, "hooks": {_SESSION: raised, _PROMPT: kept}}

    def _wrap_model_call(
        self, request: ModelRequest[Any], handler: ModelHandler
    ) -> Flow[ModelCallResult[Any]]:
        """Show the reminders to the model; delivered they are once it has answered."""
        answer: ModelCallResult[Any] = yield from asked(handler, handler, _shown(request))
        if tokens := _undelivered(request):
            memory = self._memory(request.runtime)
            yield from self._careful(_SESSION, _delivered(memory, tokens))
        return answer

    def _wrap_tool_call(self, request: ToolCallRequest, handler: Handler) -> Flow[Answer]:
        """Run a tool call, unless there is a reminder for before it."""
        if not self._remind:
            return asked(handler, handler, request)
        return held_once(request, handler, lambda: self._memory(request.runtime))

    def _before_model(
        self, state: HooksState, runtime: Runtime[Any]
    ) -> Flow[dict[str, Any] | None]:
        """Keep how the todos were done that the tools before have completed."""
        todos: Any = state.get("todos")
        if not todos:
            return None
        return (yield from noted(self._hooks(runtime), todos, state, _TASKS, self._careful))

    def _after_agent(self, state: HooksState, runtime: Runtime[Any]) -> Flow[dict[str, Any] | None]:
        """Keep how the todos were done that the last tools have completed."""
        return self._before_model(state, runtime)

    before_agent, abefore_agent = both(_before_agent)
    wrap_model_call, awrap_model_call = both(_wrap_model_call)
    wrap_tool_call, awrap_tool_call = both(_wrap_tool_call)
    before_model, abefore_model = both(_before_model)
    after_agent, aafter_agent = both(_after_agent)

    def _raised(self, hooks: MemoryHooks, state: HooksState, run: Run) -> Flow[dict[str, Any]]:
        """What is due, and at a session's first message what is open as well."""
        if not self._remind:
            return {}
        memory, said = hooks.memory, Said.of(state).text or None
        about: Any = {"limit": self._limit, "lease_seconds": self._lease, "run_id": run}
        if self._predicates is not None:
            about |= {"state": state, "predicates": self._predicates}
        if state.get("session_began"):
            reminders = yield from asked(memory.remind, memory.aremind, said, **about)
            return _told(reminders)
        start = yield from asked(hooks.on_session_start, hooks.aon_session_start, said, **about)
        known = {one.key for one in start.reminders}
        beside = [one for one in start.pending if one.key not in known]
        return {**_told(start.reminders, beside), "pending": [one.key for one in start.pending]}

    def _hooks(self, runtime: Runtime[Any]) -> MemoryHooks:
        return MemoryHooks(self._memory(runtime), **self._options)


def _told(reminders: Sequence[Reminder], beside: Sequence[Intention] = ()) -> dict[str, Any]:
    """What a run is told of reminders."""
    return {
        "reminders": [one.key for one in reminders],
        "tokens": [one.token for one in reminders],
        "text": reminders_text(reminders, beside),
    }


def _delivered(memory: MemoryCoordinator, tokens: Sequence[str]) -> Flow[dict[str, Any]]:
    """Say that the model saw them; where that fails, they are raised again."""
    yield from asked(memory.acknowledge, memory.aacknowledge, *tokens)
    return {}


def _undelivered(request: ModelRequest[Any]) -> Sequence[str]:
    """What is leased for this turn, if the model answers for the first time in it."""
    tokens: Sequence[str] = request.state.get("reminders_leased") or ()  # type: ignore[assignment]
    answered = any(isinstance(one, AIMessage) for one in this_turn(request.messages))
    return () if answered else tokens


def _shown(request: ModelRequest[Any]) -> ModelRequest[Any]:
    text = str(request.state.get("reminders_text") or "")
    return request.override(system_message=with_recalled(request.system_message, text))
