"""Chat models that help to consolidate, over HTTP: what they may answer, and what becomes of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any, Literal

import psycopg
import pytest
from langchain_core.runnables import RunnableConfig
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver

from langmem_tiers import (
    ConsolidationPolicy,
    MemoryContext,
    MemoryCoordinator,
    ModelError,
    TieredStore,
    create_consolidation_graph,
)
from langmem_tiers.consolidate.policy import MergePolicy
from tests.support.opening import Clock, empty, tables, text_index
from tests.support.wayward_chat import SILENCE, Reply, Wayward, fails, says, wayward

Way = Literal["sync", "async"]
ANSWER = {
    "summary": " The mailer hung, and its timeout was raised. ",
    "concepts": [{"content": "The mailer needs a timeout of 30s", "notes": [2, 1, 2]}],
}

both_ways = pytest.mark.parametrize("way", ["sync", "async"])


def pair(older: int, newer: int) -> dict[str, int]:
    return {"older": older, "newer": newer}


def judged(*pairs: dict[str, int]) -> Reply:
    return says(json.dumps({"pairs": pairs}))


def model_of(server: Wayward, **options: Any) -> ChatOpenAI:
    options = {"max_retries": 0, "timeout": 30, **options}
    return ChatOpenAI(model="local", base_url=server.url, api_key=lambda: "none", **options)


GARBAGE = says("I would rather talk about the weather.")
TRUNCATED = says('{"pairs": [{"older": 1, "newer"')
UNKNOWN = judged(pair(1, 2), pair(7, 9))
SWAPPED = judged(pair(2, 1))
REFUSAL = says(None, refusal="I will not speak of tea")
BUSY = fails(429, "the kettle is empty")


@pytest.fixture(scope="module")
def url(server_url: str) -> Iterator[str]:
    with psycopg.connect(server_url, autocommit=True) as conn:
        conn.execute("CREATE DATABASE models_of_consolidation")
    url = psycopg.conninfo.make_conninfo(server_url, dbname="models_of_consolidation")
    with TieredStore(url, index=text_index()) as store:
        store.setup()
    yield url
    with psycopg.connect(server_url, autocommit=True) as conn:
        conn.execute("DROP DATABASE models_of_consolidation WITH (FORCE)")


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def memory(url: str, clock: Clock) -> Iterator[MemoryCoordinator]:
    empty(url)
    with TieredStore(url, index=text_index(), clock=clock) as store:
        context = MemoryContext(tenant="acme", project_id="billing", session_id="chat")
        yield MemoryCoordinator(store, context=context)


POLICY = ConsolidationPolicy(merge=MergePolicy(near_duplicate=0.2), promotion=None, decay=False)
THREAD: RunnableConfig = {"configurable": {"thread_id": "acme"}}
LIKED, LIKED_AGAIN = "Anna prefers green tea", "Green tea is what Anna prefers to have"
DISLIKED = "Anna prefers black coffee to any green tea"
YES, NO = judged(pair(1, 2)), judged()


def remembered(memory: MemoryCoordinator, clock: Clock, *texts: str) -> None:
    for text in texts:
        memory.store(text, "semantic", key=text)
        clock.advance(hours=1)


def states(url: str) -> dict[str, str | None]:
    with psycopg.connect(url) as conn:
        return dict(conn.execute("SELECT key, state FROM memory.memories").fetchall())


def cycle(memory: MemoryCoordinator, model: ChatOpenAI, way: Way) -> Callable[[Any], Any]:
    """A graph, to be begun with a state and continued with None."""
    graph = create_consolidation_graph(
        model, policy=POLICY, store=memory.tiered_store, checkpointer=InMemorySaver()
    )

    def run(given: Any) -> Any:
        if way == "sync":
            return graph.invoke(given, THREAD, context=memory.context)

        async def awaited() -> Any:
            return await graph.ainvoke(given, THREAD, context=memory.context)

        return asyncio.run(awaited())

    return run


@both_ways
def test_a_model_merges_what_says_the_same(
    memory: MemoryCoordinator, clock: Clock, url: str, way: Way
) -> None:
    remembered(memory, clock, LIKED, LIKED_AGAIN)
    with wayward(YES) as server:
        cycle(memory, model_of(server), way)({})
    assert states(url) == {LIKED: None, LIKED_AGAIN: "consolidated"}
    assert len(server.asked) == 1


@both_ways
def test_a_model_ends_what_is_contradicted(
    memory: MemoryCoordinator, clock: Clock, url: str, way: Way
) -> None:
    remembered(memory, clock, LIKED, DISLIKED)
    with wayward(NO, YES) as server:
        cycle(memory, model_of(server), way)({})
    assert states(url) == {LIKED: "superseded", DISLIKED: None}
    assert len(server.asked) == 2


@pytest.mark.parametrize("yes", [True, False])
def test_what_is_near_is_asked_and_the_model_has_the_word(
    memory: MemoryCoordinator,
    clock: Clock,
    url: str,
    yes: bool,  # noqa: FBT001 - a parameter of pytest
) -> None:
    remembered(memory, clock, LIKED, LIKED.upper())
    for text in ("The port of the mailer is 25", "The port of the mailer now is 587"):
        memory.store(text, "prospective", key=text)
        clock.advance(hours=1)
    with wayward(*([judged(pair(3, 4)), YES] if yes else [NO, NO])) as server:
        cycle(memory, model_of(server), "sync")({})
    ended = ["consolidated", "superseded"] if yes else ["None", "None"]
    assert sorted(str(state) for state in states(url).values()) == ["None", "None", *ended]
    assert len(server.asked) == 2


def test_what_was_said_twice_in_a_row_is_merged_and_not_asked(
    memory: MemoryCoordinator, clock: Clock, url: str
) -> None:
    for key, text in (("one", LIKED), ("two", f"{LIKED.upper()}!")):
        memory.store(text, "semantic", key=key)
        clock.advance(minutes=5)
    with wayward() as server:
        cycle(memory, model_of(server), "sync")({})
    assert states(url) == {"one": None, "two": "consolidated"}
    assert server.asked == []


FAILURES = {
    "garbage": (GARBAGE, GARBAGE),
    "truncated": (TRUNCATED, TRUNCATED),
    "not asked": (UNKNOWN, UNKNOWN),
    "refusal": (REFUSAL,),
    "429": (BUSY,),
    "timeout": (SILENCE,),
}


@both_ways
@pytest.mark.parametrize("case", [*product(["merge", "supersede"], FAILURES)], ids="-".join)
def test_a_cycle_whose_model_fails_stops_there_and_goes_on_when_it_is_invoked_again(
    memory: MemoryCoordinator, clock: Clock, url: str, way: Way, case: tuple[str, str]
) -> None:
    step, failure = case
    newer = LIKED_AGAIN if step == "merge" else DISLIKED
    remembered(memory, clock, LIKED, newer)
    before = tables(url)
    first = () if step == "merge" else (NO,)
    with wayward(*first, *FAILURES[failure], YES) as server:
        run = cycle(memory, model_of(server, timeout=1), way)
        with pytest.raises(ModelError):
            run({})
        assert tables(url) == before
        run(None)
    merged, superseded = (None, "consolidated"), ("superseded", None)
    ends = merged if step == "merge" else superseded
    assert states(url) == dict(zip((LIKED, newer), ends, strict=True))
    assert len(server.asked) == len(first) + len(FAILURES[failure]) + 1


def test_an_older_memory_never_contradicts_a_newer_one(
    memory: MemoryCoordinator, clock: Clock, url: str
) -> None:
    remembered(memory, clock, LIKED, DISLIKED)
    before = tables(url)
    with wayward(NO, SWAPPED, SWAPPED) as server, pytest.raises(ModelError, match="wrong way"):
        cycle(memory, model_of(server), "sync")({})
    assert tables(url) == before


@both_ways
def test_a_model_sums_up_a_session_beside_its_notes(
    memory: MemoryCoordinator, url: str, way: Way
) -> None:
    memory.store("The mailer hangs", "working", tags=["mail"], importance=0.3)
    memory.store("Raised its timeout to 30s", "working")
    before = tables(url)

    def end(server: Wayward) -> Any:
        if way == "sync":
            return memory.consolidate_session(model=model_of(server))
        return asyncio.run(_ended(memory, model_of(server)))

    with wayward(GARBAGE, GARBAGE) as server, pytest.raises(ModelError):
        end(server)
    assert tables(url) == before
    with wayward(says(json.dumps(ANSWER))) as server:
        report = end(server)
    assert report.reasons == {"the model learned it": 1}
    learned, digest = (memory.get(key) for key in (*report.semantic, *report.episodic))
    assert learned is not None
    assert (learned.content, learned.tags) == ("The mailer needs a timeout of 30s", ("mail",))
    assert learned.metadata == {
        "category": "fact", "promoted_from": "working",
        "notes": ["The mailer hangs", "Raised its timeout to 30s"],
    }  # fmt: skip
    assert digest is not None
    assert digest.content.splitlines()[1:3] == [
        "The mailer hung, and its timeout was raised.",
        "- 2026-03-01 12:00 The mailer hangs",
    ]


async def _ended(memory: MemoryCoordinator, model: ChatOpenAI) -> Any:
    return await memory.aconsolidate_session(model=model)
