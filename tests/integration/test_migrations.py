"""Setting a database up: what it creates, what it refuses, and that it leaves no half."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import product
from typing import Any

import psycopg
import pytest

from langmem_tiers import TieredStore
from langmem_tiers.core.config import IndexOptions, StoreOptions
from langmem_tiers.core.errors import ConfigurationError, DatabaseError
from langmem_tiers.core.vectors import VectorOptions
from langmem_tiers.postgres import sql
from tests.support.catalog import SCHEMAS, catalog, migrations_run
from tests.support.coded import coded
from tests.support.coordinating import coordinator
from tests.support.opening import DIMS, text_index
from tests.support.servers import name_of

NAMESPACE = ("acme", "notes")
Url = Callable[[], str]


def opened(url: str, dims: int | None = DIMS, **options: Any) -> TieredStore:
    index = None if dims is None else text_index(dims)
    return TieredStore.from_conn_string(url, **{"index": index, **options})


def set_up(url: str, dims: int | None = DIMS, **options: Any) -> None:
    with opened(url, dims, **options) as store:
        store.setup()


def put_and_find(url: str, dims: int = DIMS, **options: Any) -> None:
    with opened(url, dims, **options) as store:
        store.put(NAMESPACE, "a", {"text": "the key rotates on Mondays"})
        assert [hit.key for hit in store.search(NAMESPACE, query="key rotates")] == ["a"]


def execute(url: str, statements: str) -> None:
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute(statements.encode())


# What is created


def test_setup_records_every_migration_that_ships_and_again_changes_nothing(
    database_url: str,
) -> None:
    noon = datetime(2026, 3, 1, 12, tzinfo=UTC)
    set_up(database_url, dims=32, clock=lambda: noon)
    set_up(database_url)  # another shape is taken while there is no vector
    shipped = [
        (one.version, one.name, one.checksum, noon) for one in sql.migrations(StoreOptions())
    ]
    assert migrations_run(database_url) == shipped
    assert [row[0] for row in catalog(database_url)["schemas"]] == sorted(SCHEMAS)
    put_and_find(database_url)
    before = catalog(database_url)
    set_up(database_url)
    assert (catalog(database_url), migrations_run(database_url)) == (before, shipped)
    put_and_find(database_url)


def test_a_setup_without_an_index_is_completed_by_one_with_an_index(new_database: Url) -> None:
    stepwise, direct = new_database(), new_database()
    set_up(stepwise, dims=None)
    set_up(stepwise)
    set_up(direct)
    assert catalog(stepwise) == catalog(direct)
    put_and_find(stepwise)
    set_up(stepwise, dims=None)
    assert catalog(stepwise) == catalog(direct)


def test_two_prefixes_share_a_database_and_see_nothing_of_each_other(database_url: str) -> None:
    set_up(database_url, dims=64)
    before = catalog(database_url)
    set_up(database_url, dims=32, schema_prefix="team_b_")
    put_and_find(database_url, dims=32, schema_prefix="team_b_")
    assert catalog(database_url) == before
    with opened(database_url) as store:
        assert store.search(()) == []
        put_and_find(database_url)
        assert len(store.search(())) == 1


# What is refused


def test_a_migration_changed_after_it_ran_and_one_from_the_future_are_refused(
    database_url: str,
) -> None:
    set_up(database_url)
    future = "INSERT INTO memory.migrations VALUES (9999, 'from_the_future', 'x', now())"
    changed = """DELETE FROM memory.migrations WHERE version = 9999;
                 UPDATE memory.migrations SET checksum = 'other' WHERE version = 18"""
    for change, said in ((future, "upgrade langmem-tiers"), (changed, "restore the file")):
        execute(database_url, change)
        with coded("migration", match=said):
            set_up(database_url)


TOO_OLD = """
CREATE SCHEMA memory;
CREATE TABLE memory.migrations (
    version integer PRIMARY KEY, name text NOT NULL, checksum text NOT NULL,
    applied_at timestamptz NOT NULL);
