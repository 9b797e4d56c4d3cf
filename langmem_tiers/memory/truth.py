"""The verbs by which what is remembered turns out otherwise: superseded, retracted, restored.

`revise` asks a chat model that is named what a user's message takes back or corrects, in one
request. What it is less sure of than `CONFIDENT` counts as neither, and so does what the user only
quotes or pastes: it is not shown to the model.
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

from langmem_tiers.consolidate import truth
from langmem_tiers.consolidate.truth import History, Restoration, Retraction, RevisionContext
from langmem_tiers.core import prompts
from langmem_tiers.core.checks import checked_flag, checked_label, utf8_bytes
from langmem_tiers.core.errors import InvalidInputError, ModelError
from langmem_tiers.core.memory import ASSISTANT_ROLES, TIERS, Recollection, Source, encode_namespace
from langmem_tiers.core.reading import head_and_tail, separate_characters
from langmem_tiers.core.structured import make_askers
from langmem_tiers.core.types import PROSPECTIVE
from langmem_tiers.memory import recalling
from langmem_tiers.memory.base import Memory, memory_key
from langmem_tiers.memory.recalling import looked_up, recall_query
from langmem_tiers.memory.remembering import store
from langmem_tiers.postgres.flow import Ask, Flow
from langmem_tiers.recall.fence import escape_fences
from langmem_tiers.recall.recall import QUERY_CHARACTERS, RecallQuery, find_by_key
from langmem_tiers.remember.new import checked_text


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
    older, newer = memory_key(key), memory_key(by)
    old = yield from recalling.known(memory, older)
    new = yield from recalling.known(memory, newer)
    return (yield from truth.supersede_memory(old, new, _revising(memory)))


def retract(memory: Memory, key: str, *, reason: str, answers: bool = False) -> Flow[Retraction]:
    """Say that what a memory holds never was so.

    It leaves recall, and with it all that came from it, directly or not: what was derived
    from it, and what it was promoted, merged or generalised to. That is `suspect`, and so is
    whatever is derived from it later. It is one transaction. Done again it changes nothing.

    Args:
        key: Of the memory.
        reason: Why, for its history.
        answers: Count what an assistant answered to it among what came from it: right after it in
            its session, and wherever it repeats no more than words of it.

    Raises:
        InvalidInputError: if there is no such memory.
    """
    why, whole = checked_text(reason, "reason"), checked_flag(answers, "answers")
    candidate = yield from recalling.known(memory, key)
    return (yield from truth.retract_memory(candidate, why, _revising(memory), answers=whole))


def restore(memory: Memory, key: str) -> Flow[Restoration]:
    """Undo the retraction of a memory.

    The tables are then as they were before: what came from it is what it was, unless
    something else that it came from is retracted too.

    Raises:
        InvalidInputError: if there is no such memory, it is not retracted, or it is suspect
            on account of another one.
    """
    candidate = yield from recalling.known(memory, key)
    return (yield from truth.restore_memory(candidate, _revising(memory)))


def history(memory: Memory, key: str) -> Flow[History]:
    """What a memory superseded and was superseded by, and what was done to it.

    Of what was rejected or made room it says that, and why.

    Raises:
        InvalidInputError: if there is no such memory, and was none.
    """
    utf8_bytes(memory_key(key), "key")
    try:
        candidate = yield from recalling.known(memory, key)
    except InvalidInputError:
        gone = yield from truth.read_deleted_history(key, memory.context)
        if gone is None:
            raise
        return gone
    return (yield from truth.read_history(candidate, memory.context))


def _revising(memory: Memory) -> RevisionContext:
    return RevisionContext(
        memory.context, memory.tiered_store.options, memory.tiered_store.flows.now
    )


_log = logging.getLogger(__name__)

CONFIDENT: Final = 0.8
"""Below this nothing changes; our own choice."""
LONGEST: Final = 500
"""Characters of a message's own words up to which it may take something back: who pastes more is
not asked about; our own choice."""
_SHOWN: Final = 1_000
"""Characters of a memory that a model is shown, from both its ends."""
_LONG_QUOTE: Final = 80
_ELSEWHERE: Final = re.compile(
    r"```.*?(?:```|\Z)|^[ \t]*>[^\n]*"
    rf'|"[^"]{{{_LONG_QUOTE},}}"|“[^“”]{{{_LONG_QUOTE},}}”|«[^«»]{{{_LONG_QUOTE},}}»',
    re.DOTALL | re.MULTILINE,
)
"""What a message quotes: code, quoted lines, and long passages in quotation marks."""
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
    judge: BaseChatModel,
    key: str | None = None,
    speaker: str | None = None,
) -> Flow[Revision]:
    """Take back of what was remembered what a user's message takes back, as a chat model says.

    It is for agents that have no tools: one that has says itself what it changes. What the message
    is about is sought among what was said last and what it is nearest to, and the judge is asked
    once. Nothing is changed where it is not sure, or fails. What is taken back is retracted, with
    what an assistant answered to it, and `restore` brings it back; what of it still holds, as the
    judge says, is stored anew. What the message corrects is answered, and left as it is. A reminder
    that is called off is retracted as well, and so is not raised.

    Args:
        text: What the user says. What it quotes is not looked at, nor what is very long.
        judge: The chat model.
        key: The key of the message's own memory, which is not taken back itself. If it is stored
            already, nothing is done again.
        speaker: Who says it, where several people speak: each takes back only their own words.

    Raises:
        InvalidInputError: for what is no text, no model or no key; nothing was asked.
    """
    ask, aask = make_askers(judge, Acts, lambda message: [message], lambda read, _: read[0])
    own_text = own_words(checked_text(text, "text"))
    named = None if key is None else memory_key(key)
    who = checked_label(speaker, "speaker")
    flows, context = memory.tiered_store.flows, memory.context
    if not own_text or (
        named is not None and (yield from find_by_key(context, named, TIERS, flows))
    ):
        return Revision()
    earlier = yield from _earlier(memory, own_text, named, who)
    if not earlier:
        return Revision()
    message = Message(own_text, earlier, context.session_id)
    try:
        judged = yield Ask(partial(ask, message), partial(aask, message))
    except ModelError as error:
        return _failed(error)
    corrects, retracted = list[Recollection](), list[Retraction]()
    for act in judged.acts:
        before = earlier[act.memory - 1]
        if act.act == "correct":
            corrects.append(before)
            continue
        try:
            retracted.append((yield from _retracted(memory, before, act.stands.strip(), named)))
        except InvalidInputError as error:  # it was deleted meanwhile
            return _failed(error, retracted)
    return Revision(
        retracted=tuple(retracted),
        corrects=tuple(corrects),
        tells_more=judged.tells_more or not judged.acts,
    )


def _failed(
    error: ModelError | InvalidInputError, retracted: Sequence[Retraction] = ()
) -> Revision:
    _log.warning("nothing more is taken back by what the user said: %s", error)
    return Revision(retracted=tuple(retracted), failed=f"{type(error).__name__}: {error}")


def _retracted(
    memory: Memory, recollection: Recollection, stands: str, key: str | None
) -> Flow[Retraction]:
    """Retract what is taken back; of what still holds in it a part is stored first."""
    if stands and recollection.memory_type != PROSPECTIVE:
        yield from store(memory, stands, recollection.memory_type, **_beside(recollection))
    by = "what the user said" if key is None else f"the user's message {key}"
    retraction = yield from retract(
        memory, recollection.key, reason=f"taken back by {by}", answers=True
    )
    _log.info("%s, by %s", retraction, by)
    return retraction


def _beside(whole: Recollection) -> dict[str, Any]:
    """What is known of a part of a memory."""
    fields = {name: value for name in _KEPT if (value := getattr(whole, name))}
    part = str(uuid5(NAMESPACE_OID, f"what stands of {whole.key}"))
    return {**fields, "key": part, "occurred_at": whole.occurred_at or whole.created_at}


def _earlier(
    memory: Memory, text: str, key: str | None, speaker: str | None
) -> Flow[list[Recollection]]:
    """What a message may take back or correct, the oldest first."""
    spoken: dict[str, Any] = {"speaker": speaker or "user"}
    others: dict[str, Any] = {"speaker": {"$ne": "assistant"}} if not speaker else spoken
    asks = [_ask(memory, "", _LATELY, spoken), _ask(memory, text, _NEAR, others)]
    if (session := memory.context.session_id) is not None:
        asks.append(_ask(memory, "", _LATELY, {**spoken, "session_id": session}))
    answers = yield from looked_up(memory, asks)
    recalled = {
        (recollection.namespace, recollection.key): recollection
        for some in answers
        for recollection in some
    }
    mine = (
        recollection
        for recollection in recalled.values()
        if recollection.key != key and _may_go(recollection, memory)
    )
    return sorted(
        mine,
        key=lambda recollection: (
            recollection.occurred_at or recollection.created_at,
            recollection.key,
        ),
    )


def _ask(memory: Memory, query: str, limit: int, wanted: dict[str, Any]) -> RecallQuery:
    text = head_and_tail(query, QUERY_CHARACTERS)
    return recall_query(memory, text, limit=limit, filter=wanted, min_match=0)


def _may_go(recollection: Recollection, memory: Memory) -> bool:
    """Whether it is for the user to take back: not what is everybody's, nor what others said."""
    place, types = encode_namespace(recollection.namespace), memory.types
    if memory.tiered_store.options.user_of(place) != memory.context.user_id:
        return False
    personal = recollection.memory_type not in types or types.get(recollection.memory_type).personal
    by_user = recollection.value.get("source", Source.USER) == Source.USER
    return personal and by_user and (recollection.speaker or "").lower() not in ASSISTANT_ROLES


