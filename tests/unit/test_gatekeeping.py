"""What the gate's flows stand on: what was recalled lately, and what a value says of its trust."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langmem_tiers.core.errors import InvalidInputError, InvalidTypeError
from langmem_tiers.core.memory import Recollection, Tier
from langmem_tiers.core.values import provenance_of, trust_of
from langmem_tiers.remember.candidate import LIFE, MOST, RecalledLately, recalled_texts
from langmem_tiers.remember.gate import GatePolicy

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def recollection(number: int) -> Recollection:
    return Recollection(
        key=f"k{number}",
        namespace=("acme", "p"),
        tier=Tier.WORKING,
        memory_type="semantic",
        content=f"Room {number} has {number} desks.",
        value={},
        created_at=NOW,
        updated_at=NOW,
    )


def test_the_latest_recollections_are_kept_each_once_and_for_an_hour() -> None:
    lately = RecalledLately()
    lately.note(map(recollection, range(MOST + 10)), NOW)
    lately.note([recollection(MOST)], NOW + timedelta(minutes=1))
    kept = [one.key for one in lately.known(NOW + LIFE)]
    assert len(kept) == len(set(kept)) == MOST
    assert (kept[0], kept[-1]) == (f"k{MOST}", "k10")
    late = lately.known(NOW + LIFE + timedelta(seconds=1))
    assert [one.key for one in late] == [f"k{MOST}"]


def test_what_was_recalled_is_told_as_texts_recollections_or_their_facts() -> None:
    facts = {"content": "a", "key": "k", "namespace": ["acme", "p"], "score": 1.0}
    text, whole, told = recalled_texts(["a", recollection(1), facts])
    assert (text.content, text.key) == ("a", None)
    assert (whole.key, whole.namespace) == ("k1", ("acme", "p"))
    assert (told.key, told.namespace) == ("k", ("acme", "p"))


@pytest.mark.parametrize("given_", ["a text", {"content": "a"}, [3], [{"text": "a"}], 7])
def test_anything_else_was_not_recalled(given_: Any) -> None:
    with pytest.raises(InvalidTypeError):
        recalled_texts(given_)


VALUES = st.dictionaries(
    st.sampled_from(["trust", "source", "content"]),
    st.floats(-1, 2) | st.booleans() | st.text(max_size=3) | st.none(),
    max_size=3,
)


@given(values=st.lists(VALUES, max_size=4))
def test_what_comes_of_values_is_trusted_as_the_least_of_them(values: list[Any]) -> None:
    derived = provenance_of(values)
    assert trust_of(derived) == min(map(trust_of, values), default=1.0)


@pytest.mark.parametrize(
    "given_", [{"capacity": {"semantic": 0}}, {"tier_capacity": {"cellar": 3}}]
)
def test_a_place_holds_one_or_more_in_a_tier_that_is_there(given_: Any) -> None:
    with pytest.raises(InvalidInputError):
        GatePolicy(**given_)
