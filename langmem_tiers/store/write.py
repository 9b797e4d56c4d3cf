"""Writes of memories: embeddings first, then everything in one transaction."""

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
"""The advisory locks that writers share: one lock a key would exhaust Postgres' lock table."""

LOCK = "\0promotions"
"""The key that all moves and all derivations of a tenant lock, so that they see each other."""

ROOM = "\0room"
"""The key that writes into a place of limited capacity lock."""

_CHUNK_BYTES = 8_000_000
"""The largest batch of puts, so that no parameter is too large for Postgres."""

_PUT = (
    *("values", "texts", "ttls", "into", "noted", "users"),
    *("sessions", "turns", "speakers", "occurred", "signatures", "tools", "valid_from", "valid_to"),
)
"""The parameters of "put" for each memory, besides its key."""

Twins = Literal["free", "stay", "go"]
"""The fate of the memories that were merged into a deleted one: current again, kept out of recall,
or deleted."""


class Capacity(NamedTuple):
    """The most memories that a place holds: of one type, or of any type in one tier."""

    most: int
    memory_type: str | None = None
    tier: Tier | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """A checked put (`value` is JSON) or deletion (`value` is None)."""

    place: Place
    key: str
    value: str | None
    texts: tuple[tuple[str, str], ...] = ()
    """The indexed fields: (field name, text)."""
    ttl: float | None = None
    """Minutes; None takes the tier's own life, infinity never expires."""
    tier: Tier = Tier.WORKING
    """The tier of a new memory."""
    lexical: str | None = None
    """The text to search by words, if it is not that of the indexed fields."""
    recall_fields: RecallFields = NO_RECALL_FIELDS
    sources: tuple[tuple[Place, str], ...] = ()
    """The memories from which it is derived."""
    echoes: tuple[tuple[Place, str], ...] = ()
    """The sources that it only repeats: nobody named them, and they may be gone."""
    trust: float = 1.0
    """The trust in it, in 0…1, as its value says."""
    threshold: float = TRUST_THRESHOLD
    """The trust below which it is quarantined, as its sources may lower its trust."""
    held: str | None = None
    """The reason of its quarantine; None if it is not quarantined."""
    repeats_held: bool = False
    """True if it is quarantined because it repeats a quarantined memory under its key."""
    capacities: tuple[Capacity, ...] = ()
    """The capacities of its place, if it has any."""
    repeated: tuple[tuple[Place, str], ...] = ()
    """Memories that are not evicted for it: they were repeated with it, so not stored again."""
    has_given_key: bool = False
    """True if the caller gave its key, so that it may replace another memory."""
    twins: Twins = "free"
    """For a deletion, the fate of the memories merged into it. If the caller wants the content
    gone, they go too, or stay out of recall; else they are current again."""
    until_session_end: bool = False
    """True if its type belongs into short_term: it lives until the end of its session."""
    intention: Mapping[str, Any] | None = None
    """The parameters of the statement `intend` for a reminder; None for a memory that is none."""

    @property
    def name(self) -> tuple[Place, str]:
        """The unique name of the memory: place and key."""
        return self.place, self.key


def last_writes(writes: Iterable[Write]) -> list[Write]:
    """Keep one write a key: the last one, but a quarantined put gives way to one that is not."""
    last: dict[tuple[Place, str], Write] = {}
    for write in writes:
        there = last.get(write.name)
        if not (write.held and there is not None and there.value is not None and not there.held):
            last[write.name] = write
    return list(last.values())


class WriteBatch(NamedTuple):
    """The writes of one call, with their vectors and moment."""

    writes: Sequence[Write]
    vectors: Mapping[str, PackedVector | None]
    moment: Moment


def merge_batches(writings: Sequence[WriteBatch]) -> WriteBatch:
    """Merge the writes of several calls into one batch, with the last call's moment.

    A memory that one call deletes and a later one puts is deleted first, and so starts afresh.
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
    """Carry out puts and deletions, one a key, all or none.

    Their keys must be locked, or `lock` locks them. The calls `before` and `after` run in the same
    transaction. A put updates a memory where it lives; a new one goes to `tier`, else to working.
    With `new`, no memory exists under the keys, and they are locked.

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
    """Make the calls that delete memories, one for each fate of merged memories."""
    alike: dict[Twins, list[Write]] = {}
    for write in writes:
        if write.value is None:
            alike.setdefault(write.twins, []).append(write)
    for twins, deletions in sorted(alike.items()):
        yield from delete_calls(deletions, tiers, now, twins)


def move(
    place: Place, key: str, *, options: StoreOptions, moment: Moment, tier: Tier
) -> Flow[bool]:
    """Move a memory to another tier; False if it does not exist, or is already there."""
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
    """Make the call that locks the keys of writes, and the sessions whose turns they number."""
    keys = list(further)
    for write in writes:
        keys.append((*write.place, write.key))
        if write.recall_fields.session:
            keys.append((*write.place, f"\0{write.recall_fields.session}"))
        if write.sources:
            keys.append((write.place.tenant, "", LOCK))
            keys += [(*place, key) for place, key in write.sources]
        if write.capacities:
            keys.append((*write.place, ROOM))
    return lock_call(keys, options)


def lock_call(keys: Iterable[tuple[str, str, str]], options: StoreOptions) -> Call:
    """Make the call that locks keys: writers of the same (tenant, namespace, key) wait for it."""
    buckets = {zlib.crc32("\0".join(key).encode()) % LOCK_BUCKETS for key in keys}
    lock = zlib.crc32(options.schema("memory").encode()) - 2**31
    return Call("lock_keys", {"lock": lock, "buckets": sorted(buckets)})


def embed_writes(
    writes: Sequence[Write], options: StoreOptions
) -> Flow[Mapping[str, PackedVector | None]]:
    """Embed each distinct text that is not blank."""
    texts = [text for write in writes for _, text in write.texts]
    return embed_texts(texts, options, "documents")


def columns(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> dict[str, list[Any]]:
    """Turn rows into parameters: a list for each name, from that column of the rows."""
    turned = [*map(list, zip(*rows, strict=True))] or [[] for _ in names]
    return dict(zip(names, turned, strict=True))


def keys_of(writes: Sequence[Write]) -> dict[str, list[Any]]:
    """Return the parameters that name memories."""
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
    """Make the calls that store memories with their vectors; their keys must be locked.

    `new` memories replace none.
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
            life = (write.ttl, into, write.until_session_end)
            rows.append((write.value, words, *life, user, *write.recall_fields))
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
    """Make the call that deletes memories; none without writes."""
    if writes:
        wanted = {"tiers": [*map(str, tiers)], "twins": twins, "now": now}
        yield Call("delete", {**keys_of(writes), **wanted})


def delete_expired_calls(puts: Sequence[Write], expired_by: datetime) -> Iterator[Call]:
    """Make the call that deletes the expired ones of memories, so that no put revives them."""
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
    """Return the approximate number of characters that a put sends."""
    size = len(write.value or "")
    for _, text in write.texts:
        size += len(text)
    return size
