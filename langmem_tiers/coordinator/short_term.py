"""Verbs of the short-term state of a session and an agent."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import cached_property
from typing import Any, Final, TypeVar, cast
from uuid import uuid4

from langmem_tiers.agent_state import models as states
from langmem_tiers.agent_state.models import DailySpend, EmotionalState, Goal, Message, Task
from langmem_tiers.core import checks
from langmem_tiers.core.context import MemoryContext
from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.core.values import encode_value
from langmem_tiers.postgres.flow import (
    Flow,
    Query,
    both,
    map_result,
    retried_on_conflict,
    retry_on_conflict,
    rows_of,
)
from langmem_tiers.remember.new_memory import checked_text
from langmem_tiers.store.store import TieredStore

_KINDS: Final[Mapping[type[Task | Goal], str]] = {Task: states.TASK, Goal: states.GOAL}
S = TypeVar("S", Task, Goal)


def snapshot(state: ShortTermState, limit: int = 20) -> Flow[states.ShortTermSnapshot]:
    """Return the whole state, with up to `limit` messages, in one round trip."""
    return _read_snapshot(state, limit, states.KINDS)


def add_interaction(
    state: ShortTermState,
    role: str,
    content: str,
    metadata: Mapping[str, Any] | None = None,
    *,
    message_id: str | None = None,
) -> Flow[Message]:
    """Add a message to the session's conversation, with the context's agent.

    A conversation keeps the last hour, and of that the newest 200 messages.

    Args:
        role: The role of the speaker, such as `user` or `assistant`.
        content: The text, verbatim.
        metadata: Any other JSON.
        message_id: Your own id. Another message under it, as by a retry, replaces this one in its
            place.

    Raises:
        InvalidInputError: for what cannot be stored; nothing was.
    """
    message = Message(
        message_id=str(uuid4()) if message_id is None else message_id,
        role=role,
        content=content,
        at=state.now,
        metadata={} if metadata is None else metadata,
        agent_id=state.context.agent_id,
    )
    names = ("role", "content", "metadata", "agent_id")
    params = {
        "name": message.message_id,
        "value": encode_value({name: getattr(message, name) for name in names}, state.owner.bounds),
        "now": message.at,
        "expires_at": message.at + states.MESSAGE_LIFETIME,
        "most": states.MAX_MESSAGES,
    }
    adding = rows_of("add_message", **state.owner.params, **params)
    return map_result(adding, lambda rows: replace(message, at=rows[0][0]))


def get_recent_context(state: ShortTermState, limit: int = 20) -> Flow[list[Message]]:
    """Return the session's newest messages of the last hour, oldest first; 200 at most."""
    return map_result(_read_snapshot(state, limit), lambda shown: list(shown.messages))


def clear_conversation(state: ShortTermState) -> Flow[int]:
    """Delete the messages of the session; return their count."""
    clearing = rows_of(
        "clear_messages", **state.owner.params, since=state.now - states.MESSAGE_LIFETIME
    )
    return map_result(clearing, lambda rows: int(rows[0][0]))


