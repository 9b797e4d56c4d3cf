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
            self.failed = error.said
            _log.warning("recall goes by words alone, as the model fails: %s", self.failed)


class PreparedQuery(NamedTuple):
    """Question that was read, with its vector."""

    ask: RecallQuery
    question: Question
    vector: PackedVector | None
    by_words: str | None
    """Failure of the model that would have made the vector; None without one."""
    meant: float
    """Logarithm of odds that memory helps, by the vector."""
    moment: Moment
    """Moment at which it is asked."""


class RecallResult(NamedTuple):
    """Memories for a question, with all that they were chosen from."""

    sought: PreparedQuery
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

    def first(self, asks: Sequence[RecallQuery], /) -> list[Call]:
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
    asks: Sequence[RecallQuery],
    reader: RecallConfig,
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
    yield from vectors.add([ask.query for ask in asks if ask.embedding is None], store.options)
    index = store.options.index
    sought = [prepare_query(ask, vectors, moment, reader, index) for ask in asks]
    first = () if recording is None else recording.first(asks)
    before, rows = yield from _find_rows(sought, reader, store, first)
    answers = yield from rank_rows(sought, rows, reader, store.distance)
    shown = [answer.memories for answer in answers]
    if shown_of is not None:
        shown = _keep_shown(shown, (yield from shown_of(list(chain.from_iterable(shown)))))
    read = []
    for answer, memories in zip(answers, shown, strict=True):
        by_place = {row.place: row for row in answer.candidates}
        read += [by_place[each.place] for each in memories]
    yield from store.mark_read([row for row in read if not (hidden and hidden(row))], moment)
    if recording is not None:
        yield from recording.keep([*zip(answers, shown, strict=True)], before, moment)
    return shown


def prepare_query(
    ask: RecallQuery,
    vectors: QueryVectors,
    moment: Moment,
    reader: RecallConfig,
    index: IndexOptions | None,
) -> PreparedQuery:
    """Read a question and find its vector, if there is one."""
    vector = ask.embedding or vectors.get(ask.query)
    by_words = vectors.failed if vector is None and not ask.blank else None
    if by_words is not None:
        ask = replace(ask, floor=Floor())
    meant, meaning = 0.0, reader.weights.meaning
    if vector is not None and index is not None and index.vector is not None and meaning:
        meant = sum(map(mul, unpack(vector, index.vector), meaning))
    question = read_question(ask.query, moment.now.date())
    return PreparedQuery(ask, question, vector, by_words, meant, moment)


def _find_rows(
    sought: Sequence[PreparedQuery], reader: RecallConfig, store: StoreFlows, first: Sequence[Call]
) -> Flow[tuple[list[list[Row]], list[list[Row]]]]:
    """Return the answers to the `first` calls, and the rows for each question.

    A question whose limit is 0 is not asked.
    """
    wanted = [bool(prepared.ask.limit and prepared.ask.max_tokens != 0) for prepared in sought]
    calls = [
        recall_statement("recall_newest" if prepared.ask.blank else "recall", prepared, store)
        for prepared in compress(sought, wanted)
    ]
    if not (first or calls):
        return [], [[] for _ in sought]
    settings = setting_calls(calls, reader)
    answers = yield Query((*settings, *first, *calls), commit=True)
    results = answers[len(settings) :]
    rows = iter(results[len(first) :])
    return list(results[: len(first)]), [next(rows) if asked else [] for asked in wanted]


_ANN = "_ann"


def setting_calls(calls: Sequence[Call], reader: RecallConfig) -> list[Call]:
    """Return the settings that precede the calls of a recall, for its round trip alone."""
    settings = []
    if reader.timeout_ms is not None:
        settings.append(Call("limit_time", {"milliseconds": str(reader.timeout_ms)}))
    for call in calls:
        if _ANN in call.name:
            settings.append(Call("hnsw_settings", {"ef_search": str(EF_SEARCH)}))
            break
    return settings


