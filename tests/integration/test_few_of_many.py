"""A recall of few memories of a large tenant finds them all, and reads little of the others."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pytest

from langmem_tiers import TieredStore
from langmem_tiers.core.memory import Tier
from langmem_tiers.core.types import MemoryType, MemoryTypes
from langmem_tiers.postgres.flow import Call
from langmem_tiers.store.upkeep import optimize
from tests.support import plans
from tests.support.coordinating import coordinator, recall_call
from tests.support.opening import text_index
from tests.support.plans import MODES, Mode, indexes, plan, rows_read, sequential
from tests.support.walls import APPLICATION, login

MANY = 4500
EXACT = 500
"""Vectors up to which a search is exact."""
BY_KIND = "memories_user_id_tenant_expr_idx"

_FILL = """
SELECT setseed(0.5);
INSERT INTO memory.memories (tenant, tier, namespace, key, value, lexemes, created_at, updated_at,
                             expires_at, user_id)
SELECT 'large', p.tier, p.namespace || CASE WHEN u.id IS NULL THEN '' ELSE '@' || u.id || '.' END,
       p.tier || '-' || i, jsonb_build_object(
           'content', 'row word' || i % 997,
           'memory_type', CASE WHEN i % 150 = 0 THEN 'reflexion' WHEN i % 4 = 0 THEN 'semantic'
                          ELSE 'episodic' END,
           'tags', jsonb_build_array(CASE WHEN i % 100 = 1 THEN 'rare' ELSE 'usual' END),
           'importance', i % 200 / 200.0),
       to_tsvector('english', 'row word' || i % 997)
           || array_to_tsvector(ARRAY[chr(1) || 'large']),
       now() - i * interval '1 minute', now() - i * interval '1 minute',
       CASE WHEN i % 11 = 5 THEN now() END, u.id
FROM generate_series(1, 4500) i,
     LATERAL (SELECT CASE WHEN i % 40 = 3 THEN 'ann' WHEN i % 10 = 7 THEN 'ben' END AS id) u,
     LATERAL (SELECT 'long_term'::memory.tier AS tier, '' AS namespace WHERE i > 1500
              UNION ALL SELECT 'working', CASE WHEN i % 3 = 0 THEN 'q.' ELSE 'p.' END
              WHERE i <= 1800) p;
INSERT INTO memory.memories (tenant, tier, namespace, key, value, lexemes, created_at, updated_at,
                             user_id)
SELECT 'crowd', 'long_term', CASE WHEN u.id IS NULL THEN '' ELSE '@' || u.id || '.' END,
       'key-' || i, jsonb_build_object('content', 'row word' || i % 997),
       to_tsvector('english', 'row word' || i % 997)
           || array_to_tsvector(ARRAY[chr(1) || 'crowd']), now(), now(), u.id
FROM generate_series(1, 4500) i,
     LATERAL (SELECT CASE WHEN i % 41 > 0 THEN 'user' || i % 41 END AS id) u;
INSERT INTO memory.vectors (tenant, tier, namespace, id, field, embedding)
SELECT m.tenant, m.tier, m.namespace, m.id, f.field,
       (SELECT array_agg(random() - 0.5) FROM generate_series(1, 16) WHERE m.id > 0)::halfvec
