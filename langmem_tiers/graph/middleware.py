"""TieredMemoryMiddleware: memory for an agent made by `create_agent`.

What the turn of an agent is shown is found once, and the same at each call of its model.
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

from langmem_tiers.core.checks import checked_flag
from langmem_tiers.core.context import MemoryContext
from langmem_tiers.core.errors import MissingExtraError
from langmem_tiers.core.memory import Recollection, Recollections
from langmem_tiers.core.options import RecallOptions
from langmem_tiers.core.types import ATTEMPT, PROSPECTIVE, REFLEXION
from langmem_tiers.core.values import replace_unstorable
from langmem_tiers.graph import messages as said
from langmem_tiers.graph import node, speakers
from langmem_tiers.graph import remember as remembering
from langmem_tiers.graph.context_tools import make_memory_tools
from langmem_tiers.graph.learn import (
    ToolLessons,
    credit_outcome,
    hold_for_reminder,
    learn_from_turn,
    read_success,
)
from langmem_tiers.graph.node import (
    NodeConfig,
    OnError,
    Scope,
    Step,
    Update,
    invoke,
    read_state,
)
from langmem_tiers.graph.recall import DEFAULT_LESSONS, check_turn_options, turn_recall_options
from langmem_tiers.graph.remember import HeardTurn
from langmem_tiers.graph.remind import LEASE_SECONDS, ReminderQuery, reminder_line
from langmem_tiers.graph.speakers import HEARD_KEY, ParentTask
from langmem_tiers.learn.outcome import Run
from langmem_tiers.learn.signature import signature
from langmem_tiers.memory import recalling
from langmem_tiers.memory.coordinator import MemoryCoordinator
from langmem_tiers.postgres.flow import Ask, Flow, both
from langmem_tiers.recall.fence import recalled_text, with_recalled
from langmem_tiers.recall.ranking import HELPS
from langmem_tiers.remind.intentions import Intention, Predicates, Reminder, Status
from langmem_tiers.remind.prompted import SESSION_STARTS

_TURNS: Final = 256
"""The number of turns, the latest, whose memories are kept; those of others are read again."""
MOST_DELIVERED: Final = 10
"""Reminders at most that were due before and are shown until they are done: our own choice."""


class AgentTurn(TypedDict):
    """A turn in an agent's state; its question is found where it begins.

    Later the question may be gone: a summary takes its place, or the model sees other messages.
    """

    run: str
    """The run that its memories are credited by."""
    message_id: str | None
    """The id of the human message that it answers."""
    asked: str
    """The part of that message that is a question to memory."""
    name: NotRequired[str]
    """The name of who asks, if the message bears one."""
    begins: bool
    """True if it is the first turn of its thread."""
    shown: NotRequired[list[list[Any]]]
    """The places of the memories that a model was shown, best first, as `[namespace, key]`."""
    reminds: NotRequired[bool]
    """True if the turn is shown what is due as well."""
    pins: NotRequired[bool]
    """True if it is shown what is pinned."""


class TurnMemories(NamedTuple):
    """The memories and reminders that a turn is shown from its first call of the model on."""

    memories: Sequence[Recollection] = ()
    pinned: Sequence[Recollection] = ()
    due: Sequence[Reminder] = ()
    reminds: bool = False
    """True if it is reminded of anything, due now or before."""
    text: str = ""
    """The same as text for a prompt, identical at each call."""


def current_turn(step: Step) -> AgentTurn:
    """Find the turn that a state is in: the one that it tells of, or a new one if that has ended.

    A turn goes on while its message is the last of a human. It also goes on where a summary has
    taken the place of all that humans said.
    """
    before: AgentTurn | None = step.read("recalled_run")
    question = node.last_question(step.messages)
    message_id = None if question is None else question.id
    previous_id = None if before is None else before["message_id"]
    if before is not None and previous_id is not None and message_id in (None, previous_id):
        return before
    question_text = step.memory.tiered_store.options.bounds.beginning(
        replace_unstorable(node.text_of(question))
    )
    noted = AgentTurn(
        run=step.run.id, message_id=message_id, asked=question_text, begins=before is None
    )
    if question is not None and question.name:
        noted["name"] = question.name
    return noted


def question_messages(messages: Sequence[BaseMessage], noted: AgentTurn) -> Sequence[BaseMessage]:
    """Find the message that a turn answers, which a summary may have taken the place of."""
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
"""Calls the model: it returns its answer, or where the call is awaited what is awaited for it."""


_CALLS: Final = 1024
"""The number of calls, the latest, that this process knows to have run."""


class AgentLessons(ToolLessons):
    """Lessons around the tool calls of an agent; they know which of its tools ran."""

    def __init__(self, config: NodeConfig, **options: Any) -> None:
        """Set up, for the memory that the agent uses; `options` are `ToolLessons`'."""
        # the model's next call adds those of errors, whoever made the answer
        super().__init__(**options, with_errors=False, run=_run_of_call)
        self.calls, self._config = said.StartedCalls(_CALLS), config

    def _note_started(self, request: ToolCallRequest, ran: str) -> None:
        if (run := _run_of_call(request)) is not None:
            self.calls.add((run.id, request.tool_call["id"]), ran)


