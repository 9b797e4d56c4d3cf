"""Recalling what matters: query → embed → one statement over three tiers → rank → context."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, time
from typing import Any, NamedTuple

from langchain_core.messages import HumanMessage
from langchain_core.messages.utils import count_tokens_approximately

from langmem_tiers.core.config import EF_SEARCH
from langmem_tiers.core.context import MemoryContext
from langmem_tiers.core.memory import ROLES, Moment, Recollection, Recollections, Tier
from langmem_tiers.core.namespaces import check_key
from langmem_tiers.core.types import MemoryTypes
from langmem_tiers.core.vectors import Distance, PackedVector, unpack
from langmem_tiers.postgres.flow import Call, Flow, Query, Row
from langmem_tiers.recall.alike import Words, likeness
from langmem_tiers.recall.budget import choose
from langmem_tiers.recall.candidates import (
    Candidate,
    read_columns,
    read_rows,
    recollection,
)
from langmem_tiers.recall.dedupe import deduplicate
from langmem_tiers.recall.floor import (
    NO_FLOOR,
    Floor,
    helps,
    meant_by,
    shown,
    tells,
    told,
)
from langmem_tiers.recall.matching import Weights, by_themselves, judge
from langmem_tiers.recall.question import (
    FACTS,
    MARKS,
    Question,
    is_question,
    named_days,
    read_question,
)
from langmem_tiers.recall.ranking import PROFILES, Asked, Profile, rank
from langmem_tiers.recall.reach import Reach, visibility
from langmem_tiers.recall.rerank import Reranker, Shortlist
from langmem_tiers.recall.vectors import Vectors
from langmem_tiers.store.filters import Condition, filter_params
from langmem_tiers.store.flows import StoreFlows

POOL = 50
"""Candidates a leg, for long answers and whatever orders them again; 100 add nothing."""
SMALL_POOL = 40
"""Candidates a leg for up to 10 memories. With 30, recall@10 falls by 0.006, with 50 it rises by
0.003 (docs/recall.md), and each takes time."""

REVIEWED = 3
"""How many times the limit reviewers look at, as specified."""

QUERY_CHARACTERS = 4000
"""How much of a query is sought by its words; the time grows with their square."""


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

    @property
    def narrowed(self) -> bool:
        """Whether it asks for a part of what its scopes hold."""
        moments = (self.since, self.as_of, self.known_at)
        whose = (self.agent_id, self.reach.user_id)
        asked = (self.memory_types, self.min_importance, *whose, *moments)
        return bool(self.tags or self.conditions) or any(one is not None for one in asked)


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


class _Sought(NamedTuple):
    """A question as it was read, and its vector."""

    ask: Inquiry
    question: Question
    vector: PackedVector | None
    by_words: str | None
    """What the model failed by that would have made one."""
    meant: float
    """What the vector says of whether memory helps, as the logarithm of odds."""


def _sought(
    ask: Inquiry, vectors: Vectors, moment: Moment, reader: Reader, store: StoreFlows
) -> _Sought:
    vector, index = ask.embedding or vectors.get(ask.query), store.options.index
    by_words = vectors.failed if vector is None and not ask.blank else None
    if by_words is not None:
        ask = replace(ask, floor=Floor())
    meant = 0.0
    shape = None if index is None else index.vector
    if vector is not None and shape is not None and reader.weights.meaning:
        meant = meant_by(unpack(vector, shape), reader.weights)
    return _Sought(ask, read_question(ask.query, moment.now), vector, by_words, meant)


def recall(
    asks: Sequence[Inquiry],
    reader: Reader,
    store: StoreFlows,
    hidden: Callable[[Candidate], bool] | None = None,
    vectors: Vectors | None = None,
    *,
    shown_of: Callable[[list[Recollection]], Flow[list[Recollection]]] | None = None,
) -> Flow[list[Recollections]]:
    """Recall for several questions at once, all in one round trip; an empty one gets the newest.

    What is returned counts as read, if it is not hidden: all that was found, or what `shown_of`
    answers of it. The `vectors` are those known already, and new ones are added. Where the
    embedding model fails, words alone are sought, and the answer says so; the floor, which goes by
    nearness as well, leaves nothing out then.
    """
    store.begin_to_flush()
    yield from store.refresh_state()
    moment = store.moment()
    vectors = Vectors() if vectors is None else vectors
    yield from vectors.add((ask.query for ask in asks if ask.embedding is None), store.options)
    sought = [_sought(ask, vectors, moment, reader, store) for ask in asks]
    rows = yield from _rows(sought, reader, store, moment)
    found, ranked, helping = [], [], []
    for one, some in zip(sought, rows, strict=True):
        candidates, memories, chance = _ranked(one, some, reader, moment, store.distance)
        found.append({row.place: row for row in candidates})
        ranked.append(memories)
        helping.append(chance)
    best = yield from _ordered_again(asks, ranked, reader)
    answers = [
        Recollections(_cut(memories, one.ask, reader), by_words=one.by_words, helps=chance)
        for one, memories, chance in zip(sought, best, helping, strict=True)
    ]
    if shown_of is not None:
        answers = _among(answers, (yield from shown_of([one for some in answers for one in some])))
    read = [
        by_place[each.namespace, each.key]
        for answer, by_place in zip(answers, found, strict=True)
        for each in answer
    ]
    yield from store.mark([row for row in read if not (hidden and hidden(row))], moment)
    return answers


def _among(answers: Sequence[Recollections], kept: Sequence[Recollection]) -> list[Recollections]:
    """The answers without what is not kept of them."""
    places = {(one.namespace, one.key) for one in kept}
    return [
        Recollections(
            (one for one in answer if (one.namespace, one.key) in places),
            by_words=answer.by_words,
            helps=answer.helps,
        )
        for answer in answers
    ]


def find(
    context: MemoryContext, key: str, tiers: Sequence[Tier], store: StoreFlows
) -> Flow[list[Candidate]]:
    """What who asks sees in the tenant by a key, short_term before working before long_term."""
    store.begin_to_flush()
    params = {
        **context.whose,
        "key": check_key(key),
        "tiers": [tier.value for tier in tiers],
        "alive_at": store.moment().alive_at,
    }
    (rows,) = yield Query((Call("find", params),), commit=True)
    return read_columns(rows, store.distance)


def _rows(
    sought: Sequence[_Sought], reader: Reader, store: StoreFlows, moment: Moment
) -> Flow[list[list[Row]]]:
    """What Postgres finds for each; nothing is asked for what may return nothing."""
    rows: list[list[Row]] = [[] for _ in sought]
    wanted = [i for i, one in enumerate(sought) if one.ask.limit and one.ask.max_tokens != 0]
    if wanted:
        calls = [_call(sought[i], store, moment) for i in wanted]
        settings = limits(reader)
        if any(call.name.startswith("recall_ann") for call in calls):
            settings.append(Call("hnsw_settings", {"ef_search": str(EF_SEARCH)}))
        found = yield Query((*settings, *calls), commit=True)
        for place, some in zip(wanted, found[len(settings) :], strict=True):
            rows[place] = some
    return rows


def limits(reader: Reader) -> list[Call]:
    """What limits the time of a recall; it holds for its round trip alone."""
    if reader.timeout_ms is None:
        return []
    return [Call("limit_time", {"milliseconds": str(reader.timeout_ms)})]


def _call(one: _Sought, store: StoreFlows, moment: Moment) -> Call:
    ask = one.ask
    has_hnsw = not ask.reach.tiers.isdisjoint(store.ann_tiers)
    by_hnsw = has_hnsw and one.vector is not None and not ask.narrowed
    name = "recall_newest" if ask.blank else "recall_ann" if by_hnsw else "recall"
    params = sought_by(ask, one.question, one.vector, store, moment)
    if not ask.conditions:
        return Call(name, params)
    return Call(f"{name}_filtered", {**params, **filter_params(ask.conditions)})


def sought_by(
    ask: Inquiry, question: Question, vector: PackedVector | None, store: StoreFlows, moment: Moment
) -> dict[str, Any]:
    """The parameters of the recall statements."""
    index = store.options.index
    named = named_days(question.times, moment.now.date())
    return {
        "first_days": [datetime.combine(one.first, time.min, UTC) for one in named],
        "last_days": [datetime.combine(one.last, time.max, UTC) for one in named],
        **ask.reach.bounds,
        "alive_at": moment.alive_at,
        **visibility(moment.now, ask.as_of, ask.known_at),
        "memory_types": None if ask.memory_types is None else list(ask.memory_types),
        "tags": json.dumps(list(ask.tags)) if ask.tags else None,
        "agent_id": ask.agent_id,
        "since": ask.since,
        "min_importance": ask.min_importance,
        "pool": ask.pool,
        "exact_limit": store.options.exact_limit,
        "text": ask.query[:QUERY_CHARACTERS],
        "language": index.language if index else "simple",
        "query": vector,
        "roles": sorted(ROLES),
        "names": sorted(question.names),
        "asks": is_question(ask.query),
        "marks": MARKS,
        "facts": FACTS,
    }


def _ranked(
    one: _Sought, rows: Sequence[Row], reader: Reader, moment: Moment, distance: Distance
) -> tuple[Sequence[Candidate], list[Recollection], float]:
    """What was found, the memories among it in order, and the chance that any of them helps."""
    ask = one.ask
    if ask.blank:
        newest = _wanted(read_columns(rows, distance), ask)
        memories = [recollection(row, 0.0, {}) for row in newest]
        floor = Floor(intended=ask.floor.intended)  # none of them matches
        kept = shown(memories, floor, 1.0, reader.types, among=0, asked=ask.memory_types)
        return newest, kept, 1.0
    every, searched = read_rows(rows, distance)
    found = _wanted(every, ask)
    # No more are ranked than are asked for, where nothing orders them anew or leaves some out.
    ranks = ask.pool if ask.deduplicate or reader.reranker or ask.review else ask.limit
    scored_by = reader.types.scored
    reorders = scored_by or ask.floor or ask.profile is not PROFILES["match"]
    most = ask.pool if reorders else ranks
    alike = likeness(found, one.question, searched, reader.words)
    weighed = judge(found, one.question, searched, reader.weights, alike, most=most)
    if ask.floor:
        weighed = [each for each in weighed if tells(each.candidate)]
    memories = [recollection(each.candidate, each.match, each.evidence) for each in weighed]
    for place, memory in enumerate(memories if scored_by else ()):
        if (kind := scored_by.get(memory.memory_type)) is not None:
            memories[place] = replace(memory, match=kind.match(memory, ask.query))
    helping = helps(
        one.question,
        found,
        searched,
        reader.weights,
        needs=ask.needs,
        meant=one.meant,
    )
    memories = shown(
        memories,
        ask.floor,
        helping,
        reader.types,
        among=sum(map(told, found)),
        asked=ask.memory_types,
        alone=by_themselves(weighed, but=scored_by),
    )
    asked = Asked(now=moment.now, project_id=ask.project_id, query=ask.query)
    return found, rank(memories, ask.profile, asked, ranks), helping


def _wanted(found: list[Candidate], ask: Inquiry) -> list[Candidate]:
    return [one for one in found if one.key not in ask.exclude] if ask.exclude else found


def _ordered_again(
    asks: Sequence[Inquiry], ranked: list[list[Recollection]], reader: Reader
) -> Flow[list[list[Recollection]]]:
    """Let the re-ranker order the best of each again, then the review that it names."""
    if reader.reranker is not None:
        ranked = yield from reader.reranker.order(
            [Shortlist(ask.query, best[:POOL]) for ask, best in zip(asks, ranked, strict=True)]
        )
    for name in sorted({ask.review for ask in asks if ask.review}):
        places = [i for i, ask in enumerate(asks) if ask.review == name]
        shortlists = [
            Shortlist(asks[i].query, ranked[i][: REVIEWED * asks[i].limit]) for i in places
        ]
        ordered = yield from reader.reviews[name].order(shortlists)
        for place, best in zip(places, ordered, strict=True):
            ranked[place] = best
    return ranked


def _cut(ranked: Sequence[Recollection], ask: Inquiry, reader: Reader) -> list[Recollection]:
    """Cut to what was asked for: no repeats, not too many, within the budget.

    Into a budget go the most useful by score; of what somebody else ordered, as much as fits.
    """
    if ask.deduplicate:
        ranked = deduplicate(ranked, ask.similarity_threshold)
    kept = [
        replace(one, token_count=reader.count_tokens(one.content)) for one in ranked[: ask.limit]
    ]
    budget = ask.max_tokens
    if budget is None:
        return kept
    if not (ask.blank or reader.reranker or ask.review):
        return choose(kept, budget, reader.count_tokens, query=ask.query).chosen
    affordable = []
    for one in kept:
        if one.token_count <= budget:
            budget -= one.token_count
            affordable.append(one)
    return affordable
