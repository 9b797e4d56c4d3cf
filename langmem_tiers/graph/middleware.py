"""TieredMemoryMiddleware: memory for an agent made by `create_agent`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Annotated, Any, NamedTuple, NotRequired, TypedDict, Unpack
from uuid import uuid4

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables.config import ensure_config

from langmem_tiers.core.checks import checked_function
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
from langmem_tiers.graph.messages import attempts_in, concern_of, messages_of, said_in
from langmem_tiers.graph.node import (
    ANSWERED,
    DEFAULT_LESSONS,
    OnError,
    by_words,
    careful_of,
    errors_of,
    last_question,
    of_a_turn,
    of_state,
    run_of,
    text_of,
)
from langmem_tiers.graph.remember import beside, decided_by
from langmem_tiers.graph.remind import LEASE_SECONDS, Reminding, completes, reminder_line
from langmem_tiers.graph.runs import Remembered, Remembering, Scope, asked, handed_over
from langmem_tiers.graph.speakers import Begun
from langmem_tiers.graph.spoken import Heard
from langmem_tiers.graph.tool_calls import Answer, Handler, ToolLessons, held_by_reminder
from langmem_tiers.graph.turns_heard import ended_of, hear_turn, remember_turn, store_heard
from langmem_tiers.learn.outcome import Run
from langmem_tiers.memory.coordinator import MemoryCoordinator
from langmem_tiers.postgres.flow import Flow, both
from langmem_tiers.recall.fence import recalled_text
from langmem_tiers.remind.intentions import Predicates, Reminder
from langmem_tiers.remind.prompted import SESSION_STARTS

_TURNS = 256
"""Turns of which is kept what they are shown, the latest: where it is gone it is recalled anew."""


class Noted(TypedDict):
    """The run that a turn's memories are credited by, and the message they were recalled for."""

    run: str
    message_id: str | None


class Shown(NamedTuple):
    """What a turn is shown from its first call of the model on."""

    found: Sequence[Recollection]
    due: Sequence[Reminder]

    def text(
        self, lessons: Sequence[Recollection], asked: str, now: datetime, *, keys: bool = False
    ) -> str:
        """The same for a prompt; what is due is not said among the memories as well."""
        said = {one.content for one in self.due}
        found = [one for one in self.found if one.content not in said]
        due = [reminder_line(one, keys=keys) for one in self.due]
        return recalled_text(found, lessons, due, now=now, asked=asked)


class TieredMemoryState(AgentState[Any]):
    """An agent's state, with what the middleware knows of this turn."""

    recalled_turn: NotRequired[Annotated[str, UntrackedValue, PrivateStateAttr]]
    """The name its memories are kept under, and no more: streams show the whole state."""
    recalled_run: NotRequired[Annotated[Noted, PrivateStateAttr]]
    """In the checkpoint as well: an agent that is resumed is still the same run."""
    memory_heard: NotRequired[Annotated[Heard, PrivateStateAttr]]
    """In the checkpoint as well: what was said and not stored yet is stored in a later turn."""
    memory_begun: NotRequired[Annotated[None, PrivateStateAttr, Begun]]
    """Reads the run around this one."""
    memory_errors: NotRequired[dict[str, str]]
    """What the turn goes without as Postgres or a judge failed: the error of what was to be
    done."""
    revised: NotRequired[list[dict[str, Any]]]
    """What it took back (`retracted`) or corrected (`superseded`): its key, and the `move`."""


