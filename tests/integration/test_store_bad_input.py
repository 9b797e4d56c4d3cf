"""What cannot be stored or asked for is refused before anything is written; the rest survives."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langgraph.store.base import GetOp, ListNamespacesOp, MatchCondition, PutOp, SearchOp

from langmem_tiers import TieredMemoryError, TieredStore
from tests.support.opening import empty, nested, tables

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
def opened(store: TieredStore) -> TieredStore:
    store.put(NS, "old", {"text": "old"})
    return store


CIRCLE: dict[str, Any] = {}
CIRCLE["self"] = CIRCLE


def refused(store: TieredStore, url: str, op: Any) -> None:
    before = tables(url)
    batch = [PutOp(NS, "beside", {"text": "beside"}), op, PutOp(NS, "old", None)]
    with pytest.raises((ValueError, TypeError)) as caught:
        store.batch(batch)
    assert isinstance(caught.value, TieredMemoryError) or "Namespace" in caught.typename
    assert str(caught.value)
    assert tables(url) == before


@pytest.mark.slow
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
VALUES_WRONG: tuple[Any, ...] = (
    *({"v": one} for one in ({1}, object(), {(1, 2): 3}, math.nan, 10**5000)),
    *({"v": nested(10_000, lambda v: [v])}, nested(10_000), CIRCLE, [1]),
)
NAMESPACES_WRONG: tuple[Any, ...] = ((), "acme", None, (1, 2), ("x",) * 10_000, ("x" * 10_000,))
FILTERS_WRONG: tuple[Any, ...] = (
    *([("a", 1)], {1: 1}, {"a": {1}}, nested(10_000), CIRCLE),
    *({"a": one} for one in ({"$in": [1]}, {"$gt": 1, "b": 2}, {"$gt": 1, (1,): 2})),
    *({"a": {"$contains": [one]}} for one in ([1], {"b": 1}, math.inf)),
    {"a": {"$contains": {"b": 1}}},
)
LONG = "x" * 10_000
BAD: list[Any] = [
    *(Put(NS, "k", value) for value in VALUES_WRONG),
    *(Put(namespace, "k", {}) for namespace in NAMESPACES_WRONG),
    *(Put(NS, key, {}) for key in (LONG, 5)),
    *(Put(NS, "k", {LONG: "y"}, index=index) for index in ("text", [1], [LONG])),
    *(Put(NS, "k", {}, ttl=ttl) for ttl in ("5", 1.1e9)),
    *(Search("acme"), Search(NS, query=b"x"), Search(NS, offset=10**30)),
    *(Search(NS, filter=wanted) for wanted in FILTERS_WRONG),
    *(Search(NS, limit=limit) for limit in (-1, 2**31, "1", 0.5, True)),
    *(Listing(max_depth=-1), Listing(limit=-1), Listing(("prefix",)), Listing(5)),
    Listing((Match("prefix", 5),)),
    *(None, (NS, "k"), "get"),
]


def test_what_makes_no_sense_is_refused_before_anything_is_written(
    opened: TieredStore, url: str
) -> None:
    for op in BAD:
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
