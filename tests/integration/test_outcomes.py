"""What was shown to a run, what came of it, and what that is credited to."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from langmem_tiers import TieredStore
from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.learning.outcome import Run
from tests.support.coordinating import Caller, coordinator
from tests.support.learning import LESSON, OTHER_LESSON, Team, broken
from tests.support.opening import tables

QUERY = "KeyError parse invoice"


async def credits_of(ours: Team, key: str, by: Caller | None = None) -> tuple[int, int]:
    """Successes and failures of a memory."""
    found = await (by or ours.billing)("learning.explain", key)
    return found.success_count, found.failure_count


async def test_an_outcome_credits_what_was_recalled_for_its_run(ours: Team) -> None:
    shown, unasked = await ours.learn(ours.billing), await ours.learn(ours.shipping, OTHER_LESSON)
    await ours.billing("get_context", QUERY, run_id="r1")
    report = await ours.billing("learning.record_outcome", success=True, run_id="r1")
    assert (report.success, report.credited, report.held_out) == (True, 1, 0)
    assert await credits_of(ours, shown) == (1, 0)
    assert await credits_of(ours, unasked, ours.shipping) == (0, 0)


async def test_lessons_shown_to_a_run_are_credited_with_it(ours: Team) -> None:
    key = await ours.learn(ours.billing)
    found = await ours.billing(
        "learning.get_lessons", "KeyError: 'amount'", tools="python", run_id="r1"
    )
    assert [one.key for one in found] == [key]
    await ours.billing("learning.record_outcome", success=False, run_id="r1")
    assert await credits_of(ours, key) == (0, 1)


CELLAR = "The invoices of the winter lie in the cellar, in blue boxes"
ATTIC = "The invoices of the summer lie in the attic, behind the ladder"


@pytest.mark.parametrize("noted", [True, False])
async def test_what_the_answer_took_up_is_credited_and_what_it_did_not_was_shown(
    ours: Team, *, noted: bool
) -> None:
    for key, text in (("cellar", CELLAR), ("attic", ATTIC)):
        await ours.billing("store", text, tier="working", key=key)
    found = await ours.billing("get_context", "Where are the invoices?", run_id="r1")
    assert {one.key for one in found} == {"cellar", "attic"}
    said = {"question": "Where are the invoices?", "answer": "In blue boxes in the cellar."}
    shown = [None] if noted else [found]
    report = await ours.billing(
        "learning.record_outcome", *shown, success=True, run_id="r1", **said
    )
    assert (report.credited, report.unused, report.held_out) == (1, 1, 0)
    assert await credits_of(ours, "cellar") == (1, 0)
    assert await credits_of(ours, "attic") == (0, 0)
    with psycopg.connect(ours.url) as conn:
        rows = conn.execute(
            """SELECT m.key, e.used, e.succeeded FROM memory.exposures e
               JOIN memory.memories m USING (tenant, id) ORDER BY 1"""
        ).fetchall()
    assert rows == [("attic", False, True), ("cellar", True, True)]
    assert broken(ours.url) == {}


async def test_without_an_answer_or_in_a_call_of_its_tool_all_that_was_shown_is_credited(
    ours: Team,
) -> None:
    await ours.billing("store", CELLAR, tier="working", key="cellar")
    lesson = await ours.learn(ours.billing)
    for run, said, credited in (
        ("r1", {}, 2),
        ("r2", {"answer": 'python({"code": "print(2)"})'}, 1),
        ("r3", {"answer": "I do not know."}, 0),
    ):
        one, other = await ours.billing("get", "cellar"), await ours.billing("get", lesson)
        report = await ours.billing("learning.record_exposure", [one, other], run_id=run, holdout=0)
        report = await ours.billing("learning.record_outcome", success=True, run_id=run, **said)
        assert (report.credited, report.unused) == (credited, 2 - credited)
    wrong: Any = 7
    with pytest.raises(InvalidInputError, match="answer is a str"):
        await ours.billing("learning.record_outcome", success=True, run_id="r4", answer=wrong)


async def test_what_is_held_out_is_not_shown_never_credited_and_counted(ours: Team) -> None:
    key = await ours.learn(ours.billing)
    no_share: list[Any] = [False, "", [], "half", 2, float("nan")]
    for wrong in no_share:
        with pytest.raises(InvalidInputError, match="holdout is"):
            await ours.billing("get_context", QUERY, holdout=wrong)
    assert await ours.billing("get_context", QUERY, run_id="r1", holdout=1.0) == []
    one = await ours.billing("get", key)
    assert (
        await ours.billing("learning.record_outcome", [one], success=True, run_id="r1")
    ).credited == 0
    report = await ours.billing("learning.record_outcome", success=True, run_id="r1")
    assert (report.credited, report.held_out) == (0, 1)
    assert await credits_of(ours, key) == (0, 0)
    assert (await ours.billing("stats")).uplift[one.namespace, key].counts.held_successes == 1


async def test_a_run_of_another_tenant_is_another_run(ours: Team) -> None:
    key = await ours.learn(ours.billing)
    await ours.billing("get_context", QUERY, run_id="r1")
    rival = ours.member("rival", project_id="billing-service")
    before = await ours.rows()
    assert (await rival("learning.record_outcome", success=False, run_id="r1")).credited == 0
    assert await ours.rows() == before
    one = await ours.billing("get", key)
    with pytest.raises(InvalidInputError, match="another tenant"):
        await rival("learning.record_outcome", [one], success=True)


async def test_what_was_written_of_a_memory_goes_with_it_or_is_tidied_up(ours: Team) -> None:
    promotion = await ours.promoted()
    with psycopg.connect(ours.url) as conn:
        conn.execute("DELETE FROM memory.memories WHERE key = %s", [promotion.successor])
        conn.execute("DELETE FROM memory.vectors WHERE tier = 'long_term'")
    assert broken(ours.url) != {}
    await asyncio.to_thread(ours.store.optimize)
    assert (await ours.states()) == {promotion.key: None}
    one = await ours.billing("get", promotion.key)
    await ours.billing("get_context", QUERY, run_id="r1")
    await ours.billing("delete_memory", promotion.key)
    assert (await ours.billing("learning.record_outcome", success=True, run_id="r1")).credited == 0
    assert (await ours.billing("learning.record_outcome", [one], success=True)).credited == 0
    found = await ours.rows()
    assert found["exposures"] == found["usage"] == []


async def test_what_had_no_outcome_for_thirty_days_is_forgotten_but_for_its_project(
    ours: Team,
) -> None:
    key = await ours.learn(ours.billing)
    anybody = ours.member()
    for run in ("a", "b", "c"):
        await ours.billing("get_context", QUERY, run_id=run, holdout=0)
        await ours.billing("get_context", QUERY, run_id=f"{run}-held", holdout=1.0)
        one = await ours.billing("get", key)
        await ours.shipping("learning.record_exposure", [one], run_id=f"shipping-{run}")
        await anybody("learning.record_exposure", [one], run_id=f"nowhere-{run}")
        ours.clock.advance(seconds=1)
    await ours.billing("learning.record_outcome", success=True, run_id="a")
    await ours.billing("learning.record_outcome", success=True, run_id="a-held")
    before = await ours.rows()
    ours.clock.advance(days=29)
    assert await asyncio.to_thread(ours.store.sweep_ttl) == 0
    assert await ours.rows() == before
    ours.clock.advance(days=1)
    await ours.billing("get_context", QUERY, run_id="new", holdout=0)
    projects = (await ours.billing("learning.explain", key)).projects
    assert await asyncio.to_thread(ours.store.sweep_ttl) == 0
    with psycopg.connect(ours.url) as conn:
        known = conn.execute("SELECT run FROM memory.exposures ORDER BY run").fetchall()
    assert [run for (run,) in known] == ["a", "a-held", "new", "shipping-c"]
    assert (await ours.billing("learning.explain", key)).projects == projects
    assert await credits_of(ours, key) == (1, 0)


# Many workers


@pytest.mark.parametrize(
    ("workers", "runs"), [(8, 25), pytest.param(16, 1000, marks=pytest.mark.proof)]
)
def test_an_outcome_is_credited_once_from_however_many_workers(
    own_store: TieredStore, database_url: str, workers: int, runs: int
) -> None:
    memory = coordinator(own_store, project_id="billing-service")
    key = memory.store_reflexion(**LESSON).key or ""
    for i in range(runs):
        for attempt in ("attempt", "further"):
            memory.get_context(QUERY, run_id=Run(f"{attempt}-{i}", f"root-{i}"))
    one = memory.get(key)
    assert one is not None
    together = threading.Barrier(workers)

    def work(worker: int) -> int:
        total = 0
        for i in range(runs):
            together.wait()
            in_hand = [one] if worker % 2 else None
            total += memory.learning.record_outcome(
                in_hand, success=True, run_id=f"root-{i}"
            ).credited
        return total

    with ThreadPoolExecutor(workers) as pool:
        assert sum(pool.map(work, range(workers))) == runs
    found = memory.learning.explain(key)
    assert (found.success_count, found.failure_count) == (runs, 0)
    assert broken(database_url) == {}


def test_recalls_of_one_run_at_once_note_it_once(own_store: TieredStore, database_url: str) -> None:
    memory = coordinator(own_store, project_id="billing-service")
    for i in range(30):
        memory.store_reflexion(**{**LESSON, "task_id": f"task-{i}"})
    queries = [QUERY, "task-7 python", "dict.get default", "task-21 invoice"]
    with ThreadPoolExecutor(8) as pool:
        asked = [
            pool.submit(memory.get_context, query, limit=30, run_id=f"r{i}")
            for i in range(10)
            for query in queries * 2
        ]
        shown = [frozenset(one.key for one in each.result()) for each in asked]
    runs = [frozenset().union(*shown[i * 8 : i * 8 + 8]) for i in range(10)]
    assert len(tables(database_url)["exposures"]) == sum(map(len, runs))
    for i, keys in enumerate(runs):
        assert memory.learning.record_outcome(success=True, run_id=f"r{i}").credited == len(keys)
    assert broken(database_url) == {}
