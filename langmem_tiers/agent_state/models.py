"""Short-term state: messages, tasks, goals, a mood and a day's spend, with their statements."""

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
from langmem_tiers.remember.new_memory import checked_text

MESSAGE_LIFETIME = dt.timedelta(hours=1)
"""Time that a message stays in its conversation (specification)."""
MAX_MESSAGES = 200
"""Newest messages that a conversation keeps: our own choice."""
MOOD_LIFETIME = dt.timedelta(hours=1)
"""Time that a mood lasts (specification)."""
SPEND_LIFETIME = dt.timedelta(hours=24)
"""Time that a day's spend is kept after its last transaction (specification). A transaction of the
same id is counted once within it."""
MAX_DELTAS = 100
"""Newest deltas that a goal keeps: our own choice. Its progress holds all of them."""
MAX_SPENT = Decimal(10**12)
"""Largest amount; amounts up to it, with nine decimals, add up exactly."""
_MIN_EXPONENT = -9
_EXACT = Context(prec=60)


def parse_day(value: object, what: str) -> dt.date:
    """Return the day of a date or of ISO 8601 text.

    A moment is refused: its day depends on the time zone.

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


def _parse_mapping(value: object, what: str) -> dict[str, Any]:
    return dict(checks.checked_mapping(value, what, "{'a': 1}"))


def _parse_progress(value: object, what: str) -> float:
    return float(checks.checked_number(value, what, 0, 1))


def _parse_delta(value: object, what: str) -> float:
    use = "a number from -1 to 1, as progress is from 0 to 1"
    return float(checks.checked_number(value, what, -1, 1, use=use))


def _parse_total(value: object, what: str) -> Decimal:
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


def _parse_texts(value: object, what: str) -> tuple[str, ...]:
    return tuple(checked_text(text, what) for text in checks.checked_list(value, what))


_Moment = Annotated[dt.datetime, validated_by(checks.parsed_moment)]
_Share = Annotated[float, validated_by(checks.checked_share)]
_Facts = Annotated[Mapping[str, Any], validated_by(_parse_mapping)]


@record
class Message:
    """Message of a session's conversation."""

    message_id: _Id
    role: _Text
    content: _Text
    at: _Moment
    metadata: _Facts = field(default_factory=dict)
    agent_id: _Id | None = None
    """Agent of the session that said it or heard it."""


@record
class Task:
    """Task that an agent works on, until it is closed."""

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
        """Return the task with these fields changed; new metadata is merged into the old."""
        if "metadata" in changes:
            changes["metadata"] = {
                **self.metadata,
                **_parse_mapping(changes["metadata"], "metadata"),
            }
        return replace(self, **changes)


@record
class EmotionalState:
    """Mood of an agent; it lasts an hour."""

    primary_emotion: _Text
    last_updated: _Moment
    confidence_level: _Share | None = None
    """In 0…1."""
    conversation_sentiment: _Text | None = None
    stress_indicators: _Facts = field(default_factory=dict)


@record
class ProgressDelta:
    """Step towards a goal, in -1…1, with its time and reason."""

    delta: Annotated[float, validated_by(_parse_delta)]
    reason: _Text
    at: _Moment
    delta_id: _Id | None = None


@record
class Goal:
    """Goal of an agent and its progress, until it is closed."""

    goal_id: _Id
    description: _Text
    progress: Annotated[float, validated_by(_parse_progress)] = 0.0
    """In 0…1."""
    deltas: tuple[ProgressDelta, ...] = ()
    """Latest deltas, oldest first."""
    priority: StrictInt = 0
    """Rank among goals: the highest comes first."""
    constraints: Annotated[tuple[str, ...], validated_by(_parse_texts)] = ()
    status: _Text = "active"

    def advanced(self, step: ProgressDelta) -> Goal:
        """Return the goal after a step. Decimals are added exactly; progress stays in 0…1.

        A step with an id that is among the deltas changes nothing.
        """
        if step.delta_id is not None and step.delta_id in {delta.delta_id for delta in self.deltas}:
            return self
        added = _EXACT.add(Decimal(repr(self.progress)), Decimal(repr(step.delta)))
        progress = float(min(Decimal(1), max(Decimal(0), added)))
        return replace(self, progress=progress, deltas=(*self.deltas, step)[-MAX_DELTAS:])


