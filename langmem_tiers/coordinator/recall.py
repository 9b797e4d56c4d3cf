"""Verbs that recall, and flows by which other verbs recall and find memories."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, Unpack
from uuid import uuid4

from langmem_tiers.coordinator.base import Memory, checked_limit, checked_memory_key
from langmem_tiers.coordinator.resolve import (
    explain_absence,
    keep_reachable,
    pick_memory,
    pick_own_or_only,
)
from langmem_tiers.core.checks import (
    checked_label,
    checked_list,
    checked_share,
    suggest_name,
    utf8_bytes,
)
from langmem_tiers.core.config import DEFAULT_BOUNDS, Bounds, IndexOptions
from langmem_tiers.core.errors import (
    EmbeddingError,
    ErrorCode,
    InvalidInputError,
    InvalidTypeError,
    short,
)
from langmem_tiers.core.memory import TIERS, Recollection, Recollections, Tier, encode_namespace
from langmem_tiers.core.options import RECALL_DEFAULTS, RecallOptions, document_options
from langmem_tiers.core.vectors import PackedVector, pack
from langmem_tiers.learning.outcome import (
    Exposure,
    LearningStats,
    Run,
    read_uplifts,
    record_exposures,
)
from langmem_tiers.learning.promote import LIST_FIELDS
from langmem_tiers.postgres.flow import Call, Flow, Query, extend_deadline, single
from langmem_tiers.recall import recall as recalls
from langmem_tiers.recall.matching import Candidate, read_candidates, to_recollection
from langmem_tiers.recall.ranking import (
    DEFAULT_FLOOR,
    NO_FLOOR,
    Floor,
    ProfileFunction,
    resolve_profile,
)
from langmem_tiers.recall.recall import POOL, QueryVectors, RecallQuery, find_by_key, recall_bounds
from langmem_tiers.recall.replay import RecallRecorder, Replay, replay_turn
from langmem_tiers.remember.duplicates import RecalledMemory
from langmem_tiers.remember.review import MODEL, OWN
from langmem_tiers.store.filters import compile_filter
from langmem_tiers.store.operations import to_tier


@document_options(RecallOptions, RECALL_DEFAULTS)
def get_context(
    memory: Memory,
    query: str,
    *,
    project_id: str | None = None,
    session_id: str | None = None,
    embedding: Sequence[float] | None = None,
    run_id: str | Run | None = None,
    holdout: float | None = None,
    **options: Unpack[RecallOptions],
) -> Flow[Recollections]:
    """Recall the memories that matter for a query, best first; an empty query gets the newest.

    The search covers the session's short_term, the project's working and the tenant's long_term
    memory, in one statement. Returned memories count as accessed. If the embedding model fails,
    the search is by words alone: the log says so, and the answer's `by_words` has the error.

    Args:
        query: A question, or any text.
        project_id: The project of the working memory; the context's if not given.
        session_id: The session of the short_term memory; the context's if not given.
        embedding: A ready vector of the query, by the store's own model; the query is embedded
            here if none is given. With an empty query, the search is by the vector alone.
        run_id: The run that the memories are shown to, by a name that a retry has too. The
            exposure is recorded, so that `learning.record_outcome` can credit the memories.
        holdout: From 0 to 1: the share of memories that this run goes without, each chosen by
            a hash of run and memory. The outcomes of runs with and without a memory show its
            effect (see `stats`). None: 0.02 of the lessons, patterns and skills that have
            outcomes, and more of one that seems to harm, from 12 outcomes on
            (docs/learning.md); 0 shows all.
        options: Other options of the recall; see `RecallOptions`.

    Raises:
        InvalidInputError: for an invalid argument; nothing was asked.
        DatabaseError (query_timeout): if it took longer than the settings' `query_timeout_ms`.
    """
    whose = {"project_id": project_id, "session_id": session_id}
    ask = recall_query(memory, query, embedding=embedding, **whose, **options)
    shown_to = make_exposure(run_id, holdout)
    return single(recall(memory, [ask], shown_to=shown_to))


def get_context_batch(
    memory: Memory,
    /,
    queries: Sequence[str],
    *,
    run_id: str | Run | None = None,
    holdout: float | None = None,
    **options: Any,
) -> Flow[list[Recollections]]:
    """Recall for many queries in one round trip, two with a `run_id`; see `get_context`."""
    asks = recall_queries(memory, queries, **options)
    shown_to = make_exposure(run_id, holdout)
    return recall(memory, asks, shown_to=shown_to)


def make_exposure(run_id: str | Run | None, holdout: float | None) -> Exposure | None:
    """Return the exposure that a run and a hold-out name, checked; None without a run.

    Raises:
        InvalidInputError: for a hold-out without a run, or beyond 0…1.
    """
    if run_id is None and holdout is None:
        return None
    held = checked_share(holdout, "holdout")
    named, root = run_id if isinstance(run_id, Run) else (run_id, None)
    if (run := checked_label(named, "run_id")) is not None:
        return Exposure(Run(run, checked_label(root, "the root of a run")), held)
    if held:
        raise InvalidInputError(
            "a hold-out needs a run_id: what it is compared by is what came of the run"
        )
    return None


def replay(
    memory: Memory, turn_id: str, *, profile: str | ProfileFunction | None = None
) -> Flow[list[Replay]]:
    """Replay the recorded recalls of a turn at their moment, and return the differences.

    The memories, and their distances to the question, are as they were read then, whatever was
    written or deleted since. The package, the weights, the types, the profile, the floor and the
    re-ranker are today's of this coordinator. Nothing is written, and nothing counts as accessed.
    Recalls are recorded with `CoordinatorSettings(recall_days=…)`.

    Args:
        turn_id: The id of a turn, a `run_id`, the root of a run, or the `recall_id` of an answer of
            `get_context`.
        profile: The profile of recalls that were ranked by a function of the caller, which is not
            recorded; the others use their own.

    Raises:
        InvalidInputError: if the context covers no recorded recall of that name, or a profile is
            needed.

    Example:
        ```python
        with TieredStore.embedded("./.memory") as store:
            settings = CoordinatorSettings(recall_days=30)
            memory = MemoryCoordinator(
                store, context=MemoryContext(tenant="acme"), settings=settings
            )
            memory.get_context("When do keys change?", run_id="run-7")
            for one in memory.admin.replay("run-7"):
                print(one)
        ```
    """
    if (turn := checked_label(turn_id, "turn_id")) is None:
        raise InvalidTypeError("turn_id names a turn, a run or a recall, and is not None")
    own = None if profile is None else resolve_profile(profile)
    return replay_turn(turn, memory.context, memory.reader, memory.tiered_store.flows, own)


def get(memory: Memory, key: str, *, tier: Tier | str | None = None) -> Flow[Recollection | None]:
    """Return the memory of a key, from short_term, then working, then long_term; else None.

    The context's own memory comes first, then the only one of that key in the project's other
    sessions or in long_term; memories of other projects are not found. The memory counts as
    accessed. With `tier`, only that tier is searched.

    Raises:
        InvalidInputError: if several memories beside the context's own have the key.
    """
    store, context = memory.tiered_store.flows, memory.context
    tiers = TIERS if tier is None else (to_tier(tier),)
    candidate = pick_memory((yield from find_by_key(context, key, tiers, store)), key, context)
    if candidate is None:
        return None
    yield from store.mark_read([candidate], store.moment())
    got = to_recollection(candidate, 0.0, {})
    note_recalled(memory, [got])
    return got


def stats(memory: Memory) -> Flow[LearningStats]:
    """Return counts of the tenant's memories, and the effects of those held out of runs."""
    rows = yield from memory.tiered_store.flows.type_stats(memory.context.scope_params)
    uplift = yield from read_uplifts(memory.context)
    by_type: dict[str, int] = {}
    by_tier = dict.fromkeys(TIERS, 0)
    for tier, memory_type, count, _ in rows:
        by_type[memory_type] = by_type.get(memory_type, 0) + count
        by_tier[Tier(tier)] += count
    return LearningStats(
        total_count=sum(by_tier.values()),
        by_type=dict(sorted(by_type.items())),
        by_tier=by_tier,
        accesses=sum(row[3] for row in rows),
        uplift=uplift,
    )


