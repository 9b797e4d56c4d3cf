"""Stages that use what earlier ones answered: follow-up questions, goals, and no repeats."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from langmem_tiers import MemoryCoordinator, MemoryOrchestrator, TieredStore, local_index
from tests.support.coordinating import coordinator
from tests.support.servers import fresh_database

TURNING = (
    "API key of the billing service",
    "tyres of the van",
    "crops on the north field",
    "guards at the gate",
    "logs of the mail server",
    "shifts in the kitchen",
    "backup tapes in the cellar",
    "pictures in the gallery",
    "hosts of the show",
)
OTHERS = ("invoices", "contracts", "visitors", "parcels", "plants", "bicycles")
GOAL = "Count the parcels and the invoices, and renew the contracts of the visitors"
GOALS = {"goals": lambda *_: f"Active goals:\n- {GOAL}"}


@pytest.fixture(scope="module")
def memory(server_url: str) -> Iterator[MemoryCoordinator]:
    with (
        fresh_database(server_url) as url,
        TieredStore.from_conn_string(url, index=local_index()) as store,
    ):
        store.setup()
        memory = coordinator(store, project_id="ops", session_id="chat")
        rng = random.Random(6)  # noqa: S311 - seeded, not secret
        texts = [fact(one) for one in TURNING]
        texts += [f"The {one} are counted on day {rng.randint(1, 28)}." for one in OTHERS]
        memory.store_many([{"content": one, "memory_type": "semantic"} for one in texts])
        yield memory


def fact(one: str) -> str:
    return f"The {one} rotate on day {len(one)} of the month."


def shown(memory: MemoryCoordinator, prompt: str, *messages: str, **options: Any) -> list[Any]:
    """The fragments of the semantic stage, the best first."""
    said = [{"role": "user", "content": one} for one in messages]
    with MemoryOrchestrator(memory, **options) as turn:
        found = turn.assemble_context(prompt, messages=said)
    chosen = [one for one in found.fragments if one.source == "semantic"]
    return sorted(chosen, key=lambda one: -one.memory.score)


def test_a_follow_up_question_finds_what_the_conversation_is_about(
    memory: MemoryCoordinator,
) -> None:
    prompt, ranks, alone = "And when does it rotate?", [], []
    for one in TURNING:
        found = [each.text for each in shown(memory, prompt, f"Where is the {one} kept?")]
        ranks.append(found.index(fact(one)))
        alone.append([each.text for each in shown(memory, prompt)].index(fact(one)))

    assert sum(rank < 2 for rank in ranks) >= len(TURNING) - 1
    assert sum(rank < 2 for rank in alone) <= 2


def looking_at(memory: MemoryCoordinator, one: str, stage: str) -> list[Any]:
    """The facts that a turn is shown whose identity, note or finding names one of them."""
    named = f"The {one} have come up"
    who = {"identity": {"identity": [named if stage == "identity" else "I keep a calendar"]}}
    if stage == "identity":
        return shown(memory, "When do they rotate?", sources=who)
    asked = "When did Ann last rotate them?" if stage == "episodic" else "When do they rotate?"
    noted = f"Ann: {named}" if stage == "episodic" else named
    chat = coordinator(memory.tiered_store, project_id="ops", session_id=f"{stage}-{one}")
    chat.store(noted, stage, key=f"{stage}-{one}", tier="short_term")
    return shown(chat, asked, sources={**who, **GOALS})


@pytest.mark.parametrize("stage", ["identity", "working", "episodic"])
def test_what_an_agent_is_has_noted_or_finds_helps_to_find_what_it_is_about(
    memory: MemoryCoordinator, stage: str
) -> None:
    found = {one: [each.text for each in looking_at(memory, one, stage)[:2]] for one in TURNING}

    assert sum(fact(one) in first for one, first in found.items()) >= len(TURNING) - 1


def test_a_goal_that_has_nothing_to_do_with_the_question_pushes_out_no_answer(
    memory: MemoryCoordinator,
) -> None:
    for one in TURNING:
        prompt = f"When do the {one} rotate?"
        assert shown(memory, prompt, GOAL, sources=GOALS)[0].text == fact(one)


@pytest.mark.slow
def test_a_larger_budget_does_not_lose_the_answer(memory: MemoryCoordinator) -> None:
    one = TURNING[1]
    said = [f"Message {n}: the {each} are in order" for n, each in enumerate(TURNING)]
    answered = []
    for budget in range(60, 900, 10):
        with MemoryOrchestrator(memory, sources=GOALS) as turn:
            found = turn.assemble_context(f"When do the {one} rotate?", budget, messages=said)
        answered.append(fact(one) in found.text)

    assert answered == sorted(answered)
    assert answered.index(True) < 10


def test_the_same_turn_shows_the_same_text_and_counts_each_memory_once(
    memory: MemoryCoordinator,
) -> None:
    before = memory.stats().accesses
    contexts = []
    for _ in range(2):
        with MemoryOrchestrator(memory, sources=GOALS) as turn:
            contexts.append(turn.assemble_context("What is counted?", messages=[GOAL]))

    recalled = [one for one in contexts[0].decisions if one.fragment.memory is not None]
    assert contexts[0].text == contexts[1].text
    assert memory.stats().accesses - before == 2 * len(recalled)


def test_a_prompt_that_the_store_has_nothing_for_is_shown_little_unless_the_cut_off_is_lifted(
    memory: MemoryCoordinator,
) -> None:
    for prompt, most in (("Hello!", 0), ("What does Zorro drink?", 0), ("Count to five.", 8)):
        assert len(shown(memory, prompt)) <= most < len(TURNING)

    with MemoryOrchestrator(memory) as turn:
        for wider, most in (({}, 10), ({"limit": 12}, 12)):
            found = turn.assemble_context(
                "What does Zorro drink?", filters={"min_match": 0, **wider}
            )
            assert len([one for one in found.fragments if one.source == "semantic"]) == most


def test_messages_that_the_model_sees_inform_the_turn_and_are_not_shown(
    memory: MemoryCoordinator,
) -> None:
    one = TURNING[0]
    said = f"Where is the {one} kept?"

    with MemoryOrchestrator(memory) as turn:
        found = turn.assemble_context(
            "And when does it rotate?", messages=[said], show_messages=False
        )

    assert "## Conversation History" not in found.text
    assert said not in found.text
    (raised,) = [each for each in found.fragments if each.text == fact(one)]
    assert " conversation" in raised.rationale
