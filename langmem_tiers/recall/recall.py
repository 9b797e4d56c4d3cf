"""Recall what matters: a question → its vector → one statement over three tiers → rank → fit."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, time
from functools import lru_cache
from itertools import chain, compress
from operator import mul
from typing import Annotated, NamedTuple, Protocol

from langchain_core.messages import HumanMessage
from langchain_core.messages.utils import count_tokens_approximately

from langmem_tiers.core import checks
from langmem_tiers.core.checks import check_key, record, validated_by
from langmem_tiers.core.config import EF_SEARCH, IndexOptions, StoreOptions
from langmem_tiers.core.context import MemoryContext
from langmem_tiers.core.errors import EmbeddingError
from langmem_tiers.core.memory import (
    ASSISTANT_ROLES,
    ROLES,
    TIERS,
    Moment,
    Recollection,
    Recollections,
    Scope,
    Tier,
    parse_handle,
    prefix_scope,
)
from langmem_tiers.core.types import MemoryTypes
from langmem_tiers.core.vectors import Distance, PackedVector, unpack
from langmem_tiers.postgres.flow import Call, Flow, Query, Row, embed_texts
from langmem_tiers.recall import budget, matching, ranking
from langmem_tiers.recall.matching import Candidate, read_candidates, to_recollection
from langmem_tiers.recall.question import FACTS, MARKS, Question, read_question
from langmem_tiers.recall.ranking import PROFILES, Floor, Profile, resolve_profile
from langmem_tiers.store.filters import Condition, filter_params
from langmem_tiers.store.flows import StoreFlows

_log = logging.getLogger(__name__)

POOL = 50
"""Candidates of each leg for long answers and re-ranking; 100 add nothing."""
SMALL_POOL = 40
"""Candidates of each leg for up to 10 memories. With 30, recall@10 falls by 0.006, with 50 it rises
by 0.003 (docs/recall.md), and each takes time."""

QUERY_CHARACTERS = 4000
"""Characters of a query that are searched by words; the time grows with their square."""

REVIEWED = 3
"""Number of limits that reviewers look at, as specified."""


@lru_cache(maxsize=1024)
def recall_bounds(
    context: MemoryContext, tiers: Sequence[Tier] = TIERS
) -> Mapping[str, str | None]:
    """Return the bounds of a recall in a context: its prefix in each of these tiers."""
    prefixes = {tier: prefix_scope(context.namespace(tier)) for tier in tiers}
    return bounds_under(prefixes, context.root, context.user_id)


def bounds_under(
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


def visibility(moment: Moment) -> dict[str, datetime | None]:
    """Return the parameters of `{visible}`: alive and true now, as far as is known."""
    return {
        "alive_at": moment.alive_at,
        "true_at": moment.now,
        "as_of": None,
        "known_at": None,
    }


@record
class RecallQuery:
    """Question to memory with all arguments of its recall; see `RecallOptions`."""

    query: str
    bounds: Mapping[str, str | None]
    """Bounds of the search; see `recall_bounds`."""
    limit: int
    tiers: frozenset[Tier] = frozenset(TIERS)
    embedding: PackedVector | None = None
    """Ready vector of the query."""
    memory_types: Sequence[str] | None = None
    tags: Annotated[Sequence[str], validated_by(checks.normalised_tags)] = ()
    agent_id: Annotated[str | None, validated_by(checks.checked_label)] = None
    project_id: str | None = None
    since: Annotated[datetime, validated_by(checks.parsed_moment)] | None = None
    as_of: Annotated[datetime, validated_by(checks.parsed_moment)] | None = None
    """Moment at which memories have to be true; None is now."""
    known_at: Annotated[datetime, validated_by(checks.parsed_moment)] | None = None
    """Moment at which memories have to be known; None is now."""
    min_importance: Annotated[float | None, validated_by(checks.checked_share)] = None
    conditions: Sequence[Condition] = ()
    max_tokens: Annotated[int | None, validated_by(budget.checked_tokens)] = None
    deduplicate: Annotated[bool, validated_by(checks.checked_flag)] = False
    similarity_threshold: Annotated[
        float, validated_by(lambda value, what: checks.checked_number(value, what, 0, 1))
    ] = 0.85
    profile: Annotated[Profile, validated_by(lambda value, _: resolve_profile(value))] = PROFILES[
        "calibrated"
    ]
    floor: Floor = ranking.NO_FLOOR
    """Least match; a question that memory cannot help with gets nothing."""
    exclude: frozenset[str] = frozenset()
    """Keys of memories that are not wanted."""
    review: str | None = None
    """Name of the configured review that reorders the best; None for none."""

    @property
    def tenant(self) -> str:
        """Return the tenant that is searched."""
        return str(self.bounds["tenant"])

    @property
    def blank(self) -> bool:
        """Tell whether it asks for nothing in particular: it gets the newest."""
        return self.embedding is None and not self.query.strip()

    @property
    def pool(self) -> int:
        """Return the number of candidates of each leg."""
        reviewed = REVIEWED * self.limit if self.review else 0
        fewest = max(SMALL_POOL, min(POOL, 3 * self.limit), self.limit, reviewed)
        return fewest + len(self.exclude)


class QueryVectors(dict[str, PackedVector | None]):
    """Vectors of questions by text, shared by the recalls of a turn."""

    failed: str | None = None
    """Failure of the model, if it failed: it is asked no more, and only words are searched."""

    def add(self, queries: Iterable[str], options: StoreOptions) -> Flow[None]:
        """Embed the queries that have no vector yet; log a failure of the model.

        Raises:
            EmbeddingError: for a model that does not fit the store.
            MissingExtraError: for one that is not there at all.
        """
        new = [query for query in queries if query not in self]
        if self.failed is not None or not new:
            return
        try:
            self.update((yield from embed_texts(new, options)))
        except EmbeddingError as error:
            if error.code != "model_failed":
                raise
            self.failed = error.model_message
            _log.warning("recall goes by words alone, as the model fails: %s", self.failed)


class PreparedQuery(NamedTuple):
    """Question that was read, with its vector."""

    query: RecallQuery
    question: Question
    vector: PackedVector | None
    by_words: str | None
    """Failure of the model that would have made the vector; None without one."""
    vector_logit: float
    """Logarithm of odds that memory helps, by the vector."""
    moment: Moment
    """Moment at which it is asked."""


class RecallResult(NamedTuple):
    """Memories for a question, with all that they were chosen from."""

    prepared: PreparedQuery
    rows: Sequence[Row]
    """Rows from Postgres, of which the candidates are made."""
    candidates: Sequence[Candidate]
    memories: Recollections


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallConfig:
    """Settings that every recall of a caller shares."""

    weights: matching.Weights
    words: matching.WordVectors | None
    """Vectors of single words; None where there are none."""
    types: MemoryTypes
    count_tokens: Callable[[str], int]
    timeout_ms: int | None = None
    reranker: budget.Reranker | None = None
    reviews: Mapping[str, budget.Reranker] = field(default_factory=dict)
    """Re-rankers that run after `reranker` where a query names them."""


def approximate_tokens(text: str) -> int:
    """Count the tokens of a text as a message, by LangChain's approximate counter."""
    return count_tokens_approximately([HumanMessage(text)])


