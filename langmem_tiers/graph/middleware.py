"""TieredMemoryMiddleware: memory for an agent made by `create_agent`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, NamedTuple, NotRequired, TypedDict, Unpack
from uuid import uuid4

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables.config import ensure_config

from langmem_tiers.core.errors import ConfigurationError, InvalidTypeError, short
from langmem_tiers.core.memory import Recollection
from langmem_tiers.core.options import RecallOptions
from langmem_tiers.core.structured import checked_model
from langmem_tiers.core.values import storable
from langmem_tiers.graph.agents import (
    AgentMiddleware,
    AgentState,
    ExtendedModelResponse,
    ModelCallResult,
    ModelHandler,
    ModelRequest,
    PrivateStateAttr,
)
from langmem_tiers.graph.context import Remembered, Remembering, Scope
from langmem_tiers.graph.driven import asked, handed_over
from langmem_tiers.graph.extra import Command, Runtime, ToolCallRequest, UntrackedValue
from langmem_tiers.graph.messages import attempts_in, concern_of, key_of, said
from langmem_tiers.graph.node import (
    DEFAULT_LESSONS,
    OnError,
    careful_of,
    checked,
    checked_blocking,
    checked_lessons,
    errors_of,
    last_question,
    of_state,
    run_of,
    text_of,
)
from langmem_tiers.graph.tool_calls import Answer, Handler, ToolLessons
from langmem_tiers.learn.outcome import Run
from langmem_tiers.memory.asking import DEFAULT_LIMIT
from langmem_tiers.memory.coordinator import MemoryCoordinator
from langmem_tiers.postgres.flow import Flow, both
from langmem_tiers.recall.fence import recalled_text, with_recalled

Judge = Callable[[Any], bool | None]
"""Whether a turn succeeded, of an agent's state; None is not known."""

_MOST = 1000
"""Memories that one recall returns at most."""
_TURNS = 256
"""Turns whose memories are kept, the latest: a turn whose memories are gone recalls them anew."""


class _Turn(NamedTuple):
    """What was recalled, in which run, and the message it was recalled for."""

    message_id: str | None
    run: Run
    found: tuple[Recollection, ...]


class Noted(TypedDict):
    """The run that a turn's memories are credited by, and the message they were recalled for."""

    run: str
    message_id: str | None


class TieredMemoryState(AgentState[Any]):
    """An agent's state, with what the middleware knows of this turn."""

    recalled_turn: NotRequired[Annotated[str, UntrackedValue, PrivateStateAttr]]
    """The name its memories are kept under, and no more: streams show the whole state."""
    recalled_run: NotRequired[Annotated[Noted, PrivateStateAttr]]
    """In the checkpoint as well: an agent that is resumed is still the same run."""
    memory_errors: NotRequired[dict[str, str]]
    """What the turn goes without as Postgres failed: the error of what was to be done."""


