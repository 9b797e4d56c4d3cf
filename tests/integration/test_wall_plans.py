"""Behind the wall statements are planned as before it: by the same indexes, in both plan modes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import psycopg
import pytest

from langmem_tiers import MemoryCoordinator, MemoryOrchestrator, TieredStore
from langmem_tiers.core.config import StoreOptions
from langmem_tiers.core.memory import TIERS
from langmem_tiers.core.vectors import VectorOptions
from langmem_tiers.postgres import sql
from langmem_tiers.postgres.flow import Call
from tests.support import plans
from tests.support.coordinating import coordinator, recall_call
from tests.support.opening import text_index
from tests.support.plans import MODES, Mode, calls_of, indexes, named, nodes, plan, sequential
from tests.support.walls import APPLICATION, NAMES_TENANT, login

LARGE, SMALL = "tenant0", "tenant7"
OF_ONE_WORD = 40

_FILL = """
INSERT INTO memory.memories (tenant, tier, namespace, key, value, lexemes, created_at, updated_at,
                             session, turn, speaker)
SELECT t.name, p.tier, p.namespace, t.name || '-' || i,
       jsonb_build_object('content', 'row word' || i % t.words, 'memory_type', 'episodic'),
       to_tsvector('english', 'row word' || i % t.words)
           || array_to_tsvector(ARRAY[chr(1) || t.name]),
       now(), now() - i * interval '1 second',
       CASE WHEN i % 2 = 0 THEN 's' || i / 50 END, i / 2, CASE WHEN i % 2 = 0 THEN 'Ada' END
FROM (SELECT 'tenant' || n AS name, CASE WHEN n = 0 THEN 6000 ELSE 500 END AS many,
             CASE WHEN n = 0 THEN 150 ELSE 25 END AS words FROM generate_series(0, 19) n) t,
     generate_series(1, t.many) i,
     LATERAL (SELECT (enum_range(NULL::memory.tier))[i % 3 + 1] AS tier,
                     (ARRAY['p.s.', 'p.', ''])[i % 3 + 1] AS namespace) p;
INSERT INTO memory.vectors (tenant, tier, namespace, id, field, embedding)
SELECT m.tenant, m.tier, m.namespace, m.id, 'content',
       (SELECT array_agg(random() - 0.5) FROM generate_series(1, 16) WHERE m.id > 0)::halfvec
FROM memory.memories m;
INSERT INTO memory.usage (tenant, id, access_count) SELECT tenant, id, 1 FROM memory.memories;
INSERT INTO memory.events (tenant, event, kind, id, target, at, detail)
SELECT m.tenant, 'turn/' || m.id, CASE WHEN m.id % 2 = 0 THEN 'committed' ELSE 'evicted' END,
       CASE WHEN m.id % 2 = 1 THEN m.id END, CASE WHEN m.id % 4 = 1 THEN m.id + 1 END,
       m.created_at + m.id * interval '1 second',
       jsonb_build_object('turn', m.id, 'session_id', 's' || m.id % 200,
                          'project_id', 'p' || m.id % 50, 'key', m.key)
FROM memory.memories m;
INSERT INTO memory.exposures
    (tenant, run, id, position, held_out, exposed_at, succeeded, settled_at)
