"""What is carried out of several proposals of one cycle."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from langmem_tiers.consolidate.review import reviewed
from langmem_tiers.consolidate.steps import Decision, Proposal


def decision(source: int, target: int | None) -> Decision:
    return Decision(
        id=source,
        namespace="",
        key=str(source),
        version="2026-01-01T00:00:00+00:00",
        reason="says the same",
        target=target,
        target_key=None if target is None else str(target),
        target_version=None,
        detail={},
    )


def proposal(*pairs: tuple[int, int | None]) -> Proposal:
    return Proposal(decisions=[decision(*pair) for pair in pairs], kept={})


def pairs(decisions: list[Decision]) -> list[tuple[int, int | None]]:
    return [(one["id"], one["target"]) for one in decisions]


def test_what_two_batches_say_alike_is_said_once() -> None:
    standing, fallen = reviewed([proposal((2, 1)), proposal((2, 1))], hands_over=True)

    assert (pairs(standing), fallen) == ([(2, 1)], [])


def test_of_two_decisions_on_a_memory_the_first_stands() -> None:
    standing, fallen = reviewed([proposal((5, 3)), proposal((5, 1))], hands_over=True)

    assert (pairs(standing), pairs(fallen)) == ([(5, 1)], [(5, 3)])


def test_a_memory_that_takes_over_does_not_go_elsewhere() -> None:
    standing, fallen = reviewed([proposal((3, 2)), proposal((2, 1))], hands_over=True)

    assert (pairs(standing), pairs(fallen)) == ([(2, 1)], [(3, 2)])


def test_what_is_superseded_may_itself_have_superseded() -> None:
    standing, fallen = reviewed([proposal((1, 2)), proposal((2, 3))], hands_over=False)

    assert (pairs(standing), fallen) == ([(1, 2), (2, 3)], [])


@given(
    batches=st.lists(
        st.lists(st.tuples(st.integers(2, 12), st.integers(1, 11)).filter(lambda it: it[0] > it[1]))
    ),
    hands_over=st.booleans(),
)
def test_every_decision_stands_or_falls_and_no_memory_is_decided_on_twice(
    *, batches: list[list[tuple[int, int]]], hands_over: bool
) -> None:
    standing, fallen = reviewed([proposal(*batch) for batch in batches], hands_over=hands_over)

    asked = {pair for batch in batches for pair in batch}
    assert sorted(pairs(standing) + pairs(fallen)) == sorted(asked)
    gone = [one["id"] for one in standing]
    assert len(gone) == len(set(gone))
    if hands_over:
        assert not set(gone) & {one["target"] for one in standing}
    backwards, _ = reviewed(
        [proposal(*batch) for batch in reversed(batches)], hands_over=hands_over
    )
    assert pairs(backwards) == pairs(standing)
