"""The statements: each is used, each is filled in, and none is built at run time."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import langmem_tiers
from benchmarks import sent_sql
from langmem_tiers.core.config import StoreOptions
from langmem_tiers.core.vectors import Distance, VectorOptions
from langmem_tiers.postgres import sql

PACKAGE = Path(langmem_tiers.__file__).parent
QUERIES = "\n".join(
    (PACKAGE / "postgres" / "sql" / name).read_text(encoding="utf-8") for name in sql._FILES
)


def texts(options: StoreOptions, vector: VectorOptions | None = None) -> dict[str, str]:
    return {name: one.text.decode() for name, one in sql.statements(options, vector).items()}


def sources() -> str:
    return "\n".join(path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py"))


def test_what_is_sent_can_be_read_in_full() -> None:
    assert sent_sql.FILE.read_text(encoding="utf-8") == sent_sql.generated(), "run `make sql`"


def test_every_statement_is_used() -> None:
    names = set(re.findall(r"^-- name: (\w+)", QUERIES, re.MULTILINE))
    used = set(re.findall(r'"(\w+)"', sources()))
    assert sorted(names - used) == []


@pytest.mark.parametrize("distance", list(Distance))
@pytest.mark.parametrize("vector_type", ["vector", "halfvec"])
def test_statements_are_filled_in_whole(distance: Distance, vector_type: str) -> None:
    options = StoreOptions(schema_prefix="my_")
    vector = VectorOptions(dims=3, distance=distance, vector_type=vector_type)
    loaded = texts(options, vector)
    for text in loaded.values():
        assert not re.search(r"\{\w+\}", text.replace("'{}'", ""))
        assert not re.search(r"(?<!my_)\bmemory\.", text)
    assert distance.operator in loaded["search_exact_tenant"]
    assert f"::{vector_type}" in loaded["put_vectors"]


def test_scopes_of_every_tenant_read_no_tenant() -> None:
    for name, one in sql.statements(StoreOptions(), None).items():
        if "everywhere" in name:
            assert not {"tenant", "low", "high"} & set(one.names), name


def test_no_statement_reads_a_clock() -> None:
    for text in texts(StoreOptions()).values():
        assert not re.search(r"\bnow\(\)|current_timestamp", text, re.IGNORECASE)


def test_migrations_are_numbered_without_gaps_and_their_checksums_do_not_depend_on_the_prefix() -> (
    None
):
    plain = sql.migrations(StoreOptions())
    other = sql.migrations(StoreOptions(schema_prefix="x_"))
    assert [one.version for one in plain] == list(range(18, 18 + len(plain)))
    assert [one.checksum for one in plain] == [one.checksum for one in other]
    assert all("x_memory" in one.text for one in other)


def test_the_widest_covering_index_fits_a_b_tree_tuple() -> None:
    assert VectorOptions(dims=384).fits_btree
    assert VectorOptions(dims=1024, vector_type="halfvec").fits_btree
    assert not VectorOptions(dims=1536).fits_btree
    assert "INCLUDE" in sql.vector_tables(StoreOptions(), VectorOptions(dims=384))
    assert "INCLUDE" not in sql.vector_tables(StoreOptions(), VectorOptions(dims=1536))