class TieredMemoryMiddleware(Remembering, AgentMiddleware[TieredMemoryState, Any, Any]):
    """The memory of an agent: it recalls, reminds, remembers and learns.

    What matters for the user's message, and what is due of that which was intended, is shown to the
    model: in the system message of the request, never among the saved messages, and the same for a
    whole turn, however many tools are called in it. When a tool has failed, what was learned from
    that failure before comes first. What was said is remembered before the model answers, whatever
    becomes of the turn, and the answer when the agent is done. The memory is that of the store the
    agent was created with; whose it is says the run's context, a `MemoryContext` or a mapping with
    its fields, and over it the arguments here.

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
        recall: bool = True,
        remember: bool = True,
        revise: bool = True,
        judge: BaseChatModel | None = None,
        remind: bool | Predicates = True,
        lessons: int = DEFAULT_LESSONS,
        hold_repeats: bool = True,
        outcome: Callable[[Any], bool | None] | None = None,
        reflect: bool | BaseChatModel = False,
        holdout: float | None = None,
        on_error: OnError = "continue",
        context: Scope | None = None,
        coordinator: Callable[..., MemoryCoordinator] = MemoryCoordinator,
        **options: Unpack[RecallOptions],
    ) -> None:
        """Say what it does.

        Args:
            recall: Show the model what matters and does not stand among the messages.
            remember: Store what was said; see `create_remember_node`.
            revise, judge: Retract what the user takes back, and supersede what they correct, as
                fitted weights or a chat model say; see `create_remember_node`.
            remind: Show what is due or whose topic comes up, and answer a tool call that something
                is intended before with that, once; or the predicates of the state, by name.
            lessons: Lessons at most that a failure brings; 0 for none.
            hold_repeats: Answer a tool call that failed before in just this form with the lesson,
                once, and do not run it; see `ToolLessons`. False runs every call.
            outcome: Whether the turn succeeded, as a function of the agent's state; None is not
                known. What the turn was shown is credited with it.
            reflect: Learn from the tool calls that failed in the turn; see `create_reflexion_node`.
                True extracts the lessons, a chat model draws them.
            holdout: The share of memories that each turn goes without; see `get_context`.
            on_error: `continue` without memory where Postgres fails or, once there is an answer, an
                embedding model: the log, the stream and `memory_errors` tell it; or `raise`.
            context, coordinator: Those of every node; see `create_recall_node`.
            options: Those of `get_context`; `limit` is 6 and `deduplicate` True if not given.
        """
        super().__init__()
        self._recalls, self._remember, self._remind = recall, remember, remind is not False
        self._outcome, self._model = _checked(outcome, reflect=reflect)
        self._careful = careful_of(on_error, "continue")
        self._answered = ANSWERED if on_error == "continue" else self._careful
        self._reflect = reflect is not False
        self._decides = decided_by(judge, revise=revise)
        self._waits = Reminding(predicates=None if isinstance(remind, bool) else remind)
        self._whose = Remembered(context, coordinator)
        self._lessons, self._holdout, self._turns = lessons, holdout, dict[str, Shown]()
        self._tool_lessons = ToolLessons(
            hold_repeats=hold_repeats,
            with_errors=False,  # the model's next call shows them, and messages are saved
            lessons=lessons,
            holdout=holdout,
            context=context,
            coordinator=coordinator,
            run=_run,
        )
        self._options = of_a_turn(options, type(self))

    def _before_agent(
        self, state: TieredMemoryState, runtime: Runtime[Any]
    ) -> Flow[dict[str, Any] | None]:
        """Note what was said, if it is to be remembered, whatever becomes of the turn."""
        told: dict[str, str] = {}
        heard: dict[str, Any] = {}
        if self._remember:
            with self._answered("remember", runtime, told):
                heard = yield from hear_turn(self._memory(runtime), state)
        return {**errors_of(state, told, known=None), **heard} or None

    def _wrap_model_call(
        self, request: ModelRequest[Any], handler: ModelHandler
    ) -> Flow[ModelCallResult[Any]]:
        """Show the model what the turn recalls, what is due, and what the last failure taught."""
        memory, told = self._memory(request.runtime), dict[str, str]()
        question, noted = last_question(request.messages), _noted(request.state)
        run, message_id = run_of(request.runtime), None if question is None else question.id
        known = None
        if noted is not None and noted["message_id"] == message_id:
            # Noted before it was interrupted: what was found then may be gone.
            run, known = run._replace(id=noted["run"]), self._shown(request.state)
        shown_to: Any = {"run_id": run, "holdout": self._holdout}
        turn = known
        if turn is None:
            due = yield from self._due(memory, request, run, told)
            turn = Shown((yield from self._recall(memory, request, shown_to, told)), due)
        lessons: Sequence[Recollection] = ()
        if concern := concern_of(request, self._lessons):
            with self._careful("lessons", request.runtime, told):
                lessons = yield from asked(
                    memory.get_lessons, memory.aget_lessons, **concern, **shown_to
                )
        keys = any(map(completes, request.tools))
        text = turn.text(lessons, text_of(question), memory.now, keys=keys)
        heard: dict[str, Any] = {}
        if self._remember:
            with self._answered("remember", request.runtime, told):
                heard = yield from store_heard(memory, request.state)
        response = yield from handed_over(handler, shown(request, text))
        if known is None and turn.due:
            with self._answered("remind", request.runtime, told):
                yield from asked(memory.acknowledge, memory.aacknowledge, *turn.due)
        update = errors_of(request.state, told, known=True) | heard
        if known is None:
            update["recalled_turn"] = self._kept(turn)
            update["recalled_run"] = Noted(run=run.id, message_id=message_id)
        return ExtendedModelResponse(response, Command(update=update)) if update else response

    def _wrap_tool_call(self, request: ToolCallRequest, handler: Handler) -> Flow[Answer]:
        """Run a tool call, unless there is a reminder for before it, or it failed before."""
        if self._remind:
            held = yield from held_by_reminder(request, self._memory(request.runtime))
            if held is not None:
                return held
        lessons = self._tool_lessons
        return (yield from asked(lessons.wrap_tool_call, lessons.awrap_tool_call, request, handler))

    def _after_agent(
        self, state: TieredMemoryState, runtime: Runtime[Any]
    ) -> Flow[dict[str, Any] | None]:
        """Credit what was shown, learn from failures, and remember what was said, if asked to."""
        memory = self._memory(runtime)
        told: dict[str, str] = {}
        revised: list[dict[str, Any]] = []
        noted = _noted(state)
        judges = None if noted is None else self._outcome
        judged = None if judges is None else judged_of(state, judges)
        if noted is not None and judged is not None:
            said = said_in(messages_of(state))
            credit: Any = {"success": judged, "run_id": noted["run"], **said}
            with self._careful("outcome", runtime, told):
                yield from asked(memory.record_outcome, memory.arecord_outcome, **credit)
        if self._reflect:
            with self._careful("reflect", runtime, told):
                failed = attempts_in(state["messages"])
                yield from asked(memory.reflect, memory.areflect, failed, model=self._model)
        ended: dict[str, Any] = {}
        if self._remember:
            found, due = self._shown(state) or Shown((), ())
            told_of = [*found, *(one.content for one in due)]
            with self._answered("remember", runtime, told):
                kept = yield from remember_turn(memory, state, told_of, decides=self._decides)
                told |= kept.errors
                revised = kept.revised
            ended = ended_of(state, told)
        update = errors_of(state, told, state, mended="remember") | ended
        if revised or of_state(state, "revised", None):
            update["revised"] = revised
        return update or None

    before_agent, abefore_agent = both(_before_agent)
    wrap_model_call, awrap_model_call = both(_wrap_model_call)
    wrap_tool_call, awrap_tool_call = both(_wrap_tool_call)
    after_agent, aafter_agent = both(_after_agent)

    def _due(
        self,
        memory: MemoryCoordinator,
        request: ModelRequest[Any],
        run: Run,
        told: dict[str, str],
    ) -> Flow[Sequence[Reminder]]:
        """Raise what is due for a turn: leased, until the model has answered."""
        if not self._remind:
            return ()
        # What waits for a session to start is due where no turn has been noted yet.
        begins = _noted(request.state) is None
        with self._answered("remind", request.runtime, told):
            return (
                yield from asked(
                    memory.remind,
                    memory.aremind,
                    storable(text_of(last_question(request.messages))) or None,
                    state=request.state,
                    predicates={SESSION_STARTS: lambda _: begins, **(self._waits.predicates or {})},
                    lease_seconds=LEASE_SECONDS,
                    run_id=run,
                )
            )
        return ()

    def _recall(
        self,
        memory: MemoryCoordinator,
        request: ModelRequest[Any],
        shown_to: dict[str, Any],
        told: dict[str, str],
    ) -> Flow[Sequence[Recollection]]:
        """Recall for a turn; what the model sees among the messages is not shown as well."""
        if not self._recalls:
            return ()
        text = storable(text_of(last_question(request.messages)))
        asking = memory.tiered_store.options.bounds.beginning(text)
        options = {**beside(request.messages, self._options, memory, ensure_config()), **shown_to}
        with self._careful("recall", request.runtime, told):
            found = yield from asked(memory.get_context, memory.aget_context, asking, **options)
            told |= by_words(found.by_words)
            return found
        return ()

    def _shown(self, state: Any) -> Shown | None:
        """What this run shows in its turn; None if that is gone."""
        return self._turns.get(str(of_state(state, "recalled_turn", None)))

    def _kept(self, turn: Shown) -> str:
        """Keep what is shown for the rest of the turn; the name it is kept under."""
        name = str(uuid4())
        self._turns[name] = turn
        for oldest in list(self._turns)[:-_TURNS]:
            self._turns.pop(oldest, None)
        return name


def _checked(
    outcome: Callable[[Any], bool | None] | None,
    *,
    reflect: bool | BaseChatModel,
) -> tuple[Callable[[Any], bool | None] | None, BaseChatModel | None]:
    """What judges a turn, and the model that draws lessons, if there are such."""
    if outcome is not None:
        checked_function(outcome, "outcome")
    model = None if isinstance(reflect, bool) else reflect
    if model is not None:
        checked_model(model)
    return outcome, model


def _run(request: ToolCallRequest) -> Run | None:
    """The run that a tool call belongs to."""
    noted = _noted(request.state)
    return None if noted is None else Run(noted["run"])


def _noted(state: Any) -> Noted | None:
    found: Noted | None = of_state(state, "recalled_run", None)
    return found
