"""Hooks that remember by themselves when a session, a prompt or a todo begins or ends."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Any, Final, Literal
from uuid import NAMESPACE_OID, uuid5

from langchain_core.language_models import BaseChatModel

from langmem_tiers.agent_state.models import Task
from langmem_tiers.agent_state.tasks import COMPLETED, build_workflow
from langmem_tiers.consolidation.session_end import SessionReport
from langmem_tiers.coordinator import recall, remember, reminders, sessions, short_term
from langmem_tiers.coordinator.coordinator import MemoryCoordinator
from langmem_tiers.core import chat_models, checks
from langmem_tiers.core.context import MemoryContext
from langmem_tiers.core.errors import InvalidInputError, InvalidTypeError, short
from langmem_tiers.core.memory import PERSON_SOURCES, Source, StoreResult
from langmem_tiers.core.texts import normalise
from langmem_tiers.learning.outcome import Run
from langmem_tiers.postgres.flow import Flow, both, off_loop, unit
from langmem_tiers.remember.new_memory import checked_text
from langmem_tiers.reminders import intentions
from langmem_tiers.reminders.intentions import DEFAULT_REMINDERS, Predicates
from langmem_tiers.reminders.keywords import (
    LANGUAGES,
    SESSION_STARTS,
    PromptIntention,
    checked_languages,
    find_intention,
    read_time,
)
from langmem_tiers.reminders.triggers import At, If, Trigger

_KINDS: Final = {
    "event": ("type", "decision_type", "event"),
    "concept": ("category", "category", "fact"),
}
"""Field of an item that has its kind, the metadata's name for it, and the default kind."""

_MAX_DAYS: Final = 36_500
EXPIRE_DAYS: Final = 7.0
"""Days after which an intention without a time expires: our own choice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStart:
    """Reminders and open intentions at the start of a session."""

    reminders: tuple[intentions.Reminder, ...] = ()
    """Reminders that were raised, by priority."""
    pending: tuple[intentions.Intention, ...] = ()
    """Open intentions, by priority; a raised one is open until it is closed."""

    def __str__(self) -> str:
        """Return the open intentions, one a line, with their priorities."""
        return "\n".join(map(str, self.pending))


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptSubmit:
    """Result of a prompt."""

    working: StoreResult
    """Result of the prompt as working memory."""
    intended: StoreResult | None = None
    """Result of its intention as prospective memory; None if it has none, or the gate refused."""
    priority: intentions.Priority | None = None
    trigger: Trigger | None = None
    untimed: str | None = None
    """Reason that the intention has no time; None if it has one, or there is no intention."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStop:
    """Result of a session's end."""

    report: SessionReport
    events: tuple[StoreResult, ...] = ()
    """Results of significant events, as episodic memories."""
    concepts: tuple[StoreResult, ...] = ()
    """Results of the concepts in the data, as semantic memories; others are in the report."""

    def __str__(self) -> str:
        """Return the counts of events and concepts, then the report."""
        events, concepts = (
            sum(result.stored for result in some) for some in (self.events, self.concepts)
        )
        return f"kept: {events} as events, {concepts} as concepts\n{self.report}"


def parse_session_items(value: object, what: Literal["event", "concept"]) -> list[dict[str, Any]]:
    """Return events or concepts as arguments of `store`, each once, each with a kind.

    Raises:
        InvalidInputError: for what is no event, or no concept.
    """
    if isinstance(value, Mapping):
        raise InvalidTypeError(f"{what}s is a list of mappings, not {short(value)}")
    field, name, otherwise = _KINDS[what]
    notes: dict[str, dict[str, Any]] = {}
    for item in checks.checked_list(() if value is None else value, f"{what}s", "mappings"):
        if not isinstance(item, Mapping):
            raise InvalidTypeError(
                f"{what}s are mappings with a description and a {field}, not {short(item)}"
            )
        text = checked_text(item.get("description"), f"the description among the {what}s")
        kind = checks.checked_label(item.get(field), field) or otherwise
        named = item.get("source", Source.AGENT)
        source = Source.AGENT if named in PERSON_SOURCES else named
        notes.setdefault(text, {"content": text, "metadata": {name: kind}, "source": source})
    return list(notes.values())


