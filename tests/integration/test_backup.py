"""Backups by pg_dump of a database whose tenants are walled, and restoring them."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from typer.testing import CliRunner

from langmem_tiers import (
    CoordinatorSettings,
    EmbeddedPostgres,
    MemoryContext,
    MemoryCoordinator,
    TieredStore,
)
from langmem_tiers.cli.app import app
from langmem_tiers.postgres.cluster import programs_of
from tests.support.catalog import SCHEMAS
from tests.support.opening import text_index
from tests.support.servers import own_server
from tests.support.walls import APPLICATION, WORKER

OWNER = "keeper"
ROLES = (
    f"CREATE ROLE {OWNER} LOGIN",
    f"CREATE ROLE {APPLICATION} NOLOGIN",
    f"CREATE ROLE {WORKER} NOLOGIN",
    f"CREATE DATABASE walled OWNER {OWNER}",
)
LOGINS = {
    "web": f"CREATE ROLE web LOGIN IN ROLE {APPLICATION}",
    "backup": f"CREATE ROLE backup LOGIN IN ROLE {WORKER}, pg_read_all_data",
    "looks_over": "CREATE ROLE looks_over LOGIN BYPASSRLS IN ROLE pg_read_all_data",
}
WALLED = "--enable-row-security"


def program(name: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a client program of the server's own version."""
    version: Any = int(os.environ.get("LANGMEM_TIERS_TEST_PG", "18"))
    command = [programs_of(version) / name, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def sent(url: str, *statements: str) -> None:
    with psycopg.connect(url, autocommit=True) as conn:
        for statement in statements:
            conn.execute(statement.encode())


def prepared(server: EmbeddedPostgres) -> str:
    """Prepare a database as an administrator does; return the owner's URL."""
    sent(server.url, *ROLES)
    sent(make_conninfo(server.url, dbname="walled"), "CREATE EXTENSION vector")
    return make_conninfo(server.url, dbname="walled", user=OWNER)


def opened(url: str) -> TieredStore:
    return TieredStore(url, index=text_index(fields=["content"]), exact_limit=1)


def memory_of(store: TieredStore, tenant: str) -> MemoryCoordinator:
    settings = CoordinatorSettings(query_timeout_ms=10_000)  # the server has only just begun
    context = MemoryContext(tenant=tenant, user_id="ann")
    return MemoryCoordinator(store, context=context, settings=settings)


@pytest.fixture(scope="module")
def owner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Give the URL of the owner of a filled database."""
    with own_server(tmp_path_factory.mktemp("source")) as server:
        url = prepared(server)
        sent(server.url, *LOGINS.values())
        with opened(url) as store:
            store.setup()
            for tenant in ("acme", "umbrella"):
                memory = memory_of(store, tenant)
                memory.store(f"{tenant} rotates its API key on Mondays.", "semantic")
                memory.store("Ann said ½ · ünï\\ \t «it»", "episodic", session_id="s")
                gone = memory.store("Nobody needs to know this.", "semantic")
                memory.forget(key=gone.key)
            store.optimize()
        yield url


def tables(url: str) -> dict[str, Any]:
    """Return every row of every table, and the objects around them."""
    with psycopg.connect(url) as conn:
        names = conn.execute(
            "SELECT c.oid::regclass::text FROM pg_class c JOIN pg_namespace n ON "
            "n.oid = c.relnamespace WHERE n.nspname = ANY (%s) AND c.relkind = 'r'",
            [SCHEMAS],
        ).fetchall()
        found: dict[str, Any] = {}
        for (name,) in names:
            query = f"SELECT t::text FROM {name} t ORDER BY 1"  # noqa: S608 - names of ours
            found[name] = conn.execute(query.encode()).fetchall()
        for view in ("pg_indexes", "pg_policies", "pg_views", "pg_sequences"):
            query = f"SELECT t::text FROM {view} t WHERE schemaname = ANY (%s) ORDER BY 1"  # noqa: S608
            found[view] = conn.execute(query.encode(), [SCHEMAS]).fetchall()
        triggers = "SELECT pg_get_triggerdef(oid), tgenabled FROM pg_trigger ORDER BY 1"
        found["triggers"] = [row for row in conn.execute(triggers) if "RI_FKey" not in row[0]]
        return found


def dumped(owner: str, to: Path, who: str, *options: str) -> subprocess.CompletedProcess[str]:
    url = make_conninfo(owner, user=who)
    return program("pg_dump", "--format=custom", *options, "--file", to, "--dbname", url)


def test_without_saying_so_the_owner_gets_an_error_and_an_application_no_row(
    owner: str, tmp_path: Path
) -> None:
    refused = dumped(owner, tmp_path / "owner", OWNER)
    assert refused.returncode != 0
    assert "row-level security" in refused.stderr
    for options in ((), (WALLED,)):
        assert dumped(owner, tmp_path / "web", "web", *options).returncode != 0


@pytest.mark.parametrize(
    ("who", "options"), [(OWNER, [WALLED]), ("backup", [WALLED]), ("looks_over", [])]
)
def test_what_is_restored_on_another_server_has_every_row_and_works(
    owner: str, tmp_path: Path, who: str, options: list[str]
) -> None:
    file = tmp_path / "coordinator.dump"
    done = dumped(owner, file, who, *options)
    assert (done.returncode, done.stderr) == (0, "")
    with own_server(tmp_path) as server:
        restored = prepared(server)
        done = program("pg_restore", "--exit-on-error", "--no-comments", "-d", restored, file)
        assert (done.returncode, done.stderr) == (0, "")
        assert tables(restored) == tables(owner)
        sent(server.url, LOGINS["web"])
        web = make_conninfo(restored, user="web")
        result = CliRunner().invoke(app, ["doctor", "--url", web])
        assert result.exit_code == 0, result.stdout
        with opened(restored) as store, opened(web) as walled:
            store.setup()
            assert tables(restored) == tables(owner), "there is nothing left to set up"
            goes_on(store, "acme")
            goes_on(walled, "umbrella")


def goes_on(store: TieredStore, tenant: str) -> None:
    """Find a tenant's memories, store more, and check that the log stays whole."""
    memory = memory_of(store, tenant)
    log = MemoryCoordinator(store, context=MemoryContext(tenant=tenant))
    assert log.admin.verify_audit()
    found = memory.get_context("When does the API key rotate?")
    assert found[0].content == f"{tenant} rotates its API key on Mondays."
    memory.store("The new server stands in Turin.", "semantic")
    assert memory.get_context("Where does the new server stand?")
    store.put((tenant,), "k", {"content": "tea"})
    assert log.admin.verify_audit()


@pytest.mark.parametrize("superuser", [False, True])
def test_doctor_says_how_a_backup_is_made(owner: str, *, superuser: bool) -> None:
    change: Literal["SUPERUSER", "NOSUPERUSER"] = "SUPERUSER" if superuser else "NOSUPERUSER"
    admin = make_conninfo(owner, user="postgres")
    sent(admin, f"ALTER ROLE {OWNER} {change}")
    try:
        result = CliRunner().invoke(app, ["doctor", "--url", make_conninfo(owner, user="web")])
        told = " ".join(result.stdout.split())
        assert f"pg_dump{'' if superuser else ' ' + WALLED} as {OWNER}" in told
        document = json.loads(CliRunner().invoke(app, ["doctor", "--json", "--url", owner]).stdout)
        assert (WALLED in document["backup"]) is not superuser
    finally:
        sent(admin, f"ALTER ROLE {OWNER} NOSUPERUSER")
    assert conninfo_to_dict(owner)["user"] == OWNER
