"""What was said before: the last messages word for word, and what the rest was about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, ClassVar, Final

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from langmem_tiers.core.errors import InvalidTypeError
from langmem_tiers.core.memory import Recollection
from langmem_tiers.core.reading import shortened
from langmem_tiers.core.values import storable
from langmem_tiers.memory.coordinator import MemoryCoordinator
from langmem_tiers.postgres.flow import Flow, unit
from langmem_tiers.recall.fence import brief, fields_of, labelled
from langmem_tiers.state.flows import Whose, look
from langmem_tiers.state.state import Message
from langmem_tiers.turn.layout import EPISODES, Fragment, Section

_LIMIT: Final = 20
"""Messages that are shown unless a stage says otherwise."""
_EXCHANGE: Final = 2
"""Messages that get room before the summary of the rest."""
_SUMMED_UP: Final = 12
"""Questions of the earlier conversation that its summary names: our own choice."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """What was said last, word for word, and before it what the rest was about.

    It is the messages that the turn was given, which are not shown where the model sees them;
    without any, the session's of the last hour, else what its memories say. Stage options: `limit`
    messages, none older than `minutes`, and whether there is a `summary`.
    """

    messages: Sequence[Any] | None = None
    known_options: ClassVar = ("limit", "minutes", "summary")

    def flow(
        self, prompt: str, metadata: Mapping[str, Any], memory: MemoryCoordinator
    ) -> Flow[Section]:
        """The conversation so far, oldest first; the prompt itself is no part of it."""
        options = metadata["options"]
        given = metadata["messages"] if self.messages is None else self.messages
        seen = self.messages is None and given is not None and not metadata["show_messages"]
        said = (yield from _known(metadata, memory)) if given is None else list(_said(given))
        if said and said[-1].fields["speaker"] in ("user", "human") and said[-1].text == prompt:
            said.pop()
        said = [one for one in said if _recent(one, metadata["now"], options.get("minutes"))]
        begin = max(0, len(said) - options.get("limit", _LIMIT))
        older = said[:begin] if options.get("summary", True) else []
        ages = zip(range(len(said) - begin, 0, -1), said[begin:], strict=True)
        # the newest get room first; the summary comes after the last exchange
        last = [replace(one, rank=age if age <= _EXCHANGE else age + 1.0) for age, one in ages]
        summary = [_summary(older)] if older else []
        return Section(tuple(replace(one, seen=seen) for one in (*summary, *last)))


def _known(metadata: Mapping[str, Any], memory: MemoryCoordinator) -> Flow[list[Fragment]]:
    """What the last hour's messages say was said; without any, what the session's memories say."""
    if memory.context.session_id is None:
        return []
    limit = metadata["options"].get("limit", _LIMIT)
    known = yield from unit(look(Whose.of(memory.context), metadata["now"], limit=limit))
    if known.messages:
        return list(_said(known.messages))
    spoken = {"session_id": memory.context.session_id, "speaker": {"$gt": ""}}
    ask = memory.asking.ask("", memory.context, memory_types=EPISODES, limit=limit, filter=spoken)
    # said in any case: no accesses
    (found,) = yield from unit(memory.flows.recall([ask], lambda _: True))
    return [_told(one) for one in sorted(found, key=_when)]


def _when(one: Recollection) -> tuple[datetime, int, str]:
    turn = one.value.get("turn")
    return one.occurred_at or one.created_at, turn if isinstance(turn, int) else 0, one.key


def _told(one: Recollection) -> Fragment:
    told = fields_of(one)
    return Fragment(
        text=one.content,
        source="conversation",
        version=one.updated_at.isoformat(),
        rationale="said in this session",
        key=one.key,
        fields={**told, "stamp": f"[{told['when']}] "},
    )


def _said(messages: Iterable[Any]) -> Iterable[Fragment]:
    """Messages as fragments: what people and the assistant said, and nothing else."""
    for one in messages:
        role, text, when = _message(one)
        if role is None or not text.strip():
            continue
        key = getattr(one, "id", None)
        yield Fragment(
            text=storable(text),
            source="conversation",
            version=when,
            rationale="said in this conversation",
            key=None if key is None else str(key),
            fields={
                "speaker": brief(role),
                "role": brief(role).upper(),
                "when": labelled(when),
                "stamp": f"[{labelled(when)}] " if when else "",
            },
        )


def _message(one: Any) -> tuple[str | None, str, str]:
    """Who said what, and when, if that is known."""
    match one:
        case str():
            return "user", one, ""
        case Message():
            return one.role, one.content, one.at.isoformat()
        case SystemMessage() | ToolMessage():
            return None, "", ""
        case BaseMessage():
            kinds = ((HumanMessage, "user"), (AIMessage, "assistant"))
            role = next((name for kind, name in kinds if isinstance(one, kind)), str(one.type))
            return role, str(one.text), str(one.additional_kwargs.get("timestamp", ""))
        case {"content": str(content)}:
            when = one.get("timestamp", "")
            told = when.isoformat() if isinstance(when, datetime) else str(when)
            return str(one.get("role", "user")), content, told
    raise InvalidTypeError(
        f"a message is LangChain's, or a mapping with role and content, not {type(one).__name__}"
    )


def _recent(one: Fragment, now: datetime, minutes: float | None) -> bool:
    """Whether it was said in the last minutes, as far as that is known."""
    when = one.fields.get("when")
    if minutes is None or not when:
        return True
    try:
        said = datetime.fromisoformat(when)
    except ValueError:
        return True
    return said.tzinfo is None or said > now - timedelta(minutes=minutes)


def _summary(older: Sequence[Fragment]) -> Fragment:
    """What the earlier conversation was about: what was asked, word for word and shortened."""
    questions = [one.text for one in older if one.fields["role"] in ("USER", "HUMAN")]
    named = questions[-_SUMMED_UP:]
    head = f"Earlier in this conversation, {len(older)} messages. Asked was:"
    lines = [f"- {shortened(one, 120)}" for one in named]
    left_out = len(questions) - len(named)
    more = [f"- and {left_out} more before"] if left_out else []
    return Fragment(
        text="\n".join([head, *more, *lines]),
        source="conversation",
        version=older[-1].version,
        rationale=f"sums up {len(older)} earlier messages",
        rank=_EXCHANGE + 0.5,
        fields={"speaker": "summary", "role": "SUMMARY"},
    )
