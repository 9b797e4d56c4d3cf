"""Every statement can be prepared on the migrated database."""

from __future__ import annotations

import psycopg

from langmem_tiers.core.config import IndexOptions, StoreOptions
from langmem_tiers.core.vectors import VectorOptions
from langmem_tiers.postgres import sql
from tests.support.opening import DIMS

VECTOR = VectorOptions(dims=DIMS)
STATEMENTS = sql.statements(StoreOptions(index=IndexOptions(vector=VECTOR)), VECTOR)


def test_every_statement_prepares(url: str) -> None:
    query = "SELECT cardinality(parameter_types) FROM pg_prepared_statements WHERE name = 'checked'"
    with psycopg.connect(url) as conn:
        for name, statement in STATEMENTS.items():
            wanted = [(len(statement.names),)]
            conn.execute(b"PREPARE checked AS " + statement.text)
            assert conn.execute(query).fetchall() == wanted, name
            conn.execute(b"DEALLOCATE checked")
