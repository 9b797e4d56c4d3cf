"""The words of texts: near-duplicates, of which the best is kept, and how alike words are.

Likeness: each word of a question is met by the word of a memory that is nearest to it by the
vectors of single words, and counts as much as its own vector is long: what is rare has a long one.
What all memories of somebody share, a name, says nothing and is left out.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from functools import cached_property
from typing import NamedTuple, Protocol

from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.core.memory import ASSISTANT_ROLES, Recollection, Source
from langmem_tiers.core.reading import exact_words, words_in
from langmem_tiers.core.values import content_of, source_of
from langmem_tiers.recall.candidates import Candidate, Searched
from langmem_tiers.recall.question import Question, name_words


class Words(Protocol):
    """What has a vector for each word, such as `LocalEmbeddings`."""

    def alike(self, asked: Sequence[str], texts: Sequence[Sequence[str]]) -> list[float]:
        """How alike the words of each text are to those asked, near 0…1."""

    def interchangeable(self, pairs: Sequence[tuple[str, str]]) -> bool:
        """Tell whether the words of each pair can stand for each other, as "my" and "your"."""


def likeness(
    candidates: Sequence[Candidate], question: Question, searched: Searched, words: Words | None
) -> list[float]:
    """How alike each candidate's words are to the question's; 0 for all without `words`."""
    asked = _asked(question, searched) if words else []
    if words is None or not asked:
        return [0.0] * len(candidates)
    return words.alike(asked, [words_in(content_of(one.value)) for one in candidates])


def _asked(question: Question, searched: Searched) -> list[str]:
    names = question.names.union(*map(name_words, searched.speakers))
    every = words_in(question.text)
    return [one for one in every if one not in names] or list(every)


# Near-duplicates

SIMILARITY_THRESHOLD = 0.85
"""From here on two texts count as the same, as specified for recall."""

SHORT_WORDS = 6
"""Texts up to this long have too few shingles to be compared by them alone."""


Feature = str | tuple[str, ...]

SHINGLE = 3
"""Words in a shingle: enough to tell "not before noon" from "noon, not before"."""

_APOSTROPHE = re.compile("['\u2019]")


def shingles(ordered: list[str]) -> frozenset[Feature]:
    """Each run of three words; of a shorter text, the one run that it is."""
    if len(ordered) < SHINGLE:
        return frozenset([tuple(ordered)])
    return frozenset(zip(ordered, ordered[1:], ordered[2:], strict=False))


def features(text: str) -> frozenset[Feature]:
    """The words and the shingles, so that order counts: who owes whom."""
    ordered = exact_words(text)
    return shingles(ordered) | frozenset(ordered)


class _Set(NamedTuple):
    """Features as the bits of an integer: many times faster to compare than a set of them."""

    bits: int
    size: int


class Text:
    """A text to compare with others that were read with the same `numbers`."""

    def __init__(self, text: str, numbers: dict[Feature, int]) -> None:
        self.plain = " ".join(text.casefold().split())
        self.words = exact_words(text)
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
    return by == before and one.when > other.when


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
