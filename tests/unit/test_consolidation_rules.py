"""The rules of a cycle: what was said twice, what ends what, what rises, and when one is due."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from langmem_tiers import ConsolidationReport
from langmem_tiers.consolidation.judges import Pair
from langmem_tiers.consolidation.merge import (
    ComparisonGroup,
    DuplicateSet,
    Timeline,
    first_contradictions,
    join_duplicates,
)
from langmem_tiers.consolidation.policy import (
    ConsolidationSchedule,
    RisePolicy,
    due_reason,
    rise_reason,
    time_until_due,
)
from langmem_tiers.consolidation.report import add_counts
from langmem_tiers.consolidation.steps import StepFinding, StoredMemory
from langmem_tiers.core.errors import ConfigurationError, InvalidInputError
from langmem_tiers.core.texts import normalise
from tests.support.stored import NOON, stored

SOON = timedelta(minutes=10)
Near = dict[tuple[int, int], float]


# What says the same


def said(*texts: str) -> list[StoredMemory]:
    return [stored(number, text) for number, text in enumerate(texts)]


def pairs(items: list[StoredMemory], how: float = 1.0) -> Near:
    """All of them as near as that."""
    return {(one.id, other.id): how for one in items for other in items if one.id > other.id}


def told(items: list[StoredMemory], near: Near | None = None) -> Timeline:
    return Timeline(ComparisonGroup({one.id: one for one in items}, near or {}))


def repeated(
    items: list[StoredMemory], near: Near | None = None, within: timedelta = SOON
) -> list[DuplicateSet]:
    return told(items, near).find_repeated(within)


@pytest.mark.parametrize(
    "otherwise",
    [
        {"content": "Reading mail?"},
        {"content": "Reading mails"},
        {"created_at": NOON + timedelta(minutes=11)},
        {"occurred_at": NOON - timedelta(days=1)},
        {"speaker": "Ada"},
        {"source": "tool"},
        {"trust": 0.5},
        {"session": "another"},
        {"namespace": "another."},
    ],
    ids=str,
)
def test_another_text_time_speaker_source_or_place_is_not_twice_in_a_row(
    otherwise: dict[str, Any],
) -> None:
    assert repeated([stored(7, created_at=NOON), stored(3, created_at=NOON)]) == [
        DuplicateSet(3, (7,))
    ]
    assert repeated([stored(0, speaker="Ada"), stored(1, speaker="Ada", session="another")])
    assert repeated([stored(0), stored(1, **otherwise)]) == []


def test_what_is_said_anew_after_something_near_was_said_is_not_in_a_row() -> None:
    texts = said("The port is 80", "The port is 443", "The port is 80")
    assert repeated(texts, pairs(texts, 0.4)) == [DuplicateSet(0, (2,))]
    assert repeated(texts, pairs(texts, 0.5)) == []
    assert told(texts, pairs(texts)).similar_between(texts[2], texts[0]) == [texts[1]]
    again = said(*(one.content for one in texts), "The port is 443", "The port is 80")
    assert repeated(again, pairs(again)) == [DuplicateSet(0, (2,)), DuplicateSet(1, (3,))]


def test_what_is_near_may_say_the_same_and_the_older_one_comes_first() -> None:
    one, other = stored(1, valid_from=NOON), stored(2, "Mail is read", valid_from=NOON)
    near = {(2, 1): 0.85}
    assert told([one, other], near).find_similar(0.85) == [(one, other)]
    assert told([one, other], near).find_similar(0.86) == []
    earlier = other._replace(valid_from=NOON - timedelta(days=1))
    assert told([one, earlier], near).find_similar(0.85) == [(earlier, one)]
    days = [stored(number, created_at=NOON + timedelta(days=number)) for number in range(4)]
    beside = [(days[0], one) for one in days[1:]]
    assert told(days, pairs(days)).find_similar(0.9) == beside
    assert told(days, pairs(days)).find_similar(0.9, [DuplicateSet(0, (1, 2, 3))]) == []


def test_what_two_said_happened_twice_or_is_not_trusted_alike_is_not_the_same() -> None:
    given: dict[str, Any] = {"occurred_at": NOON, "speaker": "Ada"}
    one = stored(0, **given)
    for otherwise in (
        {"occurred_at": NOON + timedelta(days=1)}, {"trust": 0.4}, {"source": "tool"},
        {"speaker": "Ben"},
    ):  # fmt: skip
        other = stored(1, **given | otherwise)
        assert told([one, other], {(1, 0): 1.0}).find_similar(0.9) == []
    for speaker in ("Ada", None):
        other = stored(1, **given | {"speaker": speaker})
        assert told([one, other], {(1, 0): 1.0}).find_similar(0.9)


TEXTS = st.lists(st.sampled_from(["tea", "Tea.", "TEA!", "tea?", "coffee", ""]), max_size=9)


@settings(derandomize=True)
@given(TEXTS, st.integers(0, 12), st.randoms(use_true_random=False))
def test_what_repeats_knows_no_order_never_chains_and_leaves_nothing_to_merge(
    texts: list[str], minutes: int, drawn: random.Random
) -> None:
    memories, within = said(*texts), timedelta(minutes=minutes)
    found = repeated(memories, within=within)
    shuffled = memories[:]
    drawn.shuffle(shuffled)
    assert repeated(shuffled, within=within) == found
    for one in found:
        for other in one.others:
            texts_of = (normalise(memories[id_].content) for id_ in (one.survivor, other))
            assert len({*texts_of}) == 1
            assert one.survivor < other <= one.survivor + minutes
    gone = {other for one in found for other in one.others}
    assert len(gone) == sum(len(one.others) for one in found)
    assert repeated([one for one in memories if one.id not in gone], within=within) == []


ITEMS = [stored(n, f"text {n}") for n in range(12)]


@given(st.lists(st.tuples(st.sampled_from(ITEMS), st.sampled_from(ITEMS)), max_size=12))
def test_what_says_the_same_as_the_same_lives_on_in_the_oldest_of_all(alike: list[Pair]) -> None:
    found = join_duplicates(ITEMS, [], alike)
    home = {one: each.survivor for each in found for one in each.others}
    for one, other in alike:
        assert home.get(one.id, one.id) == home.get(other.id, other.id)
    for same in found:
        assert same.survivor < min(same.others)
        assert same.survivor not in home
    assert len(home) == sum(len(each.others) for each in found)
    assert (
        join_duplicates(ITEMS[::-1], [], [(other, one) for one, other in reversed(alike)]) == found
    )


# What ends, moves and rises


def test_a_memory_ends_where_the_first_that_contradicts_it_begins() -> None:
    one, two, three, four = ITEMS[:4]
    found = [(one, four), (one, three), (two, four)]
    assert (
        first_contradictions(found)
        == first_contradictions(found[::-1])
        == [(one, three), (two, four)]
    )


def test_importance_accesses_or_the_end_of_its_session_let_a_memory_rise() -> None:
    policy = RisePolicy()
    assert rise_reason(policy, 0.6, 0) == "importance >= 0.6"
    assert rise_reason(policy, None, 3) == "accesses >= 3"
    assert rise_reason(policy, None, 0, ended=True) == "its session ended"
    assert rise_reason(policy, 0.59, 2) is None
    assert rise_reason(RisePolicy(min_importance=0), None, 0) is None  # nobody told


# The report


def test_a_thousand_proposals_of_a_step_rest_in_the_checkpoint() -> None:
    found = StepFinding(namespace="", key="a", target_namespace="", target_key="b", reason="near")
    counts = add_counts({}, {"merge": {
        "done": {}, "left": {}, "kept": {"near": 1_500}, "moves": [], "findings": [found] * 1_500,
    }})  # fmt: skip
    assert len(counts["merge"]["findings"]) == 1_000
    assert counts["merge"]["kept"] == {"near": 1_500}


def test_near_pairs_are_listed_once_the_nearest_first_and_ten_at_most() -> None:
    def near(one: str, other: str, how: float) -> StepFinding:
        return StepFinding(
            namespace="", key=one, target_namespace="", target_key=other, reason="near", near=how
        )

    found = [near(f"k{n}", f"k{n + 1}", n / 20) for n in range(13)]
    twice = [near(str(one["target_key"]), one["key"], one["near"]) for one in found]
    alone = StepFinding(
        namespace="", key="old", target_namespace="", target_key="origin", reason="it rests on it"
    )
    said = add_counts({}, {
        "merge": {"findings": found}, "outdated": {"findings": [alone]},
        "promote": {"findings": twice},
    })  # fmt: skip
    report = ConsolidationReport.of({
        "tenant": "acme", "cycle": "c", "started_at": NOON.isoformat(), "skipped": None,
        "finished_at": NOON.isoformat(), "counts": said,
    })  # fmt: skip

    assert [one.near for one in report.proposed] == [*(n / 20 for n in range(12, -1, -1)), None]
    assert {one.step for one in report.proposed} == {"merge", "outdated"}
    listed = [line for line in str(report).splitlines() if "near" in line]
    assert listed == [f"  merge      proposed: k{n}, k{n + 1}: near" for n in range(12, 2, -1)]
    assert "  and 4 more: see proposed" in str(report).splitlines()


def test_a_state_in_which_no_cycle_has_ended_has_no_report() -> None:
    states: tuple[Any, ...] = ({}, {"messages": []}, {"consolidated": None}, None)
    for state in states:
        with pytest.raises(InvalidInputError, match="no cycle has ended"):
            ConsolidationReport.of(state)


# When a cycle is due

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOURLY = ConsolidationSchedule(every=timedelta(hours=1))


def test_a_schedule_by_which_nothing_can_be_due_is_refused() -> None:
    wrong: Any
    for wrong in (
        {},
        *({"every": every} for every in (timedelta(0), timedelta(seconds=-1), 3600)),
        *({"every_turns": turns} for turns in (0, True, 1.5)),
    ):
        with pytest.raises(ConfigurationError):
            ConsolidationSchedule(**wrong)


def test_turns_and_the_end_of_a_session_are_reasons_where_they_are_asked_for() -> None:
    turns = ConsolidationSchedule(every_turns=20)
    for known in (None, NOW):
        assert due_reason(turns, known, now=NOW, turns=19) is None
        assert due_reason(turns, known, now=NOW, turns=20) == "20 turns since the last cycle"
    ending = ConsolidationSchedule(on_session_end=True)
    assert due_reason(ending, NOW, now=NOW, session_ended=True) == "the session ended"
    assert due_reason(ending, None, now=NOW) is None
    assert due_reason(HOURLY, NOW, now=NOW, session_ended=True, turns=99) is None


_spans = st.timedeltas(timedelta(microseconds=1), timedelta(days=400))
_agos = st.timedeltas(timedelta(days=-10), timedelta(days=4000))


@given(every=_spans, ago=_agos)
def test_waiting_as_long_as_is_told_makes_it_due_and_not_earlier(
    every: timedelta, ago: timedelta
) -> None:
    schedule, known = ConsolidationSchedule(every=every), NOW - ago
    left = time_until_due(every, known, NOW)
    assert left >= timedelta(0)
    assert due_reason(schedule, known, now=NOW + left) == "the time has come"
    assert due_reason(schedule, NOW - max(ago, every), now=NOW) is not None  # one catches up
    assert due_reason(schedule, NOW, now=NOW) is None
    assert due_reason(schedule, None, now=NOW) == "the time has come"
    if left:
        assert due_reason(schedule, known, now=NOW + left - timedelta(microseconds=1)) is None