class Recorder(Protocol):
    """Recorder of recalls, such as `recall.replay.RecallRecorder`."""

    def first(self, queries: Sequence[RecallQuery], /) -> list[Call]:
        """Return the calls to make before anything is read."""

    def keep(
        self,
        recalls: Sequence[tuple[RecallResult, Recollections]],
        before: Sequence[Sequence[Row]],
        moment: Moment,
        /,
    ) -> Flow[None]:
        """Record recalls and what was shown of them; `before` answers the first calls."""


# Recalling


def recall(
    queries: Sequence[RecallQuery],
    config: RecallConfig,
    store: StoreFlows,
    hidden: Callable[[Candidate], bool] | None = None,
    vectors: QueryVectors | None = None,
    *,
    shown_of: Callable[[list[Recollection]], Flow[list[Recollection]]] | None = None,
    recording: Recorder | None = None,
) -> Flow[list[Recollections]]:
    """Recall for several questions in one round trip; an empty one gets the newest memories.

    All memories found, or those that `shown_of` returns of them, count as read unless they are
    `hidden`. New vectors are added to `vectors`. If the embedding model fails, only words are
    searched, the result says so, and the floor drops nothing, as it goes by nearness as well. A
    `recording` records the recall.
    """
    store.begin_to_flush()
    yield from store.refresh_state()
    moment = store.moment()
    vectors = QueryVectors() if vectors is None else vectors
    yield from vectors.add(
        [query.query for query in queries if query.embedding is None], store.options
    )
    index = store.options.index
    prepared = [prepare_query(query, vectors, moment, config, index) for query in queries]
    first = () if recording is None else recording.first(queries)
    before, rows = yield from _find_rows(prepared, config, store, first)
    results = yield from rank_rows(prepared, rows, config, store.distance)
    shown = [result.memories for result in results]
    if shown_of is not None:
        shown = _keep_shown(shown, (yield from shown_of(list(chain.from_iterable(shown)))))
    read = []
    for result, memories in zip(results, shown, strict=True):
        by_place = {row.place: row for row in result.candidates}
        read += [by_place[each.place] for each in memories]
    yield from store.mark_read([row for row in read if not (hidden and hidden(row))], moment)
    if recording is not None:
        yield from recording.keep([*zip(results, shown, strict=True)], before, moment)
    return shown


