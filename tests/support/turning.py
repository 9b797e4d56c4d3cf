"""Turns on ready databases, gone through blocking or on a loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from langmem_tiers.turn.orchestrator import MemoryOrchestrator
from tests.support.coordinating import Caller, Verbs


@asynccontextmanager
async def turning(call: Caller, **options: Any) -> AsyncIterator[Verbs]:
    """A turn, begun and left in the caller's way."""
    orchestrator = MemoryOrchestrator(call.memory, **options)
    if call.mode == "abatch":
        async with orchestrator as turn:
            yield Verbs(turn, call.mode)
        return
    await asyncio.to_thread(orchestrator.__enter__)
    try:
        yield Verbs(orchestrator, call.mode)
    except BaseException as error:
        await asyncio.to_thread(orchestrator.__exit__, type(error), error, error.__traceback__)
        raise
    await asyncio.to_thread(orchestrator.__exit__, None, None, None)
