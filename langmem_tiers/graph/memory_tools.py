"""The three tools by which a model keeps the memory of its run's context.

Each answers in one line what it did. What was done is also in the artifact of the answer, from
which the middleware tells the turn's result.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final, Literal, TypeAlias
from uuid import NAMESPACE_OID, uuid4, uuid5

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config
from pydantic import BaseModel, ConfigDict, Field
from pydantic.json_schema import SkipJsonSchema

from langmem_tiers.core import prompts
from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.core.handles import bracketed, handle_of
from langmem_tiers.core.memory import (
    ASSISTANT_ROLES,
    THRESHOLD,
    USER_ROLES,
    Recollection,
    Source,
    StoreResult,
)
from langmem_tiers.core.namespaces import encode
from langmem_tiers.core.reading import LINE, shortened
from langmem_tiers.core.types import REFLEXION
from langmem_tiers.core.values import source_of, trust_of
from langmem_tiers.graph.extra import get_runtime
from langmem_tiers.graph.heard import messages_so_far
from langmem_tiers.graph.messages import failures_at_hand
from langmem_tiers.graph.node import last_question
from langmem_tiers.graph.runs import Remembered, asked
from langmem_tiers.graph.speakers import speakers_in, trusting
from langmem_tiers.graph.spoken import key_of
from langmem_tiers.learn.reflexion import failure_fields
from langmem_tiers.memory.coordinator import MemoryCoordinator
from langmem_tiers.postgres.flow import Flow
from langmem_tiers.recall.fence import long_day, quoted, recalled_text
from langmem_tiers.recall.question import SMALL_TALK, TALKS
from langmem_tiers.remind.triggers import At

Action = Literal["create", "update", "delete"]
Kind = Literal["fact", "event", "procedure", "lesson"]
Reminding = Literal["set", "done", "snooze", "cancel"]
Told: TypeAlias = tuple[str, dict[str, Any]]
"""What a tool answers: a line for the model, and what was done, for the turn's result."""

_TYPES: Final = {
    "fact": "semantic",
    "event": "episodic",
    "procedure": "procedural",
    "lesson": REFLEXION,
}
THIS: Final = "this"
"""By which a model names the message that it answers."""
_KNOWN: Final = 20
"""Memories that tell what is known of a user, where nothing is asked: our own choice."""


def _optional(description: str | None = None) -> Any:
    """Make a field that may be left out; the model may send null as well."""
    return Field(None, description=description)


Text: TypeAlias = str | SkipJsonSchema[None]


class SearchMemory(BaseModel):
    """What `search_memory` takes."""

    model_config = ConfigDict(title="search_memory")

    query: str = Field(description="Empty lists the newest")
    about: Literal["user"] | SkipJsonSchema[None] = _optional("Known of the user")
    limit: int = Field(10, ge=1, le=50)


class ManageMemory(BaseModel):
    """What `manage_memory` takes."""

    model_config = ConfigDict(title="manage_memory")

    action: Action
    content: Text = _optional()
    id: Text = _optional("Or 'this' message")
    kind: Kind | SkipJsonSchema[None] = _optional()
    pin: bool | SkipJsonSchema[None] = _optional("Show it always")


class ManageReminder(BaseModel):
    """What `manage_reminder` takes."""

    model_config = ConfigDict(title="manage_reminder")

    action: Reminding
    content: Text = _optional()
    id: Text = _optional()
    at: Text = _optional("ISO 8601, local")
    every: Text = _optional("RFC 5545 rule")
    cue: Text = _optional("When these words come up")
    before_tool: Text = _optional()


