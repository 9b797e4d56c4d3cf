"""An assistant's turn from its beginning to its end: a graph of nodes, with hooks.

`langgraph dev` serves it as `assistant`, on the store of `graphs/store.py`. Each run says in its
context whose memory it uses: `{"tenant": "acme", "project_id": "billing", "session_id": "chat-7"}`;
the session is the thread, if the context names none. A message goes through these nodes:

| node | does |
|---|---|
| `session_start` | raises what is due; on the first message of a thread, lists what is open |
| `user_prompt` | keeps the message as working memory, and what it intends as prospective memory |
| `assemble` | begins a turn, and puts its context together |
| `model`, `run`, `track` | answers, by tools if need be; what they did is tracked and timed |
| `completed_tasks` | keeps how each todo was done that has been completed |
| `commit` | writes what the turn leaves, with its trace, in one transaction |
| `session_end` | after "Bye": keeps what the session was worth, and clears its notes |
| `consolidation` | after "Bye", and every 20 messages: a cycle of consolidation |

The environment, or `.env` beside langgraph.json:

- `LANGMEM_TIERS_CHAT_MODEL` names a chat model that calls tools, as `provider:model`; its key and
  its package are up to you. Without it a few rules answer: see `RuledModel`.
- `LANGMEM_TIERS_URL` names the database; see `graphs/store.py`.
"""

from __future__ import annotations

import ast
import operator
import os
import re
from collections.abc import Callable, Mapping, Sequence
from html import unescape
from typing import Any, Final, Literal
from uuid import uuid4

from langchain.agents.middleware import TodoListMiddleware
from langchain.chat_models import init_chat_model
from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable, RunnableLambda
from langchain_core.tools import ToolException, tool
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.prebuilt import ToolNode
from langgraph.store.base import BaseStore
from langgraph.types import Checkpointer

from langmem_tiers import (
    ConsolidationSchedule,
    HookState,
    MemoryContext,
    ToolClock,
    consolidation_due,
    create_acknowledge_node,
    create_assemble_node,
    create_commit_node,
    create_completed_task_node,
    create_consolidation_graph,
    create_session_end_node,
    create_session_start_node,
    create_tool_tracking_node,
    create_user_prompt_node,
)
from langmem_tiers.core.prompts import RECALLED_TAIL, REMINDERS_HEAD
from langmem_tiers.recall.prompt_text import with_recalled

INSTRUCTIONS = """\
You are a helpful assistant. Use what you recall where it answers the user, and say so when you do \
not know. Tell the user what you are reminded of. Plan with write_todos what takes several steps."""

NOTED = "I will remember that."
UNKNOWN = "You have told me nothing that answers this."
GOODBYE = "Goodbye."
SCHEDULE = ConsolidationSchedule(every_turns=20, on_session_end=True)

