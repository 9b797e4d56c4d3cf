"""Classify a message to an assistant by its words: small talk, and the need for memory.

Two logistic regressions use the words of a sentence, their pairs, how it begins and ends, its
length, and how many of its words are rare. They order what is shown, and raise or lower its floor;
nothing is stored, changed or ended by them. Their weights ship as the model `means`: a fit by
`benchmarks/fit_means.py` on messages by many hands. They know mostly English: for a message in
another language neither is found, as most of its words are rare.

Example:
    ```python
    from langmem_tiers.recall.message_intent import means
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
from langmem_tiers.core.texts import BIAS, head_and_tail, split_sentences, tokens

_LETTERS: Final = 8
"""Letters kept of each word."""
_RARE, _NAME = "~", "~~"
"""Token class of a word without a weight, and of one that is written like a name."""
_LENGTHS: Final = (1, 3, 6, 12)
_MOST_RARE: Final = 4
_MOST: Final = 7.0
"""Bound on the logarithm of odds: one in a thousand."""


class MessageIntent(NamedTuple):
    """Chances, or logarithms of odds, of each intent of a message."""

    talk: float
    """Small talk: a greeting, thanks, a reaction, a question or a request for the assistant. All
    sentences of the message are."""
    needs: float
    """Need for memory: it asks for something told before, or for work that has to respect that."""


def classify_message(text: str) -> MessageIntent:
    """Return the chances of a message's intents; one without a word is small talk."""
    likely, _ = _message_logits(head_and_tail(text))
    talk, need = map(clamp_logit, likely)
    return MessageIntent(1 / (1 + math.exp(-talk)), 1 / (1 + math.exp(-need)))


def memory_need(text: str) -> float:
    """Return the logarithm of odds that a question needs memory; 0 if its words are unknown.

    A question that likely needs none needs it the less, the surer it is small talk.
    """
    likely, strange = _message_logits(head_and_tail(text))
    if strange:
        return 0.0
    talks = max(likely.talk, 0.0) if likely.needs < 0 else 0.0
    return clamp_logit(likely.needs - talks)


def clamp_logit(score: float) -> float:
    """Bound a logarithm of odds."""
    return max(min(score, _MOST), -_MOST)


@lru_cache(maxsize=2_000)
def _message_logits(text: str) -> tuple[MessageIntent, bool]:
    """Return the logarithms of odds of a message, and whether its words are mostly unknown.

    The need is that of the neediest sentence; the message is small talk only if all sentences are.
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
    """Tell whether no sentence is a question or mostly of known words: they may say anything."""
    return all(
        "?" not in named and _count_rare(named) > sum(map(str.isalpha, named))
        for named in token_lists
    )


def _count_rare(named: Sequence[str]) -> int:
    return named.count(_RARE) + named.count(_NAME)


def tokenize_sentences(text: str, vocabulary: Collection[str]) -> list[list[str]]:
    """Return the token classes of each sentence that has a word or a sign."""
    return [
        named
        for sentence in split_sentences(text)
        if (named := tokenize_sentence(sentence, vocabulary))
    ]


def tokenize_sentence(sentence: str, vocabulary: Collection[str]) -> list[str]:
    """Return the class of each word: itself in small letters if known, else rare or a name."""
    named = []
    for place, token in enumerate(tokens(sentence)):
        word = token[:_LETTERS].lower()
        named.append(word if word in vocabulary else _NAME if place and token.istitle() else _RARE)
    return named


def sentence_features(named: Sequence[str]) -> frozenset[str]:
    """Return the features of a sentence with these token classes."""
    pairs = map(" ".join, pairwise(named))
    begins = (f"^ {' '.join(named[:count])}" for count in (1, 2, 3))
    size = sum(len(named) > most for most in _LENGTHS)
    counts = (f"~{min(_count_rare(named), _MOST_RARE)}", f"&{size}")
    return frozenset((*named, *pairs, *begins, f". {named[-1]}", *counts))


@cache
def shipped_weights() -> Mapping[str, MessageIntent]:
    """Return the shipped weights by feature."""
    return {
        name: MessageIntent(*row)
        for name, row in linear_model.read_weights(files(__package__), "message_intent").items()
    }