# Flows of several verbs


def find_memory(
    memory: Memory,
    key: str,
    absent: ErrorCode | None = None,
    *,
    everywhere: bool = False,
) -> Flow[Candidate]:
    """Return the memory of that key: the context's own, else the only one it reaches.

    Administration searches `everywhere` in the tenant.

    Raises:
        InvalidInputError: for an invalid key, if the context reaches none (with the code `absent`),
            or if it reaches several elsewhere.
    """
    context = memory.context
    candidates = yield from find_by_key(
        context, checked_memory_key(key), TIERS, memory.tiered_store.flows
    )
    candidate = (
        pick_own_or_only(candidates, key, context)
        if everywhere
        else pick_memory(candidates, key, context)
    )
    if candidate is None:
        raise InvalidInputError((yield from explain_absence(key, context)), code=absent)
    return candidate


def recall(
    memory: Memory,
    asks: Sequence[RecallQuery],
    hidden: Callable[[Candidate], bool] | None = None,
    vectors: QueryVectors | None = None,
    *,
    turn: str | None = None,
    shown_to: Exposure | None = None,
) -> Flow[list[Recollections]]:
    """Recall for several questions at once; hidden memories do not count as accessed.

    Exposures of a run are recorded; memories held out of it are not returned. If the settings
    record recalls, this one is recorded under the turn or the run of that name, or a new name.
    """
    yield from extend_deadline(len(asks))
    store, days, root = memory.tiered_store.flows, memory.settings.recall_days, None
    shown_of = None
    if shown_to is not None and asks:
        turn, root = shown_to.run
        context = memory.context
        if context.project_id is None and asks[0].project_id is not None:  # one question's option
            context = replace(context, project_id=asks[0].project_id)
        shown_of = partial(record_exposures, context=context, showing=shown_to, now=store.now)
    recording = None if days is None else RecallRecorder(days, turn or str(uuid4()), root)
    answers = yield from recalls.recall(
        asks, memory.reader, store, hidden, vectors, shown_of=shown_of, recording=recording
    )
    for answer in answers:
        note_recalled(memory, answer)
    return answers


