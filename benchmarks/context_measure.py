"""Measuring all contenders at one number of memories, in interleaved blocks."""

from __future__ import annotations

import gc
import itertools
import statistics
from collections.abc import Mapping, Sequence
from functools import partial

from benchmarks.contenders import keys_of
from benchmarks.context_contenders import RAW, Ask
from benchmarks.context_data import Question
from benchmarks.context_report import Found, Latency
from benchmarks.raw import LIMIT
from benchmarks.timing import Effort, Timing, milliseconds, p95

_ASKED = 200
_LEAST = 40
"""Calls in a block: fewer have no 95th percentile worth the name."""


def quality(contenders: Mapping[str, Ask], questions: Sequence[Question]) -> dict[str, Found]:
    """What each contender finds; the raw script returns candidates, not an answer."""
    asked = questions[:_ASKED]
    return {
        name: _found([(keys_of(ask(one)), one.key) for one in asked])
        for name, ask in contenders.items()
        if name != RAW
    }


def _found(pages: Sequence[tuple[set[str], str]]) -> Found:
    return Found(
        full_pages=sum(len(page) >= LIMIT for page, _ in pages) / len(pages),
        target=sum(key in page for page, key in pages) / len(pages),
    )


def latencies(
    contenders: Mapping[str, Ask], questions: Sequence[Question], effort: Effort
) -> dict[str, Latency]:
    """A B C, B C A, C A B …, the same questions for each; every one was warmed up before."""
    work = itertools.cycle(questions)
    size = _block_size(contenders, questions, effort)
    blocks: dict[str, list[list[float]]] = {name: [] for name in contenders}
    names = list(contenders)
    for number in range(effort.blocks):
        todo = list(itertools.islice(work, size))
        gc.collect()
        first = number % len(names)
        for name in names[first:] + names[:first]:
            blocks[name].append(_times(contenders[name], todo))
    return {name: _latency(times, size) for name, times in blocks.items()}


def _block_size(
    contenders: Mapping[str, Ask], questions: Sequence[Question], effort: Effort
) -> int:
    asked = questions[:_LEAST]
    slowest = max(statistics.median(_times(ask, asked)) for ask in contenders.values())
    return max(_LEAST, min(effort.largest, round(1000 * effort.seconds / slowest)))


def _times(ask: Ask, questions: Sequence[Question]) -> list[float]:
    return [milliseconds(partial(ask, one)) for one in questions]


def _latency(blocks: Sequence[Sequence[float]], size: int) -> Latency:
    medians = tuple(map(statistics.median, blocks))
    return Latency(Timing(medians, size), Timing(tuple(map(p95, blocks)), size))
