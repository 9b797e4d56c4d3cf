"""The verbs by which memory is tended: a session's end, its notes, and what the gate held back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple

from langchain_core.language_models import BaseChatModel

from langmem_tiers.consolidate.models import summariser_of
from langmem_tiers.consolidate.session_end import (
    EndedSession,
    SessionReport,
    end_session,
    read_notes,
)
from langmem_tiers.consolidate.steps import Cycle
from langmem_tiers.core.checks import (
    checked_flag,
    checked_instance,
    checked_label,
    checked_name,
    parsed_moment,
)
from langmem_tiers.core.errors import InvalidInputError, InvalidTypeError
from langmem_tiers.core.memory import Place, Tier, encode_namespace
from langmem_tiers.memory import recalling
from langmem_tiers.memory.base import Memory, checked_limit
from langmem_tiers.postgres.flow import Call, Flow, Query
from langmem_tiers.remember import quarantine
from langmem_tiers.remember.new import checked_text
from langmem_tiers.remember.quarantine import Quarantined, Released, Ruling
from langmem_tiers.remember.room import Located
from langmem_tiers.remember.transaction import commit_writes
from langmem_tiers.store.write import Write


class SessionNote(NamedTuple):
    """What a session noted: a memory of type `working`."""

    key: str
    content: str
    at: datetime
    """When it happened, or was noted."""
    state: str | None
    """None is current."""
    value: Mapping[str, Any]
    """The whole stored value."""


def consolidate_session(
    memory: Memory, session_id: str | None = None, *, model: BaseChatModel | None = None
) -> Flow[SessionReport]:
    """End a session: keep what it noted, and clear its notes, the memories of type `working`.

    A note is lifted that is pinned, that somebody told to be important (0.7 or more), or that was
    recalled in more than one turn: it becomes a `semantic` memory of the project. The rest is left
    as it is told in the digest: all notes, in their own words and order and with their times, in
    one `episodic` memory; beyond 8,000 characters it goes on in another one. What else of the
    session is in short_term moves to working. All of it is one transaction, and done again it
    changes nothing.

    It is the session of the context's project, or of all if it names none. Of a user's session it
    is what that user noted, and what is shared.

    Args:
        session_id: The session; the context's if not given.
        model: A chat model that adds a summary to the digest, and says what was learned.
            Everything it says names the notes it comes from. It also reads what was said in the
            session and stays (`episodic`, with a speaker), once.

    Raises:
        ConflictError: if somebody kept on noting meanwhile; nothing was changed.
        InvalidInputError: if no session is named.
        ModelError: if the model gave nothing usable; nothing was changed.

    Example:
        ```python
        from langmem_tiers import MemoryContext, MemoryCoordinator, TieredStore

        context = MemoryContext(tenant="acme", project_id="billing", session_id="chat-7")
        with TieredStore.embedded("./.memory") as store:
            memory = MemoryCoordinator(store, context=context)
            memory.store("The invoice API times out after 30 s", memory_type="working")
            print(memory.admin.consolidate_session())
        ```
    """
    return session_ended(memory, session_id, model)


def session_ended(
    memory: Memory, session_id: str | None, model: BaseChatModel | None, *, stated: bool = False
) -> Flow[SessionReport]:
    """End a session; what the user `stated` is lifted too, if the hook of specifications asks."""
    summariser = None if model is None else summariser_of(model)
    ending = _ending(memory, session_id)._replace(summariser=summariser, stated=stated)
    yield from memory.tiered_store.flows.flush()  # what was read a moment ago counts
    yield from memory.tiered_store.flows.refresh_state()
    return (yield from end_session(ending))


def session_notes(memory: Memory, session_id: str | None = None) -> Flow[list[SessionNote]]:
    """What a session has noted so far, in order; nothing counts as accessed by looking.

    It is the session of the context's project, or of all if it names none.

    Args:
        session_id: The session; the context's if not given.

    Raises:
        InvalidInputError: if no session is named.
    """
    notes = yield from read_notes(_ending(memory, session_id))
    return [
        SessionNote(note.key, note.content, note.happened_at, note.state, note.value)
        for note in notes
    ]


def session_of(memory: Memory, session_id: str | None) -> str:
    """Return the session that is named, else the context's.

    Raises:
        InvalidInputError: if neither names one.
    """
    session = checked_label(session_id, "session_id") or memory.context.session_id
    if session is None:
        raise InvalidInputError("no session is named: pass session_id, or a context with one")
    return session


def _ending(memory: Memory, session_id: str | None) -> EndedSession:
    session = session_of(memory, session_id)
    project = memory.context.project_id
    own = replace(memory.context, session_id=session).places(Tier.SHORT_TERM)
    moment = memory.tiered_store.flows.moment()
    cycle = Cycle(
        tenant=memory.context.root,
        cycle=f"{session} {moment.now.isoformat()}",
        moment=moment,
        options=memory.tiered_store.options,
    )
    return EndedSession(
        cycle=cycle,
        session=session,
        projects=None if project is None else [project],
        namespaces=[encode_namespace(place).namespace for place in own],
        user_id=memory.context.user_id,
    )


def clear_working_memory(memory: Memory, session_id: str) -> Flow[int]:
    """Delete a session's memories of type `working`, in whatever tier; how many.

    Of the context's project, or of all if it names none. The working tier is not touched
    otherwise.
    """
    checked_name(session_id, "session_id")
    tenant = memory.context.root
    params = {
        **memory.context.whose,
        "project_id": memory.context.project_id,
        "session": session_id,
        "memory_type": "working",
    }
    (rows,) = yield Query((Call("session_keys", params),), commit=True)
    writes = [Write(place=Place(tenant, row[0]), key=row[1], value=None) for row in rows]
    yield from commit_writes(writes, memory.tiered_store.flows)
    return len(writes)


def list_quarantined(
    memory: Memory, *, limit: int = 100, after: Quarantined | None = None, own: bool = False
) -> Flow[list[Quarantined]]:
    """What of the project is stored and not recalled, oldest first, and why.

    It is what the context's project keeps, and what is everybody's in the tenant; of a context
    that names no project, all of the tenant. So are `release`, `reject` and `decisions`.

    Args:
        limit: Memories at most, 0 to 1,000.
        after: The last one of the page before; the oldest come first if not given.
        own: Only what a recall in this context would see, if it were released.

    Example:
        ```python
        for one in memory.admin.list_quarantined():
            print(one.source, one.content, one.reason)
        ```
    """
    if after is not None:
        checked_instance(after, Quarantined, "after, the last memory of the page before,")
    return quarantine.list_quarantined(
        memory.context,
        memory.tiered_store.flows.moment(),
        checked_limit(limit),
        after=after,
        own=checked_flag(own, "own"),
    )


def release(
    memory: Memory, key: str, *, reason: str, version: datetime | None = None
) -> Flow[Released]:
    """Let a quarantined memory be recalled, trusted just as much as its type needs.

    Nothing else raises the trust in a memory. What was derived from it, or what it lives on in,
    stays quarantined until it is released itself.

    Args:
        key: Of the memory.
        reason: Why, for its history.
        version: The `version` of it that was looked at; any, if not given.

    Raises:
        InvalidInputError (not_quarantined): if there is no such memory, or it is not quarantined.
        InvalidInputError: if several beside the context's own have the key.
        ConflictError: if it was written since that version; nothing was done.
    """
    why, seen = checked_text(reason, "reason"), _version(version)
    located = yield from _meant(memory, key)
    policy = memory.gate.policy.trust
    options, moment = memory.tiered_store.options, memory.tiered_store.flows.moment()
    return (
        yield from quarantine.release_memory(located, why, policy, options, moment, version=seen)
    )


def reject(memory: Memory, key: str, *, reason: str, version: datetime | None = None) -> Flow[str]:
    """Delete a quarantined memory; the event that says why, which `history` shows.

    Args:
        key: Of the memory.
        reason: Why, for its history.
        version: The `version` of it that was looked at; any, if not given.

    Raises:
        InvalidInputError (not_quarantined): if there is no such memory, or it is not quarantined.
        InvalidInputError: if several beside the context's own have the key.
        ConflictError: if it was written since that version; nothing was done.
    """
    why, seen = checked_text(reason, "reason"), _version(version)
    located = yield from _meant(memory, key)
    options, moment = memory.tiered_store.options, memory.tiered_store.flows.moment()
    return (yield from quarantine.reject_memory(located, why, options, moment, version=seen))


def decisions(memory: Memory, since: Mapping[int, datetime]) -> Flow[dict[int, Ruling]]:
    """What somebody decided first of what was quarantined, each since that moment, by `id`.

    What nobody has decided is left out.

    Args:
        since: For each `id`, from when on: its `quarantined_at`, as a rule.

    Raises:
        InvalidInputError: for anything but ids and moments with a time zone.

    Example:
        ```python
        held = memory.admin.list_quarantined()
        decided = memory.admin.decisions({one.id: one.quarantined_at for one in held})
        ```
    """
    ids: object = since  # of any type, whatever it says
    if not isinstance(ids, Mapping) or not all(type(number) is int for number in ids):
        raise InvalidTypeError("decisions wants {one.id: one.quarantined_at, …}")
    moments = {each: parsed_moment(at, "since") for each, at in since.items()}
    return quarantine.list_decisions(memory.context, moments)


def _version(value: datetime | None) -> datetime | None:
    what = "the version that list_quarantined told"
    return None if value is None else checked_instance(value, datetime, what)


def _meant(memory: Memory, key: str) -> Flow[Located]:
    context = memory.context
    candidate = yield from recalling.known(
        memory, key, "not_quarantined", everywhere=context.project_id is None
    )
    return Located(Place(candidate.tenant, candidate.namespace), candidate.key, candidate.id)
