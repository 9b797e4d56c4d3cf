"""The statement that lists turns reads no more than it answers, analysed or not."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from langmem_tiers import MemoryOrchestrator, TieredStore
from langmem_tiers.testing import TrigramEmbeddings
from tests.support.coordinating import coordinator
from tests.support.opening import text_index
from tests.support.plans import calls_of, indexes, named, plan, rows_read, sequential
from tests.support.servers import fresh_database

_FILL = """
INSERT INTO memory.events (tenant, event, kind, at, detail)
SELECT 'tenant' || t, 'turn/t' || n || '/' || lpad(e::text, 6, '0'),
       CASE WHEN e < 3 THEN 'memorized' WHEN n % 50 = 0 THEN 'abandoned' ELSE 'committed' END,
       timestamptz '2026-01-01' + n * interval '1 minute',
       jsonb_build_object('turn', 't' || n, 'reasons', '["why"]'::jsonb,
                          'session_id', 's' || n % 40, 'project_id', 'p' || n % 25)
FROM generate_series(1, 10) t, generate_series(1, 1000) n, generate_series(0, 3) e;
"""


@pytest.fixture(scope="module", params=["analysed", "never analysed"])
def store(request: pytest.FixtureRequest, server_url: str) -> Iterator[TieredStore]:
    """Ten tenants of a thousand turns."""
    index = text_index(dims=16, embed=TrigramEmbeddings(16))
    with (
        fresh_database(server_url) as url,
        TieredStore.from_conn_string(url, index=index) as opened,
    ):
        opened.setup()
        with psycopg.connect(url, autocommit=True) as conn:
            conn.execute("ALTER TABLE memory.events SET (autovacuum_enabled = off)")
            conn.execute(_FILL.encode())
            if request.param == "analysed":
                conn.execute("VACUUM ANALYZE")
        yield opened


@pytest.mark.parametrize(
    ("index", "project", "session"),
    [
        ("events_ended", None, None),
        ("events_ended_session", None, "s7"),
        ("events_ended_session", None, "nobody's"),
        ("events_ended_project", "p7", None),
        ("events_ended_project", "nobody's", None),
    ],
)
def test_the_latest_turns_are_read_off_an_index(
    store: TieredStore, index: str, project: str | None, session: str | None
) -> None:
    listing = MemoryOrchestrator(coordinator(store, "tenant7", project_id=project))
    call = named(calls_of(store, lambda: listing.turns(20, session_id=session)), "turns_ended")
    root = plan(store, call, "force_generic_plan")  # what a store asks for

    assert sequential(root) == []
    assert index in indexes(root)
    assert root["Actual Rows"] == (0 if "nobody's" in (project, session) else 20)
    assert rows_read(root) <= 30
