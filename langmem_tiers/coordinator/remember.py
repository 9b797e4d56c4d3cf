"""Verbs that store memories, and pin those that every context shows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Unpack

from langmem_tiers.coordinator import recall
from langmem_tiers.coordinator.base import Memory, checked_memory_key
from langmem_tiers.core.config import DEFAULT_BOUNDS, Bounds
from langmem_tiers.core.errors import InvalidInputError, InvalidTypeError, short
from langmem_tiers.core.memory import Recollection, StoreResult, handle_of
from langmem_tiers.core.options import STORING_DEFAULTS, StoringOptions, document_options
from langmem_tiers.core.texts import LINE_LENGTH, shorten_line
from langmem_tiers.postgres.flow import Call, Flow, Query, single
from langmem_tiers.recall.matching import read_candidates, to_recollection
from langmem_tiers.recall.recall import recall_bounds, visibility
from langmem_tiers.remember.new_memory import NewMemory
from langmem_tiers.store.operations import to_tier

PINNED_TOKENS: Final = 300
"""Most tokens of a context's pins: our own choice."""
_MAY_BE_NONE: Final = "memory_type"
"""Argument whose None has a meaning: the type follows from the content."""
_GATE_FIELDS: Final = frozenset(("parts", "stored", "echoes", "held", "threshold"))
"""Fields of a new memory that only the gate sets."""
_STORE_FIELDS: Final = [name for name in NewMemory.__dataclass_fields__ if name not in _GATE_FIELDS]


@document_options(StoringOptions, STORING_DEFAULTS)
def store(
    memory: Memory,
    content: str,
    memory_type: str | None = "episodic",
    **options: Unpack[StoringOptions],
) -> Flow[StoreResult]:
    """Store a memory verbatim, unless the gate refuses it (docs/gate.md).

    The gate refuses small talk, repetitions of recalled memories and texts with a low score. It
    quarantines texts of a tool, a page or a file that instruct their reader: those are stored, and
    not recalled until they are released. The result has the verdict and the reason.

    Args:
        content: The text.
        memory_type: One of the registry's: `episodic`, `semantic`, `pattern`, …; with None it
            is `episodic`.
        options: Other fields of the memory; see `StoringOptions`.

    Raises:
        InvalidInputError: for what cannot be stored; nothing was.
    """
    new = new_memory(content, memory_type=memory_type, **options)
    return single(admit(memory, [new]))


def store_many(
    memory: Memory, memories: Iterable[Mapping[str, Any] | str]
) -> Flow[list[StoreResult]]:
    """Store several memories in one transaction; each is a text, or `store`'s arguments.

    A mapping may name its own `key`: storing it again then replaces it. A memory that the gate
    refuses is not stored, and its result has the reason; the others are stored.

    Raises:
        InvalidInputError: if one of them cannot be stored; nothing was.
    """
    return admit(memory, new_memories(memories, memory.tiered_store.options.bounds))


def admit(memory: Memory, memories: Sequence[NewMemory]) -> Flow[list[StoreResult]]:
    """Pass checked memories through the gate, and store them."""
    if any(new.pinned is True for new in memories):
        memories, _ = yield from memory.pipeline.validate(memories, memory.context)
        pins = [new.content for new in memories if new.pinned is True]
        yield from check_room(memory, "\n".join(pins))
    return (yield from memory.pipeline.admit(memories, memory.context))


def pinned(memory: Memory) -> Flow[list[Recollection]]:
    """Return the pins of the context's user and project, the oldest first.

    The call counts as no access.
    """
    store = memory.tiered_store.flows
    moment = store.moment()
    params = {
        **recall_bounds(memory.context),
        **visibility(moment),
    }
    (rows,) = yield Query((Call("pinned", params),), commit=True)
    return [
        to_recollection(candidate, 0.0, {}) for candidate in read_candidates(rows, store.distance)
    ]