class Act(BaseModel):
    """What a message does to one memory."""

    memory: int = Field(description=prompts.ACT_MEMORY)
    act: Literal["retract", "correct"] = Field(description=prompts.ACT_KIND)
    confidence: float = Field(description=prompts.ACT_CONFIDENCE)
    stands: str = Field(description=prompts.ACT_STANDS)


class Acts(BaseModel):
    """What a model is asked for."""

    acts: list[Act] = Field(description=prompts.ACTS_JUDGED)
    tells_more: bool = Field(description=prompts.ACTS_TELL_MORE)


class Message(NamedTuple):
    """A message of a user's, and the memories that it may take back or correct."""

    text: str
    earlier: Sequence[Recollection]
    session_id: str | None
    """In which it is said."""

    def messages(self) -> list[BaseMessage]:
        """What the model is told."""
        memories = "\n".join(
            prompts.ACTS_EARLIER.format(
                number=number,
                said=f"{(memory.occurred_at or memory.created_at).astimezone(UTC):%Y-%m-%d %H:%M}",
                here="this"
                if memory.session_id and memory.session_id == self.session_id
                else "another",
                content=escape_fences(head_and_tail(memory.content, _SHOWN)),
            )
            for number, memory in enumerate(self.earlier, 1)
        )
        shown = prompts.ACTS_SHOWN.format(memories=memories, message=escape_fences(self.text))
        return [SystemMessage(prompts.ACTS), HumanMessage(shown)]

    def read(self, answer: Acts) -> Acts:
        """What an answer says as far as it is sure, of each memory once.

        Raises:
            InvalidInputError: if it names a memory that there is not, or words that none has.
        """
        for act in answer.acts:
            self._check(act)
        sure = {
            act.memory: act
            for act in answer.acts
            if act.confidence >= CONFIDENT and not self._stands_whole(act)
        }
        return Acts(acts=list(sure.values()), tells_more=answer.tells_more)

    def _check(self, act: Act) -> None:
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

    def _stands_whole(self, act: Act) -> bool:
        """Whether nothing of a memory is taken back."""
        whole = self.earlier[act.memory - 1].content
        return act.act == "retract" and act.stands.strip() == whole


def own_words(text: str) -> str:
    """A message without what it quotes; nothing if that is too long to take something back."""
    own_text = _ELSEWHERE.sub(" … ", text).strip()
    return own_text if len(own_text) <= LONGEST else ""
