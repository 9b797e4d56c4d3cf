"""Hybrid search: the candidates of both legs in one statement."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

from langmem_tiers.config import lexical_text
from langmem_tiers.flow import Call, Embed, Flow, Query
from langmem_tiers.recall.flow import Reading, Search, search_params, statement_name
from langmem_tiers.vectors import PackedVector, pack_all

CANDIDATES = 50
"""Candidates a leg; more do not move the first ten."""


class Candidate(NamedTuple):
    """A row of search_hybrid; the columns are in this order."""

    tenant: str
    namespace: str
    key: str
    value: dict[str, Any]
    created_at: datetime
    updated_at: datetime
    tier: str
    expires_at: datetime | None
    ttl_minutes: float | None
    id: int
    distance: float | None
    lexical: float
    access_count: int


def candidates(one: Search, *, reading: Reading) -> Flow[list[Candidate]]:
    """Fetch what either leg finds, with the scores of both."""
    index = reading.options.index
    vector: PackedVector | None = None
    if index is not None and index.vector is not None and one.text:
        vectors = yield Embed((one.text,), "query")
        (vector,) = pack_all(vectors, 1, index.vector)
    params = {
        **search_params(one, vector, reading),
        "text": lexical_text(one.text or ""),
        "language": index.language if index else "simple",
        "candidates": max(CANDIDATES, one.limit),
    }
    call = Call(statement_name("search_hybrid", one), params)
    (rows,) = yield Query((call,), commit=True)
    return [Candidate(*row) for row in rows]
