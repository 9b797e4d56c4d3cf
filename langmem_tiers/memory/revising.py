"""The verb by which a user's message takes back or corrects what was remembered."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import mul
from typing import Any, Final, NamedTuple
from uuid import NAMESPACE_OID, uuid5

from langchain_core.language_models import BaseChatModel

from langmem_tiers.consolidate.truth import Retraction
from langmem_tiers.core.errors import EmbeddingFailedError, InvalidInputError, ModelError
from langmem_tiers.core.memory import ASSISTANT_ROLES, TIERS, Recollection, Source
from langmem_tiers.core.namespaces import encode
from langmem_tiers.core.reading import ends_of
from langmem_tiers.core.types import PROSPECTIVE
from langmem_tiers.core.vectors import unpack
from langmem_tiers.memory.asking import memory_key
from langmem_tiers.memory.base import Memory, model_of
from langmem_tiers.memory.moving import retract
from langmem_tiers.memory.remembering import store
from langmem_tiers.postgres.flow import Ask, Flow
from langmem_tiers.recall.inquiry import Inquiry
from langmem_tiers.recall.recall import QUERY_CHARACTERS, find
from langmem_tiers.remember.acts import (
    Act,
    Decider,
    Earlier,
    Reading,
    decider_of,
    own_words,
)
from langmem_tiers.remember.means import parts
from langmem_tiers.remember.new import checked_text, label
from langmem_tiers.remember.targets import Near, Suspected, read, suspected
from langmem_tiers.store.read import embed_texts

_log = logging.getLogger(__name__)

_LATELY: Final = 12
"""Memories of what users said last, in this session and in all, that a message may be about."""
_NEAR: Final = 8
"""Those that it is nearest to."""
_KEPT: Final = ("tags", "importance", "entities", "speaker", "session_id", "metadata", "context")
"""What a part of a memory has of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """What a message took back of what was remembered, and what it corrects."""

    retracted: tuple[Retraction, ...] = ()
    corrects: tuple[Recollection, ...] = ()
    """What it says something else in place of: that stands, until somebody supersedes it."""
    tells_more: bool = True
    """Whether it also tells something else."""
    failed: str | None = None
    """What the model failed by, or why a memory could not be taken back; else None."""


def revise(
    memory: Memory,
    text: str,
    *,
    judge: BaseChatModel | None = None,
    key: str | None = None,
    answer: str = "",
    speaker: str | None = None,
    done: str | None = None,
) -> Flow[Revision]:
    """Take back of what was remembered what a user's message takes back.

    What it is about is sought among what was said last and what the message is nearest to. With a
    judge, a chat model is asked once; without one, fitted weights go by the words of the message
    and of the answer to it, and find what is said plainly (docs/truth.md). Nothing is changed where
    they are not sure, or the judge fails. What is taken back is retracted, with what an assistant
    answered to it, and `restore` brings it back; what of it still holds, as a judge says, is stored
    anew. What the message corrects is answered, and left as it is. A reminder that is called off is
    retracted as well, and so is not raised.

    Args:
        text: What the user says. What it quotes is not looked at, nor what is very long.
        judge: The chat model, if there is one.
        key: The key of the message's own memory, which is not taken back itself. If it is stored
            already, nothing is done again.
        answer: What the assistant answered, if it has: an assistant says what it understood.
        speaker: Who says it, where several people speak: each takes back only their own words.
        done: The key to look for in place of `key`, where the message is stored before it is
            answered.

    Raises:
        InvalidInputError: for what is no text, no model or no key; nothing was asked.
    """
    decider = None if judge is None else decider_of(judge)
    said, answered = own_words(checked_text(text, "text")), checked_answer(answer)
    named, ends = (None if one is None else memory_key(one) for one in (key, done))
    by = label(speaker, "speaker")
    decides = suspected(said, answered) if decider is None else decider
    if not said or decides is None:
        return _nothing()
    return _revised(memory, _Message(said, named, ends or named, by), decides)


def checked_answer(answer: object) -> str:
    """An answer, which may be none."""
    return "" if isinstance(answer, str) and not answer else checked_text(answer, "answer")


def _nothing() -> Flow[Revision]:
    yield from ()
    return Revision()


class _Message(NamedTuple):
    """A user's message."""

    said: str
    key: str | None
    done: str | None
    speaker: str | None