def start_task(
    state: ShortTermState,
    task_type: str,
    *,
    task_id: str | None = None,
    status: str = "in_progress",
    estimated_completion: dt.datetime | str | None = None,
    worker_assigned: str | None = None,
    confidence_so_far: float | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> Flow[Task]:
    """Start a task of the agent; it lasts until it is closed.

    Args:
        task_type: The kind of the task.
        task_id: Your own id; an active task of that id stays as it is, so that a retry starts
            nothing twice. A new UUID if not given.
        status: The status, in a word.
        estimated_completion: The expected end, with a time zone.
        worker_assigned: The worker.
        confidence_so_far: The confidence in its success, in 0…1.
        metadata: Any other JSON.

    Raises:
        InvalidInputError: for what is no task; nothing was stored.
    """
    task = Task(
        task_id=str(uuid4()) if task_id is None else task_id,
        task_type=task_type,
        created_at=state.now,
        status=status,
        estimated_completion=cast("dt.datetime | None", estimated_completion),
        worker_assigned=worker_assigned,
        confidence_so_far=confidence_so_far,
        metadata={} if metadata is None else metadata,
    )
    return _change(state.owner, Task, task.task_id, lambda before: before or task, task.created_at)


def update_task(
    state: ShortTermState,
    task_id: str,
    *,
    status: str | None = None,
    estimated_completion: dt.datetime | str | None = None,
    worker_assigned: str | None = None,
    confidence_so_far: float | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> Flow[Task]:
    """Change the given fields of an active task; new metadata is merged into the old.

    Raises:
        InvalidInputError: if the task is not active, or for what is no task.
    """
    fields = {
        "status": status,
        "estimated_completion": estimated_completion,
        "worker_assigned": worker_assigned,
        "confidence_so_far": confidence_so_far,
        "metadata": metadata,
    }
    changes = {field: value for field, value in fields.items() if value is not None}
    # an invalid task is refused before a search for it
    name = Task(task_id=task_id, task_type="any", created_at=state.now).updated(**changes).task_id

    def changed(before: Task | None) -> Task:
        if before is None:
            raise InvalidInputError(f"no task {task_id!r} is active: start it first")
        return before.updated(**changes)

    return _change(state.owner, Task, name, changed, state.now)


def close_task(state: ShortTermState, task_id: str, status: str = "completed") -> Flow[Task | None]:
    """Close a task; return it with its last status, or None if it was not active."""
    name, last = checks.checked_name(task_id, "task_id"), checked_text(status, "status")
    return _close(state.owner, Task, name, last)


def get_active_tasks(state: ShortTermState) -> Flow[list[Task]]:
    """Return the agent's open tasks, in the order in which they were started."""
    return map_result(_read_snapshot(state, kinds=[states.TASK]), lambda shown: list(shown.tasks))


def set_goal(
    state: ShortTermState,
    goal_id: str,
    description: str,
    *,
    priority: int = 0,
    constraints: Sequence[str] = (),
    status: str = "active",
) -> Flow[Goal]:
    """Set a goal of the agent until it is closed; setting it again keeps its progress.

    Args:
        goal_id: Your own id.
        description: The goal in words.
        priority: The goals with the highest come first.
        constraints: Conditions that must hold on the way.
        status: The status, in a word.

    Raises:
        InvalidInputError: for what is no goal; nothing was stored.
    """
    goal = Goal(
        goal_id=goal_id,
        description=description,
        priority=priority,
        constraints=cast("tuple[str, ...]", constraints),
        status=status,
    )

    def merge(before: Goal | None) -> Goal:
        if before is None:
            return goal
        return replace(goal, progress=before.progress, deltas=before.deltas)

    return _change(state.owner, Goal, goal.goal_id, merge, state.now)


def advance_goal(
    state: ShortTermState, goal_id: str, delta: float, reason: str, *, delta_id: str | None = None
) -> Flow[Goal]:
    """Add to a goal's progress, which stays in 0…1.

    Args:
        goal_id: The id of a goal that was set.
        delta: The progress, from -1 to 1. Decimals add up exactly.
        reason: The reason.
        delta_id: Your own id. A delta of that id counts once, as long as it is among
            the latest 100 of the goal.

    Raises:
        InvalidInputError: if there is no such goal, or for what is no delta.
    """
    step = states.ProgressDelta(delta=delta, reason=reason, at=state.now, delta_id=delta_id)
    name = checks.checked_name(goal_id, "goal_id")
    return _change(
        state.owner, Goal, name, lambda goal: states.apply_deltas(goal_id, goal, step), step.at
    )


def close_goal(state: ShortTermState, goal_id: str, status: str = "completed") -> Flow[Goal | None]:
    """Close a goal; return it with its last status, or None if there was none."""
    name, last = checks.checked_name(goal_id, "goal_id"), checked_text(status, "status")
    return _close(state.owner, Goal, name, last)


def get_goals(state: ShortTermState) -> Flow[list[Goal]]:
    """Return the agent's open goals, the highest priority first."""
    return map_result(_read_snapshot(state, kinds=[states.GOAL]), lambda shown: list(shown.goals))


def set_emotional_state(
    state: ShortTermState,
    primary_emotion: str,
    *,
    confidence_level: float | None = None,
    conversation_sentiment: str | None = None,
    stress_indicators: Mapping[str, Any] | None = None,
) -> Flow[EmotionalState]:
    """Set the agent's mood, for an hour from now.

    Args:
        primary_emotion: The emotion in a word, such as `engaged`.
        confidence_level: The confidence in it, in 0…1.
        conversation_sentiment: The sentiment, such as `positive`.
        stress_indicators: Numbers or other JSON, by name.

    Raises:
        InvalidInputError: for what is no mood; nothing was stored.
    """
    mood = EmotionalState(
        primary_emotion=primary_emotion,
        last_updated=state.now,
        confidence_level=confidence_level,
        conversation_sentiment=conversation_sentiment,
        stress_indicators={} if stress_indicators is None else stress_indicators,
    )
    value = states.state_to_json(mood)
    put = state.owner.put(states.EMOTION, "", value, mood.last_updated, states.MOOD_LIFETIME)
    return map_result(rows_of(put.name, **put.params), lambda _: mood)


def get_emotional_state(state: ShortTermState) -> Flow[EmotionalState | None]:
    """Return the agent's mood; None if none was set within the last hour."""
    return map_result(
        _read_snapshot(state, kinds=[states.EMOTION]), lambda shown: shown.emotional_state
    )


def add_spend(
    state: ShortTermState, spent: Decimal | float, *, transaction_id: str | None = None
) -> Flow[DailySpend]:
    """Add an amount to the agent's spend of today (UTC); return that spend.

    Args:
        spent: An amount of 0 or more, with nine decimals at most. It is added exactly; a float
            counts as what it prints as.
        transaction_id: Your own id: the same transaction counts once in 24 hours.

    Raises:
        InvalidInputError: for what is no amount; nothing was added.
    """
    exact, once = states.parse_amount(spent), checks.checked_label(transaction_id, "transaction_id")
    return _add_spend(state.owner, exact, once, state.now)


@retried_on_conflict
def _add_spend(
    owner: states.StateOwner, spent: Decimal, transaction_id: str | None, now: dt.datetime
) -> Flow[DailySpend]:
    today, once = now.date(), [] if transaction_id is None else [transaction_id]
    names = [
        (states.SPEND, today.isoformat()),
        *((states.TRANSACTION, transaction) for transaction in once),
    ]
    reads = [owner.call("one_state", kind=kind, name=name, now=now) for kind, name in names]
    _, rows, *counted = yield Query((owner.call("lock_states", kind=states.SPEND), *reads))
    before = states.state_from_rows(DailySpend, rows) or DailySpend(date=today)
    if any(counted):
        return before
    after = before.plus(spent, now)
    values = [states.state_to_json(after), *({} for _ in once)]
    puts = [
        owner.put(*name, value, now, states.SPEND_LIFETIME)
        for name, value in zip(names, values, strict=True)
    ]
    yield Query(tuple(puts), commit=True)
    return after


def get_daily_spend(state: ShortTermState, date: dt.date | None = None) -> Flow[DailySpend]:
    """Return the agent's spend on a day (UTC), today if none is given.

    A day is kept for 24 hours after its last transaction; the spend of any other day is 0.
    """
    now = state.now
    day = now.date() if date is None else states.parse_day(date, "date")
    about = {"kind": states.SPEND, "name": day.isoformat(), "now": now}
    reading = rows_of("one_state", **state.owner.params, **about)
    return map_result(
        reading, lambda rows: states.state_from_rows(DailySpend, rows) or DailySpend(date=day)
    )


def _read_snapshot(
    state: ShortTermState, limit: int = 0, kinds: Sequence[str] = ()
) -> Flow[states.ShortTermSnapshot]:
    most = checks.checked_whole(limit, "limit", 0, states.MAX_MESSAGES)
    return states.read_snapshot(state.owner, state.now, limit=most, kinds=kinds)


def _change(
    owner: states.StateOwner,
    state_class: type[S],
    name: str,
    rule: Callable[[S | None], S],
    now: dt.datetime,
) -> Flow[S]:
    """Replace a state by the result of a rule, under a lock on the owner's states of its kind."""
    kind = _KINDS[state_class]
    lock = owner.call("lock_states", kind=kind)
    reading = owner.call("one_state", kind=kind, name=name, now=now)

    def changed() -> Flow[S]:
        _, rows = yield Query((lock, reading))
        before = states.state_from_rows(state_class, rows)
        after = rule(before)
        if after != before:
            yield Query((owner.put(kind, name, states.state_to_json(after), now),), commit=True)
        return after

    return retry_on_conflict(changed)


def _close(
    owner: states.StateOwner, state_class: type[S], name: str, status: str
) -> Flow[S | None]:
    """Delete a state; return it with its last status, or None if there was none."""
    kind = _KINDS[state_class]
    lock, closing = (
        owner.call("lock_states", kind=kind),
        owner.call("close_state", kind=kind, name=name),
    )
    _, rows = yield Query((lock, closing), commit=True)
    return state_class(**{**rows[0][0], "status": status}) if rows else None


class ShortTermState:
    """Conversation of a session, and an agent's tasks, goals, mood and spend.

    A coordinator has one, as `memory.state`. A conversation belongs to the context's session,
    everything else to its agent, in every project and session. Without a session or an agent in the
    context, the state belongs to the unnamed one. Each read is one indexed statement, without a
    model, and each change is one transaction. Every verb has an async twin, and is described where
    its flow is made.

    Example:
        ```python
        from langmem_tiers import MemoryContext, MemoryCoordinator, TieredStore

        context = MemoryContext(tenant="acme", agent_id="coder", session_id="chat-7")
        with TieredStore.embedded("./.memory") as store:
            state = MemoryCoordinator(store, context=context).state
            state.add_interaction("user", "Please publish the report.")
            state.start_task("publishing", task_id="report")
            print(state.snapshot())
        ```
    """

    snapshot, asnapshot = both(snapshot)
    add_interaction, aadd_interaction = both(add_interaction, "tool")
    get_recent_context, aget_recent_context = both(get_recent_context)
    clear_conversation, aclear_conversation = both(clear_conversation, "tool")
    start_task, astart_task = both(start_task, "tool")
    update_task, aupdate_task = both(update_task, "tool")
    close_task, aclose_task = both(close_task, "tool")
    get_active_tasks, aget_active_tasks = both(get_active_tasks)
    set_goal, aset_goal = both(set_goal, "tool")
    advance_goal, aadvance_goal = both(advance_goal, "tool")
    close_goal, aclose_goal = both(close_goal, "tool")
    get_goals, aget_goals = both(get_goals)
    set_emotional_state, aset_emotional_state = both(set_emotional_state, "tool")
    get_emotional_state, aget_emotional_state = both(get_emotional_state)
    add_spend, aadd_spend = both(add_spend, "tool")
    get_daily_spend, aget_daily_spend = both(get_daily_spend)

    def __init__(self, store: TieredStore, context: MemoryContext) -> None:
        """Open the state of a context in a store."""
        self.context, self.runner = context, store

    def __repr__(self) -> str:
        """Return the class and the context."""
        return f"ShortTermState({self.context!r})"

    @property
    def now(self) -> dt.datetime:
        """Time in UTC, by the store's clock."""
        return self.runner.flows.now.astimezone(dt.UTC)

    @cached_property
    def owner(self) -> states.StateOwner:
        """Owner of the state, as the database names it."""
        return states.StateOwner.from_context(self.context, self.runner.options.bounds)
