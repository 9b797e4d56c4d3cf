"""Writing memories: embed what is new, then everything in one transaction."""

from __future__ import annotations

import logging
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import chain
from typing import Any, Literal, NamedTuple
from uuid import uuid4

from langmem_tiers.core.config import StoreOptions, lexical_text
from langmem_tiers.core.errors import TierConflictError
from langmem_tiers.core.memory import TIERS, Moment, Tier
from langmem_tiers.core.namespaces import Place, decode, elsewhere
from langmem_tiers.core.values import NOTHING_TOLD, Told
from langmem_tiers.core.vectors import PackedVector, PackedVectors, pack_all
from langmem_tiers.postgres.flow import Call, Embed, Flow, Query, apart
from langmem_tiers.remember.admission import (
    QUARANTINED,
    Applied,
    admitted,
    awaiting_calls,
    keys_of,
    needs_admission,
    quarantine_calls,
)
from langmem_tiers.remember.room import Evicted, Room, evicted_calls
from langmem_tiers.remember.trust import THRESHOLD

LOCK_BUCKETS = 1024
"""Advisory locks that writers share; one lock a key would exhaust Postgres' lock table."""

LOCK = "\0promotions"
"""The key that all moves of a tenant lock, and all that is derived: they must see each other."""

ROOM = "\0room"
"""The key that those lock who come into a place that holds only so many."""

_CHUNK_BYTES = 8_000_000
_log = logging.getLogger(__name__)

Twins = Literal["free", "stay", "go"]
"""What becomes of what lives on in a memory that is deleted, or was merged with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """One put (`value` is JSON) or deletion (`value` is None), checked and ready."""

    place: Place
    key: str
    value: str | None
    texts: tuple[tuple[str, str], ...] = ()
    """The indexed fields: (field name, text)."""
    ttl: float | None = None
    """Minutes; None takes the tier's own, infinity never expires."""
    tier: Tier = Tier.WORKING
    """Where it goes if it is new."""
    lexical: str | None = None
    """The text of the lexical leg, if it is not that of the indexed fields."""
    told: Told = NOTHING_TOLD
    sources: tuple[tuple[Place, str], ...] = ()
    """The memories that it is derived from."""
    echoes: tuple[tuple[Place, str], ...] = ()
    """Those of them that it only repeats: nobody named them, and it goes without what is gone."""
    trust: float = 1.0
    """How far it is trusted, in 0…1, as its value says."""
    threshold: float = THRESHOLD
    """Below this trust it is quarantined, should what it is derived from be trusted less."""
    held: str | None = None
    """Why it is quarantined; None if it is not."""
    stays: bool = False
    """Whether it is quarantined for what stands under its key already, and says the same."""
    rooms: tuple[Room, ...] = ()
    """How many memories its place holds, if that is bounded."""
    spares: tuple[tuple[Place, str], ...] = ()
    """What does not make room for it: what was told again with it, and is not stored twice."""
    awaits_review: bool = False
    """Whether models are to review it once it is stored."""
    named: bool = False
    """Whether somebody gave its key, so that it may replace a memory that is not its own."""
    twins: Twins = "free"
    """Of a deletion: what becomes of what was merged with it, or promoted to it. If somebody wants
    the memory gone, it goes along, or stays out of recall; else it is current again."""
    reach: tuple[str, ...] = ()
    """Of such a deletion: the prefix of the project that it is made in. What was promoted from
    another one is that one's."""
    notes: Place | None = None
    """Where its session has its notes, which live on with each write of the session."""
    noted: bool = False
    """Whether it is such a note: its type belongs into short_term."""

    @property
    def state(self) -> str | None:
        """The state that it is stored in: `quarantined`, or None for what is current."""
        return None if self.held is None else QUARANTINED


def last_writes(writes: Iterable[Write]) -> list[Write]:
    """One write a key: the last of a batch wins."""
    return list({(one.place, one.key): one for one in writes}.values())


