"""Calls that are made at once and waited for no longer than is said: on threads, and on a loop.

Whoever waits goes on at the deadline. What was not begun by then never is; a blocking call ends in
its own time, on a thread that no interpreter waits for, and an awaited one is cancelled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import wait
from typing import TypeVar

from langmem_tiers.core.daemons import Daemons

T = TypeVar("T")


def done_by(
    seconds: float | None, calls: Sequence[Callable[[], T]], daemons: Daemons
) -> list[T | None]:
    """What each call returned; None for one that was not done in time."""
    futures = [daemons.submit(call) for call in calls]
    try:
        done, _ = wait(futures, timeout=seconds)
    finally:
        for one in futures:
            one.cancel()
    return [one.result() if one in done else None for one in futures]


async def adone_by(
    seconds: float | None, calls: Sequence[Callable[[], Awaitable[T]]], at_once: int
) -> list[T | None]:
    """What each call returned; None for one that was not done in time."""
    free = asyncio.Semaphore(at_once)

    async def one(call: Callable[[], Awaitable[T]]) -> T:
        async with free:
            return await call()

    if not calls:
        return []
    tasks = [asyncio.create_task(one(call)) for call in calls]
    try:
        done, _ = await asyncio.wait(tasks, timeout=seconds)
    finally:
        for task in tasks:
            task.cancel()
    return [task.result() if task in done else None for task in tasks]
