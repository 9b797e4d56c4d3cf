"""Graphs run each way, and models that say what the test wrote down."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

from langchain.agents import AgentState, create_agent
from langchain.agents.middleware import ModelRequest, dynamic_prompt
from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatResult
from langchain_core.runnables import Runnable
from langgraph.graph import StateGraph
from pydantic import Field

from langmem_tiers import HookState, MemoryContext, TieredStore

How = Literal["invoke", "ainvoke", "astream"]

WAYS = [("sync", "invoke"), ("async", "ainvoke"), ("sync", "astream")]
"""How a store is opened, and how a graph on it is run; the last crosses the two."""


async def run(graph: Any, how: How, given: Any, **options: Any) -> dict[str, Any]:
    """The final state of a graph; blocking calls are made off the loop, as servers do."""
    if how == "invoke":
        state = await asyncio.to_thread(graph.invoke, given, **options)
    elif how == "ainvoke":
        state = await graph.ainvoke(given, **options)
    else:
        async for state in graph.astream(given, stream_mode="values", **options):  # noqa: B007
            pass
    assert isinstance(state, dict)
    return state


class Way(NamedTuple):
    """A store, and how graphs on it are run."""

    store: TieredStore
    how: How

    async def __call__(self, graph: Any, given: Any, **options: Any) -> dict[str, Any]:
        """The final state of a graph."""
        return await run(graph, self.how, given, **options)


class ScriptedModel(FakeMessagesListChatModel):
    """Says its responses in order, calls tools, and keeps what it was shown."""

    seen: list[list[BaseMessage]] = Field(default_factory=list)
    meanwhile: Callable[[], object] | None = None
    """What happens while it makes its first answer."""

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        if self.meanwhile and not self.seen:
            self.meanwhile()
        self.seen.append(list(messages))
        return super()._generate(messages, stop, run_manager, **kwargs)

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | Any],  # noqa: ARG002
        **_: Any,
    ) -> Runnable[Any, AIMessage]:
        """Tools are called by what the responses say."""
        return self


def scripted(
    *responses: str | AIMessage, meanwhile: Callable[[], object] | None = None
) -> ScriptedModel:
    """A model that says these in turn."""
    said = [AIMessage(one) if isinstance(one, str) else one for one in responses]
    return ScriptedModel(responses=list(said), meanwhile=meanwhile)


def calls(tool: str, **arguments: Any) -> AIMessage:
    """A response that calls one tool."""
    call = {"name": tool, "args": arguments, "id": f"call-{tool}", "type": "tool_call"}
    return AIMessage("", tool_calls=[call])


def agent_on(store: Any, model: Any, *middleware: Any, tools: Any = (), **options: Any) -> Any:
    """An agent on a store, for the runs of a `MemoryContext`."""
    given = {"tools": list(tools), "middleware": middleware, "store": store, **options}
    return create_agent(model, context_schema=MemoryContext, **given)


class Shown(AgentState[Any], total=False):
    """An agent's state with what nodes before it write for its prompt."""

    context: str
    reminders_text: str
    todos: list[dict[str, Any]]


@dynamic_prompt
def as_written(request: ModelRequest[Any]) -> str:
    """What the nodes before wrote is all that the model is told."""
    told = (request.state.get(name) for name in ("context", "reminders_text"))
    return "\n\n".join(str(one) for one in told if one)


def agent_between(
    store: Any, model: Any, before: dict[str, Any], after: dict[str, Any], **options: Any
) -> Any:
    """An agent as one step of a graph, which is shown what the nodes before it wrote."""
    saver, beside = options.pop("checkpointer", None), options.pop("middleware", ())
    agent = agent_on(None, model, as_written, *beside, state_schema=Shown, **options)
    builder: Any = StateGraph(HookState, context_schema=MemoryContext)
    builder.add_sequence([*before.items(), ("agent", agent), *after.items()])
    builder.set_entry_point(next(iter(before)))
    return builder.compile(store=store, checkpointer=saver)
