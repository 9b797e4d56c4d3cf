"""The verbs by which a memory is pinned: shown in every context, before what is searched for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.core.handles import handle_of
from langmem_tiers.core.memory import Recollection
from langmem_tiers.core.reading import LINE, shortened
from langmem_tiers.memory.asking import memory_key
from langmem_tiers.memory.base import Memory
from langmem_tiers.postgres.flow import Call, Flow, Query
from langmem_tiers.recall.candidates import read_columns, recollection
from langmem_tiers.recall.inquiry import reach, visibility

PINNED_TOKENS: Final = 300
"""Tokens of all that a context has pinned: our own choice."""


def pinned(memory: Memory) -> Flow[list[Recollection]]:
    """Return what is pinned for the context's user and project, the oldest first.

    Nothing counts as accessed by that.
    """
    store = memory.tiered_store.flows
    moment = store.moment()
    params = {
        **reach(memory.context).bounds,
        "alive_at": moment.alive_at,
        **visibility(moment.now),
    }
    (rows,) = yield Query((Call("pinned", params),), commit=True)
    return [recollection(one, 0.0, {}) for one in read_columns(rows, store.distance)]


def pin(memory: Memory, key: str) -> Flow[bool]:
    """Show a memory in every context of its user or project, before what is searched for.

    What is pinned does not expire, and makes room for nothing. A context holds 300 tokens of pins.

    Args:
        key: The key of the memory, or its handle.

    Returns:
        False if it was pinned already.

    Raises:
        InvalidInputError: if there is no such memory, it is not current, or the pins have no room
            for it; the message names what to unpin.

    Example:
        ```python
        memory.store("Allergic to peanuts", memory_type="semantic", key="peanuts")
        memory.pin("peanuts")
        print(memory.pinned())
        ```
    """
    return _set(memory, memory_key(key), on=True)


def unpin(memory: Memory, key: str) -> Flow[bool]:
    """Let a pinned memory be one like any other; False if it was not pinned.

    It expires again as others of its tier do, counted from now on.

    Raises:
        InvalidInputError: if there is no such memory.
    """
    return _set(memory, memory_key(key), on=False)


def check_room(memory: Memory, content: str) -> Flow[None]:
    """Check that a text has room among the pins.

    Raises:
        InvalidInputError: if it has not; the message names what to unpin.
    """
    pins = yield from pinned(memory)
    taken = sum(memory.count_tokens(one.content) for one in pins)
    if taken + (more := memory.count_tokens(content)) > PINNED_TOKENS:
        raise InvalidInputError(_full(pins, taken, more))


def _full(pins: Sequence[Recollection], taken: int, more: int) -> str:
    if not pins:
        return (
            f"a pin of {more} tokens is too long, of {PINNED_TOKENS} at most: say it in a sentence"
        )
    named = "; ".join(
        f"[{handle_of(one.namespace, one.key)}] {shortened(one.content, LINE)}" for one in pins
    )
    return (
        f"pins have room for {PINNED_TOKENS} tokens, {taken} are taken, and this takes {more}: "
        f"unpin one of these first: {named}"
    )


def _set(memory: Memory, named: str, *, on: bool) -> Flow[bool]:
    one = yield from memory.flows.known(named, memory.context)
    if on and one.value.get("pinned") is not True:
        current = yield from memory.flows.standing([one.place], memory.context)
        if not current:
            raise InvalidInputError(
                f"the memory {one.key!r} is not current, and cannot be pinned: see history"
            )
        yield from check_room(memory, current[0].content)
    params = {
        "tenant": one.tenant,
        "id": one.id,
        "pinned": on,
        "now": memory.tiered_store.flows.now,
    }
    (rows,) = yield Query((Call("pin", params),), commit=True)
    return bool(rows)
