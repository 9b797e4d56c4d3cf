"""What was said before: the last messages word for word, and what the rest was about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, ClassVar, Final

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from langmem_tiers.core.errors import InvalidTypeError
from langmem_tiers.core.explain import shortened
from langmem_tiers.core.memory import Recollection
from langmem_tiers.core.values import storable
from langmem_tiers.memory.coordinator import MemoryCoordinator
from langmem_tiers.postgres.flow import Flow, unit
from langmem_tiers.recall.fence import brief, fields_of, labelled
from langmem_tiers.state.flows import Whose, look
from langmem_tiers.turn.fragment import Fragment, Section
from langmem_tiers.turn.layout import EPISODES

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
        limit = options.get("limit", 20)
        older, last = said[: max(0, len(said) - limit)], said[max(0, len(said) - limit) :]
        ranked = [_ranked(one, len(last) - place) for place, one in enumerate(last)]
        summary = [_summary(older)] if older and options.get("summary", True) else []
        return Section(tuple(replace(one, seen=seen) for one in (*summary, *ranked)))


def _known(metadata: Mapping[str, Any], memory: MemoryCoordinator) -> Flow[list[Fragment]]:
    """What the last hour's messages say was said; without any, what the session's memories say."""
    if memory.context.session_id is None:
        return []
    limit = metadata["options"].get("limit", 20)
    known = yield from unit(look(Whose.of(memory.context), metadata["now"], limit=limit))
    if not known.messages:
        return (yield from _stored(metadata, memory))
    told = [
        {"role": one.role, "content": one.content, "timestamp": one.at} for one in known.messages
    ]
    return list(_said(told))


def _stored(metadata: Mapping[str, Any], memory: MemoryCoordinator) -> Flow[list[Fragment]]:
    """What the session's memories say was said, oldest first."""
    session = memory.context.session_id
    ask = memory.asking.ask(
        "",
        memory.context,
        memory_types=EPISODES,
        limit=metadata["options"].get("limit", 20),
        filter={"session_id": session, "speaker": {"$gt": ""}},
    )
    (found,) = yield from unit(
        memory.flows.recall([ask], lambda _: True)
    )  # said in any case: no accesses
    return [_turn(one) for one in sorted(found, key=_when)]


def _when(one: Recollection) -> tuple[datetime, int, str]:
    turn = one.value.get("turn")
    return one.occurred_at or one.created_at, turn if isinstance(turn, int) else 0, one.key


def _turn(one: Recollection) -> Fragment:
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
        fields = {
            "speaker": brief(role),
            "role": brief(role).upper(),
            "when": labelled(when),
            "stamp": f"[{labelled(when)}] " if when else "",
        }
        key = getattr(one, "id", None)
        yield Fragment(
            text=storable(text),
            source="conversation",
            version=when,
            rationale="said in this conversation",
            key=None if key is None else str(key),
            fields=fields,
        )


def _message(one: Any) -> tuple[str | None, str, str]:
    """Who said what, and when, if that is known."""
    if isinstance(one, str):
        return "user", one, ""
    if isinstance(one, BaseMessage):
        roles: tuple[tuple[type[BaseMessage], str | None], ...] = (
            (SystemMessage, None),
            (ToolMessage, None),
            (HumanMessage, "user"),
            (AIMessage, "assistant"),
        )
        role = next((name for kind, name in roles if isinstance(one, kind)), str(one.type))
        when = one.additional_kwargs.get("timestamp", "")
        return role, str(one.text), str(when)
    if isinstance(one, Mapping) and isinstance(one.get("content"), str):
        when = one.get("timestamp", "")
        told = when.isoformat() if isinstance(when, datetime) else str(when)
        return str(one.get("role", "user")), one["content"], told
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


def _ranked(one: Fragment, age: int) -> Fragment:
    """A message with its rank: the newest first; the summary comes after the last exchange."""
    return replace(one, rank=age if age <= _EXCHANGE else age + 1.0)


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
