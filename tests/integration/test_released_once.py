"""Of a memory and what it lives on in, one is current, in whatever order they are released."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from itertools import permutations

import psycopg
import pytest

from langmem_tiers import MemoryCoordinator, TieredStore
from tests.support.coordinating import coordinator, keys
from tests.support.cycles import cycle
from tests.support.cycling import EASY
from tests.support.learning import broken
from tests.support.opening import Clock
from tests.support.reviewing import BAD, Answer, latest, model_of, scoring
from tests.support.wayward_chat import minded

FACT = "The key of the invoices rotates each week at 9:00."
LATER = "The key of the invoices rotates each month at 9:00."


@pytest.fixture
def answers() -> list[Answer]:
    """What the model answers: as the last of these says."""
    return [BAD["fails"]]


@pytest.fixture
def memory(store: TieredStore, url: str, answers: list[Answer]) -> Iterator[MemoryCoordinator]:
    with minded(latest(answers)) as server:
        yield coordinator(
            store, project_id="billing", review_model=model_of(server), review_storage="background"
        )
    assert broken(url) == {}


def states(url: str) -> dict[str, str | None]:
    """How each memory stands, by its key."""
    with psycopg.connect(url) as conn:
        return dict(conn.execute("SELECT key, state FROM memory.memories").fetchall())


def chain(memory: MemoryCoordinator, clock: Clock) -> tuple[str, str, str]:
    """The keys of a memory, of what it was merged into, and of what that was promoted to."""
    memory.store(FACT, "semantic", key="kept")
    memory.store(FACT.lower(), "semantic", key="merged")
    memory.finish_reviews()
    cycle(memory.tiered_store).invoke({}, context=memory.context)
    memory.record_outcome(memory.get_context(FACT), success=True)
    clock.advance(days=1)
    move = memory.promote_to_long_term("kept", policy=EASY)
    assert move.successor is not None
    return "merged", "kept", move.successor


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_of_what_lives_on_in_another_only_that_is_current_once_it_is_released(
    memory: MemoryCoordinator,
    clock: Clock,
    url: str,
    answers: list[Answer],
    order: tuple[int, ...],
) -> None:
    several = chain(memory, clock)
    before = states(url)
    answers.append(scoring(injection=0))
    memory.review_waiting()
    assert states(url) == dict.fromkeys(several, "quarantined")

    released: set[str] = set()
    for key in (several[place] for place in order):
        done = memory.release(key, reason="we looked at it")
        released.add(key)
        assert done.state == before[key]
        assert keys(memory.get_context(FACT)) == [one for one in several[1:2] if one in released]
    assert states(url) == before


def test_what_lives_on_in_another_is_current_when_it_is_released_and_that_is_rejected(
    memory: MemoryCoordinator, clock: Clock, answers: list[Answer]
) -> None:
    merged, kept, successor = chain(memory, clock)
    answers.append(scoring(injection=0))
    memory.review_waiting()

    memory.release(kept, reason="it is so")
    memory.reject(successor, reason="it need not be everybody's")
    memory.reject(merged, reason="it is said already")

    assert keys(memory.get_context(FACT)) == [kept]


def test_what_was_superseded_is_not_current_again_for_being_released(
    memory: MemoryCoordinator, clock: Clock, answers: list[Answer]
) -> None:
    memory.store(FACT, key="old")
    clock.advance(days=1)
    memory.store(LATER, key="new")
    memory.finish_reviews()
    memory.supersede("old", by="new")
    answers.append(scoring(injection=0))
    assert memory.review_waiting(limit=1).quarantined == ("old",)

    assert memory.release("old", reason="it was so").state == "superseded"
    assert keys(memory.get_context(FACT)) == ["new"]
    past = memory.get_context(FACT, as_of=clock.now - timedelta(hours=1))
    assert keys(past) == ["old"]
