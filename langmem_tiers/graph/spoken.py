"""What the user and the assistant said, as memories that an agent keeps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import NAMESPACE_OID, uuid5

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import RunnableConfig

from langmem_tiers.core.memory import MemoryContext, Recollection
from langmem_tiers.core.values import storable
from langmem_tiers.graph.node import last_question, text_of, thread_of


def said(
    messages: Sequence[BaseMessage],
    context: MemoryContext,
    config: RunnableConfig,
    recalled: Sequence[Recollection] = (),
) -> list[dict[str, Any]]:
    """The last thing that the user said, and the assistant's last word on it.

    The user spoke before anything was `recalled`; what the assistant repeats of it is no evidence.
    """
    last = messages[-1] if messages else None
    answer = last if isinstance(last, AIMessage) and not last.tool_calls else None
    return [
        {
            "content": storable(text_of(one)),
            "key": key_of(one, config),
            "speaker": speaker,
            "session_id": context.session_id,
            "source": source,
            "recalled": told,
        }
        for one, speaker, source, told in (
            (last_question(messages), "user", "user", ()),
            (answer, "assistant", "agent", recalled),
        )
        if one is not None and text_of(one)
    ]


def key_of(message: BaseMessage, config: RunnableConfig) -> str:
    """The same for the same message of a thread; without a thread, of the same words."""
    origin = thread_of(config) or storable(text_of(message))
    return str(uuid5(NAMESPACE_OID, f"{origin}\0{message.id}"))
