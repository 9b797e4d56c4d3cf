"""Vectors on their way to Postgres: packed as pgvector reads them, or refused."""

from __future__ import annotations

import math
import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from langmem_tiers.core.errors import EmbeddingError
from langmem_tiers.core.vectors import Distance, VectorOptions, pack, pack_all

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
