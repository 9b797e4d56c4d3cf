"""The verbs by which a coordinator intends something, and is reminded of it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, Final

from langchain_core.language_models import BaseChatModel

from langmem_tiers.core.checks import label, parsed_moment
from langmem_tiers.core.errors import InvalidTypeError, short
from langmem_tiers.core.memory import StoreResult
from langmem_tiers.core.reading import ends_of
from langmem_tiers.core.structured import checked_model
from langmem_tiers.core.types import PROSPECTIVE
from langmem_tiers.learn.outcome import Run
from langmem_tiers.memory import flows
from langmem_tiers.memory.asking import MAX_LIMIT, checked_limit, new_memory
from langmem_tiers.memory.base import Memory
from langmem_tiers.memory.flows import looked_up
from langmem_tiers.postgres.flow import Call, Flow, Query, only, rows_of
from langmem_tiers.recall.floor import ABOUT
from langmem_tiers.recall.inquiry import POOL, RecallQuery, Vectors, reach
from langmem_tiers.recall.ranking import PROFILES
from langmem_tiers.recall.recall import QUERY_CHARACTERS
from langmem_tiers.remember.new import NewMemory, checked_content
from langmem_tiers.remember.pipeline import admitted_as, as_judged, result_of
from langmem_tiers.remember.transaction import write
from langmem_tiers.remind import intentions as told
from langmem_tiers.remind import raising
from langmem_tiers.remind.intentions import Intention, NextTools, Predicates, Priority, Reminder
from langmem_tiers.remind.raising import Here
from langmem_tiers.remind.triggers import At, BeforeTool, If, Occasion, Topic, When, trigger_of


def intend(
    memory: Memory,
    /,
    content: str,
    *,
    at: datetime | str | At | None = None,
    cue: str | When | None = None,
    before_tool: str | BeforeTool | None = None,
    when: str | If | None = None,
    topic: bool | Topic = False,
    priority: Priority | str = Priority.MEDIUM,
    expires_at: datetime | str | None = None,
    key: str | None = None,
    **fields: Any,
) -> Flow[StoreResult]:
    """Remember to do something: a prospective memory that `remind` raises by itself.

    Memory and intention are stored in one transaction, if the gate lets the memory pass. It
    is a memory like any other, which lasts until thirty days after the intention was closed
    or expired, and then as long as its tier's do. Of the triggers one is given, or none: then
    it is raised at the next occasion.

    Args:
        content: What is to be done.
        at: Not before this moment, with a time zone; it is told in that of the context. An `At`
            recurs, if it says `every`.
        cue: When a query shows it, such as "when Anna mentions the budget".
        before_tool: Before a tool of that name runs, or a `BeforeTool` with its arguments.
        when: When the predicate of that name holds of the graph's state.
        topic: When a query is about it.
        priority: `high`, `medium` or `low`; what is higher is raised first.
        expires_at: From this moment on it is not raised any more.
        key: A key of one's own. Intending again under it with the same trigger raises nothing
            twice, so that a retry does no harm; with another trigger it begins anew.
        fields: Any other argument of `store`.

    Raises:
        InvalidInputError: for what cannot be stored, or several triggers; nothing was stored.

    Example:
        ```python
        memory.intend("Ask her for the new figures", cue="when Anna mentions the budget")
        ```
    """
    checked_content(content)
    if not isinstance(topic, bool | Topic):
        raise InvalidTypeError(f"topic is True, False or a Topic, not {short(topic)}")
    about = Topic.of(content) if topic is True else topic or None
    if not (at is None or isinstance(at, At)):
        at = At(parsed_moment(at, "at"), timezone=memory.context.timezone or "UTC")
    trigger = trigger_of(at=at, cue=cue, before_tool=before_tool, when=when, topic=about)
    level = told.checked_priority(priority)
    intended = raising.intends(
        trigger, level, _here(memory).moment.now, told.checked_end(expires_at, trigger)
    )
    return _intended(memory, _prospective(content, level, key, fields), intended)


def remind(
    memory: Memory,
    query: str | None = None,
    *,
    tool: NextTools | None = None,
    state: Any = None,
    predicates: Predicates | None = None,
    kinds: Iterable[str] | None = None,
    limit: int = told.DEFAULT_REMINDERS,
    lease_seconds: float | None = None,
    run_id: str | Run | None = None,
    judge: BaseChatModel | None = None,
) -> Flow[list[Reminder]]:
    """Raise the intentions that are due, each at most once, by priority.

    As it stands, a reminder is delivered when this returns: each is raised at most once, and
    what a process that dies was just given is not raised again. With `run_id` it is, to the
    same run alone. With `lease_seconds` it is due again after that time unless it was
    acknowledged: acknowledged before it is shown, it is still shown at most once; after, at
    least once.

    Args:
        query: What is asked or said, for cues and topics.
        tool: NextTools about to run: a name, a tool call (`name` and `args`), or several.
        state: The graph's state, for predicates.
        predicates: The functions of the state by the names that intentions know them by.
        kinds: Raise only what has such a trigger, and has it met now: `time`, `cue`, `tool`,
            `state`, `topic`. What was put off is raised by its time alone, if this is not given.
        limit: How many at most.
        lease_seconds: How long a reminder waits to be acknowledged.
        run_id: Whom they are raised for: the same run gets the same ones alone, until closed.
        judge: A chat model that says which cues the query shows, of those whose names and last
            word it holds, and which topics: one request, none where there are no such. If not
            given, their words and their match say so.

    Raises:
        InvalidInputError: for what cannot be asked.
        ModelError: if the judge gave nothing usable; nothing was raised.
    """
    if judge is not None:
        checked_model(judge)
    here = _here(memory)
    occasion = Occasion(
        here.moment.now,
        told.checked_query(query),
        told.tool_calls(tool),
        told.true_of(state, predicates),
        told.checked_kinds(kinds),
    )
    raised = yield from raising.remind(
        occasion,
        here,
        limit=checked_limit(limit),
        seconds=told.checked_seconds(lease_seconds),
        holder=label(run_id.id if isinstance(run_id, Run) else run_id, "run_id"),
        topics=partial(topics_of, memory, occasion.query or "", here, judged=judge is not None),
        judge=judge,
    )
    flows.note(memory, raised)  # it has been accessed
    return raised


def acknowledge(memory: Memory, *reminders: Reminder | str) -> Flow[bool]:
    """Say that leased reminders, or their tokens, have been delivered: none is raised again.

    False if that came too late for one: somebody else was given it since, or it was put off or
    closed. The others are delivered. To say it again does no harm, and writes nothing.
    """
    return raising.acknowledge({told.checked_token(one) for one in reminders}, _here(memory))


def snooze(memory: Memory, key: str, until: datetime | str) -> Flow[None]:
    """Put off an intention: it is not raised before `until`.

    One that was raised is raised once more then, whatever its trigger; one that was not still
    waits for its trigger too.

    Raises:
        InvalidInputError: if there is none of that key, it is closed, or expires before.
    """
    moment = parsed_moment(until, "until")
    one = yield from flows.known(memory, key)
    yield from raising.snooze(one.id, moment, _here(memory))


def complete(memory: Memory, key: str) -> Flow[bool]:
    """Say that what was intended is done; False if it was closed.

    Raises:
        InvalidInputError: if there is no intention of that key.
    """
    return _close(memory, key, told.Status.DONE)


def cancel(memory: Memory, key: str) -> Flow[bool]:
    """Say that it is not intended any more; False if it was closed.

    Raises:
        InvalidInputError: if there is no intention of that key.
    """
    return _close(memory, key, told.Status.CANCELLED)


def intentions(
    memory: Memory,
    status: told.Status | str | Iterable[told.Status | str] | None = None,
    *,
    limit: int = MAX_LIMIT,
) -> Flow[list[Intention]]:
    """What is intended, by priority; nothing is raised by looking.

    Args:
        status: `pending`, `leased`, `delivered`, `done`, `cancelled`, `expired`, or several; if
            not given, what is open: the first three.
        limit: How many at most.
    """
    return raising.intentions(told.checked_statuses(status), _here(memory), checked_limit(limit))


def _intended(memory: Memory, one: NewMemory, intended: dict[str, Any]) -> Flow[StoreResult]:
    pipeline, context = memory.pipeline, memory.context
    memories, writes = yield from pipeline.validated([one], context)
    (verdict,) = yield from pipeline.screened(memories, writes, context)
    if not verdict.stored:
        return result_of(verdict)
    passing = as_judged(memories[0], writes[0], verdict, memory.gate)
    (placed,) = yield from pipeline.placed(memories, [passing], context, ())
    put = replace(placed, ttl=math.inf, intends=intended)
    applied = yield from write([put], memory.tiered_store.flows)
    return admitted_as(verdict, put, applied)


def mark_reminding(memory: Memory, key: str) -> Flow[None]:
    """Note of what was said that a reminder was set in its turn.

    The reminder is raised by itself, so what was said is recalled only if it matches as well as an
    intention has to.

    Raises:
        InvalidInputError: if there is no such memory.
    """
    one = yield from flows.known(memory, key)
    yield Query((Call("mark_reminding", {"tenant": one.tenant, "id": one.id}),), commit=True)


def _close(memory: Memory, key: str, status: told.Status) -> Flow[bool]:
    one = yield from flows.known(memory, key)
    return (yield from raising.close(one.id, status, _here(memory)))


def _here(memory: Memory) -> Here:
    return Here(
        context=memory.context,
        options=memory.tiered_store.options,
        moment=memory.tiered_store.flows.moment(),
    )


def _prospective(
    content: str, priority: Priority, key: str | None, fields: Mapping[str, Any]
) -> NewMemory:
    """The memory of an intention, with its priority where every client reads metadata."""
    given = fields.get("metadata")
    metadata = {} if given is None else given
    if not isinstance(metadata, Mapping):
        raise InvalidTypeError(f"metadata is a mapping, not {type(metadata).__name__}")
    told = {"memory_type": "prospective", **fields}
    return new_memory(
        content, key=key, **{**told, "metadata": {**metadata, "priority": priority.value}}
    )


_ABOUT: Final = 0.33
"""The match from which on a text is about what is intended, of a model that is not ours: where 1 to
3 turns of LoCoMo are, 17 to 37 % of the questions match the turn that answers them so well, and 0
to 2.5 % another."""
_SHOWS: Final = 0.35
"""The cosine, as our own models see it, from which on a text is about what is intended
(docs/reminders.md)."""
_MAY_SHOW: Final = 0.25
"""That from which on a judge is asked."""


def topics_of(memory: Memory, query: str, here: Here, *, judged: bool) -> Flow[frozenset[str]]:
    """What was intended that a query is about."""
    text = ends_of(query, QUERY_CHARACTERS)
    if not memory.local:
        near = RecallQuery(
            query=text,
            bounds=reach(memory.context),
            limit=POOL,
            memory_types=[PROSPECTIVE],
            profile=PROFILES["match"],
        )
        found = yield from only(looked_up(memory, [near]))
        least = ABOUT if judged else _ABOUT  # nobody knows how near is near to another model
        return frozenset(Topic.of(one.content).about for one in found if one.match >= least)
    vectors = Vectors()
    yield from vectors.add([text], here.options)
    waiting = yield from rows_of("topics_near", **here.params, query=vectors.get(text), limit=POOL)
    least, cosine = _MAY_SHOW if judged else _SHOWS, memory.tiered_store.flows.distance.cosine
    return frozenset(about for about, far in waiting if far is not None and cosine(far) >= least)
