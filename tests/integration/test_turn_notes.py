"""Notes of a session in a turn: those that answer first, then the newest, while there is room."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from langmem_tiers import MemoryCoordinator, MemoryOrchestrator, TieredStore, local_index
from tests.support.coordinating import coordinator
from tests.support.opening import Clock
from tests.support.servers import fresh_database

ANSWER = "The spare key of the vault is with the caretaker."
QUESTION = "Who has the spare key of the vault?"
OTHERS = (
    "Ann asked for two invoices of March.",
    "The van leaves for the harbour at nine.",
    "Tea was served in the garden.",
    "Ben is counting parcels this week.",
    "A window of the kitchen is cracked.",
    "The printer needs new paper.",
    "Lunch is at one on Thursdays.",
    "The north field is being mown.",
    "Two guests wait in the lobby.",
    "The lamp in the corridor flickers.",
    "A letter from the council came.",
    "The bicycles stand in the shed.",
    "Rain is forecast for Sunday.",
)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def memory(server_url: str, clock: Clock) -> Iterator[MemoryCoordinator]:
    with (
        fresh_database(server_url) as url,
        TieredStore.from_conn_string(url, index=local_index(), clock=clock) as store,
    ):
        store.setup()
        yield coordinator(store, project_id="ops", session_id="chat")


def note(memory: MemoryCoordinator, clock: Clock, *texts: str) -> None:
    for one in texts:
        clock.advance(seconds=1)
        memory.store(one, "working", tier="short_term")


def notes(memory: MemoryCoordinator, prompt: str, **options: Any) -> list[str]:
    with MemoryOrchestrator(memory) as turn:
        found = turn.assemble_context(prompt, **options)
    return [one.text for one in found.fragments if one.source == "working"]


def test_of_14_notes_the_oldest_that_answers_comes_first_and_all_are_shown(
    memory: MemoryCoordinator, clock: Clock
) -> None:
    note(memory, clock, ANSWER, *OTHERS)

    found = notes(memory, QUESTION)

    assert found[0] == ANSWER
    assert sorted(found) == sorted([ANSWER, *OTHERS])


def test_where_there_is_little_room_the_note_that_answers_has_it(
    memory: MemoryCoordinator, clock: Clock
) -> None:
    note(memory, clock, ANSWER, *OTHERS)

    for budget in (60, 90, 140):
        assert notes(memory, QUESTION, budget=budget)[0] == ANSWER


def test_after_what_answers_come_the_newest(memory: MemoryCoordinator, clock: Clock) -> None:
    note(memory, clock, ANSWER, *OTHERS)

    found = notes(memory, QUESTION, filters={"limit": 4})
    nothing = notes(memory, "", filters={"limit": 3})

    assert found[0] == ANSWER
    assert found[1:] == [*reversed(OTHERS)][: len(found) - 1]
    assert len(found) == 4
    assert nothing == [*reversed(OTHERS)][:3]


def test_more_notes_that_answer_nothing_take_no_room_from_memories(
    memory: MemoryCoordinator, clock: Clock
) -> None:
    facts = [f"The key of vault {n} is with guard {n}." for n in range(9)]
    memory.store_many({"content": one, "memory_type": "semantic"} for one in facts)
    busy = coordinator(memory.tiered_store, project_id="ops", session_id="busy")
    note(busy, clock, *(f"Somebody rang the bell at the back door, ring {n}." for n in range(30)))
    for one in (memory, busy):
        note(one, clock, *OTHERS[:10])

    def shown(whose: MemoryCoordinator, budget: int) -> set[str]:
        with MemoryOrchestrator(whose) as turn:
            fragments = turn.assemble_context("Who has the keys of the vaults?", budget).fragments
        return {one.text for one in fragments if one.source == "semantic"}

    for budget in (100, 200, 400, 800):
        assert shown(busy, budget) == shown(memory, budget)
    assert shown(busy, 800) == set(facts)


def test_a_follow_up_question_finds_the_note_that_the_conversation_is_about(
    memory: MemoryCoordinator, clock: Clock
) -> None:
    note(memory, clock, ANSWER, *OTHERS)

    said = [{"role": "user", "content": "Is there a spare key of the vault?"}]
    found = notes(memory, "And who has it?", messages=said, filters={"limit": 5})

    assert ANSWER in found


def test_a_note_that_answers_counts_as_accessed_and_the_newest_do_not(
    memory: MemoryCoordinator, clock: Clock
) -> None:
    note(memory, clock, ANSWER, *OTHERS)
    before = memory.stats().accesses

    found = notes(memory, QUESTION)

    assert len(found) == 14
    assert 1 <= memory.stats().accesses - before < 5