def check_hook_options(languages: Sequence[str], expire_days: float | None) -> dict[str, Any]:
    """Return the checked options of `MemoryHooks` for the time of a prompt's intention.

    Raises:
        InvalidInputError: for unknown languages, or days that are no number above 0 and up to
            36500.
        MissingExtraError: for other languages than English without the extra `dates`.
    """
    named = checked_languages(languages)
    if expire_days is not None:
        use = f"days, above 0 and up to {_MAX_DAYS}, or None for never"
        checks.checked_number(expire_days, "expire_days", 0, _MAX_DAYS, but=(0,), use=use)
    return {"languages": named, "expire_days": expire_days}


def on_session_start(
    hooks: MemoryHooks,
    query: str | None = None,
    *,
    state: Any = None,
    predicates: Predicates | None = None,
    limit: int = DEFAULT_REMINDERS,
    lease_seconds: float | None = None,
    run_id: str | Run | None = None,
) -> Flow[SessionStart]:
    """Raise due intentions and those that wait for a session's start, and list the open ones.

    Args:
        query: The first text of the session, for cues.
        state: The graph's state, for predicates.
        predicates: Functions of the state, by the names that intentions use.
        limit: Most reminders, and most open intentions, by priority.
        lease_seconds: Seconds that a reminder waits to be acknowledged; see
            `reminders.due`.
        run_id: The run that they are raised for; see `reminders.due`.
    """
    memory = hooks.memory
    raised = reminders.due(
        memory,
        query,
        state=state,
        predicates={**intentions.checked_predicates(predicates), SESSION_STARTS: lambda _: True},
        limit=limit,
        lease_seconds=lease_seconds,
        run_id=run_id,
    )
    due = yield from unit(raised)
    pending = yield from unit(reminders.list_(memory, limit=limit))
    return SessionStart(reminders=tuple(due), pending=tuple(pending))


def on_user_prompt_submit(
    hooks: MemoryHooks, prompt: str, *, message_id: str | None = None, speaker: str = "user"
) -> Flow[PromptSubmit]:
    """Store a prompt as working memory, and its intention as prospective memory.

    The prompt is a memory of type `working`, with the session in its metadata. One of the
    specification's keywords ("todo", "later", "need to", "plan to") makes an intention: a
    `prospective` memory, with the priority in its metadata. It is raised at the time that the
    prompt names, as `dateparser` reads it, else when the next session starts; `untimed` says why it
    has no time. A prompt that the gate did not accept has no intention.

    Args:
        prompt: The user's words, verbatim.
        message_id: Your own id, unique in the session: a retry stores nothing twice.
        speaker: The speaker, if several people speak.
    """
    text, named = checked_text(prompt, "the prompt"), checks.checked_label(message_id, "message_id")
    note = {
        "content": text,
        "memory_type": "working",
        "session_id": hooks.session_id,
        "speaker": speaker,
        "metadata": {"session_id": hooks.session_id},
        "key": None if named is None else hooks.key(named, "prompt"),
    }
    return _store_prompt(hooks, note, named)


def _store_prompt(
    hooks: MemoryHooks, note: dict[str, Any], named: str | None
) -> Flow[PromptSubmit]:
    """Store a prompt, and its intention, under keys of its message."""
    text, speaker = note["content"], note["speaker"]
    (working,) = yield from unit(remember.store_many(hooks.memory, [note]))
    intention = find_intention(text)
    if intention is None or not working.stored or working.quarantined:
        return PromptSubmit(working=working)
    now = hooks.memory.now
    timed = yield from off_loop(
        partial(read_time, intention.content, now, hooks.languages), sys.maxsize
    )
    trigger = timed.at or If(SESSION_STARTS)
    key = None if named is None else hooks.key(named, "intended")
    intended = yield from _add_intention(hooks, intention, trigger, key, speaker)
    return PromptSubmit(
        working=working,
        intended=intended,
        priority=intention.priority,
        trigger=trigger,
        untimed=timed.reason,
    )


