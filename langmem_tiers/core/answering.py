"""What a function of a caller's answers, whether it blocks, is to be awaited, or hands a Future."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterable
from concurrent.futures import Future
from typing import Any


async def answer_awaited(verb: Any, *given: Any) -> Any:
    """What a function answers; one that blocks does so in a thread."""
    if inspect.iscoroutinefunction(verb):
        return await verb(*given)
    answer = await asyncio.to_thread(verb, *given)
    if isinstance(answer, Future):
        return await asyncio.wrap_future(answer)
    return await answer if inspect.isawaitable(answer) else answer


async def answers_awaited(verb: Any, several: Iterable[tuple[Any, ...]]) -> Any:
    """What a function answers to each of these, asked side by side."""
    return list(await asyncio.gather(*(answer_awaited(verb, *one) for one in several)))
