"""LangChain document compressors as re-rankers of recalled memories."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from numbers import Real

from langchain_core.documents import BaseDocumentCompressor, Document

from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.core.memory import Recollection
from langmem_tiers.recall.recall import Reranker, Shortlist

_PLACE = "langmem_tiers_place"


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

    return Reranker(call, acall)


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
