"""The three tools by which a model keeps the memory of its run's context.

Each answers in one line what it did. What was done is also in the artifact of the answer, from
which the middleware tells the turn's result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias
from uuid import NAMESPACE_OID, uuid4, uuid5

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config

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
from langmem_tiers.recall.fence import quoted, recalled_text
from langmem_tiers.recall.question import SMALL_TALK, TALKS

Action = Literal["create", "update", "delete"]
Kind = Literal["fact", "event", "procedure", "lesson"]
Told: TypeAlias = tuple[str, dict[str, Any]]
"""What a tool answers: a line for the model, and what was done, for the turn's result."""

_TYPES: Final = {
    "fact": "semantic",
    "event": "episodic",
    "procedure": "procedural",
    "lesson": REFLEXION,
}


class Asking(NamedTuple):
    """A call of a memory tool: whose memory it keeps, and in which run."""

    memory: MemoryCoordinator
    config: RunnableConfig
    call: str | None
    """The id of the call, if a model made it."""

    @classmethod
    def of(cls, whose: Remembered, call: str | None) -> Asking:
        """Take the memory of the run that the tool is called in."""
        config = ensure_config()
        return cls(whose.memory(get_runtime(), config), config, call)

    @property
    def key(self) -> str:
        """Return a key for what the call stores, which a repeated call has too."""
        return str(uuid4() if self.call is None else uuid5(NAMESPACE_OID, self.call))


THIS: Final = "this"
"""By which a model names the message that it answers."""
_KNOWN: Final = 20
"""Memories that tell what is known of a user, where nothing is asked: our own choice."""


def search(
    memory: MemoryCoordinator, query: str, about: str | None, limit: int
) -> Flow[tuple[str, list[dict[str, Any]]]]:
    """Find memories for a model; what is known of a user are pins and what the user said."""
    pins: Sequence[Recollection] = ()
    options: dict[str, Any] = {"limit": limit, "deduplicate": True, "min_match": 0}
    if about == "user":
        options["filter"] = {"speaker": {"$ne": "assistant"}}
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
    asking: Asking,
    *,
    action: Action,
    content: str | None,
    named: str | None,
    kind: Kind | None,
    pin: bool | None,
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
        return (yield from _created(asking, content, _TYPES[kind or "fact"], pin=bool(pin)))
    if named is None:
        raise InvalidInputError(prompts.ID_NEEDED.format(action=action))
    if action == "update" and content is None and pin is None:
        raise InvalidInputError(prompts.CONTENT_NEEDED.format(action=action))
    old = yield from _meant(asking, named, action)
    if action == "delete":
        return (yield from _deleted(asking.memory, old))
    if content is None:
        return (yield from _pinned(asking.memory, old, on=bool(pin)))
    memory_type = old.memory_type if kind is None else _TYPES[kind]
    return (yield from _updated(asking, old, content, memory_type, pin=pin))


def _created(asking: Asking, content: str, memory_type: str, *, pin: bool) -> Flow[Told]:
    result = yield from _noted(asking, content, memory_type, pin=pin)
    if not result.stored:
        return prompts.NOT_STORED.format(reason=result.reason), {}
    handle = yield from handle_of_key(asking.memory, str(result.key))
    if result.quarantined:
        held = {"key": result.key, "quarantined": True, "reason": result.reason}
        return prompts.HELD_BACK.format(id=handle, reason=result.reason), {"learned": [held]}
    word = "Pinned" if pin else "Noted"
    return f"{word} as {bracketed(handle)}.", {"noted": [{"key": result.key, "handle": handle}]}


def _noted(asking: Asking, content: str, memory_type: str, *, pin: bool) -> Flow[StoreResult]:
    """Store what a model notes: as its own word, trusted no further than what it has heard."""
    memory, messages = asking.memory, messages_so_far(asking.config)
    trust = yield from trusting(messages, memory.gate, asking.config)
    options: dict[str, Any] = {
        "memory_type": memory_type,
        "source": Source.AGENT.value,
        "trust": trust,
        "key": asking.key,
        "pinned": pin,
    }
    if memory_type == REFLEXION:
        options["personal"] = None if memory.context.user_id is None else True
        failed = failures_at_hand(messages)
        options["further"] = failure_fields(failed[0]) if failed else {}
    return (yield from asked(memory.store, memory.astore, content, **options))


def _updated(
    asking: Asking, old: Recollection, content: str, memory_type: str, *, pin: bool | None
) -> Flow[Told]:
    """Store what is so now, and let it take the place of what was; a pin goes with it."""
    memory = asking.memory
    said, done = yield from _created(asking, content, memory_type, pin=False)
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


def _meant(asking: Asking, named: str, action: str) -> Flow[Recollection]:
    """Find the memory that a model names and may change.

    Raises:
        InvalidInputError: if there is none or several, or it is not the model's to change.
    """
    memory, messages = asking.memory, messages_so_far(asking.config)
    question = last_question(messages)
    if named == THIS and question is not None:
        named = key_of(question, asking.config)
    found = yield from asked(memory.get, memory.aget, named)
    if found is None:
        raise InvalidInputError(prompts.NOT_THERE.format(id=named, action=action))
    whose = memory.tiered_store.options.user_of(encode(found.namespace))
    own = memory.context.user_id is None or whose == memory.context.user_id
    if not own and source_of(found.value) != Source.AGENT:
        raise InvalidInputError(prompts.STANDS.format(id=named, action=action))
    trust = yield from trusting(messages, memory.gate, asking.config)
    if trust < THRESHOLD and trust_of(found.value) > trust:
        raise InvalidInputError(prompts.HEARD_TOO_MUCH.format(action=action))
    speaker = (found.speaker or "").lower()
    if speaker and speaker not in USER_ROLES | ASSISTANT_ROLES:
        speakers = yield from speakers_in(asking.config, memory.gate)
        by = "" if question is None else str(speakers.of(question)["speaker"])
        if by.lower() != speaker:
            whose_words = {"id": named, "speaker": found.speaker, "action": action}
            raise InvalidInputError(prompts.OTHERS_WORDS.format_map(whose_words))
    return found


def handle_of_key(memory: MemoryCoordinator, key: str) -> Flow[str]:
    """Return the handle of the memory that has a key."""
    found = yield from asked(memory.get, memory.aget, key)
    return key if found is None else handle_of(found.namespace, found.key)
