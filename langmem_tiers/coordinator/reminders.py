"""Verbs of intentions and reminders."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, Final, NamedTuple

from langchain_core.language_models import BaseChatModel

from langmem_tiers.coordinator import recall
from langmem_tiers.coordinator.base import MAX_LIMIT, Memory, checked_limit
from langmem_tiers.coordinator.recall import recall_unnoticed
from langmem_tiers.coordinator.remember import new_memory
from langmem_tiers.core.chat_models import checked_model
from langmem_tiers.core.checks import (
    checked_choice,
    checked_instance,
    checked_label,
    checked_list,
    checked_mapping,
    parsed_moment,
    utf8_bytes,
)
from langmem_tiers.core.errors import InvalidInputError, InvalidTypeError, short
from langmem_tiers.core.memory import StoreResult, Tier, outside_bounds
from langmem_tiers.core.texts import head_and_tail
from langmem_tiers.core.types import PROSPECTIVE
from langmem_tiers.learning.outcome import Run
from langmem_tiers.postgres.flow import Call, Flow, Query, map_result, rows_of, single
from langmem_tiers.recall.ranking import ABOUT, PROFILES
from langmem_tiers.recall.recall import (
    POOL,
    QUERY_CHARACTERS,
    QueryVectors,
    RecallQuery,
    recall_bounds,
)
from langmem_tiers.remember.commit import commit_writes
from langmem_tiers.remember.new_memory import NewMemory, checked_content
from langmem_tiers.remember.pipeline import admission_result, apply_verdict, verdict_result
from langmem_tiers.reminders import intentions as remembered
from langmem_tiers.reminders.intentions import (
    Intention,
    NextTools,
    Predicates,
    Priority,
    Reminder,
    ScopeParams,
    Status,
    build_scope_params,
)
from langmem_tiers.reminders.triggers import (
    At,
    BeforeTool,
    If,
    NextCall,
    Occasion,
    Topic,
    Trigger,
    When,
    parse_trigger,
    trigger_from_json,
)


def add(
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
    """Store an intention: a prospective memory that `due` raises by itself.

    Memory and intention are stored in one transaction, if the gate lets the memory pass. The
    memory is like any other. It lasts until thirty days after the intention was closed or expired,
    and then as long as its tier's do. The caller gives one trigger, or none: then the intention is
    raised at the next occasion.

    Args:
        content: The thing to do.
        at: The moment before which it is not raised, with a time zone; reminders show it in that of
            the context. An `At` with `every` recurs.
        cue: A cue in a query that raises it, such as "when Anna mentions the budget".
        before_tool: The name of a tool before whose run it is raised, or a `BeforeTool` with its
            arguments.
        when: The name of a predicate of the graph's state that raises it.
        topic: True to raise it when a query is about it.
        priority: `high`, `medium` or `low`; the highest is raised first.
        expires_at: The moment from which on it is not raised any more.
        key: Your own key. Adding again under it with the same trigger raises nothing twice, so that
            a retry does no harm; with another trigger it begins anew.
        fields: Any other argument of `store`.

    Raises:
        InvalidInputError: for invalid arguments, or several triggers; nothing was stored.

    Example:
        ```python
        memory.reminders.add("Ask her for the new figures", cue="when Anna mentions the budget")
        ```
    """
    checked_content(content)
    if not isinstance(topic, bool | Topic):
        raise InvalidTypeError(f"topic is True, False or a Topic, not {short(topic)}")
    about = Topic.from_content(content) if topic is True else topic or None
    if not (at is None or isinstance(at, At)):
        at = At(parsed_moment(at, "at"), timezone=memory.context.timezone or "UTC")
    trigger = parse_trigger(at=at, cue=cue, before_tool=before_tool, when=when, topic=about)
    level = Priority(checked_choice(priority, Priority, "priority"))
    now, end = memory.tiered_store.flows.moment().now, _parse_end(expires_at, trigger)
    metadata = {} if fields.get("metadata") is None else fields["metadata"]
    checked_mapping(metadata, "metadata", "{'for': 'Anna'}")
    # every client reads the priority there
    options = {**fields, "metadata": {**metadata, "priority": level.value}}
    new = new_memory(content, key=key, **{"memory_type": PROSPECTIVE, **options})
    return _store_intention(memory, new, remembered.intention_params(trigger, level, now, end))


def _store_intention(memory: Memory, new: NewMemory, intended: dict[str, Any]) -> Flow[StoreResult]:
    """Store a memory and its intention in one transaction, if the gate lets it pass."""
    pipeline, context = memory.pipeline, memory.context
    memories, writes = yield from pipeline.validate([new], context)
    (verdict,) = yield from pipeline.screen(memories, writes, context)
    if not verdict.stored:
        return verdict_result(verdict)
    passing = apply_verdict(memories[0], writes[0], verdict, memory.gate)
    (placed,) = yield from pipeline.place(memories, [passing], context, ())
    put = replace(placed, ttl=math.inf, intention=intended)
    applied = yield from commit_writes([put], memory.tiered_store.flows)
    return admission_result(verdict, put, applied)


def _parse_end(expires_at: datetime | str | None, trigger: Trigger) -> datetime | None:
    """Return the moment at which an intention expires, after it can be raised; None for never."""
    if expires_at is None:
        return None
    end = parsed_moment(expires_at, "expires_at")
    if isinstance(trigger, At) and trigger.moment is not None and end <= trigger.moment:
        raise InvalidInputError(
            f"it would expire at {end.isoformat()}, before it could be raised: leave "
            "`expires_at` out, or give a later one"
        )
    return end


def due(
    memory: Memory,
    query: str | None = None,
    *,
    tool: NextTools | None = None,
    state: Any = None,
    predicates: Predicates | None = None,
    kinds: Iterable[str] | None = None,
    limit: int = remembered.DEFAULT_REMINDERS,
    lease_seconds: float | None = None,
    run_id: str | Run | None = None,
    judge: BaseChatModel | None = None,
) -> Flow[list[Reminder]]:
    """Raise the due intentions, each at most once, by priority.

    By default a reminder is delivered when this returns: it is raised at most once, and not again
    if the process dies. With `run_id`, the same run alone gets it again. With `lease_seconds` it is
    due again after that time, unless it was acknowledged: acknowledged before it is shown, it is
    shown at most once; after, at least once.

    Args:
        query: The text of the occasion, for cues and topics.
        tool: The tools about to run: a name, a tool call (`name` and `args`), or several.
        state: The graph's state, for predicates.
        predicates: Functions of the state, by the names that intentions use.
        kinds: Kinds of triggers, met now, that raise an intention: `time`, `cue`, `tool`, `state`,
            `topic`. If not given, all, and a snoozed intention is raised by its time alone.
        limit: Most reminders.
        lease_seconds: Seconds that a reminder waits to be acknowledged.
        run_id: The run that they are raised for: it alone gets the same ones again, until closed.
        judge: A chat model that says which cues the query shows, of those whose names and last
            word it holds, and which topics: one request, none where there are no such. If not
            given, their words and their match say so.

    Raises:
        InvalidInputError: for an invalid argument.
        ModelError: if the judge gave nothing usable; nothing was raised.
    """
    if judge is not None:
        checked_model(judge)
    here = build_scope_params(memory.context, memory.tiered_store.flows.moment())
    occasion = Occasion(
        here["now"],
        None if query is None else checked_instance(query, str, "a query").replace("\0", " "),
        () if tool is None else _tool_calls(tool),
        _true_predicates(state, predicates),
        None if kinds is None else frozenset(_as_names(kinds, remembered.TRIGGER_KINDS, "kind")),
    )
    raised = yield from remembered.raise_due(
        occasion,
        here,
        limit=checked_limit(limit),
        seconds=remembered.checked_seconds(lease_seconds),
        holder=checked_label(run_id.id if isinstance(run_id, Run) else run_id, "run_id"),
        topics=partial(find_topics, memory, occasion.query or "", here, judged=judge is not None),
        judge=judge,
    )
    recall.note_recalled(memory, raised)  # it has been accessed
    return raised


def acknowledge(memory: Memory, *reminders: Reminder | str) -> Flow[bool]:
    """Acknowledge leased reminders, or their tokens, as delivered: none is raised again.

    Return False if it came too late for one: another caller got it since, or it was snoozed or
    closed. The others are delivered. Acknowledging again writes nothing.
    """
    return _acknowledge(memory, sorted({_parse_token(reminder) for reminder in reminders}))


def _acknowledge(memory: Memory, tokens: Sequence[tuple[int, int]]) -> Flow[bool]:
    if not tokens:
        return True
    ids, fences = zip(*tokens, strict=True)
    rows = yield from rows_of(
        "acknowledge",
        **memory.context.scope_params,
        **outside_bounds(memory.context.namespace(Tier.WORKING)),
        ids=list(ids),
        fences=list(fences),
        now=memory.tiered_store.flows.moment().now,
    )
    return bool(rows[0][0] == len(tokens))


def _parse_token(reminder: object) -> tuple[int, int]:
    """Return the id and the fence of a reminder, or of its token."""
    token = reminder.token if isinstance(reminder, Reminder) else reminder
    if not isinstance(token, str):
        raise InvalidTypeError(f"acknowledge a Reminder or its token, not {short(token)}")
    if (match := _TOKEN.fullmatch(token)) is None:
        raise InvalidInputError(
            f"{short(token)} is no token of a reminder: pass what reminders.due() gave"
        )
    return int(match[1]), int(match[2])


def snooze(memory: Memory, key: str, until: datetime | str) -> Flow[None]:
    """Snooze an intention: it is not raised before `until`.

    An intention that was raised is raised once more then, whatever its trigger. One that was not
    still waits for its trigger too.

    Raises:
        InvalidInputError: if there is none of that key, it is closed, or expires before.
    """
    moment = parsed_moment(until, "until")
    candidate = yield from recall.find_memory(memory, key)
    if (yield from _update(memory, "snooze", candidate.id, until=moment)):
        return
    row = yield from _read_intention(memory, candidate.id)
    if row.status in remembered.OPEN_STATUSES:
        raise InvalidInputError(
            f"it expires at {row.expires_at}, and would never be raised after {moment}: "
            "snooze it for less, or add it anew with another `expires_at`"
        )
    raise InvalidInputError(f"it is {row.status}, and cannot be put off: add it anew")


def complete(memory: Memory, key: str) -> Flow[bool]:
    """Close an intention as done; return False if it was closed before.

    Raises:
        InvalidInputError: if there is no intention of that key.
    """
    return _close(memory, key, Status.DONE)


def cancel(memory: Memory, key: str) -> Flow[bool]:
    """Close an intention as cancelled; return False if it was closed before.

    Raises:
        InvalidInputError: if there is no intention of that key.
    """
    return _close(memory, key, Status.CANCELLED)


def list_(
    memory: Memory,
    status: Status | str | Iterable[Status | str] | None = None,
    *,
    limit: int = MAX_LIMIT,
) -> Flow[list[Intention]]:
    """Return the intentions, by priority; the call raises none.

    Args:
        status: `pending`, `leased`, `delivered`, `done`, `cancelled`, `expired`, or several; if
            not given, the open ones: the first three.
        limit: Most intentions.
    """
    wanted: Sequence[Status] = remembered.OPEN_STATUSES
    if status is not None:
        wanted = [Status(name) for name in _as_names(status, tuple(Status), "status")]
    stored = [stored for state in wanted for stored in remembered.STORED_STATUSES[state]]
    reading = rows_of(
        "intentions",
        **build_scope_params(memory.context, memory.tiered_store.flows.moment()),
        statuses=[state.value for state in wanted],
        stored=sorted(set(stored)),
        limit=checked_limit(limit),
    )
    read = partial(remembered.read_intention, tenant=memory.context.root)
    return map_result(reading, lambda rows: [*map(read, rows)])


def mark_reminding(memory: Memory, key: str) -> Flow[None]:
    """Mark a message's memory: a reminder was set in its turn.

    As the reminder is raised by itself, the message is recalled only if it matches as well as an
    intention has to.

    Raises:
        InvalidInputError: if there is no such memory.
    """
    candidate = yield from recall.find_memory(memory, key)
    yield Query(
        (Call("mark_reminding", {"tenant": candidate.tenant, "id": candidate.id}),), commit=True
    )


def _close(memory: Memory, key: str, status: Status) -> Flow[bool]:
    """Close an intention for good, or until its next time if it recurs and is done."""
    candidate = yield from recall.find_memory(memory, key)
    if status is Status.DONE:
        now = memory.tiered_store.flows.moment().now
        standing = yield from _read_intention(memory, candidate.id)
        again = remembered.next_due(trigger_from_json(standing.trigger), now, standing.expires_at)
        if again is not None and standing.status in remembered.OPEN_STATUSES:
            if standing.due_at <= now:
                yield from _update(memory, "snooze", candidate.id, until=again)
            return True
    changed = yield from _update(memory, "close_intention", candidate.id, status=status.value)
    if not changed:
        yield from _read_intention(memory, candidate.id)
    return changed


def _update(memory: Memory, statement: str, number: int, **params: Any) -> Flow[bool]:
    moment = memory.tiered_store.flows.moment()
    about = {"tenant": memory.context.root, "id": number, "now": moment.now}
    return bool((yield from rows_of(statement, **about, **params)))


class _IntentionRow(NamedTuple):
    """Row of the statement intention, with the columns in this order."""

    status: Status
    expires_at: datetime | None
    trigger: Mapping[str, Any]
    due_at: datetime


def _read_intention(memory: Memory, number: int) -> Flow[_IntentionRow]:
    moment = memory.tiered_store.flows.moment()
    about = {"tenant": memory.context.root, "id": number, "now": moment.now}
    rows = yield from rows_of("intention", **about)
    if not rows:
        raise InvalidInputError(
            "the memory is there, but nothing is intended by it: use reminders.add(…) in place of "
            "store(…)"
        )
    status, *others = rows[0]
    return _IntentionRow(Status(status), *others)


_TOKEN: Final = re.compile(r"([0-9]+)\.([0-9]+)")
"""Id and fence of a token."""


def _as_names(value: Any, allowed: Sequence[str], what: str) -> list[str]:
    """Return one name, or several, as a list, if all are allowed."""
    names = [value] if isinstance(value, str) else list(checked_list(value, what, "names"))
    for name in names:
        if not isinstance(name, str) or name not in allowed:
            raise InvalidInputError(f"there is no {what} {short(name)}: use {', '.join(allowed)}")
    return names


def _tool_calls(tool: Any) -> tuple[NextCall, ...]:
    """Return the next calls of a name, a LangChain tool call, or several of either."""
    tools = [tool] if isinstance(tool, str | Mapping) else tool
    if not isinstance(tools, Iterable):
        raise InvalidTypeError(f"tool is a name, a tool call or several, not {short(tool)}")
    return tuple(map(_parse_call, tools))


def _parse_call(tool: Any) -> NextCall:
    call = {"name": tool} if isinstance(tool, str) else tool
    if not isinstance(call, Mapping) or not isinstance(call.get("name"), str):
        raise InvalidTypeError(f"a tool call is a mapping with a name and args, not {short(tool)}")
    utf8_bytes(call["name"], "name of the tool")
    args = call.get("args")
    return NextCall(call["name"], args if isinstance(args, Mapping) else {})


def _true_predicates(state: Any, predicates: Predicates | None) -> frozenset[str]:
    """Return the names of the predicates that hold of a state."""
    if predicates is None and state is not None:
        raise InvalidInputError(
            "a state is judged by predicates: give predicates={'name': function of the state}"
        )
    true = []
    for name, predicate in remembered.checked_predicates(predicates).items():
        holds: object = predicate(state)
        if not isinstance(holds, bool):
            returns = f"what the predicate {short(name)} returns"
            raise InvalidTypeError(f"{returns} is True or False, not {short(holds)}")
        if holds:
            true.append(name)
    return frozenset(true)


_MIN_MATCH: Final = 0.33
"""Least match of a text that is about an intention, for a model that is not ours: where 1 to
3 turns of LoCoMo are, 17 to 37 % of the questions match the turn that answers them so well, and 0
to 2.5 % another."""
_MIN_COSINE: Final = 0.35
"""Least cosine of a text that is about an intention, for our own models (docs/reminders.md)."""
_MIN_COSINE_JUDGED: Final = 0.25
"""Least cosine from which on a judge is asked."""


def find_topics(
    memory: Memory, query: str, here: ScopeParams, *, judged: bool
) -> Flow[frozenset[str]]:
    """Return the topics of intentions that a query is about."""
    text = head_and_tail(query, QUERY_CHARACTERS)
    if not memory.local:
        near = RecallQuery(
            query=text,
            bounds=recall_bounds(memory.context),
            limit=POOL,
            memory_types=[PROSPECTIVE],
            profile=PROFILES["match"],
        )
        recollections = yield from single(recall_unnoticed(memory, [near]))
        least = ABOUT if judged else _MIN_MATCH  # nobody knows how near is near to another model
        return frozenset(
            Topic.from_content(recollection.content).about
            for recollection in recollections
            if recollection.match >= least
        )
    vectors = QueryVectors()
    yield from vectors.add([text], memory.tiered_store.options)
    waiting = yield from rows_of("topics_near", **here, query=vectors.get(text), limit=POOL)
    least, cosine = (
        _MIN_COSINE_JUDGED if judged else _MIN_COSINE,
        memory.tiered_store.flows.distance.cosine,
    )
    return frozenset(about for about, far in waiting if far is not None and cosine(far) >= least)