def read_current(
    memory: Memory, places: Sequence[tuple[tuple[str, ...], str]]
) -> Flow[list[Recollection]]:
    """Return the memories that a recall could still return, in this order, without an access."""
    if not places:
        return []
    store, context = memory.tiered_store.flows, memory.context
    moment = store.moment()
    params = {
        **context.scope_params,
        "namespaces": [encode_namespace(namespace).namespace for namespace, _ in places],
        "keys": [key for _, key in places],
        **recalls.visibility(moment),
    }
    (rows,) = yield Query((Call("read_again", params),), commit=True)
    current = keep_reachable(read_candidates(rows, store.distance), context)
    recollections = [to_recollection(candidate, 0.0, {}) for candidate in current]
    note_recalled(memory, recollections)
    return recollections


def recall_unnoticed(memory: Memory, asks: Sequence[RecallQuery]) -> Flow[list[Recollections]]:
    """Recall for several questions on behalf of a rule, not of the caller.

    The memories count neither as accessed nor as recalled; there is no re-ranker and no timeout.
    """
    reader = replace(memory.reader, reranker=None, timeout_ms=None)
    return (yield from recalls.recall(asks, reader, memory.tiered_store.flows, lambda _: True))


def note_recalled(memory: Memory, recollections: Iterable[RecalledMemory]) -> None:
    """Note recalled memories: the gate takes a repetition of them as nothing new."""
    memory.pipeline.lately.note(memory.caller, recollections, memory.tiered_store.flows.now)


# Arguments, checked before anything is asked

_FOREIGN_NAMES = {
    **dict.fromkeys(
        ("k", "top_k", "max_items", "max_memories", "max_results", "n", "top_n"), "limit"
    ),
    **dict.fromkeys(("tenant", "project_id", "session_id"), "context"),
}
"""Names of our options in other packages, where they look nothing alike."""


def check_recall_options(
    options: Mapping[str, Any], bounds: Bounds = DEFAULT_BOUNDS
) -> dict[str, Any]:
    """Check the options of a recall that need no coordinator; return them as fields of a query.

    Raises:
        InvalidInputError: for an invalid option, or an unknown one.
    """
    names = RecallOptions.__annotations__
    if unknown := options.keys() - names.keys():
        raise InvalidTypeError(unknown_option_text(min(unknown), [*names]))
    fields: dict[str, Any] = {}
    for name, value in options.items():
        if value is None and name not in RECALL_DEFAULTS:
            continue
        if name == "filter":
            fields["conditions"] = compile_filter(_match_list_items(value), bounds)
        elif name == "min_match":
            fields["floor"] = parse_floor(value)
        else:
            check = _CHECKS.get(name)  # all else is checked as the query is made
            fields[name] = value if check is None else check(value)
    return fields


