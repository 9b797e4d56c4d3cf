"""Namespaces as the database keeps them: they come back, and prefixes are ranges."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.core.namespaces import check_key, decode, encode, scope

LABEL = st.one_of(
    st.sampled_from(["a", "b", "ab", "/", "-", "\U0010ffff", "\n", " "]),
    st.text(st.characters(codec="utf-8", exclude_characters="\0."), min_size=1, max_size=6),
)
LABELS = st.lists(LABEL, min_size=1, max_size=4).map(tuple)


@settings(derandomize=True)
@given(LABELS)
def test_labels_come_back(labels: tuple[str, ...]) -> None:
    assert decode(*encode(labels)) == labels


@settings(derandomize=True, max_examples=200)
@given(LABELS, LABELS, st.integers(0, 4))
def test_a_scope_holds_exactly_what_begins_with_its_labels(
    labels: tuple[str, ...], other: tuple[str, ...], depth: int
) -> None:
    for prefix in (labels[:depth], other[:depth]):
        bounds, place = scope(prefix), encode(labels)
        inside = bounds.tenant in (None, place.tenant) and (
            bounds.low.encode() <= place.namespace.encode() < bounds.high.encode()
        )
        assert inside == (labels[: len(prefix)] == prefix)


def test_limits_are_named() -> None:
    encode(("x" * 400,))
    check_key("x" * 1024)
    check_key("")
    for labels in (("x" * 401,), ("é" * 201,), ("x",) * 300):
        with pytest.raises(InvalidInputError, match="400"):
            encode(labels)
    with pytest.raises(InvalidInputError, match="1024"):
        check_key("é" * 513)
    with pytest.raises(InvalidInputError, match="tenant"):
        encode(())
