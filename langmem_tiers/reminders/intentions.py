"""Intentions and reminders, and the flow that raises due intentions.

Raising is one statement that checks again the rows that it changes. So two callers at once never
raise the same intention.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias, cast

from langchain_core.language_models import BaseChatModel

from langmem_tiers.core.checks import checked_mapping, checked_name, checked_number
from langmem_tiers.core.context import MemoryContext
from langmem_tiers.core.errors import InvalidTypeError, short
from langmem_tiers.core.memory import TIERS, Moment, Tier, decode_namespace, handle_of, prefix_scope
from langmem_tiers.core.values import content_of
from langmem_tiers.postgres.flow import Call, Flow, Query, Row, Rows, rows_of
from langmem_tiers.reminders import triggers
from langmem_tiers.reminders.triggers import TRIGGERS, Occasion, Trigger, judge_cues, text_stems


class Priority(StrEnum):
    """The importance of an intention; a more important one is raised first."""

    HIGH = "high"
    MEDIUM = "medium"
    """The default."""
    LOW = "low"

    @property
    def rank(self) -> int:
        """Return its position, from 0; a lower one comes first."""
        return PRIORITIES.index(self)


PRIORITIES: tuple[Priority, ...] = tuple(Priority)


class Status(StrEnum):
    """The status of an intention."""

    PENDING = "pending"
    """It was not raised yet, or put off, or whoever held it let go."""
    LEASED = "leased"
    """It was raised, and not acknowledged so far."""
    DELIVERED = "delivered"
    """It was raised for good, and is neither closed nor expired."""
    DONE = "done"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    """Its time ran out before it was closed; `delivered_at` says whether it had been raised."""


OPEN_STATUSES: tuple[Status, ...] = (Status.PENDING, Status.LEASED, Status.DELIVERED)
"""Statuses of intentions that are neither closed nor expired."""
STORED_STATUSES: Mapping[Status, tuple[Status, ...]] = {
    **{status: (status,) for status in Status},
    Status.LEASED: (Status.PENDING,),
    Status.EXPIRED: (Status.EXPIRED, Status.PENDING, Status.DELIVERED),
}
"""Statuses of a row, by the status of its intention: a lease or an expiry needs no write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _ProspectiveMemory:
    """The fields that an intention and a reminder share."""

    key: str
    namespace: tuple[str, ...]
    tier: Tier
    content: str
    value: Mapping[str, Any]
    """The whole stored value."""
    priority: Priority
    trigger: Trigger
    """The occasion on which it is raised."""
    due_at: datetime
    """The moment before which it is not raised."""

    @property
    def place(self) -> tuple[tuple[str, ...], str]:
        """Return its namespace and key."""
        return self.namespace, self.key

    @property
    def handle(self) -> str:
        """Return the short name that every verb takes in place of its key."""
        return handle_of(self.namespace, self.key)

    def __str__(self) -> str:
        """Return it in one line, with its priority."""
        return f"[{self.priority.upper()}] {self.content}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Intention(_ProspectiveMemory):
    """A prospective memory, and its status."""

    status: Status
    expires_at: datetime | None = None
    delivered_at: datetime | None = None
    closed_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reminder(_ProspectiveMemory):
    """An intention that is raised."""

    token: str
    """The token that `reminders.acknowledge` takes."""
    leased_until: datetime | None = None
    """The end of its lease, in which it can be acknowledged; None is delivered already."""


def reminder_json(reminder: Reminder) -> dict[str, Any]:
    """Return a reminder as JSON, for a graph's state."""
    return {
        "key": reminder.key,
        "content": reminder.content,
        "priority": str(reminder.priority),
        "trigger": str(reminder.trigger),
        "due_at": reminder.due_at.isoformat(),
        "token": reminder.token,
    }


Predicates = Mapping[str, Callable[[Any], bool]]
"""Functions of a graph's state, by the names that intentions refer to."""
NextTools = str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]]
"""Tools about to run: a name, a LangChain tool call, or several."""

DEFAULT_REMINDERS = 10
"""The most reminders that one call raises: as many as the specification lists."""
TRIGGER_KINDS = tuple(trigger.kind for trigger in TRIGGERS.values())
_MOST_SECONDS = 30 * 86_400.0


def checked_predicates(predicates: object) -> Predicates:
    """Return checked functions of a graph's state by name; none if None."""
    if predicates is None:
        return {}
    for key, predicate in checked_mapping(predicates, "predicates", "{'full': is_full}").items():
        checked_name(key, "the name of a predicate")
        if not callable(predicate):
            raise InvalidTypeError(f"predicates maps names to functions; see {short(key)}")
    return cast("Predicates", predicates)


