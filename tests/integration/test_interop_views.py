"""What interop stands on, shown without langchain-postgres: views, and where the database is."""

from __future__ import annotations

import sys
from pathlib import Path

import psycopg
import pytest

from langmem_tiers import TieredStore
from langmem_tiers.core.errors import ConfigurationError, MissingExtraError
from langmem_tiers.interop import open_tier
from tests.support.coordinating import coordinator
from tests.support.opening import text_index

KEY = "The API key rotates on Mondays"


COUNT = "SELECT count(*) FROM working.documents"


def test_a_transaction_that_names_no_tenant_sees_nothing(store: TieredStore, url: str) -> None:
    coordinator(store).store(KEY)
    with psycopg.connect(url) as conn:
        assert conn.execute(COUNT).fetchall() == [(0,)]
        conn.execute("SELECT set_config('langmem_tiers.tenant', 'acme', true)")
        assert conn.execute(COUNT).fetchall() == [(1,)]
        conn.commit()
        assert conn.execute(COUNT).fetchall() == [(0,)]


def test_a_view_goes_by_the_rights_of_its_reader(url: str) -> None:
    with psycopg.connect(url) as conn:
        conn.execute("CREATE ROLE reader")
        conn.execute("GRANT USAGE ON SCHEMA working TO reader")
        conn.execute("GRANT SELECT ON working.documents TO reader")
        conn.execute("SET LOCAL ROLE reader")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            conn.execute(COUNT)
        conn.rollback()


def test_setup_gives_the_view_of_today_to_a_database_of_before(database_url: str) -> None:
    with TieredStore(database_url, index=text_index()) as store:
        store.setup()
        memory = coordinator(store)
        memory.store(KEY, "semantic", key="wrong")
        memory.truth.retract("wrong", reason="never said")
        with psycopg.connect(database_url, autocommit=True) as conn:
            conn.execute("UPDATE memory.settings SET value = '1' WHERE name = 'documents'")
            conn.execute(
                "CREATE OR REPLACE VIEW working.documents AS SELECT m.key AS id, ''::text AS"
                " content, NULL::vector AS embedding, m.value AS metadata FROM working.memories m"
            )
            assert conn.execute(COUNT).fetchall() == [(1,)]
            store.setup()
            conn.execute("SELECT set_config('langmem_tiers.tenant', 'acme', false)")
            assert conn.execute(COUNT).fetchall() == [(0,)]


@pytest.mark.slow
async def test_an_open_store_tells_where_its_database_is_and_a_closed_one_says_so(
    url: str, tmp_path: Path
) -> None:
    blocking, awaiting = TieredStore(url), TieredStore(url)
    with blocking:
        assert blocking.target.conninfo == url
    async with awaiting:
        assert awaiting.target.conninfo == url
    for closed in (blocking, awaiting):
        with pytest.raises(ConfigurationError, match="open it"):
            _ = closed.target
    with TieredStore.embedded(tmp_path) as store, psycopg.connect(store.target.conninfo) as conn:
        assert conn.execute(COUNT).fetchall() == [(0,)]


def test_without_the_extra_the_error_names_it(
    store: TieredStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "langmem_tiers.interop.vector_store", raising=False)
    monkeypatch.delattr("langmem_tiers.interop.vector_store", raising=False)
    monkeypatch.setitem(sys.modules, "langchain_postgres", None)
    command = r'pip install "langmem-tiers\[langchain-postgres\]"'
    with pytest.raises(MissingExtraError, match=command):
        open_tier(store, "working", tenant="acme")
