from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from langgraph.graph import StateGraph
from langgraph.store.memory import InMemoryStore

from langmem_tiers import MemoryContext, MemoryCoordinator, TieredStore, TurnMiddleware
from langmem_tiers.graph.middleware import TieredMemoryMiddleware
from langmem_tiers.graph.recall import MemoryState, create_recall_node
from langmem_tiers.graph.retriever import TieredMemoryRetriever
from langmem_tiers.graph.tools import create_search_memory_tool
from tests.support.agents import WAYS, How, agent_on, run, scripted
from tests.support.coordinating import coordinator
from tests.support.opening import Clock, Opened, opened_store, text_index

QUESTION = "Where do I live?"
ANSWER = "I live in Lisbon with my dog Rex."
ADA = MemoryContext(tenant="ada")
ASKED = 60
"""More often than a leg of the statement has candidates."""


@pytest.fixture
def asked_often(store: TieredStore) -> MemoryCoordinator:
    """Who said it once, and has asked for it day after day."""
    memory = MemoryCoordinator(store, context=ADA)
    memory.store(ANSWER, speaker="user", session_id="d0")
    memory.store_many(
        {"content": QUESTION, "speaker": "user", "session_id": f"d{day}", "key": f"asked {day}"}
        for day in range(1, ASKED)
    )
    return memory


# What an agent is shown


@pytest.mark.parametrize(
    ("opened", "how", "reply"),
    [
        (*way, reply)
        for way, reply in zip(WAYS, ("OK.", "You live in Lisbon.", "I don't know."), strict=True)
    ],
)
async def test_a_question_asked_day_after_day_is_answered_and_not_repeated(
    url: str, clock: Clock, opened: Opened, how: How, reply: str
) -> None:
    model = scripted("Noted.", "Why did the chicken cross the road?", reply, reply, reply)
    store = TieredStore(url, index=text_index(), clock=clock)

    async def says(thread: str, text: str) -> str:
        given = {"messages": [{"role": "user", "content": text, "id": f"{thread} {text}"}]}
        context = MemoryContext(tenant="ada", session_id=thread)
        await run(agent, how, given, context=context)
        clock.advance(minutes=1)
        return "\n".join(one.text for one in model.seen[-1] if one.type == "system")

    async with opened_store(store, opened):
        agent = agent_on(store, model, TurnMiddleware())
        for text in (ANSWER, "Tell me a joke", QUESTION):
            await says("day 1", text)
        for day in (2, 3):
            clock.now += timedelta(days=1)
            shown = await says(f"day {day}", QUESTION)
            assert "Lisbon" in shown
            assert QUESTION not in shown


def by_coordinator(memory: MemoryCoordinator) -> list[str]:
    return [one.content for one in memory.get_context(QUESTION, limit=1)]


def by_batch(memory: MemoryCoordinator) -> list[str]:
    return [one.content for one in memory.get_context_batch([QUESTION], limit=1)[0]]


def by_retriever(memory: MemoryCoordinator) -> list[str]:
    return [one.page_content for one in TieredMemoryRetriever(memory=memory, k=1).invoke(QUESTION)]


def by_node(memory: MemoryCoordinator) -> list[str]:
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(MemoryState, context_schema=MemoryContext)
    builder.add_node("recall", create_recall_node(limit=1))
    builder.set_entry_point("recall")
    graph = builder.compile(store=memory.tiered_store)
    state = graph.invoke({"messages": [QUESTION]}, context=ADA)
    return [one["content"] for one in state["recalled"]]


def by_middleware(memory: MemoryCoordinator) -> list[str]:
    model = scripted("In Lisbon.")
    agent: Any = agent_on(memory.tiered_store, model, TieredMemoryMiddleware(limit=1))
    agent.invoke({"messages": [QUESTION]}, context=ADA)
    shown = str(model.seen[0][0].text)
    return [text for text in (ANSWER, QUESTION) if text in shown]


def by_search_tool(memory: MemoryCoordinator) -> list[str]:
    tool = create_search_memory_tool("ada", store=memory.tiered_store)
    found = json.loads(tool.invoke({"query": QUESTION, "limit": 1}))
    return [one["value"]["content"] for one in found]


@pytest.mark.parametrize(
    "recalled",
    [
        by_coordinator,
        by_batch,
        by_retriever,
        by_node,
        by_middleware,
        by_search_tool,
    ],
)
def test_earlier_askings_take_no_answers_place(
    asked_often: MemoryCoordinator, recalled: Callable[[MemoryCoordinator], list[str]]
) -> None:
    assert recalled(asked_often) == [ANSWER]


# What is an asking, and what is not

