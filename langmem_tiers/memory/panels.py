"""The models that review what is stored, and the reviews that are under way."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import CancelledError, Future, wait
from typing import Final

from langchain_core.language_models import BaseChatModel

from langmem_tiers.core.errors import ConfigurationError, short
from langmem_tiers.core.options import CoordinatorSettings
from langmem_tiers.remember.review import Panel, Reviewers
from langmem_tiers.remember.review_models import ReviewReport, panel_of

_log = logging.getLogger(__name__)

LEFT: Final = "%s; review_waiting() reviews what awaits it still"
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
            _log.warning(LEFT, error)
            return
        if report.unanswered:
            _log.warning("no model answered for %s: review_waiting() asks again", report.unanswered)
