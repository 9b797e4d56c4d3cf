"""Asking an embedding model for vectors, for no longer than a call has time."""

from __future__ import annotations

from concurrent.futures import CancelledError
from functools import partial
from typing import Any

from langchain_core.embeddings import Embeddings

from langmem_tiers.core.errors import EmbeddingFailedError, TieredMemoryError, masked, worded
from langmem_tiers.core.reading import shortened
from langmem_tiers.core.threads import (
    Daemons,
    Work,
    answer_awaited,
    answers_awaited_by,
    answers_by,
)
from langmem_tiers.postgres.deadline import NEVER, Deadline
from langmem_tiers.postgres.flow import Ask, Embed
from langmem_tiers.postgres.offline import OfflineEmbeddings
from langmem_tiers.postgres.work import AWAITED, Side

_LONGEST_ERROR = 400
"""Characters of a model's error that are told: our own choice."""
THREADS = Daemons(100, idle_seconds=5.0)
"""The threads for models that only block: one that never answers holds a thread, and no call. To
begin a thread takes as long as a fast model, so one that is idle waits for a moment."""
_SILENT = (
    "it gave no answer within {:g} of the {:g} seconds that a call has; for more time open the "
    "store with bounds=Bounds(call_timeout_ms=…)"
)


def vectors(effect: Embed, model: Embeddings, side: Side, deadline: Deadline) -> Work[Any]:
    """Return the vectors of texts.

    A question is sought by words alone where the model fails, so its vector has half the time.

    Raises:
        EmbeddingFailedError: if the model raises, or does not answer in time.
    """
    limit = deadline
    if isinstance(model, OfflineEmbeddings):
        limit = NEVER  # the model is ours, and only computes
    elif effect.purpose == "query" and deadline.left is not None:
        limit = Deadline(deadline.left / 2)
    try:
        ask = _of_documents if effect.purpose == "documents" else _of_queries
        return (yield from _in_time(ask(model, list(effect.texts), limit), side, limit))
    except (TieredMemoryError, CancelledError):
        raise
    except Exception as error:  # a user's model can raise anything
        said = worded(error)
        if isinstance(error, TimeoutError) and limit.passed:
            said = _SILENT.format(limit.seconds, deadline.seconds)
        raise EmbeddingFailedError(shortened(masked(said), _LONGEST_ERROR)) from error


def _of_documents(model: Embeddings, texts: list[str], _: Deadline) -> Ask:
    awaited: Any = partial(model.aembed_documents, texts)
    if type(model).aembed_documents is Embeddings.aembed_documents:
        awaited = partial(_aside, model.embed_documents, texts)
    return Ask(partial(model.embed_documents, texts), awaited)


def _of_queries(model: Embeddings, texts: list[str], limit: Deadline) -> Ask:
    def ask() -> list[Any]:
        found = []
        for text in texts:
            if limit.passed:
                raise TimeoutError
            found.append(model.embed_query(text))
        return found

    async def aask() -> list[Any]:
        if type(model).aembed_query is Embeddings.aembed_query:
            return [await _aside(model.embed_query, text) for text in texts]
        return [await model.aembed_query(text) for text in texts]

    return Ask(ask, aask)


async def _aside(call: Any, given: Any) -> Any:
    """Ask a model that only blocks, without a thread of the loop's own."""
    return await answer_awaited(call, given, daemons=THREADS)


def _in_time(ask: Ask, side: Side, limit: Deadline) -> Work[Any]:
    if limit.left is None:
        return (yield side.ask(ask))
    if side is AWAITED:
        (found,) = yield answers_awaited_by(limit.left, [ask.aask])
    else:
        (found,) = answers_by(limit.left, [ask.ask], THREADS)
    return found