def checked_seconds(seconds: object) -> float | None:
    """Return the checked length of a lease in seconds; None is no lease."""
    if seconds is None:
        return None
    use = f"a number above 0, {_MOST_SECONDS:,.0f} at most, or None to deliver at once"
    return float(checked_number(seconds, "lease_seconds", 0, _MOST_SECONDS, but=(0,), use=use))


_PAGE = 200
_TRIES = 20
_FIRST = (-1, datetime.min.replace(tzinfo=UTC), 0)


ScopeParams: TypeAlias = Mapping[str, Any]
"""Parameters of the places and the moment at which a statement looks; see `build_scope_params`."""


def build_scope_params(context: MemoryContext, moment: Moment) -> ScopeParams:
    """Return the parameters by which statements look where a recall in the context would."""
    lows, highs = [], []
    for tier in TIERS:
        _, low, high = prefix_scope(context.namespace(tier))
        lows.append(low)
        highs.append(high)
    return {
        **context.scope_params,
        "tiers": [*map(str, TIERS)],
        "lows": lows,
        "highs": highs,
        "alive_at": moment.alive_at,
        "now": moment.now,
    }


def intention_params(
    trigger: Trigger, priority: Priority, now: datetime, expires_at: datetime | None
) -> dict[str, Any]:
    """Return the parameters of a write that say when its intention is raised."""
    at = trigger.moment if isinstance(trigger, triggers.At) else None
    return {
        "priority": priority.rank,
        "kind": trigger.kind,
        "trigger": json.dumps(triggers.trigger_to_json(trigger)),
        "due_at": at or now,
        "words": list(trigger.words) if isinstance(trigger, triggers.When) else None,
        "name": trigger.lookup_name,
        "expires_at": expires_at,
    }


class DueRow(NamedTuple):
    """An intention that may be raised: a row of due_intentions, with its columns in this order."""

    id: int
    rank: int
    due_at: datetime
    trigger: Trigger
    raised: bool
    expires_at: datetime | None = None

    def is_met(self, occasion: Occasion) -> bool:
        """Return True if it is raised on this occasion."""
        kinds = occasion.kinds
        if kinds is None:
            return self.raised or self.trigger.is_met(occasion)
        return self.trigger.kind in {*kinds, triggers.Topic.kind} and self.trigger.is_met(occasion)


def next_due(trigger: Trigger, now: datetime, expires_at: datetime | None) -> datetime | None:
    """Return the next time after `now` at which it is due, if it recurs."""
    return trigger.next_after(now, expires_at) if isinstance(trigger, triggers.At) else None


def raise_due(
    occasion: Occasion,
    scope_params: ScopeParams,
    *,
    limit: int,
    seconds: float | None,
    holder: str | None,
    topics: Callable[[], Flow[frozenset[str]]],
    judge: BaseChatModel | None = None,
) -> Flow[list[Reminder]]:
    """Raise due intentions, in order: leased for so many seconds, or delivered without a lease.

    If the holder still holds reminders, they are returned again, and nothing else. `topics` finds
    the topics that have come up, if an intention waits for one. A judge says which cues are shown,
    among those whose anchors the query has. If none waits for a topic, one round trip reads all.
    """
    held, occasion, first = yield from _read_occasion(occasion, scope_params, limit, holder, topics)
    if held or first == []:  # nothing is due
        return held
    now = scope_params["now"]
    until = None if seconds is None else now + timedelta(seconds=seconds)
    for _ in range(_TRIES):
        due = yield from _find_due(occasion, scope_params, limit, judge, first)
        first = None
        if not due:
            return []
        rows = yield from rows_of(
            "raise_intentions",
            **scope_params,
            ids=[intention.id for intention in due],
            nexts=[next_due(intention.trigger, now, intention.expires_at) for intention in due],
            holder=holder,
            leased_until=until,
        )
        if rows:
            return _to_reminders(rows)
    return []  # others raised all that was due


def _read_occasion(
    occasion: Occasion,
    scope_params: ScopeParams,
    limit: int,
    holder: str | None,
    topics: Callable[[], Flow[frozenset[str]]],
) -> Flow[tuple[list[Reminder], Occasion, Rows | None]]:
    """Return the holder's reminders, the occasion with its topics, and the first page of rows.

    The page is None if a topic has come up.
    """
    kinds, calls = occasion.kinds, [_page_call(occasion, scope_params, limit, _FIRST)]
    if (occasion.query or "").strip() and (kinds is None or triggers.Topic.kind in kinds):
        calls.append(Call("open_topics", {"tenant": scope_params["tenant"]}))
    if holder is not None:
        calls.append(Call("raised_for", {**scope_params, "holder": holder}))
    first, *further = yield Query(tuple(calls), commit=True)
    if holder is not None and (held := further.pop()):
        return _to_reminders(held), occasion, first
    for ((waits,),) in further:
        raised_topics = (yield from topics()) if waits else frozenset()
        if raised_topics:
            return [], occasion._replace(topics=raised_topics), None
    return [], occasion, first


