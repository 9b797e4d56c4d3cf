"""Nodes that raise due intentions, and nodes for the hooks of a session.

The hooks handle a session's start and end, a prompt, and completed todos.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, tzinfo
from functools import partial
from typing import Annotated, Any, Final
from uuid import NAMESPACE_OID, uuid5

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, SystemMessage
from langchain_core.runnables import Runnable

from langmem_tiers.agent_state.tasks import NO_TODOS_SEEN, find_newly_completed
from langmem_tiers.coordinator.base import checked_limit
from langmem_tiers.coordinator.coordinator import MemoryCoordinator
from langmem_tiers.coordinator.hooks import EXPIRE_DAYS, MemoryHooks, check_hook_options
from langmem_tiers.core import checks, prompts
from langmem_tiers.core import memory as nouns
from langmem_tiers.core.memory import StoreResult
from langmem_tiers.core.values import replace_unstorable
from langmem_tiers.graph import messages, recall, runtime, speakers
from langmem_tiers.graph.runtime import (
    OnError,
    OnHookError,
    Scope,
    StateSource,
    Step,
    Update,
    invoke,
)
from langmem_tiers.postgres.flow import Flow
from langmem_tiers.recall.prompt_text import (
    clean_label,
    escape_fences,
    indent_lines,
    long_day,
    recalled_text,
)
from langmem_tiers.reminders import intentions
from langmem_tiers.reminders.intentions import DEFAULT_REMINDERS, Intention, Predicates, Reminder
from langmem_tiers.reminders.keywords import LANGUAGES, SESSION_STARTS
from langmem_tiers.reminders.triggers import At, last_due

LEASE_SECONDS: Final = 300.0
"""Seconds after which an unseen reminder is due again, longer than a model's call: our choice."""


def create_reminder_node(
    *,
    query: StateSource | None = None,
    predicates: Predicates | None = None,
    limit: int = DEFAULT_REMINDERS,
    at_start: int = DEFAULT_REMINDERS,
    as_message: bool = False,
    lease_seconds: float | None = LEASE_SECONDS,
    judge: BaseChatModel | None = None,
    on_error: OnError = "continue",
    context: Scope | None = None,
    coordinator: Callable[..., MemoryCoordinator] = MemoryCoordinator,
    name: str = "remind",
) -> Runnable[Any, Update]:
    """Create a node that raises the intentions that are due, for `invoke` and `ainvoke`.

    An intention is due if its time has come, the question shows its cue, the last message calls
    its tool, or its predicate holds of the state. Each is leased to the run: a retry of the node,
    and a run that is resumed, get the same ones again. They are delivered once the model has
    answered, which `create_acknowledge_node` behind it notes; else they are due again when the
    lease has run out. The node writes `reminders`, as JSON, and `reminders_text`, a text for a
    prompt, or an empty one. At a session's start, when the state has no `reminders` yet, it also
    writes `intentions`: the other open ones, by priority; this raises none of them, and the text
    does not name them. A state without the key `reminders` would lose the leased ones: the node
    refuses a run there with a `ConfigurationError`, unless `lease_seconds` is None.

    Args:
        query: The question: a key of the state, or a function of it; else the last human message.
        predicates: Functions of the state, by the names that intentions know them by.
        limit: Reminders at most.
        at_start: Open intentions at most that are listed at a session's start; 0 for none.
        as_message: Add the text to `messages` as well, as a system message.
        lease_seconds: Seconds after which a reminder that no model answered is due again; None
            delivers at once, so that a model that fails has used it up.
        judge: A chat model that says which cues the question shows; see `reminders.due`.
        on_error: The option of `create_recall_node`.
        context, coordinator, name: Options of every node; see `create_recall_node`.

    Raises:
        InvalidInputError: for an option that is out of range or of no use.

    Example:
        ```python
        from langgraph.graph import StateGraph
        from langmem_tiers import MemoryContext, create_reminder_node

        builder = StateGraph(State, context_schema=MemoryContext)
        builder.add_node("remind", create_reminder_node())
        builder.set_entry_point("remind")
        graph = builder.compile(store=store)
        ```
    """
    options = ReminderQuery(query, predicates, limit, at_start, as_message, lease_seconds, judge)

    def reminded(step: Step) -> Flow[Update]:
        with step.tolerate("remind"):
            return (yield from remind(step, options))
        return {**_empty_update(step), **step.errors(same_turn=True)}

    return runtime.NodeConfig(context, coordinator, name, on_error).node(reminded)


