"""A person's words that an assistant says back take no place of their own when shown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from langchain_core.messages import HumanMessage, SystemMessage

from langmem_tiers import (
    MemoryCoordinator,
    TieredMemoryMiddleware,
    TieredStore,
    create_recall_node,
    local_index,
)
from langmem_tiers.postgres.embeddings import LocalEmbeddings
from langmem_tiers.recall.budget import deduplicate
from tests.support.agents import agent_on, scripted
from tests.support.graphs import ACME, asks, chain
from tests.support.opening import Clock
from tests.support.recollections import recollection

SAID, BACK = "I live in Lisbon with my dog Rex.", "You live in Lisbon with your dog Rex."
OTHER = "The dog of my sister lives in Porto."
QUESTION = "Where do I live with my dog?"


@pytest.fixture
def local(database_url: str, clock: Clock) -> Iterator[TieredStore]:
    with TieredStore(database_url, index=local_index(), clock=clock) as store:
        store.setup()
        yield store


def shown(model: Any) -> list[str]:
    """Return the memories in the last request's system message, line by line."""
    first = model.seen[-1][0]
    text = first.text if isinstance(first, SystemMessage) else ""
    return [line for line in text.splitlines() if line.startswith("- ")]


def test_an_agent_is_shown_once_what_it_said_back_each_day(
    local: TieredStore, clock: Clock
) -> None:
    model = scripted(*[BACK, "Noted."] * 5, "In Lisbon")
    made = agent_on(local, model, TieredMemoryMiddleware(limit=2))

    def say(text: str, name: str) -> None:
        thread: Any = {"configurable": {"thread_id": name}}
        made.invoke({"messages": [HumanMessage(text)]}, thread, context=ACME)
        clock.advance(days=1)

    for day in range(5):
        say(SAID, f"home {day}")
        say(OTHER, f"sister {day}")
    say(QUESTION, "asks")

    assert len([line for line in shown(model) if "Lisbon" in line]) == 1
    assert any(SAID in line for line in shown(model))
    assert any("Porto" in line for line in shown(model))
    memory = MemoryCoordinator(local, context=ACME)
    found = [one.content for one in memory.get_context(QUESTION, limit=20)]
    assert {SAID, BACK} <= set(found)  # nothing is deleted, or hidden from a question for all


@pytest.mark.parametrize("order", [(SAID, BACK), (BACK, SAID)], ids=["said", "back"])
def test_a_recall_node_shows_what_the_person_said_whoever_stored_first(
    local: TieredStore, order: tuple[str, str]
) -> None:
    memory = MemoryCoordinator(local, context=ACME)
    for text in order:
        memory.store(text, "semantic", source="user" if text == SAID else "agent")
    memory.store(OTHER, "semantic")
    state = chain(local, create_recall_node(limit=2)).invoke(
        {"messages": [asks(QUESTION)]}, context=ACME
    )
    assert [one["content"] for one in state["recalled"]] == [SAID, OTHER]


@pytest.mark.parametrize(
    ("said", "back"),
    [
        ("I live in Lisbon with my dog Rex.", "You live in Porto with your dog Rex."),
        ("I live in Lisbon with my dog Rex.", "You live in Lisbon with your dog Max."),
        ("I pay 15 EUR for my train.", "You pay 16 EUR for your train."),
        ("I have two sons.", "You have three sons."),
        ("I can eat my nuts.", "You can't eat your nuts."),
        ("I always eat my nuts.", "You never eat your nuts."),
        ("I do eat nuts.", "You do not eat nuts."),
        ("I have a car.", "You have no car."),
        ("I drink tea with milk.", "You drink tea without milk."),
        ("He has my keys.", "She has your keys."),
        ("We meet on Monday at my place.", "We meet on Tuesday at your place."),
        ("I take it before my meals.", "You take it after your meals."),
        ("I like C++ for my work.", "You like C# for your work."),
    ],
)
def test_what_differs_by_a_name_a_number_or_a_negation_keeps_its_place(
    said: str, back: str
) -> None:
    several = [
        recollection("said", said, speaker="user"),
        recollection("back", back, speaker="assistant"),
    ]
    assert deduplicate(several, 0.85, LocalEmbeddings()) == several


@pytest.mark.parametrize("speakers", [("user", "user"), ("ann", "ben"), ("assistant", "bot")])
def test_what_two_of_a_kind_say_of_themselves_keeps_its_place(speakers: tuple[str, str]) -> None:
    several = [
        recollection(text, text, speaker=speaker)
        for text, speaker in zip((SAID, BACK), speakers, strict=True)
    ]
    assert deduplicate(several, 0.85, LocalEmbeddings()) == several
