"""What is left out of a recall because it matches too little."""

from __future__ import annotations

import pytest

from langmem_tiers.core.memory import Recollection
from langmem_tiers.core.types import MemoryTypes
from langmem_tiers.recall.floor import ABOUT, NO_FLOOR, TURN_FLOOR, Floor, shown
from langmem_tiers.recall.question import REMINDER_SET
from tests.support.recollections import recollection


def keys(memories: list[Recollection], floor: Floor, types: list[str] | None = None) -> list[str]:
    left = shown(memories, floor, 1.0, MemoryTypes(), among=len(memories), asked=types)
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
