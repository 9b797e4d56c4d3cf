"""Verbs for ends of sessions, their notes, and quarantined memories."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple

from langchain_core.language_models import BaseChatModel

from langmem_tiers.consolidation.judges import summariser_of
from langmem_tiers.consolidation.session_end import (
    EndedSession,
    SessionReport,
    end_session,
    read_notes,
)
from langmem_tiers.consolidation.steps import Cycle
from langmem_tiers.coordinator import recall
from langmem_tiers.coordinator.base import Memory, checked_limit
from langmem_tiers.core.checks import (
    checked_flag,
    checked_instance,
    checked_label,
    checked_name,
    parsed_moment,
)
from langmem_tiers.core.errors import InvalidInputError, InvalidTypeError
from langmem_tiers.core.memory import Place, Tier, encode_namespace
from langmem_tiers.postgres.flow import Call, Flow, Query
from langmem_tiers.remember import quarantine
from langmem_tiers.remember.capacity import Located
from langmem_tiers.remember.commit import commit_writes
from langmem_tiers.remember.new_memory import checked_text
from langmem_tiers.remember.quarantine import Quarantined, Released, Ruling
from langmem_tiers.store.write import Write


class SessionNote(NamedTuple):
    """Note of a session: a memory of type `working`."""

    key: str
    content: str
    at: datetime
    """Time at which it happened, or was noted."""
    state: str | None
    """State of the memory; None is current."""
    value: Mapping[str, Any]
    """Whole stored value."""


def consolidate_session(
    memory: Memory, session_id: str | None = None, *, model: BaseChatModel | None = None
) -> Flow[SessionReport]:
    """End a session: lift its notes, digest them, and clear them (memories of type `working`).

    A note is lifted if it is pinned, if it was stored as important (0.7 or more), or if it was
    recalled in more than one turn: it becomes a `semantic` memory of the project. The digest is one
    `episodic` memory of all notes, verbatim, in order and with their times; beyond 8,000 characters
    it goes on in another one. The session's other memories in short_term move to working. All of it
    is one transaction, and repeating it changes nothing.

    It ends the session of the context's project, or of all projects if it names none. With a user,
    it covers the notes of that user and shared ones.

    Args:
        session_id: The session; the context's if not given.
        model: A chat model that adds a summary to the digest, and says what was learned.
            Each of its statements names its notes. It also reads the session's conversation once
            (`episodic`, with a speaker), which stays.

    Raises:
        ConflictError: if others kept adding notes meanwhile; nothing was changed.
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
    return end_session_of(memory, session_id, model)


def end_session_of(
    memory: Memory, session_id: str | None, model: BaseChatModel | None, *, stated: bool = False
) -> Flow[SessionReport]:
    """End a session; with `stated`, as the hook asks, lift the user's statements too."""
    summariser = None if model is None else summariser_of(model)
    ending = _make_ending(memory, session_id)._replace(summariser=summariser, stated=stated)
    yield from memory.tiered_store.flows.flush()  # recent reads count
    yield from memory.tiered_store.flows.refresh_state()
    return (yield from end_session(ending))


def session_notes(memory: Memory, session_id: str | None = None) -> Flow[list[SessionNote]]:
    """Return the notes of a session so far, in order; the call counts as no access.

    They are notes of the context's project, or of all projects if it names none.

    Args:
        session_id: The session; the context's if not given.

    Raises:
        InvalidInputError: if no session is named.
    """
    notes = yield from read_notes(_make_ending(memory, session_id))
    return [
        SessionNote(note.key, note.content, note.happened_at, note.state, note.value)
        for note in notes
    ]


def checked_session(memory: Memory, session_id: str | None) -> str:
    """Return this session, else the context's.

    Raises:
        InvalidInputError: if neither names one.
    """
    session = checked_label(session_id, "session_id") or memory.context.session_id
    if session is None:
        raise InvalidInputError("no session is named: pass session_id, or a context with one")
    return session


def _make_ending(memory: Memory, session_id: str | None) -> EndedSession:
    session = checked_session(memory, session_id)
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
    """Delete a session's memories of type `working`, in every tier; return their count.

    They are those of the context's project, or of all if it names none. The call changes nothing
    else in the working tier.
    """
    checked_name(session_id, "session_id")
    tenant = memory.context.root
    params = {
        **memory.context.scope_params,
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
    """Return the project's quarantined memories, oldest first, each with its reason.

    They are those of the context's project and those shared in the tenant; without a project, all
    of the tenant. `release`, `reject` and `decisions` cover the same.

    Args:
        limit: Most memories, 0 to 1,000.
        after: The last one of the page before; the oldest come first if not given.
        own: Only memories that a recall in this context would see after a release.

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
    """Release a quarantined memory: it can be recalled, with the least trust that its type needs.

    Nothing else raises the trust in a memory. Memories derived from it or merged with it stay
    quarantined until they are released themselves.

    Args:
        key: The key of the memory.
        reason: The reason, for its history.
        version: The `version` of it that the decision is about; any, if not given.

    Raises:
        InvalidInputError (not_quarantined): if there is no such memory, or it is not quarantined.
        InvalidInputError: if several beside the context's own have the key.
        ConflictError: if it was written since that version; nothing was done.
    """
    why, seen = checked_text(reason, "reason"), _checked_version(version)
    located = yield from _find_quarantined(memory, key)
    policy = memory.gate.policy.trust
    options, moment = memory.tiered_store.options, memory.tiered_store.flows.moment()
    return (
        yield from quarantine.release_memory(located, why, policy, options, moment, version=seen)
    )


def reject(memory: Memory, key: str, *, reason: str, version: datetime | None = None) -> Flow[str]:
    """Delete a quarantined memory; return the id of the event with the reason, for `history`.

    Args:
        key: The key of the memory.
        reason: The reason, for its history.
        version: The `version` of it that the decision is about; any, if not given.

    Raises:
        InvalidInputError (not_quarantined): if there is no such memory, or it is not quarantined.
        InvalidInputError: if several beside the context's own have the key.
        ConflictError: if it was written since that version; nothing was done.
    """
    why, seen = checked_text(reason, "reason"), _checked_version(version)
    located = yield from _find_quarantined(memory, key)
    options, moment = memory.tiered_store.options, memory.tiered_store.flows.moment()
    return (yield from quarantine.reject_memory(located, why, options, moment, version=seen))


def decisions(memory: Memory, since: Mapping[int, datetime]) -> Flow[dict[int, Ruling]]:
    """Return the first decision on each quarantined memory since its moment, by `id`.

    Memories without a decision are left out.

    Args:
        since: The moment for each `id`: its `quarantined_at`, as a rule.

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


def _checked_version(value: datetime | None) -> datetime | None:
    what = "the version that list_quarantined told"
    return None if value is None else checked_instance(value, datetime, what)


def _find_quarantined(memory: Memory, key: str) -> Flow[Located]:
    context = memory.context
    candidate = yield from recall.find_memory(
        memory, key, "not_quarantined", everywhere=context.project_id is None
    )
    return Located(Place(candidate.tenant, candidate.namespace), candidate.key, candidate.id)