def search(
    memory: MemoryCoordinator, query: str, about: str | None, limit: int
) -> Flow[tuple[str, list[dict[str, Any]]]]:
    """Find memories for a model; what is known of a user are pins and what the user said."""
    pins: Sequence[Recollection] = ()
    options: dict[str, Any] = {"limit": limit, "deduplicate": True, "min_match": 0}
    if about == "user":
        options["filter"] = {"speaker": {"$nin": sorted(ASSISTANT_ROLES)}}
        pins = yield from asked(memory.pinned, memory.apinned)
        options["exclude"] = [one.key for one in pins]
        options["limit"] = limit if query.strip() else max(limit, _KNOWN)
    found = yield from asked(memory.get_context, memory.aget_context, query, **options)
    told = [one for one in found if about is None or _tells(one)]
    text = recalled_text(told, pinned=pins, now=memory.now, asked=query or None)
    return text or prompts.NOTHING_FOUND, [dict(one.value) for one in (*pins, *told)]


def _tells(one: Recollection) -> bool:
    talk = one.value.get(SMALL_TALK)
    return not isinstance(talk, int | float) or talk < TALKS


def manage(
    memory: MemoryCoordinator,
    config: RunnableConfig,
    *,
    action: Action,
    content: str | None,
    named: str | None,
    kind: Kind | None,
    pin: bool | None,
    call: str | None,
) -> Flow[Told]:
    """Create, update or delete a memory, as a model decides.

    Raises:
        InvalidInputError: for what cannot be, in words for the model; nothing was changed.
    """
    if action == "create":
        if named is not None:
            raise InvalidInputError(prompts.NO_ID_TO_CREATE)
        if content is None:
            raise InvalidInputError(prompts.CONTENT_NEEDED.format(action=action))
        return (yield from _created(memory, config, content, kind, pin=bool(pin), call=call))
    if named is None:
        raise InvalidInputError(prompts.ID_NEEDED.format(action=action))
    if action == "update" and content is None and pin is None:
        raise InvalidInputError(prompts.CONTENT_NEEDED.format(action=action))
    messages = messages_so_far(config)
    trust = yield from trusting(messages, memory.gate, config)
    if named == THIS:
        question = last_question(messages)
        named = THIS if question is None else key_of(question, config)
    old = yield from _meant(memory, config, named, action, trust)
    if action == "delete":
        return (yield from _deleted(memory, old))
    if content is None:
        return (yield from _pinned(memory, old, on=bool(pin)))
    return (yield from _updated(memory, config, old, content, kind, pin=pin, call=call))


def _created(
    memory: MemoryCoordinator,
    config: RunnableConfig,
    content: str,
    kind: Kind | None,
    *,
    pin: bool,
    call: str | None,
    memory_type: str | None = None,
) -> Flow[Told]:
    of_type = memory_type or _TYPES[kind or "fact"]
    result = yield from _noted(memory, config, content, of_type, pin=pin, call=call)
    if not result.stored:
        return prompts.NOT_STORED.format(reason=result.reason), {}
    handle = yield from _handle_of_key(memory, str(result.key))
    if result.quarantined:
        held = {"quarantined": [{"key": result.key, "handle": handle, "reason": result.reason}]}
        return prompts.HELD_BACK.format(id=handle, reason=result.reason), held
    word = "Pinned" if pin else "Noted"
    return f"{word} as {bracketed(handle)}.", {"noted": [{"key": result.key, "handle": handle}]}


def _noted(
    memory: MemoryCoordinator,
    config: RunnableConfig,
    content: str,
    memory_type: str,
    *,
    pin: bool,
    call: str | None,
) -> Flow[StoreResult]:
    """Store what a model notes: as its own word, trusted no further than what it has heard."""
    messages = messages_so_far(config)
    trust = yield from trusting(messages, memory.gate, config)
    options: dict[str, Any] = {
        "memory_type": memory_type,
        "source": Source.AGENT.value,
        "trust": trust,
        "key": _key_of(call),
        "pinned": pin,
    }
    if memory_type == REFLEXION:
        failed = failures_at_hand(messages)
        options["personal"] = None if memory.context.user_id is None else True
        if failed:
            options["further"] = failure_fields(failed[0])
    return (yield from asked(memory.store, memory.astore, content, **options))


