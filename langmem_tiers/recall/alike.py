"""How alike the words of a memory are to those asked, where no word need be the same.

Each word of the question is met by the word of the memory that is nearest to it by the vectors of
single words, and counts as much as its own vector is long: what is rare has a long one. What all
memories of somebody share, a name, says nothing and is left out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, Protocol

from langmem_tiers.core.values import content_of
from langmem_tiers.recall.candidates import Candidate, Searched
from langmem_tiers.recall.question import Question, name_words

_WORD: Final = re.compile(r"[^\W_](?:[^\W_]|['\u2019](?=[^\W_]))*")
_CHARACTERS: Final = 1_000
"""How much of a text is read: as many as two hundred words."""
_KEPT: Final = 4_096
"""Texts whose words are kept: what answers once is asked for again."""


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


@lru_cache(maxsize=_KEPT)
def words_in(text: str) -> tuple[str, ...]:
    """The distinct words of a text, in lower case."""
    return tuple(dict.fromkeys(_WORD.findall(text[:_CHARACTERS].lower())))
