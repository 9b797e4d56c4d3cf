"""The agent of the README, as `benchmarks/life.py` lives with it: what a user writes, no more."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import Field

from langmem_tiers import (
    MemoryContext,
    MemoryCoordinator,
    TieredMemoryMiddleware,
    TieredStore,
    create_consolidation_graph,
)


class Scripted(BaseChatModel):
    """Says what the scenario says, and keeps what it was shown."""

    reply: str = ""
    seen: list[BaseMessage] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        self.seen = list(messages)
        return ChatResult(generations=[ChatGeneration(message=AIMessage(self.reply))])


class Agent:
    """An agent of `create_agent` with memory; each user is a tenant."""

    def __init__(self, folder: Path, clock: Callable[[], datetime]) -> None:
        self._folder, self._clock = folder, clock
        self._tenants: dict[str, None] = {}
        self._closing = ExitStack()

    def __enter__(self) -> Self:
        opened = TieredStore.embedded(
            str(self._folder / "memory"), index="minilm", clock=self._clock
        )
        self._store = self._closing.enter_context(opened)
        self._model = Scripted()
        self._agent: Any = create_agent(
            self._model,
            middleware=[TieredMemoryMiddleware()],
            context_schema=MemoryContext,
            store=self._store,
            checkpointer=InMemorySaver(),
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()

    def turn(self, user: str, thread: str, text: str, reply: str) -> str:
        """Say something; what memory puts before the model."""
        self._tenants[user] = None
        self._model.reply = reply
        self._agent.invoke(
            {"messages": [{"role": "user", "content": text, "id": str(uuid4())}]},
            {"configurable": {"thread_id": thread}},
            context=MemoryContext(tenant=user, session_id=thread),
        )
        return "\n".join(one.text for one in self._model.seen if one.type == "system").strip()

    def end(self, user: str, thread: str) -> None:
        """End a session."""
        context = MemoryContext(tenant=user, session_id=thread)
        MemoryCoordinator(self._store, context=context).consolidate_session()

    def night(self) -> None:
        """Do the background work that is due."""
        graph: Any = create_consolidation_graph(store=self._store)
        for tenant in self._tenants:
            graph.invoke({}, context=MemoryContext(tenant=tenant))
