"""A worker of consolidation: each tenant when it is due, one after the other, whatever fails."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.postgres import PostgresSaver

from langmem_tiers import TieredStore
from langmem_tiers.consolidation import lease
from langmem_tiers.consolidation.lease import thread_name
from langmem_tiers.consolidation.merge import Merge
from langmem_tiers.consolidation.policy import ConsolidationSchedule
from langmem_tiers.consolidation.report import ConsolidationReport
from langmem_tiers.consolidation.steps import Cycle, StepCounts
from langmem_tiers.core.errors import InvalidInputError, ModelError
from langmem_tiers.graph.worker import FENCE_KEY, LEASE_SECONDS, ConsolidationWorker
from langmem_tiers.postgres.flow import Flow
from tests.support.opening import Clock
from tests.support.workers import SCHEDULE, How, Workers, tenants

BOTH = pytest.mark.parametrize("how", ["run_due", "arun_due"])


@pytest.fixture
def workers(store: TieredStore, url: str) -> Workers:
    return Workers(store, url, "acme", "beta")


def checkpoints(url: str) -> dict[str, int]:
    with psycopg.connect(url) as conn:
        query = "SELECT thread_id, count(*) FROM checkpoints GROUP BY 1"
        return dict(conn.execute(query).fetchall())


@contextmanager
def at_merging(does: Callable[[Cycle], object]) -> Iterator[None]:
    """Do something whenever a merge is about to be carried out."""
    before = Merge.apply

    def apply(self: Merge, cycle: Cycle, decisions: Any) -> Flow[StepCounts]:
        does(cycle)
        return before(self, cycle, decisions)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Merge, "apply", apply)
        yield


@pytest.mark.slow
@BOTH
async def test_each_tenant_has_a_cycle_and_the_next_one_when_it_is_due(
    workers: Workers, url: str, clock: Clock, how: How
) -> None:
    assert tenants(await workers.due(how)) == ["acme", "beta"]
    assert workers.merged() == {"acme": 1, "beta": 1}
    clock.advance(hours=5.9)
    assert await workers.due(how) == []
    clock.advance(hours=0.1)
    assert tenants(await workers.due(how)) == ["acme", "beta"]
    assert checkpoints(url) == {thread_name("acme"): 1, thread_name("beta"): 1}


@BOTH
async def test_a_tenant_whose_cycle_fails_stops_no_other_and_is_resumed(
    workers: Workers, clock: Clock, how: How, caplog: pytest.LogCaptureFixture
) -> None:
    def failing(cycle: Cycle) -> None:
        if cycle.tenant == "acme":
            raise ModelError("the model has no answer: ask again")

    began = clock.now
    with at_merging(failing):
        assert tenants(await workers.due(how)) == ["beta"]
    assert workers.merged() == {"acme": 0, "beta": 1}
    assert [one.levelname for one in caplog.records] == ["ERROR"]
    assert "acme" in caplog.text
    clock.advance(minutes=1)
    (report,) = await workers.due(how)
    assert (report.tenant, report.started_at) == ("acme", began)
    assert workers.merged() == {"acme": 1, "beta": 1}


@BOTH
async def test_a_worker_that_is_stopped_hands_over_and_another_goes_on_at_once(
    workers: Workers, clock: Clock, how: How
) -> None:
    made: list[ConsolidationWorker] = []
    began = clock.now
    with at_merging(lambda _: made[0].stop()):
        assert await workers.due(how, made) == []
    assert workers.merged() == {"acme": 1, "beta": 0}  # the step at work has ended
    clock.advance(minutes=1)
    first, _ = await workers.due(how)
    assert (first.tenant, first.started_at, first.count("merge")) == ("acme", began, 1)


@BOTH
async def test_a_worker_runs_until_it_is_stopped(workers: Workers, how: How) -> None:
    def told(report: ConsolidationReport) -> None:
        if report.tenant == "beta":
            worker.stop()

    async with asyncio.timeout(60):
        if how == "arun_due":
            async with workers.awaiting(on_report=told) as worker:
                await worker.arun(poll_seconds=600)
        else:
            with workers.blocking(on_report=told) as worker:
                await asyncio.to_thread(worker.run, poll_seconds=600)
    assert workers.merged() == {"acme": 1, "beta": 1}


async def test_an_async_worker_that_is_cancelled_lets_its_lease_go(
    workers: Workers, store: TieredStore, clock: Clock
) -> None:
    loop = asyncio.get_running_loop()
    with at_merging(lambda _: loop.call_soon_threadsafe(running.cancel)):
        async with workers.awaiting() as worker:
            running = asyncio.create_task(worker.arun_due())
            with pytest.raises(asyncio.CancelledError):
                await running
    assert not await store.arun(lease.is_leased("acme", clock.now))


def test_a_tenant_that_another_worker_holds_is_left_alone(
    workers: Workers, store: TieredStore, clock: Clock
) -> None:
    store.run(lease.acquire_lease("acme", "another", clock.now, LEASE_SECONDS))
    with workers.blocking() as worker:
        assert tenants(worker.run_due()) == ["beta"]
        clock.advance(seconds=LEASE_SECONDS)
        assert tenants(worker.run_due()) == ["acme"]


def test_a_worker_that_lost_its_lease_changes_nothing_and_says_so(
    workers: Workers,
    store: TieredStore,
    clock: Clock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def taken(cycle: Cycle) -> None:
        if cycle.tenant == "acme":
            later = clock.now + timedelta(seconds=LEASE_SECONDS)
            store.run(lease.acquire_lease("acme", "another", later, LEASE_SECONDS))

    with workers.blocking() as worker, at_merging(taken):
        assert tenants(worker.run_due()) == ["beta"]
        assert worker.failures == {}
    assert workers.merged() == {"acme": 0, "beta": 1}
    assert [one.levelname for one in caplog.records] == ["WARNING"]
    assert "acme" in caplog.text


@pytest.mark.slow
def test_what_a_former_holder_writes_to_the_thread_counts_for_nothing(
    workers: Workers, url: str, clock: Clock
) -> None:
    with workers.blocking() as worker:
        worker.run_due()
        clock.advance(days=1)
        worker.run_due()
        former: Any = {
            "configurable": {"thread_id": thread_name("acme")},
            "metadata": {FENCE_KEY: 1},
        }
        worker._graph.update_state(former, {"step": "merge", "skipped": None}, as_node="begin")
        assert worker._graph.get_state(former).next == ("select",)
        assert worker.run_due() == []
        clock.advance(days=1)
        assert tenants(worker.run_due()) == ["acme", "beta"]
        assert not worker._graph.get_state(former).next
    assert checkpoints(url)[thread_name("acme")] == 1


def test_leases_that_were_deleted_do_not_confuse_a_worker(
    workers: Workers, url: str, clock: Clock
) -> None:
    with workers.blocking() as worker:
        for _ in range(3):
            worker.run_due()
            clock.advance(days=1)
        with psycopg.connect(url) as conn:
            conn.execute("DELETE FROM memory.leases")
        assert tenants(worker.run_due()) == ["acme", "beta"]
        assert worker.run_due() == []


def test_errors_of_the_checkpointer_are_a_tenants_failure(workers: Workers, url: str) -> None:
    with workers.blocking() as worker:
        with psycopg.connect(url) as conn:
            conn.execute(
                """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                   WHERE datname = current_database() AND query ~ 'checkpoint'
                     AND pid <> pg_backend_pid()"""
            )
        worker._checkpointer.conn.close()  # type: ignore[attr-defined]
        assert worker.run_due() == []
        assert sorted(worker.failures) == ["acme", "beta"]


def test_a_checkpointer_without_tables_is_told(
    workers: Workers, new_url: Callable[[], str], caplog: pytest.LogCaptureFixture
) -> None:
    with PostgresSaver.from_conn_string(new_url()) as saver:
        worker = ConsolidationWorker(workers.store, SCHEDULE, checkpointer=saver)
        with caplog.at_level(logging.ERROR):
            assert worker.run_due() == []
    assert "call its setup() once" in str(worker.failures["acme"])


def test_a_worker_is_at_one_pass_at_a_time(workers: Workers) -> None:
    refused: list[str] = []

    def again(_: Cycle) -> None:
        with pytest.raises(InvalidInputError, match="at work already"):
            worker.run_due()
        refused.append("again")

    with workers.blocking() as worker, at_merging(again):
        worker.run_due()
    assert refused == ["again", "again"]


def test_what_no_worker_can_go_by_is_refused(store: TieredStore) -> None:
    saver: Any = InMemorySaver()
    for schedule, options, match in (
        (ConsolidationSchedule(every_turns=1), {"checkpointer": saver}, "every="),
        (SCHEDULE, {"checkpointer": saver, "lease_seconds": 0}, "lease_seconds"),
        (SCHEDULE, {"checkpointer": True}, "PostgresSaver"),
    ):
        with pytest.raises(InvalidInputError, match=match):
            ConsolidationWorker(store, schedule, **options)


def test_who_is_told_of_a_cycle_and_raises_is_heard(workers: Workers) -> None:
    def told(_: ConsolidationReport) -> None:
        raise RuntimeError("the pager is gone")

    with workers.blocking(on_report=told) as worker:
        with pytest.raises(RuntimeError, match="the pager is gone"):
            worker.run_due()
        assert worker.failures == {}