class TieredMemoryMiddleware(Remembering, AgentMiddleware[TieredMemoryState, Any, Any]):
    """Recalls what matters for the user's message and shows it to the model.

    Memories enter through the system message of the request: they are never among the saved
    messages. One recall serves a whole turn, however many tools are called in it. When a tool has
    failed, what was learned from that failure before comes first. The memory is that of the store
    the agent was created with; whose it is says the run's context, a `MemoryContext` or a mapping
    with its fields, and over it the arguments here.

    Example:
        ```python
        from langchain.agents import create_agent
        from langmem_tiers import MemoryContext
        from langmem_tiers.graph.middleware import TieredMemoryMiddleware

        agent = create_agent(
            model,
            middleware=[TieredMemoryMiddleware(limit=3, remember=True)],
            context_schema=MemoryContext,
            store=store,
        )
        agent.invoke({"messages": ["When do keys change?"]}, context=MemoryContext(tenant="acme"))
        ```
    """

    state_schema = TieredMemoryState

    def __init__(
        self,
        *,
        remember: bool = False,
        lessons: int = DEFAULT_LESSONS,
        hold_repeats: bool = True,
        outcome: Judge | None = None,
        reflect: bool | BaseChatModel = False,
        holdout: float = 0.0,
        on_error: OnError = "continue",
        context: Scope | None = None,
        coordinator: Callable[..., MemoryCoordinator] = MemoryCoordinator,
        **options: Unpack[RecallOptions],
    ) -> None:
        """Say what is recalled.

        Args:
            remember: Store what the user and the assistant said when the agent is done, as
                episodic memories of the thread; a run that is repeated stores them once. What
                still stands among the messages is then not recalled as well.
            lessons: Lessons at most that a failure brings; 0 for none.
            hold_repeats: Do not run a tool call that failed before in just this form, but answer
                it with the lesson, once; see `ToolLessons`. False runs every call.
            outcome: Whether the turn succeeded, as a function of the agent's state, or None if
                that is not known. When the agent is done, what it was shown is credited with it.
            reflect: Learn from the tool calls that failed in the turn when the agent is done; see
                `create_reflexion_node`. True extracts the lessons, a chat model draws them.
            holdout: The share of memories that each turn goes without; see `get_context`.
            on_error: What comes of a `DatabaseError`: `continue` tells it to the log, the stream
                and the state's `memory_errors`, and the agent goes on; `raise` lets it fail.
            context, coordinator: Those of every node; see `create_recall_node`.
            options: Those of `MemoryCoordinator.get_context`: `limit`, `max_tokens`, ….

        Raises:
            InvalidInputError: for an option that no recall could take.
        """
        super().__init__()
        checked_lessons(lessons, holdout)
        if outcome is not None and not callable(outcome):
            raise InvalidTypeError("outcome is a function of the agent's state")
        checked_blocking(outcome, "outcome")
        if not isinstance(reflect, bool):
            checked_model(reflect)
        self._careful = careful_of(on_error, "continue")
        self._model = None if isinstance(reflect, bool) else reflect
        self._remember, self._reflect = remember, reflect is not False
        self._whose = Remembered(context, coordinator)
        self._lessons, self._holdout, self._outcome = lessons, holdout, outcome
        self._tool_lessons = ToolLessons(
            hold_repeats=hold_repeats,
            with_errors=False,  # the model's next call shows them, and messages are saved
            lessons=lessons,
            holdout=holdout,
            context=context,
            coordinator=coordinator,
            run=lambda request: Run(noted["run"]) if (noted := _noted(request.state)) else None,
        )
        self._options = checked(options, type(self))
        self._limit = DEFAULT_LIMIT if (most := options.get("limit")) is None else most
        self._turns: dict[str, _Turn] = {}

    def _wrap_model_call(
        self, request: ModelRequest[Any], handler: ModelHandler
    ) -> Flow[ModelCallResult[Any]]:
        """Show the turn's memories to the model, and first what the last failure taught before."""
        if of_state(request.state, "turn", None) is not None:
            raise ConfigurationError(
                "the agent has a TurnMiddleware, which recalls and remembers by itself: leave "
                "TieredMemoryMiddleware out, or TurnMiddleware"
            )
        memory = self._memory(request.runtime)
        known, told = self._of_this_turn(request), dict[str, str]()
        turn = known or (yield from self._recall(memory, request, told))
        lessons: Sequence[Recollection] = ()
        if concern := concern_of(request, self._lessons):
            about = {**concern, "run_id": turn.run, "holdout": self._holdout}
            with self._careful("lessons", request.runtime, told):
                lessons = yield from asked(memory.get_lessons, **about)
        text = recalled_text(turn.found, lessons)
        shown = request.override(system_message=with_recalled(request.system_message, text))
        response = yield from handed_over(handler, shown)
        update = {**({} if known else self._kept(turn)), **errors_of(request.state, told, known)}
        return ExtendedModelResponse(response, Command(update=update)) if update else response

    def _wrap_tool_call(self, request: ToolCallRequest, handler: Handler) -> Flow[Answer]:
        """Run a tool call, unless it is held as one that failed before."""
        lessons = self._tool_lessons
        return asked(lessons.wrap_tool_call, request, handler)

    def _after_agent(
        self, state: TieredMemoryState, runtime: Runtime[Any]
    ) -> Flow[dict[str, Any] | None]:
        """Credit what was shown, learn from failures, and remember what was said, if asked to."""
        memory = self._memory(runtime)
        told: dict[str, str] = {}
        if credit := self._credit(state):
            with self._careful("outcome", runtime, told):
                yield from asked(memory.record_outcome, **credit)
        if self._reflect:
            with self._careful("reflect", runtime, told):
                failed = attempts_in(state["messages"])
                yield from asked(memory.reflect, failed, model=self._model)
        if self._remember:
            turn = self._turns.get(str(state.get("recalled_turn")))
            found = () if turn is None else turn.found
            new = said(state["messages"], memory.context, ensure_config(), found)
            with self._careful("remember", runtime, told):
                yield from asked(memory.store_many, new)
        return errors_of(state, told, state) or None

    wrap_model_call, awrap_model_call = both(_wrap_model_call)
    wrap_tool_call, awrap_tool_call = both(_wrap_tool_call)
    after_agent, aafter_agent = both(_after_agent)

    def _credit(self, state: TieredMemoryState) -> dict[str, Any]:
        """What is credited with what; nothing if that is not known."""
        noted = _noted(state)
        if self._outcome is None or noted is None:
            return {}
        judged = self._outcome(state)
        if judged is not None and not isinstance(judged, bool):
            raise InvalidTypeError(f"an outcome is True, False or None, not {short(judged)}")
        return {} if judged is None else {"success": judged, "run_id": noted["run"]}

    def _recall(
        self, memory: MemoryCoordinator, request: ModelRequest[Any], told: dict[str, str]
    ) -> Flow[_Turn]:
        """Recall for a turn; what the model sees among the messages is not shown as well."""
        question, run = last_question(request.messages), _run(request)
        asking = memory.tiered_store.options.bounds.beginning(storable(text_of(question)))
        shown_to: Any = {"run_id": run, "holdout": self._holdout}
        # With room for what is left out.
        room: Any = {"limit": min(self._limit + len(request.messages), _MOST)}
        options: Any = {**self._options, **(room if self._remember else shown_to)}
        shown: Sequence[Recollection] = ()
        with self._careful("recall", request.runtime, told):
            found = yield from asked(memory.get_context, asking, **options)
            if self._remember:
                seen = {key_of(one, ensure_config()) for one in request.messages}
                new = [one for one in found if one.key not in seen][: self._limit]
                found = yield from asked(memory.expose, new, **shown_to)
            shown = found
        return _Turn(None if question is None else question.id, run, tuple(shown))

    def _of_this_turn(self, request: ModelRequest[Any]) -> _Turn | None:
        """What this run recalled for the same message already."""
        turn = self._turns.get(str(request.state.get("recalled_turn")))
        return turn if turn and turn.message_id == _question_id(request) else None

    def _kept(self, turn: _Turn) -> dict[str, Any]:
        """Keep what was recalled for the rest of the turn; under which name the state says."""
        name = str(uuid4())
        self._turns[name] = turn
        for oldest in list(self._turns)[:-_TURNS]:
            self._turns.pop(oldest, None)
        noted = Noted(run=turn.run.id, message_id=turn.message_id)
        return {"recalled_turn": name, "recalled_run": noted}


def _run(request: ModelRequest[Any]) -> Run:
    """The run of this turn: the one that was noted before it was interrupted, else a new one."""
    run, noted = run_of(request.runtime), _noted(request.state)
    if noted is None or noted["message_id"] != _question_id(request):
        return run
    return run._replace(id=noted["run"])


def _noted(state: Any) -> Noted | None:
    found: Noted | None = of_state(state, "recalled_run", None)
    return found


def _question_id(request: ModelRequest[Any]) -> str | None:
    question = last_question(request.messages)
    return None if question is None else question.id