def _empty_update(step: Step) -> Update:
    """Return an update without reminders, which drops earlier ones from the state as well.

    So nobody acknowledges a reminder that was not shown.
    """
    nothing: Update = {"reminders_text": ""}
    return nothing if step.read("reminders") is None else {**nothing, "reminders": []}


def create_acknowledge_node(
    *,
    context: Scope | None = None,
    coordinator: Callable[..., MemoryCoordinator] = MemoryCoordinator,
    name: str = "acknowledge",
) -> Runnable[Any, Update]:
    """Create a node that acknowledges the reminders which the model answered.

    It stands after the model, which was shown the state's `reminders`, and writes nothing to the
    state. Acknowledged reminders are raised no more; a second pass does nothing. An error of
    Postgres is logged, and the leased reminders are raised once more. In a graph whose state lacks
    the key `reminders` a run is refused, with a `ConfigurationError`.

    Args:
        context, coordinator, name: Options of every node; see `create_recall_node`.
    """

    def acknowledge(step: Step) -> Flow[Update]:
        yield from _acknowledge(step, step.read("reminders") or ())
        return {}

    return runtime.NodeConfig(context, coordinator, name).node(acknowledge, ["reminders"])


@dataclass(frozen=True, slots=True)
class ReminderQuery:
    """Checked options of a node that raises reminders."""

    query: StateSource | None = None
    predicates: Predicates | None = None
    limit: int = DEFAULT_REMINDERS
    at_start: int = DEFAULT_REMINDERS
    as_message: bool = False
    lease_seconds: float | None = LEASE_SECONDS
    judge: BaseChatModel | None = None

    def __post_init__(self) -> None:
        """Refuse options that could only fail in a run."""
        runtime.check_state_sources(query=self.query)
        for named, predicate in intentions.checked_predicates(self.predicates).items():
            checks.checked_function(predicate, f"the predicate {named!r}")
        checked_limit(self.limit)
        checked_limit(self.at_start)
        intentions.checked_seconds(self.lease_seconds)
        runtime.check_helpers(self.judge)
        checks.checked_flag(self.as_message, "as_message")

    def question(self, step: Step) -> str | None:
        """Return the text in which cues are looked for; None without one."""
        if self.query is None:
            return replace_unstorable(runtime.text_of(runtime.last_question(step.messages))) or None
        value = runtime.read_state(step.state, self.query)
        return None if value is None else str(value)


def remind(step: Step, options: ReminderQuery) -> Flow[Update]:
    """Raise the intentions that are due; at a session's start list the other open ones."""
    if options.lease_seconds is not None:
        runtime.check_keys(step.config, "reminders")
    memory, before = step.memory, step.read("reminders")
    answers = [message for message in step.messages if isinstance(message, AIMessage)]
    # A model's last message is known by its id, else by how many there are.
    answer = (answers[-1].id if answers else None) or len(answers)
    yield from _acknowledge(
        step,
        [
            reminder
            for reminder in before or ()
            if _has_answered_since(answer, reminder.get("after"))
        ],
    )
    raised = yield from invoke(
        memory.reminders.due,
        options.question(step),
        tool=messages.pending_calls(step.messages) or None,
        state=None if options.predicates is None else step.state,
        predicates=options.predicates,
        limit=options.limit,
        lease_seconds=options.lease_seconds,
        run_id=step.run,
        judge=options.judge,
    )
    text = reminders_text(raised, zone=memory.context.zone, now=memory.now)
    reminders = [{**intentions.reminder_json(reminder), "after": answer} for reminder in raised]
    update: Update = {"reminders": reminders, "reminders_text": text}
    if before is None:
        listed = (yield from invoke(memory.reminders.list)) if options.at_start else []
        keys = {(reminder.namespace, reminder.key) for reminder in raised}
        others = [
            intention for intention in listed if (intention.namespace, intention.key) not in keys
        ]
        update["intentions"] = [
            {"key": each.key, "content": each.content, "priority": str(each.priority)}
            for each in others[: options.at_start]
        ]
    if options.as_message and text:
        update["messages"] = [SystemMessage(text, id=str(uuid5(NAMESPACE_OID, step.run.id)))]
    return update