class Writing(NamedTuple):
    """What the writes of one call need, beside each other's."""

    writes: Sequence[Write]
    vectors: Mapping[str, PackedVector | None]
    moment: Moment


def merged(several: Sequence[Writing]) -> Writing:
    """The writes of several calls as those of one; the last call's moment holds.

    What one call deletes and a later one puts is deleted first, and so begins anew.
    """
    if len(several) == 1:
        return several[0]
    last: dict[tuple[Place, str], Write] = {}
    deleted: dict[tuple[Place, str], Write] = {}
    for write in (write for one in several for write in one.writes):
        place = (write.place, write.key)
        earlier = last.get(place)
        if earlier is not None and earlier.value is None:
            deleted[place] = earlier
        last[place] = write
    vectors = {text: vector for one in several for text, vector in one.vectors.items()}
    writes = [*deleted.values(), *last.values()]
    return Writing(writes, vectors, max(one.moment for one in several))


def apply(
    writing: Writing,
    *,
    options: StoreOptions,
    tier: Tier | None,
    locked: bool = False,
    further: Callable[[Applied], Sequence[Call]] = lambda _: (),
) -> Flow[Applied]:
    """Apply puts and deletions, one a key, all or none; `locked` if their keys are already.

    The calls that are to be made `further` of what was written follow in the same transaction. What
    is quarantined and would replace a memory that is trusted more is left out: the answer says what
    was written and what was refused.

    A put updates a memory where it lives; a new one goes to `tier`, else to working.

    Raises:
        TierConflictError: if `tier` is given and a key lives in another one.
        InvalidInputError: if what a memory is said to be derived from is gone by now, or came
            from it.
    """
    writes = writing.writes
    lock = () if locked else (lock_writes(writes, options),)
    applied = Applied(writes)
    if needs_admission(writes):
        applied = yield from admitted(writes, lock, writing.moment)
        lock = ()
    writing = writing._replace(writes=applied.writes)
    yield from carry_out(
        writing,
        applied.evicted,
        options=options,
        tier=tier,
        lock=lock,
        further=further(applied),
    )
    return applied


def carry_out(
    writing: Writing,
    evicted: Sequence[Evicted],
    *,
    options: StoreOptions,
    tier: Tier | None = None,
    lock: Sequence[Call] = (),
    further: Sequence[Call] = (),
) -> Flow[None]:
    """Carry out writes that were admitted, after `lock` if that is not held, with `further` calls.

    Raises:
        TierConflictError: if `tier` is given and a key lives in another one.
    """
    writes, vectors, moment = writing
    puts = [one for one in writes if one.value is not None]
    deletions = [one for one in writes if one.value is None]
    leaving = [Write(place=one.memory.place, key=one.memory.key, value=None) for one in evicted]
    tiers = [tier] if tier else TIERS
    calls = [
        *evicted_calls(evicted, moment.now),
        *delete_calls(leaving, TIERS),
        *chain.from_iterable(
            delete_calls(
                [one for one in deletions if (one.twins, one.reach) == (twins, reach)],
                tiers,
                moment.now,
                twins,
                reach,
            )
            for twins, reach in sorted({(one.twins, one.reach) for one in deletions})
        ),
        *(delete_expired_calls(puts, moment.now) if moment.omit_expired else ()),
        *put_calls(puts, vectors, options, moment.now, tier),
        *quarantine_calls(puts, moment.now),
        *awaiting_calls(puts),
        *_derive_calls(puts, moment.now),
        *further,
        *_renewal_calls(puts, options, moment.now),
    ]
    if tier is not None and puts:
        *_, conflicts = yield Query((*lock, _conflicts_call(puts, tier, moment)))
        if conflicts:
            raise _conflict(conflicts[0], tier)
        yield Query(tuple(calls), commit=True)
    else:
        yield Query((*lock, *calls), commit=True)


