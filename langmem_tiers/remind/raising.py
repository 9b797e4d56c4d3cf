"""Intending, raising, putting off and closing, as flows.

Raising is one statement that looks again at what it changes, so two that are at it at once never
both raise the same intention.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from typing import Any, NamedTuple

from langchain_core.language_models import BaseChatModel

from langmem_tiers.core.config import StoreOptions
from langmem_tiers.core.context import MemoryContext
from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.core.memory import TIERS, Moment, Tier
from langmem_tiers.core.namespaces import decode, elsewhere, scope
from langmem_tiers.core.values import content_of
from langmem_tiers.postgres.flow import Call, Flow, Query, Row, Rows, rows_of
from langmem_tiers.remind import intentions as told
from langmem_tiers.remind import triggers
from langmem_tiers.remind.cue import features, judged_cues
from langmem_tiers.remind.intentions import Intention, Priority, Reminder, Status
from langmem_tiers.remind.triggers import Occasion, Trigger

_PAGE = 200
_TRIES = 20
_FIRST = (-1, datetime.min.replace(tzinfo=UTC), 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Here:
    """Where and when: what each of these flows needs to know."""

    context: MemoryContext
    options: StoreOptions
    moment: Moment

    @property
    def params(self) -> dict[str, Any]:
        """The parameters by which statements look where a recall in the context would."""
        scopes = [scope(self.context.namespace(tier)) for tier in TIERS]
        return {
            **self.context.whose,
            "tiers": [tier.value for tier in TIERS],
            "lows": [one.low for one in scopes],
            "highs": [one.high for one in scopes],
            "alive_at": self.moment.alive_at,
            "now": self.moment.now,
        }


def intends(
    trigger: Trigger, priority: Priority, now: datetime, expires_at: datetime | None
) -> dict[str, Any]:
    """What a write says of when it is to be raised."""
    at = trigger.moment if isinstance(trigger, triggers.At) else None
    return {
        "priority": priority.rank,
        "kind": trigger.kind,
        "trigger": json.dumps(triggers.to_json(trigger)),
        "due_at": at or now,
        "words": list(trigger.words) if isinstance(trigger, triggers.When) else None,
        "name": trigger.found_by,
        "expires_at": expires_at,
    }


class Due(NamedTuple):
    """What may be raised; a row of due_intentions, the columns are in this order."""

    id: int
    rank: int
    due_at: datetime
    trigger: Mapping[str, Any]
    raised: bool
    expires_at: datetime | None = None

    @property
    def place(self) -> tuple[int, datetime, int]:
        """Its place in the order of raising: by priority, then time, then id."""
        return self.rank, self.due_at, self.id

    def is_met(self, occasion: Occasion) -> bool:
        """Whether it is to be raised on that occasion."""
        trigger = triggers.of_json(self.trigger)
        if occasion.kinds is not None and trigger.kind not in {
            *occasion.kinds,
            triggers.Topic.kind,
        }:
            return False
        return (self.raised and occasion.kinds is None) or trigger.met(occasion)

    def again(self, now: datetime) -> datetime | None:
        """When it is due after this time, if it recurs."""
        trigger = triggers.of_json(self.trigger)
        return trigger.again(now, self.expires_at) if isinstance(trigger, triggers.At) else None


def remind(
    occasion: Occasion,
    here: Here,
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
    held, occasion, first = yield from _looked(occasion, here, limit, holder, topics)
    if held:
        return held
    until = None if seconds is None else here.moment.now + timedelta(seconds=seconds)
    for _ in range(_TRIES):
        due = yield from _due(occasion, here, limit, judge, first)
        first = None
        if not due:
            return []
        rows = yield from rows_of(
            "raise_intentions",
            **here.params,
            ids=[one.id for one in due],
            nexts=[one.again(here.moment.now) for one in due],
            holder=holder,
            leased_until=until,
        )
        if rows:
            return _in_order(rows)
    return []  # others raised all that was due


def _looked(
    occasion: Occasion,
    here: Here,
    limit: int,
    holder: str | None,
    topics: Callable[[], Flow[frozenset[str]]],
) -> Flow[tuple[list[Reminder], Occasion, Rows | None]]:
    """What the holder has, the occasion with its topics, and the first page of what may be due.

    There is no page yet where a topic has come up.
    """
    kinds, calls = occasion.kinds, [_page(occasion, here, limit, _FIRST)]
    if bool((occasion.query or "").strip()) and (kinds is None or triggers.Topic.kind in kinds):
        calls.append(Call("open_topics", {"tenant": here.context.root}))
    if holder is not None:
        calls.append(Call("raised_for", {**here.params, "holder": holder}))
    first, *further = yield Query(tuple(calls), commit=True)
    if holder is not None and (held := further.pop()):
        return _in_order(held), occasion, first
    for ((waits,),) in further:
        found = (yield from topics()) if waits else frozenset()
        if found:
            return [], occasion._replace(topics=found), None
    return [], occasion, first


def _in_order(rows: Sequence[Row]) -> list[Reminder]:
    """Rows of raise_intentions as reminders, in the order in which they are raised."""
    found = []
    for one, rank, due_at, fence, trigger, until, *memory in sorted(rows, key=itemgetter(1, 2, 0)):
        intended = _intended(memory, rank, trigger, due_at)
        found.append(Reminder(**intended, token=f"{one}.{fence}", leased_until=until))
    return found


def _intended(
    memory: Sequence[Any], rank: int, trigger: Mapping[str, Any], due_at: datetime
) -> dict[str, Any]:
    """What a reminder and an intention both say."""
    tier, tenant, namespace, key, value = memory
    return {
        "key": key,
        "namespace": decode(tenant, namespace),
        "tier": Tier(tier),
        "content": content_of(value),
        "value": value,
        "priority": told.PRIORITIES[rank],
        "trigger": triggers.of_json(trigger),
        "due_at": due_at,
    }


def _page(occasion: Occasion, here: Here, limit: int, place: tuple[int, datetime, int]) -> Call:
    """The call that reads what may be due, a page from a place on."""
    after = dict(zip(("after_priority", "after_due", "after_id"), place, strict=True))
    size = {"limit": max(_PAGE, limit)}
    return Call("due_intentions", {**here.params, **_found_by(occasion), **size, **after})


def _due(
    occasion: Occasion, here: Here, limit: int, judge: BaseChatModel | None, rows: Rows | None
) -> Flow[list[Due]]:
    """The first that are due, page by page; `rows` are the first page, if it is known."""
    found: list[Due] = []
    place = _FIRST
    while len(found) < limit:
        if rows is None:
            (rows,) = yield Query((_page(occasion, here, limit, place),), commit=True)
        page, rows = [Due(*row) for row in rows], None
        judged = yield from _judged(page, occasion, judge)
        found += [one for one in page if one.is_met(judged)]
        if len(page) < max(_PAGE, limit):
            break
        place = page[-1].place
    return found[:limit]


def _judged(page: Sequence[Due], occasion: Occasion, judge: BaseChatModel | None) -> Flow[Occasion]:
    """The occasion with what a judge says of all cues that may be shown, in one request."""
    query = occasion.query
    if judge is None or query is None:
        return occasion
    waiting, held = [triggers.of_json(one.trigger) for one in page], features(query)
    cues = {one.cue for one in waiting if isinstance(one, triggers.When) and held >= {*one.words}}
    near = [
        one for one in waiting if isinstance(one, triggers.Topic) and one.about in occasion.topics
    ]
    cues |= {one.about for one in near}
    if not cues:
        return occasion
    shown = yield from judged_cues(judge, query, sorted(cues))
    topics = frozenset(one.about for one in near if one.about in shown)
    return occasion._replace(shown=shown, topics=topics)


def _found_by(occasion: Occasion) -> dict[str, Any]:
    """What may meet a trigger, by the names that intentions are found by."""
    said, kinds = occasion.query is not None, occasion.kinds
    words = sorted(features(occasion.query or ""))
    names = {
        triggers.When.kind: words if said else [],
        triggers.BeforeTool.kind: sorted({call.name for call in occasion.calls}),
        triggers.If.kind: sorted(occasion.true),
        triggers.Topic.kind: sorted(triggers.Topic(one).found_by for one in occasion.topics),
    }
    asked = [kind for kind in names if kinds is None or kind in {*kinds, triggers.Topic.kind}]
    return {
        "timed": kinds is None or triggers.At.kind in kinds,
        "narrowed": kinds is not None,
        "kinds": [kind for kind in asked for _ in names[kind]],
        "names": [name for kind in asked for name in names[kind]],
        "words": words,
    }


def acknowledge(tokens: Collection[tuple[int, int]], here: Here) -> Flow[bool]:
    """Leases become deliveries; False if one of them is worth nothing any more."""
    if not tokens:
        return True
    ids, fences = zip(*sorted(tokens), strict=True)
    whose = {**here.context.whose, **elsewhere(here.context.namespace(Tier.WORKING))}
    told = {"ids": list(ids), "fences": list(fences), "now": here.moment.now}
    rows = yield from rows_of("acknowledge", **whose, **told)
    return bool(rows[0][0] == len(tokens))


def intentions(statuses: Sequence[Status], here: Here, limit: int | None) -> Flow[list[Intention]]:
    """What is intended, in the order in which it would be raised."""
    rows = yield from rows_of(
        "intentions",
        **here.params,
        statuses=[one.value for one in statuses],
        stored=sorted({stored for one in statuses for stored in told.STORED_AS[one]}),
        limit=limit,
    )
    return [_intention(row, here.context.root) for row in rows]


def _intention(row: Row, tenant: str) -> Intention:
    tier, namespace, key, value, _, rank, trigger, due_at, status, *times = row
    expires_at, delivered_at, closed_at = times
    return Intention(
        **_intended([tier, tenant, namespace, key, value], rank, trigger, due_at),
        status=Status(status),
        expires_at=expires_at,
        delivered_at=delivered_at,
        closed_at=closed_at,
    )


def snooze(one: int, until: datetime, here: Here) -> Flow[None]:
    """Put off an intention.

    Raises:
        InvalidInputError: if it is none, is closed, or will have expired by then.
    """
    if not (yield from _changed("snooze", one, here, until=until)):
        found = yield from _standing(one, here)
        if found.status in told.OPEN:
            raise InvalidInputError(
                f"it expires at {found.expires_at}, and would never be raised after {until}: "
                "snooze it for less, or intend it anew with another `expires_at`"
            )
        raise InvalidInputError(f"it is {found.status}, and cannot be put off: intend it anew")


def close(one: int, status: Status, here: Here) -> Flow[bool]:
    """Close an intention for good; False if it was closed already.

    One that recurs is done until its next time.

    Raises:
        InvalidInputError: if it is none.
    """
    if status is Status.DONE and (yield from _done_until_next(one, here)):
        return True
    changed = yield from _changed("close_intention", one, here, status=status.value)
    if not changed:
        yield from _standing(one, here)
    return changed


def _done_until_next(one: int, here: Here) -> Flow[bool]:
    """Whether it recurs and is open: then it is not raised before its next time."""
    standing, now = (yield from _standing(one, here)), here.moment.now
    trigger = triggers.of_json(standing.trigger)
    again = trigger.again(now, standing.expires_at) if isinstance(trigger, triggers.At) else None
    if again is None or standing.status not in told.OPEN:
        return False
    if standing.due_at <= now:
        yield from _changed("snooze", one, here, until=again)
    return True


def _changed(statement: str, one: int, here: Here, **params: Any) -> Flow[bool]:
    known = {"tenant": here.context.root, "id": one, "now": here.moment.now}
    return bool((yield from rows_of(statement, **known, **params)))


class _Standing(NamedTuple):
    """What an intention is; a row of intention, the columns are in this order."""

    status: Status
    expires_at: datetime | None
    trigger: Mapping[str, Any]
    due_at: datetime


def _standing(one: int, here: Here) -> Flow[_Standing]:
    tenant, now = here.context.root, here.moment.now
    rows = yield from rows_of("intention", tenant=tenant, id=one, now=now)
    if not rows:
        raise InvalidInputError(
            "the memory is there, but nothing is intended by it: use intend(…) in place of store(…)"
        )
    status, *others = rows[0]
    return _Standing(Status(status), *others)
