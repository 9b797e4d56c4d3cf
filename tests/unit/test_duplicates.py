"""What was said twice in a row, what may say the same, and what ends what."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from langmem_tiers.consolidate.duplicates import Cluster, Tellings
from langmem_tiers.consolidate.judge import Pair
from langmem_tiers.consolidate.steps import Item
from langmem_tiers.core.reading import normalised

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SOON = timedelta(minutes=10)
Near = dict[tuple[int, int], float]


def item(number: int, content: str = "Bob likes tea", **facts: Any) -> Item:
    """A memory, a minute after the one before it."""
    return Item(number, NOON + timedelta(minutes=number), content)._replace(**facts)


def said(*texts: str) -> list[Item]:
    return [item(number, text) for number, text in enumerate(texts)]


def pairs(items: list[Item], how: float = 1.0) -> dict[tuple[int, int], float]:
    """All of them as near as that."""
    return {(one.id, other.id): how for one in items for other in items if one.id > other.id}


def repeated(items: list[Item], near: Near = {}, within: timedelta = SOON) -> list[Cluster]:  # noqa: B006 - nobody changes it
    """What was said twice in a row."""
    return Tellings(items, near).repeated(within)


def similar(items: list[Item], near: Near, sure: list[Cluster], least: float) -> list[Pair]:
    """What may say the same."""
    return Tellings(items, near).similar(least, sure)


def test_what_repeats_lives_on_in_the_oldest() -> None:
    texts = said("Bob likes tea", "bob  likes tea!", "Ada likes tea", "BOB LIKES TEA.")
    assert repeated(texts) == [Cluster(0, (1, 3))]


def test_of_one_moment_the_lower_id_is_the_older() -> None:
    one, other = item(7, created_at=NOON), item(3, created_at=NOON)
    assert repeated([one, other]) == [Cluster(3, (7,))]


@pytest.mark.parametrize(
    "otherwise",
    [
        {"content": "Bob likes tea?"},
        {"content": "Bob likes teas"},
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
    assert repeated([item(0), item(1)])
    assert repeated([item(0), item(1, **otherwise)]) == []


def test_what_is_said_anew_after_something_near_was_said_is_not_in_a_row() -> None:
    texts = said("The port is 80", "The port is 443", "The port is 80")
    assert repeated(texts, pairs(texts, 0.4)) == [Cluster(0, (2,))]
    assert repeated(texts, pairs(texts, 0.5)) == []
    assert Tellings(texts, pairs(texts)).between(texts[2], texts[0]) == [texts[1]]


def test_a_batch_told_again_is_told_in_a_row_and_the_last_word_stays_the_last() -> None:
    texts = said("The port is 80", "The port is 443", "The port is 80", "The port is 443")
    assert repeated(texts, pairs(texts)) == [Cluster(0, (2,)), Cluster(1, (3,))]
    more = [*texts, item(4, "The port is 80")]
    assert repeated(more, pairs(more)) == [Cluster(0, (2,)), Cluster(1, (3,))]


def test_what_is_near_may_say_the_same_and_the_older_one_comes_first() -> None:
    one, other = item(1, valid_from=NOON), item(2, "Tea is what Bob likes", valid_from=NOON)
    near = {(2, 1): 0.85}
    assert similar([one, other], near, [], 0.85) == [(one, other)]
    assert similar([one, other], near, [], 0.86) == []
    earlier = other._replace(valid_from=NOON - timedelta(days=1))
    assert similar([one, earlier], near, [], 0.85) == [(earlier, one)]


def test_of_equal_texts_each_stands_beside_the_oldest_and_clusters_are_one() -> None:
    texts = [item(number, created_at=NOON + timedelta(days=number)) for number in range(4)]
    assert similar(texts, pairs(texts), [], 0.9) == [(texts[0], one) for one in texts[1:]]
    assert similar(texts, pairs(texts), [Cluster(0, (1, 2, 3))], 0.9) == []


def test_what_two_said_happened_twice_or_is_not_trusted_alike_is_not_the_same() -> None:
    one = item(0, memory_type="episodic", occurred_at=NOON, speaker="Ada")
    for otherwise in (
        {"occurred_at": NOON + timedelta(days=1)}, {"trust": 0.4}, {"source": "tool"},
        {"speaker": "Ben"},
    ):  # fmt: skip
        other = one._replace(id=1, **otherwise)
        assert similar([one, other], {(1, 0): 1.0}, [], 0.9) == []
    for speaker in ("Ada", None):
        assert similar([one, one._replace(id=1, speaker=speaker)], {(1, 0): 1.0}, [], 0.9)


TEXTS = st.lists(st.sampled_from(["tea", "Tea.", "TEA!", "tea?", "coffee", ""]), max_size=9)


@settings(derandomize=True)
@given(TEXTS, st.integers(0, 12), st.randoms(use_true_random=False))
def test_clusters_know_no_order_never_chain_and_leave_nothing_to_merge(
    texts: list[str], minutes: int, drawn: random.Random
) -> None:
    memories, within = said(*texts), timedelta(minutes=minutes)
    found = repeated(memories, within=within)
    shuffled = memories[:]
    drawn.shuffle(shuffled)
    assert repeated(shuffled, within=within) == found
    for one in found:
        for other in one.others:
            texts_of = (normalised(memories[id_].content) for id_ in (one.survivor, other))
            assert len({*texts_of}) == 1
            assert one.survivor < other <= one.survivor + minutes
    gone = {other for one in found for other in one.others}
    assert len(gone) == sum(len(one.others) for one in found)
    assert repeated([one for one in memories if one.id not in gone], within=within) == []
