"""Recalling what matters: query → embed → one statement over three tiers → rank → fit."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from datetime import UTC, datetime, time
from itertools import chain, compress
from operator import mul

from langmem_tiers.core.config import EF_SEARCH, IndexOptions
from langmem_tiers.core.context import MemoryContext
from langmem_tiers.core.errors import InvalidInputError, short
from langmem_tiers.core.memory import (
    ASSISTANT_ROLES,
    ROLES,
    Moment,
    Recollection,
    Recollections,
    Tier,
)
from langmem_tiers.core.namespaces import as_handle, check_key
from langmem_tiers.core.vectors import Distance, unpack
from langmem_tiers.postgres.flow import Call, Flow, Query, Row, rows_of
from langmem_tiers.recall import budget, floor, inquiry
from langmem_tiers.recall.inquiry import Answer, Reader, RecallQuery, Shortlist, Sought, Vectors
from langmem_tiers.recall.matching import (
    Candidate,
    judge,
    likeness,
    read_columns,
    read_rows,
    recollection,
)
from langmem_tiers.recall.question import FACTS, MARKS, read_question
from langmem_tiers.recall.ranking import PROFILES, Asked, Profile, rank
from langmem_tiers.recall.replay import Recorded, Recording, Replay, compared
from langmem_tiers.store.filters import filter_params
from langmem_tiers.store.flows import StoreFlows

QUERY_CHARACTERS = 4000
"""How much of a query is sought by its words; the time grows with their square."""


def recall(
    asks: Sequence[RecallQuery],
    reader: Reader,
    store: StoreFlows,
    hidden: Callable[[Candidate], bool] | None = None,
    vectors: Vectors | None = None,
    *,
    shown_of: Callable[[list[Recollection]], Flow[list[Recollection]]] | None = None,
    recording: Recording | None = None,
) -> Flow[list[Recollections]]:
    """Recall for several questions at once, all in one round trip; an empty one gets the newest.

    What is returned counts as read, if it is not hidden: all that was found, or what `shown_of`
    answers of it. The `vectors` are those known already, and new ones are added. Where the
    embedding model fails, words alone are sought, and the answer says so; the floor, which goes by
    nearness as well, leaves nothing out then. With a `recording` it is kept as it was.
    """
    store.begin_to_flush()
    yield from store.refresh_state()
    moment = store.moment()
    vectors = Vectors() if vectors is None else vectors
    yield from vectors.add((ask.query for ask in asks if ask.embedding is None), store.options)
    index = store.options.index
    sought = [sought_for(ask, vectors, moment, reader, index) for ask in asks]
    first = () if recording is None else recording.first(asks)
    before, rows = yield from _rows(sought, reader, store, first)
    answers = yield from answer(sought, rows, reader, store.distance)
    shown = [one.memories for one in answers]
    if shown_of is not None:
        shown = _among(shown, (yield from shown_of(list(chain.from_iterable(shown)))))
    read = []
    for one, memories in zip(answers, shown, strict=True):
        by_place = {row.place: row for row in one.candidates}
        read += [by_place[each.place] for each in memories]
    yield from store.mark([row for row in read if not (hidden and hidden(row))], moment)
    if recording is not None:
        yield from recording.keep([*zip(answers, shown, strict=True)], before, moment)
    return shown


def sought_for(
    ask: RecallQuery, vectors: Vectors, moment: Moment, reader: Reader, index: IndexOptions | None
) -> Sought:
    """Read a question, with its vector as far as there is one."""
    vector = ask.embedding or vectors.get(ask.query)
    by_words = vectors.failed if vector is None and not ask.blank else None
    if by_words is not None:
        ask = replace(ask, floor=floor.Floor())
    meant, meaning = 0.0, reader.weights.meaning
    if vector is not None and index is not None and index.vector is not None and meaning:
        meant = sum(map(mul, unpack(vector, index.vector), meaning))
    question = read_question(ask.query, moment.now.date())
    return Sought(ask, question, vector, by_words, meant, moment)


def _rows(
    sought: Sequence[Sought], reader: Reader, store: StoreFlows, first: Sequence[Call]
) -> Flow[tuple[list[list[Row]], list[list[Row]]]]:
    """What is answered to what is asked `first`, and what Postgres finds for each question.

    Nothing is asked for what may return nothing.
    """
    wanted = [bool(one.ask.limit and one.ask.max_tokens != 0) for one in sought]
    calls = [
        statement("recall_newest" if one.ask.blank else "recall", one, store)
        for one in compress(sought, wanted)
    ]
    if not (first or calls):
        return [], [[] for _ in sought]
    settings = settings_of(calls, reader)
    answers = yield Query((*settings, *first, *calls), commit=True)
    found = answers[len(settings) :]
    rows = iter(found[len(first) :])
    return list(found[: len(first)]), [next(rows) if asked else [] for asked in wanted]


_ANN = "_ann"


def settings_of(calls: Sequence[Call], reader: Reader) -> list[Call]:
    """What comes before the calls of a recall, and holds for its round trip alone."""
    settings = []
    if reader.timeout_ms is not None:
        settings.append(Call("limit_time", {"milliseconds": str(reader.timeout_ms)}))
    if any(_ANN in call.name for call in calls):
        settings.append(Call("hnsw_settings", {"ef_search": str(EF_SEARCH)}))
    return settings


def statement(name: str, one: Sought, store: StoreFlows, **more: object) -> Call:
    """The recall statement of that name, or its twin that goes by HNSW if there is an index."""
    ask, question, index = one.ask, one.question, store.options.index
    params = {
        "first_days": [datetime.combine(days.first, time.min, UTC) for days in question.days],
        "last_days": [datetime.combine(days.last, time.max, UTC) for days in question.days],
        **ask.bounds,
        "alive_at": one.moment.alive_at,
        **inquiry.visibility(one.moment.now, ask.as_of, ask.known_at),
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
        "query": one.vector,
        "roles": sorted(ROLES),
        "names": sorted(question.names),
        "asks": question.asks,
        "marks": MARKS,
        "facts": FACTS,
        **more,
    }
    if one.vector is not None and not ask.blank and not ask.tiers.isdisjoint(store.ann_tiers):
        name += _ANN
    if ask.conditions:
        return Call(f"{name}_filtered", {**params, **filter_params(ask.conditions)})
    return Call(name, params)


def answer(
    sought: Sequence[Sought], rows: Sequence[Sequence[Row]], reader: Reader, distance: Distance
) -> Flow[list[Answer]]:
    """What these rows answer to each question, which nothing else decides."""
    answers = [_ranked(one, some, reader, distance) for one, some in zip(sought, rows, strict=True)]
    if reader.reranker is not None or any(one.ask.review for one in sought):
        yield from _ordered_again(answers, reader)
    for one in answers:
        one.memories[:] = _fitted(one.memories, one.sought.ask, reader)
    return answers


def _ranked(one: Sought, rows: Sequence[Row], reader: Reader, distance: Distance) -> Answer:
    """What was found, and the memories among it that match well enough, in order."""
    ask, question = one.ask, one.question
    if ask.blank:
        found = [row for row in read_columns(rows, distance) if row.key not in ask.exclude]
        memories = [recollection(row, 0.0, {}) for row in found]
        least = floor.Floor(intended=ask.floor.intended)  # none of them matches
        memories = floor.shown(memories, least, 1.0, reader.types, among=0, asked=ask.memory_types)
        return Answer(one, rows, found, Recollections(memories))
    every, searched = read_rows(rows, distance)
    found = [row for row in every if row.key not in ask.exclude]
    # No more are ranked than are asked for, where nothing orders them anew or leaves some out.
    ranks = ask.pool if ask.deduplicate or reader.reranker or ask.review else ask.limit
    scored_by = reader.types.scored
    reorders = scored_by or ask.floor or ask.profile is not PROFILES["match"]
    alike = likeness(found, question, searched, reader.words)
    weighed = judge(
        found, question, searched, reader.weights, alike, most=ask.pool if reorders else ranks
    )
    telling = [row for row in found if floor.tells(row)]
    if ask.floor:
        weighed = [each for each in weighed if floor.tells(each.candidate)]
    memories, alone = [], {}
    for each in weighed:
        memory = recollection(each.candidate, each.match, each.evidence)
        if (kind := scored_by.get(memory.memory_type)) is not None:
            memory = replace(memory, match=kind.match(memory, ask.query))
        elif each.alone is not None:
            alone[memory.place] = each.alone
        memories.append(memory)
    helping = floor.helps(
        question, telling, searched, reader.weights, needs=question.needs, meant=one.meant
    )
    among = sum((row.speaker or "").lower() not in ASSISTANT_ROLES for row in telling)
    memories = floor.shown(
        memories, ask.floor, helping, reader.types, among=among, asked=ask.memory_types, alone=alone
    )
    asked = Asked(now=one.moment.now, project_id=ask.project_id, query=ask.query)
    best = rank(memories, ask.profile, asked, ranks)
    return Answer(one, rows, found, Recollections(best, by_words=one.by_words, helps=helping))


def _ordered_again(answers: Sequence[Answer], reader: Reader) -> Flow[None]:
    """Let the re-ranker order the best of each again, then the review that it names."""
    reviews = sorted({one.sought.ask.review for one in answers if one.sought.ask.review})
    rankers = [(reader.reviews[name], name) for name in reviews]
    for ranker, name in [*([(reader.reranker, None)] if reader.reranker else []), *rankers]:
        those = [one for one in answers if name is None or one.sought.ask.review == name]
        asks = [one.sought.ask for one in those]
        many = [inquiry.POOL if name is None else inquiry.REVIEWED * ask.limit for ask in asks]
        ordered = yield from ranker.order(
            [
                Shortlist(ask.query, one.memories[:most])
                for ask, one, most in zip(asks, those, many, strict=True)
            ]
        )
        for one, best in zip(those, ordered, strict=True):
            one.memories[:] = best


def _fitted(ranked: Sequence[Recollection], ask: RecallQuery, reader: Reader) -> list[Recollection]:
    """Cut to what was asked for: no repeats, not too many, within the budget.

    Into a budget go the most useful by score; of what somebody else ordered, as much as fits.
    """
    if ask.deduplicate:
        ranked = budget.deduplicate(ranked, ask.similarity_threshold, reader.words)
    kept = list(ranked[: ask.limit])
    if ask.floor.further[0] and not ask.blank:
        kept += _beyond(ranked, ask)
    kept = [replace(one, token_count=reader.count_tokens(one.content)) for one in kept]
    room = ask.max_tokens
    if room is None:
        return kept
    if not (ask.blank or reader.reranker or ask.review):
        return budget.choose(kept, room, reader.count_tokens, query=ask.query).chosen
    affordable = []
    for one in kept:
        if one.token_count <= room:
            room -= one.token_count
            affordable.append(one)
    return affordable


def _beyond(ranked: Sequence[Recollection], ask: RecallQuery) -> list[Recollection]:
    """What is returned beyond the limit: what was said next, and what matches nearly as well."""
    most, share = ask.floor.further
    best, beyond = ranked[: ask.limit], ranked[ask.limit :]
    following: list[Recollection] = []
    if ask.floor.goes_on:
        said = floor.said_next(ranked, best, ask.floor.goes_on)
        following = [one for one in said if one in beyond]
    least = share * max((one.match for one in best), default=0.0)
    further = [one for one in beyond[:most] if one.match >= least and one not in following]
    return [*following, *further][:most]


def _among(answers: Sequence[Recollections], kept: Sequence[Recollection]) -> list[Recollections]:
    """The answers without what is not kept of them."""
    places = {one.place for one in kept}
    left = [copy(one) for one in answers]
    for one in left:
        one[:] = [memory for memory in one if memory.place in places]
    return left


def replay(
    turn: str,
    context: MemoryContext,
    reader: Reader,
    store: StoreFlows,
    profile: Profile | None = None,
) -> Flow[list[Replay]]:
    """Answer the recorded recalls of a turn again, in their order, by the rows that were read then.

    Raises:
        InvalidInputError: if none is recorded that the context looks after, or one was ranked by a
            profile of the caller's own, and none is given.
    """
    rows = yield from rows_of("recorded", **context.whose, turn=turn, project=context.project_id)
    if not rows:
        raise InvalidInputError(
            f"no recall of {short(turn)} is recorded in tenant {context.tenant!r}: with "
            "CoordinatorSettings(recall_days=30) they are, for so many days, under the turn's id, "
            "the run_id, or the recall_id of what get_context answered"
        )
    recorded = [Recorded(*row) for row in rows]
    found = []
    for one, ask in [(one, one.query(profile)) for one in recorded]:
        vector, seen = one.opened()
        moment, vectors = Moment(one.at), Vectors()
        vectors.failed = one.asked["by_words"]
        index = store.options.index
        sought = sought_for(replace(ask, embedding=vector), vectors, moment, reader, index)
        (again,) = yield from answer([sought], [seen], reader, store.distance)
        found.append(compared(one, ask.query, again.memories))
    return found


def find(
    context: MemoryContext, key: str, tiers: Sequence[Tier], store: StoreFlows
) -> Flow[list[Candidate]]:
    """Find what who asks sees in the tenant by a key, short_term before working before long_term.

    Where no memory has the key and it may be a handle, those that have that are found.
    """
    store.begin_to_flush()
    moment = store.moment()
    params = {
        **context.whose,
        "tiers": [tier.value for tier in tiers],
        "alive_at": moment.alive_at,
        **inquiry.visibility(moment.now),
    }
    calls = [Call("find", {**params, "key": check_key(key)})]
    if handle := as_handle(key):
        calls.append(Call("find_handle", {**params, "handles": [handle]}))
    answers = yield Query(tuple(calls), commit=True)
    found = (read_columns(rows, store.distance) for rows in answers)
    return next((some for some in found if some), [])
