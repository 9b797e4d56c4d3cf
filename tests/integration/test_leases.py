"""The lease of a tenant: one holder at a time, and a fence that tells who is the latest."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from typing import Any

import psycopg
import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver

from langmem_tiers import (
    ConsolidationReport,
    MemoryContext,
    TieredStore,
    create_consolidation_graph,
)
from langmem_tiers.consolidation import lease, steps
from langmem_tiers.consolidation.steps import Cycle
from langmem_tiers.core.memory import Moment
from langmem_tiers.postgres.flow import Flow, Query
from tests.support.coded import coded
from tests.support.coordinating import coordinator
from tests.support.cycling import cycle, step
from tests.support.opening import Clock
from tests.support.servers import blocked, wait_until

SECONDS = 300.0


def acquire(store: TieredStore, holder: str, tenant: str = "acme") -> int | None:
    return store.run(lease.acquire_lease(tenant, holder, store.flows.now, SECONDS))


def guarded(at: Cycle) -> Flow[None]:
    """What a step does before it writes, and the end of its transaction."""
    (rows,) = yield Query((at.guard,))
    lease.check_guard(rows, "acme")
    yield Query((), commit=True)


def seen(url: str) -> list[Any]:
    """What steps have noted that they saw."""
    with psycopg.connect(url) as conn:
        return conn.execute("SELECT tenant, step, seen FROM memory.cycles").fetchall()


def test_a_lease_is_somebody_elses_once_it_is_over_and_each_has_a_higher_fence(
    store: TieredStore, clock: Clock
) -> None:
    assert store.run(lease.acquire_lease("acme", "one", clock.now, 60)) == 1
    assert store.run(lease.acquire_lease("acme", "one", clock.now, 60)) == 1
    assert store.run(lease.acquire_lease("acme", "two", clock.now, 60)) is None
    assert store.run(lease.acquire_lease("other", "two", clock.now, 60)) == 1
    clock.advance(seconds=50)
    assert store.run(lease.renew_lease("acme", 1, clock.now, 60))
    clock.advance(seconds=59)
    assert store.run(lease.is_leased("acme", clock.now))
    clock.advance(seconds=1)
    assert not store.run(lease.is_leased("acme", clock.now))
    assert store.run(lease.acquire_lease("acme", "two", clock.now, 60)) == 2
    assert not store.run(lease.renew_lease("acme", 1, clock.now, 60))
    assert not store.run(lease.release_lease("acme", 1))
    assert store.run(lease.release_lease("acme", 2))
    assert not store.run(lease.renew_lease("acme", 2, clock.now, 60))
    assert store.run(lease.acquire_lease("acme", "one", clock.now, 60)) == 3


def test_every_tenant_that_has_memories_is_known(store: TieredStore) -> None:
    for tenant in ("beta", "acme", "gamma"):
        coordinator(store, tenant).store("Anna likes green tea", key="one")
    assert store.run(lease.list_tenants()) == ["acme", "beta", "gamma"]


def test_of_many_who_ask_at_once_one_gets_it(store: TieredStore) -> None:
    with ThreadPoolExecutor(8) as threads:
        fences = list(threads.map(lambda n: acquire(store, f"worker-{n}"), range(8)))
    assert sorted(one for one in fences if one is not None) == [1]


def test_who_has_no_lease_may_write_while_nobody_has(store: TieredStore, clock: Clock) -> None:
    store.run(guarded(cycle(store)))
    acquire(store, "one")
    with coded("lease_lost"):
        store.run(guarded(cycle(store)))
    clock.advance(seconds=SECONDS)
    store.run(guarded(cycle(store)))


@pytest.mark.parametrize("name", ["merge", "supersede"])
def test_a_step_that_has_lost_its_lease_notes_nothing(
    store: TieredStore, url: str, clock: Clock, name: str
) -> None:
    one = step(name)
    mine = cycle(store, fence=acquire(store, "one"))
    store.run(one.finish(mine))
    noted = seen(url)
    assert [row[:2] for row in noted] == [("acme", name)]
    clock.advance(seconds=SECONDS)
    acquire(store, "other")
    later = mine._replace(moment=Moment(clock.now))
    with coded("lease_lost", match="somebody else consolidates 'acme'"):
        store.run(one.finish(later))
    assert seen(url) == noted


@pytest.mark.parametrize("writes", [guarded, partial(steps.note_seen, step="merge")])
def test_a_lease_does_not_change_hands_while_its_holder_writes_or_notes_what_it_saw(
    store: TieredStore, url: str, clock: Clock, writes: Callable[[Cycle], Flow[Any]]
) -> None:
    mine = cycle(store, fence=acquire(store, "one"))
    later = clock.now + timedelta(seconds=SECONDS)

    def writing() -> Flow[bool]:
        flow = writes(mine)
        rows = yield next(flow)
        taken = threads.submit(store.run, lease.acquire_lease("acme", "other", later, SECONDS))
        wait_until(lambda: blocked(url))
        yield flow.send(rows)
        return taken.result() == 2

    with ThreadPoolExecutor(1) as threads:
        assert store.run(writing())


def test_a_cycle_without_a_lease_ends_where_somebody_takes_it(store: TieredStore, url: str) -> None:
    graph = create_consolidation_graph(
        store=store, checkpointer=InMemorySaver(), interrupt_before=["select"]
    )
    config: RunnableConfig = {"configurable": {"thread_id": "acme"}}
    graph.invoke({}, config, context=MemoryContext(tenant="acme"))
    acquire(store, "one")
    report = ConsolidationReport.of(graph.invoke(None, config))
    assert (report.taken_over, report.lines) == (True, ())
    assert str(report).endswith("then somebody else took the tenant over")
    assert seen(url) == []


@pytest.mark.parametrize("limit", ["idle_in_transaction_session_timeout", "transaction_timeout"])
def test_postgres_ends_the_transaction_of_a_holder_that_stands_still(
    store: TieredStore, url: str, limit: str
) -> None:
    fence = acquire(store, "one")
    guard = store.runner.target.statements["guard_lease"]
    params = {"tenant": "acme", "fence": fence, "now": store.flows.now}
    with psycopg.connect(url) as conn:
        known = conn.execute("SELECT FROM pg_settings WHERE name = %s", [limit]).fetchall()
        psycopg.RawCursor(conn).execute(guard.text, [params[name] for name in guard.names])
        (found,) = conn.execute("SELECT current_setting(%s, true)", [limit]).fetchone() or (None,)
    assert found == ("5min" if known else None)