FROM memory.memories m, unnest(ARRAY['content', 'reason', 'how', 'why']) AS f (field)
WHERE f.field = 'content' OR m.id % 7 = 0;
"""

_SAME = "(SELECT array_agg(sin(m.id * n * 78.233 + n * n)) FROM generate_series(1, 16) n)"
"""A vector that is the same for all fields of a memory."""
WIDE = (Call("hnsw_settings", {"ef_search": "400"}),)
FEW: dict[str, dict[str, Any]] = {
    "a rare type": {"memory_types": ["reflexion"]},
    "a type by many names": {"memory_types": ["reflexion"] * 8},
    "types of a user": {"memory_types": ["reflexion", "semantic"], "user_id": "ann"},
    "a common type with a rare tag": {"memory_types": ["episodic"], "tags": ["rare"]},
    "a rare tag": {"tags": ["rare"]},
    "a rare tag in a project": {"tags": ["rare"], "project_id": "p"},
    "a rare type in a project": {"memory_types": ["reflexion"], "project_id": "p"},
    "a project's for a user": {"tags": ["rare"], "project_id": "p", "user_id": "ben"},
    "high importance": {"min_importance": 0.99},
    "what is recent": {"since": datetime.now(UTC) - timedelta(hours=27)},
    "a condition": {"filter": {"tags": ["rare"]}},
    "a user beside what is shared": {"user_id": "ann", "tags": ["rare"]},
    "a type that nothing has": {"memory_types": ["prospective"]},
}
QUERIES = ("word7", "row word12 word500", "something else")


Answers = dict[str, list[list[str]]]


class Large(NamedTuple):
    """One database with HNSW, seen by owner and application, and what was found before it came."""

    owner: TieredStore
    application: TieredStore
    exact: Answers
    """By all vectors: types are a condition there, of which no index knows."""
    before: Answers


@pytest.fixture(scope="module", params=[True, False], ids=["analysed", "never analysed"])
def large(request: pytest.FixtureRequest, server_url: str) -> Iterator[Large]:
    tables = ("long_term.memories", "long_term.vectors")
    options: dict[str, Any] = {"analysed": request.param, "exact_limit": EXACT}
    with plans.loaded(server_url, _FILL, *tables, **options) as owner:
        owner.run(optimize(owner.options, build=False))
        exact, before = (
            {what: [found(owner, query, **form(FEW[what])) for query in QUERIES] for what in FEW}
            for form in (_without_types, dict)
        )
        owner.optimize()
        with (
            login(owner.target.conninfo, APPLICATION) as web,
            TieredStore(web, index=text_index(16), exact_limit=EXACT) as application,
        ):
            yield Large(owner, application, exact, before)


@pytest.fixture(scope="module")
def unindexed(server_url: str) -> Iterator[tuple[TieredStore, TieredStore]]:
    """The same without HNSW, where all may be searched exactly, seen by owner and application.

    The vectors of a memory are all the same.
    """
    fill = re.sub(r"\(SELECT array_agg\(random.*\)", _SAME, _FILL)
    with plans.loaded(server_url, fill) as owner:
        owner.run(optimize(owner.options, build=False))
        with (
            login(owner.target.conninfo, APPLICATION) as web,
            TieredStore(web, index=text_index(16)) as application,
        ):
            yield owner, application


def _without_types(asked: dict[str, Any]) -> dict[str, Any]:
    """The same, where types are asked for by a condition."""
    types = {*asked.get("memory_types", ())}
    if not types:
        return asked
    rest = {name: one for name, one in asked.items() if name != "memory_types"}
    (condition,) = types if len(types) == 1 else ({"$ne": "episodic"},)
    return {**rest, "filter": {"memory_type": condition}}


def found(
    store: TieredStore,
    query: str,
    user_id: str | None = None,
    project_id: str | None = None,
    **asked: Any,
) -> list[str]:
    options = {"limit": 30, "min_match": 0, "profile": "match", **asked}
    asker = coordinator(store, "large", user_id=user_id, project_id=project_id)
    return [one.key for one in asker.get_context(query, **options)]


def call_of(store: TieredStore, tenant: str, user_id: str | None = None, **asked: Any) -> Call:
    asker = coordinator(store, tenant, user_id=user_id)
    return recall_call(store, lambda: asker.get_context("word7", limit=10, min_match=0, **asked))


@pytest.mark.parametrize("what", FEW)
def test_what_is_asked_for_is_found_as_if_every_vector_had_been_read(
    large: Large, what: str
) -> None:
    assert all(large.exact[what]) == (what != "a type that nothing has")
    assert large.before[what] == large.exact[what]
    for store in (large.owner, large.application):
        assert [found(store, query, **FEW[what]) for query in QUERIES] == large.exact[what]


def memories_read(root: dict[str, Any]) -> float:
    """Rows of memories that were visited; vectors of a table so small may all be read."""
    return rows_read(root, lambda node: node.get("Relation Name") == "memories")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("walled", [False, True], ids=["owner", "application"])
def test_a_rare_type_is_read_by_its_index(large: Large, mode: Mode, *, walled: bool) -> None:
    store = large.application if walled else large.owner
    call = call_of(store, "large", memory_types=["reflexion"])
    root = plan(store, call, mode, settings=WIDE)
    assert sequential(root) == []
    assert memories_read(root) < MANY / 2
    assert walled or BY_KIND in indexes(root)


def vectors_read(root: dict[str, Any]) -> float:
    return rows_read(root, lambda node: node.get("Relation Name") == "vectors")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("walled", [False, True], ids=["owner", "application"])
def test_vectors_of_a_rare_type_alone_are_read_where_all_could_be(
    unindexed: tuple[TieredStore, TieredStore], mode: Mode, *, walled: bool
) -> None:
    store = unindexed[walled]
    rare = plan(store, call_of(store, "large", memory_types=["reflexion"]), mode)
    assert vectors_read(rare) < MANY / 4
    common = plan(store, call_of(store, "large", memory_types=["episodic"]), mode)
    assert vectors_read(common) > MANY / 2


@pytest.mark.parametrize("walled", [False, True], ids=["owner", "application"])
@pytest.mark.parametrize("tier", ["short_term", "working"])
def test_a_type_is_read_no_further_than_the_tiers_and_projects_that_are_asked(
    unindexed: tuple[TieredStore, TieredStore], tier: str, *, walled: bool
) -> None:
    store = unindexed[walled]
    asker = coordinator(store, "large", project_id=f"small {walled}", session_id="s")
    asker.store_many({"content": f"Hinge {n} creaks.", "tier": "working"} for n in range(10))
    wanted: dict[str, Any] = {"memory_types": ["semantic"], "tiers": [tier], "min_match": 0}
    call = recall_call(store, lambda: asker.get_context("word7", **wanted))
    assert vectors_read(plan(store, call, "force_generic_plan")) < 100


def test_types_that_begin_alike_are_found_each_once(
    unindexed: tuple[TieredStore, TieredStore],
) -> None:
    owner, _ = unindexed
    names = [f"{'x' * 100}{ending}" for ending in "ab"]
    types = MemoryTypes()
    for name in names:
        types.register(MemoryType(name=name, tier=Tier.LONG_TERM, title=name))
    asker = coordinator(owner, "alike", types=types)
    every = [
        {"content": f"Hinge {n} creaks.", "memory_type": names[n % 2], "key": f"key-{n}"}
        for n in range(30)
    ]
    asker.store_many([*every, *({"content": f"Door {n} is shut."} for n in range(600))])
    for wanted in ([names[0]], names):
        found = asker.get_context("zebra", memory_types=wanted, limit=30, min_match=0)
        assert {one.key for one in found} == {
            str(one["key"]) for one in every if one["memory_type"] in wanted
        }


@pytest.mark.parametrize("types", [None, ["episodic"], ["semantic"]])
def test_a_memory_of_several_vectors_is_found_by_the_nearest_and_takes_one_place(
    unindexed: tuple[TieredStore, TieredStore], types: list[str] | None
) -> None:
    owner, _ = unindexed
    asker = coordinator(owner, "large")
    options: dict[str, Any] = {"limit": 30, "min_match": 0, "memory_types": types}
    call = recall_call(owner, lambda: asker.get_context("something else", **options))
    query = """SELECT m.key FROM memory.memories m CROSS JOIN LATERAL (
                   SELECT min(v.embedding <=> %s::halfvec) AS distance FROM memory.vectors v
                   WHERE v.tenant = m.tenant AND v.id = m.id) v
               WHERE m.tenant = 'large' AND m.tier = 'long_term' AND m.user_id IS NULL
                 AND m.expires_at IS NULL
                 AND (%s::text[] IS NULL OR m.value ->> 'memory_type' = ANY (%s))
               ORDER BY v.distance, m.id LIMIT 38"""
    database = owner.runner._database
    assert database is not None
    with database.pool.connection() as conn:
        nearest = conn.execute(query, [call.params["query"], types, types]).fetchall()
    found = asker.get_context("something else", **{**options, "limit": 40})
    assert {key for (key,) in nearest} <= {one.key for one in found}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("walled", [False, True], ids=["owner", "application"])
def test_of_a_tenant_of_many_users_one_reads_what_one_sees(
    large: Large, mode: Mode, *, walled: bool
) -> None:
    store = large.application if walled else large.owner
    root = plan(store, call_of(store, "crowd", "user7"), mode, settings=WIDE)
    assert sequential(root) == []
    assert memories_read(root) < MANY / 2
    assert BY_KIND in indexes(root)


def test_a_type_may_have_any_length(large: Large) -> None:
    """What an index can hold is no bound of a value."""
    value = {"content": "one more", "memory_type": "x" * 9000}
    large.owner.put(("long",), "key", value)
    item = large.owner.get(("long",), "key")
    assert item is not None
    assert item.value == value