def prepare_query(
    query: RecallQuery,
    vectors: QueryVectors,
    moment: Moment,
    config: RecallConfig,
    index: IndexOptions | None,
) -> PreparedQuery:
    """Read a question and find its vector, if there is one."""
    vector = query.embedding or vectors.get(query.query)
    by_words = vectors.failed if vector is None and not query.blank else None
    if by_words is not None:
        query = replace(query, floor=Floor())
    meant, meaning = 0.0, config.weights.meaning
    if vector is not None and index is not None and index.vector is not None and meaning:
        meant = sum(map(mul, unpack(vector, index.vector), meaning))
    question = read_question(query.query, moment.now.date())
    return PreparedQuery(query, question, vector, by_words, meant, moment)


def _find_rows(
    queries: Sequence[PreparedQuery], config: RecallConfig, store: StoreFlows, first: Sequence[Call]
) -> Flow[tuple[list[list[Row]], list[list[Row]]]]:
    """Return the answers to the `first` calls, and the rows for each question.

    A question whose limit is 0 is not asked.
    """
    wanted = [bool(each.query.limit and each.query.max_tokens != 0) for each in queries]
    calls = [
        recall_statement("recall_newest" if each.query.blank else "recall", each, store)
        for each in compress(queries, wanted)
    ]
    if not (first or calls):
        return [], [[] for _ in queries]
    settings = setting_calls(calls, config)
    answers = yield Query((*settings, *first, *calls), commit=True)
    results = answers[len(settings) :]
    rows = iter(results[len(first) :])
    return list(results[: len(first)]), [next(rows) if is_wanted else [] for is_wanted in wanted]


_ANN = "_ann"


def setting_calls(calls: Sequence[Call], config: RecallConfig) -> list[Call]:
    """Return the settings that precede the calls of a recall, for its round trip alone."""
    settings = []
    if config.timeout_ms is not None:
        settings.append(Call("limit_time", {"milliseconds": str(config.timeout_ms)}))
    for call in calls:
        if _ANN in call.name:
            settings.append(Call("hnsw_settings", {"ef_search": str(EF_SEARCH)}))
            break
    return settings


