"""Writing memories: embed what is new, then everything in one transaction."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple

from langmem_tiers.core.config import StoreOptions
from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.core.memory import TIERS, TRUST_THRESHOLD, Moment, Place, Tier, decode_namespace
from langmem_tiers.core.values import NO_RECALL_FIELDS, RecallFields, batches, lexical_text
from langmem_tiers.core.vectors import PackedVector, PackedVectors
from langmem_tiers.postgres.flow import Call, Flow, Query, embed_texts

LOCK_BUCKETS = 1024
"""Advisory locks that writers share; one lock a key would exhaust Postgres' lock table."""

LOCK = "\0promotions"
"""The key that all moves of a tenant lock, and all that is derived: they must see each other."""

ROOM = "\0room"
"""The key that those lock who come into a place that holds only so many."""

_CHUNK_BYTES = 8_000_000
"""A batch of puts stays at or below this, so that no parameter outgrows what Postgres takes."""

_PUT = (
    *("values", "texts", "ttls", "into", "noted", "users"),
    *("sessions", "turns", "speakers", "occurred", "signatures", "tools", "valid_from", "valid_to"),
)
"""What "put" takes of each memory, beside its key."""

Twins = Literal["free", "stay", "go"]
"""What becomes of what lives on in a memory that is deleted, or was merged with it."""


class Capacity(NamedTuple):
    """How many memories a place holds: of one type, or of any in one tier."""

    most: int
    memory_type: str | None = None
    tier: Tier | None = None


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
    told: RecallFields = NO_RECALL_FIELDS
    sources: tuple[tuple[Place, str], ...] = ()
    """The memories that it is derived from."""
    echoes: tuple[tuple[Place, str], ...] = ()
    """Those of them that it only repeats: nobody named them, and it goes without what is gone."""
    trust: float = 1.0
    """How far it is trusted, in 0…1, as its value says."""
    threshold: float = TRUST_THRESHOLD
    """Below this trust it is quarantined, should what it is derived from be trusted less."""
    held: str | None = None
    """Why it is quarantined; None if it is not."""
    stays: bool = False
    """Whether it is quarantined for what stands under its key already, and says the same."""
    rooms: tuple[Capacity, ...] = ()
    """How many memories its place holds, if that is bounded."""
    spares: tuple[tuple[Place, str], ...] = ()
    """What does not make room for it: what was told again with it, and is not stored twice."""
    named: bool = False
    """Whether somebody gave its key, so that it may replace a memory that is not its own."""
    twins: Twins = "free"
    """Of a deletion: what becomes of what was merged with it. If somebody wants the memory gone, it
    goes along, or stays out of recall; else it is current again."""
    noted: bool = False
    """Whether its type belongs into short_term: it lives until its session is ended."""
    intends: Mapping[str, Any] | None = None
    """When it is to be raised, as the statement `intend` takes it; None if nothing is intended."""

    @property
    def name(self) -> tuple[Place, str]:
        """What no other memory has: where it is, and its key there."""
        return self.place, self.key


def last_writes(writes: Iterable[Write]) -> list[Write]:
    """One write a key: the last of a batch wins; what is held gives way to a put that is not."""
    last: dict[tuple[Place, str], Write] = {}
    for write in writes:
        there = last.get(write.name)
        if not (write.held and there is not None and there.value is not None and not there.held):
            last[write.name] = write
    return list(last.values())


class WriteBatch(NamedTuple):
    """What the writes of one call need, beside each other's."""

    writes: Sequence[Write]
    vectors: Mapping[str, PackedVector | None]
    moment: Moment


def merge_batches(writings: Sequence[WriteBatch]) -> WriteBatch:
    """The writes of several calls as those of one; the last call's moment holds.

    What one call deletes and a later one puts is deleted first, and so begins anew.
    """
    if len(writings) == 1:
        return writings[0]
    last: dict[tuple[Place, str], Write] = {}
    deleted: dict[tuple[Place, str], Write] = {}
    for write in (write for writing in writings for write in writing.writes):
        place = write.name
        earlier = last.get(place)
        if earlier is not None and earlier.value is None:
            deleted[place] = earlier
        last[place] = write
    vectors = {text: vector for writing in writings for text, vector in writing.vectors.items()}
    writes = [*deleted.values(), *last.values()]
    return WriteBatch(writes, vectors, max(writing.moment for writing in writings))


def carry_out(
    writing: WriteBatch,
    *,
    options: StoreOptions,
    tier: Tier | None = None,
    lock: Sequence[Call] = (),
    new: bool = False,
    before: Iterable[Call] = (),
    after: Iterable[Call] = (),
) -> Flow[None]:
    """Carry out puts and deletions, one a key, all or none: their keys are locked, or `lock` does.

    What is to happen `before` and `after` them happens in the same transaction. A put updates a
    memory where it lives; a new one goes to `tier`, else to working. They are all `new` where
    nothing stands under the keys, which are locked.

    Raises:
        InvalidInputError (tier_conflict): if `tier` is given and a key lives in another one.
    """
    writes, vectors, moment = writing
    puts = [write for write in writes if write.value is not None]
    calls = list(before)
    if len(puts) < len(writes):
        calls += _deletion_calls(writes, [tier] if tier else TIERS, moment.now)
    if moment.omit_expired and not new:
        calls += delete_expired_calls(puts, moment.now)
    calls += (*put_calls(puts, vectors, options, moment.now, tier, new=new), *after)
    if tier is not None and puts:
        wanted = {**keys_of(puts), "tier": tier.value, "alive_at": moment.alive_at}
        *_, conflicts = yield Query((*lock, Call("conflicts", wanted)))
        if conflicts:
            raise _conflict_error(conflicts[0], tier)
        lock = ()
    yield Query((*lock, *calls), commit=True)


