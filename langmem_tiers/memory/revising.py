"""The verbs by which a coordinator revises what is known, deletes it, or asks how it came to be."""

from __future__ import annotations

from dataclasses import replace

from langmem_tiers.consolidate import truth
from langmem_tiers.consolidate.restore import ArchivedAt, archived_as
from langmem_tiers.consolidate.truth import History, Restoration, Retraction, Revising
from langmem_tiers.core.errors import InvalidInputError, InvalidTypeError
from langmem_tiers.core.memory import TIERS, Tier
from langmem_tiers.core.namespaces import Place, utf8_bytes
from langmem_tiers.memory.asking import memory_key
from langmem_tiers.memory.base import Memory
from langmem_tiers.memory.flows import meant
from langmem_tiers.postgres.flow import Call, Flow, Query
from langmem_tiers.recall.candidates import Candidate
from langmem_tiers.recall.recall import find
from langmem_tiers.remember.new import checked_text, label
from langmem_tiers.remember.transaction import write
from langmem_tiers.store.write import Write


def supersede(memory: Memory, key: str, *, by: str) -> Flow[str]:
    """Say that a memory was true until another one began to be; the move, for `rollback`.

    It leaves recall where that one begins: at its `valid_from`, else when it happened or was
    recorded. `get_context(as_of=…)` finds it for any moment before.

    Args:
        key: Of the older memory.
        by: The key of the newer one.

    Raises:
        InvalidInputError: if there is no such memory, either is not current, or the newer one
            began before the older.
    """
    old = yield from memory.flows.known(memory_key(key), memory.context)
    new = yield from memory.flows.known(memory_key(by), memory.context)
    return (yield from truth.supersede(old, new, _revising(memory)))


def retract(memory: Memory, key: str, *, reason: str) -> Flow[Retraction]:
    """Say that what a memory holds never was so.

    It leaves recall, and with it all that came from it, directly or not: what was derived
    from it, and what it was promoted, merged or generalised to. That is `suspect`, and so is
    whatever is derived from it later. It is one transaction. Done again it changes nothing.

    Args:
        key: Of the memory.
        reason: Why, for its history.

    Raises:
        InvalidInputError: if there is no such memory.
    """
    why = checked_text(reason, "reason")
    one = yield from memory.flows.known(memory_key(key), memory.context)
    return (yield from truth.retract(one, why, _revising(memory)))


def restore(memory: Memory, key: str) -> Flow[Restoration]:
    """Undo the retraction of a memory.

    The tables are then as they were before: what came from it is what it was, unless
    something else that it came from is retracted too.

    Raises:
        InvalidInputError: if there is no such memory, it is not retracted, or it is suspect
            on account of another one.
    """
    one = yield from memory.flows.known(memory_key(key), memory.context)
    return (yield from truth.restore(one, _revising(memory)))


def history(memory: Memory, key: str) -> Flow[History]:
    """What a memory superseded and was superseded by, and what was done to it.

    Of what was rejected or made room it says that, and why.

    Raises:
        InvalidInputError: if there is no such memory, and was none.
    """
    utf8_bytes(memory_key(key), "key")
    try:
        one = yield from memory.flows.known(key, memory.context)
    except InvalidInputError:
        gone = yield from truth.history_of_gone(key, memory.context)
        if gone is None:
            raise
        return gone
    return (yield from truth.history(one, memory.context))


def _revising(memory: Memory) -> Revising:
    return Revising(memory.context.root, memory.tiered_store.options, memory.tiered_store.flows.now)


def delete_memory(memory: Memory, key: str) -> Flow[bool]:
    """Delete the memory that `get` would return, or an archived one; False if none is.

    What was merged with it says the same, and goes as well; so does what was promoted with it
    and says the same in the same place. What it was promoted to is everybody's, and stays.
    """
    store, context = memory.tiered_store.flows, memory.context
    found = yield from find(context.root, key, TIERS, store)
    one: Candidate | ArchivedAt | None = meant(found, key, context)
    if one is None:
        one = meant((yield from archived_as(context.root, key)), key, context)
    if one is not None:
        gone = Write(place=Place(one.tenant, one.namespace), key=one.key, value=None)
        reach = context.namespace(Tier.WORKING)
        yield from write([replace(gone, twins="go", reach=reach)], store)
    return one is not None


def clear_working_memory(memory: Memory, session_id: str) -> Flow[int]:
    """Delete a session's memories of type `working`, in whatever tier; how many.

    Of the context's project, or of all if it names none. The working tier is not touched
    otherwise.
    """
    if label(session_id, "session_id") is None:
        raise InvalidTypeError("session_id is a string: name the session")
    tenant = memory.context.root
    params = {
        "tenant": tenant,
        "project_id": memory.context.project_id,
        "session": session_id,
        "memory_type": "working",
    }
    (rows,) = yield Query((Call("session_keys", params),), commit=True)
    writes = [Write(place=Place(tenant, row[0]), key=row[1], value=None) for row in rows]
    yield from write(writes, memory.tiered_store.flows)
    return len(writes)
