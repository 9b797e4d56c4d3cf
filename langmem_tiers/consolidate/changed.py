"""What merging and superseding look at: what changed, and what is near to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from itertools import groupby
from typing import NamedTuple

from langmem_tiers.consolidate.items import Item
from langmem_tiers.consolidate.lease import check_guard, guard
from langmem_tiers.consolidate.steps import Cycle
from langmem_tiers.consolidate.stored import Stored, read
from langmem_tiers.core.values import content_of, trust_of
from langmem_tiers.postgres.flow import Call, Flow, Query, anew

NEAREST = 20
"""Neighbours of each memory that are looked at, by vectors and by words. What says the same has
been seen at a cosine of 0.5, and what does not at 0.85: the words decide, so there is no floor."""
OVERLAP = 0.2
"""The share of words in common that two memories need to be looked at for their words."""
LOOKED_AT = 400
"""Memories that share a word with one that changed, by its rarest words first: so many are looked
at. With half as many a few are missed in homes of 20,000, and none in homes of 2,000."""
EXACT = 1_000
"""Vectors of a home in a tier up to which the nearest are sought: 2 µs each for every memory that
changed. Where rules decide, they find nothing among more of them that words do not."""
GRACE = timedelta(minutes=1)
"""How long a write may take from its beginning, which dates it, to its commit. What changed that
shortly before a cycle is looked at by the next one as well."""


class Group(NamedTuple):
    """What can say the same, or contradict each other: memories of one home and type."""

    memories: Mapping[int, Stored]
    near: Mapping[tuple[int, int], float]

    def items(self) -> list[Item]:
        """The memories as the rules read them."""
        return [_item(one) for one in self.memories.values()]

    @property
    def characters(self) -> int:
        """How much is to be read to judge them."""
        return sum(len(content_of(one.value)) for one in self.memories.values())


def select(
    cycle: Cycle, step: str, after: int, limit: int, memory_types: Sequence[str] | None = None
) -> Flow[list[int]]:
    """What changed since a step last saw everything."""
    params = {
        "tenant": cycle.tenant,
        "step": step,
        "after": after,
        "limit": limit,
        "now": cycle.moment.now,
        "alive_at": cycle.moment.alive_at,
        "memory_types": None if memory_types is None else list(memory_types),
    }
    (rows,) = yield Query((Call("select_changed", params),), commit=True)
    return [row[0] for row in rows]


def note_seen(cycle: Cycle, step: str) -> Flow[None]:
    """Everything that was there at the cycle's moment has been looked at.

    Raises:
        LeaseLostError: if somebody else consolidates the tenant.
    """
    return anew(lambda: _note_seen(cycle, step))


def _note_seen(cycle: Cycle, step: str) -> Flow[None]:
    (guarded,) = yield Query((guard(cycle),))
    check_guard(guarded, cycle.tenant)
    params = {"tenant": cycle.tenant, "step": step, "seen": cycle.moment.now - GRACE}
    yield Query((Call("note_seen", params),), commit=True)


def groups(
    cycle: Cycle,
    ids: Sequence[int],
    *,
    same_tier: bool,
    also: str | None = None,
    cosines: bool = False,
) -> Flow[list[Group]]:
    """These memories and their neighbours, apart by what can be compared.

    Neighbours are current; with `also`, those in that state that share words are looked at as well.
    With `cosines`, that of each two neighbours is known, and the nearest are sought among as many
    as a search does.
    """
    pairs = yield from _near(cycle, ids, same_tier=same_tier, also=also, cosines=cosines)
    found = yield from read(cycle, {*ids, *(other for _, other in pairs)})
    seen = [one for one in found if one.state is None or one.state == also]

    def apart(one: Stored) -> tuple[str, str, str]:
        return (one.home, one.memory_type, one.tier if same_tier else "")

    made = []
    for _, several in groupby(sorted(seen, key=lambda one: (apart(one), one.id)), apart):
        memories = {one.id: one for one in several}
        near = {
            pair: cosine
            for pair, cosine in pairs.items()
            if cosine is not None and memories.keys() >= set(pair)
        }
        made.append(Group(memories, near))
    return made


def _near(
    cycle: Cycle, ids: Sequence[int], *, same_tier: bool, also: str | None, cosines: bool
) -> Flow[dict[tuple[int, int], float | None]]:
    """Pairs of these and their neighbours, with their cosine; None where it is not known."""
    index = cycle.options.index
    if index is None:
        return {}
    params = {
        "tenant": cycle.tenant,
        "ids": sorted(ids),
        "alive_at": cycle.moment.alive_at,
        "same_tier": same_tier,
        "also": also,
        "limit": NEAREST,
        "overlap": OVERLAP,
        "looked_at": LOOKED_AT,
        "exact": cycle.options.exact_limit if cosines else EXACT,
    }
    by_words = Call("near_by_words", params)
    if index.vector is None:
        (rows,) = yield Query((by_words,), commit=True)
        return {(row[0], row[1]): row[2] for row in rows}
    by_vector = Call("near_by_vector", params | {"also": None})
    rows, near = yield Query((by_words, by_vector), commit=True)
    if cosines and rows:
        pairs = {"ids": [row[0] for row in rows], "others": [row[1] for row in rows]}
        (known,) = yield Query((Call("cosines", {**pairs, "tenant": cycle.tenant}),), commit=True)
        near = [*near, *known]
    return {(row[0], row[1]): None for row in rows} | {(row[0], row[1]): row[2] for row in near}


def _item(one: Stored) -> Item:
    speaker = one.value.get("speaker")
    return Item(
        id=one.id,
        created_at=one.created_at,
        content=content_of(one.value),
        memory_type=one.memory_type,
        speaker=speaker if isinstance(speaker, str) else None,
        namespace=one.namespace,
        occurred_at=one.occurred_at,
        valid_from=one.valid_from,
        trust=trust_of(one.value),
        session=one.session,
    )