INSERT INTO memory.migrations
SELECT n, 'of_old_' || n, 'x', now() FROM generate_series(1, 17) n;
CREATE TABLE memory.memories (tenant text, key text, value jsonb);
INSERT INTO memory.memories VALUES ('acme', 'a', '{}')
"""


def test_a_database_older_than_the_first_migration_is_refused_and_left_alone(
    database_url: str,
) -> None:
    execute(database_url, TOO_OLD)
    before = catalog(database_url), migrations_run(database_url)
    with coded("migration", match=r"version 17, older.*schema_prefix of its own"):
        set_up(database_url)
    assert (catalog(database_url), migrations_run(database_url)) == before
    set_up(database_url, schema_prefix="new_")
    put_and_find(database_url, schema_prefix="new_")
    assert catalog(database_url) == before[0]


FIRST_USES: dict[str, Callable[[TieredStore], object]] = {
    "search": lambda store: store.search(NAMESPACE, query="key"),
    "everywhere": lambda store: store.search((), query="key"),
    "put": lambda store: store.put(NAMESPACE, "b", {"text": "of another size"}),
    "recall": lambda store: coordinator(store).get_context("key"),
    "optimize": lambda store: store.optimize(),
    "setup": lambda store: store.setup(),
}


@pytest.mark.slow
def test_vectors_of_another_shape_are_refused_at_setup_and_at_first_use(database_url: str) -> None:
    set_up(database_url)
    put_and_find(database_url)
    other_kind = text_index(ann_index_config={"vector_type": "vector"})
    for use, index in product(FIRST_USES.values(), (text_index(32), other_kind)):
        with (
            opened(database_url, index=index) as store,
            coded("dimension_mismatch", match=r"index\['dims'\] = 64"),
        ):
            use(store)
        put_and_find(database_url)


def test_a_database_set_up_without_an_index_says_so(database_url: str) -> None:
    set_up(database_url, dims=None)
    uses = [FIRST_USES[name] for name in ("search", "put", "recall", "optimize")]
    with opened(database_url) as store:
        for use in uses:
            with coded("not_set_up", match=r"setup\(\)"):
                use(store)
        store.setup()
        for use in uses:
            use(store)


# The language of the words


def speaking(url: str, language: str, **index: Any) -> TieredStore:
    return opened(url, index={**(index or text_index()), "language": language})


def language_of(url: str) -> list[Any]:
    with psycopg.connect(url) as conn:
        query = "SELECT value FROM memory.settings WHERE name = 'language'"
        return [row[0] for row in conn.execute(query).fetchall()]


def test_another_language_is_refused_at_setup_and_at_first_use(database_url: str) -> None:
    with speaking(database_url, "english") as store:
        store.setup()
        store.put(NAMESPACE, "a", {"text": "the keys rotate"})
    for name in ("search", "put", "recall", "setup"):
        for index in ({}, {"fields": ["text"]}):
            with (
                speaking(database_url, "german", **index) as store,
                pytest.raises(ConfigurationError, match=r"index\['language'\] = 'english'"),
            ):
                FIRST_USES[name](store)
    assert language_of(database_url) == ["english"]
    with speaking(database_url, "english") as store:
        store.setup()
        (found,) = coordinator(store, NAMESPACE[0], project_id=NAMESPACE[1]).get_context("rotating")
        assert found.evidence["own"] > 0


def test_another_language_is_taken_while_no_word_is_stored_or_it_is_not_known(
    database_url: str,
) -> None:
    set_up(database_url)
    with speaking(database_url, "english") as store:
        store.put(NAMESPACE, "a", {"text": "not indexed"}, index=False)
    with speaking(database_url, "german") as store:
        store.setup()
        store.put(NAMESPACE, "b", {"text": "die Schlüssel"})
    assert language_of(database_url) == ["german"]
    set_up(database_url, dims=None)
    assert language_of(database_url) == ["german"]
    execute(database_url, "DELETE FROM memory.settings WHERE name = 'language'")
    with speaking(database_url, "german") as store:
        store.put(NAMESPACE, "c", {"text": "das Schloss"})
        store.setup()
    assert language_of(database_url) == ["german"]


# Rights


@pytest.fixture
def role(database_url: str) -> Iterator[str]:
    """A role that may log in and nothing else; dropped after the test."""
    execute(database_url, "CREATE ROLE plain LOGIN")
    yield psycopg.conninfo.make_conninfo(database_url, user="plain")
    execute(database_url, "DROP OWNED BY plain; DROP ROLE plain")


def test_a_role_that_may_not_install_the_extension_can_use_an_installed_one(
    database_url: str, role: str
) -> None:
    with pytest.raises(
        DatabaseError,
        match=r"(?s)permission denied.*CREATE EXTENSION vector;\n.*CREATE SCHEMA memory",
    ):
        set_up(role)
    execute(database_url, f"GRANT CREATE ON DATABASE {name_of(database_url)} TO plain")
    with pytest.raises(DatabaseError, match=r"\n\n    CREATE EXTENSION vector;\n\nand call"):
        set_up(role)
    assert catalog(database_url)["schemas"] == []
    execute(database_url, "CREATE EXTENSION vector")
    set_up(role)
    put_and_find(role)


def test_a_role_that_may_only_use_the_tables_can_run_setup_on_a_ready_database(
    database_url: str, role: str
) -> None:
    set_up(database_url)
    schemas = ", ".join(SCHEMAS)
    for right, on in (
        ("USAGE", "SCHEMA"),
        ("SELECT, INSERT, UPDATE, DELETE", "ALL TABLES IN SCHEMA"),
        ("USAGE", "ALL SEQUENCES IN SCHEMA"),
    ):
        execute(database_url, f"GRANT {right} ON {on} {schemas} TO plain")
    put_and_find(role)
    set_up(role)


# Half


def test_a_setup_that_fails_in_the_middle_leaves_everything_as_it_was(database_url: str) -> None:
    for obstacle in (
        "CREATE EXTENSION vector; CREATE SCHEMA long_term; CREATE TABLE long_term.memories (a int)",
        """CREATE SCHEMA memory; CREATE TABLE memory.vectors (mine int);
           CREATE VIEW memory.depends AS SELECT * FROM memory.vectors""",
    ):
        execute(database_url, obstacle)
        before = catalog(database_url)
        with pytest.raises(DatabaseError):
            set_up(database_url)
        assert catalog(database_url) == before
        execute(database_url, "DROP SCHEMA IF EXISTS memory, long_term CASCADE")
    set_up(database_url)
    put_and_find(database_url)


# Statements


def test_every_statement_prepares_on_the_migrated_database(url: str) -> None:
    vector = VectorOptions(dims=DIMS)
    statements = sql.statements(StoreOptions(index=IndexOptions(vector=vector)), vector)
    query = "SELECT cardinality(parameter_types) FROM pg_prepared_statements WHERE name = 'checked'"
    with psycopg.connect(url) as conn:
        for name, statement in statements.items():
            text = statement.text.removeprefix(b"DECLARE carried NO SCROLL CURSOR FOR\n")
            if text.startswith((b"FETCH", b"CLOSE")):
                continue  # what is asked of a cursor has no plan
            conn.execute(b"PREPARE checked AS " + text)
            assert conn.execute(query).fetchall() == [(len(statement.names),)], name
            conn.execute(b"DEALLOCATE checked")
