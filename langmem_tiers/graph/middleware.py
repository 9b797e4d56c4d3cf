"""TieredMemoryMiddleware: memory for an agent made by `create_agent`.

It finds the memories of a turn once, and shows the same at each call of the agent's model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Annotated, Any, Final, NamedTuple, NotRequired, TypeAlias, TypedDict, Unpack

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, HumanMessage
from langgraph.channels import UntrackedValue
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.runtime import Runtime
from langgraph.types import Command

from langmem_tiers.coordinator import recall
from langmem_tiers.coordinator.coordinator import MemoryCoordinator
from langmem_tiers.core.checks import checked_flag
from langmem_tiers.core.context import MemoryContext
from langmem_tiers.core.errors import MissingExtraError
from langmem_tiers.core.memory import Recollection, Recollections
from langmem_tiers.core.options import RecallOptions
from langmem_tiers.core.types import ATTEMPT, PROSPECTIVE, REFLEXION
from langmem_tiers.core.values import replace_unstorable
from langmem_tiers.graph import messages as said
from langmem_tiers.graph import remember as remembering
from langmem_tiers.graph import runtime, speakers
from langmem_tiers.graph.learning import (
    ToolLessons,
    credit_outcome,
    hold_for_reminder,
    learn_from_turn,
    read_success,
)
from langmem_tiers.graph.memory_tools import make_memory_tools
from langmem_tiers.graph.recall import DEFAULT_LESSONS, check_turn_options, turn_recall_options
from langmem_tiers.graph.remember import HeardTurn
from langmem_tiers.graph.reminders import LEASE_SECONDS, ReminderQuery, reminder_line
from langmem_tiers.graph.runtime import (
    NodeConfig,
    OnError,
    Scope,
    Step,
    Update,
    invoke,
    read_state,
)
from langmem_tiers.graph.speakers import HEARD_KEY, ParentTask
from langmem_tiers.learning.outcome import Run
from langmem_tiers.learning.signature import signature
from langmem_tiers.postgres.flow import Ask, Flow, both
from langmem_tiers.recall.prompt_text import recalled_text, with_recalled
from langmem_tiers.recall.ranking import HELPS
from langmem_tiers.reminders.intentions import Intention, Predicates, Reminder, Status
from langmem_tiers.reminders.keywords import SESSION_STARTS

_TURNS: Final = 256
"""Number of the latest turns whose memories are kept; those of others are read again."""
MOST_DELIVERED: Final = 10
"""Delivered reminders at most that are shown until they are done: our own choice."""


class AgentTurn(TypedDict):
    """A turn in an agent's state, with its question.

    Later the question may be gone: a summary takes its place, or the model sees other messages.
    """

    run: str
    """Run by which its memories are credited."""
    message_id: str | None
    """Id of the human message that it answers."""
    asked: str
    """Part of that message that is a question to memory."""
    name: NotRequired[str]
    """Name of the person who asks, if the message has one."""
    begins: bool
    """True if it is the first turn of its thread."""
    shown: NotRequired[list[list[Any]]]
    """Places of the memories that a model was shown, best first, as `[namespace, key]`."""
    reminds: NotRequired[bool]
    """True if the turn is shown reminders as well."""
    pins: NotRequired[bool]
    """True if it is shown pins."""


class TurnMemories(NamedTuple):
    """Memories and reminders that a turn is shown from its first call of the model on."""

    memories: Sequence[Recollection] = ()
    pinned: Sequence[Recollection] = ()
    due: Sequence[Reminder] = ()
    reminds: bool = False
    """True if it has reminders, due now or delivered before."""
    text: str = ""
    """All of these as text for a prompt, identical at each call."""


def current_turn(step: Step) -> AgentTurn:
    """Return the turn of a state: the one that it holds, or a new one if that has ended.

    A turn goes on while its message is the last of a human. It also goes on if a summary has taken
    the place of all human messages.
    """
    before: AgentTurn | None = step.read("recalled_run")
    question = runtime.last_question(step.messages)
    message_id = None if question is None else question.id
    previous_id = None if before is None else before["message_id"]
    if before is not None and previous_id is not None and message_id in (None, previous_id):
        return before
    question_text = step.memory.tiered_store.options.bounds.truncate_query(
        replace_unstorable(runtime.text_of(question))
    )
    noted = AgentTurn(
        run=step.run.id, message_id=message_id, asked=question_text, begins=before is None
    )
    if question is not None and question.name:
        noted["name"] = question.name
    return noted


def question_messages(messages: Sequence[BaseMessage], noted: AgentTurn) -> Sequence[BaseMessage]:
    """Return the message that a turn answers, made anew if a summary has taken its place."""
    if noted["message_id"] is None:
        return ()
    about = [message for message in messages if message.id == noted["message_id"]]
    return about or [HumanMessage(noted["asked"], id=noted["message_id"], name=noted.get("name"))]


try:
    from langchain.agents.middleware import AgentMiddleware, ModelRequest
    from langchain.agents.middleware.types import (
        AgentState,
        ExtendedModelResponse,
        ModelCallResult,
        PrivateStateAttr,
    )
except ImportError as error:
    raise MissingExtraError(
        "the middleware needs LangChain's agents: pip install 'langmem-tiers[langchain]'"
    ) from error

ModelHandler: TypeAlias = Callable[[ModelRequest[Any]], Any]
"""Function that calls the model: it returns the answer, or an awaitable of it if it is awaited."""


_CALLS: Final = 1024
"""Number of the latest calls that this process knows to have run."""


class AgentLessons(ToolLessons):
    """Lessons around the tool calls of an agent, with a record of the calls that ran."""

    def __init__(self, config: NodeConfig, **options: Any) -> None:
        """Set up the lessons of the agent's memory; `options` are those of `ToolLessons`."""
        # the model's next call adds the lessons of errors, whoever made the answer
        super().__init__(**options, with_errors=False, run=_run_of_call)
        self.calls, self._config = said.StartedCalls(_CALLS), config

    def _note_started(self, request: ToolCallRequest, ran: str) -> None:
        if (run := _run_of_call(request)) is not None:
            self.calls.add((run.id, request.tool_call["id"]), ran)


