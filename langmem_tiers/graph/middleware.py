"""TieredMemoryMiddleware: memory for an agent made by `create_agent`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, NotRequired, TypedDict, Unpack
from uuid import uuid4

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables.config import ensure_config

from langmem_tiers.core.errors import ConfigurationError, InvalidTypeError
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
    shown,
)
from langmem_tiers.graph.extra import Command, Runtime, ToolCallRequest, UntrackedValue
from langmem_tiers.graph.learn import judged_of
from langmem_tiers.graph.messages import attempts_in, concern_of, key_of, said
from langmem_tiers.graph.node import (
    ANSWERED,
    DEFAULT_LESSONS,
    OnError,
    by_words,
    careful_of,
    checked,
    checked_blocking,
    errors_of,
    last_question,
    of_state,
    run_of,
    text_of,
)
from langmem_tiers.graph.runs import Remembered, Remembering, Scope, asked, handed_over
from langmem_tiers.graph.tool_calls import Answer, Handler, ToolLessons
from langmem_tiers.learn.outcome import Run
from langmem_tiers.memory.asking import MAX_LIMIT
from langmem_tiers.memory.coordinator import MemoryCoordinator
from langmem_tiers.postgres.flow import Flow, both
from langmem_tiers.recall.fence import recalled_text

RECALLED = 6
"""Memories of a turn that names no limit, our own choice: each is paid for with every call of the
model. With 8 and 10 what was needed was shown in 71 and 73 % of 428 questions in place of 68 %, for
239 and 283 tokens in place of 192 (`benchmarks/data/life.jsonl`)."""
_TURNS = 256
"""Turns whose memories are kept, the latest: a turn whose memories are gone recalls them anew."""


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
            middleware=[TieredMemoryMiddleware(limit=3)],
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
        remember: bool = True,
        lessons: int = DEFAULT_LESSONS,
        hold_repeats: bool = True,
        outcome: Callable[[Any], bool | None] | None = None,
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
            on_error: What comes of a `DatabaseError`, and after the answer of a model that fails:
                `continue` tells the log, the stream and `memory_errors`; `raise` lets it fail.
            context, coordinator: Those of every node; see `create_recall_node`.
            options: Those of `get_context`; `limit` is 6 and `deduplicate` True if not given.

        Raises:
            InvalidInputError: for an option that no recall could take.
        """
        super().__init__()
        if outcome is not None and not callable(outcome):
            raise InvalidTypeError("outcome is a function of the agent's state")
        checked_blocking(outcome, "outcome")
        if not isinstance(reflect, bool):
            checked_model(reflect)
        self._careful = careful_of(on_error, "continue")
        self._answered = ANSWERED if on_error == "continue" else self._careful
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
        self._limit = RECALLED if (most := options.get("limit")) is None else most
        self._options = checked({"deduplicate": True, **options, "limit": self._limit}, type(self))
        self._turns: dict[str, Sequence[Recollection]] = {}

    def _wrap_model_call(
        self, request: ModelRequest[Any], handler: ModelHandler
    ) -> Flow[ModelCallResult[Any]]:
        """Show the turn's memories to the model, and first what the last failure taught before."""
        if of_state(request.state, "turn", None) is not None:
            raise ConfigurationError(
                "the agent has a TurnMiddleware, which recalls and remembers by itself: leave "
                "TieredMemoryMiddleware out, or TurnMiddleware"
            )
        memory, told = self._memory(request.runtime), dict[str, str]()
        question, noted = last_question(request.messages), _noted(request.state)
        run, message_id = run_of(request.runtime), None if question is None else question.id
        known = None
        if noted is not None and noted["message_id"] == message_id:
            # Noted before it was interrupted: what was found then may be gone.
            run, known = run._replace(id=noted["run"]), self._found(request.state)
        shown_to: Any = {"run_id": run, "holdout": self._holdout}
        found = known
        if found is None:
            found = yield from self._recall(memory, request, shown_to, told)
        lessons: Sequence[Recollection] = ()
        if concern := concern_of(request, self._lessons):
            with self._careful("lessons", request.runtime, told):
                lessons = yield from asked(
                    memory.get_lessons, memory.aget_lessons, **concern, **shown_to
                )
        text = recalled_text(found, lessons, now=memory.tiered_store.flows.now)
        response = yield from handed_over(handler, shown(request, text))
        update = errors_of(request.state, told, known is not None)
        if known is None:
            update["recalled_turn"] = self._kept(found)
            update["recalled_run"] = Noted(run=run.id, message_id=message_id)
        return ExtendedModelResponse(response, Command(update=update)) if update else response

    def _wrap_tool_call(self, request: ToolCallRequest, handler: Handler) -> Flow[Answer]:
        """Run a tool call, unless it is held as one that failed before."""
        lessons = self._tool_lessons
        return asked(lessons.wrap_tool_call, lessons.awrap_tool_call, request, handler)

    def _after_agent(
        self, state: TieredMemoryState, runtime: Runtime[Any]
    ) -> Flow[dict[str, Any] | None]:
        """Credit what was shown, learn from failures, and remember what was said, if asked to."""
        memory = self._memory(runtime)
        told: dict[str, str] = {}
        noted = _noted(state)
        judges = None if noted is None else self._outcome
        judged = None if judges is None else judged_of(state, judges)
        if noted is not None and judged is not None:
            credit: Any = {"success": judged, "run_id": noted["run"]}
            with self._careful("outcome", runtime, told):
                yield from asked(memory.record_outcome, memory.arecord_outcome, **credit)
        if self._reflect:
            with self._careful("reflect", runtime, told):
                failed = attempts_in(state["messages"])
                yield from asked(memory.reflect, memory.areflect, failed, model=self._model)
        if self._remember:
            found = self._found(state) or ()
            new = said(state["messages"], memory.context, ensure_config(), found)
            with self._answered("remember", runtime, told):
                yield from asked(memory.store_many, memory.astore_many, new)
        return errors_of(state, told, state) or None

    wrap_model_call, awrap_model_call = both(_wrap_model_call)
    wrap_tool_call, awrap_tool_call = both(_wrap_tool_call)
    after_agent, aafter_agent = both(_after_agent)

    def _recall(
        self,
        memory: MemoryCoordinator,
        request: ModelRequest[Any],
        shown_to: dict[str, Any],
        told: dict[str, str],
    ) -> Flow[Sequence[Recollection]]:
        """Recall for a turn; what the model sees among the messages is not shown as well."""
        text = storable(text_of(last_question(request.messages)))
        asking = memory.tiered_store.options.bounds.beginning(text)
        options: Any = {**self._options, **shown_to}
        if self._remember:  # with room for what is left out
            room = min(self._limit + len(request.messages), MAX_LIMIT)
            options = {**self._options, "limit": room}
        with self._careful("recall", request.runtime, told):
            found = yield from asked(memory.get_context, memory.aget_context, asking, **options)
            told |= by_words(found.by_words)
            if self._remember:
                seen = {key_of(one, ensure_config()) for one in request.messages}
                new = [one for one in found if one.key not in seen][: self._limit]
                found = yield from asked(memory.expose, memory.aexpose, new, **shown_to)
            return found
        return ()

    def _found(self, state: Any) -> Sequence[Recollection] | None:
        """What this run recalled for its turn; None if that is gone."""
        return self._turns.get(str(of_state(state, "recalled_turn", None)))

    def _kept(self, found: Sequence[Recollection]) -> str:
        """Keep what was recalled for the rest of the turn; the name it is kept under."""
        name = str(uuid4())
        self._turns[name] = found
        for oldest in list(self._turns)[:-_TURNS]:
            self._turns.pop(oldest, None)
        return name


def _noted(state: Any) -> Noted | None:
    found: Noted | None = of_state(state, "recalled_run", None)
    return found
