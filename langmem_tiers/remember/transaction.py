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
from typing import Any, Final, NamedTuple, TypeAlias
from uuid import uuid4

from langmem_tiers.core.config import StoreOptions
from langmem_tiers.core.context import user_of
from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.core.memory import (
    QUARANTINED,
    TIERS,
    TRUST_THRESHOLD,
    Moment,
    Place,
    Source,
    Tier,
)
from langmem_tiers.core.values import content_of, encode_value
from langmem_tiers.core.vectors import PackedVector
from langmem_tiers.postgres.flow import Call, Flow, GroupWrite, Query, Rows
from langmem_tiers.remember import room
from langmem_tiers.remember.gate import SPOKEN_FOR, derived_trust
from langmem_tiers.store import write as stored
from langmem_tiers.store.flows import StoreFlows
from langmem_tiers.store.write import Write, WriteBatch, keys_of

A_USERS_OWN: Final = "what is a user's own"
"""What is told of a memory, in place of its key, where everybody reads it."""


@dataclass(frozen=True)
class Applied:
    """What was written of what was to be."""

    writes: Sequence[Write] = ()
    """What was written, as it was: with the trust that it had in the end."""
    refused: Mapping[tuple[Place, str], str] = field(default_factory=dict)
    """What was not, and why."""
    evicted: Sequence[room.Evicted] = ()
    """What made room."""
    new: bool = False
    """Whether nothing, alive or dead, stood under any of the keys."""

    @cached_property
    def done(self) -> Mapping[tuple[Place, str], Write]:
        """What was written, by its place and key."""
        return {one.name: one for one in self.writes}


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
        one.sources
        or one.held
        or one.capacities
        or one.intention
        or (one.has_given_key and one.value is not None)
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

    What is quarantined and would replace a memory that is trusted more is left out.

    Raises:
        InvalidInputError (tier_conflict): if `tier` is given and a key lives in another one.
        InvalidInputError: if what a memory is said to be derived from is gone by now, or came
            from it.
    """
    last = stored.last_writes(writes)
    if not last:
        return Applied()
    yield from store.refresh_state()
    writing = WriteBatch(
        last, (yield from stored.embed_writes(last, store.options)), store.moment()
    )
    if check is None and not needs_admission(last):
        yield GroupWrite(writing, store.carry_out)
        return Applied(last)
    looks = () if check is None else (check.looks(writing.moment),)

    def stands(answers: Sequence[Rows]) -> bool:
        if check is not None:
            check.judges(answers[0])
        return True

    applied = yield from write_if(
        last,
        options=store.options,
        moment=writing.moment,
        vectors=writing.vectors,
        calls=looks,
        stands=stands,
        tier=tier,
    )
    return applied or Applied()


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
    tier: Tier | None = None,
) -> Flow[Applied | None]:
    """Put and delete if it still `stands` by what the calls answer; None if it does not.

    The calls are made once the keys of the writes and these are locked. What is to be done
    `further` of what was written follows in the same transaction. With `sparing`, a write that
    cannot be derived from what it names is refused by itself. Texts are embedded unless their
    `vectors` are given.
    """
    if vectors is None:
        vectors = yield from stored.embed_writes(writes, options)
    lock: tuple[Call, ...] = (stored.lock_writes(writes, options, keys),)
    if calls:
        _, *answers = yield Query((*lock, *calls))
        if not stands(answers):
            yield Query((), commit=True)  # which lets go of the locks
            return None
        lock = ()
    applied, now = Applied(writes), moment.now
    if needs_admission(writes):
        applied = yield from _admitted(writes, lock, moment, sparing=sparing)
        lock = ()
    puts = [one for one in applied.writes if one.value is not None]
    evicted: list[Call] = []
    if applied.evicted:
        going = [Write(place=one.place, key=one.memory.key, value=None) for one in applied.evicted]
        evicted = room.evicted_calls(applied.evicted, now)
        evicted += stored.delete_calls(going, TIERS)
    yield from stored.carry_out(
        WriteBatch(applied.writes, vectors, moment),
        options=options,
        tier=tier,
        lock=lock,
        new=applied.new,
        before=evicted,
        after=(*_calls_about(puts, now), *further(applied)),
    )
    return applied


class Origin(NamedTuple):
    """A memory that another is derived from; a row of origins_of_writes, in this order."""

    source: str
    there: bool
    circular: bool
    trust: float
    held: bool


_There: TypeAlias = Mapping[tuple[Place, str], _Standing]
_CHANGING = "{key!r} is itself derived or deleted by this call: derive from it in a call of its own"


def _admitted(
    writes: Sequence[Write], lock: Sequence[Call], moment: Moment, *, sparing: bool = False
) -> Flow[Applied]:
    """The writes as they are to be carried out; locks the keys first.

    Raises:
        InvalidInputError: if the source that a memory names is gone by now, or came from it; with
            `sparing` that memory is refused by itself.
    """
    changing = {one.name for one in writes if one.sources or one.value is None}
    refused = {
        one.name: _CHANGING.format(key=source[1])
        for one in writes
        for source in one.sources
        if source in changing and source not in one.echoes
    }
    if refused and not sparing:
        raise InvalidInputError(next(iter(refused.values())))
    origins, there, new = yield from _found(writes, lock, moment)
    kept: list[Write] = []
    for one in writes:
        if one.name in refused:
            continue
        try:
            settled = _settled(one, origins[one.name], changing) if one.sources else one
        except InvalidInputError as error:
            if not sparing:
                raise
            refused[one.name] = str(error)
            continue
        if (stands := there.get(one.name)) is not None:
            settled = _said_again(settled, stands)
            if (why_not := _refusal(settled, stands)) is not None:
                refused[one.name] = why_not
                continue
        kept.append(settled)
    crowding = [one for one in kept if one.capacities]
    evicted, full = (yield from room.make_room(crowding, there, moment)) if crowding else ((), {})
    written = [one for one in kept if one.name not in full]
    return Applied(written, {**refused, **full}, evicted, new=new)


def _found(
    writes: Sequence[Write], lock: Sequence[Call], moment: Moment
) -> Flow[tuple[Mapping[tuple[Place, str], Sequence[Origin]], _There, bool]]:
    """What each write comes from, what stands under the keys, and whether nothing ever did."""
    pairs = [(one, source) for one in writes for source in one.sources]
    standing = Call("replaced_by_writes", {**keys_of(writes), "alive_at": moment.alive_at})
    calls = [standing]
    if pairs:
        named = {
            **keys_of([one for one, _ in pairs]),
            "source_namespaces": [place.namespace for _, (place, _) in pairs],
            "source_keys": [key for _, (_, key) in pairs],
            "alive_at": moment.alive_at,
        }
        calls = [Call("origins_of_writes", named), standing]
    *rows, replaced = (yield Query((*lock, *calls)))[len(lock) :]
    origins: dict[tuple[Place, str], list[Origin]] = {}
    for several in rows:
        for (one, _), row in zip(pairs, several, strict=True):
            origins.setdefault(one.name, []).append(Origin(*row))
    there: dict[tuple[Place, str], _Standing] = {}
    for tenant, namespace, key, *told in replaced:
        if (known := _Standing(*told)).alive:
            there[Place(tenant, namespace), key] = known
    return origins, there, not replaced


def _settled(
    one: Write, origins: Sequence[Origin], changing: Container[tuple[Place, str]]
) -> Write:
    """A write that is derived from its origins, without those that it only repeats and cannot have.

    It is trusted no further than these either, as long as they are there.

    Raises:
        InvalidInputError: if an origin that it names is gone, or came from it.
    """
    had: list[tuple[Place, str]] = []
    there: list[Origin] = []
    for source, origin in zip(one.sources, origins, strict=True):
        repeated = source in one.echoes
        if not repeated and not origin.there:
            raise InvalidInputError(f"{origin.source!r} is gone by now: derive from what is there")
        if not repeated and origin.circular:
            raise InvalidInputError(
                f"{origin.source!r} came from the memory that is to be derived from it: leave it "
                "out"
            )
        if not repeated or (origin.there and not origin.circular and source not in changing):
            had.append(source)
        if origin.there:
            private = user_of(source[0]) not in (None, user_of(one.place))
            there.append(origin._replace(source=A_USERS_OWN) if private else origin)
    return replace(_derived(one, there), sources=tuple(had))


def _derived(one: Write, origins: Sequence[Origin]) -> Write:
    """A write, trusted no further than what it is derived from."""
    if not origins:
        return one
    least = min(origins, key=lambda each: each.trust)
    settled = trusted(one, derived_trust(one.trust, [least.trust]))
    if settled.held is not None:
        return settled
    held = next((each for each in origins if each.held), None)
    if held is not None:
        return replace(settled, held=f"derived: it came from {held.source}, which is quarantined")
    if settled.trust < one.threshold:
        reason = (
            f"trust: {settled.trust:g} is below {one.threshold:g}, as it came from {least.source}"
        )
        return replace(settled, held=reason)
    return settled


def trusted(one: Write, trust: float, **told: object) -> Write:
    """A put that is trusted no further than this; its value says so."""
    if trust >= one.trust or one.value is None:
        return one
    value = encode_value({**json.loads(one.value), "trust": trust, **told})
    return replace(one, trust=trust, value=value)


def _said_again(one: Write, there: _Standing) -> Write:
    """A write as it will stand: what says the same is trusted no further, and held as before."""
    if one.value is None or there.bound is None:
        return one
    same = content_of(json.loads(one.value)) == content_of(there.bound)
    if same:
        source = there.bound.get("source", Source.UNKNOWN)
        one = trusted(one, there.trust, source=source)
    if there.state != QUARANTINED or one.held or not (same or one.trust < TRUST_THRESHOLD):
        return one
    reasons = "; ".join(map(str, there.reasons or ()))
    return replace(one, held=reasons, repeats_held=True)


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
    if one.has_given_key and one.trust < SPOKEN_FOR and there.trust > one.trust:
        return (
            f"replaces: the memory {one.key!r} is trusted more ({there.trust:g}) than what would "
            f"replace it ({one.trust:g}): store it under another key"
        )
    return None


def _calls_about(puts: Sequence[Write], now: datetime) -> Iterator[Call]:
    """The calls that say of what was just put what is held, where it is from, and when it is due.

    What is held is quarantined once a tenant, and what is intended is to be raised at its time.
    """
    if held := [one for one in puts if one.held and not one.repeats_held]:
        yield from _quarantine_calls(held, now)
    if derived := [one for one in puts if one.sources]:
        yield from derive_calls(derived, now)
    for one in puts:
        if one.intention is not None:
            place = {"tenant": one.place.tenant, "namespace": one.place.namespace, "key": one.key}
            yield Call("intend", {**one.intention, **place, "held": bool(one.held), "now": now})


def _quarantine_calls(held: Sequence[Write], now: datetime) -> Iterator[Call]:
    for tenant, mine in room.by_tenant(held):
        params = {
            "tenant": tenant,
            "namespaces": [one.place.namespace for one in mine],
            "keys": [one.key for one in mine],
            "reasons": [one.held for one in mine],
            "trusts": [one.trust for one in mine],
            "events": [str(uuid4()) for _ in mine],
            "now": now,
        }
        yield Call("quarantine", params)


def derive_calls(
    puts: Sequence[Write], now: datetime, event_of: Callable[[Write], str] = lambda _: str(uuid4())
) -> Iterator[Call]:
    """The calls that say what was derived from what, and whether it is suspect; once a tenant."""
    for tenant, mine in room.by_tenant(one for one in puts if one.sources):
        events = {one.name: event_of(one) for one in mine}
        pairs = [(one, place, key) for one in mine for place, key in one.sources]
        params = {
            **keys_of([one for one, _, _ in pairs]),
            "tenant": tenant,
            "source_namespaces": [place.namespace for _, place, _ in pairs],
            "source_keys": [key for _, _, key in pairs],
            "events": [events[one.name] for one, _, _ in pairs],
            "now": now,
        }
        yield Call("derive", params)
        yield Call("doubt", {"tenant": tenant, "ids": [], "events": [*events.values()]})