def _to_reminders(rows: Sequence[Row]) -> list[Reminder]:
    """Make reminders of rows of raise_intentions, in the order in which they are raised."""
    reminders = []
    for id_, rank, due_at, fence, trigger, until, *memory in sorted(rows, key=itemgetter(1, 2, 0)):
        fields = _common_fields(memory, rank, trigger, due_at)
        reminders.append(Reminder(**fields, token=f"{id_}.{fence}", leased_until=until))
    return reminders


def _common_fields(
    memory: Sequence[Any], rank: int, trigger: Mapping[str, Any], due_at: datetime
) -> dict[str, Any]:
    """Return the fields that a reminder and an intention share."""
    tier, tenant, namespace, key, value = memory
    return {
        "key": key,
        "namespace": decode_namespace(tenant, namespace),
        "tier": Tier(tier),
        "content": content_of(value),
        "value": value,
        "priority": PRIORITIES[rank],
        "trigger": triggers.trigger_from_json(trigger),
        "due_at": due_at,
    }


def _page_call(
    occasion: Occasion, scope_params: ScopeParams, limit: int, place: tuple[int, datetime, int]
) -> Call:
    """Return the call that reads a page of intentions that may be due, from a place on.

    It finds each intention by the lookup name of its trigger, among the names of the occasion.
    """
    kinds, words = occasion.kinds, sorted(text_stems(occasion.query or ""))
    names = {
        triggers.When.kind: words,
        triggers.BeforeTool.kind: [call.name for call in occasion.calls],
        triggers.If.kind: [*occasion.predicates],
        triggers.Topic.kind: [triggers.Topic(topic).lookup_name for topic in occasion.topics],
    }
    wanted = [*names] if kinds is None else [*kinds, triggers.Topic.kind]
    pairs = [(kind, each) for kind in names if kind in wanted for each in sorted(set(names[kind]))]
    after_priority, after_due, after_id = place
    params = {
        **scope_params,
        "timed": kinds is None or triggers.At.kind in kinds,
        "narrowed": kinds is not None,
        "kinds": [kind for kind, _ in pairs],
        "names": [each for _, each in pairs],
        "words": words,
        "limit": max(_PAGE, limit),
        "after_priority": after_priority,
        "after_due": after_due,
        "after_id": after_id,
    }
    return Call("due_intentions", params)


def _find_due(
    occasion: Occasion,
    scope_params: ScopeParams,
    limit: int,
    judge: BaseChatModel | None,
    rows: Rows | None,
) -> Flow[list[DueRow]]:
    """Read the first due intentions page by page; `rows` are the first page, if it is known."""
    due: list[DueRow] = []
    place = _FIRST
    while len(due) < limit:
        if rows is None:
            (rows,) = yield Query((_page_call(occasion, scope_params, limit, place),), commit=True)
        page = [
            DueRow(id_, rank, due_at, triggers.trigger_from_json(trigger), raised, ends)
            for id_, rank, due_at, trigger, raised, ends in rows
        ]
        rows = None
        judged = yield from _judge_occasion(page, occasion, judge)
        due += [intention for intention in page if intention.is_met(judged)]
        if len(page) < max(_PAGE, limit):
            break
        last = page[-1]
        place = last.rank, last.due_at, last.id
    return due[:limit]


def _judge_occasion(
    page: Sequence[DueRow], occasion: Occasion, judge: BaseChatModel | None
) -> Flow[Occasion]:
    """Ask the judge for the cues that the query shows, in one request; add them to the occasion."""
    query = occasion.query
    if judge is None or query is None:
        return occasion
    waiting, held = [intention.trigger for intention in page], text_stems(query)
    cues = {
        trigger.cue
        for trigger in waiting
        if isinstance(trigger, triggers.When) and held >= {*trigger.words}
    }
    near = [
        trigger
        for trigger in waiting
        if isinstance(trigger, triggers.Topic) and trigger.about in occasion.topics
    ]
    cues |= {topic.about for topic in near}
    if not cues:
        return occasion
    shown = yield from judge_cues(judge, query, sorted(cues))
    topics = frozenset(topic.about for topic in near if topic.about in shown)
    return occasion._replace(shown=shown, topics=topics)


def read_intention(row: Row, tenant: str) -> Intention:
    """Make an intention of a row of the statement `intentions`."""
    tier, namespace, key, value, _, rank, trigger, due_at, status, *times = row
    expires_at, delivered_at, closed_at = times
    return Intention(
        **_common_fields([tier, tenant, namespace, key, value], rank, trigger, due_at),
        status=Status(status),
        expires_at=expires_at,
        delivered_at=delivered_at,
        closed_at=closed_at,
    )
