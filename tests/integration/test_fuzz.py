"""Random histories: the store and LangGraph's InMemoryStore agree at every step.

Where InMemoryStore breaks the contract, the oracle is put right: it sees a batch's reads before
its writes, lists no emptied namespaces, and filters by the rules of `matches` below.
"""

from __future__ import annotations

import math
import operator as operators
import os
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from langgraph.store.base import (
    GetOp,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    SearchItem,
    SearchOp,
)
from langgraph.store.memory import InMemoryStore

from langmem_tiers import TieredStore
from tests.support.opening import empty, text_index

FULL = os.environ.get("LANGMEM_TIERS_PROOF") == "full"
COMMON = settings(
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    phases=(Phase.explicit, Phase.generate, Phase.shrink),
)
SAMPLE = settings(COMMON, derandomize=True, max_examples=60)
PROOF = settings(COMMON, derandomize=not FULL, max_examples=5_000 if FULL else 60)

SPACES = st.sampled_from(
    [("a",), ("a", "b"), ("a", "b", "c"), ("a", "bb"), ("ab",), ("b", "a"), ("b", "a", "c")]
)
PREFIXES = st.one_of(st.just(()), SPACES)
PATTERNS = st.lists(st.sampled_from(["a", "b", "c", "*"]), min_size=1, max_size=3).map(tuple)
KEYS = st.sampled_from(["1", "2", "3", "1.", "Ä"])
FIELDS = st.sampled_from(["p", "q", "a.b"])
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([0.5, 1.0, 2.5, 10, 10**20]),
    st.sampled_from(["", "1", "10", "9", "a", "b", "Ä"]),
)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(FIELDS, inner, max_size=2),
    max_leaves=5,
)
VALUES = st.dictionaries(FIELDS, JSON, max_size=3)
OPERATIONS = st.dictionaries(
    st.sampled_from(["$eq", "$ne", "$gt", "$gte", "$lt", "$lte"]),
    JSON | st.sampled_from([math.inf, -math.inf, math.nan]),
    min_size=1,
    max_size=2,
)
HOLDING = st.fixed_dictionaries({"$contains": SCALARS | st.lists(SCALARS, max_size=2)})
CONDITIONS: st.SearchStrategy[Any] = st.recursive(
    JSON | OPERATIONS | HOLDING,
    lambda inner: st.dictionaries(FIELDS, inner, max_size=2),
    max_leaves=4,
)
FILTERS = st.dictionaries(FIELDS, CONDITIONS, min_size=1, max_size=2)
SMALL = st.integers(0, 6)

PUTS = st.tuples(SPACES, KEYS, st.none() | VALUES).map(lambda args: PutOp(*args))
MATCHES = st.tuples(st.sampled_from(["prefix", "suffix"]), PATTERNS).map(
    lambda args: MatchCondition(*args)  # type: ignore[arg-type]
)
READS = st.one_of(
    st.tuples(SPACES, KEYS, st.booleans()).map(lambda args: GetOp(*args)),
    st.tuples(PREFIXES, st.none() | FILTERS, SMALL | st.just(100), SMALL).map(
        lambda args: SearchOp(*args)
    ),
    st.tuples(
        st.lists(MATCHES, max_size=2).map(tuple),
        st.none() | st.integers(1, 3),
        SMALL | st.just(100),
        SMALL,
    ).map(lambda args: ListNamespacesOp(*args)),
)
BATCHES = st.lists(st.lists(PUTS | READS, max_size=6), min_size=1, max_size=6)


COMPARE = {
    "$gt": operators.gt,
    "$gte": operators.ge,
    "$lt": operators.lt,
    "$lte": operators.le,
}


