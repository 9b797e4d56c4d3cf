"""The words of texts, and near-duplicates: of memories that say the same the best one is kept."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from functools import cached_property
from typing import NamedTuple
from unicodedata import normalize

from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.core.memory import ASSISTANT_ROLES, Recollection, Source
from langmem_tiers.core.values import source_of
from langmem_tiers.recall.alike import Words

SIMILARITY_THRESHOLD = 0.85
"""From here on two texts count as the same, as specified for recall."""

SHORT_WORDS = 6
"""Texts up to this long have too few shingles to be compared by them alone."""


Feature = str | tuple[str, ...]

SHINGLE = 3
"""Words in a shingle: enough to tell "not before noon" from "noon, not before"."""

_EDGES = ".,;:!?\"'()[]{}<>…“”«»¿¡"  # not "+" or "#": "C++" and "C#" are words
_APOSTROPHE = re.compile("['\u2019]")
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]")


def words(text: str) -> list[str]:
    """The words in order, without case and the punctuation around them.

    In scripts that put no spaces between words (Chinese, Japanese), each character is a word.
    """
    spaced = _UNSPACED.sub(r" \g<0> ", normalize("NFKC", text).casefold())
    return [word.strip(_EDGES) or word for word in spaced.split()]


def shingles(ordered: list[str]) -> frozenset[Feature]:
    """Each run of three words; of a shorter text, the one run that it is."""
    if len(ordered) < SHINGLE:
        return frozenset([tuple(ordered)])
    return frozenset(zip(ordered, ordered[1:], ordered[2:], strict=False))


def features(text: str) -> frozenset[Feature]:
    """The words and the shingles, so that order counts: who owes whom."""
    ordered = words(text)
    return shingles(ordered) | frozenset(ordered)


class _Set(NamedTuple):
    """Features as the bits of an integer: many times faster to compare than a set of them."""

    bits: int
    size: int


class Text:
    """A text to compare with others that were read with the same `numbers`."""

    def __init__(self, text: str, numbers: dict[Feature, int]) -> None:
        self.plain = " ".join(text.casefold().split())
        self.words = words(text)
        self.is_short = len(self.words) <= SHORT_WORDS
        self._numbers = numbers
        self.shingles = self._set(shingles(self.words))

    @cached_property
    def features(self) -> _Set:
        """Single words as well as shingles."""
        return self._set(shingles(self.words) | set(self.words))

    def _set(self, found: Collection[Feature]) -> _Set:
        numbers = self._numbers
        positions = [numbers.setdefault(one, len(numbers)) for one in found]
        bits = bytearray(len(numbers) // 8 + 1)
        for position in positions:
            bits[position >> 3] |= 1 << (position & 7)
        return _Set(int.from_bytes(bits, "little"), len(positions))


def deduplicate(
    ranked: Sequence[Recollection],
    similarity_threshold: float = SIMILARITY_THRESHOLD,
    vocabulary: Words | None = None,
) -> list[Recollection]:
    """Those whose text is less similar than that to each one that is ranked above and kept.

    What one speaker said again in the same words stands in its first place with the day
    on which it was said last: what holds now is not taken for older than what was said in between.
    With a `vocabulary`, words that an assistant says back to a person ("You live in Lisbon" to "I
    live in Lisbon") are a repetition as well, and the person's words stand in their place.

    The threshold is in 0…1, see `similarity`: at 1 only texts with the same shingles repeat
    each other, at 0 all do.

    Raises:
        InvalidInputError: The threshold is not in 0…1.
    """
    if not 0 <= similarity_threshold <= 1:
        raise InvalidInputError(
            f"similarity_threshold is {similarity_threshold}; give a number in 0…1, such as 0.85."
        )
    kept: list[Recollection] = []
    texts: list[Text] = []
    numbers: dict[Feature, int] = {}
    for memory in ranked:
        text = Text(memory.content, numbers)
        said = None if vocabulary is None else _told_back(memory, text, kept, texts, vocabulary)
        if said is None and all(similarity(text, other) < similarity_threshold for other in texts):
            kept.append(memory)
            texts.append(text)
            continue
        if said is not None and _side(memory) == Source.USER:
            kept[said], texts[said] = memory, text
        for place, (other, standing) in enumerate(zip(texts, kept, strict=True)):
            if text.plain == other.plain and _said_later(memory, standing):
                kept[place] = memory
    return kept


def _told_back(
    memory: Recollection,
    text: Text,
    kept: Sequence[Recollection],
    texts: Sequence[Text],
    vocabulary: Words,
) -> int | None:
    """Find the place of the memory that this one says back, or that says this one back."""
    side = _side(memory)
    if side is None:
        return None
    for place, (other, standing) in enumerate(zip(texts, kept, strict=True)):
        if len(text.words) != len(other.words) or _side(standing) in (None, side):
            continue
        if (pairs := _differing(text.words, other.words)) and vocabulary.interchangeable(pairs):
            return place
    return None


def _differing(here: Sequence[str], there: Sequence[str]) -> list[tuple[str, str]]:
    """Return the words by which texts of equal length differ; none if one has a part more."""
    differing = list[tuple[str, str]]()
    for one, other in zip(here, there, strict=True):
        parts, others = _APOSTROPHE.split(one), _APOSTROPHE.split(other)
        if len(parts) != len(others):
            return []
        differing += [pair for pair in zip(parts, others, strict=True) if pair[0] != pair[1]]
    return differing if all(each.isalpha() for pair in differing for each in pair) else []


def _side(one: Recollection) -> str | None:
    """Return which side says a memory: a person, an assistant, or neither."""
    speaker = (one.speaker or "").lower()
    if speaker in ASSISTANT_ROLES:
        return Source.AGENT
    source = source_of(one.value)
    return source if source == Source.USER or (not speaker and source == Source.AGENT) else None


def _said_later(one: Recollection, other: Recollection) -> bool:
    """Whether the same speaker said it at another time, later."""
    by, before = ((each.speaker, each.value.get("source")) for each in (one, other))
    later = (one.occurred_at or one.created_at) > (other.occurred_at or other.created_at)
    return by == before and later


def similarity(one: Text, other: Text) -> float:
    """How much two texts say the same in the same words, in 0…1.

    That is 1 if they differ in case and white space at most; else the Jaccard similarity of
    their runs of three words. If either has six words or fewer, single words count as well as
    runs, as one other word would leave hardly a run the same.
    """
    if one.plain == other.plain:
        return 1.0
    if one.is_short or other.is_short:
        return _jaccard(one.features, other.features)
    return _jaccard(one.shingles, other.shingles)


def _jaccard(one: _Set, other: _Set) -> float:
    shared = (one.bits & other.bits).bit_count()
    return shared / (one.size + other.size - shared)
