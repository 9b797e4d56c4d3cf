"""Which memories are no longer true, by what newer ones say. If in doubt, they still are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from langmem_tiers.consolidate.claims import AMOUNT, Claim, Statement, statements
from langmem_tiers.consolidate.items import Item
from langmem_tiers.consolidate.lexicon import FIRST_PERSON
from langmem_tiers.consolidate.order import agree
from langmem_tiers.consolidate.stating import Words
from langmem_tiers.consolidate.values import exclude

_MARKS = frozenset(("of", "'s"))

_AMOUNTS = frozenset((AMOUNT, "is", "lasts", "costs"))

_Key = frozenset[str]


class Contradiction(NamedTuple):
    """A memory that was true until a newer one, by ids."""

    older: int
    newer: int
    reason: str
    """In words that many share."""


class _Said(NamedTuple):
    """A plain statement of an item."""

    place: int
    item: Item
    statement: Statement


def contradictions(items: Sequence[Item]) -> list[Contradiction]:
    """Of memories of one namespace, those that a newer one contradicts, each by the nearest.

    What is true later is newer (`Item.order`). Only a memory of a single sentence is contradicted:
    of a longer one, the rest may hold. Any order of the items gives the same list, oldest first.
    """
    ordered = sorted(items, key=lambda one: one.order)
    said = [list(_said(place, item)) for place, item in enumerate(ordered)]
    index: defaultdict[_Key, list[_Said]] = defaultdict(list)
    for one in chain.from_iterable(said):
        for key in _keys(one.statement):
            index[key].append(one)
    found = (_nearest(one[0], index) for one in said if len(one) == 1)
    return [one for one in found if one is not None]


def _said(place: int, item: Item) -> Iterator[_Said]:
    for statement in statements(item.content) or ():
        yield _Said(place, item, statement)


def _keys(statement: Statement) -> set[_Key]:
    return {_key(statement.words), *(_key(one.subject) for one in statement.claims)}


def _key(words: Words) -> _Key:
    return frozenset(one.sense for one in words if one.form not in _MARKS)


def _nearest(older: _Said, index: dict[_Key, list[_Said]]) -> Contradiction | None:
    newer = {
        one.place: one
        for key in _keys(older.statement)
        for one in reversed(index[key])
        if one.place > older.place
    }
    for _, one in sorted(newer.items()):
        if _of_one_speaker(older, one) and (reason := contradicts(older.statement, one.statement)):
            return Contradiction(older.item.id, one.item.id, reason)
    return None


def _of_one_speaker(one: _Said, other: _Said) -> bool:
    if one.item.own == other.item.own:
        return True
    words = (*one.statement.words, *other.statement.words)
    return FIRST_PERSON.isdisjoint(word.form for word in words)


def contradicts(older: Statement, newer: Statement) -> str | None:
    """Why an older statement cannot hold beside a newer one; None if it can."""
    if older.negated != newer.negated and agree(older.words, newer.words):
        return "denied"
    for one in older.claims:
        for other in newer.claims:
            if reason := _excluded(one, other):
                return reason
    return None


def _excluded(older: Claim, newer: Claim) -> str | None:
    if not agree(older.subject, newer.subject):
        return None
    if newer.was and not older.negated and agree(older.value, newer.was):
        return "changed"
    if not _of_a_relation(older.relation, newer.relation):
        return None
    if older.negated != newer.negated:
        return "denied" if agree(older.value, newer.value) else None
    if older.negated or older.kind is None or newer.kind is None or older.relation == "uses":
        return None
    differ = exclude(older.value, older.kind, newer.value, newer.kind)
    return "another value" if differ else None


def _of_a_relation(one: str, other: str) -> bool:
    return one == other or (AMOUNT in (one, other) and {one, other} <= _AMOUNTS)