def _key_of(call: str | None) -> str:
    """Return a key that a repeated call has too."""
    return str(uuid4() if call is None else uuid5(NAMESPACE_OID, call))


def _updated(
    memory: MemoryCoordinator,
    config: RunnableConfig,
    old: Recollection,
    content: str,
    kind: Kind | None,
    *,
    pin: bool | None,
    call: str | None,
) -> Flow[Told]:
    """Store what is so now, and let it take the place of what was; a pin goes with it."""
    memory_type = None if kind is not None else old.memory_type
    said, done = yield from _created(
        memory, config, content, kind, pin=False, call=call, memory_type=memory_type
    )
    if "noted" not in done:
        return said, done
    (new,) = done["noted"]
    move = yield from asked(memory.supersede, memory.asupersede, old.key, by=new["key"])
    if pin or (pin is None and old.value.get("pinned") is True):
        yield from asked(memory.pin, memory.apin, new["key"])  # the old one's room is free now
    handle = handle_of(old.namespace, old.key)
    revised = {"superseded": old.key, "handle": handle, "move": move}
    text = prompts.MEMORY_UPDATED.format(new=bracketed(new["handle"]), old=bracketed(handle))
    return text, {**done, "revised": [revised]}


def _deleted(memory: MemoryCoordinator, old: Recollection) -> Flow[Told]:
    why: Any = {"reason": prompts.MODEL_DELETED, "answers": True}
    retraction = yield from asked(memory.retract, memory.aretract, old.key, **why)
    handle = handle_of(old.namespace, old.key)
    revised = {"retracted": old.key, "handle": handle, "move": retraction.move}
    said = quoted(shortened(old.content, LINE))
    return prompts.MEMORY_DELETED.format(id=bracketed(handle), said=said), {"revised": [revised]}


def _pinned(memory: MemoryCoordinator, old: Recollection, *, on: bool) -> Flow[Told]:
    call, acall = (memory.pin, memory.apin) if on else (memory.unpin, memory.aunpin)
    yield from asked(call, acall, old.key)
    handle = handle_of(old.namespace, old.key)
    word = "Pinned" if on else "Unpinned"
    return f"{word} {bracketed(handle)}.", {}


def _meant(
    memory: MemoryCoordinator, config: RunnableConfig, named: str, action: str, trust: float
) -> Flow[Recollection]:
    """Find the memory that a model names and may change.

    Raises:
        InvalidInputError: if there is none or several, or it is not the model's to change.
    """
    found = yield from asked(memory.get, memory.aget, named)
    if found is None:
        raise InvalidInputError(prompts.NOT_THERE.format(id=named, action=action))
    stands = prompts.STANDS.format(id=named, action=action)
    whose = memory.tiered_store.options.user_of(encode(found.namespace))
    own = memory.context.user_id is None or whose == memory.context.user_id
    if not own and source_of(found.value) != Source.AGENT:
        raise InvalidInputError(stands)
    if trust < THRESHOLD and trust_of(found.value) > trust:
        raise InvalidInputError(prompts.HEARD_TOO_MUCH.format(action=action))
    speaker = (found.speaker or "").lower()
    if speaker and speaker not in USER_ROLES | ASSISTANT_ROLES:
        speakers = yield from speakers_in(config, memory.gate)
        question = last_question(messages_so_far(config))
        by = None if question is None else speakers.of(question)["speaker"]
        if (by or "").lower() != speaker:
            raise InvalidInputError(
                prompts.OTHERS_WORDS.format(id=named, speaker=found.speaker, action=action)
            )
    return found


def _handle_of_key(memory: MemoryCoordinator, key: str) -> Flow[str]:
    found = yield from asked(memory.get, memory.aget, key)
    return key if found is None else handle_of(found.namespace, found.key)