ASKINGS = [
    {"content": QUESTION},
    {"content": "  where do\nI LIVE ??"},
    {"content": "«Where do I live?»"},
    {"content": "User: Where do I live?"},
    {"content": "Ada: where do I live?", "speaker": "Ada", "session_id": "s"},
    {"content": "Where do I live", "speaker": "user", "session_id": "s"},
    {"content": QUESTION, "speaker": "user", "session_id": "s", "metadata": {"message": "m1"}},
    {"content": "WHERE DO I LIVE?", "importance": 0.9, "tags": ["home"], "tier": "long_term"},
]
MORE = [
    {"content": "Q: Where do I live? A: In Lisbon."},
    {"content": "User: Where do I live?\nAssistant: In Lisbon."},
    {"content": QUESTION, "metadata": {"answer": "In Lisbon."}},
    {"content": QUESTION, "context": "In Lisbon."},
    {"content": "Where do I live, Lisbon?"},
]


def found_by_tool(store: TieredStore | InMemoryStore, query: str) -> list[str]:
    tool = create_search_memory_tool("ada", store=store)
    return [one["value"]["content"] for one in json.loads(tool.invoke({"query": query}))]


@pytest.mark.parametrize("asking", ASKINGS)
def test_an_asking_is_known_whatever_its_case_marks_and_spaces(
    store: TieredStore, asking: dict[str, Any]
) -> None:
    memory = coordinator(store, "ada")
    memory.store_many([asking])
    memory.store("Rex is a dog.")

    assert [one.content for one in memory.get_context(QUESTION)] == ["Rex is a dog."]
    assert found_by_tool(store, QUESTION) == ["Rex is a dog."]


@pytest.mark.parametrize("more", MORE)
def test_what_carries_an_answer_as_well_is_recalled(
    store: TieredStore, more: dict[str, Any]
) -> None:
    memory = coordinator(store, "ada")
    memory.store_many([more])

    assert [one.content for one in memory.get_context(QUESTION)] == [more["content"]]
    assert found_by_tool(store, QUESTION) == [more["content"]]


@pytest.mark.parametrize(
    "query", ["Lisbon", "I live in Lisbon.", "the API key rotates on Mondays", "Ünïcode größe"]
)
def test_a_query_that_asks_nothing_finds_what_says_the_same(store: TieredStore, query: str) -> None:
    memory = coordinator(store, "ada")
    memory.store(query, speaker="user", session_id="s")

    assert [one.content for one in memory.get_context(query)] == [query]
    assert found_by_tool(store, query) == [query]


@pytest.mark.parametrize(
    ("query", "asked"),
    [
        ("Wo wohnt ÖZGE?", "wo wohnt özge"),
        ("我住在哪里\uff1f", "我住在哪里\uff1f"),
        ("أين أسكن؟", "أين أسكن"),
        ("Who is he?", "who is he"),
    ],
)
def test_an_asking_is_known_in_any_script(store: TieredStore, query: str, asked: str) -> None:
    memory = coordinator(store, "ada")
    memory.store(asked, speaker="user", session_id="s", key="asked")
    memory.store("Something else", key="else")

    assert [one.key for one in memory.get_context(query)] == ["else"]
    assert found_by_tool(store, query) == ["Something else"]


# What an asking tells of the turns around it


def test_what_followed_an_earlier_asking_is_found_and_what_came_before_it_is_not(
    store: TieredStore,
) -> None:
    memory = coordinator(store, "ada", session_id="s")
    said = [
        ("user", "Tell me a joke", "joke"),
        ("user", "What is my dentist called?", "asked"),
        ("assistant", "Dr. Novak", "answer"),
    ]
    memory.store_many(
        {"content": text, "speaker": who, "session_id": "s", "key": key} for who, text, key in said
    )
    found = {one.key: one for one in memory.get_context("What is my dentist called?")}

    assert "asked" not in found
    assert next(iter(found)) == "answer"
    assert found["answer"].evidence["previous"] > 0
    assert "window" not in found["joke"].evidence


def test_the_search_tool_pages_over_askings_of_any_store() -> None:
    store = InMemoryStore()
    for n in range(12):
        content = QUESTION if n % 2 else f"Answer {n}"
        store.put(("ada",), f"{n:02}", {"content": content, "speaker": "user"})
    tool = create_search_memory_tool("ada", store=store)

    (found, none) = (
        json.loads(tool.invoke({"query": QUESTION, "limit": limit})) for limit in (20, 0)
    )
    assert sorted(one["value"]["content"] for one in found) == sorted(
        f"Answer {n}" for n in range(0, 12, 2)
    )
    assert none == []
    assert len(json.loads(tool.invoke({"query": QUESTION, "limit": 6}))) == 6
