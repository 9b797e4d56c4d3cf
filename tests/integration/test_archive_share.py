"""How much archival takes at once: the least valuable, and never more than a share of a tenant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver

from langmem_tiers import (
    ArchivalPolicy,
    ConsolidationPolicy,
    ConsolidationReport,
    MemoryContext,
    MemoryCoordinator,
    TieredStore,
    create_consolidation_graph,
)
from langmem_tiers.core.errors import ConfigurationError, DatabaseError
from langmem_tiers.graph import consolidation
from tests.support.archives import keys
from tests.support.coordinating import coordinator
from tests.support.cycles import crashing
from tests.support.opening import Clock

ACME = MemoryContext(tenant="acme")
STORED = 300
ONE_BY_ONE: RunnableConfig = {"max_concurrency": 1, "configurable": {"thread_id": "acme"}}


@pytest.fixture
def memory(store: TieredStore, clock: Clock) -> MemoryCoordinator:
    """Three hundred memories that nobody asked for in 200 days, of which 40 matter least."""
    memory = coordinator(store, project_id="billing")
    memory.store_many(
        {
            "content": f"Note {number} of the project",
            "memory_type": "semantic",
            "tier": "working",
            "key": f"k{number:03}",
            "importance": 0.1 if number % 7 == 0 and number < 280 else None,
        }
        for number in range(STORED)
    )
    clock.advance(days=200)
    return memory


LEAST = {f"k{number:03}" for number in range(0, 280, 7)}


def archiving(folder: Path, **options: Any) -> ConsolidationPolicy:
    """A policy that archives, and does nothing else."""
    return ConsolidationPolicy(
        expiry=False,
        rise=None,
        merge=None,
        supersede=None,
        promotion=None,
        decay=False,
        archive=ArchivalPolicy(**{"url": str(folder), "default_importance": 0.5, **options}),
    )


def cycle(store: TieredStore, folder: Path, **options: Any) -> ConsolidationReport:
    """What a cycle that archives reports."""
    graph = create_consolidation_graph(store=store, policy=archiving(folder, **options))
    return ConsolidationReport.of(graph.invoke({}, context=ACME))


def waiting(report: ConsolidationReport) -> int:
    """How many memories the report says are left for another cycle."""
    reason = "as old, and more than this cycle may take"
    (found,) = [one.memories for one in report.lines if one.reason == reason]
    return found


def gone(url: str) -> set[str]:
    """The keys that have left the database."""
    return {f"k{number:03}" for number in range(STORED)} - set(keys(url))


@pytest.mark.usefixtures("memory")
def test_a_cycle_takes_a_tenth_of_the_tenant_the_least_important_first_and_counts_the_rest(
    store: TieredStore, clock: Clock, url: str, tmp_path: Path
) -> None:
    first = cycle(store, tmp_path)
    assert (first.count("archive"), waiting(first)) == (30, 270)
    assert gone(url) < LEAST
    clock.advance(days=1)
    second = cycle(store, tmp_path)
    assert (second.count("archive"), waiting(second)) == (27, 243)
    assert gone(url) > LEAST
    assert len(gone(url)) == 57


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.usefixtures("memory")
def test_a_cycle_that_is_broken_off_takes_no_more_when_it_goes_on(
    store: TieredStore,
    url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    after: bool,
) -> None:
    """Its tenth is four batches; at the second it is broken off, before or after that left."""
    monkeypatch.setattr(consolidation, "BATCH", 8)
    monkeypatch.setattr(consolidation, "FAN_OUT", 2)
    crashing(monkeypatch, "apply", after=after, error=DatabaseError("gone"), at=2)
    graph = create_consolidation_graph(
        store=store, policy=archiving(tmp_path), checkpointer=InMemorySaver()
    )
    with pytest.raises(DatabaseError):
        graph.invoke({}, ONE_BY_ONE, context=ACME)
    assert 8 <= len(gone(url)) <= 16
    report = ConsolidationReport.of(graph.invoke(None, ONE_BY_ONE, context=ACME))
    assert (report.count("archive"), waiting(report)) == (30, 270)
    assert gone(url) == set(sorted(LEAST)[:30])


def test_the_verb_takes_a_tenth_as_well_and_says_what_waits(
    memory: MemoryCoordinator, url: str, tmp_path: Path
) -> None:
    for dry_run in (True, False):
        policy = ArchivalPolicy(url=str(tmp_path), default_importance=0.5)
        report = memory.admin.archive(policy, dry_run=dry_run)
        assert (report.memories, report.waiting) == (30, 270)
        assert str(report).endswith("; 270 more wait, beyond max_share")
    assert len(gone(url)) == 30


def test_what_nobody_read_or_called_unimportant_stays_however_many_cycles_come(
    store: TieredStore, memory: MemoryCoordinator, clock: Clock, url: str, tmp_path: Path
) -> None:
    for _ in range(4):
        cycle(store, tmp_path, default_importance=None)
        clock.advance(days=200)
    assert gone(url) == LEAST
    assert len(memory.get_context("Note of the project", limit=999)) == STORED - len(LEAST)


@pytest.mark.parametrize("option", ["max_share", "default_importance"])
def test_a_share_that_cannot_be_one_is_refused(tmp_path: Path, option: str) -> None:
    for wrong in (-0.1, 1.1, "a tenth"):
        with pytest.raises(ConfigurationError, match=f"{option} is a number from 0 to 1"):
            ArchivalPolicy(url=str(tmp_path), **{option: wrong})  # type: ignore[arg-type]