SELECT m.tenant, 'run-' || m.id % 150, m.id, 1, false, now(), true, now()
FROM memory.memories m WHERE m.id % 2 = 0;
INSERT INTO memory.lineage (tenant, id, source, event)
SELECT m.tenant, m.id + 1, m.id, 'turn/' || m.id FROM memory.memories m WHERE m.id % 3 = 0;
"""


class Both(NamedTuple):
    """One database, seen by its owner and by an application."""

    owner: TieredStore
    application: TieredStore


@pytest.fixture(scope="module")
def both(server_url: str) -> Iterator[Both]:
    """A large tenant and small ones, with HNSW where the large one has outgrown exact search."""
    options: dict[str, Any] = {"exact_limit": 1000}
    with plans.loaded(server_url, _FILL, **options) as owner:
        owner.optimize()
        url = owner.target.conninfo
        with (
            login(url, APPLICATION) as web,
            TieredStore(web, index=text_index(16), **options) as application,
        ):
            yield Both(owner, application)


# Every statement

_OTHERWISE = {
    "count_tenant": "an application counts none",
    "tenants_to_count": "the same",
    "turn_ended": "two indexes that cost the same begin with what is sought",
    "near_by_vector": "a field more or less of a key that is found already",
    "pinned": "a function finds what is pinned, and the rest by its ids",
}


Conditions = set[tuple[str, frozenset[str]]]


def conditions(root: dict[str, Any]) -> Conditions:
    """What indexes are asked for, but for the tier, by which partitions are chosen anyway."""
    found = set()
    for node in nodes(root):
        if "Index Name" in node:
            asked = re.sub(r"_\d+\b", "", node.get("Index Cond", ""))
            asked = re.sub(r"\(InitPlan \d+\)\.col1|\$\d+", "$", asked)
            parts = [part for part in asked.strip("()").split(" AND ") if "tier = " not in part]
            found.add((node["Index Name"], frozenset(part.strip("()") for part in parts)))
    return found


def planned(conn: psycopg.Connection[Any], statement: sql.Statement) -> Conditions:
    query = b"EXPLAIN (GENERIC_PLAN, FORMAT JSON) " + statement.text
    row = conn.execute(query, prepare=False).fetchone()
    assert row is not None
    return conditions(row[0][0]["Plan"])


@pytest.mark.slow
def test_every_statement_of_an_application_asks_its_indexes_for_what_the_owners_does(
    both: Both,
) -> None:
    vector = VectorOptions(dims=16)
    ours = sql.statements(StoreOptions(), vector)
    theirs = sql.statements(StoreOptions(), vector, walled=True)
    lost = {}
    with (
        psycopg.connect(both.owner.target.conninfo, autocommit=True) as owner,
        psycopg.connect(both.application.target.conninfo, autocommit=True) as application,
    ):
        for conn in (owner, application):
            conn.execute("SET enable_seqscan = off")
        for name, statement in ours.items():
            one_tenants = {"tenant", "tenants"} & set(statement.names)
            if not (statement.walled and one_tenants) or name in _OTHERWISE:
                continue
            asked, walled = planned(owner, statement), planned(application, theirs[name])
            by_function = "lexemes|events_" if statement.text != theirs[name].text else "$^"
            by_function += "|memory_type" if b"of_type(" in theirs[name].text else ""
            by_function += "|_handle_|memories_pinned|tenant_namespace" * (
                b".of_" in theirs[name].text
            )
            missing = [
                (index, parts)
                for index, parts in asked
                if not any(one == index and parts <= more for one, more in walled)
                and not re.search(by_function, f"{index} {parts}")
            ]
            if missing:
                lost[name] = missing
    assert lost == {}


# Words


def asker(store: TieredStore, tenant: str) -> MemoryCoordinator:
    return coordinator(store, tenant, project_id="p", session_id="s")


def recalled(store: TieredStore, tenant: str, query: str) -> Call:
    return recall_call(store, lambda: asker(store, tenant).get_context(query, min_match=0))


def read_in(store: TieredStore, call: Call, mode: Mode) -> tuple[int, int]:
    """How often the index of words was read, and how many memories, functions included."""
    counted = """
        SELECT sum(pg_stat_get_xact_numscans(i.indexrelid)),
               (SELECT sum(pg_stat_get_xact_tuples_returned(t) + pg_stat_get_xact_tuples_fetched(t))
                FROM unnest(array_agg(DISTINCT i.indrelid)) AS t)
        FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
        WHERE c.relname = 'memories_lexemes_idx'"""
    database = store.runner._database
    assert database is not None
    with database.pool.connection() as conn, conn.transaction(force_rollback=True):
        conn.execute(f"SET LOCAL plan_cache_mode = {mode}".encode())
        # What this connection did before may not be told to the server yet: that counts as well.
        before = conn.execute(counted.encode(), prepare=False).fetchone()
        for one in database.wall.statements_for([call], database.statements):
            statement = database.statements[one.call.name]
            values = [one.call.params[name] for name in statement.names]
            conn.new_cursor(conn).execute(statement.text, values, prepare=False)
        after = conn.execute(counted.encode(), prepare=False).fetchone()
    assert before is not None
    assert after is not None
    return int(after[0] - before[0]), int(after[1] - before[1])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("tenant", [LARGE, SMALL])
def test_the_words_of_an_application_are_read_from_their_index_as_the_owners_are(
    both: Both, tenant: str, mode: Mode
) -> None:
    scans, rows = read_in(both.owner, recalled(both.owner, tenant, "word7"), mode)
    walled_scans, walled_rows = read_in(
        both.application, recalled(both.application, tenant, "word7"), mode
    )
    assert walled_scans >= len(TIERS) <= scans
    assert walled_rows <= rows + 2 * OF_ONE_WORD


def test_a_recall_finds_the_same_on_either_side_of_the_wall(both: Both) -> None:
    for tenant in (LARGE, SMALL):
        for query in ("word7", "row word3 word9", "row", "what is it?", ""):
            found = [
                [one.key for one in asker(store, tenant).get_context(query, limit=10, min_match=0)]
                for store in both
            ]
            assert found[0] == found[1]


@pytest.mark.parametrize("mode", MODES)
def test_what_is_not_the_tenants_own_is_no_word_of_it(both: Both, mode: Mode) -> None:
    """Whatever an application asks of the functions, they go by the tenant that it named."""
    query = b"SELECT tenant FROM memory.with_words(%s, %s::tsquery, NULL, NULL, NULL)"
    given = (
        ["working", "'word7'"],
        ["long_term", "!'word7'"],
        [None, "'word7' | '\x01tenant3'"],
        [None, f"'\x01{LARGE}' & 'word7'"],
        [None, ""],
    )
    with psycopg.connect(both.application.target.conninfo, autocommit=True) as conn:
        conn.execute(f"SET plan_cache_mode = {mode}".encode())
        for params in given:
            assert conn.execute(query, params).fetchall() == []
        of_none = "SELECT memory.of_type('working', 'episodic', NULL, 1000)"
        assert conn.execute(of_none).fetchall() == []
        for params in given:
            with conn.transaction():
                conn.execute(NAMES_TENANT, [SMALL])
                rows = conn.execute(query, params).fetchall()
            assert {tenant for (tenant,) in rows} <= {SMALL}
        with conn.transaction():
            conn.execute(NAMES_TENANT, [SMALL])
            turns = "SELECT DISTINCT tenant FROM memory.ended_turns(NULL, NULL, NULL, NULL)"
            assert conn.execute(turns).fetchall() == [(SMALL,)]
            gone = "SELECT tenant FROM memory.gone(%s)"
            assert conn.execute(gone, [f"{LARGE}-1"]).fetchall() == []
            own = """SELECT count(*), count(m.id)
                     FROM memory.of_type('working', 'episodic', NULL, 1000) AS o (id)
                     LEFT JOIN memory.memories m ON m.id = o.id"""
            assert conn.execute(own).fetchall() == [(167, 167)]


def test_no_function_with_the_owners_rights_lets_its_caller_choose_what_names_mean(
    both: Both,
) -> None:
    query = """
        SELECT p.proname::text, p.proconfig, has_function_privilege('public', p.oid, 'EXECUTE')
        FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
        WHERE n.nspname = 'memory' AND p.prosecdef ORDER BY 1"""
    with psycopg.connect(both.owner.target.conninfo) as conn:
        found = conn.execute(query).fetchall()
    fixed = ["search_path=pg_catalog, pg_temp"]
    log = ("add", "chained", "delete", "forget", "insert", "read", "receipt", "update")
    known = (
        *(f"audit_{name}" for name in log),
        "ended_turns",
        "gone",
        "of_handles",
        "of_pins",
        "of_type",
        "with_words",
    )
    assert found == [(name, fixed, False) for name in known]


# Vectors


@pytest.mark.parametrize("mode", MODES)
def test_a_large_tenant_is_searched_by_hnsw_and_a_small_one_exactly_behind_the_wall(
    both: Both, mode: Mode
) -> None:
    store = both.application
    for tenant, by_hnsw in ((LARGE, True), (SMALL, False)):
        calls = calls_of(store, lambda tenant=tenant: store.search((tenant,), query="word7"))  # type: ignore[misc]
        settings = [call for call in calls if call.name == "ann_settings"]
        root = plan(store, named(calls, "search_ann"), mode, settings=settings)
        assert ("vectors_hnsw_cosine" in indexes(root)) == by_hnsw
        assert sequential(root) == []
        ordered = [node for node in nodes(root) if node.get("Index Name") == "vectors_hnsw_cosine"]
        assert all("<=>" in node["Order By"] for node in ordered)


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_a_recall_reads_vectors_from_the_indexes_that_it_reads_for_the_owner(
    both: Both, mode: Mode
) -> None:
    for tenant, by_hnsw in ((LARGE, True), (SMALL, False)):
        read = []
        for store in both:
            root = plan(store, recalled(store, tenant, "word7"), mode)
            assert sequential(root) == []
            read.append({name for name in indexes(root) if name.startswith("vectors")})
        if tenant == LARGE and mode == "force_custom_plan":
            # Of 2,000 vectors a tier, sorting them may seem as cheap: to either role.
            either = {"vectors_pkey", "vectors_hnsw_cosine"}
            assert all({"vectors_pkey"} <= one <= either for one in read)
            continue
        assert read[0] == read[1]
        assert ("vectors_hnsw_cosine" in read[1]) == by_hnsw


# Events


def test_turns_are_listed_as_the_owner_lists_them(both: Both) -> None:
    for project, session in ((None, None), (None, "s7"), ("p7", None), ("p7", "s7"), ("p8", "s7")):
        listed = []
        for store in both:
            turns = MemoryOrchestrator(coordinator(store, SMALL, project_id=project))
            listed.append(turns.turns(20, session_id=session))
        assert listed[0] == listed[1]
