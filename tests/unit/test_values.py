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

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"))
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner),
    max_leaves=8,
)


def kinds(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: kinds(one) for key, one in value.items()}
    return [kinds(one) for one in value] if isinstance(value, list) else type(value)


@settings(derandomize=True)
@given(st.dictionaries(TEXT, JSON))
def test_the_text_reads_back_as_the_value(value: dict[str, Any]) -> None:
    back = json.loads(encode_value(value))
    assert back == value
    assert kinds(back) == kinds(value)


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
    for bad in ("\0", "a\0b", "\ud800", math.nan, -math.inf, b"", {1}, object(), 1j, ..., int):
        for value in ({"v": bad}, {"v": [1, bad]}, {"a": [{"b": (bad,)}]}):
            with pytest.raises(InvalidInputError):
                encode_value(value)
    with pytest.raises(InvalidInputError):
        encode_value({"v": {"\0": 1}})
    no_mapping: Any
    for no_mapping in (None, [], "x", [("a", 1)]):
        with pytest.raises(TypeError, match="mapping"):
            encode_value(no_mapping)
