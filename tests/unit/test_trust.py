"""Trust is a lattice: what is derived is trusted as its least trusted origin, and never rises."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.core.memory import THRESHOLD
from langmem_tiers.remember.trust import (
    INSTRUCTS,
    SOURCES,
    TrustPolicy,
    derived_trust,
    released_trust,
)

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


@given(st.lists(st.tuples(st.sampled_from(sorted(SOURCES)), st.integers(0, 7)), max_size=40))
def test_no_chain_of_derivations_launders_what_is_suspect(steps: list[tuple[str, int]]) -> None:
    """Each step derives a memory from an earlier one; all that came of the suspect stay below."""
    policy = TrustPolicy()
    memories = [(INSTRUCTS, True), (1.0, False)]
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

    assert all(not policy.quarantines(policy.of_source(one), "semantic") for one in SOURCES)
    assert INSTRUCTS < THRESHOLD


@pytest.mark.parametrize("wrong", [-0.1, 1.1, True, "high", float("nan")])
def test_a_trust_outside_of_its_range_is_refused(wrong: object) -> None:
    with pytest.raises(InvalidInputError, match="from 0 to 1"):
        derived_trust(wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="from 0 to 1"):
        TrustPolicy(thresholds={"semantic": wrong})  # type: ignore[dict-item]
