from __future__ import annotations

import json
from typing import Any

import pytest
from langgraph.store.memory import InMemoryStore

from langmem_tiers import MemoryContext, TieredStore, TurnMiddleware
from langmem_tiers.graph.tools import create_search_memory_tool
from tests.support.agents import Way, agent_on, scripted
from tests.support.coordinating import coordinator
from tests.support.opening import Clock

QUESTION = "Where do I live?"
ANSWER = "I live in Lisbon with my dog Rex."
ASKED = 60
"""More often than a leg of the statement has candidates."""


async def test_a_question_asked_day_after_day_is_answered_and_not_repeated(
    way: Way, clock: Clock
) -> None:
    model = scripted("Noted.", "Why did the chicken?", "OK.", "I don't know.", "In Lisbon.", "Yes.")
    agent = agent_on(way.store, model, TurnMiddleware())
    for day, text in enumerate((ANSWER, "Tell me a joke", *[QUESTION] * 4)):
        given = {"messages": [{"role": "user", "content": text, "id": f"{day}"}]}
        await way(agent, given, context=MemoryContext(tenant="ada", session_id=f"{day // 3}"))
        clock.advance(days=day // 2)
        if day > 2:
            shown = "\n".join(one.text for one in model.seen[-1] if one.type == "system")
            assert "Lisbon" in shown
            assert QUESTION not in shown


def test_earlier_askings_take_no_answers_place(store: TieredStore) -> None:
    memory = coordinator(store, "ada")
    memory.store(ANSWER, speaker="user", session_id="d0")
    memory.store_many(
        {"content": QUESTION, "speaker": "user", "session_id": f"d{day}", "key": f"asked {day}"}
        for day in range(1, ASKED)
    )

    assert [one.content for one in memory.get_context(QUESTION, limit=1)] == [ANSWER]
    tool = create_search_memory_tool("ada", store=store)
    (one,) = json.loads(tool.invoke({"query": QUESTION, "limit": 1}))
    assert one["value"]["content"] == ANSWER


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
        for query in ("Lisbon", "the API key rotates on Mondays", "Ünïcode größe")
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
    coordinator(store, "ada").store_many([asking, "Rex is a dog."])

    assert found(store, query) == ["Rex is a dog."]


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
    answer, *others = memory.get_context(question)

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
