"""What an agent has heard from its tools in a turn, and how far what it then says is trusted."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig

from langmem_tiers.core.memory import Source
from langmem_tiers.core.settings import BOOKKEEPING
from langmem_tiers.graph.messages import answered_in, this_turn
from langmem_tiers.graph.node import channel
from langmem_tiers.graph.runs import asked
from langmem_tiers.postgres.flow import Flow
from langmem_tiers.remember.gate import trust_in
from langmem_tiers.remember.gating import Gate
from langmem_tiers.remember.new import NewMemory
from langmem_tiers.turn.record import both_ends

_LONGEST: Final = 20_000
"""Characters of an answer that are read: as many as are kept of a message."""


def trust_after(messages: Sequence[BaseMessage], gate: Gate) -> float:
    """How far is trusted what is said after these messages, by whoever heard them and is no person.

    As far as what tools brought since a person spoke, whatever brought the least; wholly, in 0…1,
    where none did. The tools by which an agent keeps its own memory and tasks bring nothing new.
    """
    heard = {
        both_ends(one.said, _LONGEST)
        for one in answered_in(this_turn(messages))
        if one.call["name"] not in BOOKKEEPING and one.said
    }
    told = (NewMemory(content=one, source=Source.TOOL) for one in heard)
    return min((trust_in(gate.candidate(one), gate.policy) for one in told), default=1.0)


def trusting(messages: Sequence[BaseMessage], gate: Gate) -> Flow[float]:
    """`trust_after`, in a thread where a loop waits: answers may be long."""
    ask = partial(trust_after, messages, gate)
    return (yield from asked(ask, partial(asyncio.to_thread, ask)))


def messages_so_far(config: RunnableConfig) -> list[BaseMessage]:
    """The messages of the run that a tool is called in; none outside of one, or without any."""
    found: Any = channel(config, "messages")
    return [one for one in found if isinstance(one, BaseMessage)] if isinstance(found, list) else []
