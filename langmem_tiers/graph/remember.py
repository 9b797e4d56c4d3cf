"""Remembering what was said: a node for a `StateGraph`, and a step of an agent's middleware."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final
from uuid import NAMESPACE_OID, uuid5

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import Runnable, RunnableConfig

from langmem_tiers.core.memory import StoreResult
from langmem_tiers.core.values import storable
from langmem_tiers.graph.messages import messages_of
from langmem_tiers.graph.node import last_question, node, of_state, text_of
from langmem_tiers.graph.runs import Remembered, Scope, asked, thread_of
from langmem_tiers.memory.coordinator import MemoryCoordinator
from langmem_tiers.postgres.flow import Flow
from langmem_tiers.recall.question import TALKS
from langmem_tiers.remember.intending import requesting
from langmem_tiers.remember.means import means
from langmem_tiers.remind.prompted import PROSPECTIVE
from langmem_tiers.turn.record import both_ends
from langmem_tiers.turn.trace import private

_LONGEST: Final = 20_000
"""Characters that are kept of a message: some 5,000 tokens, so that it still fits into a context
by itself; our own choice."""
_SHORT: Final = 500
"""Characters up to which a message that asks to be reminded is the reminder, as the sentence that
asks may not say of what; our own choice."""


def create_remember_node(
    *,
    context: Scope | None = None,
    coordinator: Callable[..., MemoryCoordinator] = MemoryCoordinator,
    name: str = "remember",
) -> Runnable[Any, dict[str, Any]]:
    """A node that stores what the user and the assistant said, for `invoke` and `ainvoke`.

    It stands behind the model, and does what `TieredMemoryMiddleware` does when the agent is done.
    The last message of the human and, if it is the last message, the assistant's answer are
    `episodic` memories of the session with their speakers. Where the human asks to be reminded of
    something, the message, or of a long one the sentences that ask, is a `prospective` memory, and
    what else it says an `episodic` one. Of a message of more than 20,000 characters both ends are
    kept. What the answer repeats of the state's `recalled` is no news. A retry of the node, and a
    run that is repeated, store nothing twice. It writes the state key `remembered`: the keys of
    what was stored.

    Args:
        context, coordinator, name: Those of every node; see `create_recall_node`.

    Example:
        ```python
        from langgraph.graph import StateGraph
        from langmem_tiers import MemoryContext, MemoryState, create_remember_node

        builder = StateGraph(MemoryState, context_schema=MemoryContext)
        builder.add_sequence([("model", model), ("remember", create_remember_node())])
        builder.set_entry_point("model")
        graph = builder.compile(store=store)
        ```
    """

    def update(
        memory: MemoryCoordinator, state: Any, config: RunnableConfig
    ) -> Flow[dict[str, Any]]:
        recalled = of_state(state, "recalled", None) or ()
        kept = yield from remember(memory, messages_of(state), config, recalled)
        return {"remembered": [one.key for one in kept if one.stored]}

    return node(name, update, Remembered(context, coordinator))


def remember(
    memory: MemoryCoordinator,
    messages: Sequence[BaseMessage],
    config: RunnableConfig,
    recalled: Sequence[object],
) -> Flow[list[StoreResult]]:
    """Store the last thing that the user said, and the assistant's last word on it.

    The user spoke before anything was `recalled`; what the assistant repeats of it is no evidence.
    """
    question, last = last_question(messages), messages[-1] if messages else None
    answer = last if isinstance(last, AIMessage) and not last.tool_calls else None
    told = {"speaker": "assistant", "source": "agent", "recalled": recalled}
    notes = [*_notes(memory, question, config, speaker="user", source="user")]
    if not notes or any("memory_type" not in one for one in notes):
        # What answers nothing but a request to be reminded says nothing further.
        notes += _notes(memory, answer, config, **told)
    return (yield from asked(memory.store_many, memory.astore_many, notes))


def keys_of(message: BaseMessage, config: RunnableConfig) -> tuple[str, str]:
    """What a message is remembered under, and what it asks to be reminded of.

    The same for the same message of a thread; without a thread, of the same words.
    """
    origin = thread_of(config) or storable(text_of(message))
    key = uuid5(NAMESPACE_OID, f"{origin}\0{message.id}")
    return str(key), str(uuid5(key, PROSPECTIVE))


def _notes(
    memory: MemoryCoordinator, message: BaseMessage | None, config: RunnableConfig, **told: Any
) -> Iterator[dict[str, Any]]:
    """A message as memories: what a user asks to be reminded of is one of its own."""
    if message is None or not (text := storable(text_of(message))):
        return
    key, intended = keys_of(message, config)
    told |= {"session_id": memory.context.session_id}
    # What is private is not cut: the gate is to judge all of it.
    whole = private(text, memory.gate)
    wants = requesting(text) if told["speaker"] == "user" else []
    if wants:
        asked_for = text if len(text) <= _SHORT else " ".join(one.strip() for one in wants)
        yield {**told, "content": asked_for, "key": intended, "memory_type": PROSPECTIVE}
    for one in wants:
        text = text.replace(one, "", 1)
    text = text.strip()
    if text and not (wants and means(text).talk >= TALKS):
        yield {**told, "content": text if whole else both_ends(text, _LONGEST), "key": key}
