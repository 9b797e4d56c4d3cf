"""The verbs by which a coordinator intends something, and is reminded of it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, Final, NamedTuple

from langchain_core.language_models import BaseChatModel

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
from langmem_tiers.core.reading import head_and_tail
from langmem_tiers.core.structured import checked_model
from langmem_tiers.core.types import PROSPECTIVE
from langmem_tiers.learn.outcome import Run
from langmem_tiers.memory import recalling
from langmem_tiers.memory.base import MAX_LIMIT, Memory, checked_limit
from langmem_tiers.memory.recalling import looked_up
from langmem_tiers.memory.remembering import new_memory
from langmem_tiers.postgres.flow import Call, Flow, Query, map_result, rows_of, single
from langmem_tiers.recall.ranking import ABOUT, PROFILES
from langmem_tiers.recall.recall import (
    POOL,
    QUERY_CHARACTERS,
    QueryVectors,
    RecallQuery,
    recall_bounds,
)
from langmem_tiers.remember.new import NewMemory, checked_content
from langmem_tiers.remember.pipeline import admission_result, apply_verdict, verdict_result
from langmem_tiers.remember.transaction import commit_writes
from langmem_tiers.remind import intentions as remembered
from langmem_tiers.remind.intentions import (
    Intention,
    NextTools,
    Predicates,
    Priority,
    Reminder,
    ScopeParams,
    Status,
    build_scope_params,
)
from langmem_tiers.remind.triggers import (
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
    """Remember to do something: a prospective memory that `due` raises by itself.

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
    now, end = memory.tiered_store.flows.moment().now, _checked_end(expires_at, trigger)
    metadata = {} if fields.get("metadata") is None else fields["metadata"]
    checked_mapping(metadata, "metadata", "{'for': 'Anna'}")
    # every client reads the priority there
    options = {**fields, "metadata": {**metadata, "priority": level.value}}
    new = new_memory(content, key=key, **{"memory_type": PROSPECTIVE, **options})
    return _stored(memory, new, remembered.intention_params(trigger, level, now, end))


def _stored(memory: Memory, new: NewMemory, intended: dict[str, Any]) -> Flow[StoreResult]:
    """Store a memory and what is intended by it in one transaction, if the gate lets it pass."""
    pipeline, context = memory.pipeline, memory.context
    memories, writes = yield from pipeline.validated([new], context)
    (verdict,) = yield from pipeline.screened(memories, writes, context)
    if not verdict.stored:
        return verdict_result(verdict)
    passing = apply_verdict(memories[0], writes[0], verdict, memory.gate)
    (placed,) = yield from pipeline.placed(memories, [passing], context, ())
    put = replace(placed, ttl=math.inf, intention=intended)
    applied = yield from commit_writes([put], memory.tiered_store.flows)
    return admission_result(verdict, put, applied)


def _checked_end(expires_at: datetime | str | None, trigger: Trigger) -> datetime | None:
    """When an intention expires: after it can be raised, or never."""
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
    here = build_scope_params(memory.context, memory.tiered_store.flows.moment())
    occasion = Occasion(
        here["now"],
        None if query is None else checked_instance(query, str, "a query").replace("\0", " "),
        () if tool is None else _tool_calls(tool),
        _true_of(state, predicates),
        None if kinds is None else frozenset(_names(kinds, remembered.TRIGGER_KINDS, "kind")),
    )
    raised = yield from remembered.raise_due(
        occasion,
        here,
        limit=checked_limit(limit),
        seconds=remembered.checked_seconds(lease_seconds),
        holder=checked_label(run_id.id if isinstance(run_id, Run) else run_id, "run_id"),
        topics=partial(topics_of, memory, occasion.query or "", here, judged=judge is not None),
        judge=judge,
    )
    recalling.note(memory, raised)  # it has been accessed
    return raised


def acknowledge(memory: Memory, *reminders: Reminder | str) -> Flow[bool]:
    """Say that leased reminders, or their tokens, have been delivered: none is raised again.

    False if that came too late for one: somebody else was given it since, or it was put off or
    closed. The others are delivered. To say it again does no harm, and writes nothing.
    """
    return _acknowledged(memory, sorted({_token(reminder) for reminder in reminders}))