def move(
    place: Place, key: str, *, options: StoreOptions, moment: Moment, tier: Tier
) -> Flow[bool]:
    """Move a memory to another tier; False if it is not there, or there already."""
    params = {
        "tenant": place.tenant,
        "namespace": place.namespace,
        "key": key,
        "tier": tier.value,
        "ttl": options.tier_ttl.get(tier),
        "now": moment.now,
        "alive_at": moment.alive_at,
    }
    answers = yield Query((lock_call([(*place, key)], options), Call("move", params)), commit=True)
    return bool(answers[1][0][0])


def sweep(*, now: datetime) -> Flow[int]:
    """Remove expired memories in small batches, each its own transaction; the count.

    The log says how many of them nobody had read.
    """
    total = unread = 0
    while True:
        ((row,),) = yield Query((Call("sweep", {"now": now}),), commit=True)
        removed: int = row[0]
        total, unread = total + removed, unread + row[1]
        if not removed:
            break
    if unread:
        _log.info("%d memories expired and were removed; nobody had read %d of them", total, unread)
    return total


def lock_writes(
    writes: Sequence[Write], options: StoreOptions, further: Iterable[tuple[str, str, str]] = ()
) -> Call:
    """The call that locks the keys of these writes, and the sessions whose turns they number."""
    keys = [(*one.place, one.key) for one in writes]
    sessions = [(*one.place, f"\0{one.told.session}") for one in writes if one.told.session]
    moves = [(one.place.tenant, "", LOCK) for one in writes if one.sources]
    sources = [(*place, key) for one in writes for place, key in one.sources]
    rooms = [(*one.place, ROOM) for one in writes if one.rooms]
    return lock_call([*keys, *sessions, *moves, *sources, *rooms, *further], options)


def lock_call(keys: Iterable[tuple[str, str, str]], options: StoreOptions) -> Call:
    """The call that makes writers of the same (tenant, namespace, key) wait for each other."""
    buckets = {zlib.crc32("\0".join(key).encode()) % LOCK_BUCKETS for key in keys}
    lock = zlib.crc32(options.schema("memory").encode()) - 2**31
    return Call("lock_keys", {"lock": lock, "buckets": sorted(buckets)})


def embed(
    writes: Sequence[Write], options: StoreOptions
) -> Flow[Mapping[str, PackedVector | None]]:
    """A vector for each distinct text that has one; blank texts have none."""
    if options.index is None or options.index.vector is None:
        return {}
    distinct = tuple(dict.fromkeys(text for one in writes for _, text in one.texts if text.strip()))
    if not distinct:
        return {}
    vectors = yield Embed(distinct, "documents")
    pack = partial(pack_all, vectors, len(distinct), options.index.vector)
    packed = yield from apart(pack, len(distinct) * options.index.vector.dims)
    return dict(zip(distinct, packed, strict=True))


def put_calls(
    puts: Sequence[Write],
    vectors: Mapping[str, PackedVector | None],
    options: StoreOptions,
    now: datetime,
    tier: Tier | None,
) -> Iterator[Call]:
    """The calls that store these, each with its vectors; their keys must be locked."""
    language = options.index.language if options.index else "simple"
    for chunk in _chunks(puts):
        yield Call(
            "put",
            {
                **keys_of(chunk),
                "values": [one.value for one in chunk],
                "texts": [lexical_text(_words(one)) for one in chunk],
                "ttls": [one.ttl for one in chunk],
                "sessions": [one.told.session for one in chunk],
                "turns": [one.told.turn for one in chunk],
                "speakers": [one.told.speaker for one in chunk],
                "occurred": [one.told.occurred_at for one in chunk],
                "signatures": [one.told.signature for one in chunk],
                "tools": [one.told.tool for one in chunk],
                "valid_from": [one.told.valid_from for one in chunk],
                "valid_to": [one.told.valid_to for one in chunk],
                "tiers": [each.value for each in TIERS],
                "tier_ttls": [options.tier_ttl.get(each) for each in TIERS],
                "noted": [one.noted and one.notes is not None for one in chunk],
                "session_ttl": options.session_ttl,
                "into": [(tier or one.tier).value for one in chunk],
                "language": language,
                "threshold": THRESHOLD,
                "now": now,
            },
        )
        yield Call("delete_vectors", keys_of(chunk))
        rows = [(one, field, vectors.get(text)) for one in chunk for field, text in one.texts]
        embedded = [(one, field, vector) for one, field, vector in rows if vector is not None]
        if embedded:
            yield _vectors_call(embedded)


