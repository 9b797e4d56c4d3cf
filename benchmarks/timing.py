"""Timing in interleaved blocks: A B C, B C A, C A B …, the same work for each.

What disturbs the machine for a second then disturbs all contenders alike. A block's figure is
the median of its operations (one client) or its time over the number of its operations (many
clients); a contender's is the median of its blocks.
"""

from __future__ import annotations

import asyncio
import gc
import statistics
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T")

Run = Callable[[T], object]
AsyncRun = Callable[[T], Coroutine[Any, Any, object]]
Work = Callable[[int], Sequence[T]]
"""Gives the next n pieces of work."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How much to measure: blocks, and seconds that a block of the slowest contender takes."""

    blocks: int
    seconds: float
    largest: int = 400
    """Operations in a block at most."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Milliseconds an operation, block by block."""

    blocks: tuple[float, ...]
    operations: int
    tails: tuple[float, ...] = ()
    """What 95 of 100 operations stay below, with one client."""

    @property
    def milliseconds(self) -> float:
        return statistics.median(self.blocks)

    @property
    def p95(self) -> Timing:
        """The same of the tails."""
        return Timing(self.tails, self.operations)

    def __str__(self) -> str:
        """The median and the quartiles."""
        several = self.blocks if len(self.blocks) > 1 else 2 * self.blocks
        low, middle, high = statistics.quantiles(several, n=4, method="inclusive")
        return f"{middle:.3g} ({low:.3g}–{high:.3g})"


def one_client(
    contenders: Mapping[str, Run[T]], work: Work[T], effort: Effort, warm: int, least: int = 4
) -> dict[str, Timing]:
    """Latency with one client, in blocks of at least so many operations."""
    todo = work(warm)
    slowest = max(statistics.median(_each(run, todo)) for run in contenders.values())
    size = max(least, _block_size(slowest / 1000, effort))
    times: dict[str, list[list[float]]] = {name: [] for name in contenders}
    for number in range(effort.blocks):
        todo = work(size)
        gc.collect()
        for name, run in _rotated(contenders, number):
            times[name].append(_each(run, todo))
    return {
        name: Timing(tuple(map(statistics.median, blocks)), size, tuple(map(p95, blocks)))
        for name, blocks in times.items()
    }


async def many_tasks(
    contenders: Mapping[str, Sequence[AsyncRun[T]]], work: Work[T], effort: Effort, warm: int
) -> dict[str, Timing]:
    """Throughput of as many tasks as a contender has clients."""
    clients = len(next(iter(contenders.values())))
    todo = work(warm)
    slowest = max([await _tasks(runs, todo) for runs in contenders.values()])
    size = _whole_rounds(_block_size(slowest, effort), clients)
    blocks: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(effort.blocks):
        todo = work(size)
        gc.collect()
        for name, runs in _rotated(contenders, number):
            blocks[name].append(1000 * await _tasks(runs, todo))
    return {name: Timing(tuple(values), size) for name, values in blocks.items()}


async def _tasks(runs: Sequence[AsyncRun[T]], todo: Sequence[T]) -> float:
    async def one(run: AsyncRun[T], share: Sequence[T]) -> None:
        for piece in share:
            await run(piece)

    start = time.perf_counter()
    await asyncio.gather(*(one(run, todo[i :: len(runs)]) for i, run in enumerate(runs)))
    return (time.perf_counter() - start) / len(todo)


C = TypeVar("C")


def _rotated(contenders: Mapping[str, C], by: int) -> Iterator[tuple[str, C]]:
    names = list(contenders)
    for i in range(len(names)):
        name = names[(i + by) % len(names)]
        yield name, contenders[name]


def milliseconds(call: Callable[[], object]) -> float:
    """What a call takes."""
    began = time.perf_counter()
    call()
    return 1000 * (time.perf_counter() - began)


def p95(times: Sequence[float]) -> float:
    """What 95 of 100 stay below."""
    return statistics.quantiles(times, n=20, method="inclusive")[-1]


def _each(run: Run[T], todo: Sequence[T]) -> list[float]:
    return [milliseconds(partial(run, piece)) for piece in todo]


def _block_size(seconds_each: float, effort: Effort) -> int:
    return max(4, min(effort.largest, round(effort.seconds / seconds_each)))


def _whole_rounds(size: int, clients: int) -> int:
    return max(1, size // clients) * clients
