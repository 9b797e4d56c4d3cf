"""Commit writes: lock their keys, limit trust to origins, and refuse unsafe replacements.

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
from langmem_tiers.remember import capacity
from langmem_tiers.remember.gate import OWN_EVIDENCE_TRUST, derived_trust
from langmem_tiers.store import write as stored
from langmem_tiers.store.flows import StoreFlows
from langmem_tiers.store.write import Write, WriteBatch, keys_of

PRIVATE_ORIGIN: Final = "what is a user's own"
"""The text that stands for the key of another user's memory."""


@dataclass(frozen=True)
class AppliedWrites:
    """The outcome of a commit."""

    writes: Sequence[Write] = ()
    """The committed writes, with their final trust."""
    refused: Mapping[tuple[Place, str], str] = field(default_factory=dict)
    """The refused writes, with the reasons."""
    evicted: Sequence[capacity.Evicted] = ()
    """The evicted memories."""
    new: bool = False
    """True if nothing, alive or dead, stood under any of the keys."""

    @cached_property
    def done(self) -> Mapping[tuple[Place, str], Write]:
        """Index the committed writes by place and key."""
        return {put.name: put for put in self.writes}


class _StoredRow(NamedTuple):
    """The stored memory under the key of a write; a row of replaced_by_writes ends with these."""

    trust: float
    state: str | None
    reasons: Sequence[str] | None
    """The reasons of its quarantine, if any."""
    bound: Mapping[str, Any] | None
    """Its value, where it is trusted no further when it is said again."""
    alive: bool
    """True if it has not expired."""


class LockedCheck(NamedTuple):
    """A check under the locks, before anything is written."""

    looks: Callable[[Moment], Call]
    judges: Callable[[Sequence[Sequence[Any]]], None]
    """Raises, of the rows, what is wrong: then nothing is written."""


def needs_admission(writes: Sequence[Write]) -> bool:
    """Tell whether a write needs a check under the locks, or a record of what was put."""
    return any(
        put.sources
        or put.held
        or put.capacities
        or put.intention
        or (put.has_given_key and put.value is not None)
        for put in writes
    )


def commit_writes(
    writes: Sequence[Write],
    store: StoreFlows,
    *,
    tier: Tier | None = None,
    check: LockedCheck | None = None,
) -> Flow[AppliedWrites]:
    """Commit checked puts and deletions, all or nothing.

    A quarantined write that would replace a memory of higher trust is left out.

    Raises:
        InvalidInputError (tier_conflict): if `tier` is given and a key lives in another one.
        InvalidInputError: if what a memory is said to be derived from is gone by now, or came
            from it.
    """
    last = stored.last_writes(writes)
    if not last:
        return AppliedWrites()
    yield from store.refresh_state()
    writing = WriteBatch(
        last, (yield from stored.embed_writes(last, store.options)), store.moment()
    )
    if check is None and not needs_admission(last):
        yield GroupWrite(writing, store.carry_out)
        return AppliedWrites(last)
    looks = () if check is None else (check.looks(writing.moment),)

    def stands(answers: Sequence[Rows]) -> bool:
        if check is not None:
            check.judges(answers[0])
        return True

    applied = yield from commit_if(
        last,
        options=store.options,
        moment=writing.moment,
        vectors=writing.vectors,
        calls=looks,
        stands=stands,
        tier=tier,
    )
    return applied or AppliedWrites()


def commit_if(
    writes: Sequence[Write],
    *,
    options: StoreOptions,
    moment: Moment,
    vectors: Mapping[str, PackedVector | None] | None = None,
    keys: Iterable[tuple[str, str, str]] = (),
    calls: Sequence[Call] = (),
    stands: Callable[[list[Rows]], bool] = lambda _: True,
    further: Callable[[AppliedWrites], Sequence[Call]] = lambda _: (),
    sparing: bool = False,
    tier: Tier | None = None,
) -> Flow[AppliedWrites | None]:
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
    applied, now = AppliedWrites(writes), moment.now
    if needs_admission(writes):
        applied = yield from _admit(writes, lock, moment, sparing=sparing)
        lock = ()
    puts = [put for put in applied.writes if put.value is not None]
    evicted: list[Call] = []
    if applied.evicted:
        going = [
            Write(place=eviction.place, key=eviction.memory.key, value=None)
            for eviction in applied.evicted
        ]
        evicted = capacity.eviction_calls(applied.evicted, now)
        evicted += stored.delete_calls(going, TIERS)
    yield from stored.carry_out(
        WriteBatch(applied.writes, vectors, moment),
        options=options,
        tier=tier,
        lock=lock,
        new=applied.new,
        before=evicted,
        after=(*_follow_up_calls(puts, now), *further(applied)),
    )
    return applied


