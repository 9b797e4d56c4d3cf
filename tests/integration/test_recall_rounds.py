"""How a recall talks to Postgres and to a re-ranker: round trips, time limits, many questions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
from langchain_core.callbacks import Callbacks
from langchain_core.documents import BaseDocumentCompressor, Document

from langmem_tiers import MemoryContext, MemoryCoordinator, Recollection, Reviewer, TieredStore
from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.core.settings import CoordinatorSettings
from tests.support.coded import coded
from tests.support.coordinating import PATIENT, Caller, calling, coordinator, keys
from tests.support.opening import Opener, text_index
from tests.support.plans import calls_of, named
from tests.support.servers import blocked, wait_until

KIWIS = [{"content": f"kiwi number {n}", "key": f"{n}"} for n in range(6)]


@asynccontextmanager
async def filled(open_store: Opener, url: str, **options: Any) -> AsyncIterator[Caller]:
    """A coordinator of six kiwis, with options of its own."""
    async with calling(open_store, url, **options) as call:
        await call("store_many", KIWIS)
        yield call


def waits(memory: MemoryCoordinator, ask: Callable[[], object], trace: Path) -> int:
    """How often a call waits for the server, as libpq tells of a store's only connection."""
    database = memory.tiered_store.runner._database
    assert database is not None
    with database.pool.connection() as conn:
        pgconn = conn.pgconn
    with trace.open("w") as file:
        pgconn.trace(file.fileno())
        ask()
        pgconn.untrace()
    lines = trace.read_text(encoding="utf-8", errors="replace").splitlines()
    return sum(line.split("\t")[1:2] == ["F"] and "\tSync" in line for line in lines)


def test_a_recall_waits_for_the_server_once(url: str, tmp_path: Path) -> None:
    pool = {"min_size": 1, "max_size": 1}
    with TieredStore(url, index=text_index(), pool_config=pool) as store:
        memory = coordinator(store)
        memory.store_many(KIWIS)
        for ask in (
            partial(memory.get_context, "kiwi"),
            partial(memory.get_context, ""),
            partial(memory.get_context, "kiwi", filter={"a": 1}),
            partial(memory.get_context_batch, [f"kiwi {n}" for n in range(10)]),
            partial(memory.get, "0"),
        ):
            ask()
            memory.stats()  # which writes the accesses
            assert waits(memory, ask, tmp_path / "trace") == 1


def test_storing_what_an_agents_turn_said_waits_for_the_server_twice(
    url: str, tmp_path: Path
) -> None:
    with TieredStore(url, index=text_index(), pool_config={"min_size": 1, "max_size": 1}) as store:
        memory = coordinator(store)
        memory.store_many(KIWIS)
        said = [{**KIWIS[0], "key": "m1"}, {"content": "It is green", "key": "m2"}]
        assert waits(memory, partial(memory.store_many, said), tmp_path / "trace") == 2
        new = [{"content": one["content"], "key": f"new {one['key']}"} for one in said]
        kept = [one.name for one in calls_of(store, partial(memory.store_many, new))]
        assert kept == ["lock_keys", "replaced_by_writes", "put_new", "put_vectors"]


def test_an_agents_turn_that_nothing_is_due_in_waits_for_the_server_once_to_know_it(
    url: str, tmp_path: Path
) -> None:
    with TieredStore(url, index=text_index(), pool_config={"min_size": 1, "max_size": 1}) as store:
        memory = coordinator(store)
        memory.reminders.add("Water the kiwis", cue="when the summer comes")
        ask = partial(
            memory.reminders.due, "How are you?", tool="mow", lease_seconds=60, run_id="turn"
        )
        ask()
        assert waits(memory, ask, tmp_path / "trace") == 1


async def test_many_questions_are_answered_as_if_each_was_asked_alone(
    open_store: Opener, url: str
) -> None:
    queries = ["kiwi number 3", "", "number 5", "unrelated", "kiwi number 3", " "]
    async with filled(open_store, url) as call:
        for options in (
            {},
            {"min_match": 0},
            {"limit": 2, "max_tokens": 30, "profile": "aurora", "min_match": 0},
        ):
            await call("stats")
            together = await call("get_context_batch", queries, **options)
            alone = [await call("get_context", query, **options) for query in queries]
            assert list(map(matches, together)) == list(map(matches, alone))
        assert await call("get_context_batch", []) == []


def matches(found: Sequence[Recollection]) -> list[tuple[str, float]]:
    return [(one.key, one.match) for one in found]


# Time limits


