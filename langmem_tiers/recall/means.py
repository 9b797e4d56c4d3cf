"""Whether a message to an assistant only talks, and whether it needs memory, by its words.

Two logistic regressions over the words of a sentence, their pairs, how it begins and ends, how long
it is, and how many of its words are rare. They order what is shown, and raise or lower its floor;
nothing is stored, changed or ended by them. Their weights ship as the model `means`: a fit by
`benchmarks/fit_means.py` on messages by many hands. They know mostly English: of what is told in
another language neither is found, as most of its words are rare.

Example:
    ```python
    from langmem_tiers.recall.means import means
    from langmem_tiers.recall.question import TALKS

    assert means("Thanks, that sounds great!").talk >= TALKS
    assert means("My sister is allergic to peanuts").talk < TALKS
    ```
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache, lru_cache
from importlib.resources import files
from itertools import pairwise
from typing import Final, NamedTuple

from langmem_tiers.core import linear_model
from langmem_tiers.core.reading import BIAS, head_and_tail, split_sentences, tokens

_LETTERS: Final = 8
"""Of a word, those that count."""
_RARE, _NAME = "~", "~~"
"""A word that has no weight of its own, and one that is written like a name: neither is a token."""
_LENGTHS: Final = (1, 3, 6, 12)
_MOST_RARE: Final = 4
_MOST: Final = 7.0
"""Of the logarithm of odds: one in a thousand."""


class MessageIntent(NamedTuple):
    """How likely it is that a message does each of these."""

    talk: float
    """It tells nothing: a greeting, thanks, a reaction, a question or a request for the assistant.
    So do all of its sentences."""
    needs: float
    """It asks for something that was told before, or that is to be made with that in mind."""


def classify_message(text: str) -> MessageIntent:
    """What a message does, by its sentences; one without a word tells nothing."""
    likely, _ = _message_logits(head_and_tail(text))
    talk, need = map(clamp_logit, likely)
    return MessageIntent(1 / (1 + math.exp(-talk)), 1 / (1 + math.exp(-need)))


def memory_need(text: str) -> float:
    """Whether a question needs memory, as the logarithm of odds; 0 if its words do not say so.

    What rather needs none needs it the less, the surer it only talks.
    """
    likely, strange = _message_logits(head_and_tail(text))
    if strange:
        return 0.0
    talks = max(likely.talk, 0.0) if likely.needs < 0 else 0.0
    return clamp_logit(likely.needs - talks)


def clamp_logit(score: float) -> float:
    """A score that no chance goes beyond."""
    return max(min(score, _MOST), -_MOST)


@lru_cache(maxsize=2_000)
def _message_logits(text: str) -> tuple[MessageIntent, bool]:
    """The logarithm of the odds of each, and whether the text is strange.

    Each goes by the sentence that says most of it, but for talk, which all are to be.
    """
    weights = shipped_weights()
    token_lists = tokenize_sentences(text, weights)
    if not token_lists:
        return MessageIntent(_MOST, -_MOST), True
    talks, needing = [], []
    for named in token_lists:
        present = sentence_features(named)
        rows = [weights[feature] for feature in present if feature in weights]
        share = 1 / math.sqrt(max(1, len(present)))
        talk, need = (
            bias + share * sum(row[n] for row in rows) for n, bias in enumerate(weights[BIAS])
        )
        talks.append(min(talk, 0.0) if is_mostly_unknown([named]) else talk)
        needing.append(need)
    return MessageIntent(min(talks), max(needing)), is_mostly_unknown(token_lists)


def is_mostly_unknown(token_lists: Iterable[Sequence[str]]) -> bool:
    """Whether no sentence is a question, or mostly of known words: they may tell anything."""
    return all(
        "?" not in named and _count_rare(named) > sum(map(str.isalpha, named))
        for named in token_lists
    )


def _count_rare(named: Sequence[str]) -> int:
    return named.count(_RARE) + named.count(_NAME)


def tokenize_sentences(text: str, vocabulary: Collection[str]) -> list[list[str]]:
    """The words of each sentence of a text that has a word or a sign, as they count."""
    return [
        named
        for sentence in split_sentences(text)
        if (named := tokenize_sentence(sentence, vocabulary))
    ]


def tokenize_sentence(sentence: str, vocabulary: Collection[str]) -> list[str]:
    """Each word as it counts: in small letters if it is known, else as a rare one or a name."""
    named = []
    for place, token in enumerate(tokens(sentence)):
        word = token[:_LETTERS].lower()
        named.append(word if word in vocabulary else _NAME if place and token.istitle() else _RARE)
    return named


def sentence_features(named: Sequence[str]) -> frozenset[str]:
    """What counts of a sentence of these words."""
    pairs = map(" ".join, pairwise(named))
    begins = (f"^ {' '.join(named[:count])}" for count in (1, 2, 3))
    size = sum(len(named) > most for most in _LENGTHS)
    counts = (f"~{min(_count_rare(named), _MOST_RARE)}", f"&{size}")
    return frozenset((*named, *pairs, *begins, f". {named[-1]}", *counts))


@cache
def shipped_weights() -> Mapping[str, MessageIntent]:
    """The weights that ship, by feature."""
    return {
        name: MessageIntent(*row)
        for name, row in linear_model.read_weights(files(__package__), "means").items()
    }