def recall_statement(name: str, prepared: PreparedQuery, store: StoreFlows, **more: object) -> Call:
    """Make the call of the named recall statement, or of its twin for HNSW if there is an index."""
    query, question, index = prepared.query, prepared.question, store.options.index
    params = {
        "first_days": [datetime.combine(days.first, time.min, UTC) for days in question.days],
        "last_days": [datetime.combine(days.last, time.max, UTC) for days in question.days],
        **query.bounds,
        "alive_at": prepared.moment.alive_at,
        "true_at": query.as_of or prepared.moment.now,
        "as_of": query.as_of,
        "known_at": query.known_at,
        "memory_types": None if query.memory_types is None else list(query.memory_types),
        "tags": json.dumps(list(query.tags)) if query.tags else None,
        "agent_id": query.agent_id,
        "since": query.since,
        "min_importance": query.min_importance,
        "pool": query.pool,
        "exact_limit": store.options.exact_limit,
        "ann_tiers": [tier.value for tier in store.ann_tiers],
        "ef_search": EF_SEARCH,
        "text": query.query[:QUERY_CHARACTERS],
        "language": index.language if index else "simple",
        "query": prepared.vector,
        "roles": sorted(ROLES),
        "names": sorted(question.names),
        "asks": question.asks,
        "marks": MARKS,
        "facts": FACTS,
        **more,
    }
    if (
        prepared.vector is not None
        and not query.blank
        and not query.tiers.isdisjoint(store.ann_tiers)
    ):
        name += _ANN
    if query.conditions:
        return Call(f"{name}_filtered", {**params, **filter_params(query.conditions)})
    return Call(name, params)


def rank_rows(
    prepared_queries: Sequence[PreparedQuery],
    rows: Sequence[Sequence[Row]],
    config: RecallConfig,
    distance: Distance,
) -> Flow[list[RecallResult]]:
    """Rank the rows of each question; nothing else decides the result."""
    ranked, reranks = [], config.reranker is not None
    for prepared, query_rows in zip(prepared_queries, rows, strict=True):
        rank = _list_newest if prepared.query.blank else _rank_matches
        ranked.append(rank(prepared, query_rows, config, distance))
        reranks = reranks or prepared.query.review is not None
    if reranks:
        yield from _rerank(ranked, config)
    for each in ranked:
        each.memories[:] = _cut_to_limits(each.memories, each.prepared.query, config)
    return ranked


def _rank_matches(
    prepared: PreparedQuery, rows: Sequence[Row], config: RecallConfig, distance: Distance
) -> RecallResult:
    """Keep the candidates that match well enough, in order."""
    query, question = prepared.query, prepared.question
    all_candidates, searched = matching.read_candidates_and_facts(rows, distance)
    candidates, telling, among = [], [], 0
    for row in all_candidates:
        if row.key not in query.exclude:
            candidates.append(row)
            if ranking.is_informative(row):
                telling.append(row)
                among += (row.speaker or "").lower() not in ASSISTANT_ROLES
    # Rank no more than the limit if nothing reorders them or drops some.
    ranks = query.pool if query.deduplicate or config.reranker or query.review else query.limit
    reorders = config.types.scored or query.floor or query.profile is not PROFILES["match"]
    most = query.pool if reorders else ranks
    alike = matching.word_similarities(candidates, question, searched, config.words)
    weighed = matching.score_candidates(
        candidates, question, searched, config.weights, alike, most=most
    )
    memories, alone = [], {}
    for scored in weighed:
        if query.floor and not ranking.is_informative(scored.candidate):
            continue
        memory = to_recollection(scored.candidate, scored.match, scored.evidence)
        if (kind := config.types.scored.get(memory.memory_type)) is not None:
            memory = replace(memory, match=kind.match(memory, query.query))
        elif scored.alone is not None:
            alone[memory.place] = scored.alone
        memories.append(memory)
    helping = ranking.probability_memory_helps(
        question,
        telling,
        searched,
        config.weights,
        needs=question.needs,
        meant=prepared.vector_logit,
    )
    memories = ranking.drop_irrelevant(
        memories,
        query.floor,
        helping,
        config.types,
        among=among,
        asked=query.memory_types,
        alone=alone,
    )
    ranking_query = ranking.RankingQuery(
        now=prepared.moment.now, project_id=query.project_id, query=query.query
    )
    best = ranking.rank(memories, query.profile, ranking_query, ranks)
    return RecallResult(
        prepared, rows, candidates, Recollections(best, by_words=prepared.by_words, helps=helping)
    )


