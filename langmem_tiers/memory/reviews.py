"""The verbs by which models review what was stored before them."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterable
from concurrent.futures import CancelledError, Future, wait
from typing import Final

from langchain_core.language_models import BaseChatModel

from langmem_tiers.core.config import CoordinatorSettings
from langmem_tiers.core.errors import ConfigurationError, short
from langmem_tiers.core.memory import MemoryContext
from langmem_tiers.core.tracing import traced
from langmem_tiers.memory.asking import checked_limit
from langmem_tiers.memory.flows import MemoryFlows
from langmem_tiers.postgres.flow import Flow
from langmem_tiers.remember.review import Panel, Reviewers
from langmem_tiers.remember.review_models import panel_of
from langmem_tiers.remember.waiting import Reviewing, ReviewReport, review_waiting
from langmem_tiers.store.store import TieredStore

_log = logging.getLogger(__name__)

_LEFT: Final = "%s; review_waiting() reviews what awaits it still"
STORAGE: Final = ("rules", "before", "background")
"""Who reviews what is stored: rules alone, or models, before it is stored or afterwards."""
PATIENCE: Final = 60.0
"""Seconds that models have for eight memories where nobody waits for them."""


def storage_panel(
    model: BaseChatModel | None, storage: str, reviewers: Reviewers, settings: CoordinatorSettings
) -> Panel | None:
    """The panel that somebody waits for, if there is a model.

    Raises:
        ConfigurationError: for a way to review that there is not, or that lacks a model.
    """
    if storage not in STORAGE:
        raise ConfigurationError(
            f"review_storage is one of {', '.join(STORAGE)}, not {short(storage, 40)}"
        )
    if model is None:
        if storage != STORAGE[0]:
            raise ConfigurationError(
                f"review_storage={storage!r} needs a model: give a review_model, such as "
                "init_chat_model('openai:gpt-5-mini')"
            )
        return None
    return panel_of(
        model,
        reviewers,
        seconds=settings.review_timeout_ms / 1000,
        relevance_seconds=settings.relevance_timeout_ms / 1000,
    )


def later_panel(model: BaseChatModel | None, reviewers: Reviewers) -> Panel | None:
    """The panel that nobody waits for, if there is a model."""
    return None if model is None else panel_of(model, reviewers, seconds=PATIENCE)


class ReviewVerbs:
    """What `MemoryCoordinator` has models review afterwards; every verb has an async twin."""

    context: MemoryContext
    _store: TieredStore
    _flows: MemoryFlows
    _later: Panel | None
    _under_way: UnderWay

    @traced("tool")
    def review_waiting(self, *, limit: int = 100) -> ReviewReport:
        """Have models review what of the tenant still awaits it, the longest first.

        With `review_storage="background"` it is what a crash, a model that failed or a closed
        store left over. A worker or a cron can call it. What somebody else reviews at the same
        time may cost tokens twice, and counts once.

        Args:
            limit: Memories at most, 0 to 1,000.

        Raises:
            ConfigurationError: if the coordinator has no `review_model`.
        """
        return self._store.run(self._review(limit))

    @traced("tool")
    async def areview_waiting(self, *, limit: int = 100) -> ReviewReport:
        """Have models review what still awaits it; see `review_waiting`."""
        return await self._store.arun(self._review(limit))

    def finish_reviews(self, timeout: float | None = None) -> bool:
        """Wait for the reviews that are under way in the background; whether all are done.

        Args:
            timeout: Seconds at most; as long as they take if not given, which is a minute for
                eight memories at most.

        Raises:
            asyncio.InvalidStateError: on the loop that the store was opened on, which it would
                block.
        """
        if self._store.on_own_loop:
            raise asyncio.InvalidStateError("it would block the loop: await afinish_reviews()")
        return self._under_way.finish(timeout)

    async def afinish_reviews(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109 - of its twin
        """Wait for the reviews that are under way; see `finish_reviews`."""
        return await asyncio.to_thread(self._under_way.finish, timeout)

    def _review(self, limit: int, keys: Iterable[str] | None = None) -> Flow[ReviewReport]:
        if self._later is None:
            raise ConfigurationError("no model is there to review: give a review_model")
        how = Reviewing(
            self.context.root, self._later, self._flows.gate.policy, self._store.options
        )
        named = None if keys is None else list(keys)
        return review_waiting(how, self._store.flows.moment, checked_limit(limit), named)

    def begin_reviews(self, keys: Iterable[str]) -> None:
        """Have models review what of these memories awaits it, in the background.

        `store` does so by itself where `review_storage` is `background`; elsewhere, and for what
        awaits nothing, nothing is done.
        """
        todo = list(keys)
        if not self._flows.gate.afterwards:
            return
        for start in range(0, len(todo), _MANY):
            some = todo[start : start + _MANY]
            try:
                self._under_way.add(self._store.aside(self._review(len(some), some)))
            except ConfigurationError as closed:
                _log.warning(_LEFT, closed)
                return


_MANY: Final = 1000
"""Memories that one review in the background is for."""


class UnderWay:
    """What was begun and nobody waits for; several threads may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._futures: set[Future[ReviewReport]] = set()

    def add(self, future: Future[ReviewReport]) -> None:
        """Keep it until it is done."""
        with self._lock:
            self._futures.add(future)
        future.add_done_callback(self._done)

    def finish(self, timeout: float | None) -> bool:
        """Wait for all that are under way now; whether they are done."""
        with self._lock:
            futures = set(self._futures)
        return not wait(futures, timeout).not_done

    def _done(self, future: Future[ReviewReport]) -> None:
        with self._lock:
            self._futures.discard(future)
        try:
            report = future.result()
        except CancelledError:
            return
        except Exception as error:  # noqa: BLE001 - nobody waits for it who could be told
            _log.warning(_LEFT, error)
            return
        if report.unanswered:
            _log.warning("no model answered for %s: review_waiting() asks again", report.unanswered)
