"""What an agent has heard from its tools in a turn, and how far what it then says is trusted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    FunctionMessage,
    HumanMessage,
    ToolMessage,
)
from langchain_core.runnables import RunnableConfig

from langmem_tiers.core.memory import Source
from langmem_tiers.core.values import storable
from langmem_tiers.graph.messages import HELD, TAUGHT, WRITE_TODOS, this_turn
from langmem_tiers.graph.node import MISSING, SUMMARY, channel
from langmem_tiers.remember.gate import Gate, trust_in
from langmem_tiers.remember.new import NewMemory

TRUST: Final = "langmem_tiers_trust"
"""Marks an answer of this package's own tools: how far is trusted what it brings."""
_OPAQUE: Final = frozenset(("base64", "data", "url", "id", "type", "mime_type"))
"""Parts of a message's content that are no text."""


def trust_after(
    messages: Sequence[BaseMessage],
    gate: Gate,
    person: Callable[[BaseMessage], bool] | None = None,
    trust: float = 1.0,
) -> float:
    """Return how far to trust what a listener who is no person says after these messages.

    It is trusted, in 0…1, as far as the least trusted text that was brought since a person spoke,
    and wholly where nothing was. A tool's answer is brought, in whatever form, also a provider's,
    and so is a summary. The tools by which an agent keeps its tasks and this package's own bring
    nothing, but for the memories that a search found. A human message that no `person` wrote is
    brought too: it is trusted as far as `trust`, and no further than its text.
    """
    turn = this_turn(messages) if person is None else _since(messages, person)
    found: list[float] = [one.additional_kwargs.get(TRUST, 1.0) for one in turn]
    texts = dict.fromkeys(each for one in turn for each in _brought(one))
    usual = gate.policy.trust.of_source(Source.TOOL) if texts else 1.0
    told = [NewMemory(content=one, source=Source.TOOL) for one in texts if one.strip()]
    if person is not None:
        written = [storable(str(one.text)) for one in turn if _written(one, person)]
        usual = min(usual, trust) if written else usual
        told += [NewMemory(content=one, source=Source.AGENT) for one in written if one.strip()]
    return min(usual, *found, *(trust_in(gate.candidate(one), gate.policy) for one in told), 1.0)


def _since(
    messages: Sequence[BaseMessage], person: Callable[[BaseMessage], bool]
) -> Sequence[BaseMessage]:
    """Return the messages from a person's last one on; all if there is none."""
    places = [place for place, one in enumerate(messages) if person(one)]
    return messages[places[-1] :] if places else messages


def _written(message: BaseMessage, person: Callable[[BaseMessage], bool]) -> bool:
    """Tell whether something else than a person wrote a human message; a summary is none."""
    summary = message.additional_kwargs.get(SUMMARY)
    return isinstance(message, HumanMessage) and not summary and not person(message)


def messages_so_far(config: RunnableConfig) -> list[BaseMessage]:
    """The messages of the run that a tool is called in; none outside of one.

    Of a run that keeps its messages under another key nobody knows what it heard: it is as if a
    tool had said something.
    """
    found: Any = channel(config, "messages")
    if found is MISSING:
        return [ToolMessage("", tool_call_id="")]
    return [one for one in found if isinstance(one, BaseMessage)] if isinstance(found, list) else []


def _brought(message: BaseMessage) -> Iterator[str]:
    """The texts that somebody else brought with a message; a blank one where it holds no text."""
    if message.additional_kwargs.get(SUMMARY):
        yield from _texts(message.content)
    elif isinstance(message, ToolMessage | FunctionMessage):
        ours = not message.additional_kwargs.keys().isdisjoint((TRUST, HELD))
        if ours or message.name == WRITE_TODOS:
            return
        yield ""
        lessons = message.additional_kwargs.get(TAUGHT, 0)
        yield storable(str(message.text)[lessons:])
        if not isinstance(message.content, str):
            yield from _texts(message.content)
    elif isinstance(message, AIMessage) and isinstance(message.content, list):
        for block in message.content:
            kind = str(block.get("type", "")) if isinstance(block, dict) else ""
            if kind.startswith("server_tool") or kind.endswith("_tool_result"):
                yield ""
                yield from _texts(block)


def _texts(part: Any) -> Iterator[str]:
    """The texts in the content of a message."""
    if isinstance(part, str):
        yield storable(part)
    elif isinstance(part, Mapping):
        for name, one in part.items():
            if name not in _OPAQUE:
                yield from _texts(one)
    elif isinstance(part, Sequence):
        for one in part:
            yield from _texts(one)
