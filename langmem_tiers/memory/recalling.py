"""The verbs by which a coordinator recalls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

from langmem_tiers.core.memory import Recollections, Tier
from langmem_tiers.learn.outcome import Run
from langmem_tiers.memory.base import Memory
from langmem_tiers.memory.feedback import recalled_for, showing
from langmem_tiers.postgres.flow import Flow, then
from langmem_tiers.recall.profiles import ProfileFunction


def get_context(
    memory: Memory,
    query: str,
    *,
    project_id: str | None = None,
    session_id: str | None = None,
    tiers: Sequence[Tier | str] | None = None,
    memory_types: Sequence[str] | None = None,
    tags: Iterable[str] = (),
    agent_id: str | None = None,
    limit: int | None = None,
    max_tokens: int | None = None,
    since: datetime | str | None = None,
    as_of: datetime | str | None = None,
    known_at: datetime | str | None = None,
    min_importance: float | None = None,
    filter: Mapping[str, Any] | None = None,  # noqa: A002 - LangGraph's word
    deduplicate: bool = False,
    similarity_threshold: float = 0.85,
    profile: str | ProfileFunction | None = None,
    cutoff: bool | None = None,
    embedding: Sequence[float] | None = None,
    review: Literal["rules", "model"] | None = None,
    run_id: str | Run | None = None,
    holdout: float = 0.0,
) -> Flow[Recollections]:
    """Recall what matters for a query, best first; an empty query gets the newest.

    It looks in the session's short_term, the project's working and the tenant's long_term
    memory, in one statement. What is returned counts as accessed.

    Args:
        query: A question, or any text.
        project_id: Whose working memory; the context's if not given. So `session_id`.
        session_id: Whose short_term memory.
        tiers: Where to look; all three if not given.
        memory_types: Only these types.
        tags: Only memories that have all of these.
        agent_id: Only what this agent remembered.
        limit: Memories at most, 0 to 1,000; if not given, the settings'
            `max_context_items`, which is 10 unless set.
        max_tokens: The most useful memories among the `limit` best that fit into this many.
        since: Only what happened, or was recorded, at this moment or later; a datetime with a
            time zone, or ISO 8601.
        as_of: What was true at this moment; now, if not given.
        known_at: What was known at this moment; now, if not given. What came of a memory
            later, such as that it was superseded, is not known then. To recall as it was
            possible at a moment, give both.
        min_importance: Only what is at least this important, from 0 to 1.
        filter: LangGraph's filter on the stored value.
        deduplicate: Leave out what repeats a better one.
        similarity_threshold: From 0 to 1: what counts as a repeat.
        profile: How to rank: a name of `PROFILES`, or a function of a memory and what was
            asked that returns a number, or terms that add up to it. By default `calibrated`:
            the match, and between near-equals recency, accesses and the project.
        cutoff: Whether a question that nothing stored can answer gets nothing. By default
            it does where the local embeddings are used, which the threshold is fitted to.
            What is no question (no question mark, no question word first) is never cut.
        embedding: A ready vector of the query, by the store's own model; it is embedded here
            if none is given. With an empty query, memories are sought by the vector alone.
        review: Let the coordinator's reviewers score three times the `limit` for relevance,
            and return the best by that: by their `rules`, or by the coordinator's
            `review_model` (docs/review.md). Nobody reviews if not given.
        run_id: The run that the memories are shown to, by a name that a retry has too. It is
            noted what the run was shown, so that `record_outcome` can credit it.
        holdout: From 0 to 1: the share of memories that this run goes without, each chosen by
            a hash of run and memory. Comparing what came of the runs with and without a
            memory tells what it causes (see `stats`).

    Raises:
        InvalidInputError: for an argument that makes no sense; nothing was asked.
        QueryTimeoutError: if it took longer than the settings' `query_timeout_ms`.
    """
    ask = memory.asking.ask(
        query,
        memory.context,
        project_id=project_id,
        session_id=session_id,
        tiers=tiers,
        memory_types=memory_types,
        tags=tags,
        agent_id=agent_id,
        limit=limit,
        max_tokens=max_tokens,
        since=since,
        as_of=as_of,
        known_at=known_at,
        min_importance=min_importance,
        filter=filter,
        deduplicate=deduplicate,
        similarity_threshold=similarity_threshold,
        profile=profile,
        cutoff=cutoff,
        embedding=embedding,
        review=review,
    )
    flow = recalled_for(memory, [ask], showing(run_id, holdout))
    return then(flow, lambda found: Recollections(found[0]))


def get_context_batch(
    memory: Memory,
    /,
    queries: Sequence[str],
    *,
    run_id: str | Run | None = None,
    holdout: float = 0.0,
    **options: Any,
) -> Flow[list[Recollections]]:
    """Recall for many queries in one round trip, two with a `run_id`; see `get_context`."""
    asks = memory.asking.asks(queries, memory.context, **options)
    flow = recalled_for(memory, asks, showing(run_id, holdout))
    return then(flow, lambda found: [Recollections(one) for one in found])
