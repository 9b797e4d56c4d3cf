"""What a message does that a user sends: whether it only talks, and whether it asks to be reminded.

Two logistic regressions over the words of a sentence, their pairs, how it begins and ends, how long
it is, and how many of its words are rare. Their weights ship as `means.tsv`:
`benchmarks/fit_means.py` fitted them on messages that others wrote, says who, and prints how each
does on sources that it has not seen. They know English alone: of what is told in another language
no kind is found, as most of its words are rare.

Example:
    ```python
    from langmem_tiers.recall.question import TALKS
    from langmem_tiers.remember.means import means

    assert means("Thanks, that sounds great!").talk >= TALKS
    assert means("My sister is allergic to peanuts").talk < TALKS
    ```
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache, lru_cache
from importlib.resources import files
from itertools import pairwise
from typing import Final, NamedTuple

from langmem_tiers.core.reading import ends_of
from langmem_tiers.recall.question import TALKS, is_question
from langmem_tiers.remember.instructs import BIAS, sentences_of, tokens

INTENDS: Final = 0.9
"""From here on it asks to be reminded."""
INTENDS_NOT: Final = 0.03
"""Below this it does not, even if it has the form: none of 75 forms that did was below, judged by
a fit on other sources, and 4 of 26 that did not."""
_LETTERS: Final = 8
"""Of a word, those that count."""
_RARE, _NAME = "~", "~~"
"""A word that has no weight of its own, and one that is written like a name: neither is a token."""
_NOT_KNOWN: Final = (_RARE, _NAME)
_OPEN: Final = 0.5
"""Of what may talk or tell."""
_LENGTHS: Final = (1, 3, 6, 12)
_MOST_RARE: Final = 4


class Means(NamedTuple):
    """How likely it is that a message does each of these."""

    talk: float
    """It tells nothing: a greeting, thanks, a reaction, a question or a request for the assistant.
    So do all of its sentences."""
    intends: float
    """One of its sentences asks to be reminded of something, or to note it to be done."""


def means(text: str) -> Means:
    """What a message does, by its sentences; one without a word tells nothing."""
    return _means(ends_of(text))


@lru_cache(maxsize=2_000)
def _means(text: str) -> Means:
    several = [_of(one) for one in parts(text)]
    return Means(
        min((one.talk for one in several), default=1.0),
        max((one.intends for one in several), default=0.0),
    )


def only_talks(text: str) -> bool:
    """Whether a text talks, and none of its sentences asks anything."""
    said = ends_of(text)
    return means(said).talk >= TALKS and not any(map(is_question, parts(said)))


def parts(text: str) -> list[str]:
    """The sentences of a text that have a word or a sign."""
    return [one for one in sentences_of(text) if tokens(one)]


def _of(sentence: str) -> Means:
    weights = shipped()
    found = features(sentence, weights)
    share = 1 / math.sqrt(len(found))
    bias, rows = weights[BIAS], [weights[one] for one in found if one in weights]
    sums = (at + share * sum(row[n] for row in rows) for n, at in enumerate(bias))
    likely = Means(*(1 / (1 + math.exp(-one)) for one in sums))
    return likely._replace(talk=min(likely.talk, _OPEN)) if _strange(sentence) else likely


def _strange(sentence: str) -> bool:
    """Whether it is no question, and most of its words are rare: they may tell anything."""
    named = list(named_in(sentence, shipped()))
    rare = sum(one in _NOT_KNOWN for one in named)
    return "?" not in named and rare > sum(map(str.isalpha, named))


def features(sentence: str, known: Collection[str]) -> frozenset[str]:
    """What counts of a sentence; `known` are the words that count by themselves."""
    named = list(named_in(sentence, known))
    pairs = (f"{one} {other}" for one, other in pairwise(named))
    begins = (f"^{' '.join(named[:several])}" for several in (1, 2, 3))
    rare = sum(one in _NOT_KNOWN for one in named)
    size = sum(len(named) > most for most in _LENGTHS)
    counts = (f"~{min(rare, _MOST_RARE)}", f"&{size}")
    return frozenset((*named, *pairs, *begins, f"{named[-1]}.", *counts))


def named_in(sentence: str, known: Collection[str]) -> Iterator[str]:
    """Each word as it counts: in small letters if it is known, else as a rare one or a name."""
    for place, one in enumerate(tokens(sentence)):
        word = one[:_LETTERS].lower()
        yield word if word in known else _NAME if place and one.istitle() else _RARE


def written(weights: Mapping[str, Means]) -> str:
    """Weights as they ship: a line each, by name."""
    return "".join(
        f"{name}\t{talk:g}\t{intends:g}\n" for name, (talk, intends) in sorted(weights.items())
    )


def read(lines: Iterable[str]) -> Iterator[tuple[str, Means]]:
    """Weights as `written` writes them."""
    for line in lines:
        name, *several = line.split("\t")
        yield name, Means(*map(float, several))


@cache
def shipped() -> Mapping[str, Means]:
    """The weights that ship, by feature."""
    return dict(read(files(__package__).joinpath("means.tsv").read_text("utf-8").splitlines()))
