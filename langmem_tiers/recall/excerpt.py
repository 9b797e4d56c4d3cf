"""What a long message says about a question: its sentences that share words with it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import Final

from langmem_tiers.recall.dedupe import words

LONGEST_ANSWER: Final = 180
"""Characters that are shown of what an assistant said. In lives (`benchmarks/data/life.jsonl`) as
many questions are answered as by whole answers, and with 160 as good as all."""
LONGEST: Final = (1000, 1000, 300, 140, 100)
"""Characters that are shown of what others said, the best first. In lives six memories at full
length answer one question of 150 more, and take 9 tokens more each."""

_BETWEEN: Final = re.compile(r"(?<=[.!?…。！？])\s+|\n+")  # noqa: RUF001 - wide marks end sentences
_LEFT_OUT: Final = "…"


def excerpt(text: str, asked: str, most: int) -> str:
    """The sentences of a text that share most words with what is asked, in their order.

    They have `most` characters together, and `…` stands for what is left out; of sentences that
    share as much, the first ones are taken. A text that is no longer is returned as it is.

    Example:
        >>> excerpt("Tea is fine. Coffee at ten. Sleep well.", "When is coffee?", 20)
        '… Coffee at ten. …'

    """
    if len(text) <= most:
        return text
    parts = [one for one in _BETWEEN.split(text) if one.strip()]
    kept, room = set[int](), most
    for place in _nearest(parts, asked):
        if len(parts[place]) <= room:
            kept.add(place)
            room -= len(parts[place]) + 1
    if not kept:
        return text[: most - 1].rstrip() + _LEFT_OUT
    return " ".join(_joined(parts, kept))


def _nearest(parts: Sequence[str], asked: str) -> list[int]:
    sought = frozenset(words(asked))

    def near(place: int) -> float:
        found = frozenset(words(parts[place]))
        return sum(map(len, found & sought)) / math.sqrt(1 + len(found))  # short words are common

    return sorted(range(len(parts)), key=near, reverse=True)


def _joined(parts: Sequence[str], kept: set[int]) -> Iterator[str]:
    for place, part in enumerate(parts):
        if place in kept:
            yield part
        elif place == 0 or place - 1 in kept:
            yield _LEFT_OUT
