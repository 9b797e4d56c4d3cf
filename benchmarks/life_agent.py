"""The agent of the README, as a life is lived with it: what a user writes, no more."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import Field

from langmem_tiers import (
    MemoryContext,
    MemoryCoordinator,
    TieredMemoryMiddleware,
    TieredStore,
    create_consolidation_graph,
)

_LINE = re.compile(r"^- \[(\w{6})\] (.*)$", re.MULTILINE)
"""A line of what a model is shown: its handle, and what it says."""


class Scripted(BaseChatModel):
    """Does what a competent model would, and then says what it is told to.

    Each act names what it is `about`: the model looks for the line that says so among what it is
    shown, and searches for it once if there is none.
    """

    reply: str = ""
    acts: list[Mapping[str, Any]] = Field(default_factory=list)
    seen: list[BaseMessage] = Field(default_factory=list)
    """What it was shown at its first call."""
    name_of_turn: str = ""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(
        self,
        tools: Sequence[Any],  # noqa: ARG002 - it calls them by their names
        **_: Any,
    ) -> Runnable[Any, AIMessage]:
        """It calls tools by their names."""
        return self

    def does(self, acts: Sequence[Mapping[str, Any]], reply: str, name: str = "") -> None:
        """Begin a turn; with a name the ids of its calls are the same each time."""
        self.acts, self.reply, self.seen = [*acts], reply, []
        self.name_of_turn = name

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        self.seen = self.seen or list(messages)
        answer = next(self._calls(messages), None) or AIMessage(self.reply)
        if self.name_of_turn:
            answer.id = f"{self.name_of_turn}-{len(messages)}"
            for call in answer.tool_calls:
                call["id"] = answer.id
        return ChatResult(generations=[ChatGeneration(message=answer)])

    def _calls(self, messages: Sequence[BaseMessage]) -> Iterator[AIMessage]:
        """Call what is still to be done."""
        last = messages[-1]
        searched = isinstance(last, ToolMessage) and last.name == "search_memory"
        while self.acts:
            act = self.acts[0]
            about = act.get("about")
            handle = None if about is None else _handle(messages, about, last=act["do"] == "done")
            if about is not None and handle is None and not searched:
                yield _call("search_memory", query=about)
            searched = False
            self.acts.pop(0)
            if about is None or handle is not None:
                yield _done(act, handle)


def _handle(messages: Sequence[BaseMessage], about: str, *, last: bool) -> str | None:
    """Find the handle of the line that says something, first in what was shown last.

    Reminders stand last there.
    """
    for message in reversed(messages):
        if message.type in ("system", "tool"):
            lines = _LINE.findall(str(message.text))
            found = [handle for handle, text in lines if about.lower() in text.lower()]
            if found:
                return str(found[-1 if last else 0])
    return None


def _done(act: Mapping[str, Any], handle: str | None) -> AIMessage:
    """Call the tool that an act means."""
    match act["do"]:
        case "forget":
            return _call("manage_memory", action="delete", id=handle)
        case "correct":
            return _call("manage_memory", action="update", id=handle, content=act["to"])
        case "pin":
            return _call("manage_memory", action="create", content=act["text"], pin=True)
        case "done":
            return _call("manage_reminder", action="done", id=handle)
        case "remind":
            when = {name: act[name] for name in ("at", "every", "cue") if name in act}
            return _call("manage_reminder", action="set", content=act["text"], **when)
    raise AssertionError(act)


def _call(name: str, **args: Any) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": name, "args": args, "id": str(uuid4())}])


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

    def turn(
        self,
        user: str,
        thread: str,
        text: str,
        reply: str,
        acts: Sequence[Mapping[str, Any]] = (),
    ) -> str:
        """Say something; what memory puts before the model at its first call."""
        self._tenants[user] = None
        self._model.does(acts, reply)
        self._agent.invoke(
            {"messages": [{"role": "user", "content": text, "id": str(uuid4())}]},
            {"configurable": {"thread_id": thread}},
            context=MemoryContext(tenant=user, session_id=thread),
        )
        return "\n".join(one.text for one in self._model.seen if one.type == "system").strip()

    def end(self, user: str, thread: str) -> None:
        """End a session."""
        context = MemoryContext(tenant=user, session_id=thread)
        MemoryCoordinator(self._store, context=context).admin.consolidate_session()

    def night(self) -> None:
        """Do the background work that is due."""
        graph: Any = create_consolidation_graph(store=self._store)
        for tenant in self._tenants:
            graph.invoke({}, context=MemoryContext(tenant=tenant))
