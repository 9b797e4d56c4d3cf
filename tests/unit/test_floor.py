"""What is left out of a recall because it matches too little."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from langmem_tiers.core.memory import Recollection
from langmem_tiers.core.types import MemoryTypes
from langmem_tiers.core.values import SMALL_TALK
from langmem_tiers.recall.question import REMINDER_SET
from langmem_tiers.recall.ranking import ABOUT, NO_FLOOR, TURN_FLOOR, Floor, drop_irrelevant
from tests.support.recollections import NOW, recollection


def keys(memories: list[Recollection], floor: Floor, types: list[str] | None = None) -> list[str]:
    left = drop_irrelevant(memories, floor, 1.0, MemoryTypes(), among=20, asked=types)
    return [one.key for one in left]


@pytest.mark.parametrize("match", [ABOUT - 0.01, ABOUT])
def test_what_was_said_as_a_reminder_was_set_is_to_match_as_an_intention_has_to(
    match: float,
) -> None:
    facts = {"memory_type": "episodic", "speaker": "user"}
    said = recollection("said", "Remind me", value={REMINDER_SET: True}, match=match, **facts)
    intended = recollection("intended", memory_type="prospective", match=match)
    other = recollection("other", "The pond has newts", match=0.1, **facts)
    enough = match >= ABOUT
    several = [other, said, intended]
    assert keys(several, TURN_FLOOR) == (["other", "said", "intended"] if enough else ["other"])
    assert keys(several, NO_FLOOR) == ["other", "said", "intended"]
    assert keys(several, TURN_FLOOR, ["episodic", "prospective"]) == ["other", "said", "intended"]


def said_at(minute: int, key: str, speaker: str, match: float, **facts: Any) -> Recollection:
    moment = NOW + timedelta(minutes=minute)
    said = {"speaker": speaker, "session_id": "monday", "occurred_at": moment, "match": match}
    return recollection(key, memory_type="episodic", **{**said, **facts})


def test_an_answer_is_shown_if_it_answers_the_best_match_and_is_no_small_talk() -> None:
    asks = said_at(1, "asks", "user", 0.5)
    answer = said_at(2, "answer", "assistant", 0.06)
    assert keys([asks, answer], TURN_FLOOR) == ["asks", "answer"]
    assert keys([asks, said_at(2, "answer", "assistant", 0.04)], TURN_FLOOR) == ["asks"]
    talk = said_at(2, "talk", "assistant", 0.06, value={SMALL_TALK: 0.3})
    assert keys([asks, talk], TURN_FLOOR) == ["asks"]
    later = said_at(3, "later", "assistant", 0.06)
    assert keys([asks, answer, later], TURN_FLOOR) == ["asks", "answer"]
    assert keys([asks, answer, replace(later, match=0.3)], TURN_FLOOR) == [
        "asks",
        "answer",
        "later",
    ]


def test_what_was_said_next_is_shown_with_the_best_matches_unless_it_is_long() -> None:
    best = said_at(1, "best", "user", 0.5)
    answer = said_at(2, "answer", "assistant", 0.01)
    following = said_at(3, "next", "user", 0.001)
    after = said_at(4, "after", "user", 0.001)
    assert keys([best, answer, following, after], TURN_FLOOR) == ["best", "next"]
    assert keys([best, following, after], TURN_FLOOR._replace(goes_on=0)) == ["best"]
    long = said_at(3, "next", "user", 0.001, content="b" * (TURN_FLOOR.goes_on + 1))
    assert keys([best, long, after], TURN_FLOOR) == ["best"]
    elsewhere = said_at(3, "next", "user", 0.001, session_id="tuesday")
    assert keys([best, elsewhere], TURN_FLOOR) == ["best"]
    second = said_at(9, "second", "user", 0.25)
    last = said_at(10, "last", "user", 0.001)
    assert keys([best, following, second, last], TURN_FLOOR) == ["best", "second", "next", "last"]
    weak = replace(second, match=0.24)
    assert keys([best, following, weak, last], TURN_FLOOR) == ["best", "second", "next"]
    page = replace(following, speaker=None)
    assert keys([best, page], TURN_FLOOR) == ["best"]
    another = replace(following, project_id="other")
    assert keys([best, another], TURN_FLOOR) == ["best"]
    reminds = said_at(3, "next", "user", 0.001, value={REMINDER_SET: True})
    assert keys([best, reminds], TURN_FLOOR) == ["best"]
