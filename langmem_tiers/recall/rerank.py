"""Who orders what was recalled again: code or a model of the caller's."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from numbers import Real
from typing import NamedTuple

from langchain_core.documents import BaseDocumentCompressor, Document

from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.core.memory import Recollection
from langmem_tiers.postgres.flow import Ask, Flow

_PLACE = "langmem_tiers_place"


class Shortlist(NamedTuple):
    """The best for one query, in the order of the ranking."""

    query: str
    best: Sequence[Recollection]


class Reranker(NamedTuple):
    """Orders the best again, by code or a model of the caller's.

    Both take the shortlists of several queries at once, and return for each those that are left.
    """

    call: Callable[[Sequence[Shortlist]], Sequence[Sequence[Recollection]]]
    acall: Callable[[Sequence[Shortlist]], Awaitable[Sequence[Sequence[Recollection]]]]
    name: str

    def order(self, shortlists: Sequence[Shortlist]) -> Flow[list[list[Recollection]]]:
        """The memories of each, ordered again; one without a query or a memory stays as it is."""
        asked = {i: one for i, one in enumerate(shortlists) if one.query.strip() and one.best}
        ordered = [list(one.best) for one in shortlists]
        if asked:
            best = list(asked.values())
            chosen = yield Ask(lambda: self.call(best), lambda: self.acall(best))
            for place, memories in zip(asked, chosen, strict=True):
                ordered[place] = list(memories)
        return ordered


def reranker_of(compressor: BaseDocumentCompressor) -> Reranker:
    """A re-ranker that asks a compressor; what the compressor leaves out is left out.

    The order is the compressor's. Its `relevance_score`, if it gives one in the metadata, is
    added to each memory's evidence as `reranker`; score and explanation stay the profile's.
    """

    def call(shortlists: Sequence[Shortlist]) -> list[Sequence[Recollection]]:
        return [
            _chosen(compressor.compress_documents(_documents(best), query), best)
            for query, best in shortlists
        ]

    async def acall(shortlists: Sequence[Shortlist]) -> list[Sequence[Recollection]]:
        return [
            _chosen(await compressor.acompress_documents(_documents(best), query), best)
            for query, best in shortlists
        ]

    return Reranker(call, acall, type(compressor).__name__)


def _documents(memories: Sequence[Recollection]) -> list[Document]:
    return [
        Document(
            page_content=one.content,
            id=one.key,
            metadata={_PLACE: i, "key": one.key, "score": one.score, "tier": one.tier.value},
        )
        for i, one in enumerate(memories)
    ]


def _chosen(documents: Sequence[Document], best: Sequence[Recollection]) -> Sequence[Recollection]:
    places = dict.fromkeys(_place(one, best) for one in documents)
    scored = {_place(one, best): one for one in documents}
    return [_scored(best[place], scored[place]) for place in places]


def _place(document: Document, best: Sequence[Recollection]) -> int:
    place = document.metadata.get(_PLACE)
    if isinstance(place, int) and 0 <= place < len(best):
        return place
    raise InvalidInputError(
        "the re-ranker returned a document it was not given: a compressor for memories selects "
        "and orders, and keeps each document's metadata"
    )


def _scored(memory: Recollection, document: Document) -> Recollection:
    score = document.metadata.get("relevance_score")
    if not isinstance(score, Real):
        return memory
    return replace(memory, evidence={**memory.evidence, "reranker": float(score)})
