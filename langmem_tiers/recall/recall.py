"""Recalling what matters: query → embed → one statement over three tiers → rank → context."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import NamedTuple

from langmem_tiers.core.config import EF_SEARCH, Distance, StoreOptions
from langmem_tiers.core.memory import ROLES, TIERS, Moment, Recollection, Tier
from langmem_tiers.core.namespaces import Scope
from langmem_tiers.core.types import MemoryTypes
from langmem_tiers.core.vectors import PackedVector
from langmem_tiers.postgres.flow import Ask, Call, Flow, Query, Row
from langmem_tiers.recall.askings import FACTS, MARKS, is_question
from langmem_tiers.recall.budget import choose
from langmem_tiers.recall.candidates import Candidate, read_columns, read_rows, recollection
from langmem_tiers.recall.dedupe import deduplicate
from langmem_tiers.recall.evidence import Weights, answerable, judge
from langmem_tiers.recall.question import Question, read_question
from langmem_tiers.recall.rank import PROFILES, Asked, ProfileFunction, rank
from langmem_tiers.store.filters import Condition, filter_params
from langmem_tiers.store.read import embed_texts

POOL = 50
"""Candidates a leg, for long answers and whatever orders them again; 100 add nothing."""
SMALL_POOL = 30
"""Candidates a leg for up to 10 memories: the same recall@10 as with 50, in two thirds of the
time. With 20 it falls by 0.006 (docs/recall.md)."""

REVIEWED = 3
"""How many times the limit reviewers look at, as specified."""

QUERY_CHARACTERS = 4000
"""How much of a query is sought by its words; the time grows with their square."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inquiry:
    """One question to memory, checked. `scopes` are the prefixes to look under, one a tier."""

    query: str
    scopes: Mapping[Tier, Scope]
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
    profile: str | ProfileFunction = "calibrated"
    cutoff: bool = True
    """Whether a question that nothing stored can answer gets nothing."""
    review: str | None = None
    """Which of the reader's reviews orders the best again; None for none."""

    @property
    def blank(self) -> bool:
        """Whether it asks for nothing in particular: it gets the newest."""
        return self.embedding is None and not self.query.strip()

    @property
    def narrowed(self) -> bool:
        """Whether it asks for a part of what its scopes hold."""
        moments = (self.since, self.as_of, self.known_at)
        asked = (self.memory_types, self.agent_id, self.min_importance, *moments)
        return bool(self.tags or self.conditions) or any(one is not None for one in asked)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """What every recall of a caller goes by."""

    options: StoreOptions
    weights: Weights
    types: MemoryTypes
    count_tokens: Callable[[str], int]
    timeout_ms: int | None = None
    reranker: Reranker | None = None
    reviews: Mapping[str, Reranker] = field(default_factory=dict)
    """Those that order again where an inquiry names them, after the `reranker`."""


class Recalled(NamedTuple):
    """What was recalled, and the rows it was read from."""

    memories: list[Recollection]
    rows: list[Candidate]


@dataclass(frozen=True, slots=True)
class _Prepared:
    ask: Inquiry
    question: Question
    vector: PackedVector | None


def answers(
    asks: Sequence[Inquiry], reader: Reader, moment: Moment, ann_tiers: Sequence[Tier] = ()
) -> Flow[list[Recalled]]:
    """Answer questions, all in one round trip; an empty one gets the newest first."""
    unready = (ask.query for ask in asks if ask.embedding is None)
    vectors = yield from embed_texts(unready, reader.options)
    prepared = [
        _Prepared(
            ask, read_question(ask.query, moment.now), ask.embedding or vectors.get(ask.query)
        )
        for ask in asks
    ]
    wanted = [one for one in prepared if one.ask.limit and one.ask.max_tokens != 0]
    found: list[list[Row]] = []
    if wanted:
        calls = [_call(one, reader.options, moment, ann_tiers) for one in wanted]
        settings = _settings(calls, reader)
        found = (yield Query((*settings, *calls), commit=True))[len(settings) :]
    by_ask = dict(zip(map(id, wanted), found, strict=True))
    ranked = [_ranked(one, by_ask.get(id(one), []), reader, moment) for one in prepared]
    best = yield from _ordered_again(asks, [memories for _, memories in ranked], reader)
    return [
        _cut(memories, rows, ask, reader)
        for ask, memories, (rows, _) in zip(asks, best, ranked, strict=True)
    ]