def _acknowledged(memory: Memory, tokens: Sequence[tuple[int, int]]) -> Flow[bool]:
    if not tokens:
        return True
    ids, fences = zip(*tokens, strict=True)
    rows = yield from rows_of(
        "acknowledge",
        **memory.context.whose,
        **outside_bounds(memory.context.namespace(Tier.WORKING)),
        ids=list(ids),
        fences=list(fences),
        now=memory.tiered_store.flows.moment().now,
    )
    return bool(rows[0][0] == len(tokens))


def _token(reminder: object) -> tuple[int, int]:
    """The id and the fence of a reminder, or of its token."""
    token = reminder.token if isinstance(reminder, Reminder) else reminder
    if not isinstance(token, str):
        raise InvalidTypeError(f"acknowledge a Reminder or its token, not {short(token)}")
    if (match := _TOKEN.fullmatch(token)) is None:
        raise InvalidInputError(
            f"{short(token)} is no token of a reminder: pass what reminders.due() gave"
        )
    return int(match[1]), int(match[2])


def snooze(memory: Memory, key: str, until: datetime | str) -> Flow[None]:
    """Put off an intention: it is not raised before `until`.

    One that was raised is raised once more then, whatever its trigger; one that was not still
    waits for its trigger too.

    Raises:
        InvalidInputError: if there is none of that key, it is closed, or expires before.
    """
    moment = parsed_moment(until, "until")
    candidate = yield from recalling.known(memory, key)
    if (yield from _changed(memory, "snooze", candidate.id, until=moment)):
        return
    row = yield from _standing(memory, candidate.id)
    if row.status in remembered.OPEN_STATUSES:
        raise InvalidInputError(
            f"it expires at {row.expires_at}, and would never be raised after {moment}: "
            "snooze it for less, or add it anew with another `expires_at`"
        )
    raise InvalidInputError(f"it is {row.status}, and cannot be put off: add it anew")


def complete(memory: Memory, key: str) -> Flow[bool]:
    """Say that what was intended is done; False if it was closed.

    Raises:
        InvalidInputError: if there is no intention of that key.
    """
    return _close(memory, key, Status.DONE)