def _run_of_call(request: ToolCallRequest) -> Run | None:
    """The run that a tool call belongs to."""
    noted: AgentTurn | None = read_state(request.state, "recalled_run", None)
    return None if noted is None else Run(noted["run"])


class TieredMemoryState(AgentState[Any]):
    """An agent's state, with what the middleware knows of this turn."""

    recalled_turn: NotRequired[Annotated[str, UntrackedValue, PrivateStateAttr]]
    """The name its memories are kept under, and no more: streams show the whole state."""
    recalled_run: NotRequired[Annotated[AgentTurn, PrivateStateAttr]]
    """The turn; the checkpoint keeps it too, as a resumed agent is still in the same turn."""
    memory_heard: NotRequired[Annotated[HeardTurn, PrivateStateAttr]]
    """The words heard; the checkpoint keeps them too, so that a later turn stores what is left."""
    memory_begun: NotRequired[Annotated[None, PrivateStateAttr, ParentTask]]
    """Always None; reading it notes the run around this one."""
    memory_errors: NotRequired[dict[str, str]]
    """What the turn goes without as Postgres or a model failed: the error of what was to be
    done."""
    revised: NotRequired[list[dict[str, Any]]]
    """What the model took back (`retracted`) or replaced (`superseded`) by its tools: the key, the
    handle, and the `move`, which `learning.rollback` undoes."""
    reminded: NotRequired[list[dict[str, Any]]]
    """What it did to reminders: the `action`, and the `id`."""
    learned: NotRequired[list[dict[str, Any]]]
    """What was learned, by a model in earlier turns: its key, if it is `quarantined`, and why."""


