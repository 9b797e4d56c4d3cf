"""What is settled once the keys of writes are locked: what they come from, and what they replace.

A memory is trusted no further than each that it is derived from, as these are at that moment. What
is thereby trusted too little, or came from what is quarantined, is quarantined as well. What is
quarantined replaces no memory that is current, trusted more or retracted, and what tools and pages
say none that is trusted more. What is quarantined stays so when it is said again. What is stored in
the end, and is recalled, makes room for itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Any, NamedTuple
from uuid import uuid4

from langmem_tiers.core.config import StoreOptions
from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.core.memory import QUARANTINED, THRESHOLD, TIERS, Moment, Source, Tier
from langmem_tiers.core.namespaces import Place
from langmem_tiers.core.values import content_of, encode_value
from langmem_tiers.postgres.flow import Call, Flow, Query, Rows
from langmem_tiers.remember.room import (
    Evicted,
    evicted_calls,
    incoming,
    making_room,
    standing_calls,
)
from langmem_tiers.remember.trust import SPOKEN_FOR, derived_trust
from langmem_tiers.store.flows import StoreFlows
from langmem_tiers.store.write import (
    Write,
    Writing,
    carry_out,
    delete_calls,
    embed,
    keys_of,
    last_writes,
    lock_writes,
)


@dataclass(frozen=True)
class Applied:
    """What was written of what was to be."""

    writes: Sequence[Write] = ()
    """What was written, as it was: with the trust that it had in the end."""
    refused: Mapping[tuple[Place, str], str] = field(default_factory=dict)
    """What was not, and why."""
    evicted: Sequence[Evicted] = ()
    """What made room."""

    @cached_property
    def done(self) -> Mapping[tuple[Place, str], Write]:
        """What was written, by its place and key."""
        return {(one.place, one.key): one for one in self.writes}


class _Standing(NamedTuple):
    """What stands under the key of a write; a row of replaced_by_writes ends with these."""

    trust: float
    state: str | None
    reasons: Sequence[str] | None
    """Why it is quarantined, if it is."""
    bound: Mapping[str, Any] | None
    """Its value, where it is trusted no further when it is said again."""
    awaits: bool
    """Whether models are to review it yet."""


class _Origin(NamedTuple):
    """A memory that another is derived from; a row of origins_of_writes, in this order."""

    source: str
    there: bool
    circular: bool
    trust: float
    held: bool


class Check(NamedTuple):
    """What is looked at once the keys are locked, before anything is written."""

    looks: Callable[[Moment], Call]
    judges: Callable[[Sequence[Sequence[Any]]], None]
    """Raises, of the rows, what is wrong: then nothing is written."""


def needs_admission(writes: Sequence[Write]) -> bool:
    """Whether anything is to be looked at once the keys are locked, or said of what was put."""
    return any(
        one.sources
        or one.held
        or one.rooms
        or one.awaits_review
        or (one.named and one.value is not None)
        for one in writes
    )


def write(
    writes: Sequence[Write],
    store: StoreFlows,
    *,
    tier: Tier | None = None,
    check: Check | None = None,
) -> Flow[Applied]:
    """Put and delete what was checked already, all or nothing; what was written in the end.

    Raises:
        TierConflictError, InvalidInputError: see `apply`.
    """
    last = last_writes(writes)
    if not last:
        return Applied()
    yield from store.refresh_state()
    writing = Writing(last, (yield from embed(last, store.options)), store.moment())
    if check is not None or needs_admission(last):
        return (yield from apply(writing, options=store.options, tier=tier, check=check))
    yield store.together(writing)
    return Applied(last)


def write_if(
    writes: Sequence[Write],
    *,
    options: StoreOptions,
    moment: Moment,
    keys: Iterable[tuple[str, str, str]] = (),
    calls: Sequence[Call] = (),
    stands: Callable[[list[Rows]], bool] = lambda _: True,
    further: Callable[[Applied], Sequence[Call]] = lambda _: (),
) -> Flow[Applied | None]:
    """Put and delete if it still `stands` by what the calls answer; None if it does not.

    They are made once the keys of the writes and these are locked. What is to be done `further`
    of what was written follows in the same transaction.
    """
    vectors = yield from embed(writes, options)
    if calls:
        _, *answers = yield Query((lock_writes(writes, options, keys), *calls))
        if not stands(answers):
            yield Query((), commit=True)  # which lets go of the locks
            return None
    writing = Writing(writes, vectors, moment)
    return (yield from apply(writing, options=options, locked=bool(calls), further=further))


def apply(
    writing: Writing,
    *,
    options: StoreOptions,
    tier: Tier | None = None,
    locked: bool = False,
    check: Check | None = None,
    further: Callable[[Applied], Sequence[Call]] = lambda _: (),
) -> Flow[Applied]:
    """Admit writes and carry them out, all or none; `locked` if their keys are already.

    What there is to `check` is looked at once they are, and the calls that are to be made `further`
    of what was written follow in the same transaction. What is quarantined and would replace a
    memory that is trusted more is left out: the answer says what was written and what was refused.

    Raises:
        TierConflictError: if `tier` is given and a key lives in another one.
        InvalidInputError: if what a memory is said to be derived from is gone by now, or came
            from it.
    """
    writes = writing.writes
    lock = () if locked else (lock_writes(writes, options),)
    if check is not None:
        *_, rows = yield Query((*lock, check.looks(writing.moment)))
        check.judges(rows)
        lock = ()
    applied = Applied(writes)
    if needs_admission(writes):
        applied = yield from admitted(writes, lock, writing.moment)
        lock = ()
    yield from carry_out_admitted(
        writing, applied, options=options, tier=tier, lock=lock, further=further(applied)
    )
    return applied


def carry_out_admitted(
    writing: Writing,
    applied: Applied,
    *,
    options: StoreOptions,
    tier: Tier | None = None,
    lock: Sequence[Call] = (),
    further: Sequence[Call] = (),
) -> Flow[None]:
    """Carry out what was admitted: what makes room goes first, and what is held is held."""
    now, puts = writing.moment.now, [one for one in applied.writes if one.value is not None]
    leaving = [
        Write(place=one.memory.place, key=one.memory.key, value=None) for one in applied.evicted
    ]
    yield from carry_out(
        writing._replace(writes=applied.writes),
        options=options,
        tier=tier,
        lock=lock,
        before=(*evicted_calls(applied.evicted, now), *delete_calls(leaving, TIERS)),
        after=(
            *quarantine_calls(puts, now),
            *awaiting_calls(puts),
            *derive_calls(puts, now),
            *further,
        ),
    )


def admitted(writes: Sequence[Write], lock: Sequence[Call], moment: Moment) -> Flow[Applied]:
    """The writes as they are to be carried out; locks the keys first.

    Raises:
        InvalidInputError: if what a memory is said to be derived from is gone by now, or came
            from it.
    """
    pairs = [(one, place, key) for one in writes for place, key in one.sources]
    changing = {(one.place, one.key) for one in writes if one.sources or one.value is None}
    _check_changing(pairs, changing)
    origins = {
        **keys_of([one for one, _, _ in pairs]),
        "source_namespaces": [place.namespace for _, place, _ in pairs],
        "source_keys": [key for _, _, key in pairs],
        "alive_at": moment.alive_at,
    }
    standing = Call("replaced_by_writes", {**keys_of(writes), "alive_at": moment.alive_at})
    calls = (*lock, Call("origins_of_writes", origins), standing)
    rows, replaced = (yield Query(calls))[len(lock) :]
    there = {
        (Place(tenant, namespace), key): _Standing(*told)
        for tenant, namespace, key, *told in replaced
    }
    found = (_Origin(*row) for row in rows)
    derived = [_settled(one, [next(found) for _ in one.sources], changing) for one in writes]
    settled = [_said_again(one, there.get((one.place, one.key))) for one in derived]
    refused = {
        (one.place, one.key): why
        for one in settled
        if (stands := there.get((one.place, one.key))) and (why := _refusal(one, stands))
    }
    kept = [one for one in settled if (one.place, one.key) not in refused]
    wanted = incoming(kept)
    rooms = (yield Query(tuple(standing_calls(wanted, moment)))) if wanted else ()
    evicted, full = making_room(kept, dict(zip(wanted, rooms, strict=True)), moment.now)
    return Applied(
        [one for one in kept if (one.place, one.key) not in full], {**refused, **full}, evicted
    )


def _said_again(one: Write, there: _Standing | None) -> Write:
    """A write as it will stand: what says the same is trusted no further, and held as before.

    Models may let it go only if they may do so of what stands: that is held for want of them alone.
    """
    if one.value is None or there is None or there.bound is None:
        return one
    value = json.loads(one.value)
    same = content_of(value) == content_of(there.bound)
    if same and there.trust < one.trust:
        source = there.bound.get("source", Source.UNKNOWN)
        value = encode_value({**value, "trust": there.trust, "source": source})
        one = replace(one, trust=there.trust, value=value)
    own = one.held and (there.awaits or not one.awaits_review)
    if there.state != QUARANTINED or own or not (same or one.trust < THRESHOLD):
        return one
    reasons = "; ".join(map(str, there.reasons or ()))
    return replace(one, held=reasons, stays=True, awaits_review=there.awaits)


def _yields(one: Write) -> bool:
    """Whether its key was given, and it is not trusted enough to replace whatever has it."""
    return one.named and one.value is not None and one.trust < SPOKEN_FOR


def _refusal(one: Write, there: _Standing) -> str | None:
    """Why a write does not replace what stands under its key; None if it does."""
    if one.value is None or there.state == QUARANTINED:
        return None
    if one.held and there.state == "retracted":
        return (
            f"retracted: the memory {one.key!r} is retracted, and what is quarantined does not "
            f"replace it: store it under another key; {one.held}"
        )
    if one.held and (there.state is None or there.trust > one.trust):
        more = there.trust > one.trust
        stands = f"trusted more ({there.trust:g})" if more else "current"
        return (
            f"replaces: the memory {one.key!r} is {stands}, and what is quarantined does not "
            f"replace it; {one.held}"
        )
    if _yields(one) and there.trust > one.trust:
        return (
            f"replaces: the memory {one.key!r} is trusted more ({there.trust:g}) than what would "
            f"replace it ({one.trust:g}): store it under another key"
        )
    return None


def quarantine_calls(puts: Sequence[Write], now: datetime) -> list[Call]:
    """The calls that quarantine what was just put and is held, once a tenant."""
    held = [one for one in puts if one.held and not one.stays]
    return [
        Call(
            "quarantine",
            {
                "tenant": tenant,
                "namespaces": [one.place.namespace for one in mine],
                "keys": [one.key for one in mine],
                "reasons": [one.held for one in mine],
                "trusts": [one.trust for one in mine],
                "events": [str(uuid4()) for _ in mine],
                "now": now,
            },
        )
        for tenant in sorted({one.place.tenant for one in held})
        for mine in [[one for one in held if one.place.tenant == tenant]]
    ]


def awaiting_calls(puts: Sequence[Write]) -> list[Call]:
    """The calls that say of what was just put that it awaits a review by models, once a tenant."""
    detail = json.dumps({"reasons": ["models are to review it"]})
    awaiting = [one for one in puts if one.awaits_review]
    return [
        Call(
            "await_review",
            {
                "tenant": tenant,
                "namespaces": [one.place.namespace for one in mine],
                "keys": [one.key for one in mine],
                "detail": detail,
            },
        )
        for tenant in sorted({one.place.tenant for one in awaiting})
        for mine in [[one for one in awaiting if one.place.tenant == tenant]]
    ]


def derive_calls(
    puts: Sequence[Write], now: datetime, event_of: Callable[[Write], str] = lambda _: str(uuid4())
) -> Iterator[Call]:
    """The calls that say what was derived from what, and whether it is suspect; once a tenant."""
    derived = [one for one in puts if one.sources]
    for tenant in sorted({one.place.tenant for one in derived}):
        mine = [one for one in derived if one.place.tenant == tenant]
        events = {(one.place, one.key): event_of(one) for one in mine}
        pairs = [(one, place, key) for one in mine for place, key in one.sources]
        params = {
            **keys_of([one for one, _, _ in pairs]),
            "tenant": tenant,
            "source_namespaces": [place.namespace for _, place, _ in pairs],
            "source_keys": [key for _, _, key in pairs],
            "events": [events[one.place, one.key] for one, _, _ in pairs],
            "now": now,
        }
        yield Call("derive", params)
        yield Call("doubt", {"tenant": tenant, "ids": [], "events": [*events.values()]})


def _check_changing(
    pairs: Sequence[tuple[Write, Place, str]], changing: Container[tuple[Place, str]]
) -> None:
    for one, place, key in pairs:
        if (place, key) in changing and (place, key) not in one.echoes:
            raise InvalidInputError(
                f"{key!r} is itself derived or deleted by this call: derive from it in a call of "
                "its own"
            )


def _check(one: _Origin) -> None:
    if not one.there:
        raise InvalidInputError(f"{one.source!r} is gone by now: derive from what is there")
    if one.circular:
        raise InvalidInputError(
            f"{one.source!r} came from the memory that is to be derived from it: leave it out"
        )


def _settled(
    one: Write, origins: Sequence[_Origin], changing: Container[tuple[Place, str]]
) -> Write:
    """A write that is derived from its origins, without those that it only repeats and cannot have.

    It is trusted no further than these either, as long as they are there.
    """
    if not one.sources:
        return one
    several = dict(zip(one.sources, origins, strict=True))
    for place, origin in several.items():
        if place not in one.echoes:
            _check(origin)
    settled = _derived(one, [each for each in several.values() if each.there])
    had = (
        place
        for place, origin in several.items()
        if place not in one.echoes
        or (origin.there and not origin.circular and place not in changing)
    )
    return replace(settled, sources=tuple(had))


def _derived(one: Write, origins: Sequence[_Origin]) -> Write:
    """A write, trusted no further than what it is derived from."""
    if not origins:
        return one
    least = min(origins, key=lambda each: each.trust)
    settled = trusted(one, derived_trust(one.trust, [least.trust]))
    if settled.held is not None and not one.awaits_review:
        return settled
    held = next((each for each in origins if each.held), None)
    if held is not None:
        reason = f"derived: it came from {held.source}, which is quarantined"
        return replace(settled, held=reason, awaits_review=False)
    if settled.trust < one.threshold:
        reason = (
            f"trust: {settled.trust:g} is below {one.threshold:g}, as it came from {least.source}"
        )
        return replace(settled, held=reason, awaits_review=False)
    return settled


def trusted(one: Write, trust: float) -> Write:
    """A put that is trusted no further than this; its value says so."""
    if trust >= one.trust or one.value is None:
        return one
    return replace(one, trust=trust, value=encode_value({**json.loads(one.value), "trust": trust}))
