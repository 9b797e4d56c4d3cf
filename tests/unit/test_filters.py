"""Filters, compiled: one condition for each thing that must hold."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from langmem_tiers.store.filters import Condition, compile_filter, filter_params, text_array

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"))


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (None, []),
        ({}, []),
        ({"a": 1}, [(("a",), "eq", "1")]),
        ({"a": None, "b": [1, "x"]}, [(("a",), "eq", "null"), (("b",), "eq", '[1, "x"]')]),
        ({"a.b": True}, [(("a.b",), "eq", "true")]),
        ({"$a": {"$ne": {"b": 1}}}, [(("$a",), "ne", '{"b": 1}')]),
        ({"a": {"$gt": 1, "$lte": 2.5}}, [(("a",), "gt", "1"), (("a",), "lte", "2.5")]),
        ({"a": {}}, [(("a",), "type", "object")]),
        (
            {"a": {"b": {"$gte": "x"}, "c": 1}},
            [(("a",), "type", "object"), (("a", "b"), "gte", '"x"'), (("a", "c"), "eq", "1")],
        ),
        ({"a": {"$lt": math.inf}}, [(("a",), "type", "number")]),
        ({"a": {"$gte": -math.inf}}, [(("a",), "type", "number")]),
        ({"a": {"$gt": math.inf}}, [(("a",), "never", "null")]),
        ({"a": {"$lte": math.nan}}, [(("a",), "never", "null")]),
        ({"a": math.nan}, [(("a",), "never", "null")]),
        ({"a": {"$ne": math.inf}}, [(("a",), "always", "null")]),
    ],
)
def test_a_filter_compiles_to_its_conditions(given: Any, wanted: list[Any]) -> None:
    assert compile_filter(given) == [Condition(*one) for one in wanted]


@settings(derandomize=True)
@given(st.dictionaries(TEXT.filter(lambda key: not key.startswith("$")), st.integers() | TEXT))
def test_operands_are_json_and_columns_are_of_one_length(wanted: dict[str, Any]) -> None:
    conditions = compile_filter({"top": wanted, **{f"&{key}": one for key, one in wanted.items()}})
    operands = [json.loads(one.operand) for one in conditions if one.op == "eq"]
    assert operands == [*wanted.values(), *wanted.values()]
    columns = filter_params(conditions)
    assert {len(column) for column in columns.values()} == {len(conditions)}


@settings(derandomize=True)
@given(st.lists(TEXT, min_size=1).map(tuple))
def test_a_text_array_quotes_every_label(labels: tuple[str, ...]) -> None:
    text = text_array(labels)
    inner = text[2:-2].split('","') if '","' not in "".join(labels) else None
    assert text.startswith('{"')
    assert text.endswith('"}')
    if inner is not None and not any("\\" in one or '"' in one for one in labels):
        assert inner == list(labels)
