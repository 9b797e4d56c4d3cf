"""A question to memory, checked, and what every recall of a caller goes by."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from langchain_core.messages import HumanMessage
from langchain_core.messages.utils import count_tokens_approximately

from langmem_tiers.core.types import MemoryTypes
from langmem_tiers.core.vectors import PackedVector
from langmem_tiers.recall.alike import Words
from langmem_tiers.recall.floor import NO_FLOOR, Floor
from langmem_tiers.recall.matching import Weights
from langmem_tiers.recall.ranking import PROFILES, Profile
from langmem_tiers.recall.reach import Reach
from langmem_tiers.recall.rerank import Reranker
from langmem_tiers.store.filters import Condition

POOL = 50
"""Candidates a leg, for long answers and whatever orders them again; 100 add nothing."""
SMALL_POOL = 40
"""Candidates a leg for up to 10 memories. With 30, recall@10 falls by 0.006, with 50 it rises by
0.003 (docs/recall.md), and each takes time."""

REVIEWED = 3
"""How many times the limit reviewers look at, as specified."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inquiry:
    """One question to memory, checked."""

    query: str
    reach: Reach
    limit: int
    embedding: PackedVector | None = None
    """A ready vector of the query."""
    memory_types: Sequence[str] | None = None
    tags: Sequence[str] = ()
    agent_id: str | None = None
    project_id: str | None = None
    since: datetime | None = None
    as_of: datetime | None = None
    """When it is to be true; None is now."""
    known_at: datetime | None = None
    """When it is to be known; None is now."""
    min_importance: float | None = None
    conditions: Sequence[Condition] = ()
    max_tokens: int | None = None
    deduplicate: bool = False
    similarity_threshold: float = 0.85
    profile: Profile = PROFILES["calibrated"]
    floor: Floor = NO_FLOOR
    """What matches less is left out, and a question that memory cannot help with gets nothing."""
    needs: float = 0.0
    """What its words say of whether memory helps with it, as the logarithm of odds."""
    exclude: frozenset[str] = frozenset()
    """Keys of what is not wanted."""
    review: str | None = None
    """Which of the reader's reviews orders the best again; None for none."""

    @property
    def blank(self) -> bool:
        """Whether it asks for nothing in particular: it gets the newest."""
        return self.embedding is None and not self.query.strip()

    @property
    def pool(self) -> int:
        """Candidates a leg."""
        reviewed = REVIEWED * self.limit if self.review else 0
        fewest = max(SMALL_POOL, min(POOL, 3 * self.limit), self.limit, reviewed)
        return fewest + len(self.exclude)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """What every recall of a caller goes by."""

    weights: Weights
    words: Words | None
    """What tells how alike single words are; None where nothing does."""
    types: MemoryTypes
    count_tokens: Callable[[str], int]
    timeout_ms: int | None = None
    reranker: Reranker | None = None
    reviews: Mapping[str, Reranker] = field(default_factory=dict)
    """Those that order again where an inquiry names them, after the `reranker`."""


def approximate_tokens(text: str) -> int:
    """Tokens of a text as a message of its own, by LangChain's approximate counter."""
    return count_tokens_approximately([HumanMessage(text)])