def _revised(memory: Memory, message: _Message, decides: Decider | Suspected) -> Flow[Revision]:
    flows, context, (said, key, done, _) = memory.tiered_store.flows, memory.context, message
    if done is not None and (yield from find(context, done, TIERS, flows)):
        return Revision()
    before = yield from _earlier(memory, message)
    if not before:
        return Revision()
    earlier = [_shown(one, memory) for one in before]
    try:
        if isinstance(decides, Suspected):
            reading = yield from _read(memory, said, decides, earlier)
        else:
            reading = yield Ask(
                partial(decides.call, said, earlier), partial(decides.acall, said, earlier)
            )
    except (ModelError, EmbeddingFailedError) as error:
        return _failed(error)
    if not reading.acts:
        return Revision()
    corrects = tuple(before[one.place] for one in reading.acts if one.kind == "correct")
    retracted = list[Retraction]()
    for act in (one for one in reading.acts if one.kind == "retract"):
        try:
            retracted.append((yield from _retracted(memory, before[act.place], act, key)))
        except InvalidInputError as error:  # it was deleted meanwhile
            return _failed(error, retracted)
    return Revision(retracted=tuple(retracted), corrects=corrects, tells_more=reading.tells_more)


def _read(memory: Memory, said: str, act: Suspected, earlier: Sequence[Earlier]) -> Flow[Reading]:
    """What the words of a message do to the memories before it."""
    options, told = memory.tiered_store.options, [said, *parts(said)]
    contents = [ends_of(one.content, QUERY_CHARACTERS) for one in earlier]
    found = yield from embed_texts([*told, *contents], options)
    index = options.index
    if index is None or index.vector is None:
        return Reading()
    vectors = {text: unpack(one, index.vector) for text, one in found.items() if one is not None}
    near = [_near(vectors, told, one) for one in contents]
    return read(said, act, earlier, near, model_of(memory.tiered_store))


def _near(vectors: Mapping[str, Sequence[float]], told: Sequence[str], content: str) -> Near:
    whole, *sentences = (_cosine(vectors.get(one), vectors.get(content)) for one in told)
    return Near(whole, max(sentences, default=whole))


def _cosine(one: Sequence[float] | None, other: Sequence[float] | None) -> float:
    if one is None or other is None:
        return 0.0
    lengths = math.hypot(*one) * math.hypot(*other)
    return sum(map(mul, one, other)) / lengths if lengths else 0.0


def _failed(
    error: ModelError | EmbeddingFailedError | InvalidInputError,
    retracted: Sequence[Retraction] = (),
) -> Revision:
    _log.warning("nothing more is taken back by what the user said: %s", error)
    return Revision(retracted=tuple(retracted), failed=f"{type(error).__name__}: {error}")


def _retracted(memory: Memory, one: Recollection, act: Act, key: str | None) -> Flow[Retraction]:
    """Retract what is taken back; of what still holds in it a part is stored first."""
    if act.stands and one.memory_type != PROSPECTIVE:
        yield from store(memory, act.stands, one.memory_type, **_beside(one))
    by = "what the user said" if key is None else f"the user's message {key}"
    retraction = yield from retract(memory, one.key, reason=f"taken back by {by}", answers=True)
    _log.info("%s, by %s", retraction, by)
    return retraction


def _beside(one: Recollection) -> dict[str, Any]:
    """What is known of a part of a memory."""
    told = {name: found for name in _KEPT if (found := getattr(one, name))}
    part = str(uuid5(NAMESPACE_OID, f"what stands of {one.key}"))
    return {**told, "key": part, "occurred_at": one.occurred_at or one.created_at}


def _earlier(memory: Memory, message: _Message) -> Flow[list[Recollection]]:
    """What a message may take back or correct, the oldest first."""
    spoken: dict[str, Any] = {"speaker": message.speaker or "user"}
    others: dict[str, Any] = {"speaker": {"$ne": "assistant"}} if not message.speaker else spoken
    asks = [_ask(memory, "", _LATELY, spoken), _ask(memory, message.said, _NEAR, others)]
    if (session := memory.context.session_id) is not None:
        asks.append(_ask(memory, "", _LATELY, {**spoken, "session_id": session}))
    several = yield from memory.flows.looked_up(asks)
    found = {(one.namespace, one.key): one for some in several for one in some}
    mine = (one for one in found.values() if one.key != message.key and _may_go(one, memory))
    return sorted(mine, key=lambda one: (one.occurred_at or one.created_at, one.key))


def _ask(memory: Memory, query: str, limit: int, wanted: dict[str, Any]) -> Inquiry:
    text = ends_of(query, QUERY_CHARACTERS)
    return memory.asking.ask(text, memory.context, limit=limit, filter=wanted, min_match=0)


def _may_go(one: Recollection, memory: Memory) -> bool:
    """Whether it is for the user to take back: not what is everybody's, nor what others said."""
    place, types = encode(one.namespace), memory.types
    if memory.tiered_store.options.user_of(place) != memory.context.user_id:
        return False
    personal = one.memory_type not in types or types.get(one.memory_type).personal
    told = one.value.get("source", Source.USER) == Source.USER
    return personal and told and (one.speaker or "").lower() not in ASSISTANT_ROLES


def _shown(one: Recollection, memory: Memory) -> Earlier:
    here = one.session_id is not None and one.session_id == memory.context.session_id
    return Earlier(one.content, one.occurred_at or one.created_at, here, one.session_id)
