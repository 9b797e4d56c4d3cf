"""Every statement of queries.sql can be prepared on the migrated database."""

from __future__ import annotations

import re

import psycopg
import pytest

from langmem_tiers import sql
from langmem_tiers.config import IndexOptions, StoreOptions, VectorOptions
from tests.support.opening import DIMS

VECTOR = VectorOptions(dims=DIMS)
STATEMENTS = sql.statements(StoreOptions(index=IndexOptions(vector=VECTOR)), VECTOR)


def numbered(statement: str) -> str:
    """The statement with $1, $2, … for its named parameters, one number a name."""
    names: dict[str, int] = {}

    def number(match: re.Match[str]) -> str:
        return f"${names.setdefault(match[1], len(names) + 1)}"

    return re.sub(r"%\((\w+)\)[sb]", number, statement).replace("%%", "%")


@pytest.mark.parametrize("name", sorted(STATEMENTS))
def test_the_statement_prepares(url: str, name: str) -> None:
    with psycopg.connect(url) as conn:
        conn.execute(f"PREPARE checked AS {numbered(STATEMENTS[name])}".encode())
        found = conn.execute("SELECT count(*) FROM pg_prepared_statements WHERE name = 'checked'")
        assert found.fetchone() == (1,)
