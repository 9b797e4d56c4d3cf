"""Upkeep of a growing store: sweeps, HNSW indexes, and estimates of large tenants."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Final

from langmem_tiers.core.config import StoreOptions
from langmem_tiers.core.errors import DatabaseError
from langmem_tiers.core.memory import TIERS, Tier
from langmem_tiers.core.settings import RISE_ACCESSES, RISE_IMPORTANCE
from langmem_tiers.postgres import migrate
from langmem_tiers.postgres.flow import Call, Flow, Query

_log = logging.getLogger(__name__)

_MANY_VECTORS: Final = 10_000
"""The vectors of a tier up to which exact search is so fast that an index waits for `optimize`."""
_GROWTH: Final = 1.25
"""The growth of a tier after which we check again if an index would pay: our own choice."""
_STORED, _SHARE = 1_000, 0.01
"""The memories, and their share of all, that are stored before tenants are counted again: our own
choice. To count takes as long as to store a hundredth of them."""


OUTCOME_WITHIN: Final = timedelta(days=30)
"""The time in which a run's outcome must be recorded: our own choice. Then its exposures are
forgotten, unless they are the only evidence of a project."""

INTENTION_KEPT: Final = timedelta(days=30)
"""The time for which an ended intention is still listed: our own choice."""


CYCLE_AWAITED: Final = timedelta(days=30)
"""The time that an expired memory waits for a cycle that would lift it: our own choice."""


class Upkeep:
    """The background work that a growing store needs."""

    def __init__(self, options: StoreOptions) -> None:
        """Hold the options."""
        self._options = options
        self._checked_size = 0
        """The number of vectors without an HNSW index at the last check."""

    def due(self, state: migrate.IndexState) -> list[Callable[[], Flow[bool]]]:
        """Return the work that pays now; each returns True if the state must be read again."""
        todo = []
        if state.stored_since_count > max(_STORED, _SHARE * state.stored_at_count):
            todo.append(self._count)
        if state.unindexed > max(
            self._checked_size * _GROWTH, self._options.exact_limit, _MANY_VECTORS
        ):
            self._checked_size = state.unindexed
            todo.append(self._index)
        return todo

    def _index(self) -> Flow[bool]:
        try:
            built = yield from migrate.build_ann_indexes(self._options)
        except DatabaseError as error:
            _log.warning("no HNSW index was built, searches stay exact: %s", error)
            self._checked_size = 0
            return False
        if built:
            self._checked_size = 0  # another tier may be next
        return bool(built)

    def _count(self) -> Flow[bool]:
        try:
            yield from count_tenants(self._options)
        except DatabaseError as error:
            _log.warning("large tenants were not counted, recall in them takes longer: %s", error)
        return False


def optimize(options: StoreOptions, *, build: bool = True) -> Flow[tuple[Tier, ...]]:
    """Tidy up, count large tenants, and build HNSW indexes where they pay; return those tiers.

    Only the tables' owner may `build` indexes.
    """
    yield Query((migrate.NO_HURRY, Call("purge_usage", {})), commit=True)
    yield from count_tenants(options)
    return (yield from migrate.build_ann_indexes(options)) if build else ()


def count_tenants(options: StoreOptions) -> Flow[None]:
    """Count the memories of the large tenants that have changed most since the last count."""
    _, rows = yield Query((migrate.NO_HURRY, Call("tenants_to_count", {})), commit=True)
    for (tenant,) in rows:
        params = {"tenant": tenant, "exact_limit": options.exact_limit}
        yield Query((migrate.NO_HURRY, Call("count_tenant", params)), commit=True)


def sweep(now: datetime, options: StoreOptions) -> Flow[int]:
    """Remove expired rows, each batch in its own transaction; return the number of memories.

    The log says how many of them nobody had read.
    """
    for call in _sweep_calls(now, options):
        yield from _repeat_until_empty(call)
    total, unread = yield from _repeat_until_empty(sweep_memories_call(now, options))
    if unread:
        _log.info("%d memories expired and were removed; nobody had read %d of them", total, unread)
    return total


def sweep_memories_call(now: datetime, options: StoreOptions) -> Call:
    """Make the call that removes expired memories, except those that a cycle may still lift."""
    params = {
        "now": now,
        "life": options.tier_ttl.get(Tier.SHORT_TERM),
        "importance": RISE_IMPORTANCE,
        "accesses": RISE_ACCESSES,
        "since": now - CYCLE_AWAITED,
    }
    return Call("sweep", params)


def _sweep_calls(now: datetime, options: StoreOptions) -> Iterator[Call]:
    """Yield the calls that remove old exposures, states, traces, recalls and intentions."""
    yield Call("forget_exposures", {"before": now - OUTCOME_WITHIN})
    yield Call("sweep_states", {"now": now})
    if options.trace_days is not None:
        traced = {"before": now - timedelta(days=options.trace_days)}
        yield Call("sweep_turns", traced)
        yield Call("sweep_gone", traced)
    yield Call("sweep_recalls", {"now": now})
    yield Call("expire_intentions", {"now": now})
    lives = [options.tier_ttl.get(tier) for tier in TIERS]
    tiers = {"tiers": [tier.value for tier in TIERS], "tier_ttls": lives}
    yield Call("retire_intentions", {"now": now, "before": now - INTENTION_KEPT, **tiers})


def _repeat_until_empty(call: Call) -> Flow[tuple[int, int]]:
    """Repeat a call until it removes nothing; return how many it removed, and how many unread."""
    total = unread = 0
    while True:
        ((row,),) = yield Query((call,), commit=True)
        total += row[0]
        unread += row[1] if len(row) > 1 else 0
        if not row[0]:
            return total, unread