def _settings(calls: Sequence[Call], reader: Reader) -> list[Call]:
    """What holds for this round trip alone."""
    settings = []
    if reader.timeout_ms is not None:
        settings.append(Call("limit_time", {"milliseconds": str(reader.timeout_ms)}))
    if any(call.name.startswith("recall_ann") for call in calls):
        settings.append(Call("hnsw_settings", {"ef_search": str(EF_SEARCH)}))
    return settings


def _call(one: _Prepared, options: StoreOptions, moment: Moment, ann_tiers: Sequence[Tier]) -> Call:
    ask = one.ask
    by_hnsw = not ask.narrowed and any(tier in ann_tiers for tier in ask.scopes)
    name = "recall_newest" if ask.blank else "recall_ann" if by_hnsw else "recall"
    params = {
        **bounds(ask.scopes),
        **(filter_params(ask.conditions) if ask.conditions else {}),
        "tenant": next(iter(ask.scopes.values())).tenant,
        "alive_at": moment.alive_at,
        **visibility(moment.now, ask.as_of, ask.known_at),
        "memory_types": None if ask.memory_types is None else list(ask.memory_types),
        "tags": json.dumps(list(ask.tags)) if ask.tags else None,
        "agent_id": ask.agent_id,
        "since": ask.since,
        "min_importance": ask.min_importance,
        "pool": _pool(ask),
        "exact_limit": options.exact_limit,
        "text": ask.query[:QUERY_CHARACTERS],
        "language": options.index.language if options.index else "simple",
        "query": one.vector,
        "roles": sorted(ROLES),
        "names": sorted(one.question.names),
        "asks": is_question(one.question, ask.query),
        "marks": MARKS,
        "facts": FACTS,
    }
    return Call(f"{name}_filtered" if ask.conditions else name, params)


def bounds(scopes: Mapping[Tier, Scope]) -> dict[str, str]:
    """Where to look in each tier; a tier that is not asked has no room between its bounds."""
    found = {}
    for tier in TIERS:
        scope = scopes.get(tier)
        found[f"{tier}_low"] = scope.low if scope else ""
        found[f"{tier}_high"] = scope.high if scope else ""
    return found


def visibility(
    now: datetime, as_of: datetime | None = None, known_at: datetime | None = None
) -> dict[str, datetime | None]:
    """The parameters of `{visible}`: when a memory is to be true, and to be known."""
    return {"true_at": as_of or now, "as_of": as_of, "known_at": known_at}


def _ranked(
    one: _Prepared, rows: Sequence[Row], reader: Reader, moment: Moment
) -> tuple[list[Candidate], list[Recollection]]:
    """What was found, and the memories among it in order; none that cannot be meant."""
    ask, distance = one.ask, _distance(reader.options)
    if ask.blank:
        newest = read_columns(rows, distance)
        return newest, [recollection(row, 0.0, {}) for row in newest]
    found, scope = read_rows(rows, distance)
    if ask.cutoff and not answerable(one.question, scope, reader.weights):
        return [], []
    judged = judge(found, one.question, scope, reader.weights)
    pairs = sorted(zip(found, judged, strict=True), key=lambda pair: -pair[1].match)
    memories = [
        _typed(recollection(row, each.match, each.shares(reader.weights)), ask.query, reader.types)
        for row, each in pairs[: _to_rank(ask, reader)]
    ]
    asked = Asked(now=moment.now, project_id=ask.project_id, query=ask.query)
    return found, rank(memories, ask.profile, asked, _ranks(ask, reader))


