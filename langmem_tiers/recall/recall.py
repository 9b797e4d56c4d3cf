"""Recalling what matters: query → embed → one statement over three tiers → rank → context."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from copy import copy
from datetime import UTC, datetime, time
from itertools import chain
from typing import Any

from langmem_tiers.core.config import EF_SEARCH
from langmem_tiers.core.context import MemoryContext
from langmem_tiers.core.handles import as_handle
from langmem_tiers.core.memory import ROLES, Moment, Recollection, Recollections, Tier
from langmem_tiers.core.namespaces import check_key
from langmem_tiers.postgres.flow import Call, Flow, Query, Row
from langmem_tiers.recall.answering import Sought, answer, sought_for
from langmem_tiers.recall.candidates import Candidate, read_columns
from langmem_tiers.recall.inquiry import Reader, RecallQuery, Vectors, visibility
from langmem_tiers.recall.question import FACTS, MARKS, is_question, named_days
from langmem_tiers.recall.replay import Recording
from langmem_tiers.store.filters import filter_params
from langmem_tiers.store.flows import StoreFlows

_ANN = "_ann"
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
    before, rows = yield from _rows(sought, reader, store, moment, first)
    answers = yield from answer(sought, rows, reader, moment, store.distance)
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


def _among(answers: Sequence[Recollections], kept: Sequence[Recollection]) -> list[Recollections]:
    """The answers without what is not kept of them."""
    places = {one.place for one in kept}
    left = [copy(one) for one in answers]
    for one in left:
        one[:] = [memory for memory in one if memory.place in places]
    return left


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
        **visibility(moment.now),
    }
    calls = [Call("find", {**params, "key": check_key(key)})]
    if handle := as_handle(key):
        calls.append(Call("find_handle", {**params, "handles": [handle]}))
    answers = yield Query(tuple(calls), commit=True)
    found = (read_columns(rows, store.distance) for rows in answers)
    return next((some for some in found if some), [])


def _rows(
    sought: Sequence[Sought],
    reader: Reader,
    store: StoreFlows,
    moment: Moment,
    first: Sequence[Call],
) -> Flow[tuple[list[list[Row]], list[list[Row]]]]:
    """What is answered to what is asked `first`, and what Postgres finds for each question.

    Nothing is asked for what may return nothing.
    """
    rows: list[list[Row]] = [[] for _ in sought]
    wanted = [i for i, one in enumerate(sought) if one.ask.limit and one.ask.max_tokens != 0]
    if not wanted and not first:
        return [], rows
    calls = [_call(sought[i], store, moment) for i in wanted]
    settings = settings_of(calls, reader)
    answers = yield Query((*settings, *first, *calls), commit=True)
    found = answers[len(settings) :]
    for place, some in zip(wanted, found[len(first) :], strict=True):
        rows[place] = some
    return list(found[: len(first)]), rows


def settings_of(calls: Sequence[Call], reader: Reader) -> list[Call]:
    """What comes before the calls of a recall, and holds for its round trip alone."""
    settings = []
    if reader.timeout_ms is not None:
        settings.append(Call("limit_time", {"milliseconds": str(reader.timeout_ms)}))
    if any(_ANN in call.name for call in calls):
        settings.append(Call("hnsw_settings", {"ef_search": str(EF_SEARCH)}))
    return settings


def _call(one: Sought, store: StoreFlows, moment: Moment) -> Call:
    ask = one.ask
    name = "recall_newest" if ask.blank else near("recall", one, store)
    params = sought_by(one, store, moment)
    if not ask.conditions:
        return Call(name, params)
    return Call(f"{name}_filtered", {**params, **filter_params(ask.conditions)})


def near(name: str, one: Sought, store: StoreFlows) -> str:
    """The statement of that name, or its twin that finds what is near by HNSW if there is one."""
    has_hnsw = not one.ask.tiers.isdisjoint(store.ann_tiers)
    return f"{name}{_ANN}" if has_hnsw and one.vector is not None else name


def sought_by(one: Sought, store: StoreFlows, moment: Moment) -> dict[str, Any]:
    """The parameters of the recall statements."""
    ask, index = one.ask, store.options.index
    named = named_days(one.question.times, moment.now.date())
    return {
        "first_days": [datetime.combine(days.first, time.min, UTC) for days in named],
        "last_days": [datetime.combine(days.last, time.max, UTC) for days in named],
        **ask.bounds,
        "alive_at": moment.alive_at,
        **visibility(moment.now, ask.as_of, ask.known_at),
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
        "names": sorted(one.question.names),
        "asks": is_question(ask.query),
        "marks": MARKS,
        "facts": FACTS,
    }
