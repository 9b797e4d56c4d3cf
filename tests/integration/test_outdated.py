"""A memory that came from a superseded one is shown, and flagged as resting on it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from langmem_tiers import (
    ConsolidationReport,
    MemoryCoordinator,
    TieredStore,
    create_consolidation_graph,
)
from langmem_tiers.recall.prompt_text import recalled_text
from tests.support.coordinating import coordinator, keys
from tests.support.opening import Clock
from tests.support.sessions import there

TURIN, GENOA = (datetime(2026, month, 1, tzinfo=UTC) for month in (1, 2))


@pytest.fixture
def memory(store: TieredStore) -> MemoryCoordinator:
    """Give memories of an office that moved, and conclusions from its old place."""
    made = coordinator(store, project_id="office")
    made.store("The office is in Turin.", "semantic", key="turin", valid_from=TURIN)
    made.store("The office is in Genoa.", "semantic", key="genoa", valid_from=GENOA)
    made.store(
        "Lunch vouchers are valid in Turin.", "semantic", key="vouchers", derived_from=["turin"]
    )
    made.store(
        "Buy vouchers in Turin on Mondays.", "semantic", key="buy", derived_from=["vouchers"]
    )
    return made


def outdated(memory: MemoryCoordinator, query: str = "Turin vouchers", **options: Any) -> set[str]:
    found = memory.get_context(query, limit=9, **options)
    assert {"vouchers", "buy"} <= set(keys(found))
    return {one.key for one in found if one.outdated}


def report(memory: MemoryCoordinator) -> ConsolidationReport:
    graph = create_consolidation_graph(store=memory.tiered_store)
    return ConsolidationReport.of(graph.invoke({}, context=memory.context))


def test_what_came_from_a_superseded_memory_is_flagged_until_that_is_undone(
    memory: MemoryCoordinator,
) -> None:
    assert outdated(memory) == set()
    move = memory.truth.supersede("turin", by="genoa")
    assert outdated(memory) == outdated(memory, "") == {"vouchers", "buy"}
    assert there(memory.get("buy")).outdated
    assert not there(memory.get("genoa")).outdated
    memory.learning.rollback(move)
    assert outdated(memory) == set()


def test_a_prompt_says_that_a_memory_rests_on_what_has_changed(memory: MemoryCoordinator) -> None:
    memory.truth.supersede("turin", by="genoa")
    lines = recalled_text(memory.get_context("", limit=9)).splitlines()
    (vouchers,) = [one for one in lines if "Lunch vouchers" in one]
    (genoa,) = [one for one in lines if "Genoa" in one]
    assert "(rests on what has changed since)" in vouchers
    assert "rests on" not in genoa


def test_nothing_is_outdated_at_a_moment_when_its_origin_was_true_or_not_known_to_have_ended(
    memory: MemoryCoordinator, clock: Clock
) -> None:
    before = clock.now
    clock.advance(days=1)
    memory.truth.supersede("turin", by="genoa")
    assert outdated(memory, known_at=before) == set()
    assert outdated(memory, known_at=clock.now) == {"vouchers", "buy"}


def test_what_superseded_a_memory_is_not_outdated_by_having_come_from_it(
    memory: MemoryCoordinator,
) -> None:
    memory.store("The office moved to Bari.", "semantic", key="bari", derived_from=["turin"])
    memory.store("Vouchers are valid in Bari.", "semantic", key="new", derived_from=["bari"])
    memory.truth.supersede("turin", by="bari")
    assert outdated(memory) == {"vouchers", "buy"}
    assert memory.learning.explain("new").outdated_by == ()
    assert {one.key for one in report(memory).proposed if one.step == "outdated"} == {
        "vouchers",
        "buy",
    }


def test_explain_says_that_a_memory_rests_on_what_was_superseded(
    memory: MemoryCoordinator,
) -> None:
    memory.truth.supersede("turin", by="genoa")
    told = memory.learning.explain("buy")
    assert [one.path for one in told.outdated_by] == [("buy", "vouchers", "turin")]
    assert "current, rests on what was superseded" in str(told)
    assert "superseded: turin → vouchers → buy" in str(told)


def test_a_cycle_proposes_once_what_rests_on_what_was_superseded(
    memory: MemoryCoordinator, clock: Clock
) -> None:
    memory.truth.supersede("turin", by="genoa")
    clock.advance(hours=1)
    told = report(memory)
    found = {(one.key, one.other_key) for one in told.proposed if one.step == "outdated"}
    assert found == {("vouchers", "turin"), ("buy", "turin")}
    assert told.count("outdated", "kept") == 2
    assert memory.get("vouchers") is not None
    clock.advance(hours=1)
    assert report(memory).count("outdated", "kept") == 0