def _list_newest(
    prepared: PreparedQuery, rows: Sequence[Row], config: RecallConfig, distance: Distance
) -> RecallResult:
    """Return the newest memories for a blank question: none of them matches."""
    query = prepared.query
    candidates = [row for row in read_candidates(rows, distance) if row.key not in query.exclude]
    memories = [to_recollection(row, 0.0, {}) for row in candidates]
    least = Floor(intended=query.floor.intended)
    memories = ranking.drop_irrelevant(
        memories, least, 1.0, config.types, among=0, asked=query.memory_types
    )
    return RecallResult(prepared, rows, candidates, Recollections(memories))


def _rerank(results: Sequence[RecallResult], config: RecallConfig) -> Flow[None]:
    """Let the re-ranker reorder the best of each, then the review that each names."""
    reviews = sorted(
        {result.prepared.query.review for result in results if result.prepared.query.review}
    )
    rankers = [(config.reviews[name], name) for name in reviews]
    for ranker, name in [*([(config.reranker, None)] if config.reranker else []), *rankers]:
        chosen = [
            result for result in results if name is None or result.prepared.query.review == name
        ]
        queries = [result.prepared.query for result in chosen]
        many = [POOL if name is None else REVIEWED * query.limit for query in queries]
        ordered = yield from ranker.order(
            [
                budget.Shortlist(query.query, result.memories[:most])
                for query, result, most in zip(queries, chosen, many, strict=True)
            ]
        )
        for result, best in zip(chosen, ordered, strict=True):
            result.memories[:] = best


def _cut_to_limits(
    ranked: Sequence[Recollection], query: RecallQuery, config: RecallConfig
) -> list[Recollection]:
    """Cut to what was asked for: no repeats, not too many, within the budget.

    The most useful memories by score fill a budget; in a re-ranked order, as many as fit.
    """
    if query.deduplicate:
        ranked = budget.deduplicate(ranked, query.similarity_threshold, config.words)
    kept = list(ranked[: query.limit])
    if query.floor.further[0] and not query.blank and len(kept) < len(ranked):
        kept += _extra_memories(ranked, query)
    kept = [replace(memory, token_count=config.count_tokens(memory.content)) for memory in kept]
    room = query.max_tokens
    if room is None:
        return kept
    if not (query.blank or config.reranker or query.review):
        return budget.choose(kept, room, config.count_tokens, query=query.query).chosen
    affordable = []
    for memory in kept:
        if memory.token_count <= room:
            room -= memory.token_count
            affordable.append(memory)
    return affordable


def _extra_memories(ranked: Sequence[Recollection], query: RecallQuery) -> list[Recollection]:
    """Return memories beyond the limit: next messages, and those that match nearly as well."""
    most, share = query.floor.further
    best, beyond = ranked[: query.limit], ranked[query.limit :]
    following: list[Recollection] = []
    if query.floor.goes_on:
        following_best = ranking.find_following(ranked, best, query.floor.goes_on)
        following = [memory for memory in following_best if memory in beyond]
    least = share * max((memory.match for memory in best), default=0.0)
    further = [
        memory for memory in beyond[:most] if memory.match >= least and memory not in following
    ]
    return [*following, *further][:most]


def _keep_shown(
    results: Sequence[Recollections], kept: Sequence[Recollection]
) -> list[Recollections]:
    """Remove memories from the results that are not shown."""
    if len(kept) == sum(map(len, results)):
        return [*results]
    places = {memory.place for memory in kept}
    left = [copy(result) for result in results]
    for result in left:
        result[:] = [memory for memory in result if memory.place in places]
    return left


def find_by_key(
    context: MemoryContext, key: str, tiers: Sequence[Tier], store: StoreFlows
) -> Flow[list[Candidate]]:
    """Find memories by key that the context sees, short_term before working before long_term.

    If no memory has the key and it may be a handle, memories with the handle are found.
    """
    store.begin_to_flush()
    moment = store.moment()
    params = {
        **context.scope_params,
        "tiers": [tier.value for tier in tiers],
        **visibility(moment),
    }
    calls = [Call("find", {**params, "key": check_key(key)})]
    if handle := parse_handle(key):
        calls.append(Call("find_handle", {**params, "handles": [handle]}))
    answers = yield Query(tuple(calls), commit=True)
    matches = (read_candidates(rows, store.distance) for rows in answers)
    return next((candidates for candidates in matches if candidates), [])
