"""`langmem-tiers doctor`: it proves the wall between tenants, and finds each hole in it."""

from __future__ import annotations

import json
from typing import Any

import psycopg
import pytest
from typer.testing import CliRunner

from langmem_tiers import TieredStore
from langmem_tiers.cli.app import app
from tests.support.opening import text_index
from tests.support.walls import APPLICATION, WORKER, login


def doctor(url: str, *arguments: str) -> Any:
    return CliRunner().invoke(app, ["doctor", "--url", url, *arguments])


def failing(url: str) -> set[str]:
    """The checks that fail for a login; the exit code says whether any does."""
    result = doctor(url, "--json")
    document = json.loads(result.stdout)
    failed = {one["check"] for one in document["checks"] if not one["ok"]}
    assert (result.exit_code, document["ok"]) == (1 if failed else 0, not failed)
    assert all(one["found"] and one["advice"] for one in document["checks"] if not one["ok"])
    return failed


@pytest.fixture
def filled(database_url: str) -> str:
    """A database with rows of two tenants."""
    with TieredStore(database_url, index=text_index()) as store:
        store.setup()
        for tenant in ("ada", "ben"):
            store.put((tenant,), "k", {"text": "tea"})
            store.get((tenant,), "k")
    return database_url


def test_the_wall_holds_for_an_application_and_for_no_other_login(filled: str) -> None:
    with login(filled, APPLICATION) as web, login(filled, WORKER) as cron:
        assert failing(web) == set()
        shown = doctor(web)
        assert (shown.exit_code, "FAILS" in shown.stdout) == (0, False)
        assert failing(filled) >= {"the login is no superuser", "the login is not the owner"}
        assert "FAILS" in doctor(filled).stdout
        assert failing(cron) >= {"the login is no worker", "who names no tenant sees no row"}
    with login(filled) as nobody:
        result = doctor(nobody)
        assert (result.exit_code, len(result.stderr.splitlines())) == (2, 1)


WALLED = "every table with a tenant is walled"
SOUND = "its policies show one tenant's rows"
BLIND = "who names no tenant sees no row"
NARROW = "rights are no wider than needed"
LOGGED = "what is written is logged"
CLOSED = "functions with the owner's rights are closed"

HOLES: dict[str, tuple[str, str, set[str]]] = {
    "a table": (
        "ALTER TABLE memory.memories DISABLE ROW LEVEL SECURITY",
        "ALTER TABLE memory.memories ENABLE ROW LEVEL SECURITY",
        {WALLED, BLIND},
    ),
    "a partition": (
        "ALTER TABLE working.memories DISABLE ROW LEVEL SECURITY",
        "ALTER TABLE working.memories ENABLE ROW LEVEL SECURITY",
        {WALLED, BLIND},
    ),
    "an owner": (
        "ALTER TABLE memory.usage NO FORCE ROW LEVEL SECURITY",
        "ALTER TABLE memory.usage FORCE ROW LEVEL SECURITY",
        {WALLED},
    ),
    "a new table": (
        "CREATE TABLE memory.notes (tenant text)",
        "DROP TABLE memory.notes",
        {WALLED, SOUND},
    ),
    "a policy": (
        "CREATE POLICY more ON memory.usage USING (true)",
        "DROP POLICY more ON memory.usage",
        {SOUND, BLIND},
    ),
    "another condition": (
        "ALTER POLICY own_tenant ON memory.usage USING (tenant <> '')",
        """ALTER POLICY own_tenant ON memory.usage USING (coalesce(tenant = (
           SELECT nullif(current_setting('langmem_tiers.tenant', true), '')), false))""",
        {SOUND, BLIND},
    ),
    "a right": (
        f"GRANT TRUNCATE ON memory.usage TO {APPLICATION}",
        f"REVOKE TRUNCATE ON memory.usage FROM {APPLICATION}",
        {NARROW},
    ),
    "a right on the log": (
        f"GRANT DELETE ON memory.audit TO {APPLICATION}",
        f"REVOKE DELETE ON memory.audit FROM {APPLICATION}",
        {NARROW},
    ),
    "a trigger": (
        "ALTER TABLE ONLY memory.memories DISABLE TRIGGER audit_delete",
        "ALTER TABLE ONLY memory.memories ENABLE TRIGGER audit_delete",
        {LOGGED},
    ),
    "what chains": (
        "ALTER TABLE memory.audit DISABLE TRIGGER USER",
        "ALTER TABLE memory.audit ENABLE TRIGGER USER",
        {LOGGED},
    ),
    "a right of everybody": (
        "GRANT CREATE ON SCHEMA memory TO PUBLIC",
        "REVOKE CREATE ON SCHEMA memory FROM PUBLIC",
        {NARROW},
    ),
    "a function": (
        "GRANT EXECUTE ON FUNCTION memory.gone TO PUBLIC",
        "REVOKE EXECUTE ON FUNCTION memory.gone FROM PUBLIC",
        {CLOSED},
    ),
    "a search path": (
        "ALTER FUNCTION memory.gone SET search_path = public",
        "ALTER FUNCTION memory.gone SET search_path = pg_catalog, pg_temp",
        {CLOSED},
    ),
}


def test_each_hole_is_found_and_none_is_left_once_it_is_closed(filled: str) -> None:
    with login(filled, APPLICATION) as web, psycopg.connect(filled, autocommit=True) as conn:
        for hole, (opened, closed, expected) in HOLES.items():
            conn.execute(opened.encode())
            assert failing(web) == expected, hole
            conn.execute(closed.encode())
            assert failing(web) == set(), hole
        user = psycopg.conninfo.conninfo_to_dict(web)["user"]
        conn.execute(f"ALTER ROLE {user} BYPASSRLS".encode())
        assert failing(web) == {"the login has no BYPASSRLS"}  # the role it would take has not


def test_what_setup_made_is_made_again_as_the_advice_says(filled: str) -> None:
    with login(filled, APPLICATION) as web, psycopg.connect(filled, autocommit=True) as conn:
        conn.execute("ALTER TABLE memory.usage DISABLE ROW LEVEL SECURITY")
        conn.execute(f"GRANT TRUNCATE ON memory.usage TO {APPLICATION}".encode())
        assert failing(web) == {WALLED, BLIND, NARROW}
        conn.execute("DELETE FROM memory.settings WHERE name = 'walls'")
        with TieredStore(filled, index=text_index()) as store:
            store.setup()
        assert failing(web) == set()


def test_a_database_without_tables_says_so(database_url: str) -> None:
    result = doctor(database_url)
    assert (result.exit_code, len(result.stderr.splitlines())) == (2, 1)
    assert "setup" in result.stderr