def _add_intention(
    hooks: MemoryHooks, intention: PromptIntention, trigger: At | If, key: str | None, speaker: str
) -> Flow[StoreResult]:
    """Add an intention once: a repeated prompt does not move its time."""
    memory = hooks.memory
    existing: Any = None if key is None else (yield from unit(recall.get(memory, key)))
    if existing is None:
        text = normalise(intention.content)
        listed = yield from unit(reminders.list_(memory))
        same = (other for other in listed if other.trigger == trigger)
        existing = next((other for other in same if normalise(other.content) == text), None)
    if existing is not None:
        return StoreResult(
            stored=True, key=existing.key, tier=existing.tier, reason="it is intended"
        )
    timed = isinstance(trigger, At)
    lasts = timed or hooks.expire_days is None
    waits: Any = {"at" if timed else "when": trigger}
    intended = reminders.add(
        memory,
        intention.content,
        priority=intention.priority,
        key=key,
        speaker=speaker,
        expires_at=None if lasts else memory.now + timedelta(days=hooks.expire_days or 0),
        **waits,
    )
    return (yield from unit(intended))


def on_todo_write_complete(
    hooks: MemoryHooks,
    todo_item: Mapping[str, Any] | Task,
    *,
    source: str = Source.AGENT,
    trust: float | None = None,
    key: str | None = None,
) -> Flow[StoreResult | None]:
    """Store the workflow of a completed todo as procedural memory; return None if not completed.

    It belongs to the context's user, if there is one.

    Args:
        todo_item: `content` and `status`, and if they are known `steps`, `task_type`,
            `duration` in minutes and `success` (true if not given); or a task that
            `memory.state` closed.
        source: The source of the todo.
        trust: The highest trust in it, from 0 to 1.
        key: Your own key, under which a retry stores nothing twice.

    Raises:
        InvalidInputError: for what is no todo; nothing was stored.
    """
    workflow = build_workflow(todo_item, ended=hooks.memory.tiered_store.flows.now)
    # A todo and its steps repeat its user's request.
    personal = None if hooks.context.user_id is None else True
    origin = {"source": source, "trust": trust, "key": key, "personal": personal}
    return _store_workflow(hooks, None if workflow is None else {**workflow, **origin})


def _store_workflow(
    hooks: MemoryHooks, workflow: dict[str, Any] | None
) -> Flow[StoreResult | None]:
    """Store a workflow, if there is one."""
    if workflow is None:
        return None
    (result,) = yield from unit(remember.store_many(hooks.memory, [workflow]))
    return result


def complete_task(hooks: MemoryHooks, task_id: str) -> Flow[StoreResult | None]:
    """Store the workflow of an active task of `memory.state`, and close it as completed.

    Its duration counts from its start; `content`, `steps` and `success` may stand in its metadata.
    The result is None if the task is not active.
    """
    return _complete(hooks, checks.checked_name(task_id, "task_id"))


def _complete(hooks: MemoryHooks, task_id: str) -> Flow[StoreResult | None]:
    """Store the workflow of a task, and close the task."""
    state = hooks.memory.state
    active = yield from unit(short_term.get_active_tasks(state))
    task = next((each for each in active if each.task_id == task_id), None)
    if task is None:
        return None
    key = hooks.key(task_id, task.created_at.isoformat(), "task")
    # It is stored before the task is closed: a retry after a crash repeats it under the same key.
    kept = yield from on_todo_write_complete(hooks, replace(task, status=COMPLETED), key=key)
    yield from unit(short_term.close_task(state, task_id, COMPLETED))
    return kept


def on_session_stop(
    hooks: MemoryHooks,
    session_data: Mapping[str, Any] | None = None,
    *,
    model: BaseChatModel | None = None,
) -> Flow[SessionStop]:
    """Store a session's events and concepts, consolidate it, and clear its working memory.

    Significant events are `episodic` memories with a `decision_type` in their metadata, learned
    concepts `semantic` ones with a `category`. Then the session is consolidated, see
    `admin.consolidate_session`; without a model, the user's statements in its notes are lifted too.
    Memories made of notes have `promoted_from`.

    Args:
        session_data: `session_id`, else that of these hooks; `events`, each with a
            `description` and a `type`; `concepts`, each with a `description` and a `category`,
            beside those in its notes; `trust`, the highest trust in these.
        model: A chat model that sums the session up; see `admin.consolidate_session`.

    Raises:
        InvalidInputError: if no session is named, or for what is no event or concept; nothing
            was stored.
        ModelError: if the model gave nothing usable; the notes are as they were.
    """
    data = {} if session_data is None else session_data
    if not isinstance(data, Mapping):
        raise InvalidTypeError(f"session_data is a mapping, not {type(data).__name__}")
    if unknown := data.keys() - {"session_id", "events", "concepts", "trust"}:
        raise InvalidInputError(
            f"session_data has {min(map(short, unknown))}: use session_id, events, concepts, trust"
        )
    if model is not None:
        chat_models.checked_model(model)
    named = checks.checked_label(data.get("session_id"), "session_id") or hooks.session_id
    session = sessions.checked_session(hooks.memory, named)
    events = parse_session_items(data.get("events"), "event")
    concepts = parse_session_items(data.get("concepts"), "concept")
    its = MemoryHooks(hooks.memory, session_id=session)
    kept = [
        {
            **note,
            "session_id": session,
            "memory_type": kind,
            "key": its.key(kind, note["content"]),
            "trust": data.get("trust"),
        }
        for kind, notes in (("episodic", events), ("semantic", concepts))
        for note in notes
    ]
    return _stop_session(its, kept, len(events), model)