class OriginRow(NamedTuple):
    """A memory that another is derived from; a row of origins_of_writes, in this order."""

    source: str
    there: bool
    circular: bool
    trust: float
    held: bool


_StoredRows: TypeAlias = Mapping[tuple[Place, str], _StoredRow]
_CHANGING = "{key!r} is itself derived or deleted by this call: derive from it in a call of its own"


def _admit(
    writes: Sequence[Write], lock: Sequence[Call], moment: Moment, *, sparing: bool = False
) -> Flow[AppliedWrites]:
    """Lock the keys, and settle which writes are carried out, and how.

    Raises:
        InvalidInputError: if the source that a memory names is gone by now, or came from it; with
            `sparing` that memory is refused by itself.
    """
    changing = {put.name for put in writes if put.sources or put.value is None}
    refused = {
        put.name: _CHANGING.format(key=source[1])
        for put in writes
        for source in put.sources
        if source in changing and source not in put.echoes
    }
    if refused and not sparing:
        raise InvalidInputError(next(iter(refused.values())))
    origins, there, new = yield from _read_locked(writes, lock, moment)
    kept: list[Write] = []
    for put in writes:
        if put.name in refused:
            continue
        try:
            settled = _settle(put, origins[put.name], changing) if put.sources else put
        except InvalidInputError as error:
            if not sparing:
                raise
            refused[put.name] = str(error)
            continue
        if (stands := there.get(put.name)) is not None:
            settled = _limit_to_stored(settled, stands)
            if (why_not := _refuse_replacing(settled, stands)) is not None:
                refused[put.name] = why_not
                continue
        kept.append(settled)
    crowding = [put for put in kept if put.capacities]
    evicted, full = (
        (yield from capacity.make_room(crowding, there, moment)) if crowding else ((), {})
    )
    written = [put for put in kept if put.name not in full]
    return AppliedWrites(written, {**refused, **full}, evicted, new=new)


def _read_locked(
    writes: Sequence[Write], lock: Sequence[Call], moment: Moment
) -> Flow[tuple[Mapping[tuple[Place, str], Sequence[OriginRow]], _StoredRows, bool]]:
    """Read the origins of the writes, the memories under their keys, and whether there are none."""
    pairs = [(put, source) for put in writes for source in put.sources]
    standing = Call("replaced_by_writes", {**keys_of(writes), "alive_at": moment.alive_at})
    calls = [standing]
    if pairs:
        named = {
            **keys_of([put for put, _ in pairs]),
            "source_namespaces": [place.namespace for _, (place, _) in pairs],
            "source_keys": [key for _, (_, key) in pairs],
            "alive_at": moment.alive_at,
        }
        calls = [Call("origins_of_writes", named), standing]
    *rows, replaced = (yield Query((*lock, *calls)))[len(lock) :]
    origins: dict[tuple[Place, str], list[OriginRow]] = {}
    for origin_rows in rows:
        for (put, _), row in zip(pairs, origin_rows, strict=True):
            origins.setdefault(put.name, []).append(OriginRow(*row))
    there: dict[tuple[Place, str], _StoredRow] = {}
    for tenant, namespace, key, *fields in replaced:
        if (stored_row := _StoredRow(*fields)).alive:
            there[Place(tenant, namespace), key] = stored_row
    return origins, there, not replaced


def _settle(
    put: Write, origins: Sequence[OriginRow], changing: Container[tuple[Place, str]]
) -> Write:
    """Limit a write to its origins, without repeated ones that it cannot be derived from.

    It is trusted no further than these either, as long as they are there.

    Raises:
        InvalidInputError: if an origin that it names is gone, or came from it.
    """
    had: list[tuple[Place, str]] = []
    there: list[OriginRow] = []
    for source, origin in zip(put.sources, origins, strict=True):
        repeated = source in put.echoes
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
            private = user_of(source[0]) not in (None, user_of(put.place))
            there.append(origin._replace(source=PRIVATE_ORIGIN) if private else origin)
    return replace(_limit_to_origins(put, there), sources=tuple(had))


