"""Stores behind PgBouncer in transaction mode: each transaction may run in another session."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.store.base import PutOp

from langmem_tiers import (
    Audit,
    CoordinatorSettings,
    MemoryContext,
    MemoryCoordinator,
    Tier,
    TieredStore,
)
from langmem_tiers.core.errors import DatabaseError
from langmem_tiers.postgres.connection_config import checkpointer_pool
from langmem_tiers.postgres.migrate import BUILD_LOCK
from tests.support.opening import text_index
from tests.support.pooler import needs_pooler, pooler
from tests.support.walls import APPLICATION, login

pytestmark = needs_pooler
ACTORS = ("ada", "ben")
PATIENT = CoordinatorSettings(query_timeout_ms=20_000)
"""Settings for sixteen threads on a busy machine: the test is not about their speed."""
# PgBouncer tells the name of the application itself, each time.
LEFT = """
    SELECT name, setting FROM pg_settings
    WHERE setting <> reset_val AND context = 'user' AND name <> 'application_name'
    UNION ALL SELECT 'prepared', statement FROM pg_prepared_statements
    UNION ALL SELECT 'actor', current_setting('langmem_tiers.actor', true)
    WHERE current_setting('langmem_tiers.actor', true) <> ''
    UNION ALL SELECT 'tenant', current_setting('langmem_tiers.tenant', true)
    WHERE current_setting('langmem_tiers.tenant', true) <> ''
    UNION ALL SELECT 'lock', objid::text FROM pg_locks
    WHERE locktype = 'advisory' AND pid = pg_backend_pid()"""


@pytest.fixture
def pooled(database_url: str) -> Iterator[str]:
    """Give an empty database, reached through a pooler."""
    with pooler(database_url) as through:
        yield through


def store_of(url: str, actor: str, **options: Any) -> TieredStore:
    return TieredStore(url, index=text_index(), audit=Audit(actor=actor), **options)


def left_behind(through: str, size: int = 4) -> set[tuple[str, str]]:
    """Return what another application finds set on the pool's connections; it holds them all."""
    found: set[tuple[str, str]] = set()
    with ExitStack() as held:
        conns = [held.enter_context(psycopg.connect(through)) for _ in range(size)]
        for conn in conns:
            found |= set(conn.execute(LEFT, prepare=False).fetchall())
    return found


def use(store: TieredStore, actor: str, turn: int) -> None:
    """Make five calls: those of a graph's store, and of an agent's memory."""
    space = (actor, "notes")
    store.put(space, f"{turn}", {"text": f"{actor} noted {turn}"})
    assert store.get(space, f"{turn}").value == {"text": f"{actor} noted {turn}"}  # type: ignore[union-attr]
    assert store.search(space, query=f"{actor} noted", limit=3)
    memory = MemoryCoordinator(
        store, context=MemoryContext(tenant=actor, project_id="p"), settings=PATIENT
    )
    memory.store(f"{actor} keeps number {turn} in mind")
    assert memory.get_context(f"{actor} keeps in mind", limit=3)


