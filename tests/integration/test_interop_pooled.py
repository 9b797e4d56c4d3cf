"""A tier as a PGVectorStore behind a pooler, with pgvector in a schema of its own."""

from __future__ import annotations

import psycopg
import pytest

from langmem_tiers import TieredStore
from tests.support.opening import text_index
from tests.support.pooler import needs_pooler, pooler

pytestmark = [pytest.mark.peers, needs_pooler]


def test_a_tier_is_searched_behind_a_pooler_wherever_pgvector_is(database_url: str) -> None:
    interop = pytest.importorskip("langmem_tiers.interop")
    with psycopg.connect(database_url, autocommit=True) as conn:
        conn.execute("CREATE SCHEMA extensions")
        conn.execute("CREATE EXTENSION vector SCHEMA extensions")
    with pooler(database_url) as through, TieredStore(through, index=text_index()) as store:
        store.setup()
        store.tier("long_term").put(("ada",), "a", {"text": "black tea"})
        with interop.open_tier(store, "long_term", tenant="ada") as tier:
            for _ in range(20):
                assert [one.page_content for one in tier.similarity_search("tea")] == ["black tea"]
