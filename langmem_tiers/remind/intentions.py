"""Intentions and reminders, and how what is due is raised, as a flow.

Raising is one statement that looks again at what it changes, so two that are at it at once never
both raise the same intention.
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
from langmem_tiers.remind import triggers
from langmem_tiers.remind.triggers import TRIGGERS, Occasion, Trigger, judge_cues, text_stems


class Priority(StrEnum):
    """How much an intention matters; what matters more is raised first."""

    HIGH = "high"
    MEDIUM = "medium"
    """Where nobody says otherwise."""
    LOW = "low"

    @property
    def rank(self) -> int:
        """Its place, from 0; a lower one comes first."""
        return PRIORITIES.index(self)


PRIORITIES: tuple[Priority, ...] = tuple(Priority)


class Status(StrEnum):
    """What became of an intention so far."""

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
"""What is neither closed nor expired."""
STORED_STATUSES: Mapping[Status, tuple[Status, ...]] = {
    **{status: (status,) for status in Status},
    Status.LEASED: (Status.PENDING,),
    Status.EXPIRED: (Status.EXPIRED, Status.PENDING, Status.DELIVERED),
}
"""Which statuses a row may have: leases and ends that came by themselves need no write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _ProspectiveMemory:
    """What an intention and a reminder both say."""

    key: str
    namespace: tuple[str, ...]
    tier: Tier
    content: str
    value: Mapping[str, Any]
    """The whole stored value."""
    priority: Priority
    trigger: Trigger
    """When, or why, it is raised."""
    due_at: datetime
    """It is not raised before."""

    @property
    def place(self) -> tuple[tuple[str, ...], str]:
        """Return where it is: its namespace and key."""
        return self.namespace, self.key

    @property
    def handle(self) -> str:
        """Return the short name that every verb takes in place of its key."""
        return handle_of(self.namespace, self.key)

    def __str__(self) -> str:
        """In one line, with its priority."""
        return f"[{self.priority.upper()}] {self.content}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Intention(_ProspectiveMemory):
    """A prospective memory, and what became of it."""

    status: Status
    expires_at: datetime | None = None
    delivered_at: datetime | None = None
    closed_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reminder(_ProspectiveMemory):
    """An intention that is raised."""

    token: str
    """What `reminders.acknowledge` knows it by."""
    leased_until: datetime | None = None
    """Until when it waits to be acknowledged; None is delivered already."""


def reminder_json(reminder: Reminder) -> dict[str, Any]:
    """A reminder as JSON, for a graph's state."""
    return {
        "key": reminder.key,
        "content": reminder.content,
        "priority": str(reminder.priority),
        "trigger": str(reminder.trigger),
        "due_at": reminder.due_at.isoformat(),
        "token": reminder.token,
    }


Predicates = Mapping[str, Callable[[Any], bool]]
"""What is true of a graph's state, each under the name that intentions know it by."""
NextTools = str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]]
"""Tools about to run: a name, a LangChain tool call, or several."""

DEFAULT_REMINDERS = 10
"""Reminders that one call raises at most: as many as the specification lists."""
TRIGGER_KINDS = tuple(trigger.kind for trigger in TRIGGERS.values())
_MOST_SECONDS = 30 * 86_400.0


def checked_predicates(predicates: object) -> Predicates:
    """Functions of a graph's state by name; none if None."""
    if predicates is None:
        return {}
    for predicate_name, predicate in checked_mapping(
        predicates, "predicates", "{'full': is_full}"
    ).items():
        checked_name(predicate_name, "the name of a predicate")
        if not callable(predicate):
            raise InvalidTypeError(
                f"predicates maps names to functions; see {short(predicate_name)}"
            )
    return cast("Predicates", predicates)


def checked_seconds(seconds: object) -> float | None:
    """How long a lease is; None is no lease."""
    if seconds is None:
        return None
    use = f"a number above 0, {_MOST_SECONDS:,.0f} at most, or None to deliver at once"
    return float(checked_number(seconds, "lease_seconds", 0, _MOST_SECONDS, but=(0,), use=use))


_PAGE = 200
_TRIES = 20
_FIRST = (-1, datetime.min.replace(tzinfo=UTC), 0)