def _run_of_call(request: ToolCallRequest) -> Run | None:
    """Return the run that a tool call belongs to."""
    noted: AgentTurn | None = read_state(request.state, "recalled_run", None)
    return None if noted is None else Run(noted["run"])


class TieredMemoryState(AgentState[Any]):
    """State of an agent, with the middleware's record of the turn."""

    recalled_turn: NotRequired[Annotated[str, UntrackedValue, PrivateStateAttr]]
    """Name under which the turn's memories are kept; no more, as streams show the whole state."""
    recalled_run: NotRequired[Annotated[AgentTurn, PrivateStateAttr]]
    """The turn; the checkpoint keeps it, as a resumed agent is still in the same turn."""
    memory_heard: NotRequired[Annotated[HeardTurn, PrivateStateAttr]]
    """Messages heard; the checkpoint keeps them, so that a later turn stores the pending ones."""
    memory_begun: NotRequired[Annotated[None, PrivateStateAttr, ParentTask]]
    """None; reading it notes the run around this one."""
    memory_errors: NotRequired[dict[str, str]]
    """Errors of Postgres or a model after which the turn went on, by the task that failed."""
    revised: NotRequired[list[dict[str, Any]]]
    """Memories that the model took back (`retracted`) or replaced (`superseded`) by its tools: the
    key, the handle, and the `move`, which `learning.rollback` undoes."""
    reminded: NotRequired[list[dict[str, Any]]]
    """Changes of reminders by the model: the `action`, and the `id`."""
    learned: NotRequired[list[dict[str, Any]]]
    """Lessons, a model's from earlier turns: the key, if it is `quarantined`, and the `reason`."""