def _deletion_calls(
    writes: Sequence[Write], tiers: Sequence[Tier], now: datetime
) -> Iterator[Call]:
    """The calls that remove memories, those that take along the same kind of others together."""
    alike: dict[Twins, list[Write]] = {}
    for write in writes:
        if write.value is None:
            alike.setdefault(write.twins, []).append(write)
    for twins, deletions in sorted(alike.items()):
        yield from delete_calls(deletions, tiers, now, twins)


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


def lock_writes(
    writes: Sequence[Write], options: StoreOptions, further: Iterable[tuple[str, str, str]] = ()
) -> Call:
    """The call that locks the keys of these writes, and the sessions whose turns they number."""
    keys = list(further)
    for write in writes:
        keys.append((*write.place, write.key))
        if write.told.session:
            keys.append((*write.place, f"\0{write.told.session}"))
        if write.sources:
            keys.append((write.place.tenant, "", LOCK))
            keys += [(*place, key) for place, key in write.sources]
        if write.rooms:
            keys.append((*write.place, ROOM))
    return lock_call(keys, options)


def lock_call(keys: Iterable[tuple[str, str, str]], options: StoreOptions) -> Call:
    """The call that makes writers of the same (tenant, namespace, key) wait for each other."""
    buckets = {zlib.crc32("\0".join(key).encode()) % LOCK_BUCKETS for key in keys}
    lock = zlib.crc32(options.schema("memory").encode()) - 2**31
    return Call("lock_keys", {"lock": lock, "buckets": sorted(buckets)})


def embed_writes(
    writes: Sequence[Write], options: StoreOptions
) -> Flow[Mapping[str, PackedVector | None]]:
    """A vector for each distinct text that is not blank."""
    texts = [text for write in writes for _, text in write.texts]
    return embed_texts(texts, options, "documents")


def columns(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> dict[str, list[Any]]:
    """Rows as parameters: under each name what all have in its place."""
    turned = [*map(list, zip(*rows, strict=True))] or [[] for _ in names]
    return dict(zip(names, turned, strict=True))


def keys_of(writes: Sequence[Write]) -> dict[str, list[Any]]:
    """The parameters that name these memories."""
    return columns(
        ("tenants", "namespaces", "keys"), [(*write.place, write.key) for write in writes]
    )


def put_calls(
    puts: Sequence[Write],
    vectors: Mapping[str, PackedVector | None],
    options: StoreOptions,
    now: datetime,
    tier: Tier | None,
    *,
    new: bool = False,
) -> Iterator[Call]:
    """The calls that store these, each with its vectors; their keys must be locked.

    What is `new` has nothing to replace.
    """
    shared = {
        "tiers": [*map(str, TIERS)],
        "tier_ttls": [*map(options.tier_ttl.get, TIERS)],
        "language": options.index.language if options.index else "simple",
        "threshold": TRUST_THRESHOLD,
        "now": now,
    }
    for chunk in batches(puts, _put_size, _CHUNK_BYTES):
        rows, embedded = [], list[Write]()
        fields, packed = list[str](), PackedVectors()
        for write in chunk:
            indexed = []
            for field, text in write.texts:
                indexed.append(text)
                if (vector := vectors.get(text)) is not None:
                    embedded.append(write)
                    fields.append(field)
                    packed.append(vector)
            words = lexical_text("\n".join(indexed) if write.lexical is None else write.lexical)
            into, user = (tier or write.tier).value, options.user_of(write.place)
            rows.append((write.value, words, write.ttl, into, write.noted, user, *write.told))
        keys = keys_of(chunk)
        yield Call("put_new" if new else "put", {**keys, **columns(_PUT, rows), **shared})
        if not new:
            yield Call("delete_vectors", keys)
        if embedded:
            yield Call("put_vectors", {**keys_of(embedded), "fields": fields, "embeddings": packed})


def delete_calls(
    writes: Sequence[Write],
    tiers: Sequence[Tier],
    now: datetime | None = None,
    twins: Twins = "free",
) -> Iterator[Call]:
    """The call that removes memories."""
    if writes:
        wanted = {"tiers": [*map(str, tiers)], "twins": twins, "now": now}
        yield Call("delete", {**keys_of(writes), **wanted})


def delete_expired_calls(puts: Sequence[Write], expired_by: datetime) -> Iterator[Call]:
    """The call that removes those of them that are dead: no put revives them."""
    if puts:
        wanted = {"tiers": [*map(str, TIERS)], "expired_by": expired_by}
        yield Call("delete_expired", {**keys_of(puts), **wanted})


def _conflict_error(row: tuple[Any, ...], tier: Tier) -> InvalidInputError:
    tenant, namespace, key, lives_in = row
    return InvalidInputError(
        f"{key!r} in {decode_namespace(tenant, namespace)} lives in {lives_in}, not in "
        f"{tier.value}: put "
        "it through the store itself, which updates it where it lives, or move it first with "
        "store.move(namespace, key, tier)",
        code="tier_conflict",
    )


def _put_size(write: Write) -> int:
    """The characters that a put sends, about."""
    size = len(write.value or "")
    for _, text in write.texts:
        size += len(text)
    return size