def _to_rank(ask: Inquiry, reader: Reader) -> int:
    """How many of the best matches to rank: no more than asked for, where nothing reorders."""
    types_score = any(kind.score is not None for kind in reader.types)
    as_matched = ask.profile in ("match", PROFILES["match"])
    return _pool(ask) if types_score or not as_matched else _ranks(ask, reader)


def _ranks(ask: Inquiry, reader: Reader) -> int:
    """How many ranks matter: no more than asked for, where none is left out afterwards."""
    return _pool(ask) if ask.deduplicate or reader.reranker or ask.review else ask.limit


def _pool(ask: Inquiry) -> int:
    """Candidates a leg."""
    reviewed = REVIEWED * ask.limit if ask.review else 0
    return max(SMALL_POOL, min(POOL, 3 * ask.limit), ask.limit, reviewed)


def _ordered_again(
    asks: Sequence[Inquiry], ranked: list[list[Recollection]], reader: Reader
) -> Flow[list[list[Recollection]]]:
    """Let the re-ranker order the best of each again, then the review that it names."""
    if reader.reranker is not None:
        ranked = yield from _reordered(reader.reranker, asks, ranked, [POOL] * len(asks))
    for name in sorted({ask.review for ask in asks if ask.review}):
        most = [REVIEWED * ask.limit if ask.review == name else 0 for ask in asks]
        ranked = yield from _reordered(reader.reviews[name], asks, ranked, most)
    return ranked


def _reordered(
    reranker: Reranker,
    asks: Sequence[Inquiry],
    ranked: list[list[Recollection]],
    most: Sequence[int],
) -> Flow[list[list[Recollection]]]:
    """Let so many of the best of each be ordered again, all at once; what is dropped is dropped."""
    shortlists = {
        place: Shortlist(ask.query, ranked[place][: most[place]])
        for place, ask in enumerate(asks)
        if most[place] and ask.query.strip() and ranked[place]
    }
    if not shortlists:
        return ranked
    best = list(shortlists.values())
    chosen = yield Ask(lambda: reranker.call(best), lambda: reranker.acall(best))
    again = dict(zip(shortlists, chosen, strict=True))
    return [list(again.get(place, one)) for place, one in enumerate(ranked)]


def _typed(memory: Recollection, query: str, types: MemoryTypes) -> Recollection:
    """Let a type that scores for itself set the match."""
    if memory.memory_type not in types:
        return memory
    kind = types.get(memory.memory_type)
    return memory if kind.score is None else replace(memory, match=kind.match(memory, query))


def _cut(
    ranked: Sequence[Recollection], found: Sequence[Candidate], ask: Inquiry, reader: Reader
) -> Recalled:
    """Cut to what was asked for: no repeats, not too many, within the budget."""
    if ask.deduplicate:
        ranked = deduplicate(ranked, ask.similarity_threshold)
    kept = list(ranked[: ask.limit])
    if ask.max_tokens is not None:
        kept = _affordable(kept, ask, reader)
    memories = [replace(each, token_count=reader.count_tokens(each.content)) for each in kept]
    places = {(each.namespace, each.key) for each in memories}
    keys = {each.key for each in memories}
    rows = [row for row in found if row.key in keys and row.place in places]
    return Recalled(memories, rows)


def _affordable(kept: Sequence[Recollection], ask: Inquiry, reader: Reader) -> list[Recollection]:
    """What fits into the budget: the most useful by score, else as much as fits in this order."""
    budget = ask.max_tokens or 0
    if not (ask.blank or reader.reranker or ask.review):
        return list(choose(kept, budget, reader.count_tokens, query=ask.query).chosen)
    chosen = []
    for one in kept:
        cost = reader.count_tokens(one.content)
        if cost <= budget:
            budget -= cost
            chosen.append(one)
    return chosen


def _distance(options: StoreOptions) -> Distance:
    vector = options.index.vector if options.index else None
    return vector.distance if vector else Distance.COSINE