def recall_statement(name: str, prepared: PreparedQuery, store: StoreFlows, **more: object) -> Call:
    """Make the call of the named recall statement, or of its twin for HNSW if there is an index."""
    ask, question, index = prepared.ask, prepared.question, store.options.index
    params = {
        "first_days": [datetime.combine(days.first, time.min, UTC) for days in question.days],
        "last_days": [datetime.combine(days.last, time.max, UTC) for days in question.days],
        **ask.bounds,
        "alive_at": prepared.moment.alive_at,
        "true_at": ask.as_of or prepared.moment.now,
        "as_of": ask.as_of,
        "known_at": ask.known_at,
        "memory_types": None if ask.memory_types is None else list(ask.memory_types),
        "tags": json.dumps(list(ask.tags)) if ask.tags else None,
        "agent_id": ask.agent_id,
        "since": ask.since,
        "min_importance": ask.min_importance,
        "pool": ask.pool,
        "exact_limit": store.options.exact_limit,
        "ann_tiers": [tier.value for tier in store.ann_tiers],
        "ef_search": EF_SEARCH,
        "text": ask.query[:QUERY_CHARACTERS],
        "language": index.language if index else "simple",
        "query": prepared.vector,
        "roles": sorted(ROLES),
        "names": sorted(question.names),
        "asks": question.asks,
        "marks": MARKS,
        "facts": FACTS,
        **more,
    }
    if prepared.vector is not None and not ask.blank and not ask.tiers.isdisjoint(store.ann_tiers):
        name += _ANN
    if ask.conditions:
        return Call(f"{name}_filtered", {**params, **filter_params(ask.conditions)})
    return Call(name, params)


def rank_rows(
    sought: Sequence[PreparedQuery],
    rows: Sequence[Sequence[Row]],
    reader: RecallConfig,
    distance: Distance,
) -> Flow[list[RecallResult]]:
    """Rank the rows of each question; nothing else decides the result."""
    answers, anew = [], reader.reranker is not None
    for prepared, some in zip(sought, rows, strict=True):
        rank = _list_newest if prepared.ask.blank else _rank_matches
        answers.append(rank(prepared, some, reader, distance))
        anew = anew or prepared.ask.review is not None
    if anew:
        yield from _rerank(answers, reader)
    for each in answers:
        each.memories[:] = _cut_to_limits(each.memories, each.sought.ask, reader)
    return answers


def _rank_matches(
    prepared: PreparedQuery, rows: Sequence[Row], reader: RecallConfig, distance: Distance
) -> RecallResult:
    """Keep the candidates that match well enough, in order."""
    ask, question = prepared.ask, prepared.question
    every, searched = matching.read_candidates_and_facts(rows, distance)
    candidates, telling, among = [], [], 0
    for row in every:
        if row.key not in ask.exclude:
            candidates.append(row)
            if ranking.is_informative(row):
                telling.append(row)
                among += (row.speaker or "").lower() not in ASSISTANT_ROLES
    # Rank no more than the limit if nothing reorders them or drops some.
    ranks = ask.pool if ask.deduplicate or reader.reranker or ask.review else ask.limit
    reorders = reader.types.scored or ask.floor or ask.profile is not PROFILES["match"]
    most = ask.pool if reorders else ranks
    alike = matching.word_similarities(candidates, question, searched, reader.words)
    weighed = matching.score_candidates(
        candidates, question, searched, reader.weights, alike, most=most
    )
    memories, alone = [], {}
    for each in weighed:
        if ask.floor and not ranking.is_informative(each.candidate):
            continue
        memory = to_recollection(each.candidate, each.match, each.evidence)
        if (kind := reader.types.scored.get(memory.memory_type)) is not None:
            memory = replace(memory, match=kind.match(memory, ask.query))
        elif each.alone is not None:
            alone[memory.place] = each.alone
        memories.append(memory)
    helping = ranking.probability_memory_helps(
        question, telling, searched, reader.weights, needs=question.needs, meant=prepared.meant
    )
    memories = ranking.drop_irrelevant(
        memories, ask.floor, helping, reader.types, among=among, asked=ask.memory_types, alone=alone
    )
    asked = ranking.RankingQuery(
        now=prepared.moment.now, project_id=ask.project_id, query=ask.query
    )
    best = ranking.rank(memories, ask.profile, asked, ranks)
    return RecallResult(
        prepared, rows, candidates, Recollections(best, by_words=prepared.by_words, helps=helping)
    )