def remind(
    memory: MemoryCoordinator,
    config: RunnableConfig,
    *,
    action: Reminding,
    content: str | None,
    named: str | None,
    at: str | None,
    every: str | None,
    cue: str | None,
    before_tool: str | None,
    call: str | None,
) -> Flow[Told]:
    """Set, close or put off a reminder, as a model decides.

    Raises:
        InvalidInputError: for what cannot be, in words for the model; nothing was changed.
    """
    moment = None if at is None else local_moment(at, memory)
    if action == "set":
        if content is None:
            raise InvalidInputError(prompts.CONTENT_NEEDED.format(action=action))
        waits = _waits(memory, moment, every, cue, before_tool)
        return (yield from _set(memory, config, content, waits, call))
    if named is None:
        raise InvalidInputError(prompts.ID_NEEDED.format(action=action))
    done = {"reminded": [{"action": action, "id": named}]}
    if action == "snooze":
        if moment is None:
            raise InvalidInputError(prompts.TIME_NEEDED)
        yield from asked(memory.snooze, memory.asnooze, named, moment)
        return prompts.REMINDER_SNOOZED.format(id=named, when=_told(moment, memory)), done
    if action == "done":
        closed = yield from asked(memory.complete, memory.acomplete, named)
    else:
        closed = yield from asked(memory.cancel, memory.acancel, named)
    if not closed:
        return prompts.REMINDER_WAS_CLOSED.format(id=named), {}
    said = prompts.REMINDER_DONE if action == "done" else prompts.REMINDER_CANCELLED
    return said.format(id=named), done


def _waits(
    memory: MemoryCoordinator,
    moment: datetime | None,
    every: str | None,
    cue: str | None,
    before_tool: str | None,
) -> dict[str, Any]:
    """Return what a reminder waits for, as options of `intend`."""
    if every is not None:
        zone = memory.context.timezone or "UTC"
        return {"at": At(moment or memory.now, every=every, timezone=zone)}
    named = {"at": moment, "cue": cue, "before_tool": before_tool}
    return {name: one for name, one in named.items() if one is not None}


def _set(
    memory: MemoryCoordinator,
    config: RunnableConfig,
    content: str,
    waits: dict[str, Any],
    call: str | None,
) -> Flow[Told]:
    trust = yield from trusting(messages_so_far(config), memory.gate, config)
    noted: Any = {"source": Source.AGENT.value, "trust": trust, "key": _key_of(call)}
    result = yield from asked(memory.intend, memory.aintend, content, **waits, **noted)
    if not result.stored:
        return prompts.NOT_STORED.format(reason=result.reason), {}
    handle = yield from _handle_of_key(memory, str(result.key))
    if result.quarantined:
        return prompts.HELD_BACK.format(id=handle, reason=result.reason), {}
    at = waits.get("at")
    moment = at.moment if isinstance(at, At) else at
    when = "" if moment is None else f" for {_told(moment, memory)}"
    done = {"reminded": [{"action": "set", "id": handle}]}
    return prompts.REMINDER_SET.format(id=bracketed(handle), when=when), done


def local_moment(text: str, memory: MemoryCoordinator) -> datetime:
    """Read a moment in ISO 8601; without a zone it is the context's.

    Raises:
        InvalidInputError: if it is no moment, or over.
    """
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise InvalidInputError(prompts.NO_TIME.format(at=text)) from error
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=memory.context.zone)
    if moment < memory.now.replace(second=0, microsecond=0):
        raise InvalidInputError(prompts.TIME_OVER.format(at=text, now=_told(memory.now, memory)))
    return moment


def _told(moment: datetime, memory: MemoryCoordinator) -> str:
    there = moment.astimezone(memory.context.zone)
    return f"{long_day(there.date())}, {there:%H:%M}"


def memory_of(whose: Remembered) -> tuple[MemoryCoordinator, RunnableConfig]:
    """Return the memory of the run that a tool is called in, and its config."""
    config = ensure_config()
    return whose.memory(get_runtime(), config), config