class TieredMemoryMiddleware(AgentMiddleware[TieredMemoryState, Any, Any]):
    """Memory of an agent: it recalls, reminds, remembers and learns.

    It shows the model the memories that matter for the user's message, and the reminders that are
    due: in the system message of the request, never among the saved messages, and the same for a
    whole turn, however many tools are called in it. When a tool has failed, the lessons about that
    failure stand in its answer. The user's messages are stored before the model answers, whatever
    becomes of the turn; the answer is stored when the agent is done. The middleware uses the store
    that the agent was created with. The run's context, a `MemoryContext` or a mapping with its
    fields, says whose memory it is; the arguments here take precedence.

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
    runner = runtime.DRIVER

    def __init__(
        self,
        *,
        recall: bool = True,
        remember: bool = True,
        remind: bool | Predicates = True,
        tools: bool = True,
        lessons: int = DEFAULT_LESSONS,
        hold_repeats: bool = False,
        outcome: Callable[[Any], bool | None] | None = None,
        reflect: bool | BaseChatModel = False,
        failed: said.FailureTest | None = None,
        holdout: float | None = None,
        on_error: OnError = "continue",
        context: Scope | None = None,
        coordinator: Callable[..., MemoryCoordinator] = MemoryCoordinator,
        **options: Unpack[RecallOptions],
    ) -> None:
        """Set up the middleware.

        Args:
            recall: Show the model memories that matter and do not stand among the messages.
            remember: Store the messages; see `create_remember_node`.
            remind: Show reminders that are due or whose topic comes up, and answer a tool call once
                with the reminders for it; or a mapping of the state's predicates, by name.
            tools: Give the model `search_memory`, `manage_memory` and `manage_reminder`.
            lessons: Lessons at most that a failure brings; 0 for none.
            hold_repeats: Answer a call that a lesson names with that lesson; see `ToolLessons`.
            outcome: A function of the agent's state that returns True if the turn succeeded, None
                if that is not known. The memories that the turn was shown are credited with it.
            reflect: True keeps failed calls with the call that worked later. A chat model draws
                lessons as well, after the answer, by one request a turn at most: from failed calls,
                from a turn that `outcome` calls a failure, and from a message that may correct an
                answer.
            failed: A function of a tool's message that returns True if it reports a failure.
            holdout: The share of memories that each turn goes without; see `get_context`.
            on_error: `continue` goes on without memory where Postgres, an embedding or a chat model
                fails, and tells the log, the stream and `memory_errors`; or `raise`.
            context, coordinator: Options of every node; see `create_recall_node`.
            options: Options of `get_context`; `limit` is 5 and `deduplicate` True by default.
        """
        super().__init__()
        self._remember, self._remind = remember, remind is not False
        self._model = None if isinstance(reflect, bool) else reflect
        runtime.check_helpers(self._model, outcome=outcome, failed=failed)
        self._reflect, self._outcome, self._failed = reflect is not False, outcome, failed
        self._config = NodeConfig(context, coordinator, on_error=on_error)
        self._lessons, self._holdout = lessons, holdout
        self.tools = make_memory_tools(self._config) if checked_flag(tools, "tools") else []
        self._tool_lessons = AgentLessons(
            self._config, hold_repeats=hold_repeats, lessons=lessons, holdout=holdout
        )
        predicates = None if isinstance(remind, bool) else remind
        self._predicates = ReminderQuery(predicates=predicates).predicates or {}
        self._recall_options = check_turn_options(options, type(self)) if recall else None
        self._turns = runtime.LatestEntries[str, TurnMemories](_TURNS)

    def _before_agent(
        self, state: TieredMemoryState, runtime: Runtime[Any]
    ) -> Flow[dict[str, Any] | None]:
        """Note the turn's question and messages while they are in the state."""
        step, update = self._config.step(state, runtime), Update()
        noted = current_turn(step)
        if noted != step.read("recalled_run"):
            update = {"recalled_run": noted, "recalled_turn": noted["run"]}
        with step.tolerate("remember"):
            update |= yield from remembering.hear_turn(step, keep=self._remember)
        return update | step.errors(same_turn=not update.get("recalled_run")) or None

    def _wrap_model_call(
        self, request: ModelRequest[Any], handler: ModelHandler
    ) -> Flow[ModelCallResult[Any]]:
        """Show the model the turn's memories and reminders, and the lessons of the last failure."""
        step = self._config.step(request.state, request.runtime)
        before: AgentTurn | None = step.read("recalled_run")
        noted = before or current_turn(step)
        run = step.run._replace(id=noted["run"])
        cached = self._kept_turn(step)
        turn = cached or (yield from self._find_memories(step, request.messages, run, noted))
        lessons = yield from self._find_lessons(step, request.messages, run, noted)
        heard = (yield from remembering.store_pending(step)) if self._remember else {}
        seeing: Any = {"system_message": with_recalled(request.system_message, turn.text)}
        if lessons:
            seeing["messages"] = said.add_lessons(request.messages, lessons)
        if type(request.model).bind_tools is BaseChatModel.bind_tools:  # it can call no tool
            seeing["tools"] = [tool for tool in request.tools if tool not in self.tools]
        call = partial(handler, request.override(**seeing))
        response = yield Ask(call, call)
        if "shown" not in noted:
            shown = [[list(item.namespace), item.key] for item in turn.memories]
            pins, reminds = bool(turn.pinned), turn.reminds
            noted = {**noted, "shown": shown, "pins": pins, "reminds": reminds}
            with step.tolerate("remind"):
                if turn.due:
                    yield from invoke(step.memory.reminders.acknowledge, *turn.due)
        update = step.errors(same_turn=True) | heard
        if noted != before:
            update["recalled_run"] = noted
        if cached is None:
            update["recalled_turn"] = noted["run"]
        if teaching := [message for message in step.messages if lessons.get(message.id)]:
            update["messages"] = said.add_lessons(teaching, lessons)
        return ExtendedModelResponse(response, Command(update=update)) if update else response

    def _wrap_tool_call(
        self, request: ToolCallRequest, handler: said.Handler
    ) -> Flow[said.ToolAnswer]:
        """Run a tool call, unless a reminder or a lesson holds it."""
        if self._remind:
            step = self._config.step(request.state, request.runtime)
            held = yield from hold_for_reminder(request, step)
            if held is not None:
                return held
        return (yield from invoke(self._tool_lessons.wrap_tool_call, request, handler))

    def _after_agent(
        self, state: TieredMemoryState, runtime: Runtime[Any]
    ) -> Flow[dict[str, Any] | None]:
        """Credit the shown memories, learn from failures, and store the answer, if asked to."""
        step = self._config.step(state, runtime)
        noted: AgentTurn | None = step.read("recalled_run")
        heard, judged, own_step = step.read(HEARD_KEY), None, step
        done, unanswered = (
            remembering.tool_changes(step.messages),
            speakers.unanswered_messages(step.messages),
        )
        if heard is not None and heard["whose"] != asdict(step.memory.context):
            owner = MemoryContext(**heard["whose"])  # the user who began the turn
            own_step = replace(step, memory=self._config.memory(runtime, owner))
        with step.tolerate("outcome"):  # it may ask a model
            if noted is not None and self._outcome is not None:
                judged = read_success(state, self._outcome)
            if noted is not None and judged is not None:
                yield from credit_outcome(step, noted["run"], success=judged)
        if self._reflect:
            learning: Any = {"model": self._model, "failed": self._failed, "judged": judged}
            with step.tolerate("reflect"):
                done["learned"] += yield from learn_from_turn(
                    own_step, self._did_run(noted), **learning
                )
        if self._remember:
            shown = self._kept_turn(step) or TurnMemories()  # repeating it is no evidence
            recalled = [
                *shown.memories,
                *shown.pinned,
                *[reminder.content for reminder in shown.due],
            ]
            question = () if noted is None else question_messages(step.messages, noted)
            with step.tolerate("remember"):
                yield from remembering.remember_turn(own_step, unanswered, question, recalled, done)
        ended = remembering.end_turn(step, unanswered)
        left = ended.get(HEARD_KEY, heard or {}).get("left")
        update = step.errors(same_turn=True, mended=None if left else "remember") | ended
        for kind, changes in done.items():
            if changes or step.read(kind):  # the changes of an earlier turn give way
                update[kind] = changes
        return update or None

    before_agent, abefore_agent = both(_before_agent)
    wrap_model_call, awrap_model_call = both(_wrap_model_call)
    wrap_tool_call, awrap_tool_call = both(_wrap_tool_call)
    after_agent, aafter_agent = both(_after_agent)

    def _kept_turn(self, step: Step) -> TurnMemories | None:
        """Return the kept memories of this run's turn; None if they are gone, or not found yet."""
        return self._turns.get(str(step.read("recalled_turn")))

    def _find_memories(
        self, step: Step, seen: Sequence[BaseMessage], run: Run, noted: AgentTurn
    ) -> Flow[TurnMemories]:
        """Find the memories and reminders of a turn, or read again those of its first call.

        Memories of messages that the model has `seen` are left out.
        """
        memory, question = step.memory, noted["asked"]
        about = question_messages(step.messages, noted)
        due, standing = yield from self._reminders(step, question, run, noted)
        recalled, pinned = Recollections(), Recollections()
        with step.tolerate("recall"):
            if "shown" in noted:  # before an interrupt: read again, as far as it is still there
                places = [(tuple(namespace), key) for namespace, key in noted["shown"]]
                reading = recall.read_current(memory, places)
                recalled[:] = yield from invoke(memory.tiered_store.run, reading)
            elif self._recall_options is not None:
                wanted: Any = {
                    **turn_recall_options(step, [*about, *seen], self._recall_options),
                    "run_id": run,
                }
                wanted["holdout"] = self._holdout
                recalled = yield from invoke(memory.get_context, question, **wanted)
                step.note_words_only(recalled.by_words)
            needed = self._recall_options is not None and (
                recalled.helps >= HELPS or bool(recalled)
            )
            if noted.get("pins", needed):
                pinned[:] = yield from invoke(memory.pinned)
        # A reminder is no memory beside these: it is shown when it is due.
        others = [item for item in recalled if item.memory_type != PROSPECTIVE]
        lessons = [item for item in others if item.memory_type in (REFLEXION, ATTEMPT)]
        raised = [reminder.place for reminder in due]
        open_intentions = [intention for intention in standing if intention.place not in raised]
        stands: list[Reminder | Intention] = [*due, *open_intentions]
        lines = [reminder_line(reminder, memory.context.zone, memory.now) for reminder in stands]
        options: Any = {"pinned": pinned, "now": memory.now, "asked": question}
        text = recalled_text(others, lessons, lines, **options)
        turn = TurnMemories(others, pinned, due, bool(lines), text)
        self._turns.add(noted["run"], turn)
        return turn

    def _reminders(
        self, step: Step, question: str, run: Run, noted: AgentTurn
    ) -> Flow[tuple[Sequence[Reminder], Sequence[Intention]]]:
        """Raise the turn's due reminders, leased until the model answers; return open ones as well.

        An intention that waits for a session to start is due in the first turn of a thread.
        """
        due: Sequence[Reminder] = ()
        standing: Sequence[Intention] = ()
        if not self._remind or not noted.get("reminds", True):
            return due, standing
        starts: Predicates = {SESSION_STARTS: lambda _: noted["begins"]}
        leased: Any = {
            "state": step.state,
            "predicates": {**starts, **self._predicates},
            "lease_seconds": LEASE_SECONDS,
            "run_id": run,
        }
        with step.tolerate("remind"):
            due = yield from invoke(step.memory.reminders.due, question or None, **leased)
            standing = yield from invoke(
                step.memory.reminders.list, Status.DELIVERED, limit=MOST_DELIVERED
            )
        return due, standing

    def _did_run(self, noted: AgentTurn | None) -> said.DidRun:
        """Return a function that tells which calls ran: each passes through this middleware."""
        return said.did_run_by_watching(
            self._tool_lessons.calls, None if noted is None else noted["run"]
        )

    def _find_lessons(
        self, step: Step, seen: Sequence[BaseMessage], run: Run, noted: AgentTurn
    ) -> Flow[dict[str | None, list[Recollection]]]:
        """Find the lessons of the calls that just failed, by the ids of their answers."""
        lessons: dict[str | None, list[Recollection]] = {}
        if not self._lessons or not runtime.has_new_tool_answer(seen):
            return lessons
        taught = said.taught_keys(seen)
        shown_to: Any = {"limit": self._lessons, "run_id": run, "holdout": self._holdout}
        for call in said.untaught_failures(
            said.mark_failures(seen, self._failed), self._did_run(noted)
        ):
            with step.tolerate("lessons"):
                failed = signature(call.text, tool=call.tool)
                concern = {"failures": failed, "query": noted["asked"], **shown_to}
                results = yield from invoke(step.memory.learning.get_lessons, **concern)
                lessons[call.answer.id] = [each for each in results if each.key not in taught]
                taught |= {each.key for each in results}
        return lessons
