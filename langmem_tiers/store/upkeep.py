"""What keeps a growing store fast: HNSW indexes, and estimates of what large tenants hold."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from langmem_tiers.core.config import StoreOptions
from langmem_tiers.core.errors import DatabaseError
from langmem_tiers.core.memory import Tier
from langmem_tiers.postgres import migrate
from langmem_tiers.postgres.flow import Call, Flow, Query

_log = logging.getLogger(__name__)

_MANY: Final = 10_000
"""Vectors of a tier up to which exact search is fast enough for an index to wait for `optimize`."""
_GROWN: Final = 1.25
"""How much a tier grows before it is looked again whether an index would pay: our own choice."""
_STORED, _SHARE = 1_000, 0.01
"""Memories, and what part of all, that are stored before tenants are counted anew: our own choice.
To count takes as long as to store a hundredth of them does."""


class Upkeep:
    """Does what pays as a store grows, while nobody waits for it."""

    def __init__(self, options: StoreOptions) -> None:
        """Hold the options."""
        self._options = options
        self._seen = 0
        """Vectors without an HNSW index when it was last asked whether one would pay."""

    def due(self, state: migrate.State) -> list[Callable[[], Flow[bool]]]:
        """What pays now; each answers whether the state is to be read again."""
        todo = []
        if state.stored > max(_STORED, _SHARE * state.counted):
            todo.append(self._count)
        if state.unindexed > max(self._seen * _GROWN, self._options.exact_limit, _MANY):
            self._seen = state.unindexed
            todo.append(self._index)
        return todo

    def _index(self) -> Flow[bool]:
        try:
            built = yield from migrate.build_ann_indexes(self._options)
        except DatabaseError as error:
            _log.warning("no HNSW index was built, searches stay exact: %s", error)
            self._seen = 0
            return False
        if built:
            self._seen = 0  # another tier may be next
        return bool(built)

    def _count(self) -> Flow[bool]:
        try:
            yield from count_tenants(self._options)
        except DatabaseError as error:
            _log.warning("large tenants were not counted, recall in them takes longer: %s", error)
        return False


def optimize(options: StoreOptions) -> Flow[tuple[Tier, ...]]:
    """Tidy up, count large tenants, and build HNSW indexes where they pay; the tiers built."""
    yield Query((migrate.NO_HURRY, Call("purge_usage", {})), commit=True)
    yield from count_tenants(options)
    return (yield from migrate.build_ann_indexes(options))


def count_tenants(options: StoreOptions) -> Flow[None]:
    """Count what those large tenants hold that have changed most since they were counted."""
    _, rows = yield Query((migrate.NO_HURRY, Call("tenants_to_count", {})), commit=True)
    for (tenant,) in rows:
        params = {"tenant": tenant, "exact_limit": options.exact_limit}
        yield Query((migrate.NO_HURRY, Call("count_tenant", params)), commit=True)
