"""What was learned and harms is shown less and less; what helps stays."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.harm import alone, live
from langmem_tiers import (
    ConsolidationReport,
    MemoryContext,
    MemoryCoordinator,
    TieredStore,
    create_consolidation_graph,
)
from langmem_tiers.learn.chances import ENOUGH, HoldoutCounts, chance_of_harm, doubted
from tests.support.coordinating import coordinator
from tests.support.opening import Clock

RUNS = st.integers(0, 200)


@given(RUNS, RUNS, RUNS, RUNS, st.floats(0.01, 0.99))
def test_the_chance_of_harm_falls_with_what_succeeds_with_a_memory(
    shown: int, failed: int, held: int, lost: int, usual: float
) -> None:
    def chance(more: int) -> float:
        counts = HoldoutCounts(shown + more, shown + failed + more, held, held + lost)
        return chance_of_harm(counts, usual)

    assert 0 <= chance(0) <= 1
    assert all(before >= after - 1e-9 for before, after in pairwise(map(chance, (0, 20, 400))))
    assert 0 <= doubted(chance(0)) < 1


def test_nothing_is_held_back_for_what_is_usual() -> None:
    for tries in (0, 10, 100):
        counts = HoldoutCounts(tries // 2, tries, tries // 2, tries)
        assert doubted(chance_of_harm(counts, 0.5)) == 0
    assert doubted(chance_of_harm(HoldoutCounts(1, 12, 0, 0), 0.6)) > 0.9


def test_lessons_that_harm_are_shown_less_and_less(store: TieredStore) -> None:
    told: dict[str, Any] = {"effect": 0.45, "lessons": 6, "runs": 300}
    found = live(coordinator(store, "careful", project_id="p"), 3, **told)
    blind = live(coordinator(store, "blind", project_id="p"), 3, holdout=0.0, **told)

    assert blind.shown == blind.asked > 0
    assert found.shown <= 0.3 * found.asked
    assert found.held_back == 0
    assert found.lately > blind.lately


def test_what_harms_beyond_doubt_is_held_back_with_an_event_and_a_way_back(
    store: TieredStore, clock: Clock
) -> None:
    memory = coordinator(store, project_id="p")
    for name in ("harms", "helps"):
        memory.store_reflexion(
            task_id=name,
            original_approach="the usual way",
            failure_reason="it failed",
            improved_approach=f"a way that {name}",
            tool=name,
        )
    for run in range(40):
        for name in ("harms", "helps"):
            named = f"{name}-{run}"
            shown = memory.get_lessons(tools=name, run_id=named, holdout=float(run % 2))
            memory.record_outcome(run_id=named, success=bool(shown) == (name == "helps"))
    (held,) = [one for one in memory.demote() if one.demoted]
    assert "chance of harm 1.00 >= 0.99 yes" in str(held)
    assert memory.get_lessons(tools="harms") == []
    assert len(memory.get_lessons(tools="helps")) == 1
    explained = memory.explain(held.key)
    assert (explained.state, explained.history[-1].kind) == ("demoted", "demoted")
    assert [one for one in memory.demote() if one.demoted] == []
    assert memory.rollback(str(held.move))
    assert len(memory.get_lessons(tools="harms")) == 1
    assert [one for one in memory.demote() if one.demoted] == [], "only runs since then count"
    back = [memory.get_lessons(tools="harms", run_id=f"back-{run}") for run in range(20)]
    assert sum(map(bool, back)) >= 15, "nor is it held out for what was known before"

    clock.advance(hours=1)
    for run in range(40):
        shown = memory.get_lessons(tools="harms", run_id=f"again-{run}", holdout=float(run % 2))
        memory.record_outcome(run_id=f"again-{run}", success=not shown)
    graph = create_consolidation_graph(store=store)
    state = graph.invoke({}, context=MemoryContext(tenant="acme"))
    report = ConsolidationReport.of(state)
    assert report.count("demote") == 1
    kept = [one for one in report.lines if (one.step, one.verdict) == ("demote", "kept")]
    assert [one.reason for one in kept] == ["runs do better with it"]
    assert memory.get_lessons(tools="harms") == []


def test_what_is_said_anew_is_judged_anew(store: TieredStore, clock: Clock) -> None:
    memory = coordinator(store, project_id="p")

    def harmed(name: str) -> None:
        for run in range(40):
            named = f"{name}-{run}"
            shown = memory.get_context("glue", run_id=named, holdout=float(run % 2), min_match=0)
            memory.record_outcome(run_id=named, success=not shown)

    memory.store("Mend it with glue", "pattern", tier="working", key="k")
    harmed("first")
    clock.advance(hours=1)
    memory.store("Mend it with screws, not with glue", "pattern", tier="working", key="k")
    assert [one for one in memory.demote() if one.demoted] == []
    harmed("second")
    assert [one.key for one in memory.demote() if one.demoted] == ["k"]
    assert memory.get_context("glue", min_match=0) == []
    clock.advance(hours=1)
    memory.store("Mend it with nails, not with glue", "pattern", tier="working", key="k")
    assert [one.key for one in memory.get_context("glue", min_match=0)] == ["k"]
    assert [one for one in memory.demote() if one.demoted] == []


@pytest.mark.proof
def test_of_thirty_lessons_those_that_harm_are_hardly_shown_after_a_thousand_runs(
    server_url: str,
) -> None:
    found = [alone(server_url, seed, effect=0.45) for seed in range(20)]

    assert sum(one.shown for one in found) <= 0.05 * sum(one.asked for one in found)
    assert sum(one.held_back > 0 for one in found) <= 1


@pytest.mark.parametrize("memory_type", ["reflexion", "semantic"])
def test_what_was_learned_is_held_out_by_itself_once_it_seems_to_harm(
    store: TieredStore, memory_type: str
) -> None:
    memory = coordinator(store, project_id="p")
    memory.store("Restart the server before each deploy", memory_type, key="k")
    memory.store("Coffee is in the kitchen", memory_type, key="other")

    def shown(run: str, holdout: float | None = None) -> bool:
        found = memory.get_context("deploy the server", run_id=run, min_match=0, holdout=holdout)
        return "k" in [one.key for one in found]

    for number in range(ENOUGH + 12):
        assert shown(f"first-{number}", holdout=0)
        memory.record_outcome(run_id=f"first-{number}", success=False)
        _succeed(memory, number)
    before = memory.explain("k").access_count
    seen = [shown(f"then-{number}") for number in range(20)]
    assert memory.explain("k").access_count - before == sum(seen)
    assert sum(seen) == 20 if memory_type == "semantic" else sum(seen) <= 5
    assert seen == [shown(f"then-{number}") for number in range(20)]
    for number in range(20):
        _succeed(memory, number + 100)
        memory.record_outcome(
            memory.get_context("deploy", run_id=f"good-{number}", holdout=0), success=True
        )
    assert seen == [shown(f"then-{number}") for number in range(20)]  # what a run saw stays so
    assert all(shown(f"new-{number}", holdout=0) for number in range(20))


def _succeed(memory: MemoryCoordinator, number: int) -> None:
    """A run of something else, which goes well."""
    found = memory.get_context("coffee", run_id=f"else-{number}", holdout=0, limit=1)
    memory.record_outcome(found, success=True, run_id=f"else-{number}")
