"""Turns on ready databases, gone through blocking or on a loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from langmem_tiers.testing import Mode
from langmem_tiers.turn.orchestrator import MemoryOrchestrator
from tests.support.coordinating import Caller


@dataclass(frozen=True, slots=True)
class Turn:
    """Calls a turn's verbs, or their async twins."""

    turn: MemoryOrchestrator
    mode: Mode

    async def __call__(self, verb: str, *args: Any, **options: Any) -> Any:
        """Call a verb that reads or writes, in a thread, or its twin, on this loop."""
        if self.mode == "abatch":
            return await getattr(self.turn, f"a{verb}")(*args, **options)
        return await asyncio.to_thread(getattr(self.turn, verb), *args, **options)


@asynccontextmanager
async def turning(call: Caller, **options: Any) -> AsyncIterator[Turn]:
    """A turn, begun and left in the caller's way."""
    orchestrator = MemoryOrchestrator(call.memory, **options)
    if call.mode == "abatch":
        async with orchestrator as turn:
            yield Turn(turn, call.mode)
        return
    await asyncio.to_thread(orchestrator.__enter__)
    try:
        yield Turn(orchestrator, call.mode)
    except BaseException as error:
        await asyncio.to_thread(orchestrator.__exit__, type(error), error, error.__traceback__)
        raise
    await asyncio.to_thread(orchestrator.__exit__, None, None, None)