def _stop_session(
    hooks: MemoryHooks, kept: list[dict[str, Any]], events: int, model: BaseChatModel | None
) -> Flow[SessionStop]:
    """Store a session's items, the events first, and consolidate it."""
    memory, session = hooks.memory, hooks.session_id
    results = (yield from unit(remember.store_many(memory, kept))) if kept else []
    report = yield from unit(sessions.end_session_of(memory, session, model, stated=True))
    return SessionStop(
        report=report, events=tuple(results[:events]), concepts=tuple(results[events:])
    )


class MemoryHooks:
    """Hooks that remember when a session starts or stops, a prompt comes, or a task is completed.

    Every text passes the coordinator's gate. Every verb has an async twin with an `a` in front,
    raises the coordinator's errors, and can be repeated: under the same names nothing is written
    twice. Each is described where its flow is made.

    Example:
        ```python
        from langmem_tiers import MemoryContext, MemoryCoordinator, MemoryHooks, TieredStore

        context = MemoryContext(tenant="acme", project_id="billing", session_id="chat-7")
        with TieredStore.embedded("./.memory") as store:
            hooks = MemoryHooks(MemoryCoordinator(store, context=context))
            print(hooks.on_session_start())
            hooks.on_user_prompt_submit("I need to renew the certificate tomorrow, it is urgent")
            hooks.on_todo_write_complete({"content": "Renew it", "status": "completed"})
            print(hooks.on_session_stop())
        ```
    """

    on_session_start, aon_session_start = both(on_session_start, "tool")
    on_user_prompt_submit, aon_user_prompt_submit = both(on_user_prompt_submit, "tool")
    on_todo_write_complete, aon_todo_write_complete = both(on_todo_write_complete, "tool")
    complete_task, acomplete_task = both(complete_task, "tool")
    on_session_stop, aon_session_stop = both(on_session_stop, "tool")

    def __init__(
        self,
        memory: MemoryCoordinator,
        *,
        session_id: str | None = None,
        languages: Sequence[str] = LANGUAGES,
        expire_days: float | None = EXPIRE_DAYS,
    ) -> None:
        """Add hooks to a coordinator.

        Args:
            memory: StateOwner memory it is.
            session_id: The session; the context's if not given.
            languages: The languages in which prompts name times, by the codes of `dateparser`.
            expire_days: Days after which an intention without a time expires; None for never.

        Raises:
            InvalidInputError: for an invalid option.
            MissingExtraError: for other languages than English without the extra `dates`.
        """
        if not isinstance(memory, MemoryCoordinator):
            raise InvalidTypeError(f"hooks need a MemoryCoordinator, not {type(memory).__name__}")
        self.memory, self.runner = memory, memory.runner
        self.session_id = (
            checks.checked_label(session_id, "session_id") or memory.context.session_id
        )
        options = check_hook_options(languages, expire_days)
        self.languages: tuple[str, ...] = options["languages"]
        self.expire_days: float | None = options["expire_days"]

    def __repr__(self) -> str:
        """Return the coordinator and the session."""
        return f"MemoryHooks({self.memory!r}, session_id={self.session_id!r})"

    @property
    def context(self) -> MemoryContext:
        """Context of the coordinator, with the session of these hooks."""
        return replace(self.memory.context, session_id=self.session_id)

    def key(self, *names: str) -> str:
        """Return a key that is the same for the same names in the session."""
        context = self.memory.context
        user = () if context.user_id is None else (context.user_id,)
        owner = str(context.project_id), str(self.session_id), *user
        return str(uuid5(NAMESPACE_OID, "\0".join((*owner, *names))))
