"""What one call may give or ask for is bounded, by settings, before anything is done."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from langgraph.store.base import GetOp, ListNamespacesOp, MatchCondition, PutOp, SearchOp

from langmem_tiers import Bounds, TieredStore
from langmem_tiers.coordinator.recall import recall, recall_query
from langmem_tiers.core.errors import ConfigurationError
from langmem_tiers.core.settings import CoordinatorSettings
from langmem_tiers.testing import TrigramEmbeddings
from tests.support.coded import coded
from tests.support.coordinating import coordinator
from tests.support.opening import DIMS, Opener, in_tier, nested, tables, text_index, tiered
from tests.support.servers import blocked, held, wait_until

NS = ("acme", "bounds")


def in_list(inner: Any) -> Any:
    """A mapping of a list: two levels."""
    return {"v": [inner]}


def twice(inner: Any) -> Any:
    """The same value two times: a line of memory a level."""
    return [inner, inner]


# What is beyond the defaults

BEYOND: list[tuple[str, Callable[[], Any]]] = [
    ("value_bytes", lambda: PutOp(NS, "k", {"text": "x" * 9_000_000})),
    ("value_bytes", lambda: PutOp(NS, "k", {"text": "漢" * 3_000_000})),
    ("value_bytes", lambda: SearchOp(NS, filter={"v": "x" * 9_000_000})),
    ("value_depth", lambda: PutOp(NS, "k", {"v": nested(300, in_list)})),
    ("value_depth", lambda: PutOp(NS, "k", nested(50_000, in_list))),
    ("value_depth", lambda: PutOp(NS, "k", {"v": nested(5_000, twice)})),
    ("value_depth", lambda: SearchOp(NS, filter=nested(600))),
    ("value_depth", lambda: SearchOp(NS, filter={"v": {"$ne": nested(300, in_list)}})),
    ("query_characters", lambda: SearchOp(NS, query="x" * 10**6)),
    (
        "filter_conditions",
        lambda: SearchOp(NS, filter={"a": dict.fromkeys(map(str, range(2_000)))}),
    ),
    ("filter_conditions", lambda: ListNamespacesOp((MatchCondition("prefix", NS),) * 2_000)),
    ("limit", lambda: SearchOp(NS, limit=10**9)),
    ("limit", lambda: ListNamespacesOp(limit=10**9)),
]


@pytest.mark.slow
async def test_what_is_beyond_the_bounds_is_refused_and_told_which_one_to_raise(
    open_store: Opener, url: str
) -> None:
    async with open_store(url=url, index=text_index(embed=Unasked(DIMS))) as store:
        before = tables(url)
        for view in (store, in_tier(store, "working")):
            several = [(name, [op()]) for name, op in BEYOND]
            for name, ops in (*several, ("batch", [GetOp(NS, "old")] * 10**6)):
                with coded("too_large", match=rf"beyond {name}, .*Bounds\({name}=…\)"):
                    await view.batch(ops)
        assert tables(url) == before


class Unasked(TrigramEmbeddings):
    """Embeddings that are not to be asked."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        raise AssertionError(f"asked for {len(texts)} texts")


# What is within them


def test_a_million_characters_of_any_kind_are_a_value(url: str) -> None:
    with TieredStore(url, index=None) as store:
        letters = ("x", "漢", "🧠", "\x01", '"')
        for letter in letters:
            store.put(NS, letter, {"content": letter * 1_000_000})
        found = store.search(NS)
        assert {item.key for item in found} == {*letters}
        for item in found:
            assert item.value == {"content": item.key * 1_000_000}


def test_what_stands_on_a_bound_is_within_it(url: str) -> None:
    bounds = Bounds(
        value_bytes=30, value_depth=3, query_characters=5, filter_conditions=2, limit=4, batch=2
    )
    with TieredStore(url, index=text_index(), bounds=bounds) as store:
        store.put(NS, "size", {"text": "x" * 18})  # 30 bytes with what JSON needs
        store.put(NS, "deep", {"a": {"b": []}})
        assert len(store.search(NS, query="12345", filter={"a": {"b": []}}, limit=4)) == 1
        assert len(store.search(NS, filter={"text": {"$gt": "w", "$lt": "y"}}, limit=4)) == 1
        assert len(store.batch([GetOp(NS, "size"), GetOp(NS, "deep")])) == 2
        beyond: list[Callable[[], object]] = [
            lambda: store.put(NS, "k", {"text": "x" * 19}),
            lambda: store.put(NS, "k", {"text": "é" * 9 + "1"}),
            lambda: store.put(NS, "k", {"a": {"b": [[]]}}),
            lambda: store.search(NS, query="123456", limit=4),
            lambda: store.search(NS, filter={"a": 1, "b": 2, "c": 3}, limit=4),
            lambda: store.search(NS, filter={"a": {"b": {"c": {"d": 1}}}}, limit=4),
            lambda: store.search(NS, limit=5),
            lambda: store.batch([GetOp(NS, "size")] * 3),
        ]
        for call in beyond:
            with coded("too_large"):
                call()
        assert sorted(item.key for item in store.search(NS, limit=4)) == ["deep", "size"]


def test_a_bound_that_was_raised_lets_more_in(url: str) -> None:
    bounds = Bounds(value_bytes=10_000_000, value_depth=700, limit=10**9, query_characters=10**6)
    with TieredStore.from_conn_string(url, index={}, bounds=bounds) as store:
        store.put(NS, "large", {"text": "x" * 9_000_000})
        store.put(NS, "deep", nested(310, in_list))
        assert {item.key for item in store.search(NS, limit=10**9)} == {"large", "deep"}
        assert coordinator(store).get_context("x" * 10**6) == []