def recall_query(
    memory: Memory,
    query: str,
    *,
    project_id: str | None = None,
    session_id: str | None = None,
    embedding: Sequence[float] | None = None,
    **options: Unpack[RecallOptions],
) -> RecallQuery:
    """Return the query of checked arguments of `get_context`, which says what they mean."""
    if not isinstance(query, str):
        raise InvalidTypeError(f"a query is a string, not {type(query).__name__}")
    store = memory.tiered_store.options
    store.bounds.check_query(query)
    utf8_bytes(query, "query")
    fields = check_recall_options(options, store.bounds)
    where = memory.context
    if project_id is not None:
        where = replace(where, project_id=project_id)
    if session_id is not None:
        where = replace(where, session_id=session_id)
    tiers = fields.pop("tiers", TIERS)
    if "memory_types" in fields:
        names = checked_list(fields["memory_types"], "memory_types", "names")
        fields["memory_types"] = [memory.types.get(name).name for name in names]
    if "review" in fields:
        _check_can_review(fields["review"], memory)
    limit = fields.pop("limit", None)
    if limit is None:
        limit = memory.settings.max_context_items
        if "max_tokens" in fields and "review" not in fields:
            limit = max(limit, POOL)  # the budget says how many
    return RecallQuery(
        query=query,
        embedding=None if embedding is None else _pack_embedding(embedding, store.index),
        bounds=recall_bounds(where, tiers),
        tiers=frozenset(tiers),
        project_id=where.project_id,
        limit=limit,
        **{"floor": DEFAULT_FLOOR, **fields},
    )


def recall_queries(memory: Memory, queries: Sequence[str], **options: Any) -> list[RecallQuery]:
    """Return the queries of checked arguments of `get_context_batch`."""
    if isinstance(queries, str) or not isinstance(queries, Iterable):
        raise InvalidTypeError("queries is a list of texts; for one, use get_context")
    if "embedding" in options:
        raise InvalidTypeError("an embedding is of one query: use get_context")
    texts = memory.tiered_store.options.bounds.checked_batch(queries)
    return [recall_query(memory, query, **options) for query in texts]


def _pack_embedding(embedding: Sequence[float], index: IndexOptions | None) -> PackedVector:
    if index is None or index.vector is None:
        raise InvalidInputError("this store searches by words alone: give the text instead")
    try:
        packed = pack(embedding, index.vector)
    except EmbeddingError as error:
        raise InvalidInputError(
            "the embedding does not fit: it is a list of "
            f"{index.vector.dims} finite numbers, by the model that the store was set up with"
        ) from error
    if packed is None:
        raise InvalidInputError("the embedding is zero, and so near to nothing: give the text")
    return packed


def _checked_review(name: object) -> str:
    if not isinstance(name, str) or name not in (OWN, MODEL):
        raise InvalidInputError(f"review is one of {OWN}, {MODEL}, not {short(name, 40)}")
    return name


def _check_can_review(name: str, memory: Memory) -> None:
    if name == MODEL and memory.gate.panel is None:
        raise InvalidInputError("no model is there to review: give the coordinator a review_model")
    if name == OWN and not memory.reviewers.score_recalls:
        raise InvalidInputError(
            "no reviewer has a function for relevance: register one with `relevance`, or give "
            "the coordinator a review_model and ask with review='model'"
        )


def unknown_option_text(name: str, names: Sequence[str]) -> str:
    """Return the message about an unknown option."""
    ours = _FOREIGN_NAMES.get(name)
    return (
        f"there is no option {short(name)}: {suggest_name(ours if ours in names else name, names)}"
    )


def _checked_tiers(names: Sequence[Tier | str]) -> Sequence[Tier]:
    chosen = tuple(to_tier(name) for name in checked_list(names, "tiers", "names"))
    if not chosen:
        raise InvalidInputError(f"no tier to look in: name one of {', '.join(TIERS)}, or none")
    return chosen


def parse_floor(value: object) -> Floor:
    """Return the floor of a caller's least match: a number, or two, each from 0 to 1."""
    if isinstance(value, Floor):
        return value
    values = value if isinstance(value, tuple | list) else (value,)
    numbers = [checked_share(part, "min_match") for part in values]
    if len(numbers) not in (1, 2) or None in numbers:
        raise InvalidInputError(
            "min_match is a number from 0 to 1, or two: the least match, and the least share of "
            f"the best one's; not {short(value)}"
        )
    match, share_of_best = [*(number or 0.0 for number in numbers), 0.0][:2]
    return Floor(match, share_of_best) if any(numbers) else NO_FLOOR


def _match_list_items(value: Any) -> Any:
    """Return a filter in which a text matches an item of a field that holds a list."""
    if not isinstance(value, Mapping):
        return value
    asked = {name for name in LIST_FIELDS if isinstance(value.get(name), str)}
    return {**value, **{name: {"$contains": value[name]} for name in asked}}


_CHECKS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "tiers": _checked_tiers,
    "limit": checked_limit,
    "exclude": lambda value: frozenset(
        map(checked_memory_key, checked_list(value, "exclude", "keys"))
    ),
    "review": _checked_review,
}
