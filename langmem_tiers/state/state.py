"""What is going on: messages, tasks, goals, a mood and a day's spend; how they are kept."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from decimal import Context, Decimal, InvalidOperation
from functools import reduce
from typing import Annotated, Any, TypeVar

from pydantic import StrictInt

from langmem_tiers.core import checks
from langmem_tiers.core.checks import record, validated_by
from langmem_tiers.core.config import Bounds
from langmem_tiers.core.context import MemoryContext
from langmem_tiers.core.errors import InvalidInputError, InvalidTypeError, short
from langmem_tiers.core.memory import Tier, encode_namespace
from langmem_tiers.core.values import encode_value
from langmem_tiers.postgres.flow import Call, Flow, Row, rows_of
from langmem_tiers.remember.new import checked_text

WINDOW = dt.timedelta(hours=1)
"""How far back a conversation is remembered (specification)."""
MOST_MESSAGES = 200
"""Messages that a conversation keeps, the newest: our own choice."""
MOOD = dt.timedelta(hours=1)
"""How long a mood lasts (specification)."""
DAY = dt.timedelta(hours=24)
"""How long a day's spend is kept after its last transaction (specification), and for how long the
same transaction is counted once."""
MOST_DELTAS = 100
"""Deltas that a goal keeps, the newest: our own choice. Its progress holds all of them."""
MOST_SPENT = Decimal(10**12)
"""The largest amount; with nine decimals it adds up exactly."""
_SMALLEST = -9
_EXACT = Context(prec=60)


def checked_day(value: object, what: str) -> dt.date:
    """A day, from a date or from ISO 8601; no moment, whose day depends on the time zone.

    Raises:
        InvalidInputError: for anything else.
    """
    try:
        day = dt.date.fromisoformat(value) if isinstance(value, str) else value
    except ValueError as error:
        raise InvalidInputError(
            f"{what} {short(value, 40)} is no day: write it 2026-03-01"
        ) from error
    if not isinstance(day, dt.date) or isinstance(day, dt.datetime):
        raise InvalidTypeError(f"{what} is a day in UTC, a date, not {type(value).__name__}")
    return day


def _mapping(value: object, what: str) -> dict[str, Any]:
    return dict(checks.checked_mapping(value, what, "{'a': 1}"))


def _progress(value: object, what: str) -> float:
    return float(checks.checked_number(value, what, 0, 1))


def _delta(value: object, what: str) -> float:
    use = "a number from -1 to 1, as progress is from 0 to 1"
    return float(checks.checked_number(value, what, -1, 1, use=use))


def _total(value: object, what: str) -> Decimal:
    try:
        total = Decimal(value) if isinstance(value, str) else value
    except InvalidOperation as error:
        raise InvalidInputError(f"{what} is {short(value)}: use a decimal number") from error
    if not isinstance(total, Decimal):
        raise InvalidTypeError(f"{what} is a Decimal, not {type(value).__name__}")
    if not total.is_finite():
        raise InvalidInputError(f"{what} is {total}: use a finite number")
    return total


_Id = Annotated[str, validated_by(checks.checked_name)]
_Text = Annotated[str, validated_by(checked_text)]


def _texts(value: object, what: str) -> tuple[str, ...]:
    return tuple(checked_text(text, what) for text in checks.checked_list(value, what))


_Moment = Annotated[dt.datetime, validated_by(checks.parsed_moment)]
_Share = Annotated[float, validated_by(checks.checked_share)]
_Facts = Annotated[Mapping[str, Any], validated_by(_mapping)]


@record
class Message:
    """What somebody said in a session."""

    message_id: _Id
    role: _Text
    content: _Text
    at: _Moment
    metadata: _Facts = field(default_factory=dict)
    agent_id: _Id | None = None
    """Which agent of the session it was said to, or by."""


@record
class Task:
    """What an agent is at, until it is closed."""

    task_id: _Id
    task_type: _Text
    created_at: _Moment
    status: _Text = "in_progress"
    estimated_completion: _Moment | None = None
    worker_assigned: _Text | None = None
    confidence_so_far: _Share | None = None
    """In 0…1."""
    metadata: _Facts = field(default_factory=dict)

    def updated(self, **changes: Any) -> Task:
        """The task with these fields changed; metadata is added to what there is."""
        if "metadata" in changes:
            changes["metadata"] = {**self.metadata, **_mapping(changes["metadata"], "metadata")}
        return replace(self, **changes)


@record
class EmotionalState:
    """The mood that an agent is in, for an hour."""

    primary_emotion: _Text
    last_updated: _Moment
    confidence_level: _Share | None = None
    """In 0…1."""
    conversation_sentiment: _Text | None = None
    stress_indicators: _Facts = field(default_factory=dict)


@record
class ProgressDelta:
    """How much nearer a goal came, in -1…1, when and why."""

    delta: Annotated[float, validated_by(_delta)]
    reason: _Text
    at: _Moment
    delta_id: _Id | None = None


@record
class Goal:
    """What an agent is after, and how far it has come, until it is closed."""

    goal_id: _Id
    description: _Text
    progress: Annotated[float, validated_by(_progress)] = 0.0
    """In 0…1."""
    deltas: tuple[ProgressDelta, ...] = ()
    """The latest, oldest first."""
    priority: StrictInt = 0
    """The highest comes first."""
    constraints: Annotated[tuple[str, ...], validated_by(_texts)] = ()
    status: _Text = "active"

    def advanced(self, step: ProgressDelta) -> Goal:
        """The goal after a step. Decimals are added exactly, and progress stays in 0…1.

        A step whose id is among the deltas was done before, and changes nothing.
        """
        if step.delta_id is not None and step.delta_id in {delta.delta_id for delta in self.deltas}:
            return self
        added = _EXACT.add(Decimal(repr(self.progress)), Decimal(repr(step.delta)))
        progress = float(min(Decimal(1), max(Decimal(0), added)))
        return replace(self, progress=progress, deltas=(*self.deltas, step)[-MOST_DELTAS:])


@record
class DailySpend:
    """What an agent has spent on a day, in UTC."""

    date: Annotated[dt.date, validated_by(checked_day)]
    total_spent: Annotated[Decimal, validated_by(_total)] = Decimal(0)
    transaction_count: StrictInt = 0
    last_transaction_time: _Moment | None = None

    def plus(self, spent: Decimal, at: dt.datetime) -> DailySpend:
        """The spend after one more transaction, added up exactly."""
        return replace(
            self,
            total_spent=_EXACT.add(self.total_spent, spent),
            transaction_count=self.transaction_count + 1,
            last_transaction_time=max(at, self.last_transaction_time or at),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortTermSnapshot:
    """All that is going on at a moment."""

    messages: tuple[Message, ...] = ()
    """The end of the conversation, oldest first."""
    tasks: tuple[Task, ...] = ()
    """In the order in which they were started."""
    goals: tuple[Goal, ...] = ()
    """By priority, the highest first."""
    emotional_state: EmotionalState | None = None
    daily_spend: DailySpend


def amount(spent: object) -> Decimal:
    """An amount that is spent; a float is what it prints as.

    Raises:
        InvalidInputError: if it is negative, above 10¹², has more than nine decimals, or is no
            number.
    """
    if isinstance(spent, bool) or not isinstance(spent, Decimal | int | float):
        raise InvalidTypeError(f"an amount is a Decimal or a number, not {type(spent).__name__}")
    exact = Decimal(repr(spent)) if isinstance(spent, float) else Decimal(spent)
    if not exact.is_finite() or not 0 <= exact <= MOST_SPENT:
        raise InvalidInputError(f"the amount is {short(spent)}: use one from 0 to {MOST_SPENT:,}")
    if exact.normalize(_EXACT).as_tuple().exponent < _SMALLEST:  # type: ignore[operator]  # finite
        raise InvalidInputError(f"the amount is {short(spent)}: round it to nine decimals")
    return exact


S = TypeVar("S", Message, Task, EmotionalState, Goal, DailySpend, ProgressDelta)


def to_value(state: Task | EmotionalState | Goal | DailySpend | ProgressDelta) -> dict[str, Any]:
    """A state as JSON; its class takes it as keyword arguments."""
    return {each.name: _plain(getattr(state, each.name)) for each in fields(state)}


def _plain(value: Any) -> Any:
    if isinstance(value, dt.date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, ProgressDelta):
        return to_value(value)
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def of_value(kind: type[S], value: object) -> S:
    """Read a state from JSON that nobody has checked.

    Raises:
        InvalidInputError: if it is none.
    """
    if not isinstance(value, Mapping):
        raise InvalidTypeError(f"a {kind.__name__} is an object, not {short(value)}")
    return kind(**value)


# In the database

TASK, GOAL, EMOTION, SPEND, TRANSACTION = "task", "goal", "emotion", "spend", "transaction"
KINDS = (TASK, GOAL, EMOTION, SPEND)


@dataclass(frozen=True, slots=True, kw_only=True)
class Whose:
    """Whose state it is, as the database names them: an agent by one label, a session by two.

    The label of the user follows, where one is named: nobody else reads it.
    """

    owner: Mapping[str, str]
    """The tenant, the session and the agent, as statements ask for them."""
    bounds: Bounds | None = None
    """What a state may take, where a caller gives it."""

    @classmethod
    def of(cls, context: MemoryContext, bounds: Bounds | None = None) -> Whose:
        """The agent and the session of a context, `_` where none is named.

        Raises:
            InvalidInputError: if a name is too long.
        """
        agent = replace(context, project_id=context.agent_id)
        owner = {
            "tenant": context.root,
            "session": encode_namespace(
                context.namespace(Tier.SHORT_TERM, personal=True)
            ).namespace,
            "agent": encode_namespace(agent.namespace(Tier.WORKING, personal=True)).namespace,
        }
        return cls(owner=owner, bounds=bounds)

    def call(self, statement: str, **params: Any) -> Call:
        """A call of a statement of this tenant, session and agent."""
        return Call(statement, {**self.owner, **params})

    def put(
        self,
        kind: str,
        name: str,
        value: Mapping[str, Any],
        now: dt.datetime,
        life: dt.timedelta | None = None,
    ) -> Call:
        """The call that stores a state as it is from now on, for as long as it lives."""
        encoded = encode_value(value, self.bounds)
        ends = None if life is None else now + life
        return self.call("put_state", kind=kind, name=name, value=encoded, now=now, expires_at=ends)


def look(
    whose: Whose,
    now: dt.datetime,
    *,
    limit: int = 0,
    kinds: Sequence[str] = (),
    agent_id: str | None = None,
) -> Flow[ShortTermSnapshot]:
    """Return what is going on: the newest messages, and what there is of these kinds.

    The messages are those of all agents, or of one that is named, and those of none.
    """
    about = {"since": now - WINDOW, "now": now, "limit": limit, "kinds": list(kinds)}
    rows = yield from rows_of("states", **whose.owner, **about, reader=agent_id)

    def of(state: type[S], kind: str) -> list[S]:
        return [state(**row[2]) for row in rows if row[0] == kind]

    messages = sorted(
        (row for row in rows if row[0] == "message"), key=lambda row: (row[3], row[4])
    )
    spends = (spend for spend in of(DailySpend, SPEND) if spend.date == now.date())
    return ShortTermSnapshot(
        messages=tuple(
            Message(**{"message_id": row[1], "at": row[3], **row[2]}) for row in messages
        ),
        tasks=tuple(sorted(of(Task, TASK), key=lambda task: (task.created_at, task.task_id))),
        goals=tuple(sorted(of(Goal, GOAL), key=lambda goal: (-goal.priority, goal.goal_id))),
        emotional_state=next(iter(of(EmotionalState, EMOTION)), None),
        daily_spend=next(spends, DailySpend(date=now.date())),
    )


def read(state: type[S], rows: Sequence[Row]) -> S | None:
    """A state as it was read, or None."""
    return state(**rows[0][0]) if rows else None


def goal_advanced(goal_id: str, before: Goal | None, *steps: ProgressDelta) -> Goal:
    """A goal after these steps.

    Raises:
        InvalidInputError: if there is no such goal.
    """
    if before is None:
        raise InvalidInputError(f"there is no goal {goal_id!r}: set it first")
    return reduce(Goal.advanced, steps, before)
