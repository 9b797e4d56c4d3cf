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
from itertools import chain
from typing import Any, NamedTuple
from uuid import uuid4

from langmem_tiers.core.config import StoreOptions
from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.core.memory import QUARANTINED, THRESHOLD, TIERS, Moment, Source, Tier
from langmem_tiers.core.namespaces import Place
from langmem_tiers.core.values import content_of, encode_value
from langmem_tiers.core.vectors import PackedVector
from langmem_tiers.postgres.flow import Call, Flow, Query, Rows
from langmem_tiers.remember.room import (
    Evicted,
    by_tenant,
    evicted_calls,
    incoming,
    making_room,
    standing_calls,
)
from langmem_tiers.remember.trust import SPOKEN_FOR, Origin, settled_by
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
    new: bool = False
    """Whether nothing, alive or dead, stood under any of the keys."""

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
    alive: bool
    """Whether it has not expired."""


class Check(NamedTuple):
    """What is looked at once the keys are locked, before anything is written."""

    looks: Callable[[Moment], Call]
    judges: Callable[[Sequence[Sequence[Any]]], None]
    """Raises, of the rows, what is wrong: then nothing is written."""


def needs_admission(writes: Sequence[Write]) -> bool:
    """Whether anything is to be looked at once the keys are locked, or said of what was put."""
    return any(
        one.sources or one.held or one.rooms or one.intends or (one.named and one.value is not None)
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
    vectors: Mapping[str, PackedVector | None] | None = None,
    keys: Iterable[tuple[str, str, str]] = (),
    calls: Sequence[Call] = (),
    stands: Callable[[list[Rows]], bool] = lambda _: True,
    further: Callable[[Applied], Sequence[Call]] = lambda _: (),
    sparing: bool = False,
) -> Flow[Applied | None]:
    """Put and delete if it still `stands` by what the calls answer; None if it does not.

    With `sparing`, a write that cannot be derived from what it names is refused by itself.

    They are made once the keys of the writes and these are locked. What is to be done `further`
    of what was written follows in the same transaction. Texts are embedded unless their `vectors`
    are given.
    """
    if vectors is None:
        vectors = yield from embed(writes, options)
    if calls:
        _, *answers = yield Query((lock_writes(writes, options, keys), *calls))
        if not stands(answers):
            yield Query((), commit=True)  # which lets go of the locks
            return None
    writing = Writing(writes, vectors, moment)
    locked = bool(calls)
    return (
        yield from apply(writing, options=options, locked=locked, further=further, sparing=sparing)
    )


