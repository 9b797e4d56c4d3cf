"""Values, namespaces and vectors as the database has them, and what is refused."""

from __future__ import annotations

import json
import math
import struct
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from langmem_tiers.core.checks import check_key
from langmem_tiers.core.errors import EmbeddingError, InvalidInputError
from langmem_tiers.core.memory import decode_namespace, encode_namespace, prefix_scope
from langmem_tiers.core.values import encode_value
from langmem_tiers.core.vectors import Distance, VectorOptions, pack, pack_all


@settings(derandomize=True)
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_floats_are_written_with_a_point_or_a_negative_exponent(number: float) -> None:
    text = encode_value({"n": number})
    assert "e+" not in text
    assert "." in text or "e-" in text
    assert json.loads(text)["n"] == number


def test_texts_that_look_like_numbers_and_escapes_stay() -> None:
    value = {"1e+22": "1e+22", "a": ["\\u0000", '"1e+5', "\\", "5e+9,"], "n": 1e22}
    assert json.loads(encode_value(value)) == value


def test_keys_become_text_and_other_mappings_are_values() -> None:
    value: Any = {2: "a", None: "b", True: "c"}
    assert encode_value(value) == ('{"2": "a", "null": "b", "true": "c"}')
    assert encode_value(MappingProxyType({"a": 1})) == '{"a": 1}'


def test_what_json_or_postgres_cannot_hold_is_refused_at_any_depth() -> None:
    for bad in ("\0", "\ud800", math.nan, -math.inf, b"", {1}, object(), 1j, ...):
        for value in ({"v": bad}, {"v": [1, bad]}, {"a": [{"b": (bad,)}]}):
            with pytest.raises(InvalidInputError):
                encode_value(value)
    no_mapping: Any
    for no_mapping in (None, [], "x", [("a", 1)]):
        with pytest.raises(TypeError, match="mapping"):
            encode_value(no_mapping)


# Namespaces

LABEL = st.one_of(
    st.sampled_from(["a", "b", "ab", "/", "-", "\U0010ffff", "\n", " "]),
    st.text(st.characters(codec="utf-8", exclude_characters="\0."), min_size=1, max_size=6),
)
LABELS = st.lists(LABEL, min_size=1, max_size=4).map(tuple)


@settings(derandomize=True)
@given(LABELS)
def test_labels_come_back(labels: tuple[str, ...]) -> None:
    assert decode_namespace(*encode_namespace(labels)) == labels


@settings(derandomize=True, max_examples=200)
@given(LABELS, LABELS, st.integers(0, 4))
def test_a_scope_holds_exactly_what_begins_with_its_labels(
    labels: tuple[str, ...], other: tuple[str, ...], depth: int
) -> None:
    for prefix in (labels[:depth], other[:depth]):
        bounds, place = prefix_scope(prefix), encode_namespace(labels)
        inside = bounds.tenant in (None, place.tenant) and (
            bounds.low.encode() <= place.namespace.encode() < bounds.high.encode()
        )
        assert inside == (labels[: len(prefix)] == prefix)


def test_limits_are_named() -> None:
    encode_namespace(("x" * 400,))
    check_key("x" * 1024)
    check_key("")
    for labels in (("x" * 401,), ("é" * 201,), ("x",) * 300):
        with pytest.raises(InvalidInputError, match="400"):
            encode_namespace(labels)
    with pytest.raises(InvalidInputError, match="1024"):
        check_key("é" * 513)
    with pytest.raises(InvalidInputError, match="tenant"):
        encode_namespace(())


# Vectors

ANY = st.floats(allow_nan=False, allow_infinity=False)


def shape(kind: str, distance: str, dims: int = 3) -> VectorOptions:
    return VectorOptions(dims=dims, distance=Distance(distance), vector_type=kind)


def unpack(data: bytes, kind: str) -> tuple[float, ...]:
    letter = "e" if kind == "halfvec" else "f"
    dims, unused, *numbers = struct.unpack(
        f">HH{(len(data) - 4) // struct.calcsize(letter)}{letter}", data
    )
    assert (dims, unused) == (len(numbers), 0)
    return tuple(numbers)


@settings(derandomize=True, max_examples=300)
@given(
    st.lists(ANY | st.integers(-(10**400), 10**400), min_size=3, max_size=3),
    st.sampled_from(["vector", "halfvec"]),
    st.sampled_from(list(Distance)),
)
def test_any_vector_is_packed_finite_or_refused_and_its_direction_survives_for_cosine(
    numbers: list[float], kind: str, distance: Distance
) -> None:
    try:
        packed = pack(numbers, shape(kind, distance))
    except EmbeddingError:
        long = max(map(abs, numbers)) > 1e150
        assert long or distance is not Distance.COSINE
        return
    if packed is None:
        assert max(map(abs, numbers)) == 0
        return
    back = unpack(packed.data, kind)
    assert all(map(math.isfinite, back))
    if distance is Distance.COSINE:
        largest = max(map(abs, numbers))
        unit = [number / largest for number in numbers]
        dot = sum(a * b for a, b in zip(unit, back, strict=True))
        assert dot / (math.hypot(*unit) * math.hypot(*back)) == pytest.approx(1, abs=1e-3)


def test_only_cosine_needs_a_direction() -> None:
    assert pack([0, 0, 0], shape("halfvec", "cosine")) is None
    assert pack([0, 0, 0], shape("halfvec", "l2")) is not None
    assert pack([0, 0, 0], shape("vector", "inner_product")) is not None


def test_what_is_no_vector_of_its_dimensions_for_each_text_is_refused() -> None:
    whole = shape("halfvec", "cosine")
    bad: Any
    for bad in ([], [1, 2], [1, 2, 3, 4], ["x", 1, 2], [None, 1, 2], [math.nan, 1, 2], None, 5):
        with pytest.raises(EmbeddingError):
            pack_all([bad], 1, whole)
    several: Any
    for several in ([], [[1, 2, 3]] * 3, None, 5):
        with pytest.raises(EmbeddingError):
            pack_all(several, 2, whole)
    assert len(pack_all([[1, 0.5, True]] * 2, 2, whole)) == 2
