"""Removing what is over: a statement for each kind of row, in small batches."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from langmem_tiers.core.config import StoreOptions
from langmem_tiers.core.memory import TIERS
from langmem_tiers.postgres.flow import Call, Flow, Query

OUTCOME_WITHIN: Final = timedelta(days=30)
"""How long a run may take until its outcome is recorded: our own choice. What it was shown is then
forgotten, unless that is the only evidence of a project."""

INTENTION_KEPT: Final = timedelta(days=30)
"""How long an intention that is over is still listed: our own choice."""

_log = logging.getLogger(__name__)


def sweep(now: datetime, options: StoreOptions) -> Flow[int]:
    """Remove what is over, each batch a transaction of its own; how many memories were.

    The log says how many of them nobody had read.
    """
    for call in _over(now, options):
        yield from _batches(call)
    total, unread = yield from _batches(Call("sweep", {"now": now}))
    if unread:
        _log.info("%d memories expired and were removed; nobody had read %d of them", total, unread)
    return total


def _over(now: datetime, options: StoreOptions) -> Iterator[Call]:
    """What is over beside memories: exposures, states, traces of turns and intentions."""
    yield Call("forget_exposures", {"before": now - OUTCOME_WITHIN})
    yield Call("sweep_states", {"now": now})
    if options.trace_days is not None:
        traced = {"before": now - timedelta(days=options.trace_days)}
        yield Call("sweep_turns", traced)
        yield Call("sweep_gone", traced)
    yield Call("expire_intentions", {"now": now})
    lives = [options.tier_ttl.get(tier) for tier in TIERS]
    tiers = {"tiers": [tier.value for tier in TIERS], "tier_ttls": lives}
    yield Call("retire_intentions", {"now": now, "before": now - INTENTION_KEPT, **tiers})


def _batches(call: Call) -> Flow[tuple[int, int]]:
    """Make a call until it removes nothing; what it removed, and what of that nobody had read."""
    total = unread = 0
    while True:
        ((row,),) = yield Query((call,), commit=True)
        total += row[0]
        unread += row[1] if len(row) > 1 else 0
        if not row[0]:
            return total, unread
