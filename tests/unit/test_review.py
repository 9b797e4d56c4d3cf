"""What is carried out of several proposals of one cycle."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langmem_tiers.consolidation.steps import Proposal, StepDecision, combine_proposals


def decision(source: int, target: int | None) -> StepDecision:
    return StepDecision(
        id=source,
        namespace="",
        key=str(source),
        version="2026-01-01T00:00:00+00:00",
        reason="says the same",
        target=target,
        target_namespace=None if target is None else "",
        target_key=None if target is None else str(target),
        target_version=None,
        detail={},
    )


def proposal(*pairs: tuple[int, int | None]) -> Proposal:
    return Proposal(decisions=[decision(*pair) for pair in pairs], kept={})


def pairs(decisions: list[StepDecision]) -> list[tuple[int, int | None]]:
    return [(one["id"], one["target"]) for one in decisions]


@pytest.mark.parametrize("chain", [((3, 2), (2, 1)), ((2, 3), (3, 4))])
def test_what_was_to_live_on_in_a_memory_that_goes_elsewhere_is_judged_again(
    chain: tuple[tuple[int, int], tuple[int, int]],
) -> None:
    found = combine_proposals([proposal(one) for one in chain], hands_over=True)

    assert (pairs(found.decisions), found.rejudge) == ([min(chain)], [max(chain)[0]])


@given(
    batches=st.lists(
        st.lists(st.tuples(st.integers(2, 12), st.integers(1, 11)).filter(lambda it: it[0] > it[1]))
    ),
    hands_over=st.booleans(),
)
def test_every_memory_is_decided_on_once_or_judged_again(
    *, batches: list[list[tuple[int, int]]], hands_over: bool
) -> None:
    found = combine_proposals([proposal(*batch) for batch in batches], hands_over=hands_over)

    asked = {pair for batch in batches for pair in batch}
    gone = [one["id"] for one in found.decisions]
    assert set(pairs(found.decisions)) <= asked
    assert sorted([*gone, *found.rejudge]) == sorted({source for source, _ in asked})
    if hands_over:
        assert not set(gone) & {one["target"] for one in found.decisions}
    else:
        assert found.rejudge == []
    backwards = [proposal(*reversed(batch)) for batch in reversed(batches)]
    assert combine_proposals(backwards, hands_over=hands_over) == found
