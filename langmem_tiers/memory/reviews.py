"""The verbs by which models review what was stored before them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Final

from langmem_tiers.core.errors import ConfigurationError
from langmem_tiers.memory.asking import checked_limit
from langmem_tiers.memory.base import Memory
from langmem_tiers.memory.panels import LEFT
from langmem_tiers.postgres.flow import Flow
from langmem_tiers.remember.review_models import Reviewing, ReviewReport
from langmem_tiers.remember.review_models import review_waiting as reviewed

_log = logging.getLogger(__name__)


def review_waiting(memory: Memory, *, limit: int = 100) -> Flow[ReviewReport]:
    """Have models review what of the tenant still awaits it, the longest first.

    With `review_storage="background"` it is what a crash, a model that failed or a closed
    store left over. A worker or a cron can call it. What somebody else reviews at the same
    time may cost tokens twice, and counts once.

    Args:
        limit: Memories at most, 0 to 1,000.

    Raises:
        ConfigurationError: if the coordinator has no `review_model`.
    """
    return reviewing(memory, limit)


def finish_reviews(memory: Memory, timeout: float | None = None) -> bool:
    """Wait for the reviews that are under way in the background; whether all are done.

    Args:
        timeout: Seconds at most; as long as they take if not given, which is a minute for
            eight memories at most.

    Raises:
        asyncio.InvalidStateError: on the loop that the store was opened on, which it would
            block.
    """
    if memory.tiered_store.on_own_loop:
        raise asyncio.InvalidStateError("it would block the loop: await afinish_reviews()")
    return memory.under_way.finish(timeout)


async def afinish_reviews(memory: Memory, timeout: float | None = None) -> bool:  # noqa: ASYNC109 - of its twin
    """Wait for the reviews that are under way in the background; whether all are done.

    Args:
        timeout: Seconds at most; as long as they take if not given, which is a minute for
            eight memories at most.

    Raises:
        asyncio.InvalidStateError: on the loop that the store was opened on, which it would
            block.
    """
    return await asyncio.to_thread(memory.under_way.finish, timeout)


def reviewing(memory: Memory, limit: int, keys: Iterable[str] | None = None) -> Flow[ReviewReport]:
    """Have models review what awaits it, of these keys if they are given."""
    if memory.later is None:
        raise ConfigurationError("no model is there to review: give a review_model")
    how = Reviewing(
        memory.context.root, memory.later, memory.flows.gate.policy, memory.tiered_store.options
    )
    named = None if keys is None else list(keys)
    return reviewed(how, memory.tiered_store.flows.moment, checked_limit(limit), named)


def begin_reviews(memory: Memory, keys: Iterable[str]) -> None:
    """Have models review what of these memories awaits it, in the background.

    `store` does so by itself where `review_storage` is `background`; elsewhere, and for what
    awaits nothing, nothing is done.
    """
    todo = list(keys)
    if not memory.flows.gate.afterwards:
        return
    for start in range(0, len(todo), _MANY):
        some = todo[start : start + _MANY]
        try:
            memory.under_way.add(memory.tiered_store.aside(reviewing(memory, len(some), some)))
        except ConfigurationError as closed:
            _log.warning(LEFT, closed)
            return


_MANY: Final = 1000
"""Memories that one review in the background is for."""
