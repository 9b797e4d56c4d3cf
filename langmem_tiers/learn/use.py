"""What an answer took up of the memories that it was shown: being shown is not being used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping
from typing import Final, TypeVar

from langmem_tiers.core.reading import ends_of, stem, words

K = TypeVar("K", bound=Hashable)

TAKEN_UP: Final = 2
"""Words of its own that an answer has of a memory that it took up. Of 575 memories in 140 answers,
written and judged by two hands that did not know this, it finds 7 in 10 of those that made a
difference, and 1 in 10 of the others (docs/learning.md)."""
_SHORTEST: Final = 3
"""Letters of a word that tells something; a number may have fewer."""


def not_taken_up(shown: Mapping[K, str], question: str, answer: str) -> set[K]:
    """Which memories an answer took nothing of, by their texts.

    It took one up that shares two words with the answer, or as many as either has, and with neither
    the question nor any other memory. Of a memory without a word of its own nothing can be said: it
    is not among them. An answer may be words and calls, as text.
    """
    told = {key: _stems(text) for key, text in shown.items()}
    common = Counter(one for each in told.values() for one in each)
    known, said = _stems(question), _stems(answer)
    own = {key: {one for one in each - known if common[one] == 1} for key, each in told.items()}
    most = min(TAKEN_UP, max(1, len(said - known)))  # an answer may be a word
    return {key for key, each in own.items() if each and len(each & said) < min(most, len(each))}


def _stems(text: str) -> frozenset[str]:
    found = words(ends_of(text))
    return frozenset(stem(one) for one in found if len(one) >= _SHORTEST or one.isdigit())
