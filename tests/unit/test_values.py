"""Values: what JSON text they become, and what is refused."""

from __future__ import annotations

import json
import math
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.core.values import encode_value


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