def _acknowledge(step: Step, reminders: Sequence[Mapping[str, Any]]) -> Flow[None]:
    """Acknowledge reminders that a model has seen; an error is logged and loses no answer."""
    with runtime.continue_on_error("acknowledge"):
        yield from invoke(
            step.memory.reminders.acknowledge, *[reminder["token"] for reminder in reminders]
        )


def _has_answered_since(answer: str | int, before: str | int | None) -> bool:
    """Tell whether a model has answered since; trimmed messages are no answer."""
    if isinstance(answer, int) and isinstance(before, int):
        return answer > before
    return bool(answer) and before is not None and answer != before


def reminders_text(
    reminders: Sequence[Reminder], *, zone: tzinfo = UTC, now: datetime | None = None
) -> str:
    """Write reminders as one text for a prompt, a line each; an empty one if there are none.

    Times are in `zone`. With `now`, a recurring reminder has its latest time that has come.

    Example:
        ```python
        from langmem_tiers.graph.reminders import reminders_text

        prompt = reminders_text(memory.reminders.due("Anna asked about the budget"))
        ```
    """
    return recalled_text(
        (), reminders=[reminder_line(reminder, zone, now) for reminder in reminders]
    )


def reminder_line(
    reminder: Reminder | Intention, zone: tzinfo = UTC, now: datetime | None = None
) -> str:
    """Write a reminder as a line of a prompt: its handle, content, time or cue, and priority."""
    is_usual = reminder.priority is intentions.Priority.MEDIUM
    reasons = [*_due_reasons(reminder, zone, now)]
    reasons += [] if is_usual else [prompts.REMINDERS_PRIORITY.format(priority=reminder.priority)]
    return prompts.REMINDERS_ONE.format(
        handle=f"{nouns.bracket_handle(nouns.handle_of(reminder.namespace, reminder.key))} ",
        content=indent_lines(escape_fences(reminder.content)),
        why=prompts.REMINDERS_WHY.format(why="; ".join(reasons)) if reasons else "",
    )


def _due_reasons(
    reminder: Reminder | Intention, zone: tzinfo, now: datetime | None
) -> Iterator[str]:
    """Yield the time or the trigger of a reminder; nothing if it waits for no moment."""
    trigger = reminder.trigger
    if not isinstance(trigger, At):
        yield clean_label(escape_fences(str(trigger)))
    elif trigger.moment is not None:
        due_at = reminder.due_at if now is None else last_due(trigger, reminder.due_at, now)
        local = due_at.astimezone(checks.zone_of(trigger.timezone) if trigger.every else zone)
        yield f"{long_day(local.date())}, {local:%H:%M}"
        if trigger.every:
            yield f"repeats {trigger.every}"


_SESSION_START_KEYS: Final = ("hooks", "reminders", "reminders_text")
"""State keys that the node of a session's start writes and that must not be lost."""


def merge_hooks(before: dict[str, Any] | None, new: dict[str, Any] | None) -> dict[str, Any]:
    """Merge the latest results of hooks, each under its name."""
    return {**(before or {}), **(new or {})}


class HookState(recall.MemoryState, total=False):
    """State of a graph with the keys of hooks; subclass it, or name its keys in your own."""

    hooks: Annotated[dict[str, Any], merge_hooks]
    """Latest result of each hook, by its name; its `error` if it failed."""
    reminders: list[dict[str, Any]]
    """Raised reminders, as JSON."""
    reminders_text: str
    """The reminders as a text for a prompt; empty if there are none."""
    intentions: list[dict[str, Any]]
    """Other intentions that were open when the session began, by priority."""
    todos: list[dict[str, Any]]
    """Todos, each with `content` and `status`; LangChain's `write_todos` writes them."""
    todos_seen: dict[str, Any]
    """Times at which todos were first in progress, and the todos that are remembered."""
    session_ended: bool
    session: dict[str, Any] | None
    """Report of the session; see `create_session_end_node`."""
    consolidated: dict[str, Any]
    """Report of the last cycle; see `create_consolidation_graph`."""


