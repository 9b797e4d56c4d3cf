"""A person or a thing that is to be forgotten: the names that find it, and the forms near them.

Names are compared by their words without case, accents and points. A form with another ending or
spelling may be another name: it is near one, and is only ever told.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from unicodedata import combining, normalize

from langmem_tiers.core.context import named_by
from langmem_tiers.core.namespaces import decode
from langmem_tiers.core.reading import spaced

_WORD: Final = re.compile(r"[^\W_]+")
_LEFT_OUT: Final = frozenset((*range(10, 37), *range(200, 255)))
"""The canonical combining classes of marks that writing may leave out: points of Hebrew and Arabic,
and accents. The classes between and before them are letters of other scripts."""
_SHORTEST: Final = 3
"""The fewest letters that two near words have in common."""
_LONG: Final = 6
"""The length from which on a word may differ in its last two letters, not one: our own choice."""
_ENDING: Final = 3
"""The most letters by which a near word may be longer: our own choice."""


def bare(text: str) -> str:
    """Return a text without case, accents and points."""
    if text.isascii():
        return text.lower()
    marked = normalize("NFD", spaced(text).casefold())
    return normalize("NFC", "".join(one for one in marked if combining(one) not in _LEFT_OUT))


def bare_words(text: str) -> list[str]:
    """Return the words of a name in order, as names are compared."""
    return _WORD.findall(bare(text))


def strings_of(value: object, *, names: bool = False) -> Iterator[str]:
    """Every text in JSON, and the names of its fields if these are wanted."""
    rest = [value]
    while rest:
        one = rest.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, Mapping):
            rest += one.values()
            if names:
                yield from one
        elif isinstance(one, Sequence) and not isinstance(one, bytes | bytearray | memoryview):
            rest += one


def labels_of(namespace: str) -> list[str]:
    """Return the names in a stored namespace, behind its tenant."""
    return [name for label in decode("", namespace)[1:] if (name := named_by(label)) is not None]


class Subject:
    """A person or a thing, by one name or several."""

    def __init__(self, *names: str) -> None:
        """Hold the words of each name."""
        self.names = tuple(dict.fromkeys(tuple(bare_words(one)) for one in names))
        self._heads = frozenset(one[:_SHORTEST] for name in self.names for one in name)

    def is_named_in(self, text: str) -> bool:
        """Tell whether a text has one of the names as a phrase."""
        folded = bare(text)
        possible = [name for name in self.names if all(one in folded for one in name)]
        if not possible:
            return False
        found = tuple(_WORD.findall(folded))
        return any(name in _runs(found, len(name)) for name in possible)

    def is_named_among(self, texts: Sequence[str | None]) -> bool:
        """Tell whether one of these texts has one of the names."""
        return any(one is not None and self.is_named_in(one) for one in texts)

    def is_meant_by(
        self, value: Mapping[str, Any], speaker: str | None, key: str = "", namespace: str = ""
    ) -> str | None:
        """Why a memory is about it, or by it; None if it is neither."""
        if speaker is not None and self._is(speaker):
            return "said by the subject"
        entities = value.get("entities")
        several = entities if isinstance(entities, list) else []
        if any(isinstance(one, str) and self._is(one) for one in several):
            return "the subject is among its entities"
        if any(self.is_named_in(one) for one in strings_of(value, names=True)):
            return "it names the subject"
        if self.is_named_in(key):
            return "its key names the subject"
        if self.is_named_among([speaker, *labels_of(namespace)]):
            return "its place names the subject"
        return None

    def near_in(self, text: str) -> Iterator[str]:
        """Find the parts of a text that are near a name and are none, as they are written."""
        told = [(one, bare(one)) for one in _WORD.findall(spaced(text))]
        if not any(word[:_SHORTEST] in self._heads for _, word in told):
            return
        runs = [run for name in self.names for run in self._near(name, told)]
        parts = {part for name in self.names if len(name) > 1 for part in name}
        single = (one for one, word in told if any(_is_near(part, word) for part in parts))
        yield from runs or single

    def _near(self, name: tuple[str, ...], told: Sequence[tuple[str, str]]) -> Iterator[str]:
        """Find the runs of as many words as a name has that are near it."""
        for start in range(len(told) - len(name) + 1):
            run = told[start : start + len(name)]
            words = tuple(word for _, word in run)
            if words not in self.names and all(map(_is_near, name, words)):
                yield " ".join(one for one, _ in run)

    def _is(self, text: str) -> bool:
        return tuple(bare_words(text)) in self.names


def _is_near(known: str, word: str) -> bool:
    """Tell whether a word begins as another one does, but for an ending."""
    if known == word:
        return True
    same = max(_SHORTEST, len(known) - (2 if len(known) >= _LONG else 1))
    return len(word) <= len(known) + _ENDING and len(word) >= same and word[:same] == known[:same]


def _runs(said: Sequence[str], size: int) -> Iterator[tuple[str, ...]]:
    return (tuple(said[start : start + size]) for start in range(len(said) - size + 1))
