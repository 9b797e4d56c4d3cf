"""An agent that writes Python, runs it, and learns from what failed: a graph of nodes.

`langgraph dev` serves it as `coding_agent`, on the store of `graphs/store.py`. Each run says in its
context whose memory it uses: `{"tenant": "acme", "project_id": "billing"}`. Before each try it
recalls: first what was learned of the failure at hand. After it the outcome is credited, and the
model notes what a failure taught that it overcame. Promotion looks at a whole tenant and is a job
for the night: a graph of `create_promotion_node` alone.

The environment, or `.env` beside langgraph.json:

- `LANGMEM_TIERS_CHAT_MODEL` names a chat model that calls tools, as `provider:model`; its key and
  its package are up to you. **What it writes is run on this machine**, in a process that does not
  see your environment, but in no sandbox. Without a model only sums are written: see `AddingModel`.
- `LANGMEM_TIERS_URL` names the database; see `graphs/store.py`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from itertools import takewhile
from typing import Any, Literal
from uuid import uuid4

from langchain.chat_models import init_chat_model
from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable, RunnableLambda
from langchain_core.tools import ToolException, tool
from langgraph.graph import START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.prebuilt import ToolNode, ToolRuntime
from langgraph.store.base import BaseStore
from langgraph.types import Checkpointer

from langmem_tiers import (
    MemoryContext,
    MemoryCoordinator,
    MemoryState,
    TieredStore,
    create_outcome_node,
    create_recall_node,
)
from langmem_tiers.recall.prompt_text import with_recalled

INSTRUCTIONS = """\
You are a programmer. Solve the task by running Python, and print what you find out. Where a \
recalled lesson is about what you are going to do, follow it. Where you overcame a failure, note \
what it taught you. Then answer in a sentence."""

NOTHING_TO_ADD = "Without a language model I can only add up numbers: give me some."
GIVEN_UP = "It failed too often; the last error was: {error}"
TAUGHT = ("reflexion", "pattern", "procedural", "semantic", "skill")
"""What is recalled."""
TRIES = 4
"""Failures of one turn, after which the model gets no tools any more and has to answer."""
SECONDS = 10
"""What one run of Python may take."""
LONGEST = 4000
"""Characters of what it prints that are told, the last ones: there the error stands."""

_NUMBER = re.compile(r"\d+(?:,\d+)*")
_PLAIN = "print(sum(int(one) for one in {numbers}))"
_CAREFUL = "print(sum(int(one.replace(',', '')) for one in {numbers}))"
_TOLD = "one.replace(',', '')"
_LESSON = {
    "tried": "int() on numbers with commas between the thousands",
    "failed_because": "int() knows no thousands separators",
    "do_instead": f"remove the commas first: {_TOLD}",
}


class AddingModel(BaseChatModel):
    """Stands in for a model, offline: it adds up the numbers of a task in Python.

    It writes the plain way, which fails at `1,234`, unless a lesson or the error before it tells
    better. What it learned from an error it notes.
    """

    @property
    def _llm_type(self) -> str:
        return "adding"

    def bind_tools(self, *_: Any, **__: Any) -> Runnable[Any, AIMessage]:
        """Return the model itself, as it calls the tools by their names."""
        return self

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,  # noqa: ARG002 - LangChain's signature
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002
        **_: Any,
    ) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=_next(messages))])


def make_agent(
    *,
    model: BaseChatModel | None = None,
    store: BaseStore | None = None,
    checkpointer: Checkpointer = None,
) -> CompiledStateGraph[Any, MemoryContext, Any, Any]:
    """Build the agent; a server gives it a store and a checkpointer of its own.

    Args:
        model: A chat model that calls tools; that of the environment if not given.
        store: A TieredStore.
        checkpointer: Keeps the messages of a thread.

    Example:
        ```python
        from graphs.coding_agent import make_agent
        from langmem_tiers import MemoryContext, TieredStore

        with TieredStore.embedded("./.memory") as store:
            agent = make_agent(store=store)
            billing = MemoryContext(tenant="acme", project_id="billing")
            agent.invoke({"messages": ["Add up 1,234 and 20."]}, context=billing)  # fails once
            state = agent.invoke({"messages": ["Add up 7,000 and 1."]}, context=billing)
            print(state["messages"][-1].text)
        ```
    """
    builder = StateGraph(MemoryState, context_schema=MemoryContext)
    builder.add_node("recall", create_recall_node(memory_types=TAUGHT))
    builder.add_node("model", _model_node(model or _model()))
    builder.add_node("run", ToolNode(TOOLS, handle_tool_errors=_reported))
    builder.add_node("outcome", create_outcome_node(worked))
    builder.add_edge(START, "recall")
    builder.add_edge("recall", "model")
    builder.add_conditional_edges("model", _after_model)
    builder.add_edge("run", "outcome")
    builder.add_conditional_edges("outcome", _after_outcome)
    return builder.compile(store=store, checkpointer=checkpointer, name="coding_agent")


@tool
def run_python(code: str) -> str:
    """Run Python code in a new process; what it prints comes back."""
    with tempfile.TemporaryDirectory() as directory:
        try:
            done = subprocess.run(  # noqa: S603 - running what the model wrote is what this is for
                [sys.executable, "-I", "-c", code],
                capture_output=True,
                check=False,
                cwd=directory,
                encoding="utf-8",
                env={},
                errors="replace",
                timeout=SECONDS,
            )
        except subprocess.TimeoutExpired as error:
            raise ToolException(f"TimeoutError: it took longer than {SECONDS} seconds") from error
    if done.returncode:
        raise ToolException(done.stderr[-LONGEST:])
    return done.stdout[-LONGEST:]


@tool
def note_lesson(
    tried: str, failed_because: str, do_instead: str, runtime: ToolRuntime[MemoryContext, Any]
) -> str:
    """Note what a failure taught, in words that help the next time."""
    store = runtime.store
    if not isinstance(store, TieredStore):
        raise ToolException("there is no memory to note it in")
    question, *_ = _turn(runtime.state["messages"])
    errors = _errors(runtime.state["messages"])
    MemoryCoordinator(store, context=runtime.context).store_reflexion(
        task_id=str(question.text),
        original_approach=tried,
        failure_reason=failed_because,
        improved_approach=do_instead,
        failure=errors[-1] if errors else None,
        tool=run_python.name,
        source="agent",
    )
    return "Noted."


TOOLS = (run_python, note_lesson)


def worked(state: MemoryState) -> bool:
    """Whether all that the model called last did."""
    answers = takewhile(lambda one: isinstance(one, ToolMessage), reversed(state["messages"]))
    return all(one.status != "error" for one in answers if isinstance(one, ToolMessage))


def _reported(error: Exception) -> str:
    """Return the error alone, as the model reads it and memory keeps it."""
    return str(error)


def _model() -> BaseChatModel:
    name = os.environ.get("LANGMEM_TIERS_CHAT_MODEL")
    return init_chat_model(name) if name else AddingModel()


def _model_node(model: BaseChatModel) -> Runnable[MemoryState, dict[str, Any]]:
    """Asks the model, which sees what was recalled; after too many failures it has to answer."""
    with_tools = model.bind_tools(TOOLS)

    def asked(state: MemoryState) -> tuple[Runnable[Any, Any], list[BaseMessage]]:
        system = with_recalled(SystemMessage(INSTRUCTIONS), state.get("recalled_text", ""))
        messages: list[BaseMessage] = [*([system] if system else ()), *state["messages"]]
        return (with_tools if len(_errors(messages)) < TRIES else model), messages

    def call(state: MemoryState) -> dict[str, Any]:
        runnable, messages = asked(state)
        return {"messages": [runnable.invoke(messages)]}

    async def acall(state: MemoryState) -> dict[str, Any]:
        runnable, messages = asked(state)
        return {"messages": [await runnable.ainvoke(messages)]}

    return RunnableLambda(call, acall, name="model")


def _after_model(state: MemoryState) -> Literal["run", "__end__"]:
    last = state["messages"][-1]
    return "run" if isinstance(last, AIMessage) and last.tool_calls else "__end__"


def _after_outcome(state: MemoryState) -> Literal["recall", "model"]:
    return "model" if worked(state) else "recall"


def _turn(messages: list[BaseMessage]) -> list[BaseMessage]:
    """Return the messages from the last question on."""
    places = [place for place, one in enumerate(messages) if isinstance(one, HumanMessage)]
    return messages[places[-1] :] if places else messages


def _errors(messages: list[BaseMessage]) -> list[str]:
    """Return the failures of this turn."""
    return [
        str(one.text)
        for one in _turn(messages)
        if isinstance(one, ToolMessage) and one.status == "error"
    ]


def _next(messages: list[BaseMessage]) -> AIMessage:
    """Return the next message of the adding model: a call, or the sum."""
    question, *done = _turn(messages)
    errors = _errors(messages)
    answers = [one for one in done if isinstance(one, ToolMessage) and one.status != "error"]
    called = [call["name"] for one in done if isinstance(one, AIMessage) for call in one.tool_calls]
    if answers and errors and "note_lesson" not in called:
        return _calling("note_lesson", _LESSON)
    if answers:
        return AIMessage(f"The sum is {str(answers[0].text).strip()}.")
    numbers = _NUMBER.findall(str(question.text))
    if len(errors) >= TRIES:
        return AIMessage(GIVEN_UP.format(error=errors[-1].splitlines()[-1]))
    if not numbers:
        return AIMessage(NOTHING_TO_ADD)
    told = any(_TOLD in str(one.text) for one in messages if isinstance(one, SystemMessage))
    code = (_CAREFUL if told or errors else _PLAIN).format(numbers=numbers)
    return _calling("run_python", {"code": code})


def _calling(name: str, args: dict[str, str]) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": name, "args": args, "id": str(uuid4())}])


graph = make_agent()
