"""Coordinators on ready databases, called either way, and the evidence behind what they recall."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from langgraph.store.base import TTLConfig

from langmem_tiers import MemoryContext, MemoryCoordinator, TieredStore
from langmem_tiers.core.settings import CoordinatorSettings
from langmem_tiers.postgres.flow import Call
from langmem_tiers.testing import Mode
from tests.support.opening import Opener, text_index, tiered
from tests.support.plans import calls_of, named

PATIENT = CoordinatorSettings(query_timeout_ms=60_000, max_context_items=1000)
"""No time limit that a busy machine could reach."""


@dataclass(frozen=True)
class Verbs:
    """Calls the verbs of a store, a state, a buffer, a turn or hooks, or their async twins.

    One of a namespace is `reminders.add`.
    """

    of: Any
    mode: Mode

    async def __call__(self, verb: str, *args: Any, **options: Any) -> Any:
        """Call `verb`, in a thread, or its twin, on this loop."""
        call: Any = verb_of(self.of, verb, awaited=self.mode == "abatch")
        if self.mode == "abatch":
            return await call(*args, **options)
        return await asyncio.to_thread(call, *args, **options)


def verb_of(of: Any, verb: str, *, awaited: bool = False) -> Any:
    """A verb of an object, or of a namespace of it, `reminders.add`; its async twin if awaited."""
    *within, name = verb.split(".")
    for one in within:
        of = getattr(of, one)
    return getattr(of, f"a{name}" if awaited else name)


async def at_once(number: int, work: Callable[[], Awaitable[Any]]) -> list[Any]:
    """Do the same so many times at once; each blocking call has a thread of its own."""
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(number))
    return await asyncio.gather(*(work() for _ in range(number)))


class Caller(Verbs):
    """Calls the verbs of a coordinator."""

    @property
    def memory(self) -> MemoryCoordinator:
        """Whose verbs these are."""
        assert isinstance(self.of, MemoryCoordinator)
        return self.of

    @property
    def store(self) -> TieredStore:
        """The store that it remembers in."""
        return self.memory.tiered_store


def coordinator(
    store: TieredStore,
    tenant: str = "acme",
    *,
    project_id: str | None = None,
    session_id: str | None = None,
    agent_id: str | None = None,
    user_id: str | None = None,
    **options: Any,
) -> MemoryCoordinator:
    """A patient coordinator of that context."""
    context = MemoryContext(
        tenant=tenant,
        project_id=project_id,
        session_id=session_id,
        agent_id=agent_id,
        user_id=user_id,
    )
    return MemoryCoordinator(store, context=context, **{"settings": PATIENT, **options})


@asynccontextmanager
async def calling(
    open_store: Opener, url: str, *, ttl: TTLConfig | None = None, **options: Any
) -> AsyncIterator[Caller]:
    """A coordinator on a store of its own, opened and called in the opener's way."""
    async with open_store(url=url, index=text_index(), ttl=ttl) as driver:
        yield Caller(coordinator(tiered(driver), **options), driver.mode)


def beside(memory: MemoryCoordinator, **options: Any) -> MemoryCoordinator:
    """Another coordinator of the same context, which has recalled nothing."""
    given = {"settings": PATIENT, **options}
    return MemoryCoordinator(memory.tiered_store, context=memory.context, **given)


def recall_call(store: TieredStore, ask: Callable[[], object]) -> Call:
    """The recall statement that a call sends."""
    return named(calls_of(store, ask), "recall")


def keys(memories: Any) -> list[str]:
    """The keys of memories, in their order."""
    return [one.key for one in memories]
