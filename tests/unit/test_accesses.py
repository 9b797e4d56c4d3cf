"""Counts of reads wait in memory until they are written, and are kept if they cannot be."""

from __future__ import annotations

import logging
from datetime import UTC, datetime

import pytest

from langmem_tiers.core.config import StoreOptions
from langmem_tiers.core.errors import DatabaseError
from langmem_tiers.postgres.flow import Flow, Query
from langmem_tiers.store import accesses
from langmem_tiers.store.accesses import AccessBuffer
from langmem_tiers.store.flows import StoreFlows
from langmem_tiers.store.read import Found

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def found(number: int) -> Found:
    return Found("acme", "notes.", str(number), {}, NOON, NOON, "working", None, None, number)


def buffer_of(*numbers: int) -> AccessBuffer:
    made = AccessBuffer()
    for number in numbers:
        made.add([found(number)], NOON)
    return made


def test_a_refusal_is_logged_once_and_followed_by_rest_and_a_bound(
    caplog: pytest.LogCaptureFixture,
) -> None:
    buffer = buffer_of(*range(accesses.FLUSH_ENTRIES))
    with caplog.at_level(logging.WARNING):
        buffer.rest(DatabaseError("read-only"))
        buffer.rest(DatabaseError("read-only"))
    assert caplog.text.count("cannot be written: read-only") == 1
    assert not buffer.due
    for number in range(2 * accesses.KEPT_ENTRIES):
        buffer.add([found(number)], NOON)
    taken = buffer.take()
    assert taken is not None
    assert len(taken.counts) == accesses.KEPT_ENTRIES
    assert taken.counts["acme", 0] == 2
    buffer.give_back(taken)
    buffer.wrote()
    assert buffer.due


def test_counts_of_a_flow_that_was_abandoned_are_kept() -> None:
    flows = StoreFlows(StoreOptions(), clock=lambda: NOON, ttl=lambda: None)
    flows._accesses.add([found(1)], NOON)
    for end in (lambda flow: flow.close(), lambda flow: failing(flow, DatabaseError("refused"))):
        flushing = flows.flush()
        assert isinstance(next(flushing), Query)
        end(flushing)
    assert flows._accesses.take() == ({("acme", 1): 1}, NOON)


def failing(flow: Flow[None], error: DatabaseError) -> None:
    with pytest.raises(DatabaseError, match="refused"):
        flow.throw(error)
