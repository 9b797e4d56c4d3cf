"""The year that consolidation is proven on."""

from __future__ import annotations

from itertools import pairwise

from benchmarks.year import END, START, Year

MEMORIES, TENANTS = 1_500, 6
YEAR = Year(3, MEMORIES, TENANTS)


def test_events_come_in_order_and_everything_is_stored_before_it_is_read() -> None:
    events = list(YEAR.events())
    assert all(one.at < other.at for one, other in pairwise(events))
    assert events[0].at >= START
    assert events[-1].at < END
    stored: set[str] = set()
    for one in events:
        if one.kind == "store":
            assert one.key not in stored
            stored.add(one.key)
        assert one.kind == "session_end" or one.key in stored
    assert len(stored) == MEMORIES


def test_the_truth_is_about_what_is_stored_in_one_namespace() -> None:
    stored = {one.key: one for one in YEAR.events() if one.kind == "store"}
    truth = YEAR.truth
    assert truth.family.keys() == stored.keys()
    for later, first in truth.duplicates.items():
        one, other = stored[first], stored[later]
        assert (one.tenant, one.project) == (other.tenant, other.project)
        assert one.at < other.at
        assert first not in truth.duplicates
    for older, newer in truth.contradictions.items():
        assert stored[older].at < stored[newer].at
    notes = {one.key for one in stored.values() if one.tier == "short_term"}
    assert truth.rising.keys() | truth.expiring == notes
    assert truth.rising.keys().isdisjoint(truth.expiring)
