"""Finding what people say to an agent among its messages, and noting it before it answers."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import asdict
from typing import Any, Final, NamedTuple, TypedDict
from uuid import NAMESPACE_OID, UUID, uuid5

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig

from langmem_tiers.core.values import storable
from langmem_tiers.graph.heard import TRUST
from langmem_tiers.graph.messages import answered_in
from langmem_tiers.graph.node import SUMMARY, text_of
from langmem_tiers.graph.runs import thread_of
from langmem_tiers.graph.speakers import Speakers
from langmem_tiers.memory.coordinator import MemoryCoordinator
from langmem_tiers.turn.record import both_ends
from langmem_tiers.turn.trace import private

_LONGEST: Final = 20_000
"""Characters that are kept of a message: some 5,000 tokens, so that it still fits into a context
by itself; our own choice."""
_AGENT: Final = "agent"


class Left(TypedDict):
    """A message that is still to be stored."""

    note: dict[str, Any]
    """The options of `store`."""
    whose: dict[str, Any]
    """The fields of the context that it was said in."""
    at: str
    """The time at which it was said, as ISO 8601."""


class Heard(TypedDict):
    """The messages that an agent heard in its turn."""

    said: list[str]
    """The ids of the messages given to its runs since its last answer."""
    others: list[str]
    """The ids of the other human messages: a tool, say, put them there, or they are answered."""
    left: list[Left]
    """The messages that could not be stored yet."""
    whose: dict[str, Any]
    """The fields of the context that the turn began in: another user may go on with its run."""
    at: str
    """The time at which the turn's messages came, as ISO 8601."""


class Answer(NamedTuple):
    """An agent's last word."""

    message: AIMessage
    text: str
    after: Sequence[BaseMessage]
    """The messages that it had heard by then."""


def hear(
    messages: Sequence[BaseMessage],
    before: Heard | None,
    speakers: Speakers,
    memory: MemoryCoordinator,
    config: RunnableConfig,
    *,
    elsewhere: Collection[str] = (),
) -> Heard:
    """Hear the messages that a run was given, and leave the new ones to be stored.

    Args:
        messages: All messages of the agent as its run begins.
        before: The messages heard before, in this turn or the last one.
        speakers: Their speakers.
        memory, config: The memory and the run that they are stored by.
        elsewhere: The ids of messages that another agent has heard.
    """
    whose, at = asdict(memory.context), memory.now.isoformat()
    known = before or Heard(said=[], others=[], left=[], whose=whose, at=at)
    if known["whose"] != whose:  # another one's messages
        known = Heard(**{**known, "others": [*known["others"], *known["said"]], "said": []})
    known["others"].extend(elsewhere)
    open_ones = [one for one in unanswered(messages) if str(one.id) not in known["others"]]
    new = [one for one in open_ones if str(one.id) not in known["said"]]
    there = {str(one.id) for one in messages}
    notes = [note for one in new for note in note_of(one, speakers, memory, config)]
    return Heard(
        # A run that is given nothing goes on with what was said before.
        said=[str(one.id) for one in open_ones] if new else known["said"],
        others=[one for one in known["others"] if one in there],
        left=[*known["left"], *(Left(note=one, whose=whose, at=at) for one in notes)],
        whose=whose,
        at=at,
    )


def ended(heard: Heard, messages: Sequence[BaseMessage], *, stored: bool) -> Heard:
    """End a turn: whatever else came meanwhile is no person's, and what is `stored` is done."""
    came = (str(one.id) for one in unanswered(messages) if str(one.id) not in heard["said"])
    done = heard["said"] if stored else ()
    left = [one for one in heard["left"] if not (stored and is_of_turn(one, heard))]
    others = [*dict.fromkeys((*heard["others"], *done, *came))]
    return Heard(**{**heard, "others": others, "left": left})


def is_of_turn(left: Left, heard: Heard) -> bool:
    """Tell whether a message that is left was said in the turn."""
    return (left["at"], left["whose"]) == (heard["at"], heard["whose"])


def unanswered(messages: Sequence[BaseMessage]) -> list[HumanMessage]:
    """Find the human messages since an agent's last word; before it, if that ends the messages."""
    until = len(messages) - (bool(messages) and _final(messages[-1]))
    places = [place for place, one in enumerate(messages[:until]) if _final(one)]
    since = messages[places[-1] if places else 0 : until]
    humans = (one for one in since if isinstance(one, HumanMessage))
    return [one for one in humans if not one.additional_kwargs.get(SUMMARY)]


def _final(message: BaseMessage) -> bool:
    """Tell whether a message is an agent's last word: it calls nothing."""
    return isinstance(message, AIMessage) and not message.tool_calls


def answer_in(messages: Sequence[BaseMessage]) -> Answer | None:
    """Return the agent's answer, if it is the last message."""
    last = messages[-1] if messages else None
    if not isinstance(last, AIMessage) or not _final(last):
        return None
    return Answer(last, text_of(last), messages)


def last_word(messages: Sequence[BaseMessage], response: object) -> Answer | None:
    """Find an agent's final answer: in words, in a form (`response`), or a tool's answer."""
    until = len(messages)
    while until and isinstance(messages[until - 1], ToolMessage):
        until -= 1
    asking = messages[until - 1] if until else None
    if until == len(messages) or not isinstance(asking, AIMessage):
        return answer_in(messages)
    for call in asking.tool_calls:
        if response is not None and (
            response == call["args"] or type(response).__name__ == call["name"]
        ):
            told = json.dumps(call["args"], ensure_ascii=False, default=str)
            after = [one for one in messages if getattr(one, "tool_call_id", "") != call["id"]]
            return Answer(asking, "\n".join(filter(None, (text_of(asking), told))), after)
    calls = [one for one in answered_in(messages[until - 1 :]) if not (one.failed or one.held)]
    brought = [one.said for one in calls if TRUST not in one.answer.additional_kwargs]
    return Answer(asking, "\n".join(brought), messages)


def note_of(
    message: BaseMessage, speakers: Speakers, memory: MemoryCoordinator, config: RunnableConfig
) -> list[dict[str, Any]]:
    """Return a human message as it is stored; nothing if it says nothing."""
    if not (text := storable(text_of(message))):
        return []
    told = speakers.of(message)
    key = key_of(message, config, speakers)
    return [{**told, **kept(text, memory, key)}]


def kept(text: str, memory: MemoryCoordinator, key: str) -> dict[str, Any]:
    """Return a text as a memory of the session; a long one keeps both its ends.

    A private text is not cut, so that the gate judges all of it.
    """
    cut = text if private(text, memory.gate) else both_ends(text, _LONGEST)
    return {"content": cut, "key": key, "session_id": memory.context.session_id}


def key_of(message: BaseMessage, config: RunnableConfig, speakers: Speakers | None = None) -> str:
    """Return the key of a message's memory.

    The same message of a thread has the same key; without a thread, the same words have. A human
    message that no person wrote has another: a run around this one may know that a person wrote it.
    """
    text = storable(text_of(message))
    key = uuid5(NAMESPACE_OID, f"{thread_of(config) or text}\0{message.id or text}")
    if speakers is not None and isinstance(message, HumanMessage) and not speakers.person(message):
        key = uuid5(key, _AGENT)
    return str(key)


def keys_seen(messages: Sequence[BaseMessage], config: RunnableConfig) -> set[str]:
    """Return all keys that messages may be remembered under, whoever wrote them."""
    said = [one for one in messages if isinstance(one, HumanMessage | AIMessage)]
    found = {key_of(one, config) for one in said}
    return found.union(str(uuid5(UUID(key), _AGENT)) for key in found)