def _limit_to_origins(put: Write, origins: Sequence[OriginRow]) -> Write:
    """Limit the trust of a write to its origins', and quarantine it if that is too low."""
    if not origins:
        return put
    least = min(origins, key=lambda each: each.trust)
    settled = cap_trust(put, derived_trust(put.trust, [least.trust]))
    if settled.held is not None:
        return settled
    held = next((each for each in origins if each.held), None)
    if held is not None:
        return replace(settled, held=f"derived: it came from {held.source}, which is quarantined")
    if settled.trust < put.threshold:
        reason = (
            f"trust: {settled.trust:g} is below {put.threshold:g}, as it came from {least.source}"
        )
        return replace(settled, held=reason)
    return settled


def cap_trust(put: Write, trust: float, **fields: object) -> Write:
    """Lower the trust of a put, in its value as well."""
    if trust >= put.trust or put.value is None:
        return put
    value = encode_value({**json.loads(put.value), "trust": trust, **fields})
    return replace(put, trust=trust, value=value)


def _limit_to_stored(put: Write, there: _StoredRow) -> Write:
    """Limit a write that repeats the stored memory to its trust and its quarantine."""
    if put.value is None or there.bound is None:
        return put
    same = content_of(json.loads(put.value)) == content_of(there.bound)
    if same:
        source = there.bound.get("source", Source.UNKNOWN)
        put = cap_trust(put, there.trust, source=source)
    if there.state != QUARANTINED or put.held or not (same or put.trust < TRUST_THRESHOLD):
        return put
    reasons = "; ".join(map(str, there.reasons or ()))
    return replace(put, held=reasons, repeats_held=True)


def _refuse_replacing(put: Write, there: _StoredRow) -> str | None:
    """Name the reason why a write may not replace a stored memory; None if it may."""
    if put.value is None or there.state == QUARANTINED:
        return None
    if put.held and there.state == "retracted":
        return (
            f"retracted: the memory {put.key!r} is retracted, and what is quarantined does not "
            f"replace it: store it under another key; {put.held}"
        )
    if put.held and (there.state is None or there.trust > put.trust):
        more = there.trust > put.trust
        stands = f"trusted more ({there.trust:g})" if more else "current"
        return (
            f"replaces: the memory {put.key!r} is {stands}, and what is quarantined does not "
            f"replace it; {put.held}"
        )
    if put.has_given_key and put.trust < OWN_EVIDENCE_TRUST and there.trust > put.trust:
        return (
            f"replaces: the memory {put.key!r} is trusted more ({there.trust:g}) than what would "
            f"replace it ({put.trust:g}): store it under another key"
        )
    return None


def _follow_up_calls(puts: Sequence[Write], now: datetime) -> Iterator[Call]:
    """Build the calls that record quarantine, lineage and due times of the puts.

    What is held is quarantined once a tenant, and what is intended is to be raised at its time.
    """
    if held := [put for put in puts if put.held and not put.repeats_held]:
        yield from _quarantine_calls(held, now)
    if derived := [put for put in puts if put.sources]:
        yield from derive_calls(derived, now)
    for put in puts:
        if put.intention is not None:
            place = {"tenant": put.place.tenant, "namespace": put.place.namespace, "key": put.key}
            yield Call("intend", {**put.intention, **place, "held": bool(put.held), "now": now})


def _quarantine_calls(held: Sequence[Write], now: datetime) -> Iterator[Call]:
    for tenant, mine in capacity.group_by_tenant(held):
        params = {
            "tenant": tenant,
            "namespaces": [put.place.namespace for put in mine],
            "keys": [put.key for put in mine],
            "reasons": [put.held for put in mine],
            "trusts": [put.trust for put in mine],
            "events": [str(uuid4()) for _ in mine],
            "now": now,
        }
        yield Call("quarantine", params)


def derive_calls(
    puts: Sequence[Write], now: datetime, event_of: Callable[[Write], str] = lambda _: str(uuid4())
) -> Iterator[Call]:
    """Build the calls that record lineage and suspect memories, once a tenant."""
    for tenant, mine in capacity.group_by_tenant(put for put in puts if put.sources):
        events = {put.name: event_of(put) for put in mine}
        pairs = [(put, place, key) for put in mine for place, key in put.sources]
        params = {
            **keys_of([put for put, _, _ in pairs]),
            "tenant": tenant,
            "source_namespaces": [place.namespace for _, place, _ in pairs],
            "source_keys": [key for _, _, key in pairs],
            "events": [events[put.name] for put, _, _ in pairs],
            "now": now,
        }
        yield Call("derive", params)
        yield Call("doubt", {"tenant": tenant, "ids": [], "events": [*events.values()]})
