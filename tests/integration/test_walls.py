"""The wall between tenants: who sees what, what an application's store takes and refuses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import psycopg
import pytest
from langgraph.store.base import BaseStore, GetOp, Op, PutOp, SearchOp
from psycopg.conninfo import conninfo_to_dict

from langmem_tiers import MemoryContext, MemoryCoordinator, TieredStore
from langmem_tiers.core.errors import (
    ConfigurationError,
    DatabaseError,
)
from langmem_tiers.testing import Mode, check_names, run_check
from tests.support.catalog import catalog
from tests.support.coded import coded
from tests.support.opening import (
    Clock,
    FailingEmbeddings,
    Opened,
    empty,
    leave,
    opened_store,
    refusing,
    tables,
    text_index,
)
from tests.support.servers import name_of, sessions, terminate
from tests.support.walls import (
    APPLICATION,
    NAMES_TENANT,
    WORKER,
    login,
    tenants_seen,
    walled_tables,
)

ADA, BEN = ("ada", "notes"), ("ben", "notes")


@pytest.fixture(params=["login", "role"])
def application(request: pytest.FixtureRequest, url: str, clock: Clock) -> Iterator[TieredStore]:
    """A store of an application: connected as one, or as the owner who takes its role."""
    index = text_index()
    if request.param == "role":
        with TieredStore(url, index=index, clock=clock, role="application") as opened:
            yield opened
        return
    with login(url, APPLICATION) as web, TieredStore(web, index=index, clock=clock) as opened:
        yield opened


# What is walled


def test_every_table_that_has_a_tenant_is_walled_also_from_its_owner(url: str) -> None:
    names = walled_tables(url)
    query = "SELECT relrowsecurity AND relforcerowsecurity FROM pg_class WHERE oid = %s::regclass"
    with psycopg.connect(url) as conn:
        walled = {name: conn.execute(query, [name]).fetchone() for name in names}
    assert set(walled.values()) == {(True,)}
    assert {"memory.memories", "working.memories", "long_term.vectors", "memory.states"} <= set(
        names
    )


def test_whoever_names_no_tenant_sees_and_writes_nothing(
    application: TieredStore, url: str
) -> None:
    application.put(ADA, "a", {"text": "the key rotates on Mondays"})
    MemoryCoordinator(application, context=MemoryContext(tenant="ben")).store("Ben has a dog")
    application.get(ADA, "a")
    with login(url, APPLICATION) as web, psycopg.connect(web, autocommit=True) as conn:
        assert [tenants_seen(conn, table) for table in walled_tables(url)] == [set()] * len(
            walled_tables(url)
        )
        with conn.transaction():
            conn.execute(NAMES_TENANT, ["ada"])
            assert tenants_seen(conn, "memory.memories") == {"ada"}
            assert tenants_seen(conn, "working.vectors") == {"ada"}
        assert tenants_seen(conn, "memory.memories") == set()  # what it named has ended
        insert = "INSERT INTO memory.usage (tenant, id) VALUES (%s, 1)"
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"):
            conn.execute(insert, ["ada"])
        with conn.transaction():
            conn.execute(NAMES_TENANT, ["ada"])
            with pytest.raises(psycopg.errors.InsufficientPrivilege), conn.transaction():
                conn.execute(insert, ["ben"])
            with pytest.raises(psycopg.errors.InsufficientPrivilege), conn.transaction():
                conn.execute("UPDATE memory.memories SET tenant = 'ben'")
            assert conn.execute("DELETE FROM memory.memories WHERE tenant = 'ben'").rowcount == 0


def test_an_application_may_do_nothing_but_read_and_write_rows(url: str) -> None:
    forbidden = (
        "TRUNCATE memory.usage",
        "DELETE FROM working.memories",
        "INSERT INTO memory.settings VALUES ('walls', 'null')",
        "ALTER TABLE memory.usage DISABLE ROW LEVEL SECURITY",
        "CREATE TABLE memory.mine (tenant text)",
        "SET ROLE langmem_worker",
        "COPY memory.usage FROM STDIN",
    )
    with login(url, APPLICATION) as web, psycopg.connect(web, autocommit=True) as conn:
        for statement in forbidden:
            with pytest.raises((psycopg.errors.InsufficientPrivilege, psycopg.NotSupportedError)):
                conn.execute(statement.encode())


# What a store of an application does


async def test_langgraphs_calls_work_both_ways_and_the_transaction_of_several_tenants_is_whole(
    application: TieredStore, url: str
) -> None:
    both: list[Op] = [PutOp(ADA, "a", {"text": "tea"}), PutOp(BEN, "b", {"text": "coffee"})]
    assert application.batch(both) == [None, None]
    reads: list[Op] = [
        GetOp(BEN, "b"),
        GetOp(ADA, "a"),
        SearchOp(("ada",), query="tea"),
        GetOp(ADA, "b"),
    ]
    for answer in (application.batch(reads), await application.abatch(reads)):
        ben, ada, found, none = answer
        assert (ben.value["text"], ada.value["text"]) == ("coffee", "tea")  # type: ignore[union-attr]
        assert ([hit.key for hit in found], none) == (["a"], None)  # type: ignore[union-attr]
    assert application.list_namespaces(prefix=("ben",)) == [BEN]
    before = tables(url)
    with refusing(url, unless="tenant <> 'ben'"), pytest.raises(DatabaseError):
        application.batch([PutOp(ADA, "c", {"text": "milk"}), PutOp(BEN, "c", {"text": "milk"})])
    assert tables(url)["memories"] == before["memories"]
    application.move(ADA, "a", "long_term")
    application.delete(BEN, "b")
    assert [row[0] for row in _keys(url)] == ["a"]
    assert {tier.tier.value: tier.accesses for tier in application.stats("ada")}["long_term"] > 0


async def test_tasks_of_several_tenants_share_transactions_and_each_gets_its_own(
    url: str, clock: Clock
) -> None:
    async with TieredStore(url, index=text_index(), clock=clock, role="application") as store:
        tenants = [f"tenant{n % 5}" for n in range(40)]
        await asyncio.gather(
            *(store.aput((one, "p"), f"k{n}", {"text": one}) for n, one in enumerate(tenants))
        )
        got = await asyncio.gather(
            *(store.aget((one, "p"), f"k{n}") for n, one in enumerate(tenants))
        )
        assert [item.value["text"] for item in got if item] == tenants
        others = await asyncio.gather(
            *(store.aget((f"tenant{(n + 1) % 5}", "p"), f"k{n}") for n in range(40))
        )
        assert set(others) == {None}


ACROSS: dict[str, Callable[[TieredStore], object]] = {
    "search": lambda store: store.search((), query="poison"),
    "newest": lambda store: store.search(()),
    "get": lambda store: store.get((), "k"),
    "list": lambda store: store.list_namespaces(),
    "suffix": lambda store: store.list_namespaces(suffix=("notes",)),
    "wildcard": lambda store: store.list_namespaces(prefix=("*", "notes")),
    "batch": lambda store: store.batch([PutOp(ADA, "a", {"text": "poison"}), SearchOp(())]),
    "tier": lambda store: store.tier("working").search(()),
    "stats": lambda store: store.stats(),
    "sweep": lambda store: store.sweep_ttl(),
    "sweeper": lambda store: store.start_ttl_sweeper(),
    "optimize": lambda store: store.optimize(),
}


@pytest.mark.parametrize("what", ACROSS)
def test_what_crosses_tenants_is_refused_before_anything_is_asked(
    what: str, url: str, clock: Clock
) -> None:
    index = {**text_index(), "embed": FailingEmbeddings(64)}
    with TieredStore(url, index=index, clock=clock, role="application") as store:
        with coded("tenant_required", match=r"first label of the namespace.*as a worker"):
            ACROSS[what](store)
        assert index["embed"].failures == 0
        with coded("model_failed"):
            store.search(("ada",), query="poison")


@pytest.mark.slow
@pytest.mark.parametrize("ways", [("sync", "batch"), ("async", "abatch")], ids="-".join)
def test_the_kit_finds_nothing_in_a_store_of_an_application_but_what_crosses_tenants(
    new_url: Callable[[], str], ways: tuple[Opened, Mode]
) -> None:
    url = new_url()

    @asynccontextmanager
    async def make_store(*, index: Any, ttl: Any) -> AsyncIterator[BaseStore]:
        store = TieredStore(url, index=index, ttl=ttl, role="application")
        async with opened_store(store, ways[0]):
            await store.asetup()
            empty(url)
            yield store

    results = [run_check(name, make_store, ways[1]) for name in check_names()]
    leave(url)
    failed = [one for one in results if not one.passed]
    assert [one.message for one in failed if "crosses tenants" not in one.message] == []
    assert len(failed) < len(results) / 5


def test_no_tenant_stays_with_a_connection(application: TieredStore, url: str) -> None:
    application.put(ADA, "a", {"text": "tea"})
    with application.runner._database.pool.connection() as conn:  # type: ignore[union-attr]
        row = conn.execute(
            "SELECT current_setting('langmem_tiers.tenant', true), current_user = session_user"
        ).fetchone()
    assert row in (("", True), (None, True))
    assert sessions(url) == 1


# Other roles


def test_an_owner_and_a_worker_see_all_and_a_worker_tends_what_is_everybodys(
    url: str, clock: Clock
) -> None:
    with TieredStore(url, index=text_index(), clock=clock) as owner, login(url, WORKER) as cron:
        owner.put(ADA, "a", {"text": "tea"})
        owner.put(BEN, "b", {"text": "coffee"}, ttl=1)
        worker = TieredStore(cron, index=text_index(), clock=clock)
        taking = TieredStore(url, index=text_index(), clock=clock, role="worker")
        for store in (owner, worker, taking):
            with store:
                assert {item.key for item in store.search(())} == {"a", "b"}
                assert sorted(store.list_namespaces()) == [ADA, BEN]
                assert store.optimize() == ()
        clock.advance(minutes=2)
        with TieredStore(cron, index=text_index(), clock=clock) as worker:
            assert worker.runner.acting == "worker"
            assert worker.sweep_ttl() == 1
            assert worker.stats("ada")[1].memories == 1
        with psycopg.connect(cron) as conn, pytest.raises(psycopg.errors.InsufficientPrivilege):
            conn.execute("DROP TABLE memory.usage")


def test_roles_are_called_as_told_and_no_other_name_is_taken(database_url: str) -> None:
    named = {"application": "team_b_web", "worker": "team_b_cron"}
    with TieredStore(database_url, index=text_index(), roles=named) as store:
        store.setup()
    with login(database_url, "team_b_web") as web, TieredStore(web, index=text_index()) as store:
        store.put(ADA, "a", {"text": "tea"})
        assert store.runner.acting == "application"
    for bad in (
        {"role": "owner"},
        {"roles": {"application": 'x"; DROP'}},
        {"roles": {"reader": "x"}},
        {"roles": {"application": "pg_monitor"}},
        {"roles": {"application": "one", "worker": "one"}},
    ):
        with pytest.raises(ConfigurationError, match="role"):
            TieredStore(database_url, **bad)


@pytest.mark.parametrize("opened", ["sync", "async"])
async def test_a_call_that_connects_anew_goes_by_the_rights_it_has_then(
    url: str, opened: Opened
) -> None:
    with login(url, APPLICATION) as web, psycopg.connect(url, autocommit=True) as owner:
        role = conninfo_to_dict(web)["user"]
        owner.execute(f"ALTER ROLE {role} BYPASSRLS".encode())
        store = TieredStore(web, index=text_index())
        async with opened_store(store, opened):
            await store.aput(ADA, "a", {"text": "tea"})
            rights = [store.runner.acting]
            owner.execute(f"ALTER ROLE {role} NOBYPASSRLS".encode())
            await asyncio.to_thread(terminate, url)
            assert await store.aget(ADA, "a") is not None
            assert [*rights, store.runner.acting] == ["owner", "application"]


def test_an_embedded_store_can_take_the_role_of_an_application(tmp_path: Any) -> None:
    with TieredStore.embedded(tmp_path, index=text_index(), role="application") as store:
        store.put(ADA, "a", {"text": "tea"})
        assert store.search(("ada",), query="tea")[0].key == "a"
        with coded("tenant_required"):
            store.search(())
    with TieredStore.embedded(tmp_path, index=text_index()) as store:
        assert len(store.search(())) == 1


# Setup


def test_setup_walls_a_database_of_before_and_keeps_what_it_holds(database_url: str) -> None:
    with TieredStore(database_url, index=text_index()) as store:
        store.setup()
        store.put(ADA, "a", {"text": "tea"})
        whole, held = catalog(database_url), tables(database_url)
        _pull_down(database_url)
        assert catalog(database_url) != whole
        store.setup()
        assert (catalog(database_url), tables(database_url)) == (whole, held)
        store.setup()
        assert catalog(database_url) == whole
    with TieredStore(database_url, index=text_index(32), role="application") as other:
        empty(database_url)
        leave(database_url)
        other.setup()  # tables of vectors that are made anew are walled again
        other.put(ADA, "b", {"text": "coffee"})
        assert other.search(("ada",), query="coffee")[0].key == "b"


def test_an_owner_who_may_not_create_roles_does_without_until_somebody_does(
    database_url: str,
) -> None:
    named = {"application": "late_web", "worker": "late_cron"}
    with psycopg.connect(database_url, autocommit=True) as conn:
        conn.execute("CREATE EXTENSION vector")
        with login(database_url) as plain:
            owner = psycopg.conninfo.conninfo_to_dict(plain)["user"]
            conn.execute(f"GRANT CREATE ON DATABASE {name_of(database_url)} TO {owner}".encode())
            with TieredStore(plain, index=text_index(), roles=named) as store:
                store.setup()
                store.setup()
                assert store.runner.acting == "owner"
                store.put(ADA, "a", {"text": "tea"})
                assert len(store.search(())) == 1
                conn.execute("CREATE ROLE late_web; CREATE ROLE late_cron")
                with TieredStore(database_url, index=text_index(), roles=named) as admin:
                    admin.setup()  # whoever runs it, the tables' owner stays who sees all
                assert len(store.search(())) == 1
                assert store.tier("working").search(())[0].key == "a"
            with login(database_url, "late_web") as web, TieredStore(web) as app:
                assert app.get(ADA, "a") is not None
                assert app.get(BEN, "a") is None
            conn.execute("DROP OWNED BY late_web, late_cron; DROP ROLE late_web, late_cron")


def test_a_database_with_the_wall_of_before_gets_what_was_added_to_it(url: str) -> None:
    with TieredStore.from_conn_string(url, index=text_index()) as owner:
        owner.setup()
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute(f"REVOKE EXECUTE ON FUNCTION memory.of_type FROM {APPLICATION}".encode())
        conn.execute("""
            UPDATE memory.settings SET value = jsonb_set(value, '{version}', '2')
            WHERE name = 'walls'""")
        with TieredStore.from_conn_string(url, index=text_index()) as owner:
            owner.setup()
        may = (
            "SELECT has_function_privilege(%s, p.oid, 'EXECUTE') FROM pg_proc p WHERE proname = %s"
        )
        assert conn.execute(may, [APPLICATION, "of_type"]).fetchall() == [(True,)]


def _keys(url: str) -> list[tuple[str]]:
    with psycopg.connect(url) as conn:
        return conn.execute("SELECT key FROM memory.memories ORDER BY 1").fetchall()


def _pull_down(url: str) -> None:
    """Make of a database one that has no wall yet."""
    with psycopg.connect(url, autocommit=True) as conn:
        for table in walled_tables(url):
            for policy in ("own_tenant", "owner", "worker"):
                conn.execute(f"DROP POLICY {policy} ON {table}".encode())
            conn.execute(f"ALTER TABLE {table} DISABLE ROW LEVEL SECURITY".encode())
        conn.execute("DELETE FROM memory.settings WHERE name = 'walls'")
