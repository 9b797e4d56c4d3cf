"""What is known already: texts that came from a recall, and copies of what is stored.

A text that repeats what was recalled tells what the memory told, not what is so: it is no new
evidence, however often it is said.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from langmem_tiers.core.config import lexical_text
from langmem_tiers.core.reading import words
from langmem_tiers.remember.candidate import Known
from langmem_tiers.remember.saying_again import tells
from langmem_tiers.remember.telling import Clause, Told, joined, told
from langmem_tiers.remember.telling_words import ORDER

_FEW: Final = 2
"""Words of a known text that one word may repeat."""
_LONGEST: Final = 10_000
"""Characters that are taken apart: what is longer repeats what is the same, letter by letter."""


class Echo(NamedTuple):
    """A text that is known already, and the memory that holds it."""

    known: Known
    kind: str
    """`recalled` or `stored`."""


def echo_of(content: str, recalled: Sequence[Known]) -> Echo | None:
    """The recalled text that this one repeats, in whole or in part; None if it says anything new.

    What merely frames it ("As I recall, …", the fence of a recalled memory) does not count, nor
    does another form of the same words: another person, tense, order of phrases, or way to write
    a number. One number, name, negation, condition or other word that the recalled text does not
    have is something new, and so is another order of what it relates: who owes whom.
    """
    return _told_by(content, recalled, "recalled")


def copy_of(content: str, stored: Sequence[Known]) -> Echo | None:
    """The stored text that tells all of this already; None if there is none."""
    echoes = (_told_by(content, (one,), "stored") for one in stored)
    return next((one for one in echoes if one is not None), None)


def bare(text: str) -> str:
    """The words that each text has which says the same, as they are written.

    What is longer than what is taken apart is copied as it is alone: with all of its words.
    """
    if len(text) > _LONGEST:
        return lexical_text(text)
    spoken = frozenset(words(text))
    return " ".join(one for one in told(text).written if one in spoken) or text


def _told_by(content: str, known: Sequence[Known], kind: str) -> Echo | None:
    """The known text that tells all of this, as it is or without its heading."""
    if len(content) > _LONGEST:
        same = (one for one in known if one.content.strip() == content.strip())
        return next((Echo(one, kind) for one in same), None)
    known = [one for one in known if len(one.content) <= _LONGEST]
    if not known:
        return None
    said = told(content)
    shelf = _shelf(tuple(one.content for one in known))
    for one in (said, said.unled):
        if one is None or not one.said or not shelf.words.keys() >= one.said:
            continue
        place = _holder(one, shelf)
        if place is not None and (one is said or _complete(one, shelf.texts[place])):
            return Echo(known[place], kind)
    return None


def _complete(said: Told, known: Told) -> bool:
    """Whether it has the first word of a clause that tells it, so that it has a subject."""
    return any(form and form[0].text in said.said for one in known.clauses for form in one.forms)


class _Shelf(NamedTuple):
    """Known texts, and which of them have a word."""

    texts: tuple[Told, ...]
    words: dict[str, list[int]]

    def having(self, words: frozenset[str]) -> Iterator[int]:
        """The texts that have all of these words."""
        rarest = min((self.words.get(one, ()) for one in words), key=len, default=())
        return (place for place in rarest if words <= self.texts[place].every)


@lru_cache(maxsize=16)
def _shelf(texts: tuple[str, ...]) -> _Shelf:
    shelf = _Shelf(tuple(told(one) for one in texts), {})
    for place, one in enumerate(shelf.texts):
        for word in one.every:
            shelf.words.setdefault(word, []).append(place)
    return shelf


class _Place(NamedTuple):
    """Where a part is told: in which text, and in which of its clauses."""

    text: int
    clause: int


def _holder(said: Told, shelf: _Shelf) -> int | None:
    """The first known text that tells all of this, or the first of several that do together."""
    few = len(said.whole.said) == 1
    for whole in _places(said.whole, said, shelf):
        if not few or len(shelf.texts[whole.text].every) <= _FEW:
            return whole.text
    places: list[_Place] = []
    named: set[int] = set()
    for part in _parts(said, shelf):
        before = places[-1] if places else None
        place = _found(part, said, shelf, before)
        if place is None:
            return None
        back = before is not None and place.text == before.text and place.clause < before.clause
        if back and _ordered(part, shelf.texts[place.text], place.clause):
            return None
        places.append(place)
        if len(part.core) > 1:
            named.add(place.text)
    return places[0].text if places and all(one.text in named for one in places) else None


def _parts(said: Told, shelf: _Shelf) -> Iterator[Clause]:
    """The sentences, each as one if a known text tells it, or else in its clauses."""
    for sentence in said.sentences:
        whole = joined(sentence)
        if len(said.sentences) > 1 and next(_places(whole, said, shelf), None) is not None:
            yield whole
        else:
            yield from sentence


def _found(part: Clause, said: Told, shelf: _Shelf, before: _Place | None) -> _Place | None:
    """Where a part is told. What follows another part names who it is of."""
    places = sorted(
        _places(part, said, shelf), key=lambda one: before is not None and one.text != before.text
    )
    for place in places:
        same = before is not None and place.text == before.text
        if before is None or _begins(part, shelf.texts[place.text], place.clause, same=same):
            return place
    return None


def _begins(part: Clause, known: Told, place: int, *, same: bool) -> bool:
    """Whether a part has the first word of the clause that tells it, or may well lack it."""
    if place >= len(known.clauses):
        return True
    first = known.clauses[place].forms[0][0]
    return first.text in part.said or (same and not first.named)


def _ordered(part: Clause, known: Told, place: int) -> bool:
    """Whether the order of the clauses of a known text tells something."""
    moved = part.forms[0][0]
    if moved.at or (place < len(known.clauses) and known.clauses[place].forms[0][0].at):
        return False
    return not known.every.isdisjoint(ORDER) or not all(one.loose for one in known.clauses[1:])


def _places(part: Clause, said: Told, shelf: _Shelf) -> Iterator[_Place]:
    """Where a part is told; the last clause and one more stands for several clauses."""
    for text in shelf.having(part.core):
        known = shelf.texts[text]
        if part.core and said.labels <= known.every and _at_its_time(said, known):
            clause = _clause(part, known)
            if clause is not None:
                yield _Place(text, clause)


def _at_its_time(said: Told, known: Told) -> bool:
    """Whether a date beside a text is of its writing: the known one has none, or the same."""
    dates = known.dates | {one for one in known.every if one[1:2] == "_"}
    return not dates or said.dates <= dates


def _clause(part: Clause, known: Told) -> int | None:
    for place, one in enumerate(known.clauses):
        if part.core <= one.said and tells(part, one, single=True):
            return place
    several = [*known.joined, known.whole] if len(known.sentences) > 1 else [known.whole]
    if any(part.core <= one.said and tells(part, one, single=False) for one in several):
        return len(known.clauses)
    return None