def create_session_start_node(
    *,
    query: StateSource | None = None,
    predicates: Predicates | None = None,
    limit: int = DEFAULT_REMINDERS,
    at_start: int | None = None,
    as_message: bool = False,
    lease_seconds: float | None = LEASE_SECONDS,
    on_error: OnHookError = "tell",
    context: Scope | None = None,
    coordinator: Callable[..., MemoryCoordinator] = MemoryCoordinator,
    name: str = "session_start",
) -> Runnable[Any, Update]:
    """Create a node that begins a session: it lists open intentions, and raises those due.

    It is the reminder node, and may be passed with every message. On the session's first message,
    when the state has no `reminders` yet, it lists the open intentions by priority, and also raises
    those that wait for a session to start. It writes `reminders`, `reminders_text` and
    `intentions`; `create_acknowledge_node` behind the model notes that they were seen.

    Args:
        query, predicates, as_message, lease_seconds: Options of `create_reminder_node`.
        limit: Reminders at most, and open intentions at most that are listed.
        at_start: Open intentions at most that are listed, if that is another number.
        on_error: See `create_user_prompt_node`; a session whose start failed starts the next time.
        context, coordinator, name: Options of every node; see `create_recall_node`.

    Raises:
        InvalidInputError: for an option that is out of range or of no use.
    """
    begins = {SESSION_STARTS: lambda state: runtime.read_state(state, "reminders", None) is None}
    waits = begins | dict(intentions.checked_predicates(predicates))
    listed = limit if at_start is None else at_start
    options = ReminderQuery(query, waits, limit, listed, as_message, lease_seconds)

    def start(step: Step) -> Flow[Update]:
        done = yield from step.run_hook(remind(step, options))
        if "error" in done:
            return {**_empty_update(step), "hooks": {name: done}}
        keys = {"reminders": [reminder["key"] for reminder in done["reminders"]]}
        if "intentions" in done:
            keys["pending"] = [intention["key"] for intention in done["intentions"]]
        return {**done, "hooks": {name: keys}}

    return runtime.NodeConfig(context, coordinator, name, on_error, "tell").node(
        start, _SESSION_START_KEYS
    )


def create_user_prompt_node(
    *,
    prompt: StateSource | None = None,
    languages: Sequence[str] = LANGUAGES,
    expire_days: float | None = EXPIRE_DAYS,
    on_error: OnHookError = "tell",
    context: Scope | None = None,
    coordinator: Callable[..., MemoryCoordinator] = MemoryCoordinator,
    name: str = "user_prompt",
) -> Runnable[Any, Update]:
    """Create a node that keeps a user's prompt and its intention, for `invoke` and `ainvoke`.

    See `MemoryHooks.on_user_prompt_submit`. It writes `hooks["user_prompt"]`. A retry of the node,
    and a loop that comes by with the same message, store nothing twice. The session is the
    context's, else the thread.

    Args:
        prompt: The user's prompt: a key of the state, or a function of it. The default is the text
            of the human messages since the last answer that people wrote.
        languages: The languages in which prompts name times; see `MemoryHooks`.
        expire_days: Days after which an intention without a time expires; None for never.
        on_error: `tell` writes the error to the log and to `hooks["user_prompt"]["error"]`, and the
            graph goes on; `raise` leaves it to the graph and its retry policy.
        context, coordinator, name: Options of every node; see `create_recall_node`.

    Raises:
        InvalidInputError: for an option that is out of range or of no use.

    Example:
        ```python
        from langgraph.graph import StateGraph
        from langmem_tiers import HookState, MemoryContext, create_user_prompt_node

        builder = StateGraph(HookState, context_schema=MemoryContext)
        builder.add_node("user_prompt", create_user_prompt_node())
        builder.set_entry_point("user_prompt")
        graph = builder.compile(store=store)
        ```
    """
    runtime.check_state_sources(prompt=prompt)
    options = check_hook_options(languages, expire_days)
    body = partial(_submit_prompts, prompt=prompt, options=options)
    return runtime.NodeConfig(context, coordinator, name, on_error, "tell").node(body, ("hooks",))


