"""What was learned and harms is shown less and less; what helps stays."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from random import Random
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
from langmem_tiers.learning.outcome import (
    ENOUGH,
    HOLDOUT,
    HoldoutCounts,
    chance_of_harm,
    holdout_share,
)
from tests.support.coordinating import coordinator
from tests.support.opening import Clock

RUNS = st.integers(0, 200)


@given(RUNS, RUNS, RUNS, RUNS, st.floats(0.01, 0.99))
def test_the_chance_of_harm_falls_if_runs_that_failed_with_a_memory_had_succeeded(
    shown: int, failed: int, held: int, lost: int, usual: float
) -> None:
    def chance(mended: int) -> float:
        counts = HoldoutCounts(shown + mended, shown + failed, held, held + lost)
        return chance_of_harm(counts, usual)

    assert 0 <= chance(0) <= 1
    steps = (0, failed // 4, failed // 2, failed)
    assert all(before >= after - 1e-9 for before, after in pairwise(map(chance, steps)))
    shares = [
        holdout_share(HoldoutCounts(shown + one, shown + failed, held, held + lost), usual)
        for one in steps
    ]
    assert all(0 <= after <= before + 1e-9 < 1 for before, after in pairwise(shares))


def test_nothing_is_held_back_for_what_is_usual() -> None:
    for tries in (0, 10, 100):
        counts = HoldoutCounts(tries // 2, tries, tries // 2, tries)
        assert holdout_share(counts, 0.5) == 0
    assert holdout_share(HoldoutCounts(1, 12, 0, 0), 0.6) > 0.9


@pytest.mark.parametrize(("base", "with_it"), [(0.02, 0.3), (0.1, 0.4), (0.2, 0.5), (0.4, 0.7)])
def test_a_lesson_that_helps_with_a_hard_task_is_hardly_held_out_of_its_first_runs(
    base: float, with_it: float
) -> None:
    rng = Random(1)  # noqa: S311 - no secret
    held = sum(first_runs(base, with_it, rng) for _ in range(300))
    assert held <= 0.06 * 300 * 30


def first_runs(base: float, with_it: float, rng: Random) -> int:
    """Of how many of its first thirty runs it is held out, where nine in ten others succeed."""
    counts, held = HoldoutCounts(0, 0, 0, 0), 0
    for _ in range(30):
        share = holdout_share(counts, 0.9) if counts.tries >= ENOUGH else 0.0
        out = counts.tries > 0 and rng.random() < max(HOLDOUT, share)
        good = rng.random() < (base if out else with_it)
        added = (0, 0, int(good), 1) if out else (int(good), 1, 0, 0)
        counts = HoldoutCounts(*map(sum, zip(counts, added, strict=True)))
        held += out
    return held


def test_lessons_that_harm_are_shown_less_and_less(store: TieredStore) -> None:
    told: dict[str, Any] = {"effect": 0.45, "lessons": 6, "runs": 300}
    found = live(coordinator(store, "careful", project_id="p"), 3, **told)
    blind = live(coordinator(store, "blind", project_id="p"), 3, holdout=0.0, **told)

    assert blind.shown == blind.asked > 0
    assert found.shown <= 0.3 * found.asked
    assert found.held_back == 0
    assert found.lately > blind.lately


def lived(
    memory: MemoryCoordinator, runs: int = 40, names: Sequence[str] = ("harms", "helps")
) -> None:
    """A lesson that harms and one that helps, or others, each in so many runs, half without it."""
    for name in names:
        memory.store_reflexion(
            task_id=name,
            original_approach="the usual way",
            failure_reason="it failed",
            improved_approach=f"a way that {name}",
            tool=name,
        )
    for run in range(runs):
        for name in names:
            named = f"{name}-{run}"
            shown = memory.learning.get_lessons(tools=name, run_id=named, holdout=float(run % 2))
            good = run % 4 > 1 if name == "neither" else bool(shown) == (name == "helps")
            memory.learning.record_outcome(run_id=named, success=good)


def test_the_report_of_a_cycle_names_what_helps_what_harms_and_what_is_not_known(
    store: TieredStore,
) -> None:
    memory = coordinator(store, project_id="p")
    lived(memory)
    lived(memory, 16, ["neither"])
    graph = create_consolidation_graph(store=store)
    report = ConsolidationReport.of(graph.invoke({}, context=MemoryContext(tenant="acme")))

    told = {str(one.verdict): one for one in report.credit}
    assert set(told) == {"harms", "helps", "unknown"}
    assert len(report.credit) == 3
    for verdict, counts in (
        ("helps", "with it 20 of 20 succeeded, without it 0 of 20"),
        ("harms", "with it 0 of 20 succeeded, without it 20 of 20"),
        ("unknown", "with it 4 of 8 succeeded, without it 4 of 8"),
    ):
        one = told[verdict]
        lesson = memory.get(one.key)
        assert lesson is not None
        assert " ".join(lesson.content.split()).startswith(one.content.removesuffix("…"))
        assert counts in one.reason
        assert f"  demote     {verdict}: {one}" in str(report).splitlines()
        assert one.content in str(one)


def test_what_harms_beyond_doubt_is_held_back_with_an_event_and_a_way_back(
    store: TieredStore, clock: Clock
) -> None:
    memory = coordinator(store, project_id="p")
    lived(memory)
    (held,) = [one for one in memory.learning.demote() if one.demoted]
    assert "chance of harm 1.00 >= 0.99 yes" in str(held)
    assert memory.learning.get_lessons(tools="harms") == []
    assert len(memory.learning.get_lessons(tools="helps")) == 1
    explained = memory.learning.explain(held.key)
    assert (explained.state, explained.history[-1].kind) == ("demoted", "demoted")
    assert [one for one in memory.learning.demote() if one.demoted] == []
    assert memory.learning.rollback(str(held.move))
    assert len(memory.learning.get_lessons(tools="harms")) == 1
    assert [one for one in memory.learning.demote() if one.demoted] == [], (
        "only runs since then count"
    )
    back = [memory.learning.get_lessons(tools="harms", run_id=f"back-{run}") for run in range(20)]
    assert sum(map(bool, back)) >= 15, "nor is it held out for what was known before"

    clock.advance(hours=1)
    for run in range(40):
        shown = memory.learning.get_lessons(
            tools="harms", run_id=f"again-{run}", holdout=float(run % 2)
        )
        memory.learning.record_outcome(run_id=f"again-{run}", success=not shown)
    graph = create_consolidation_graph(store=store)
    state = graph.invoke({}, context=MemoryContext(tenant="acme"))
    report = ConsolidationReport.of(state)
    assert report.count("demote") == 1
    kept = [one for one in report.lines if (one.step, one.verdict) == ("demote", "kept")]
    assert [one.reason for one in kept] == ["runs do better with it"]
    assert memory.learning.get_lessons(tools="harms") == []


def test_what_is_said_anew_is_judged_anew(store: TieredStore, clock: Clock) -> None:
    memory = coordinator(store, project_id="p")

    def harmed(name: str) -> None:
        for run in range(40):
            named = f"{name}-{run}"
            shown = memory.get_context("glue", run_id=named, holdout=float(run % 2), min_match=0)
            memory.learning.record_outcome(run_id=named, success=not shown)

    memory.store("Mend it with glue", "pattern", tier="working", key="k")
    harmed("first")
    clock.advance(hours=1)
    memory.store("Mend it with screws, not with glue", "pattern", tier="working", key="k")
    assert [one for one in memory.learning.demote() if one.demoted] == []
    harmed("second")
    assert [one.key for one in memory.learning.demote() if one.demoted] == ["k"]
    assert memory.get_context("glue", min_match=0) == []
    clock.advance(hours=1)
    memory.store("Mend it with nails, not with glue", "pattern", tier="working", key="k")
    assert [one.key for one in memory.get_context("glue", min_match=0)] == ["k"]
    assert [one for one in memory.learning.demote() if one.demoted] == []


@pytest.mark.proof
def test_of_thirty_lessons_few_of_those_that_harm_are_shown_after_a_thousand_runs(
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
        memory.learning.record_outcome(run_id=f"first-{number}", success=False)
        _succeed(memory, number)
    before = memory.learning.explain("k").access_count
    seen = [shown(f"then-{number}") for number in range(20)]
    assert memory.learning.explain("k").access_count - before == sum(seen)
    assert sum(seen) == 20 if memory_type == "semantic" else sum(seen) <= 10
    assert seen == [shown(f"then-{number}") for number in range(20)]
    for number in range(20):
        _succeed(memory, number + 100)
        memory.learning.record_outcome(
            memory.get_context("deploy", run_id=f"good-{number}", holdout=0), success=True
        )
    assert seen == [shown(f"then-{number}") for number in range(20)]  # what a run saw stays so
    assert all(shown(f"new-{number}", holdout=0) for number in range(20))


def _succeed(memory: MemoryCoordinator, number: int) -> None:
    """A run of something else, which goes well."""
    found = memory.get_context("coffee", run_id=f"else-{number}", holdout=0, limit=1)
    memory.learning.record_outcome(found, success=True, run_id=f"else-{number}")
