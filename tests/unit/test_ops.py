"""LangGraph's operations at the door: what they are turned into, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langgraph.store.base import PutOp

from langmem_tiers.core.config import IndexOptions, StoreOptions
from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.store import operations

NS = ("acme", "a", "b")
INDEXED = StoreOptions(index=IndexOptions(vector=None, fields=("text",)))


def texts(value: dict[str, Any], index: Any = None) -> tuple[tuple[str, str], ...]:
    return operations.to_write(PutOp(NS, "k", value, index), INDEXED).texts


def test_the_operations_own_fields_replace_the_configured_ones() -> None:
    value = {"text": "t", "title": "x"}
    assert texts(value) == (("text", "t"),)
    assert texts(value, ["title", "title"]) == (("title", "x"),)
    assert texts(value, index=False) == texts(value, []) == texts({"other": 1}) == ()


def test_several_texts_at_one_path_have_names_of_their_own() -> None:
    found = texts({"a": ["x", "y"], "a[*]": {"0": "z"}}, ["a[*]"])
    assert found == (("a[*].0", "x"), ("a[*].1", "y"))
    clash = texts({"a": {"0": "z", "b": 1}, "c": ["x", "y"]}, ["c[*]", "c[*].0", "{a,c}"])
    assert len({name for name, _ in clash}) == len(clash)


def test_a_path_with_an_empty_part_or_an_unpaired_bracket_is_refused() -> None:
    paths = (
        "a..b|.a|a.|.|a[*]..b|a[|[x|a]|a[]|a[0|a[[0]]|a[{0]}|{a|a}|{}|{a,}|{,a}|{a,b..c}|{a,{b}}"
    )
    value = {"text": "t"}
    for path in paths.split("|"):
        configured = StoreOptions(index=IndexOptions(vector=None, fields=(path,)))
        own = PutOp(NS, "k", value, ["text", path])
        for op, options in (
            (own, INDEXED),
            (own, StoreOptions(index=None)),
            (PutOp(NS, "k", value), configured),
        ):
            with pytest.raises(InvalidInputError, match=r"index path .* write it like a\.b"):
                operations.to_write(op, options)


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("$", ['{"a": [{"b": "x"}, {"b": "y"}], "c": {"d e": "z"}}']),
        ("", ['{"a": [{"b": "x"}, {"b": "y"}], "c": {"d e": "z"}}']),
        ("*.d e", ["z"]),
        ("a[0].b", ["x"]),
        ("a.[-1].b", ["y"]),
        ("a[*].b", ["x", "y"]),
        ("a[*].{b}", ["x", "y"]),
        ("{ c.d e , none }", ["z"]),
        ("none.{a,b}[7]", []),
    ],
)
def test_paths_that_langgraph_reads_are_taken(path: str, found: list[str]) -> None:
    value = {"a": [{"b": "x"}, {"b": "y"}], "c": {"d e": "z"}}
    assert [text for _, text in texts(value, [path])] == found


NAMES = st.text(
    st.characters(codec="utf-8", exclude_characters="\0.[]{}*$"), min_size=1, max_size=5
)


@given(st.lists(NAMES | st.integers(0, 2), min_size=1, max_size=5))
def test_the_path_to_any_place_in_a_value_is_taken(steps: list[str | int]) -> None:
    value: Any = "here"
    for step in reversed(steps):
        value = {step: value} if isinstance(step, str) else [None] * step + [value]
    path = "".join(f".{step}" if isinstance(step, str) else f"[{step}]" for step in steps)
    assert [text for _, text in texts({"at": value}, [f"at{path}"])] == ["here"]
