from __future__ import annotations

import json
from typing import Any

import pytest
from langgraph.graph import StateGraph
from langgraph.store.memory import InMemoryStore

from langmem_tiers import MemoryContext, MemoryCoordinator, TieredStore, local_index
from langmem_tiers.graph.langmem_tools import create_search_memory_tool
from langmem_tiers.graph.middleware import TieredMemoryMiddleware
from langmem_tiers.graph.recall import MemoryState, TieredMemoryRetriever, create_recall_node
from tests.support.agents import Way, agent_on, scripted
from tests.support.coordinating import PATIENT, coordinator
from tests.support.opening import Clock

QUESTION = "Where do I live?"
ANSWER = "I live in Lisbon with my dog Rex."
ASKED = 60
"""More often than a leg of the statement has candidates."""


async def test_a_question_asked_day_after_day_is_answered_and_not_repeated(
    way: Way, clock: Clock
) -> None:
    model = scripted("Noted.", "Why did the chicken?", "OK.", "I don't know.", "In Lisbon.", "Yes.")
    agent = agent_on(way.store, model, TieredMemoryMiddleware())
    for day, text in enumerate((ANSWER, "Tell me a joke", *[QUESTION] * 4)):
        given = {"messages": [{"role": "user", "content": text, "id": f"{day}"}]}
        await way(agent, given, context=MemoryContext(tenant="ada", session_id=f"{day // 3}"))
        clock.advance(days=day // 2)
        if day > 2:
            shown = "\n".join(one.text for one in model.seen[-1] if one.type == "system")
            assert "Lisbon" in shown
            assert QUESTION not in shown


def by_coordinator(memory: MemoryCoordinator, query: str = QUESTION) -> list[str]:
    return [one.content for one in memory.get_context_batch([query], limit=1)[0]]


def by_retriever(memory: MemoryCoordinator, query: str = QUESTION) -> list[str]:
    return [one.page_content for one in TieredMemoryRetriever(memory=memory, k=1).invoke(query)]


def by_node(memory: MemoryCoordinator, query: str = QUESTION) -> list[str]:
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(MemoryState, context_schema=MemoryContext)
    builder.add_node("recall", create_recall_node(limit=1))
    builder.set_entry_point("recall")
    graph = builder.compile(store=memory.tiered_store)
    state = graph.invoke({"messages": [query]}, context=memory.context)
    return [one["content"] for one in state["recalled"]]


def by_middleware(memory: MemoryCoordinator, query: str = QUESTION) -> list[str]:
    model = scripted("In Lisbon.")
    agent: Any = agent_on(
        memory.tiered_store, model, TieredMemoryMiddleware(limit=1, remember=False)
    )
    agent.invoke({"messages": [query]}, context=memory.context)
    shown = "".join(one.text for one in model.seen[0] if one.type == "system")
    return [text for text in (ANSWER, QUESTION) if text in shown]


def by_search_tool(memory: MemoryCoordinator, query: str = QUESTION) -> list[str]:
    tool = create_search_memory_tool("ada", store=memory.tiered_store)
    found = json.loads(tool.invoke({"query": query, "limit": 1}))
    return [one["value"]["content"] for one in found]


DOORS = (by_coordinator, by_retriever, by_node, by_middleware, by_search_tool)


def test_earlier_askings_take_no_answers_place_wherever_memory_is_asked(store: TieredStore) -> None:
    memory = coordinator(store, "ada")
    memory.store(ANSWER, speaker="user", session_id="d0")
    memory.store_many(
        {"content": QUESTION, "speaker": "user", "session_id": f"d{day}", "key": f"asked {day}"}
        for day in range(1, ASKED)
    )

    for recalled in DOORS:
        assert recalled(memory) == [ANSWER], recalled.__name__


def test_small_talk_is_shown_nowhere_and_gets_nothing_wherever_memory_is_asked(
    database_url: str,
) -> None:
    with TieredStore(database_url, index=local_index()) as store:
        store.setup()
        memory = MemoryCoordinator(store, context=MemoryContext(tenant="ada"), settings=PATIENT)
        memory.store("Thanks, that is lovely!", speaker="user")
        for recalled in DOORS:
            assert recalled(memory) == [], recalled.__name__
        memory.store(ANSWER, speaker="user")
        for day in ("1", "2"):
            for said, speaker in (("Thank you!", "user"), ("You are welcome!", "assistant")):
                memory.store(said, speaker=speaker, session_id=day)
        for recalled in DOORS:
            assert recalled(memory) == [ANSWER], recalled.__name__
            assert recalled(memory, "Thank you!") == [], recalled.__name__


# What is an asking, and what is not

ASKINGS: list[tuple[str, dict[str, Any]]] = [
    (QUESTION, {"content": "  where do\nI LIVE ??"}),
    (QUESTION, {"content": "«Where do I live?»"}),
    (QUESTION, {"content": "User: Where do I live?"}),
    (QUESTION, {"content": QUESTION, "speaker": "user", "metadata": {"message": "m1"}}),
    (QUESTION, {"content": QUESTION, "importance": 0.9, "tags": ["home"], "tier": "long_term"}),
    ("Wo wohnt ÖZGE?", {"content": "wo wohnt özge"}),
    ("我住在哪里\uff1f", {"content": "我住在哪里\uff1f"}),
    ("أين أسكن؟", {"content": "أين أسكن"}),
]
ANSWERS = {
    QUESTION: ANSWER,
    "Wo wohnt ÖZGE?": "Özge wohnt in Ulm.",
    "我住在哪里\uff1f": "我住在里斯本。",
    "أين أسكن؟": "أنا أسكن في لشبونة.",
}
TELLING: list[tuple[str, dict[str, Any]]] = [
    *(
        (QUESTION, {"content": QUESTION, **more})
        for more in (
            {"content": "User: Where do I live?\nAssistant: In Lisbon."},
            {"metadata": {"answer": "In Lisbon."}},
            {"context": "In Lisbon."},
        )
    ),
    *(
        (query, {"content": query, "speaker": "user", "session_id": "s"})
        for query in ("Lisbon in May", "the API key rotates on Mondays", "Ünïcode in Größe 38")
    ),
]


def found(store: TieredStore, query: str) -> list[str]:
    """What a coordinator finds, and the tool that searches any store as well."""
    told = [one.content for one in coordinator(store, "ada").get_context(query)]
    tool = create_search_memory_tool("ada", store=store)
    assert [one["value"]["content"] for one in json.loads(tool.invoke({"query": query}))] == told
    return told


@pytest.mark.parametrize(("query", "asking"), ASKINGS)
def test_an_asking_is_known_whatever_its_case_marks_spaces_and_script(
    store: TieredStore, query: str, asking: dict[str, Any]
) -> None:
    coordinator(store, "ada").store_many([asking, ANSWERS[query]])

    assert found(store, query) == [ANSWERS[query]]


@pytest.mark.parametrize(("query", "telling"), TELLING)
def test_what_tells_more_than_it_asks_is_recalled(
    store: TieredStore, query: str, telling: dict[str, Any]
) -> None:
    coordinator(store, "ada").store_many([telling])

    assert found(store, query) == [telling["content"]]


# What an asking tells of the turns around it


def test_what_followed_an_earlier_asking_is_found_and_what_came_before_it_is_not(
    store: TieredStore,
) -> None:
    memory = coordinator(store, "ada", session_id="s")
    question = "What is my dentist called?"
    for key, text in (("joke", "Tell me a joke"), ("asked", question), ("answer", "Dr. Novak")):
        speaker = "assistant" if key == "answer" else "user"
        memory.store(text, speaker=speaker, session_id="s", key=key)
    answer, *others = memory.get_context(question, min_match=0)

    assert answer.key == "answer"
    assert answer.evidence["previous"] > 0
    assert [(one.key, "window" in one.evidence) for one in others] == [("joke", False)]


def test_the_search_tool_pages_over_askings_of_any_store() -> None:
    store = InMemoryStore()
    for n in range(12):
        content = QUESTION if n % 2 else f"Answer {n}"
        store.put(("ada",), f"{n:02}", {"content": content, "speaker": "user"})
    tool = create_search_memory_tool("ada", store=store)

    for limit in (20, 6, 0):
        answers = json.loads(tool.invoke({"query": QUESTION, "limit": limit}))
        assert len(answers) == min(limit, 6)
        assert not any(one["value"]["content"] == QUESTION for one in answers)