@contextmanager
def locked(url: str) -> Iterator[None]:
    """Let nobody read the working tier meanwhile."""
    with psycopg.connect(url) as conn:
        conn.execute("LOCK TABLE working.memories IN ACCESS EXCLUSIVE MODE")
        yield
        conn.rollback()


@pytest.mark.parametrize("query", ["kiwi", ""])
async def test_a_recall_that_takes_too_long_is_broken_off_and_the_store_goes_on(
    open_store: Opener, url: str, query: str
) -> None:
    settings = CoordinatorSettings(query_timeout_ms=50)
    async with filled(open_store, url, settings=settings) as call:
        patient = Caller(coordinator(call.memory.tiered_store, settings=PATIENT), call.mode)
        await patient("get_context", query)
        with locked(url):
            with coded("query_timeout", match="query_timeout_ms"):
                await call("get_context", query)
            waiting = asyncio.ensure_future(call("get", "0"))  # the limit is the recall's alone
            await asyncio.to_thread(wait_until, lambda: blocked(url))
        assert (await waiting).key == "0"
        assert len(await patient("get_context", query, min_match=0)) == 6


def test_without_settings_a_recall_has_half_a_second_and_ten_answers(store: TieredStore) -> None:
    memory = MemoryCoordinator(store, context=MemoryContext(tenant="acme"))
    memory.store_many(f"kiwi number {n}" for n in range(12))
    limit = named(calls_of(store, lambda: memory.get_context("kiwi")), "limit_time")
    assert limit.params == {"milliseconds": "500"}
    assert len(memory.get_context("")) == 10
    memory.reviewers.register(Reviewer(name="own", relevance=lambda *_: (0.5, "it is there")))
    for options, number in (({}, 12), ({"limit": 7}, 7), ({"review": "own"}, 10)):
        asked: Any = {"max_tokens": 1_000, "min_match": 0, **options}  # its budget says how many
        assert len(memory.get_context("kiwi", **asked)) == number


# Re-ranking


class Choosing(BaseDocumentCompressor):
    """Answers what a function of the test chooses, and notes what it was asked."""

    choose: Callable[[Sequence[Document]], Sequence[Document]]
    asked: list[str] = []  # noqa: RUF012 - pydantic copies it

    def compress_documents(
        self,
        documents: Sequence[Document],
        query: str,
        callbacks: Callbacks | None = None,  # noqa: ARG002 - the interface's
    ) -> Sequence[Document]:
        self.asked.append(query)
        return self.choose(documents)


def odd_ones(documents: Sequence[Document]) -> list[Document]:
    """Those with an odd number, the last first, scored by their number."""
    odd = [one for one in documents if int(one.page_content[-1]) % 2]
    for one in odd:
        one.metadata["relevance_score"] = int(one.page_content[-1]) / 10
    return sorted(odd, key=lambda one: one.page_content, reverse=True)


def failing(_: Sequence[Document]) -> list[Document]:
    raise LookupError("the model is away")


async def test_a_reranker_orders_again_and_what_it_leaves_out_is_left_out(
    open_store: Opener, url: str
) -> None:
    compressor = Choosing(choose=odd_ones)
    async with filled(open_store, url, reranker=compressor) as call:
        found = await call("get_context", "kiwi number 1", min_match=0)
        assert keys(found) == ["5", "3", "1"]
        assert [one.evidence["reranker"] for one in found] == [0.5, 0.3, 0.1]
        assert all(sum(one.explanation.values()) == pytest.approx(one.score) for one in found)
        two = await call("get_context", "kiwi number 1", limit=2, min_match=0)
        assert keys(two) == ["5", "3"]
        batch = await call("get_context_batch", ["kiwi number 1", ""], min_match=0)
        assert [len(one) for one in batch] == [3, 6]
        assert await call("get_context", "kiwi", memory_types=["pattern"], min_match=0) == []
        assert compressor.asked == ["kiwi number 1"] * 3  # not where there is nothing to order


async def test_a_reranker_that_fails_is_seen_to_fail_and_one_that_keeps_nothing_leaves_nothing(
    open_store: Opener, url: str
) -> None:
    compressor = Choosing(choose=failing)
    async with filled(open_store, url, reranker=compressor) as call:
        asks = partial(call, "get_context", "kiwi", min_match=0)
        with pytest.raises(LookupError):
            await asks()
        compressor.choose = lambda _: [Document(page_content="not one of yours")]
        with pytest.raises(InvalidInputError):
            await asks()
        compressor.choose = lambda _: []
        assert await asks() == []
        compressor.choose = lambda documents: [*odd_ones(documents), *documents]
        found = keys(await asks())
    assert found[:3] == ["5", "3", "1"]
    assert sorted(found) == ["0", "1", "2", "3", "4", "5"]