def _submit_prompts(
    step: Step, *, prompt: StateSource | None, options: dict[str, Any]
) -> Flow[Update]:
    """Keep people's prompts since the last answer, up to one that fails; report the last."""
    hooks = MemoryHooks(step.memory, **options)
    if prompt is None:
        people = yield from speakers.speakers_in(step.config, step.memory.gate)
        submissions = [
            (replace_unstorable(runtime.text_of(human)), human.id, people.options(human)["speaker"])
            for human in speakers.unanswered_messages(step.messages)
            if people.is_person(human)
        ]
    else:
        submissions = [(str(runtime.read_state(step.state, prompt) or ""), None, "user")]
    done: dict[str, Any] = {}
    for text, message_id, speaker in submissions:
        if text.strip() and "error" not in done:
            done = yield from step.run_hook(_submit_prompt(hooks, text, message_id, speaker))
    return {"hooks": {step.node.name: done}}


def _submit_prompt(
    hooks: MemoryHooks, text: str, message_id: str | None, speaker: str
) -> Flow[dict[str, Any]]:
    """Keep a prompt, and return the result as JSON."""
    named: Any = {"message_id": message_id, "speaker": speaker}
    done = yield from invoke(hooks.on_user_prompt_submit, text, **named)
    return {
        "working": _result_facts(done.working),
        "intended": None if done.intended is None else _result_facts(done.intended),
        "priority": None if done.priority is None else str(done.priority),
        "trigger": None if done.trigger is None else str(done.trigger),
        "untimed": done.untimed,
    }


def _result_facts(result: StoreResult) -> dict[str, Any]:
    """Return the result of a store as JSON."""
    return {name: getattr(result, name) for name in ("stored", "key", "quarantined", "reason")}


def create_completed_task_node(
    *,
    tasks: StateSource = "todos",
    on_error: OnHookError = "tell",
    context: Scope | None = None,
    coordinator: Callable[..., MemoryCoordinator] = MemoryCoordinator,
    name: str = "completed_tasks",
) -> Runnable[Any, Update]:
    """Create a node that stores, for each todo completed since its last pass, how it was done.

    See `MemoryHooks.on_todo_write_complete`. The node knows how long a todo took if it saw it in
    progress. A todo without steps of its own gets the tool calls that worked since `write_todos`
    put it in progress. The node writes `hooks["completed_tasks"]`, and `todos_seen`, which the
    state has to keep. A retry of the node stores nothing twice.

    Args:
        tasks: Todos, each with `content` and `status`: a key of the state, or a function of it.
        on_error: See `create_user_prompt_node`; the next pass tries a todo again that failed.
        context, coordinator, name: Options of every node; see `create_recall_node`.

    Raises:
        InvalidInputError: for an option that is out of range or of no use.
    """
    runtime.check_state_sources(["tasks"], tasks=tasks)

    def note(step: Step) -> Flow[Update]:
        todos = runtime.read_state(step.state, tasks, None) or ()
        seen = step.read("todos_seen") or NO_TODOS_SEEN
        done = yield from step.run_hook(_store_completed(step, todos, seen))
        update = {"todos_seen": done.pop("seen", seen)}
        return {**update, "hooks": {name: done}} if done else update

    config = runtime.NodeConfig(context, coordinator, name, on_error, "tell")
    return config.node(note, ("hooks", "todos_seen"))