ScopeParams: TypeAlias = Mapping[str, Any]
"""The parameters that each of these flows looks by, of where and when; see `here_of`."""


def build_scope_params(context: MemoryContext, moment: Moment) -> ScopeParams:
    """The parameters by which statements look where a recall in the context would."""
    lows, highs = [], []
    for tier in TIERS:
        _, low, high = prefix_scope(context.namespace(tier))
        lows.append(low)
        highs.append(high)
    return {
        **context.whose,
        "tiers": [*map(str, TIERS)],
        "lows": lows,
        "highs": highs,
        "alive_at": moment.alive_at,
        "now": moment.now,
    }


def intention_params(
    trigger: Trigger, priority: Priority, now: datetime, expires_at: datetime | None
) -> dict[str, Any]:
    """What a write says of when it is to be raised."""
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
    """What may be raised; a row of due_intentions, the columns are in this order."""

    id: int
    rank: int
    due_at: datetime
    trigger: Trigger
    raised: bool
    expires_at: datetime | None = None

    def is_met(self, occasion: Occasion) -> bool:
        """Whether it is to be raised on that occasion."""
        kinds = occasion.kinds
        if kinds is None:
            return self.raised or self.trigger.is_met(occasion)
        return self.trigger.kind in {*kinds, triggers.Topic.kind} and self.trigger.is_met(occasion)


def next_due(trigger: Trigger, now: datetime, expires_at: datetime | None) -> datetime | None:
    """The next time after this one at which it is due, if it recurs."""
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
    """Raise what is due, in order: leased for so many seconds, or delivered without them.

    What the holder was given before and still holds is given again, and nothing else. `topics` says
    which have come up, where any is waited for; a judge, which cues are shown, of those whose
    anchors the query holds. Where nothing waits for a topic one round trip tells all there is.
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
    """What the holder has, the occasion with its topics, and the first page of what may be due.

    There is no page yet where a topic has come up.
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
    """Rows of raise_intentions as reminders, in the order in which they are raised."""
    reminders = []
    for id_, rank, due_at, fence, trigger, until, *memory in sorted(rows, key=itemgetter(1, 2, 0)):
        intended = _common_fields(memory, rank, trigger, due_at)
        reminders.append(Reminder(**intended, token=f"{id_}.{fence}", leased_until=until))
    return reminders


def _common_fields(
    memory: Sequence[Any], rank: int, trigger: Mapping[str, Any], due_at: datetime
) -> dict[str, Any]:
    """What a reminder and an intention both say."""
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
    """The call that reads what may be due, a page from a place on.

    It finds each intention by the name that a trigger is found by, of what is at hand.
    """
    kinds, words = occasion.kinds, sorted(text_stems(occasion.query or ""))
    names = {
        triggers.When.kind: words,
        triggers.BeforeTool.kind: [call.name for call in occasion.calls],
        triggers.If.kind: [*occasion.predicates],
        triggers.Topic.kind: [triggers.Topic(topic).lookup_name for topic in occasion.topics],
    }
    asked = [*names] if kinds is None else [*kinds, triggers.Topic.kind]
    pairs = [
        (kind, trigger_name)
        for kind in names
        if kind in asked
        for trigger_name in sorted(set(names[kind]))
    ]
    after_priority, after_due, after_id = place
    params = {
        **scope_params,
        "timed": kinds is None or triggers.At.kind in kinds,
        "narrowed": kinds is not None,
        "kinds": [kind for kind, _ in pairs],
        "names": [trigger_name for _, trigger_name in pairs],
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
    """The first that are due, page by page; `rows` are the first page, if it is known."""
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
    """The occasion with what a judge says of all cues that may be shown, in one request."""
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
    """A row of the statement `intentions`."""
    tier, namespace, key, value, _, rank, trigger, due_at, status, *times = row
    expires_at, delivered_at, closed_at = times
    return Intention(
        **_common_fields([tier, tenant, namespace, key, value], rank, trigger, due_at),
        status=Status(status),
        expires_at=expires_at,
        delivered_at=delivered_at,
        closed_at=closed_at,
    )