def apply(
    writing: Writing,
    *,
    options: StoreOptions,
    tier: Tier | None = None,
    locked: bool = False,
    check: Check | None = None,
    further: Callable[[Applied], Sequence[Call]] = lambda _: (),
    sparing: bool = False,
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
        applied = yield from _admitted(writes, lock, writing.moment, sparing=sparing)
        lock = ()
    now, puts = writing.moment.now, [one for one in applied.writes if one.value is not None]
    leaving = [Write(place=one.place, key=one.memory.key, value=None) for one in applied.evicted]
    yield from carry_out(
        writing._replace(writes=applied.writes),
        options=options,
        tier=tier,
        lock=lock,
        new=applied.new,
        before=(*evicted_calls(applied.evicted, now), *delete_calls(leaving, TIERS)),
        after=(
            *_quarantine_calls(puts, now),
            *derive_calls(puts, now),
            *_intend_calls(puts, now),
            *further(applied),
        ),
    )
    return applied


_CHANGING = "{key!r} is itself derived or deleted by this call: derive from it in a call of its own"


def _admitted(
    writes: Sequence[Write], lock: Sequence[Call], moment: Moment, *, sparing: bool = False
) -> Flow[Applied]:
    """The writes as they are to be carried out; locks the keys first.

    Raises:
        InvalidInputError: if the source that a memory names is gone by now, or came from it; with
            `sparing` that memory is refused by itself.
    """
    spared: dict[tuple[Place, str], str] | None = {} if sparing else None
    pairs = [(one, place, key) for one in writes for place, key in one.sources]
    changing = {(one.place, one.key) for one in writes if one.sources or one.value is None}
    for one, place, key in pairs:
        if (place, key) in changing and (place, key) not in one.echoes:
            _spare(spared, one, InvalidInputError(_CHANGING.format(key=key)))
    named = {
        **keys_of([one for one, _, _ in pairs]),
        "source_namespaces": [place.namespace for _, place, _ in pairs],
        "source_keys": [key for _, _, key in pairs],
        "alive_at": moment.alive_at,
    }
    origins = [Call("origins_of_writes", named)] if pairs else []
    standing = Call("replaced_by_writes", {**keys_of(writes), "alive_at": moment.alive_at})
    *rows, replaced = (yield Query((*lock, *origins, standing)))[len(lock) :]
    there = {
        (Place(tenant, namespace), key): known
        for tenant, namespace, key, *told in replaced
        if (known := _Standing(*told)).alive
    }
    found = (Origin(*row) for row in chain.from_iterable(rows))
    origin = [[next(found) for _ in one.sources] for one in writes]
    derived = [
        found_out
        for one, mine in zip(writes, origin, strict=True)
        if (found_out := _settled(one, mine, changing, spared)) is not None
    ]
    settled = [_said_again(one, there.get((one.place, one.key))) for one in derived]
    refused = {
        (one.place, one.key): why
        for one in settled
        if (stands := there.get((one.place, one.key))) and (why := _refusal(one, stands))
    }
    kept = [one for one in settled if (one.place, one.key) not in refused]
    wanted = incoming(kept)
    rooms = (yield Query(tuple(standing_calls(wanted, moment)))) if wanted else ()
    evicted, full = making_room(kept, dict(zip(wanted, rooms, strict=True)), there, moment.now)
    written = [one for one in kept if (one.place, one.key) not in full]
    return Applied(written, {**(spared or {}), **refused, **full}, evicted, new=not replaced)


def _settled(
    one: Write,
    origins: Sequence[Origin],
    changing: Container[tuple[Place, str]],
    spared: dict[tuple[Place, str], str] | None,
) -> Write | None:
    """Resolve the sources of a write; None if it is refused by itself."""
    if spared and (one.place, one.key) in spared:
        return None
    try:
        return settled_by(one, origins, changing)
    except InvalidInputError as why:
        _spare(spared, one, why)
        return None


def _spare(spared: dict[tuple[Place, str], str] | None, one: Write, why: InvalidInputError) -> None:
    """Refuse a write by itself if the others are to be spared; else raise."""
    if spared is None:
        raise why
    spared.setdefault((one.place, one.key), str(why))


def _said_again(one: Write, there: _Standing | None) -> Write:
    """A write as it will stand: what says the same is trusted no further, and held as before."""
    if one.value is None or there is None or there.bound is None:
        return one
    value = json.loads(one.value)
    same = content_of(value) == content_of(there.bound)
    if same and there.trust < one.trust:
        source = there.bound.get("source", Source.UNKNOWN)
        value = encode_value({**value, "trust": there.trust, "source": source})
        one = replace(one, trust=there.trust, value=value)
    if there.state != QUARANTINED or one.held or not (same or one.trust < THRESHOLD):
        return one
    reasons = "; ".join(map(str, there.reasons or ()))
    return replace(one, held=reasons, stays=True)


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
    if one.named and one.trust < SPOKEN_FOR and there.trust > one.trust:
        return (
            f"replaces: the memory {one.key!r} is trusted more ({there.trust:g}) than what would "
            f"replace it ({one.trust:g}): store it under another key"
        )
    return None


def _quarantine_calls(puts: Sequence[Write], now: datetime) -> list[Call]:
    """The calls that quarantine what was just put and is held, once a tenant."""
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
        for tenant, mine in by_tenant(one for one in puts if one.held and not one.stays)
    ]


def _intend_calls(puts: Sequence[Write], now: datetime) -> Iterator[Call]:
    """The calls that say when what was just put is to be raised."""
    for one in puts:
        if one.intends is not None:
            place = {"tenant": one.place.tenant, "namespace": one.place.namespace, "key": one.key}
            yield Call("intend", {**one.intends, **place, "held": bool(one.held), "now": now})


def derive_calls(
    puts: Sequence[Write], now: datetime, event_of: Callable[[Write], str] = lambda _: str(uuid4())
) -> Iterator[Call]:
    """The calls that say what was derived from what, and whether it is suspect; once a tenant."""
    for tenant, mine in by_tenant(one for one in puts if one.sources):
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