def _list_newest(
    prepared: PreparedQuery, rows: Sequence[Row], reader: RecallConfig, distance: Distance
) -> RecallResult:
    """Return the newest memories for a blank question: none of them matches."""
    ask = prepared.ask
    candidates = [row for row in read_candidates(rows, distance) if row.key not in ask.exclude]
    memories = [to_recollection(row, 0.0, {}) for row in candidates]
    least = Floor(intended=ask.floor.intended)
    memories = ranking.drop_irrelevant(
        memories, least, 1.0, reader.types, among=0, asked=ask.memory_types
    )
    return RecallResult(prepared, rows, candidates, Recollections(memories))


def _rerank(answers: Sequence[RecallResult], reader: RecallConfig) -> Flow[None]:
    """Let the re-ranker reorder the best of each, then the review that each names."""
    reviews = sorted({answer.sought.ask.review for answer in answers if answer.sought.ask.review})
    rankers = [(reader.reviews[name], name) for name in reviews]
    for ranker, name in [*([(reader.reranker, None)] if reader.reranker else []), *rankers]:
        those = [answer for answer in answers if name is None or answer.sought.ask.review == name]
        asks = [answer.sought.ask for answer in those]
        many = [POOL if name is None else REVIEWED * ask.limit for ask in asks]
        ordered = yield from ranker.order(
            [
                budget.Shortlist(ask.query, answer.memories[:most])
                for ask, answer, most in zip(asks, those, many, strict=True)
            ]
        )
        for answer, best in zip(those, ordered, strict=True):
            answer.memories[:] = best


def _cut_to_limits(
    ranked: Sequence[Recollection], ask: RecallQuery, reader: RecallConfig
) -> list[Recollection]:
    """Cut to what was asked for: no repeats, not too many, within the budget.

    The most useful memories by score fill a budget; in a re-ranked order, as many as fit.
    """
    if ask.deduplicate:
        ranked = budget.deduplicate(ranked, ask.similarity_threshold, reader.words)
    kept = list(ranked[: ask.limit])
    if ask.floor.further[0] and not ask.blank and len(kept) < len(ranked):
        kept += _extra_memories(ranked, ask)
    kept = [replace(memory, token_count=reader.count_tokens(memory.content)) for memory in kept]
    room = ask.max_tokens
    if room is None:
        return kept
    if not (ask.blank or reader.reranker or ask.review):
        return budget.choose(kept, room, reader.count_tokens, query=ask.query).chosen
    affordable = []
    for memory in kept:
        if memory.token_count <= room:
            room -= memory.token_count
            affordable.append(memory)
    return affordable


def _extra_memories(ranked: Sequence[Recollection], ask: RecallQuery) -> list[Recollection]:
    """Return memories beyond the limit: next messages, and those that match nearly as well."""
    most, share = ask.floor.further
    best, beyond = ranked[: ask.limit], ranked[ask.limit :]
    following: list[Recollection] = []
    if ask.floor.goes_on:
        following_best = ranking.find_following(ranked, best, ask.floor.goes_on)
        following = [memory for memory in following_best if memory in beyond]
    least = share * max((memory.match for memory in best), default=0.0)
    further = [
        memory for memory in beyond[:most] if memory.match >= least and memory not in following
    ]
    return [*following, *further][:most]


def _keep_shown(
    answers: Sequence[Recollections], kept: Sequence[Recollection]
) -> list[Recollections]:
    """Remove memories from the results that are not shown."""
    if len(kept) == sum(map(len, answers)):
        return [*answers]
    places = {memory.place for memory in kept}
    left = [copy(answer) for answer in answers]
    for answer in left:
        answer[:] = [memory for memory in answer if memory.place in places]
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
        **context.whose,
        "tiers": [tier.value for tier in tiers],
        **visibility(moment),
    }
    calls = [Call("find", {**params, "key": check_key(key)})]
    if handle := parse_handle(key):
        calls.append(Call("find_handle", {**params, "handles": [handle]}))
    answers = yield Query(tuple(calls), commit=True)
    results = (read_candidates(rows, store.distance) for rows in answers)
    return next((some for some in results if some), [])
