"""Whether a clause says what another one does: in its order, or in pieces of it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from langmem_tiers.remember.telling import Clause
from langmem_tiers.remember.telling_forms import Word, Words
from langmem_tiers.remember.telling_words import COMPOUND, QUANTITIES, STRICT, TURNING

PIECES: Final = 4
"""In how many pieces the words of a clause may be put in another order."""
FEW: Final = 48
"""Words of a clause up to which another order is looked for."""
LONGEST: Final = 3
"""Words of a noun, where "A of B" and "B A" are one."""
NONE: Final = "-"
"""Stands for a preposition where there must be none."""
_PAIR: Final = 2


def tells(part: Clause, known: Clause, *, single: bool) -> bool:
    """Whether a clause says what another does, from one of the first words on that may frame it."""
    for number, form in enumerate(part.forms):
        for start in range(1 if number else part.head + 1):
            words = form[start:]
            said = frozenset(one.text for one in words)
            if not words or not said <= known.said:
                continue
            if any(_within(words, one, single=single) for one in known.forms):
                return True
    return False


def _turns(words: Words) -> frozenset[str]:
    return (frozenset(one.text for one in words) | frozenset(one.at for one in words)) & TURNING


def _within(said: Words, known: Words, *, single: bool) -> bool:
    """Whether all words stand in a known clause: in its order, or in pieces of it."""
    left = _turns(known) - _turns(said)
    if left:
        return not single and left <= QUANTITIES and _continues(said, known)
    if _continues(said, known) or _in_order(said, known):
        return True
    if not single or max(len(said), len(known)) > FEW:
        return False
    return (
        _in_pieces(said, known)
        or any(_in_order(one, known) or _in_pieces(one, known) for one in _compounds(said))
        or any(_in_order(said, one) or _in_pieces(said, one) for one in _compounds(known))
    )


def _compounds(words: Words) -> Iterator[Words]:
    """The words with one "A of B" as "B A"."""
    for at, word in enumerate(words):
        if word.at not in COMPOUND:
            continue
        for before in range(max(0, at - LONGEST), at):
            own = {one.at for one in words[before:at]} - {""}
            if not own <= _chained(word.at):
                continue
            for end in range(at + 1, min(len(words), at + LONGEST) + 1):
                none = NONE if word.at == "to" else ""
                moved = word._replace(at=words[before].at or none)
                yield (
                    *words[:before], moved, *words[at + 1 : end],
                    words[before]._replace(at=none), *words[before + 1 : at], *words[end:],
                )  # fmt: skip


def _chained(at: str) -> frozenset[str]:
    """What may stand before the noun that is put behind: "from A to B" is no "from B to A"."""
    if at == "to":
        return frozenset()
    return (COMPOUND - {"to"} | {"by"}) - ({"from"} if at == "from" else set())


def _alike(one: Word, other: Word) -> bool:
    """Whether two words are one, and stand in the same relation."""
    if one.text != other.text or (
        one.raw != other.raw and min(one.name, other.name) and one.name + other.name > _PAIR
    ):
        return False
    if NONE in (one.at, other.at):
        return {one.at, other.at} <= {"", NONE}
    return one.at == other.at or ((not one.at or not other.at) and not {one.at, other.at} & STRICT)


def _continues(said: Words, known: Words) -> bool:
    """Whether a later clause follows on its subject: "Ada sings" of "Ada paints and sings"."""
    places = _places(said, known)
    jumps = [n for one, n in pairwise(places) if n > one + 1]
    return len(jumps) == 1 and known[jumps[0]].starts and places[0] == 0


def _in_order(said: Words, known: Words) -> bool:
    """Whether one is the other with words left out, a quarter at most of those between its ends."""
    places = _places(said, known)
    if not places:
        return False
    left = set(range(places[0], places[-1])) - set(places)
    if any(known[n].name == _PAIR or known[n].text[0].isdigit() for n in left):
        return False
    return len(said) >= (places[-1] - places[0] + 1) * 3 / 4


def _places(said: Words, known: Words) -> list[int]:
    """Where each word stands in a known clause, one after another; none if one does not."""
    places: list[int] = []
    for word in said:
        first = places[-1] + 1 if places else 0
        at = next((n for n in range(first, len(known)) if _alike(word, known[n])), None)
        if at is None:
            return []
        places.append(at)
    return places


def _in_pieces(said: Words, known: Words) -> bool:
    """Whether one is made of pieces of the other, each of which is a phrase."""
    start = pieces = 0
    while start < len(said):
        length, place = max((_run(said[start:], known[n:]), -n) for n in range(len(known)))
        if length == 0 or (start and not said[start].joint and not said[start - 1].at):
            return False
        if length == 1 and not _phrase(said[start], known[-place], known):
            return False
        start += length
        pieces += 1
    return pieces <= PIECES


def _run(said: Words, known: Words) -> int:
    length = 0
    for one, other in zip(said, known, strict=False):
        if not _alike(one, other):
            break
        length += 1
    return length


def _phrase(said: Word, known: Word, every: Words) -> bool:
    """Whether one word is a phrase of its own: with its preposition, or part of a date."""
    if said.text[1:2] == "_":
        return True
    return bool(said.at) and said.at == known.at and sum(one.at == said.at for one in every) == 1
