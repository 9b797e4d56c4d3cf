"""Verbs that supersede, retract and restore memories, show histories, and revise.

`revise` asks a chat model, in one request, what a user's message retracts or corrects. An act of
less confidence than `MIN_CONFIDENCE` counts as neither. Quotes in the message are not shown to the
model.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC
from functools import partial
from typing import Any, Final, Literal, NamedTuple
from uuid import NAMESPACE_OID, uuid5

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from pydantic import BaseModel, Field

from langmem_tiers.consolidation import truth
from langmem_tiers.consolidation.truth import History, Restoration, Retraction, RevisionContext
from langmem_tiers.coordinator import recall
from langmem_tiers.coordinator.base import Memory, checked_memory_key
from langmem_tiers.coordinator.recall import recall_query, recall_unnoticed
from langmem_tiers.coordinator.remember import store
from langmem_tiers.core import prompts
from langmem_tiers.core.chat_models import make_askers
from langmem_tiers.core.checks import checked_flag, checked_label, utf8_bytes
from langmem_tiers.core.errors import InvalidInputError, ModelError
from langmem_tiers.core.memory import ASSISTANT_ROLES, TIERS, Recollection, Source, encode_namespace
from langmem_tiers.core.texts import head_and_tail, separate_characters
from langmem_tiers.core.types import PROSPECTIVE
from langmem_tiers.postgres.flow import Ask, Flow
from langmem_tiers.recall.prompt_text import escape_fences
from langmem_tiers.recall.recall import QUERY_CHARACTERS, RecallQuery, find_by_key
from langmem_tiers.remember.new_memory import checked_text


def supersede(memory: Memory, key: str, *, by: str) -> Flow[str]:
    """Supersede a memory by a newer one; return the move, for `rollback`.

    The older one is true until the newer one begins: at its `valid_from`, else when it happened or
    was recorded. Recall leaves it out from then on. `get_context(as_of=…)` finds it for any moment
    before.

    Args:
        key: The key of the older memory.
        by: The key of the newer one.

    Raises:
        InvalidInputError: if there is no such memory, either is not current, or the newer one
            began before the older.
    """
    older, newer = checked_memory_key(key), checked_memory_key(by)
    old = yield from recall.find_memory(memory, older)
    new = yield from recall.find_memory(memory, newer)
    return (yield from truth.supersede_memory(old, new, _make_context(memory)))


def retract(memory: Memory, key: str, *, reason: str, answers: bool = False) -> Flow[Retraction]:
    """Retract a memory: it was never true.

    It leaves recall, and so do all memories that came from it, directly or not: those derived from
    it, and those that it was promoted, merged or generalised to. They are `suspect`, and so is any
    memory derived from it later. It is one transaction; repeating it changes nothing.

    Args:
        key: The key of the memory.
        reason: The reason, for its history.
        answers: Also count an assistant's answers to it: those right after it in its session, and
            any that only repeat its words.

    Raises:
        InvalidInputError: if there is no such memory.
    """
    why, whole = checked_text(reason, "reason"), checked_flag(answers, "answers")
    candidate = yield from recall.find_memory(memory, key)
    return (yield from truth.retract_memory(candidate, why, _make_context(memory), answers=whole))


def restore(memory: Memory, key: str) -> Flow[Restoration]:
    """Undo the retraction of a memory.

    The tables are then as they were before. Memories derived from it are current again, unless
    another of their sources is retracted too.

    Raises:
        InvalidInputError: if there is no such memory, it is not retracted, or it is suspect
            on account of another one.
    """
    candidate = yield from recall.find_memory(memory, key)
    return (yield from truth.restore_memory(candidate, _make_context(memory)))


def history(memory: Memory, key: str) -> Flow[History]:
    """Return a memory's history: its predecessors and successors, and the events.

    For a rejected or evicted memory it has that event, with its reason.

    Raises:
        InvalidInputError: if there is no such memory, and was none.
    """
    utf8_bytes(checked_memory_key(key), "key")
    try:
        candidate = yield from recall.find_memory(memory, key)
    except InvalidInputError:
        gone = yield from truth.read_deleted_history(key, memory.context)
        if gone is None:
            raise
        return gone
    return (yield from truth.read_history(candidate, memory.context))


def _make_context(memory: Memory) -> RevisionContext:
    return RevisionContext(
        memory.context, memory.tiered_store.options, memory.tiered_store.flows.now
    )


_log = logging.getLogger(__name__)

MIN_CONFIDENCE: Final = 0.8
"""Least confidence of an act; below it nothing changes: our own choice."""
MAX_CHARACTERS: Final = 500
"""Most characters of a message's own words: a longer message is pasted text, and is not judged. Our
own choice."""
_MAX_SHOWN: Final = 1_000
"""Most characters of a memory that the model is shown, from both ends."""
_LONG_QUOTE: Final = 80
_QUOTED: Final = re.compile(
    r"```.*?(?:```|\Z)|^[ \t]*>[^\n]*"
    rf'|"[^"]{{{_LONG_QUOTE},}}"|“[^“”]{{{_LONG_QUOTE},}}”|«[^«»]{{{_LONG_QUOTE},}}»',
    re.DOTALL | re.MULTILINE,
)
"""Quotes in a message: code, quoted lines, and long passages in quotation marks."""
_MAX_LATEST: Final = 12
"""Latest memories of users' words, of this session and of all, that a message may be about."""
_MAX_NEAR: Final = 8
"""Nearest memories that a message may be about."""
_PART_FIELDS: Final = (
    "tags",
    "importance",
    "entities",
    "speaker",
    "session_id",
    "metadata",
    "context",
)
"""Fields of a memory that a part of it keeps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """Retractions and corrections by a message."""

    retracted: tuple[Retraction, ...] = ()
    corrects: tuple[Recollection, ...] = ()
    """Memories that it corrects: they stand, until somebody supersedes them."""
    tells_more: bool = True
    """True if the message also says something new."""
    failed: str | None = None
    """Error of the model, or of a retraction; else None."""


def revise(
    memory: Memory,
    text: str,
    *,
    judge: BaseChatModel,
    key: str | None = None,
    speaker: str | None = None,
) -> Flow[Revision]:
    """Retract the memories that a user's message takes back, as a chat model judges.

    It is for agents without tools: an agent with tools changes memories itself. The candidates are
    the users' latest words and the nearest memories; the judge is asked once. Nothing changes if it
    is not sure, or fails. A memory that is taken back is retracted, with an assistant's answers to
    it, and `restore` brings it back; the part that still holds, by the judge, is stored as a memory
    of its own. Corrected memories are returned and stay as they are. A reminder that is called off
    is retracted as well, and so is not raised.

    Args:
        text: The user's message. Its quotes are ignored, and so is a very long message.
        judge: The chat model.
        key: The key of the message's own memory, which is not taken back itself. If it is stored
            already, nothing is done again.
        speaker: The speaker, if several people speak: each retracts only their own words.

    Raises:
        InvalidInputError: for an invalid text, model or key; nothing was asked.
    """
    ask, aask = make_askers(judge, Acts, lambda message: [message], lambda read, _: read[0])
    own_text = own_words(checked_text(text, "text"))
    named = None if key is None else checked_memory_key(key)
    who = checked_label(speaker, "speaker")
    flows, context = memory.tiered_store.flows, memory.context
    if not own_text or (
        named is not None and (yield from find_by_key(context, named, TIERS, flows))
    ):
        return Revision()
    earlier = yield from _find_earlier(memory, own_text, named, who)
    if not earlier:
        return Revision()
    message = RevisionPrompt(own_text, earlier, context.session_id)
    try:
        judged = yield Ask(partial(ask, message), partial(aask, message))
    except ModelError as error:
        return _report_failure(error)
    corrects, retracted = list[Recollection](), list[Retraction]()
    for act in judged.acts:
        before = earlier[act.memory - 1]
        if act.act == "correct":
            corrects.append(before)
            continue
        try:
            retracted.append((yield from _take_back(memory, before, act.stands.strip(), named)))
        except InvalidInputError as error:  # it was deleted meanwhile
            return _report_failure(error, retracted)
    return Revision(
        retracted=tuple(retracted),
        corrects=tuple(corrects),
        tells_more=judged.tells_more or not judged.acts,
    )


def _report_failure(
    error: ModelError | InvalidInputError, retracted: Sequence[Retraction] = ()
) -> Revision:
    _log.warning("nothing more is taken back by what the user said: %s", error)
    return Revision(retracted=tuple(retracted), failed=f"{type(error).__name__}: {error}")


def _take_back(
    memory: Memory, recollection: Recollection, stands: str, key: str | None
) -> Flow[Retraction]:
    """Retract a memory; store the part that still holds first."""
    if stands and recollection.memory_type != PROSPECTIVE:
        yield from store(memory, stands, recollection.memory_type, **_part_fields(recollection))
    by = "what the user said" if key is None else f"the user's message {key}"
    retraction = yield from retract(
        memory, recollection.key, reason=f"taken back by {by}", answers=True
    )
    _log.info("%s, by %s", retraction, by)
    return retraction


def _part_fields(whole: Recollection) -> dict[str, Any]:
    """Return the fields of a part of a memory, with a key of its own."""
    fields = {name: value for name in _PART_FIELDS if (value := getattr(whole, name))}
    part = str(uuid5(NAMESPACE_OID, f"what stands of {whole.key}"))
    return {**fields, "key": part, "occurred_at": whole.occurred_at or whole.created_at}


def _find_earlier(
    memory: Memory, text: str, key: str | None, speaker: str | None
) -> Flow[list[Recollection]]:
    """Return the memories that a message may retract or correct, the oldest first."""
    spoken: dict[str, Any] = {"speaker": speaker or "user"}
    others: dict[str, Any] = {"speaker": {"$ne": "assistant"}} if not speaker else spoken
    asks = [
        _make_query(memory, "", _MAX_LATEST, spoken),
        _make_query(memory, text, _MAX_NEAR, others),
    ]
    if (session := memory.context.session_id) is not None:
        asks.append(_make_query(memory, "", _MAX_LATEST, {**spoken, "session_id": session}))
    answers = yield from recall_unnoticed(memory, asks)
    recalled = {
        (recollection.namespace, recollection.key): recollection
        for some in answers
        for recollection in some
    }
    mine = (
        recollection
        for recollection in recalled.values()
        if recollection.key != key and _may_take_back(recollection, memory)
    )
    return sorted(
        mine,
        key=lambda recollection: (
            recollection.occurred_at or recollection.created_at,
            recollection.key,
        ),
    )


def _make_query(memory: Memory, query: str, limit: int, wanted: dict[str, Any]) -> RecallQuery:
    text = head_and_tail(query, QUERY_CHARACTERS)
    return recall_query(memory, text, limit=limit, filter=wanted, min_match=0)


def _may_take_back(recollection: Recollection, memory: Memory) -> bool:
    """Return True if the user may retract it: it is their own, and nobody else said it."""
    place, types = encode_namespace(recollection.namespace), memory.types
    if memory.tiered_store.options.user_of(place) != memory.context.user_id:
        return False
    personal = recollection.memory_type not in types or types.get(recollection.memory_type).personal
    by_user = recollection.value.get("source", Source.USER) == Source.USER
    return personal and by_user and (recollection.speaker or "").lower() not in ASSISTANT_ROLES


class Act(BaseModel):
    """Act of a message on one memory."""

    memory: int = Field(description=prompts.ACT_MEMORY)
    act: Literal["retract", "correct"] = Field(description=prompts.ACT_KIND)
    confidence: float = Field(description=prompts.ACT_CONFIDENCE)
    stands: str = Field(description=prompts.ACT_STANDS)


class Acts(BaseModel):
    """Answer that the model is asked for."""

    acts: list[Act] = Field(description=prompts.ACTS_JUDGED)
    tells_more: bool = Field(description=prompts.ACTS_TELL_MORE)


class RevisionPrompt(NamedTuple):
    """Prompt: a user's message, and the memories that it may retract or correct."""

    text: str
    earlier: Sequence[Recollection]
    session_id: str | None
    """Session of the message."""

    def messages(self) -> list[BaseMessage]:
        """Return the messages to the model."""
        memories = "\n".join(
            prompts.ACTS_EARLIER.format(
                number=number,
                said=f"{(memory.occurred_at or memory.created_at).astimezone(UTC):%Y-%m-%d %H:%M}",
                here="this"
                if memory.session_id and memory.session_id == self.session_id
                else "another",
                content=escape_fences(head_and_tail(memory.content, _MAX_SHOWN)),
            )
            for number, memory in enumerate(self.earlier, 1)
        )
        shown = prompts.ACTS_SHOWN.format(memories=memories, message=escape_fences(self.text))
        return [SystemMessage(prompts.ACTS), HumanMessage(shown)]

    def read(self, answer: Acts) -> Acts:
        """Return an answer with its confident acts alone, one for each memory.

        Raises:
            InvalidInputError: if it names a memory that does not exist, or words that none has.
        """
        for act in answer.acts:
            self._check_act(act)
        sure = {
            act.memory: act
            for act in answer.acts
            if act.confidence >= MIN_CONFIDENCE and not self._keeps_all(act)
        }
        return Acts(acts=list(sure.values()), tells_more=answer.tells_more)

    def _check_act(self, act: Act) -> None:
        last = len(self.earlier)
        if not 1 <= act.memory <= last:
            problem = prompts.NO_SUCH_MEMORY.format(number=act.memory, last=last)
            raise InvalidInputError(problem)
        if not 0 <= act.confidence <= 1:
            problem = prompts.NO_SUCH_CONFIDENCE.format(confidence=act.confidence)
            raise InvalidInputError(problem)
        stands = act.stands.strip()
        if act.act == "retract" and separate_characters(stands) not in separate_characters(
            self.earlier[act.memory - 1].content
        ):
            problem = prompts.NOT_ITS_WORDS.format(stands=stands, number=act.memory)
            raise InvalidInputError(problem)

    def _keeps_all(self, act: Act) -> bool:
        """Return True if an act retracts nothing of its memory."""
        whole = self.earlier[act.memory - 1].content
        return act.act == "retract" and act.stands.strip() == whole


def own_words(text: str) -> str:
    """Return a message without its quotes; an empty text if it is too long to be judged."""
    own_text = _QUOTED.sub(" … ", text).strip()
    return own_text if len(own_text) <= MAX_CHARACTERS else ""