@pytest.mark.slow
@pytest.mark.parametrize("calls", [800, pytest.param(10_000, marks=pytest.mark.proof)])
def test_two_actors_of_sixteen_threads_neither_fail_nor_mix_and_leave_no_setting(
    database_url: str, pooled: str, calls: int
) -> None:
    with ExitStack() as opened:
        stores = {one: opened.enter_context(store_of(pooled, one)) for one in ACTORS}
        stores["ada"].setup()
        turns = range(calls // 10)
        with ThreadPoolExecutor(16) as threads:
            done = [
                threads.submit(use, store, actor, turn)
                for turn in turns
                for actor, store in stores.items()
            ]
            for one in done:
                one.result()
    with psycopg.connect(database_url) as conn:
        who = conn.execute("SELECT DISTINCT tenant, told ->> 'actor' FROM memory.audit").fetchall()
        ((written,),) = conn.execute("SELECT count(*) FROM memory.memories").fetchall()
    assert {(tenant, actor) for tenant, actor in who if tenant in ACTORS} == {
        (one, one) for one in ACTORS
    }
    assert written == 2 * 2 * len(turns)
    assert left_behind(pooled) == set()


async def test_an_async_store_behind_a_pooler_does_the_same(pooled: str) -> None:
    async with store_of(pooled, "ada") as ada, store_of(pooled, "ben") as ben:
        await ada.asetup()
        for store, actor in ((ada, "ada"), (ben, "ben")):
            await asyncio.gather(
                *(store.aput((actor, "n"), f"{turn}", {"text": "x"}) for turn in range(40))
            )
            items = await asyncio.gather(
                *(store.aget((actor, "n"), f"{turn}") for turn in range(40))
            )
            assert {item.key for item in items if item} == {f"{turn}" for turn in range(40)}
            assert {item.created_at.utcoffset().total_seconds() for item in items if item} == {0}  # type: ignore[union-attr]
    assert left_behind(pooled) == set()


def test_a_store_told_to_prepare_behind_a_pooler_that_keeps_nothing_finds_out_and_goes_on(
    pooled: str,
) -> None:
    told = {"kwargs": {"prepare_threshold": 0}}
    with store_of(pooled, "ada", pool_config=told) as store, store_of(pooled, "ben") as other:
        other.setup()
        with psycopg.connect(pooled) as conn:
            conn.execute("SELECT 1", prepare=True)  # it has the name of the store's first statement
        for turn in range(20):
            store.put(("ada",), f"{turn}", {"text": "x"})
            assert store.get(("ada",), f"{turn}") is not None
        assert len(store.search(("ada",), query="x", limit=50)) == 20


def test_no_recall_behind_a_pooler_is_broken_off_as_it_is_planned_anew(pooled: str) -> None:
    quick = CoordinatorSettings(query_timeout_ms=3)
    context = MemoryContext(tenant="ada", project_id="p")
    with store_of(pooled, "ada", pool_config={"max_size": 1}) as store:
        store.setup()
        memory = MemoryCoordinator(store, context=context, settings=quick)
        memory.store("The vault is in the cellar.")
        for _ in range(5):
            assert len(memory.get_context("the vault")) == 1


def test_an_index_is_built_behind_a_pooler_by_one_at_a_time_and_no_lock_is_left(
    database_url: str, pooled: str
) -> None:
    with store_of(pooled, "ada", exact_limit=10) as one, store_of(pooled, "ben") as two:
        one.setup()
        one.batch([PutOp(("ada",), f"{n}", {"text": f"note {n}"}) for n in range(20)])
        with psycopg.connect(database_url) as builder:
            builder.execute("SELECT pg_advisory_xact_lock(%s)", [BUILD_LOCK])
            assert one.optimize() == ()
        assert one.optimize() == (Tier.WORKING,)
        assert one.optimize() == ()
        assert one.search(("ada",), query="note 3", limit=1)[0].key == "3"
        assert two.get(("ada",), "3") is not None
    assert left_behind(pooled) == set()


def test_an_index_is_built_though_the_role_breaks_off_what_takes_long(
    database_url: str,
) -> None:
    with login(database_url) as short:
        owner = str(psycopg.conninfo.conninfo_to_dict(short)["user"])
        with psycopg.connect(database_url, autocommit=True) as conn:
            conn.execute(f"ALTER ROLE {owner} SUPERUSER".encode())
            conn.execute(f"ALTER ROLE {owner} SET statement_timeout = '5min'".encode())
        with store_of(short, "ada", exact_limit=10) as store:
            store.setup()
            store.batch([PutOp(("ada",), f"{n}", {"text": f"note {n}"}) for n in range(20)])
            assert store.optimize() == (Tier.WORKING,)
        with psycopg.connect(database_url, autocommit=True) as conn:
            conn.execute("DROP INDEX working.vectors_hnsw_cosine")
        with pooler(database_url, owner) as through:
            behind = psycopg.conninfo.make_conninfo(through, user=owner)
            with (
                store_of(behind, "ada", exact_limit=10) as store,
                pytest.raises(DatabaseError, match="SET statement_timeout = 0"),
            ):
                store.optimize()


def test_an_application_behind_a_pooler_sees_its_tenant_and_leaves_no_role(
    database_url: str, pooled: str
) -> None:
    with store_of(pooled, "owner") as owner:
        owner.setup()
    for role in ({"role": "application"}, {}):
        with ExitStack() as opened:
            url = pooled
            if not role:
                web = opened.enter_context(login(database_url, APPLICATION))
                name = str(psycopg.conninfo.conninfo_to_dict(web)["user"])
                through = opened.enter_context(pooler(database_url, name))
                url = psycopg.conninfo.make_conninfo(through, user=name)
            store = opened.enter_context(store_of(url, "ada", **role))
            ops = [PutOp((tenant, "n"), "k", {"text": tenant}) for tenant in ACTORS]
            store.batch(ops)
            assert [item.value["text"] for item in store.search(("ben",), query="x")] == ["ben"]
            assert store.get(("ada", "n"), "k") is not None
            assert left_behind(url) == set()


def test_a_tenant_is_exported_behind_a_pooler_as_of_one_moment(pooled: str, tmp_path: Path) -> None:
    with store_of(pooled, "ada") as store:
        store.setup()
        store.put(("ada", "n"), "k", {"text": "kept"})
        memory = MemoryCoordinator(store, context=MemoryContext(tenant="ada"))
        assert memory.admin.export_tenant(tmp_path / "ada.export").rows["memories"] == 1
    assert left_behind(pooled) == set()


def test_a_checkpointer_behind_a_pooler_keeps_threads_and_leaves_no_limit(pooled: str) -> None:
    with checkpointer_pool(pooled) as connections:
        saver = PostgresSaver(connections)
        saver.setup()
        for turn in range(20):
            config: Any = {"configurable": {"thread_id": f"{turn}", "checkpoint_ns": ""}}
            saver.put(config, empty_checkpoint(), {"step": turn}, {})
            found = saver.get_tuple(config)
            assert found is not None
            assert found.metadata["step"] == turn
    assert left_behind(pooled) == set()


def test_a_checkpointers_transactions_are_told_how_long_they_may_stand_still(
    database_url: str,
) -> None:
    with checkpointer_pool(database_url) as connections, connections.connection() as conn:
        with conn.pipeline():
            shown = conn.execute("SHOW idle_in_transaction_session_timeout")
        assert shown.fetchall() == [{"idle_in_transaction_session_timeout": "5min"}]
        after = conn.execute("SHOW idle_in_transaction_session_timeout")
        assert after.fetchall() == [{"idle_in_transaction_session_timeout": "0"}]