class Oracle:
    """What should happen: InMemoryStore where it is right, the contract where it is not."""

    def __init__(self) -> None:
        self.items: dict[tuple[tuple[str, ...], str], dict[str, Any]] = {}
        self.order: dict[tuple[tuple[str, ...], str], int] = {}
        self.memory = InMemoryStore()
        self.ticks = 0

    def batch(self, ops: list[Op]) -> list[Any]:
        answers = [self.read(op) for op in ops]
        self.ticks += 1
        for op in ops:
            if isinstance(op, PutOp):
                self.memory.batch([op])
                place = (op.namespace, op.key)
                self.order[place] = self.ticks
                self.items.pop(place, None)
                if op.value is not None:
                    self.items[place] = dict(op.value)
        return answers

    def read(self, op: Op) -> Any:
        if isinstance(op, GetOp):
            return self.items.get((op.namespace, op.key))
        if isinstance(op, SearchOp):
            return self.search(op)
        return self.listed(op) if isinstance(op, ListNamespacesOp) else None

    def search(self, op: SearchOp) -> list[Any]:
        length = len(op.namespace_prefix)
        found = [
            (namespace, key, value)
            for (namespace, key), value in self.items.items()
            if namespace[:length] == op.namespace_prefix and holds(value, op.filter or {})
        ]
        found.sort(key=lambda one: (-self.order[one[0], one[1]], stored(one[0]), one[1]))
        return found[op.offset : op.offset + op.limit]

    def listed(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        held = {namespace for namespace, _ in self.items}
        (listed,) = self.memory.batch([ListNamespacesOp(op.match_conditions, None, 1000, 0)])
        assert isinstance(listed, list)
        kept = {one[: op.max_depth] for one in listed if isinstance(one, tuple) and one in held}
        return sorted(kept)[op.offset : op.offset + op.limit]


def stored(namespace: tuple[str, ...]) -> tuple[str, str]:
    return namespace[0], "".join(f"{label}." for label in namespace[1:])


def holds(value: Mapping[str, Any], condition: Mapping[str, Any]) -> bool:
    return all(matches(value.get(key, ...), wanted) for key, wanted in condition.items())


def matches(value: Any, wanted: Any) -> bool:
    """Whether a stored value (... if missing) meets one condition."""
    if not isinstance(wanted, Mapping):
        return same(value, wanted)
    if any(key.startswith("$") for key in wanted):
        return all(compares(value, operator, operand) for operator, operand in wanted.items())
    return isinstance(value, Mapping) and holds(value, wanted)


def compares(value: Any, operator: str, operand: Any) -> bool:
    if operator in ("$eq", "$ne"):
        return same(value, operand) == (operator == "$eq")
    if operator == "$contains":
        if not isinstance(value, list):
            return not isinstance(operand, list) and same(value, operand)
        wanted = operand if isinstance(operand, list) else [operand]
        return all(any(same(one, each) for one in value) for each in wanted)
    if not (number(value) and number(operand)) and not (
        isinstance(value, str) and isinstance(operand, str)
    ):
        return False
    return bool(COMPARE[operator](value, operand))


def number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def same(value: Any, other: Any) -> bool:
    """Equality of JSON: true is not 1, and 1 is 1.0."""
    if isinstance(value, list) and isinstance(other, list):
        return len(value) == len(other) and all(map(same, value, other))
    if isinstance(value, Mapping) and isinstance(other, Mapping):
        return value.keys() == other.keys() and all(same(value[key], other[key]) for key in value)
    return isinstance(value, bool) == isinstance(other, bool) and bool(value == other)


def plain(answer: Any) -> Any:
    """An answer of the store in the oracle's words."""
    if isinstance(answer, list):
        return [
            (one.namespace, one.key, one.value) if isinstance(one, SearchItem) else one
            for one in answer
        ]
    return answer.value if isinstance(answer, Item) else answer


@pytest.fixture
def store(url: str) -> Iterator[TieredStore]:
    """By the machine's clock: what is put later is newer."""
    with TieredStore(url, index=text_index()) as opened:
        yield opened


def check_history(store: TieredStore, url: str, batches: list[list[Op]]) -> None:
    empty(url)
    oracle = Oracle()
    for ops in batches:
        wanted = oracle.batch(ops)
        assert [plain(answer) for answer in store.batch(ops)] == wanted


def check_filter(
    store: TieredStore, url: str, values: list[dict[str, Any]], wanted: dict[str, Any]
) -> None:
    empty(url)
    store.batch([PutOp(("a",), str(n), value) for n, value in enumerate(values)])
    found = {item.key for item in store.search(("a",), filter=wanted, limit=100)}
    assert found == {str(n) for n, value in enumerate(values) if holds(value, wanted)}
    near = {item.key for item in store.search(("a",), filter=wanted, limit=100, query="a")}
    assert near == found


histories = given(batches=BATCHES)
filters = given(values=st.lists(VALUES, min_size=1, max_size=8), wanted=FILTERS)
test_random_histories_agree_with_the_oracle = SAMPLE(histories(check_history))
test_random_filters_agree_with_the_oracle = SAMPLE(filters(check_filter))
test_histories_agree_thousands_of_times = pytest.mark.proof(PROOF(histories(check_history)))
test_filters_agree_thousands_of_times = pytest.mark.proof(PROOF(filters(check_filter)))


TIERED = st.lists(
    st.tuples(
        st.sampled_from(["put", "delete", "move", "view_put", "view_delete"]),
        st.sampled_from(["short_term", "working", "long_term"]),
        KEYS,
        st.integers(0, 9),
    ),
    max_size=25,
)


@SAMPLE
@given(steps=TIERED)
def test_a_memory_lives_in_one_tier_through_any_history(  # noqa: C901 - one branch a verb
    store: TieredStore, url: str, steps: list[tuple[str, str, str, int]]
) -> None:
    empty(url)
    space = ("a", "b")
    lives: dict[str, str] = {}
    values: dict[str, int] = {}
    for verb, tier, key, n in steps:
        view, home = store.tier(tier), lives.get(key)
        if verb == "put":
            store.put(space, key, {"n": n})
            lives.setdefault(key, "working")
            values[key] = n
        elif verb == "view_put" and home in (None, tier):
            view.put(space, key, {"n": n})
            lives[key], values[key] = tier, n
        elif verb == "view_put":
            with pytest.raises(ValueError, match="lives in"):
                view.put(space, key, {"n": n})
        elif verb == "move":
            assert store.move(space, key, tier) == (home not in (None, tier))
            if home is not None:
                lives[key] = tier
        elif verb == "delete" or home == tier:
            (store if verb == "delete" else view).delete(space, key)
            lives.pop(key, None)
            values.pop(key, None)
        else:
            view.delete(space, key)
    for tier in ("short_term", "working", "long_term"):
        found = {item.key: item.value["n"] for item in store.tier(tier).search((), limit=99)}
        assert found == {key: values[key] for key, home in lives.items() if home == tier}
