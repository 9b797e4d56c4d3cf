"""What cannot be stored or asked for is refused before anything is written; the rest survives."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langgraph.store.base import GetOp, ListNamespacesOp, MatchCondition, PutOp, SearchOp

from langmem_tiers import TieredMemoryError, TieredStore
from tests.support.opening import empty, tables, text_index

NS = ("acme", "bad")
SEEDED = settings(
    derandomize=True,
    deadline=None,
    max_examples=40,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
POISON = st.builds(
    lambda left, bad, right: left + bad + right,
    st.text(max_size=5),
    st.sampled_from(["\0", "\ud800", "\udfff"]),
    st.text(max_size=5),
)
LABEL = st.text(st.characters(codec="utf-8", exclude_characters="\0."), min_size=1, max_size=20)


@pytest.fixture
def opened(url: str) -> Iterator[TieredStore]:
    with TieredStore(url, index=text_index()) as store:
        store.put(NS, "old", {"text": "old"})
        yield store


def nested(depth: int, *, by: Callable[[Any], Any]) -> Any:
    value: Any = "bottom"
    for _ in range(depth):
        value = by(value)
    return value


def in_list(value: Any) -> Any:
    return [value]


def in_dict(value: Any) -> Any:
    return {"a": value}


def circular() -> dict[str, Any]:
    value: dict[str, Any] = {}
    value["self"] = value
    return value


def refused(store: TieredStore, url: str, op: Any) -> None:
    before = tables(url)
    batch = [PutOp(NS, "beside", {"text": "beside"}), op, PutOp(NS, "old", None)]
    with pytest.raises((ValueError, TypeError)) as caught:
        store.batch(batch)
    assert isinstance(caught.value, TieredMemoryError) or "Namespace" in caught.typename
    assert str(caught.value)
    assert tables(url) == before


@SEEDED
@given(poison=POISON, place=st.integers(0, 12))
def test_nul_and_lone_surrogates_are_refused_wherever_they_stand(
    opened: TieredStore, url: str, poison: str, place: int
) -> None:
    ops: list[Any] = [
        PutOp(("acme", poison), "k", {}),
        PutOp((poison,), "k", {}),
        PutOp(NS, poison, {}),
        PutOp(NS, "k", {"v": poison}),
        PutOp(NS, "k", {"v": [{"deep": [poison]}]}),
        PutOp(NS, "k", {"v": {poison: 1}}),
        PutOp(NS, "k", {"text": "x" * 40}, index=[f"{{{poison},text}}"]),
        GetOp(NS, poison),
        SearchOp(NS, query=f"x{poison}"),
        SearchOp(NS, filter={poison: 1}),
        SearchOp(NS, filter={"v": {"$gt": poison}}),
        SearchOp(NS, filter={"v": {"w": {poison: [1]}}}),
        ListNamespacesOp((MatchCondition("suffix", (poison,)),)),
    ]
    refused(opened, url, ops[place])


Put: Any = PutOp
Search: Any = SearchOp
Listing: Any = ListNamespacesOp
Match: Any = MatchCondition
BAD: dict[str, Any] = {
    "a set": Put(NS, "k", {"v": {1}}),
    "an object": Put(NS, "k", {"v": object()}),
    "a tuple as a key": Put(NS, "k", {"v": {(1, 2): 3}}),
    "NaN": Put(NS, "k", {"v": math.nan}),
    "an integer of 5,000 digits": Put(NS, "k", {"v": 10**5000}),
    "a circle": Put(NS, "k", circular()),
    "a list 10,000 deep": Put(NS, "k", {"v": nested(10_000, by=in_list)}),
    "a dict 10,000 deep": Put(NS, "k", nested(10_000, by=in_dict)),
    "a value that is a list": Put(NS, "k", [1]),
    "no namespace": Put((), "k", {}),
    "a namespace of text": Put("acme", "k", {}),
    "a namespace of None": Put(None, "k", {}),
    "a namespace of numbers": Put((1, 2), "k", {}),
    "10,000 labels": Put(("x",) * 10_000, "k", {}),
    "a label of 10 kB": Put(("x" * 10_000,), "k", {}),
    "a key of 10 kB": Put(NS, "k" * 10_000, {}),
    "a key that is a number": Put(NS, 5, {}),
    "an index that is text": Put(NS, "k", {}, index="text"),
    "an index of numbers": Put(NS, "k", {}, index=[1]),
    "an index path of 10 kB": Put(NS, "k", {"x" * 10_000: "y"}, index=["x" * 10_000]),
    "a TTL of text": Put(NS, "k", {}, ttl="5"),
    "a TTL of two thousand years": Put(NS, "k", {}, ttl=1.1e9),
    "a prefix of text": Search("acme"),
    "a query of bytes": Search(NS, query=b"x"),
    "a filter that is a list": Search(NS, filter=[("a", 1)]),
    "a filter key of a number": Search(NS, filter={1: 1}),
    "a filter operand of a set": Search(NS, filter={"a": {1}}),
    "a filter operator of another store": Search(NS, filter={"a": {"$in": [1]}}),
    "a filter operator beside a key": Search(NS, filter={"a": {"$gt": 1, "b": 2}}),
    "a filter operator of a tuple": Search(NS, filter={"a": {"$gt": 1, (1,): 2}}),
    "a filter 10,000 deep": Search(NS, filter=nested(10_000, by=in_dict)),
    "a circular filter": Search(NS, filter=circular()),
    "a negative limit": Search(NS, limit=-1),
    "a limit of 2**31": Search(NS, limit=2**31),
    "an offset of 10**30": Search(NS, offset=10**30),
    "a limit of text": Search(NS, limit="1"),
    "a limit of a half": Search(NS, limit=0.5),
    "a limit of True": Search(NS, limit=True),
    "a negative depth": Listing(max_depth=-1),
    "a negative limit of namespaces": Listing(limit=-1),
    "a condition of text": Listing(("prefix",)),
    "a condition on a number": Listing((Match("prefix", 5),)),
    "conditions that are a number": Listing(5),
    "no operation": None,
    "a tuple": (NS, "k"),
    "text": "get",
}


def test_what_makes_no_sense_is_refused_before_anything_is_written(
    opened: TieredStore, url: str
) -> None:
    for op in BAD.values():
        refused(opened, url, op)
    for ops in (None, 5, object()):
        with pytest.raises(TypeError):
            opened.batch(ops)  # type: ignore[arg-type]


@SEEDED
@given(labels=st.lists(LABEL, min_size=1, max_size=4), key=LABEL)
def test_hostile_labels_and_keys_come_back_as_they_were(
    opened: TieredStore, url: str, labels: list[str], key: str
) -> None:
    empty(url)
    namespace = tuple(labels)
    if namespace[0] == "langgraph" or sum(len(one.encode()) for one in namespace) > 380:
        return
    opened.put(namespace, key, {"text": key, "labels": labels})
    item = opened.get(namespace, key)
    assert item is not None
    assert (item.namespace, item.key, item.value["labels"]) == (namespace, key, labels)
    for depth in range(len(namespace) + 1):
        assert [one.namespace for one in opened.search(namespace[:depth])] == [namespace]
        assert [one.namespace for one in opened.search(namespace[:depth], query="x")] == [namespace]
    assert opened.list_namespaces(suffix=namespace[-1:]) == [namespace]
    opened.delete(namespace, key)
    assert opened.search(()) == []


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**40), 10**40)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8", exclude_characters="\0")),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.text(st.characters(codec="utf-8", exclude_characters="\0")), inner, max_size=4
        )
    ),
    max_leaves=12,
)


@SEEDED
@given(
    value=st.dictionaries(st.text(st.characters(codec="utf-8", exclude_characters="\0")), VALUES)
)
def test_every_json_object_comes_back_equal_finds_itself_and_may_be_put_twice(
    opened: TieredStore, url: str, value: dict[str, Any]
) -> None:
    empty(url)
    for _ in range(2):
        opened.put(NS, "k", value)
        (item,) = opened.search(NS)
        got = opened.get(NS, "k")
        assert got is not None
        assert item.value == got.value == value
        assert types_of(item.value) == types_of(value)
    operands = {key: {"$eq": wanted} for key, wanted in value.items()}
    assert [one.key for one in opened.search(NS, filter=operands)] == ["k"]
    assert opened.search(NS, filter={"absent" * 20: {"$eq": 0}}) == []


def types_of(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: types_of(one) for key, one in value.items()}
    return [types_of(one) for one in value] if isinstance(value, list) else type(value)
