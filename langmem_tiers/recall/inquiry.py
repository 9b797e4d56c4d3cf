"""A question to memory, its vector, where it looks, and what every recall of a caller goes by."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache
from numbers import Real
from typing import Annotated, NamedTuple

from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.messages import HumanMessage
from langchain_core.messages.utils import count_tokens_approximately

from langmem_tiers.core import checks
from langmem_tiers.core.config import StoreOptions
from langmem_tiers.core.context import MemoryContext
from langmem_tiers.core.errors import (
    EmbeddingFailedError,
    InvalidInputError,
    InvalidTypeError,
    short,
)
from langmem_tiers.core.memory import TIERS, Moment, Recollection, Recollections, Tier
from langmem_tiers.core.namespaces import Scope, scope
from langmem_tiers.core.records import by, record
from langmem_tiers.core.types import MemoryTypes
from langmem_tiers.core.vectors import PackedVector
from langmem_tiers.postgres.flow import Ask, Flow, Row
from langmem_tiers.recall.floor import NO_FLOOR, Floor
from langmem_tiers.recall.matching import Candidate, Weights, Words
from langmem_tiers.recall.question import Question
from langmem_tiers.recall.ranking import PROFILES, Profile, profile_of
from langmem_tiers.store.filters import Condition
from langmem_tiers.store.read import embed_texts

_log = logging.getLogger(__name__)

POOL = 50
"""Candidates a leg, for long answers and whatever orders them again; 100 add nothing."""
SMALL_POOL = 40
"""Candidates a leg for up to 10 memories. With 30, recall@10 falls by 0.006, with 50 it rises by
0.003 (docs/recall.md), and each takes time."""

REVIEWED = 3
"""How many times the limit reviewers look at, as specified."""


@lru_cache(maxsize=1024)
def reach(context: MemoryContext, tiers: Sequence[Tier] = TIERS) -> Mapping[str, str | None]:
    """Return the bounds of a recall in a context: its prefix in each of these tiers."""
    prefixes = {tier: scope(context.namespace(tier)) for tier in tiers}
    return below(prefixes, context.root, context.user_id)


def below(
    prefixes: Mapping[Tier, Scope], tenant: str, user_id: str | None
) -> Mapping[str, str | None]:
    """Return the parameters by which a statement looks below these prefixes, and for whom.

    A tier that is not asked has no room between its bounds.
    """
    bounds = {"tenant": tenant, "user_id": user_id}
    for tier in TIERS:
        prefix = prefixes.get(tier, Scope(None, "", ""))
        bounds |= {f"{tier}_low": prefix.low, f"{tier}_high": prefix.high}
    return bounds


def visibility(
    now: datetime, as_of: datetime | None = None, known_at: datetime | None = None
) -> dict[str, datetime | None]:
    """The parameters of `{visible}`: when a memory is to be true, and to be known."""
    return {"true_at": as_of or now, "as_of": as_of, "known_at": known_at}


def checked_tokens(tokens: object, what: str = "max_tokens") -> int | None:
    """A budget of tokens: 0 or more, or None for no budget."""
    if tokens is None:
        return None
    if isinstance(tokens, bool) or not isinstance(tokens, int):
        raise InvalidTypeError(f"{what} is a whole number, not {type(tokens).__name__}")
    if tokens < 0:
        raise InvalidInputError(f"{what} is {short(tokens)}: use 0 or more, or None for no budget")
    return tokens


@record
class RecallQuery:
    """One question to memory, and all that its recall is told; see `RecallOptions`."""

    query: str
    bounds: Mapping[str, str | None]
    """Where it looks; see `reach`."""
    limit: int
    tiers: frozenset[Tier] = frozenset(TIERS)
    embedding: PackedVector | None = None
    """A ready vector of the query."""
    memory_types: Sequence[str] | None = None
    tags: Annotated[Sequence[str], by(checks.normalised_tags)] = ()
    agent_id: Annotated[str | None, by(checks.label)] = None
    project_id: str | None = None
    since: Annotated[datetime, by(checks.parsed_moment)] | None = None
    as_of: Annotated[datetime, by(checks.parsed_moment)] | None = None
    """When it is to be true; None is now."""
    known_at: Annotated[datetime, by(checks.parsed_moment)] | None = None
    """When it is to be known; None is now."""
    min_importance: Annotated[float | None, by(checks.share)] = None
    conditions: Sequence[Condition] = ()
    max_tokens: Annotated[int | None, by(checked_tokens)] = None
    deduplicate: Annotated[bool, by(checks.checked_flag)] = False
    similarity_threshold: Annotated[
        float, by(lambda given, what: checks.checked_number(given, what, 0, 1))
    ] = 0.85
    profile: Annotated[Profile, by(lambda given, _: profile_of(given))] = PROFILES["calibrated"]
    floor: Floor = NO_FLOOR
    """What matches less is left out, and a question that memory cannot help with gets nothing."""
    exclude: frozenset[str] = frozenset()
    """Keys of what is not wanted."""
    review: str | None = None
    """Which of the reader's reviews orders the best again; None for none."""

    @property
    def tenant(self) -> str:
        """Whose memory it is."""
        return str(self.bounds["tenant"])

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


class Vectors(dict[str, PackedVector | None]):
    """The vectors of questions by their text, which the recalls of a turn share."""

    failed: str | None = None
    """The model's failure, if it failed: it is asked no more, and words alone are sought."""

    def add(self, queries: Iterable[str], options: StoreOptions) -> Flow[None]:
        """Embed those that have no vector yet; the log says if the model fails.

        Raises:
            EmbeddingError: for a model that does not fit the store.
            MissingExtraError: for one that is not there at all.
        """
        new = [one for one in queries if one not in self]
        if self.failed is not None or not new:
            return
        try:
            self.update((yield from embed_texts(new, options)))
        except EmbeddingFailedError as error:
            self.failed = error.said
            _log.warning("recall goes by words alone, as the model fails: %s", self.failed)


class Sought(NamedTuple):
    """A question as it was read, and its vector."""

    ask: RecallQuery
    question: Question
    vector: PackedVector | None
    by_words: str | None
    """What the model failed by that would have made one."""
    meant: float
    """What the vector says of whether memory helps, as the logarithm of odds."""
    moment: Moment
    """When it is asked."""


class Answer(NamedTuple):
    """The answer of a recall to a question, with all that it was chosen from."""

    sought: Sought
    rows: Sequence[Row]
    """What Postgres found, of which the candidates are made."""
    candidates: Sequence[Candidate]
    memories: Recollections


# Who orders again

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

    def call(shortlists: Sequence[Shortlist]) -> list[list[Recollection]]:
        return [
            _chosen(compressor.compress_documents(_documents(best), query), best)
            for query, best in shortlists
        ]

    async def acall(shortlists: Sequence[Shortlist]) -> list[list[Recollection]]:
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


def _chosen(documents: Sequence[Document], best: Sequence[Recollection]) -> list[Recollection]:
    """The memories of these documents, each once, with the score of the last document of each."""
    chosen: dict[int, Recollection] = {}
    for document in documents:
        place, score = map(document.metadata.get, (_PLACE, "relevance_score"))
        if not isinstance(place, int) or not 0 <= place < len(best):
            raise InvalidInputError(
                "the re-ranker returned a document it was not given: a compressor for memories "
                "selects and orders, and keeps each document's metadata"
            )
        chosen[place] = memory = best[place]
        if isinstance(score, Real):
            evidence = {**memory.evidence, "reranker": float(score)}
            chosen[place] = replace(memory, evidence=evidence)
    return list(chosen.values())


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