def _renewal_calls(puts: Sequence[Write], options: StoreOptions, now: datetime) -> Iterator[Call]:
    """The call that begins the lives of what these sessions noted again."""
    written = {(*one.notes, one.told.session) for one in puts if one.notes is not None}
    if written and options.session_ttl is not None:
        tenants, namespaces, sessions = zip(*sorted(written), strict=True)
        names = {"tenants": [*tenants], "namespaces": [*namespaces], "sessions": [*sessions]}
        yield Call("renew_sessions", {**names, "minutes": options.session_ttl, "now": now})


def _derive_calls(puts: Sequence[Write], now: datetime) -> Iterator[Call]:
    """The calls that say what was derived from what, and whether it is suspect; once a tenant."""
    derived = [one for one in puts if one.sources]
    for tenant in sorted({one.place.tenant for one in derived}):
        mine = [one for one in derived if one.place.tenant == tenant]
        events = {(one.place, one.key): str(uuid4()) for one in mine}
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


def _words(one: Write) -> str:
    return "\n".join(text for _, text in one.texts) if one.lexical is None else one.lexical


def _vectors_call(rows: Sequence[tuple[Write, str, PackedVector]]) -> Call:
    params: dict[str, Any] = {
        **keys_of([one for one, _, _ in rows]),
        "fields": [field for _, field, _ in rows],
        "embeddings": PackedVectors(vector for _, _, vector in rows),
    }
    return Call("put_vectors", params)


def delete_calls(
    writes: Sequence[Write],
    tiers: Sequence[Tier],
    now: datetime | None = None,
    twins: Twins = "free",
    reach: Sequence[str] = (),
) -> Iterator[Call]:
    """The call that removes memories."""
    if writes:
        wanted = {"twins": twins, "now": now, **elsewhere(reach)}
        yield Call("delete", {**keys_of(writes), **_of_tiers(tiers), **wanted})


def delete_expired_calls(puts: Sequence[Write], expired_by: datetime) -> Iterator[Call]:
    """The call that removes those of them that are dead: no put revives them."""
    if puts:
        yield Call(
            "delete_expired", {**keys_of(puts), **_of_tiers(TIERS), "expired_by": expired_by}
        )


def _of_tiers(tiers: Sequence[Tier]) -> dict[str, list[str]]:
    return {"tiers": [tier.value for tier in tiers]}


def _conflicts_call(puts: Sequence[Write], tier: Tier, moment: Moment) -> Call:
    return Call("conflicts", {**keys_of(puts), "tier": tier.value, "alive_at": moment.alive_at})


def _conflict(row: tuple[Any, ...], tier: Tier) -> TierConflictError:
    tenant, namespace, key, lives_in = row
    return TierConflictError(
        f"{key!r} in {decode(tenant, namespace)} lives in {lives_in}, not in {tier.value}: put "
        "it through the store itself, which updates it where it lives, or move it first with "
        "store.move(namespace, key, tier)"
    )


def _chunks(puts: Sequence[Write]) -> Iterator[list[Write]]:
    """Split a large batch so that no parameter outgrows what Postgres takes."""
    chunk: list[Write] = []
    size = 0
    for one in puts:
        if chunk and size > _CHUNK_BYTES:
            yield chunk
            chunk, size = [], 0
        chunk.append(one)
        size += len(one.value or "") + sum(len(text) for _, text in one.texts)
    if chunk:
        yield chunk