def cancel(memory: Memory, key: str) -> Flow[bool]:
    """Say that it is not intended any more; False if it was closed.

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
    """What is intended, by priority; nothing is raised by looking.

    Args:
        status: `pending`, `leased`, `delivered`, `done`, `cancelled`, `expired`, or several; if
            not given, what is open: the first three.
        limit: How many at most.
    """
    wanted: Sequence[Status] = remembered.OPEN_STATUSES
    if status is not None:
        wanted = [Status(name) for name in _names(status, tuple(Status), "status")]
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
    """Note of what was said that a reminder was set in its turn.

    The reminder is raised by itself, so what was said is recalled only if it matches as well as an
    intention has to.

    Raises:
        InvalidInputError: if there is no such memory.
    """
    candidate = yield from recalling.known(memory, key)
    yield Query(
        (Call("mark_reminding", {"tenant": candidate.tenant, "id": candidate.id}),), commit=True
    )


def _close(memory: Memory, key: str, status: Status) -> Flow[bool]:
    """Close an intention for good, or until its next time if it recurs and is done."""
    candidate = yield from recalling.known(memory, key)
    if status is Status.DONE:
        now = memory.tiered_store.flows.moment().now
        standing = yield from _standing(memory, candidate.id)
        again = remembered.next_due(trigger_from_json(standing.trigger), now, standing.expires_at)
        if again is not None and standing.status in remembered.OPEN_STATUSES:
            if standing.due_at <= now:
                yield from _changed(memory, "snooze", candidate.id, until=again)
            return True
    changed = yield from _changed(memory, "close_intention", candidate.id, status=status.value)
    if not changed:
        yield from _standing(memory, candidate.id)
    return changed


def _changed(memory: Memory, statement: str, number: int, **params: Any) -> Flow[bool]:
    moment = memory.tiered_store.flows.moment()
    about = {"tenant": memory.context.root, "id": number, "now": moment.now}
    return bool((yield from rows_of(statement, **about, **params)))


class _Standing(NamedTuple):
    """What an intention is; a row of intention, the columns are in this order."""

    status: Status
    expires_at: datetime | None
    trigger: Mapping[str, Any]
    due_at: datetime


def _standing(memory: Memory, number: int) -> Flow[_Standing]:
    moment = memory.tiered_store.flows.moment()
    about = {"tenant": memory.context.root, "id": number, "now": moment.now}
    rows = yield from rows_of("intention", **about)
    if not rows:
        raise InvalidInputError(
            "the memory is there, but nothing is intended by it: use reminders.add(…) in place of "
            "store(…)"
        )
    status, *others = rows[0]
    return _Standing(Status(status), *others)


_TOKEN: Final = re.compile(r"([0-9]+)\.([0-9]+)")
"""The id and the fence."""


def _names(value: Any, allowed: Sequence[str], what: str) -> list[str]:
    """One of these names, or several of them."""
    names = [value] if isinstance(value, str) else list(checked_list(value, what, "names"))
    for name in names:
        if not isinstance(name, str) or name not in allowed:
            raise InvalidInputError(f"there is no {what} {short(name)}: use {', '.join(allowed)}")
    return names


def _tool_calls(tool: Any) -> tuple[NextCall, ...]:
    """Tool calls of names, LangChain's tool calls, or several of either."""
    tools = [tool] if isinstance(tool, str | Mapping) else tool
    if not isinstance(tools, Iterable):
        raise InvalidTypeError(f"tool is a name, a tool call or several, not {short(tool)}")
    return tuple(map(_call, tools))


def _call(tool: Any) -> NextCall:
    call = {"name": tool} if isinstance(tool, str) else tool
    if not isinstance(call, Mapping) or not isinstance(call.get("name"), str):
        raise InvalidTypeError(f"a tool call is a mapping with a name and args, not {short(tool)}")
    utf8_bytes(call["name"], "name of the tool")
    args = call.get("args")
    return NextCall(call["name"], args if isinstance(args, Mapping) else {})


def _true_of(state: Any, predicates: Predicates | None) -> frozenset[str]:
    """The names of the predicates that hold of a state."""
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


_ABOUT: Final = 0.33
"""The match from which on a text is about what is intended, of a model that is not ours: where 1 to
3 turns of LoCoMo are, 17 to 37 % of the questions match the turn that answers them so well, and 0
to 2.5 % another."""
_SHOWS: Final = 0.35
"""The cosine, as our own models see it, from which on a text is about what is intended
(docs/reminders.md)."""
_MAY_SHOW: Final = 0.25
"""That from which on a judge is asked."""


def topics_of(
    memory: Memory, query: str, here: ScopeParams, *, judged: bool
) -> Flow[frozenset[str]]:
    """What was intended that a query is about."""
    text = head_and_tail(query, QUERY_CHARACTERS)
    if not memory.local:
        near = RecallQuery(
            query=text,
            bounds=recall_bounds(memory.context),
            limit=POOL,
            memory_types=[PROSPECTIVE],
            profile=PROFILES["match"],
        )
        recollections = yield from single(looked_up(memory, [near]))
        least = ABOUT if judged else _ABOUT  # nobody knows how near is near to another model
        return frozenset(
            Topic.from_content(recollection.content).about
            for recollection in recollections
            if recollection.match >= least
        )
    vectors = QueryVectors()
    yield from vectors.add([text], memory.tiered_store.options)
    waiting = yield from rows_of("topics_near", **here, query=vectors.get(text), limit=POOL)
    least, cosine = _MAY_SHOW if judged else _SHOWS, memory.tiered_store.flows.distance.cosine
    return frozenset(about for about, far in waiting if far is not None and cosine(far) >= least)
