"""Every statement can be prepared on the migrated database."""

from __future__ import annotations

import psycopg
import pytest

from langmem_tiers.core.config import IndexOptions, StoreOptions, VectorOptions
from langmem_tiers.postgres import sql
from tests.support.opening import DIMS

VECTOR = VectorOptions(dims=DIMS)
STATEMENTS = sql.statements(StoreOptions(index=IndexOptions(vector=VECTOR)), VECTOR)


@pytest.mark.parametrize("name", sorted(STATEMENTS))
def test_the_statement_prepares(url: str, name: str) -> None:
    with psycopg.connect(url) as conn:
        conn.execute(b"PREPARE checked AS " + STATEMENTS[name].text)
        query = "SELECT cardinality(parameter_types) FROM pg_prepared_statements"
        assert conn.execute(query).fetchall() == [(len(STATEMENTS[name].names),)]
