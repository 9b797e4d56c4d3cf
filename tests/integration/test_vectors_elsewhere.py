"""pgvector in a schema of its own, as on managed services, and roles that look elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from langgraph.store.base import PutOp
from psycopg.conninfo import conninfo_to_dict

from langmem_tiers import MemoryContext, MemoryCoordinator, Tier, TieredStore
from langmem_tiers.core.errors import DatabaseError
from tests.support.catalog import SCHEMAS
from tests.support.opening import text_index
from tests.support.walls import APPLICATION, login

SPACE = ("ada", "notes")


def execute(url: str, *statements: str) -> None:
    with psycopg.connect(url, autocommit=True) as conn:
        for statement in statements:
            conn.execute(statement.encode())


def name_in(url: str) -> str:
    return str(conninfo_to_dict(url)["user"])


@pytest.fixture
def elsewhere(database_url: str) -> str:
    """Give a database whose pgvector is in the schema `extensions`."""
    execute(database_url, "CREATE SCHEMA extensions", "CREATE EXTENSION vector SCHEMA extensions")
    return database_url


@pytest.fixture
def owner(elsewhere: str) -> Iterator[str]:
    """Give a role without CREATE on the database; an administrator has made its schemas."""
    with login(elsewhere) as url:
        name = name_in(url)
        made = (f"CREATE SCHEMA {schema} AUTHORIZATION {name}" for schema in SCHEMAS)
        execute(elsewhere, *made, f"GRANT USAGE ON SCHEMA extensions TO {name}")
        yield url


def use(url: str, **options: Any) -> None:
    """Use all that names vectors: put, search, recall, an import and an index."""
    with TieredStore(url, index=text_index(), exact_limit=10, **options) as store:
        store.batch([PutOp(SPACE, f"{n}", {"text": f"note {n}"}) for n in range(20)])
        assert store.search(SPACE, query="note 7", limit=1)[0].key == "7"
        memory = MemoryCoordinator(store, context=MemoryContext(tenant="ada", project_id="p"))
        memory.store("Rex is a dog")
        assert memory.get_context("who is Rex?")


def test_a_store_works_with_pgvector_in_another_schema_whatever_the_role_looks_in(
    elsewhere: str,
) -> None:
    database = conninfo_to_dict(elsewhere)["dbname"]
    for path in ('"$user", public', "nowhere", "''"):
        execute(elsewhere, f"ALTER DATABASE {database} SET search_path = {path}")
        with TieredStore(elsewhere, index=text_index(), exact_limit=10) as store:
            store.setup()
        use(elsewhere)
    with TieredStore(elsewhere, index=text_index(), exact_limit=10) as store:
        assert store.optimize() == (Tier.WORKING,)
    use(elsewhere)
    with psycopg.connect(elsewhere) as conn:
        types = "SELECT typnamespace::regnamespace::text FROM pg_type WHERE typname = 'halfvec'"
        assert conn.execute(types).fetchall() == [("extensions",)]


def test_a_role_without_create_sets_up_where_all_that_it_may_not_create_exists(owner: str) -> None:
    with TieredStore(owner, index=text_index()) as store:
        store.setup()
        store.setup()
    use(owner)


def test_an_application_that_looks_elsewhere_finds_vectors(elsewhere: str) -> None:
    with TieredStore(elsewhere, index=text_index()) as store:
        store.setup()
    with login(elsewhere, APPLICATION) as web:
        execute(elsewhere, f"ALTER ROLE {name_in(web)} SET search_path = nowhere")
        use(web)


def test_names_that_a_role_finds_first_elsewhere_are_not_taken_for_postgres_own(
    elsewhere: str,
) -> None:
    with TieredStore(elsewhere, index=text_index()) as store:
        store.setup()
    mine = """CREATE FUNCTION public.to_tsvector(regconfig, text) RETURNS tsvector
              LANGUAGE sql AS $$ SELECT ''::tsvector $$"""
    execute(elsewhere, mine)
    with login(elsewhere, APPLICATION) as web:
        execute(elsewhere, f"ALTER ROLE {name_in(web)} SET search_path = public, pg_catalog")
        use(web)
        with TieredStore(web, index={"fields": ["text"]}) as store:
            store.put(SPACE, "words", {"text": "a zebra"})
            assert [item.key for item in store.search(SPACE, query="zebra", limit=1)] == ["words"]


def test_a_role_without_rights_is_told_what_an_administrator_has_to_run(database_url: str) -> None:
    with login(database_url) as plain, TieredStore(plain, index=text_index()) as store:
        name = name_in(plain)
        execute(database_url, "CREATE SCHEMA working", "CREATE SCHEMA long_term")
        ran: list[list[str]] = []
        for _ in range(3):
            try:
                store.setup()
                break
            except DatabaseError as error:
                todo = [line.strip() for line in str(error).splitlines() if line.endswith(";")]
                execute(database_url, *todo)
                ran.append(todo)
        assert ran == [
            [
                "CREATE EXTENSION vector;",
                f"CREATE SCHEMA memory AUTHORIZATION {name};",
                f"CREATE SCHEMA short_term AUTHORIZATION {name};",
                f"ALTER SCHEMA long_term OWNER TO {name};",
                f"ALTER SCHEMA working OWNER TO {name};",
            ]
        ]
        use(plain)


def test_a_role_that_may_not_look_where_pgvector_is_is_told_so_as_it_connects(
    elsewhere: str,
) -> None:
    with login(elsewhere) as plain:
        grant = f"GRANT USAGE ON SCHEMA extensions TO {name_in(plain)}"
        with pytest.raises(DatabaseError, match=grant), TieredStore(plain, index=text_index()):
            pass
        execute(elsewhere, grant)
        with TieredStore(plain, index=text_index()):
            pass


def test_a_text_search_configuration_is_named_with_its_schema(elsewhere: str) -> None:
    mine = "CREATE TEXT SEARCH CONFIGURATION extensions.mine (COPY = pg_catalog.simple)"
    own = "CREATE TEXT SEARCH CONFIGURATION public.own (COPY = pg_catalog.simple)"
    execute(elsewhere, mine, own)
    for language in ("mine", "public.own"):
        index = {"fields": ["text"], "language": language}
        with TieredStore(elsewhere, index=index, schema_prefix=f"{language[-3:]}_") as store:
            store.setup()
            store.put(SPACE, "a", {"text": "the zebras"})
            assert [item.key for item in store.search(SPACE, query="zebras", limit=1)] == ["a"]
