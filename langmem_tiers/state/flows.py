"""Short-term state as flows: reads are one statement; a change reads, decides and writes, alone."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import reduce
from typing import Any, TypeVar

from langmem_tiers.core.config import Bounds
from langmem_tiers.core.context import MemoryContext
from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.core.memory import Tier
from langmem_tiers.core.namespaces import encode
from langmem_tiers.core.values import encode_value
from langmem_tiers.postgres.flow import Call, Flow, Query, Row, anew, begun_anew, rows_of
from langmem_tiers.state import state as nouns
from langmem_tiers.state.state import DailySpend, EmotionalState, Goal, Message, Task

WINDOW = dt.timedelta(hours=1)
"""How far back a conversation is remembered (specification)."""
MOST_MESSAGES = 200
"""Messages that a conversation keeps, the newest: our own choice."""
MOOD = dt.timedelta(hours=1)
"""How long a mood lasts (specification)."""
DAY = dt.timedelta(hours=24)
"""How long a day's spend is kept after its last transaction (specification), and for how long the
same transaction is counted once."""

TASK, GOAL, EMOTION, SPEND, TRANSACTION = "task", "goal", "emotion", "spend", "transaction"
KINDS = (TASK, GOAL, EMOTION, SPEND)
_KIND_OF: Mapping[type[Task | Goal], str] = {Task: TASK, Goal: GOAL}

S = TypeVar("S", Task, Goal)
K = TypeVar("K", Task, Goal, DailySpend)


@dataclass(frozen=True, slots=True, kw_only=True)
class Whose:
    """Whose state it is, as the database names them: an agent by one label, a session by two.

    The label of the user follows, where one is named: nobody else reads it.
    """

    tenant: str
    session: str
    agent: str
    bounds: Bounds | None = None
    """What a state may take, where a caller gives it."""

    @property
    def owner(self) -> dict[str, str]:
        """Whose it is, as statements ask for it."""
        return {"tenant": self.tenant, "session": self.session, "agent": self.agent}

    @classmethod
    def of(cls, context: MemoryContext, bounds: Bounds | None = None) -> Whose:
        """The agent and the session of a context, `_` where none is named.

        Raises:
            InvalidInputError: if a name is too long.
        """
        agent = replace(context, project_id=context.agent_id)
        return cls(
            tenant=context.root,
            session=encode(context.namespace(Tier.SHORT_TERM, personal=True)).namespace,
            agent=encode(agent.namespace(Tier.WORKING, personal=True)).namespace,
            bounds=bounds,
        )


def look(
    whose: Whose,
    now: dt.datetime,
    *,
    limit: int = 0,
    kinds: Sequence[str] = (),
    agent_id: str | None = None,
) -> Flow[nouns.ShortTermSnapshot]:
    """What is going on: the newest messages, and what there is of these kinds.

    The messages are those of all agents, or of one that is named, and those of none.
    """
    about = {"since": now - WINDOW, "now": now, "limit": limit, "kinds": list(kinds)}
    rows = yield from rows_of("states", **whose.owner, **about, reader=agent_id)
    found: dict[str, list[Row]] = {kind: [] for kind in ("message", *KINDS)}
    for row in rows:
        found[row[0]].append(row)
    tasks = (Task(**row[2]) for row in found[TASK])
    goals = (Goal(**row[2]) for row in found[GOAL])
    moods = (EmotionalState(**row[2]) for row in found[EMOTION])
    spends = (DailySpend(**row[2]) for row in found[SPEND])
    today = (one for one in spends if one.date == now.date())
    return nouns.ShortTermSnapshot(
        messages=tuple(
            Message(**{"message_id": row[1], "at": row[3], **row[2]})
            for row in sorted(found["message"], key=lambda row: (row[3], row[4]))
        ),
        tasks=tuple(sorted(tasks, key=lambda one: (one.created_at, one.task_id))),
        goals=tuple(sorted(goals, key=lambda one: (-one.priority, one.goal_id))),
        emotional_state=next(moods, None),
        daily_spend=next(today, DailySpend(date=now.date())),
    )


def add_message(whose: Whose, said: Message) -> Flow[Message]:
    """Add to a conversation; said again under its id, a message is replaced in its place."""
    names = ("role", "content", "metadata", "agent_id")
    value = encode_value({name: getattr(said, name) for name in names}, whose.bounds)
    lasts = {"now": said.at, "expires_at": said.at + WINDOW, "most": MOST_MESSAGES}
    told = {"name": said.message_id, "value": value, **lasts}
    ((at,),) = yield from rows_of("add_message", **whose.owner, **told)
    return replace(said, at=at)


def clear_messages(whose: Whose, now: dt.datetime) -> Flow[int]:
    """Forget a conversation; how many messages it had."""
    ((number,),) = yield from rows_of("clear_messages", **whose.owner, since=now - WINDOW)
    return int(number)


def change(
    whose: Whose, state: type[S], name: str, rule: Callable[[S | None], S], now: dt.datetime
) -> Flow[S]:
    """Turn a state into what a rule makes of it; nobody else changes one of its kind meanwhile."""
    return anew(lambda: _change(whose, state, name, rule, now))


def _change(
    whose: Whose, state: type[S], name: str, rule: Callable[[S | None], S], now: dt.datetime
) -> Flow[S]:
    kind = _KIND_OF[state]
    _, rows = yield Query((_lock(whose, kind), _state(whose, kind, name, now)))
    before = read(state, rows)
    after = rule(before)
    if after != before:
        yield Query((_put(whose, kind, name, nouns.to_value(after), now),), commit=True)
    return after


def close(whose: Whose, state: type[S], name: str, status: str) -> Flow[S | None]:
    """Remove a state: as it was, with its last status, or None if there was none."""
    kind = _KIND_OF[state]
    closing = _call("close_state", whose, kind=kind, name=name)
    _, rows = yield Query((_lock(whose, kind), closing), commit=True)
    return state(**{**rows[0][0], "status": status}) if rows else None


def read(state: type[K], rows: Sequence[Row]) -> K | None:
    """A state as it was read, or None."""
    return state(**rows[0][0]) if rows else None


def reading_goals(whose: Whose, goal_ids: Sequence[str], now: dt.datetime) -> tuple[Call, ...]:
    """The calls that read goals, a call each, after one that lets nobody change any meanwhile."""
    if not goal_ids:
        return ()
    return (_lock(whose, GOAL), *(_state(whose, GOAL, one, now) for one in goal_ids))


def goal_advanced(goal_id: str, before: Goal | None, *steps: nouns.ProgressDelta) -> Goal:
    """A goal after these steps.

    Raises:
        InvalidInputError: if there is no such goal.
    """
    if before is None:
        raise InvalidInputError(f"there is no goal {goal_id!r}: set it first")
    return reduce(Goal.advanced, steps, before)


def put_goal(whose: Whose, goal: Goal, now: dt.datetime) -> Call:
    """The call that stores a goal as it is from now on."""
    return _put(whose, GOAL, goal.goal_id, nouns.to_value(goal), now)


def set_emotional_state(whose: Whose, state: EmotionalState) -> Flow[EmotionalState]:
    """Say which mood an agent is in from now on."""
    at = state.last_updated
    yield Query((_put(whose, EMOTION, "", nouns.to_value(state), at, life=MOOD),), commit=True)
    return state


@begun_anew
def add_spend(
    whose: Whose, spent: Decimal, transaction_id: str | None, now: dt.datetime
) -> Flow[DailySpend]:
    """Add to what was spent today; a transaction of the same id counts once within a day."""
    today, once = now.date(), [] if transaction_id is None else [transaction_id]
    known = (_state(whose, TRANSACTION, name, now) for name in once)
    reads = (_lock(whose, SPEND), _state(whose, SPEND, today.isoformat(), now), *known)
    _, rows, *counted = yield Query(reads)
    before = read(DailySpend, rows) or DailySpend(date=today)
    if any(counted):
        return before
    after = before.plus(spent, now)
    marks = (_put(whose, TRANSACTION, name, {}, now, life=DAY) for name in once)
    spend = _put(whose, SPEND, today.isoformat(), nouns.to_value(after), now, life=DAY)
    yield Query((spend, *marks), commit=True)
    return after


def daily_spend(whose: Whose, day: dt.date, now: dt.datetime) -> Flow[DailySpend]:
    """What was spent on a day; nothing, if that is not known any more."""
    about = {"kind": SPEND, "name": day.isoformat(), "now": now}
    rows = yield from rows_of("one_state", **whose.owner, **about)
    return read(DailySpend, rows) or DailySpend(date=day)


def _lock(whose: Whose, kind: str) -> Call:
    return _call("lock_states", whose, kind=kind)


def _state(whose: Whose, kind: str, name: str, now: dt.datetime) -> Call:
    return _call("one_state", whose, kind=kind, name=name, now=now)


def _put(
    whose: Whose,
    kind: str,
    name: str,
    value: Mapping[str, Any],
    now: dt.datetime,
    *,
    life: dt.timedelta | None = None,
) -> Call:
    lasts = {"now": now, "expires_at": None if life is None else now + life}
    told = encode_value(value, whose.bounds)
    return _call("put_state", whose, kind=kind, name=name, value=told, **lasts)


def _call(statement: str, whose: Whose, **params: Any) -> Call:
    """A call of a statement of this tenant, session and agent."""
    return Call(statement, {**whose.owner, **params})