def test_a_bound_that_cannot_work_is_named() -> None:
    wrong: dict[str, list[Any]] = {
        "value_bytes": [0, 2**40],
        "value_depth": [1_001],
        "query_characters": ["many"],
        "filter_conditions": [True],
        "limit": [2**31],
        "batch": [None, -1],
        "statement_timeout_ms": [-1, 0.5, 2**31],
    }
    for key, value in ((key, value) for key, values in wrong.items() for value in values):
        with pytest.raises(ConfigurationError, match=f"^{key} is a whole number "):
            Bounds(**{key: value})
    with pytest.raises(ConfigurationError, match="bounds is a Bounds"):
        TieredStore("", bounds={"batch": 5})  # type: ignore[arg-type]


# Time

SHORT = Bounds(statement_timeout_ms=150)


def memories(url: str) -> dict[str, list[tuple[Any, ...]]]:
    """What is stored, but for the counts of what was read, which come a second later."""
    return {name: rows for name, rows in tables(url).items() if name != "usage"}


ROW = "SELECT FROM working.memories WHERE key = 'old' FOR UPDATE"
TABLE = "LOCK TABLE working.memories IN ACCESS EXCLUSIVE MODE"

BLOCKED: list[tuple[str, list[Any]]] = [
    (ROW, [PutOp(NS, "old", {"text": "new"})]),
    (ROW, [PutOp(NS, "beside", {"text": "x"}), PutOp(NS, "old", None)]),
    (TABLE, [PutOp(NS, "k", {"text": "new"})]),
    (TABLE, [GetOp(NS, "old"), PutOp(NS, "k", {"text": "new"})]),
    (TABLE, [GetOp(NS, "old")]),
    (TABLE, [SearchOp(NS, query="old")]),
    (TABLE, [SearchOp(NS)]),
    (TABLE, [ListNamespacesOp()]),
]


async def test_what_waits_for_a_lock_is_broken_off_and_the_store_goes_on(
    open_store: Opener, url: str
) -> None:
    pool = {"min_size": 1, "max_size": 1}
    async with open_store(url=url, index=text_index(), bounds=SHORT, pool_config=pool) as store:
        for lock, ops in BLOCKED:
            await store.batch([PutOp(NS, "old", {"text": "old"})])
            before = memories(url)
            with (
                held(url, lock),
                coded("query_timeout", match=r"Bounds\(statement_timeout_ms=…\)"),
            ):
                await store.batch(ops)
            assert memories(url) == before
            await store.batch(ops)
            (left,) = await store.batch([SearchOp(NS, query="old", limit=1)])
            assert isinstance(left, list)


def test_a_recall_has_its_own_time(url: str) -> None:
    with TieredStore(url, index=text_index(), bounds=SHORT) as store:
        quick = coordinator(store, settings=CoordinatorSettings(query_timeout_ms=20))
        with held(url, TABLE), coded("query_timeout", match="raise query_timeout_ms"):
            quick.get_context("x")
        patient = coordinator(store)
        with held(url, TABLE):
            waiting = store.run_in_background(recall(patient, [recall_query(patient, "x")]))
            wait_until(lambda: blocked(url))
            outlasted(url, TABLE)
            assert not waiting.done()
        assert waiting.result(timeout=30) == [[]]


def outlasted(url: str, statement: str) -> None:
    """Return when a statement with twice the store's time has waited in vain for the same lock."""
    with psycopg.connect(url) as conn:
        conn.execute("SET statement_timeout = 300")
        with pytest.raises(psycopg.errors.QueryCanceled):
            conn.execute(statement.encode())


@pytest.mark.parametrize(
    ("servers", "given", "holds"),
    [
        ("0", {}, "1min"),
        ("0", {"statement_timeout_ms": None}, "0"),
        ("0", {"statement_timeout_ms": 0}, "0"),
        ("0", {"statement_timeout_ms": 1_500}, "1500ms"),
        ("5s", {"statement_timeout_ms": 1_000}, "1s"),
        ("5min", {}, "1min"),
        ("5min", {"statement_timeout_ms": None}, "5min"),
    ],
)
def test_the_shorter_time_holds_of_the_stores_and_the_servers(
    url: str, servers: str, given: dict[str, int | None], holds: str
) -> None:
    options = {"kwargs": {"options": f"-c statement_timeout={servers}"}}
    with TieredStore(url, bounds=Bounds(**given), pool_config=options) as store:  # type: ignore[arg-type]
        database = store.runner._database
        assert database is not None
        with database.pool.connection() as conn:
            assert conn.execute("SHOW statement_timeout").fetchall() == [(holds,)]


async def test_setting_up_and_building_an_index_wait_as_long_as_it_takes(
    open_store: Opener,
) -> None:
    url = open_store.new_url()
    options: dict[str, Any] = {"bounds": SHORT, "exact_limit": 10}
    async with open_store(url=url, index=text_index(), **options) as driver:
        store = tiered(driver)
        await driver.batch([PutOp(NS, f"{n}", {"text": f"note {n}"}) for n in range(20)])
        others = "SELECT pg_advisory_xact_lock(" + str(0x6C616E676D656D) + ")"
        writers = "LOCK TABLE working.vectors IN ROW EXCLUSIVE MODE"
        for call, lock, waits in (
            (store.asetup, others, others),
            (store.aoptimize, writers, TABLE.replace("memories", "vectors")),
        ):
            with held(url, lock):
                waiting = asyncio.ensure_future(call())
                await asyncio.to_thread(wait_until, lambda: blocked(url))
                await asyncio.to_thread(outlasted, url, waits)
                assert not waiting.done()
            assert await waiting in (None, ("working",))
        with held(url, TABLE), coded("query_timeout"):
            await driver.batch([SearchOp(NS)])