@record
class DailySpend:
    """Spend of an agent on one day (UTC)."""

    date: Annotated[dt.date, validated_by(parse_day)]
    total_spent: Annotated[Decimal, validated_by(_parse_total)] = Decimal(0)
    transaction_count: StrictInt = 0
    last_transaction_time: _Moment | None = None

    def plus(self, spent: Decimal, at: dt.datetime) -> DailySpend:
        """Return the spend after one more transaction, added up exactly."""
        return replace(
            self,
            total_spent=_EXACT.add(self.total_spent, spent),
            transaction_count=self.transaction_count + 1,
            last_transaction_time=max(at, self.last_transaction_time or at),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortTermSnapshot:
    """Short-term state at one moment."""

    messages: tuple[Message, ...] = ()
    """Newest messages of the conversation, oldest first."""
    tasks: tuple[Task, ...] = ()
    """Open tasks, in the order in which they were started."""
    goals: tuple[Goal, ...] = ()
    """Open goals, the highest priority first."""
    emotional_state: EmotionalState | None = None
    daily_spend: DailySpend


def parse_amount(spent: object) -> Decimal:
    """Return an amount as an exact decimal; a float counts as what it prints as.

    Raises:
        InvalidInputError: if it is negative, above 10¹², has more than nine decimals, or is no
            number.
    """
    if isinstance(spent, bool) or not isinstance(spent, Decimal | int | float):
        raise InvalidTypeError(f"an amount is a Decimal or a number, not {type(spent).__name__}")
    exact = Decimal(repr(spent)) if isinstance(spent, float) else Decimal(spent)
    if not exact.is_finite() or not 0 <= exact <= MAX_SPENT:
        raise InvalidInputError(f"the amount is {short(spent)}: use one from 0 to {MAX_SPENT:,}")
    if exact.normalize(_EXACT).as_tuple().exponent < _MIN_EXPONENT:  # type: ignore[operator]  # finite
        raise InvalidInputError(f"the amount is {short(spent)}: round it to nine decimals")
    return exact


S = TypeVar("S", Message, Task, EmotionalState, Goal, DailySpend, ProgressDelta)


def state_to_json(
    state: Task | EmotionalState | Goal | DailySpend | ProgressDelta,
) -> dict[str, Any]:
    """Return a state as JSON, which its class takes as keyword arguments."""
    return {each.name: _to_json_value(getattr(state, each.name)) for each in fields(state)}


def _to_json_value(value: Any) -> Any:
    if isinstance(value, dt.date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, ProgressDelta):
        return state_to_json(value)
    return [_to_json_value(item) for item in value] if isinstance(value, tuple) else value


def state_from_json(kind: type[S], value: object) -> S:
    """Return the state that unchecked JSON holds.

    Raises:
        InvalidInputError: if the JSON is no such state.
    """
    if not isinstance(value, Mapping):
        raise InvalidTypeError(f"a {kind.__name__} is an object, not {short(value)}")
    return kind(**value)


# In the database

TASK, GOAL, EMOTION, SPEND, TRANSACTION = "task", "goal", "emotion", "spend", "transaction"
KINDS = (TASK, GOAL, EMOTION, SPEND)


@dataclass(frozen=True, slots=True, kw_only=True)
class StateOwner:
    """Owner of a state in the database: an agent by one label, a session by two.

    The label of the user, if the context names one, follows: nobody else reads that state.
    """

    params: Mapping[str, str]
    """Labels of tenant, session and agent, as parameters of statements."""
    bounds: Bounds | None = None
    """Bounds of a value that a caller gives."""

    @classmethod
    def from_context(cls, context: MemoryContext, bounds: Bounds | None = None) -> StateOwner:
        """Return the owner that a context names; `_` stands for an unnamed agent or session.

        Raises:
            InvalidInputError: if a name is too long.
        """
        agent = replace(context, project_id=context.agent_id)
        params = {
            "tenant": context.root,
            "session": encode_namespace(
                context.namespace(Tier.SHORT_TERM, personal=True)
            ).namespace,
            "agent": encode_namespace(agent.namespace(Tier.WORKING, personal=True)).namespace,
        }
        return cls(params=params, bounds=bounds)

    def call(self, statement: str, **params: Any) -> Call:
        """Return a call of a statement for this tenant, session and agent."""
        return Call(statement, {**self.params, **params})

    def put(
        self,
        kind: str,
        name: str,
        value: Mapping[str, Any],
        now: dt.datetime,
        life: dt.timedelta | None = None,
    ) -> Call:
        """Return the call that stores a state from `now` on; it expires after `life`, if given."""
        encoded = encode_value(value, self.bounds)
        ends = None if life is None else now + life
        return self.call("put_state", kind=kind, name=name, value=encoded, now=now, expires_at=ends)


def read_snapshot(
    owner: StateOwner,
    now: dt.datetime,
    *,
    limit: int = 0,
    kinds: Sequence[str] = (),
    agent_id: str | None = None,
) -> Flow[ShortTermSnapshot]:
    """Return the newest `limit` messages, and the states of these kinds.

    With an `agent_id`, messages of other agents are left out; those without an agent are not.
    """
    about = {"since": now - MESSAGE_LIFETIME, "now": now, "limit": limit, "kinds": list(kinds)}
    rows = yield from rows_of("states", **owner.params, **about, reader=agent_id)

    def parse(state: type[S], kind: str) -> list[S]:
        return [state(**row[2]) for row in rows if row[0] == kind]

    messages = sorted(
        (row for row in rows if row[0] == "message"), key=lambda row: (row[3], row[4])
    )
    spends = (spend for spend in parse(DailySpend, SPEND) if spend.date == now.date())
    return ShortTermSnapshot(
        messages=tuple(
            Message(**{"message_id": row[1], "at": row[3], **row[2]}) for row in messages
        ),
        tasks=tuple(sorted(parse(Task, TASK), key=lambda task: (task.created_at, task.task_id))),
        goals=tuple(sorted(parse(Goal, GOAL), key=lambda goal: (-goal.priority, goal.goal_id))),
        emotional_state=next(iter(parse(EmotionalState, EMOTION)), None),
        daily_spend=next(spends, DailySpend(date=now.date())),
    )


def state_from_rows(state: type[S], rows: Sequence[Row]) -> S | None:
    """Return the state that the first row holds, or None."""
    return state(**rows[0][0]) if rows else None


def apply_deltas(goal_id: str, before: Goal | None, *steps: ProgressDelta) -> Goal:
    """Return a goal after these steps.

    Raises:
        InvalidInputError: if `before` is None: there is no such goal.
    """
    if before is None:
        raise InvalidInputError(f"there is no goal {goal_id!r}: set it first")
    return reduce(Goal.advanced, steps, before)
