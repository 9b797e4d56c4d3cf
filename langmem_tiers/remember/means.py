"""What a message does that a user sends to an assistant, by its words and by the answer to it.

Whether it only talks, whether it needs memory, whether it asks to be reminded, and whether it takes
back or corrects what was said before: five logistic regressions over the words of a sentence, their
pairs, how it begins and ends, how long it is, and how many of its words are rare; the last three
also over the first words of the answer, in which an assistant says what it understood. Their
weights ship as `means.tsv`: `benchmarks/fit_means.py` fitted them on messages by many hands, says
whose, and prints how each does on those of hands that it has not seen. They know mostly English: of
what is told in another language no kind is found, as most of its words are rare.

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
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from importlib.resources import files
from itertools import pairwise
from typing import Final, NamedTuple

from langmem_tiers.core.reading import ends_of
from langmem_tiers.remember.instructs import BIAS, sentences_of, tokens

INTENDS: Final = 0.5
"""From here on it asks to be reminded."""
ACTS: Final = 0.5
"""From here on it takes something back, or corrects it."""
_LETTERS: Final = 8
"""Of a word, those that count."""
_RARE, _NAME = "~", "~~"
"""A word that has no weight of its own, and one that is written like a name: neither is a token."""
_NOT_KNOWN: Final = (_RARE, _NAME)
_LENGTHS: Final = (1, 3, 6, 12)
_MOST_RARE: Final = 4
ANSWERED: Final = "<"
"""What begins the name of a feature of the answer."""
_MOST: Final = 7.0
"""Of the logarithm of odds: one in a thousand."""
_FIRST: Final = 2


class Means(NamedTuple):
    """How likely it is that a message does each of these."""

    talk: float
    """It tells nothing: a greeting, thanks, a reaction, a question or a request for the assistant.
    So do all of its sentences."""
    needs: float
    """It asks for something that was told before, or that is to be made with that in mind."""
    intends: float
    """One of its sentences asks to be reminded of something, or to note it to be done."""
    retract: float
    """It takes back something that was said before."""
    correct: float
    """It says something else in place of what was said before."""


def means(text: str, answer: str = "") -> Means:
    """What a message does, by its sentences; one without a word tells nothing."""
    return _means(ends_of(text), first_of(answer))


def first_of(answer: str) -> str:
    """The first sentences of an answer, in which it says what it understood."""
    return " ".join(parts(ends_of(answer))[:_FIRST])


def _means(text: str, answer: str) -> Means:
    return Means(*(1 / (1 + math.exp(-bounded(one))) for one in _scores(text, answer)))


@lru_cache(maxsize=2_000)
def _scores(text: str, answer: str) -> Means:
    """Each by the sentence that says most of it, but for talk, which all are to be.

    What is plainly taken back or corrected is so, whatever is answered.
    """
    several = [scores(one, answer) for one in parts(text)]
    if not several:
        return Means(_MOST, *[-_MOST] * 4)
    talk, *others = zip(*several, strict=True)
    likely = Means(min(talk), *map(max, others))
    if not answer:
        return likely
    alone = _scores(text, "")
    return likely._replace(
        retract=max(likely.retract, alone.retract), correct=max(likely.correct, alone.correct)
    )


def needs(text: str) -> float:
    """Whether a question needs memory, as the logarithm of odds; 0 if its words do not say so.

    What rather needs none needs it the less, the surer it only talks.
    """
    said = ends_of(text)
    if is_strange(said, shipped()):
        return 0.0
    likely = _scores(said, "")
    talks = max(likely.talk, 0.0) if likely.needs < 0 else 0.0
    return bounded(likely.needs - talks)


def is_strange(text: str, known: Collection[str]) -> bool:
    """Whether no sentence of a text is mostly of words that are known."""
    return all(_strange(one, known) for one in parts(text))


def bounded(score: float) -> float:
    """A score that no chance goes beyond."""
    return max(min(score, _MOST), -_MOST)


def parts(text: str) -> list[str]:
    """The sentences of a text that have a word or a sign."""
    return [one for one in sentences_of(text) if tokens(one)]


def scores(sentence: str, answer: str) -> Means:
    """The logarithm of the odds of each."""
    weights = shipped()
    total = [*weights[BIAS]]
    for found in (features(sentence, weights), features_of_answer(answer, weights)):
        rows = [weights[one] for one in found if one in weights]
        share = 1 / math.sqrt(max(1, len(found)))
        total = [at + share * sum(row[n] for row in rows) for n, at in enumerate(total)]
    likely = Means(*total)
    strange = _strange(sentence, weights)
    return likely._replace(talk=min(likely.talk, 0.0)) if strange else likely


def _strange(sentence: str, known: Collection[str]) -> bool:
    """Whether it is no question, and most of its words are rare: they may tell anything."""
    named = list(named_in(sentence, known))
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


def features_of_answer(answer: str, known: Collection[str]) -> frozenset[str]:
    """What counts of an answer; nothing of none."""
    return (
        frozenset(f"{ANSWERED}{one}" for one in features(answer, known))
        if tokens(answer)
        else frozenset()
    )


def named_in(sentence: str, known: Collection[str]) -> Iterator[str]:
    """Each word as it counts: in small letters if it is known, else as a rare one or a name."""
    for place, one in enumerate(tokens(sentence)):
        word = one[:_LETTERS].lower()
        yield word if word in known else _NAME if place and one.istitle() else _RARE


def written(weights: Mapping[str, Sequence[float]]) -> str:
    """Weights as they ship: a line each, by name."""
    lines = (
        "\t".join([name, *(f"{one:g}" for one in row)]) for name, row in sorted(weights.items())
    )
    return "".join(f"{line}\n" for line in lines)


def read(lines: Iterable[str]) -> Iterator[tuple[str, Means]]:
    """Weights as `written` writes them."""
    for line in lines:
        name, *several = line.split("\t")
        yield name, Means(*map(float, several))


@cache
def shipped() -> Mapping[str, Means]:
    """The weights that ship, by feature."""
    return dict(read(files(__package__).joinpath("means.tsv").read_text("utf-8").splitlines()))