_SUM = re.compile(r"-?\d+(?:\.\d+)?(?:\s*[-+*/]\s*\d+(?:\.\d+)?)+")
_MEMORY = re.compile(r"^- \d{4}-\d\d-\d\d[^:]*: (.*(?:\n    .*)*)", re.MULTILINE)
_REMINDERS = re.compile(rf"^{REMINDERS_HEAD}\n(.*?)^{RECALLED_TAIL}", re.MULTILINE | re.DOTALL)
_REMINDER = re.compile(r"^- \[\w+\] (.*?(?:\n    .*?)*)(?: \([^()]*\))?$", re.MULTILINE)
_LINE = re.compile(r"^- \d{4}-\d\d-\d\d \d\d:\d\d (?:\w+: )?")
"""How a line of a session's digest begins."""
_NOT_SAID = ("Called", "Result", "Took", "Run that", "Session")
"""How memories begin that tell what was done."""
_WORD = re.compile(r"\w{3,}")
_SAYS_LITTLE = re.compile(
    "and|are|but|can|did|does|for|from|had|has|have|her|his|not|our|she|the|their|they|was|were|"
    "what|when|where|which|who|why|will|with|you|your"
)
_DOES: Final[Mapping[type[ast.operator], Callable[[float, float], float]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


@tool
def calculate(expression: str) -> str:
    """Work out an expression of numbers with +, -, * and /."""
    try:
        return f"{_value(ast.parse(expression, mode='eval').body):g}"
    except (SyntaxError, ZeroDivisionError) as error:
        raise ToolException(f"{type(error).__name__}: {error}") from error


TOOLS = [*TodoListMiddleware().tools, calculate]


class RuledModel(BaseChatModel):
    """Stands in for a model, offline: it calculates, quotes what it recalls, and passes on.

    Expressions such as `3 * 4` become todos, each worked out by the tool. A question is answered
    by what the user said, here or in a recalled memory, that has the most letters in telling words
    in common with it. What it is reminded of comes first. Anything else it promises to remember.
    """

    @property
    def _llm_type(self) -> str:
        return "ruled"

    def bind_tools(self, *_: Any, **__: Any) -> Runnable[Any, AIMessage]:
        """Return the model itself, as it knows its tools."""
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
    """Build the assistant; a server gives it a store and a checkpointer of its own.

    Args:
        model: A chat model that calls tools; that of the environment if not given.
        store: A TieredStore.
        checkpointer: Keeps the messages of a thread, and when its memory was consolidated.

    Example:
        ```python
        from graphs.assistant import make_agent
        from langmem_tiers import MemoryContext, TieredStore

        with TieredStore.embedded("./.memory") as store:
            assistant = make_agent(store=store)
            chat = MemoryContext(tenant="acme", project_id="home", session_id="monday")
            for said in ("My bike is in the cellar.", "Where is my bike?", "Bye"):
                state = assistant.invoke({"messages": [said]}, context=chat)
                print(state["messages"][-1].text)
        ```
    """
    clock = ToolClock()
    tools = ToolNode(
        TOOLS,
        handle_tool_errors=_reported,
        wrap_tool_call=clock.wrap_tool_call,
        awrap_tool_call=clock.awrap_tool_call,
    )
    chosen = model or _model()
    builder = StateGraph(HookState, context_schema=MemoryContext)
    builder.add_node("session_start", create_session_start_node())
    builder.add_node("user_prompt", create_user_prompt_node())
    builder.add_node("assemble", create_assemble_node(tools=[calculate], show_messages=False))
    builder.add_node("model", _model_node(chosen))
    builder.add_node("acknowledge", create_acknowledge_node())
    builder.add_node("run", tools)
    builder.add_node("track", create_tool_tracking_node())
    builder.add_node("completed_tasks", create_completed_task_node())
    builder.add_node("commit", create_commit_node(memorize=_told))
    builder.add_node("session_end", create_session_end_node(on_error="tell"))
    builder.add_node("consolidation", create_consolidation_graph())
    for before, after in (
        (START, "session_start"),
        ("session_start", "user_prompt"),
        ("user_prompt", "assemble"),
        ("assemble", "model"),
        ("model", "acknowledge"),
        ("run", "track"),
        ("track", "completed_tasks"),
        ("completed_tasks", "model"),
        ("commit", "session_end"),
        ("consolidation", END),
    ):
        builder.add_edge(before, after)
    builder.add_conditional_edges("acknowledge", _after_model)
    builder.add_conditional_edges(
        "session_end", consolidation_due(SCHEDULE), ["consolidation", END]
    )
    return builder.compile(store=store, checkpointer=checkpointer, name="assistant")


def _model() -> BaseChatModel:
    name = os.environ.get("LANGMEM_TIERS_CHAT_MODEL")
    return init_chat_model(name) if name else RuledModel()


def _is_farewell(said: str) -> bool:
    """Whether the session ends with this; an application of yours may have a button for it."""
    return said.strip(" .!").lower() == "bye"


def _model_node(model: BaseChatModel) -> Runnable[HookState, dict[str, Any]]:
    """Asks the model, which sees what was assembled and what it is reminded of."""
    with_tools = model.bind_tools(TOOLS)

    def asked(state: HookState) -> list[BaseMessage]:
        shown = [state.get("context", ""), state.get("reminders_text", "")]
        system = with_recalled(SystemMessage(INSTRUCTIONS), "\n\n".join(filter(None, shown)))
        return [*([system] if system else ()), *state["messages"]]

    def answered(state: HookState, answer: BaseMessage) -> dict[str, Any]:
        said = _question(state["messages"])
        return {"messages": [answer], "session_ended": _is_farewell(said)}

    def call(state: HookState) -> dict[str, Any]:
        return answered(state, with_tools.invoke(asked(state)))

    async def acall(state: HookState) -> dict[str, Any]:
        return answered(state, await with_tools.ainvoke(asked(state)))

    return RunnableLambda(call, acall, name="model")


def _after_model(state: HookState) -> Literal["run", "commit"]:
    last = state["messages"][-1]
    return "run" if isinstance(last, AIMessage) and last.tool_calls else "commit"


def _told(state: HookState) -> list[dict[str, Any]]:
    """Return the user's statement; a question is not kept."""
    said = _question(state["messages"])
    if not said or said.endswith("?"):
        return []
    return [{"content": said, "memory_type": None, "speaker": "user"}]


def _reported(error: Exception) -> str:
    """Return the error alone, as the model reads it and memory keeps it."""
    return str(error)


def _value(node: ast.AST) -> float:
    match node:
        case ast.Constant(value=int() | float() as number):
            return float(number)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _DOES:
            return _DOES[type(op)](_value(left), _value(right))
    raise SyntaxError("numbers with +, -, * and / can be worked out, and nothing else")


def _question(messages: Sequence[BaseMessage]) -> str:
    """Return the last message of the user."""
    asked = (one for one in reversed(messages) if isinstance(one, HumanMessage))
    return next((str(one.text).strip() for one in asked), "")


def _next(messages: list[BaseMessage]) -> AIMessage:
    """Return the next message of the ruled model: a call, or its answer."""
    asked = _question(messages)
    sums = list(dict.fromkeys(_SUM.findall(asked)))
    since = [place for place, one in enumerate(messages) if isinstance(one, HumanMessage)]
    turn = messages[since[-1] :] if since else messages
    steps = sum(isinstance(one, AIMessage) for one in turn)
    if sums and steps <= 2 * len(sums):
        number, planned = divmod(steps, 2)
        return _call("calculate", expression=sums[number]) if planned else _plan(sums, number)
    calls = [one for one in turn if isinstance(one, ToolMessage) and one.name == "calculate"]
    shown = "\n".join(str(one.text) for one in messages if isinstance(one, SystemMessage))
    due = "".join(_REMINDERS.findall(shown))
    reminders = [f"Do not forget: {unescape(one)}" for one in _REMINDER.findall(due)]
    worked = [f"{one} = {each.text}" for one, each in zip(sums, calls, strict=False)]
    answer = f"{', '.join(worked)}." if worked else _answer(asked, _said(messages, shown))
    return AIMessage("\n".join([*reminders, answer]))


def _plan(sums: Sequence[str], number: int) -> AIMessage:
    """Write the todos: those before the number are completed, the next is in progress."""
    status = ["completed"] * number + ["in_progress"] + ["pending"] * len(sums)
    todos = [
        {"content": f"Work out {one}", "status": how}
        for one, how in zip(sums, status, strict=False)
    ]
    return _call("write_todos", todos=todos)


def _call(name: str, **arguments: Any) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": name, "args": arguments, "id": str(uuid4())}])


def _said(messages: Sequence[BaseMessage], shown: str) -> list[str]:
    """Return the user's earlier sentences, from the memories shown and from this thread."""
    lines = "\n".join(unescape(one) for one in _MEMORY.findall(shown)).splitlines()
    here = [str(one.text).strip() for one in messages[:-1] if isinstance(one, HumanMessage)]
    told = [_LINE.sub("", one.strip()) for one in lines if not one.startswith(_NOT_SAID)]
    return [one for one in [*told, *here] if not one.endswith("?")]


def _answer(asked: str, told: Sequence[str]) -> str:
    if _is_farewell(asked):
        return GOODBYE
    if not asked.endswith("?"):
        return NOTED
    best = max(told, key=lambda one: _in_common(asked, one), default="")
    return f'You told me: "{best}"' if best and _in_common(asked, best) else UNKNOWN


def _in_common(question: str, said: str) -> int:
    """Letters in the telling words that both have."""
    words = {*_WORD.findall(question.lower())} & {*_WORD.findall(said.lower())}
    return sum(len(word) for word in words if not _SAYS_LITTLE.fullmatch(word))


graph = make_agent()