class TieredMemoryMiddleware(AgentMiddleware[TieredMemoryState, Any, Any]):
    """The memory of an agent: it recalls, reminds, remembers and learns.

    What matters for the user's message, and what is due of that which was intended, is shown to the
    model: in the system message of the request, never among the saved messages, and the same for a
    whole turn, however many tools are called in it. When a tool has failed, what was learned from
    that failure before stands in its answer. It remembers what was said before the model answers,
    whatever becomes of the turn, and the answer when the agent is done. The memory is that of the
    store the agent was created with. The run's context, a `MemoryContext` or a mapping with its
    fields, says whose memory it is; the arguments here come before it.

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
    runner = node.DRIVER

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
        """Say what it does.

        Args:
            recall: Show the model what matters and does not stand among the messages.
            remember: Store what was said; see `create_remember_node`.
            remind: Show what is due or whose topic comes up, and answer a tool call that something
                is intended before with that, once; or the predicates of the state, by name.
            tools: Give the model `search_memory`, `manage_memory` and `manage_reminder`.
            lessons: Lessons at most that a failure brings; 0 for none.
            hold_repeats: Answer a call that a lesson names with that lesson; see `ToolLessons`.
            outcome: Whether the turn succeeded, as a function of the agent's state; None is not
                known. What the turn was shown is credited with it.
            reflect: True keeps what failed with the call that worked later. A chat model draws
                lessons as well, after the answer, by one request a turn at most: from what failed,
                what `outcome` calls a failure, and a message that may correct an answer.
            failed: Whether a tool's answer reports a failure, as a function of its message.
            holdout: The share of memories that each turn goes without; see `get_context`.
            on_error: `continue` goes on without memory where Postgres, an embedding or a chat model
                fails, and tells the log, the stream and `memory_errors`; or `raise`.
            context, coordinator: Those of every node; see `create_recall_node`.
            options: Those of `get_context`; `limit` is 5 and `deduplicate` True if not given.
        """
        super().__init__()
        self._remember, self._remind = remember, remind is not False
        self._model = None if isinstance(reflect, bool) else reflect
        node.check_helpers(self._model, outcome=outcome, failed=failed)
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
        self._turns = node.LatestEntries[str, TurnMemories](_TURNS)

    def _before_agent(
        self, state: TieredMemoryState, runtime: Runtime[Any]
    ) -> Flow[dict[str, Any] | None]:
        """Note the turn's subject and what was said, while it stands among the messages."""
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
        """Show the model what the turn recalls, what is due, and what the last failure taught."""
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
        if type(request.model).bind_tools is BaseChatModel.bind_tools:  # it cannot call any
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
        """Run a tool call, unless there is a reminder for before it, or it failed before."""
        if self._remind:
            step = self._config.step(request.state, request.runtime)
            held = yield from hold_for_reminder(request, step)
            if held is not None:
                return held
        return (yield from invoke(self._tool_lessons.wrap_tool_call, request, handler))

    def _after_agent(
        self, state: TieredMemoryState, runtime: Runtime[Any]
    ) -> Flow[dict[str, Any] | None]:
        """Credit what was shown, learn from failures, and remember what was said, if asked to."""
        step = self._config.step(state, runtime)
        noted: AgentTurn | None = step.read("recalled_run")
        heard, judged, own = step.read(HEARD_KEY), None, step
        done, unanswered = (
            remembering.tool_changes(step.messages),
            speakers.unanswered_messages(step.messages),
        )
        if heard is not None and heard["whose"] != asdict(step.memory.context):
            whose = MemoryContext(**heard["whose"])  # who began the turn
            own = replace(step, memory=self._config.memory(runtime, whose))
        with step.tolerate("outcome"):  # it may ask a model
            if noted is not None and self._outcome is not None:
                judged = read_success(state, self._outcome)
            if noted is not None and judged is not None:
                yield from credit_outcome(step, noted["run"], success=judged)
        if self._reflect:
            learning: Any = {"model": self._model, "failed": self._failed, "judged": judged}
            with step.tolerate("reflect"):
                done["learned"] += yield from learn_from_turn(own, self._did_run(noted), **learning)
        if self._remember:
            shown = self._kept_turn(step) or TurnMemories()  # what repeats it is no news
            recalled = [
                *shown.memories,
                *shown.pinned,
                *[reminder.content for reminder in shown.due],
            ]
            asking = () if noted is None else question_messages(step.messages, noted)
            with step.tolerate("remember"):
                yield from remembering.remember_turn(own, unanswered, asking, recalled, done)
        ended = remembering.end_turn(step, unanswered)
        left = ended.get(HEARD_KEY, heard or {}).get("left")
        update = step.errors(same_turn=True, mended=None if left else "remember") | ended
        for kind, changes in done.items():
            if changes or step.read(kind):  # what an earlier turn did gives way
                update[kind] = changes
        return update or None

    before_agent, abefore_agent = both(_before_agent)
    wrap_model_call, awrap_model_call = both(_wrap_model_call)
    wrap_tool_call, awrap_tool_call = both(_wrap_tool_call)
    after_agent, aafter_agent = both(_after_agent)

    def _kept_turn(self, step: Step) -> TurnMemories | None:
        """Return what this run shows in its turn; None if that is gone, or not known yet."""
        return self._turns.get(str(step.read("recalled_turn")))

    def _find_memories(
        self, step: Step, seen: Sequence[BaseMessage], run: Run, noted: AgentTurn
    ) -> Flow[TurnMemories]:
        """Find what a turn is shown, or what its first call found, read again.

        What the model has `seen` among the messages is not shown as well.
        """
        memory, question = step.memory, noted["asked"]
        about = question_messages(step.messages, noted)
        due, standing = yield from self._reminders(step, question, run, noted)
        recalled, pinned = Recollections(), Recollections()
        with step.tolerate("recall"):
            if "shown" in noted:  # before an interrupt: read again, as far as it is still there
                places = [(tuple(namespace), key) for namespace, key in noted["shown"]]
                reading = recalling.standing(memory, places)
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
        # What is to be reminded of is no memory beside that: it is told when it is due.
        others = [item for item in recalled if item.memory_type != PROSPECTIVE]
        lessons = [item for item in others if item.memory_type in (REFLEXION, ATTEMPT)]
        raised = [reminder.place for reminder in due]
        still = [intention for intention in standing if intention.place not in raised]
        stands: list[Reminder | Intention] = [*due, *still]
        lines = [reminder_line(reminder, memory.context.zone, memory.now) for reminder in stands]
        options: Any = {"pinned": pinned, "now": memory.now, "asked": question}
        text = recalled_text(others, lessons, lines, **options)
        turn = TurnMemories(others, pinned, due, bool(lines), text)
        self._turns.add(noted["run"], turn)
        return turn

    def _reminders(
        self, step: Step, question: str, run: Run, noted: AgentTurn
    ) -> Flow[tuple[Sequence[Reminder], Sequence[Intention]]]:
        """Raise what is due for a turn, leased until the model has answered; and what still stands.

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
        """Tell which tool calls ran: each of them passes by here."""
        return said.did_run_by_watching(
            self._tool_lessons.calls, None if noted is None else noted["run"]
        )

    def _find_lessons(
        self, step: Step, seen: Sequence[BaseMessage], run: Run, noted: AgentTurn
    ) -> Flow[dict[str | None, list[Recollection]]]:
        """Find the lessons of the calls that just failed, by the ids of their answers."""
        lessons: dict[str | None, list[Recollection]] = {}
        if not self._lessons or not node.has_new_tool_answer(seen):
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