def pin(memory: Memory, key: str) -> Flow[bool]:
    """Pin a memory: every context of its user or project shows it before the search results.

    A pinned memory does not expire and is not evicted. A context holds 300 tokens of pins.

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
    return _set_pinned(memory, checked_memory_key(key), on=True)


def unpin(memory: Memory, key: str) -> Flow[bool]:
    """Unpin a memory; return False if it was not pinned.

    It expires again as others of its tier do, counted from now on.

    Raises:
        InvalidInputError: if there is no such memory.
    """
    return _set_pinned(memory, checked_memory_key(key), on=False)


def check_room(memory: Memory, content: str, *, but: str | None = None) -> Flow[None]:
    """Check that a text has room among the pins, not counting the pin of the key `but`.

    Raises:
        InvalidInputError: if it has none; the message names what to unpin.
    """
    pins = [
        pinned_memory for pinned_memory in (yield from pinned(memory)) if pinned_memory.key != but
    ]
    taken = sum(memory.count_tokens(pin_.content) for pin_ in pins)
    if taken + (more := memory.count_tokens(content)) > PINNED_TOKENS:
        raise InvalidInputError(_no_room_text(pins, taken, more))


def _no_room_text(pins: Sequence[Recollection], taken: int, more: int) -> str:
    if not pins:
        return (
            f"a pin of {more} tokens is too long, of {PINNED_TOKENS} at most: say it in a sentence"
        )
    named = "; ".join(
        f"[{handle_of(pin_.namespace, pin_.key)}] {shorten_line(pin_.content, LINE_LENGTH)}"
        for pin_ in pins
    )
    return (
        f"pins have room for {PINNED_TOKENS} tokens, {taken} are taken, and this takes {more}: "
        f"unpin one of these first: {named}"
    )


def _set_pinned(memory: Memory, named: str, *, on: bool) -> Flow[bool]:
    candidate = yield from recall.find_memory(memory, named)
    if on and candidate.value.get("pinned") is not True:
        current = yield from recall.read_current(memory, [candidate.place])
        if not current:
            raise InvalidInputError(
                f"the memory {candidate.key!r} is not current, and cannot be pinned: see history"
            )
        yield from check_room(memory, current[0].content)
    params = {
        "tenant": candidate.tenant,
        "id": candidate.id,
        "pinned": on,
        "now": memory.tiered_store.flows.now,
    }
    (rows,) = yield Query((Call("pin", params),), commit=True)
    return bool(rows)


def new_memories(
    memories: Iterable[Mapping[str, Any] | str], bounds: Bounds = DEFAULT_BOUNDS
) -> list[NewMemory]:
    """Return new memories of the arguments of `store_many`: texts or mappings."""
    if isinstance(memories, str | Mapping) or not isinstance(memories, Iterable):
        raise InvalidTypeError("store_many takes a list of memories; for one, use store")
    checked = []
    for entry in bounds.checked_batch(memories):
        if isinstance(entry, str):
            checked.append(NewMemory(content=entry))
            continue
        if not isinstance(entry, Mapping):
            raise InvalidTypeError(
                f"a memory is a text or a mapping of store's arguments, not {type(entry).__name__}"
            )
        named: Mapping[Any, Any] = entry
        checked.append(
            new_memory(
                **{
                    name if isinstance(name, str) else short(name): value
                    for name, value in named.items()
                }
            )
        )
    return checked


def new_memory(content: str = "", **fields: Any) -> NewMemory:
    """Return a new memory of the arguments of `store`, which says what they mean."""
    arguments: dict[str, Any] = {}
    for name, value in fields.items():
        if name not in _STORE_FIELDS:
            raise InvalidTypeError(
                f"store takes no {short(name)}: use one of {', '.join(_STORE_FIELDS)}"
            )
        if value is not None or name == _MAY_BE_NONE:
            arguments[name] = value
    if "tier" in arguments:
        arguments["tier"] = to_tier(arguments["tier"])
    return NewMemory(content=content, **arguments)
