"""What earlier stages say, put to use: how much it counts, and that it never counts for more."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langmem_tiers.core.memory import Recollection
from langmem_tiers.turn.memory_sources import WEIGHT, merge_circumstances
from tests.support.recollections import recollection


def found(**scores: float) -> list[Recollection]:
    return [
        recollection(key, score=score, match=score, explanation={"match": score})
        for key, score in sorted(scores.items(), key=lambda one: -one[1])
    ]


several = st.dictionaries(
    st.sampled_from("abcdefgh"), st.floats(0.01, 1, allow_nan=False), max_size=8
).map(lambda scores: found(**scores))


@pytest.mark.slow
@given(several, several, several, st.integers(1, 10))
def test_circumstances_add_half_of_the_best_answer_at_most(
    direct: list[Recollection],
    conversation: list[Recollection],
    goals: list[Recollection],
    limit: int,
) -> None:
    informed = {"conversation": conversation, "goals": goals}

    best = merge_circumstances(direct, informed, limit)

    alone = {one.key: one.score for one in direct}
    assert len(best) == min(limit, len({one.key for one in (*direct, *conversation, *goals)}))
    assert [one.score for one in best] == sorted((one.score for one in best), reverse=True)
    top = max(alone.values(), default=None)
    for one in best:
        told = max([0.0, *(each.score for each in (*conversation, *goals) if each.key == one.key)])
        more = WEIGHT * (told if top is None else min(top, told))
        assert abs(one.score - alone.get(one.key, 0.0) - more) < 1e-9
        assert abs(sum(one.explanation.values()) - one.score) < 1e-9
    if top is not None:
        before = [one for one in best if one.score > top and alone.get(one.key) != top]
        assert all(alone.get(one.key, 0.0) >= (1 - WEIGHT) * top - 1e-9 for one in before)
    assert best == merge_circumstances(direct, informed, limit)
    assert merge_circumstances(direct, {}, limit) == direct[:limit]