def _store_completed(
    step: Step, todos: Sequence[Mapping[str, Any]], seen: Mapping[str, Any]
) -> Flow[dict[str, Any]]:
    """Store how todos were done, each once in the turn of its message."""
    hooks, conversation = MemoryHooks(step.memory), step.messages
    now = step.memory.tiered_store.flows.now
    fresh, seeing = find_newly_completed(map(_storable_todo, todos), seen, now)
    stored, trust = [], 1.0
    if fresh:
        trust = yield from speakers.trust_in_step(step)
    question = runtime.last_question(conversation)
    for todo in fresh:
        done = {"steps": messages.todo_steps(todo["content"], conversation), **todo}
        names = (
            str(None if question is None else question.id),
            str(todo.get("id") or todo["content"]),
        )
        options: Any = {"trust": trust, "key": hooks.key(*names, "todo")}
        result = yield from invoke(hooks.on_todo_write_complete, done, **options)
        if result is not None:
            stored.append(_result_facts(result))
    return {"seen": seeing, "stored": stored} if stored else {"seen": seeing}


def _storable_todo(todo: Any) -> Any:
    """Return a todo that Postgres can hold: a model may write anything."""
    if not isinstance(todo, Mapping):
        return todo
    return {
        name: replace_unstorable(value) if isinstance(value, str) else value
        for name, value in todo.items()
    }


def create_session_end_node(
    *,
    ended: StateSource = "session_ended",
    events: StateSource | None = None,
    concepts: StateSource | None = None,
    model: BaseChatModel | None = None,
    on_error: OnHookError = "tell",
    context: Scope | None = None,
    coordinator: Callable[..., MemoryCoordinator] = MemoryCoordinator,
    name: str = "session_end",
) -> Runnable[Any, Update]:
    """Create a node that closes the run's session if it is over.

    See `MemoryHooks.on_session_stop`. The node writes the state key `session`: the `SessionReport`
    as JSON, with the keys of the stored `events` and `concepts`, or None while the session goes on.
    A retry of the node stores nothing twice. The session is the context's, else the thread.

    Args:
        ended: True if the session is over: a key of the state, or a function of the state. Until
            the key is written the session goes on; a state without such a key is refused.
        events: Significant events, each with a `description` and a `type`: a key of the state, or a
            function of it.
        concepts: Lessons, each with a `description` and a `category`, likewise.
        model: A chat model that sums up events and lessons; without one rules do.
        on_error: `tell` writes the error to the log and to `session["error"]`; `raise` leaves it to
            the graph and its retry policy. The notes stay for another try.
        context, coordinator, name: Options of every node; see `create_recall_node`.

    Raises:
        ConfigurationError: when it runs, if the state has no key `session`, or none that `ended`
            names.
        InvalidInputError: when it runs, if no session is named.
    """
    sources = {"events": events, "concepts": concepts}
    runtime.check_state_sources(["ended"], ended=ended, **sources)
    runtime.check_helpers(model)
    keys = ("session", ended) if isinstance(ended, str) else ("session",)
    config = runtime.NodeConfig(context, coordinator, name, on_error, "tell")
    return config.node(partial(_close_session, ended=ended, sources=sources, model=model), keys)


def _close_session(
    step: Step,
    *,
    ended: StateSource,
    sources: dict[str, StateSource | None],
    model: BaseChatModel | None,
) -> Flow[Update]:
    """Close the session of a run if it is over."""
    over = runtime.read_state(step.state, ended, default=None)
    if over is None or not checks.checked_flag(over, "whether the session ended"):
        return {"session": None}
    fields = {
        name: runtime.read_state(step.state, source, None)
        for name, source in sources.items()
        if source is not None
    }
    fields["trust"] = yield from speakers.trust_in_step(step)
    stopping = _stop_session(step.memory, fields, model)
    if step.memory.context.session_id is None:  # a mistake, which is raised
        return {"session": (yield from stopping)}
    return {"session": (yield from step.run_hook(stopping))}


def _stop_session(
    memory: MemoryCoordinator, fields: dict[str, Any], model: BaseChatModel | None
) -> Flow[dict[str, Any]]:
    stop = yield from invoke(MemoryHooks(memory).on_session_stop, fields, model=model)
    report = asdict(stop.report).items()
    return {
        **{name: list(value) if isinstance(value, tuple) else value for name, value in report},
        "events": [event.key for event in stop.events if event.stored],
        "concepts": [concept.key for concept in stop.concepts if concept.stored],
    }
