"""Trust is a lattice: what is derived is trusted as its least trusted origin, and never rises."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langmem_tiers.core.context import Caller
from langmem_tiers.core.errors import InvalidInputError, InvalidTypeError
from langmem_tiers.core.memory import TRUST_THRESHOLD
from langmem_tiers.core.values import provenance_of, trust_of
from langmem_tiers.remember.duplicates import (
    MAX_CHARACTERS,
    MAX_OF_ALL,
    MAX_PER_CALLER,
    RECALL_LIFE,
    RecentRecalls,
)
from langmem_tiers.remember.gate import (
    INSTRUCTING_TRUST,
    SOURCE_TRUST,
    GatePolicy,
    TrustPolicy,
    derived_trust,
    released_trust,
)
from langmem_tiers.remember.new_memory import parse_recalled
from tests.support.recollections import NOW, recollection

trusts = st.floats(0, 1)
several = st.lists(trusts, max_size=8)


@given(trusts, several, several)
def test_how_memories_are_derived_from_each_other_does_not_matter(
    own: float, some: list[float], others: list[float]
) -> None:
    at_once = derived_trust(own, [*some, *others])

    assert derived_trust(derived_trust(own, some), others) == at_once
    assert derived_trust(own, [*others, *some]) == at_once
    assert derived_trust(at_once, [at_once]) == at_once


@given(st.lists(st.tuples(st.sampled_from(sorted(SOURCE_TRUST)), st.integers(0, 7)), max_size=40))
def test_no_chain_of_derivations_launders_what_is_suspect(steps: list[tuple[str, int]]) -> None:
    """Each step derives a memory from an earlier one; all that came of the suspect stay below."""
    policy = TrustPolicy()
    memories = [(INSTRUCTING_TRUST, True), (1.0, False)]
    for source, place in steps:
        trust, suspect = memories[place % len(memories)]
        memories.append((derived_trust(policy.of_source(source), [trust]), suspect))

    assert all(policy.quarantines(trust, "episodic") for trust, suspect in memories if suspect)


@given(trusts, st.sampled_from(["episodic", "procedural"]))
def test_a_release_is_just_enough_to_be_recalled(trust: float, memory_type: str) -> None:
    policy = TrustPolicy(thresholds={"procedural": 0.7})
    released = released_trust(trust, memory_type, policy)

    assert not policy.quarantines(released, memory_type)
    assert released == max(trust, policy.below(memory_type))


def test_every_known_source_is_recalled_and_what_instructs_is_not() -> None:
    policy = TrustPolicy()

    assert all(not policy.quarantines(policy.of_source(one), "semantic") for one in SOURCE_TRUST)
    assert INSTRUCTING_TRUST < TRUST_THRESHOLD


@pytest.mark.parametrize("wrong", [-0.1, 1.1, True, "high", float("nan")])
def test_a_trust_outside_of_its_range_is_refused(wrong: object) -> None:
    with pytest.raises(InvalidInputError, match="from 0 to 1"):
        derived_trust(wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="from 0 to 1"):
        TrustPolicy(thresholds={"semantic": wrong})  # type: ignore[dict-item]


# What was recalled lately, and what a value says of its trust


ADA, BEN = Caller("acme", "ada", None), Caller("acme", "ben", None)


def test_the_latest_recollections_are_kept_each_once_and_for_an_hour() -> None:
    lately = RecentRecalls()
    lately.note(ADA, [recollection(f"k{n}") for n in range(MAX_PER_CALLER + 10)], NOW)
    lately.note(ADA, [recollection(f"k{MAX_PER_CALLER}")], NOW + timedelta(minutes=1))
    kept = [one.key for one in lately.known(ADA, NOW + RECALL_LIFE)]
    assert len(kept) == len(set(kept)) == MAX_PER_CALLER
    assert (kept[0], kept[-1]) == (f"k{MAX_PER_CALLER}", "k10")
    late = lately.known(ADA, NOW + RECALL_LIFE + timedelta(seconds=1))
    assert [one.key for one in late] == [f"k{MAX_PER_CALLER}"]
    assert lately.known(BEN, NOW) == ()


@pytest.mark.slow
def test_what_was_recalled_longest_ago_makes_room_for_the_memories_of_all_callers() -> None:
    lately = RecentRecalls()
    many = MAX_OF_ALL // MAX_PER_CALLER + 1
    callers = [Caller("acme", f"u{number}", None) for number in range(many + 1)]
    for one in callers:
        lately.note(one, [recollection(f"k{n}") for n in range(MAX_PER_CALLER)], NOW)
    assert lately.known(callers[0], NOW) == ()
    assert len(lately.known(callers[-1], NOW)) == MAX_PER_CALLER
    long = recollection("long", content="x" * (MAX_CHARACTERS - 1))
    lately.note(BEN, [long], NOW)
    assert [one.key for one in lately.known(BEN, NOW)] == ["long"]
    assert sum(len(lately.known(one, NOW)) for one in callers) <= 1
    lately.note(ADA, [recollection("k", content="xx")], NOW)
    assert (len(lately.known(ADA, NOW)), lately.known(BEN, NOW)) == (1, ())


def test_what_was_recalled_is_told_as_texts_recollections_or_their_facts() -> None:
    facts = {"content": "a", "key": "k", "namespace": ["acme", "p"], "score": 1.0}
    text, whole, told = parse_recalled(["a", recollection("k1"), facts])
    assert (text.content, text.key) == ("a", None)
    assert (whole.key, whole.namespace) == ("k1", ("acme", "billing"))
    assert (told.key, told.namespace) == ("k", ("acme", "p"))


@pytest.mark.parametrize("given_", ["a text", {"content": "a"}, [3], [{"text": "a"}], 7])
def test_anything_else_was_not_recalled(given_: Any) -> None:
    with pytest.raises(InvalidTypeError):
        parse_recalled(given_)


VALUES = st.dictionaries(
    st.sampled_from(["trust", "source", "content"]),
    st.floats(-1, 2) | st.booleans() | st.text(max_size=3) | st.none(),
    max_size=3,
)


@given(values=st.lists(VALUES, max_size=4))
def test_what_comes_of_values_is_trusted_as_the_least_of_them(values: list[Any]) -> None:
    derived = provenance_of(values)
    assert trust_of(derived) == min(map(trust_of, values), default=1.0)


WRONG: dict[tuple[Any, str], tuple[Any, ...]] = {
    (GatePolicy, "trust"): (0.5, None, {}),
    (GatePolicy, "longest"): ("100", 0, 1.5, True),
    (GatePolicy, "consensus"): ("6", 11, math.nan, None, True),
    (GatePolicy, "private"): ("email", ["email"], {"email": "never"}, {7: None}),
    (GatePolicy, "refuse_trivial"): ("no", 0, None),
    (GatePolicy, "refuse_echoes"): ("no",),
    (GatePolicy, "keep_copies_from"): ("0.7", 2, None),
    (GatePolicy, "capacity"): (3, {"semantic": 0}, {"semantic": "2"}, {7: 2}),
    (GatePolicy, "tier_capacity"): (3, {"cellar": 3}, {"cellar": 3, 7: 2}),
    (TrustPolicy, "sources"): (0.5, ["web"], {"web": "0.5"}, {7: 0.5}),
    (TrustPolicy, "threshold"): ("0.5", 2, None),
    (TrustPolicy, "thresholds"): (0.5, {"semantic": "0.5"}),
}


@pytest.mark.parametrize(
    ("kind", "name", "given_"), [(*of, one) for of, several in WRONG.items() for one in several]
)
def test_a_policy_is_refused_that_cannot_be_meant_and_the_error_says_what_can(
    kind: Any, name: str, given_: Any
) -> None:
    with pytest.raises(InvalidInputError, match=name):
        kind(**{name: given_})


def test_a_source_may_be_called_as_a_threshold_is() -> None:
    with pytest.raises(InvalidInputError, match="threshold is a trust from 0 to 1"):
        TrustPolicy(sources={"threshold": 0.5}, threshold=7)
