"""An agent with faulty tools, as a LangGraph graph: a rule that remembers, or does not.

The tools fail by twelve families of real exceptions. docs/learning.md has the rule, and says what
was chosen before anything was measured; nothing here asks a model.
"""

from __future__ import annotations

import errno
import json
import os
import random
import re
import smtplib
import subprocess
import urllib.error
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from email.message import Message
from typing import Annotated, Any, NamedTuple, cast

import psycopg
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.prebuilt import InjectedState, ToolNode
from langgraph.runtime import Runtime
from pydantic import create_model

from benchmarks.data import records
from langmem_tiers import MemoryContext, MemoryCoordinator, TieredStore
from langmem_tiers.graph.learning import create_outcome_node
from langmem_tiers.graph.messages import executed_calls
from langmem_tiers.graph.recall import MemoryState, create_recall_node

Draw = random.Random


class FaultFamily(NamedTuple):
    """A kind of fault: where it strikes, what it raises, and the argument that prevents it."""

    name: str
    tool: str
    noun: str
    """What the task is about; it tells the families of one tool apart."""
    remedy: Mapping[str, Any]
    phrasings: Sequence[str]
    make: Callable[[Draw], Exception]


def _word(draw: Draw) -> str:
    return "".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=draw.randint(5, 9)))


def path(draw: Draw) -> str:
    top = draw.choice(("srv", "data", "home"))
    return f"/{top}/{_word(draw)}/{_word(draw)}-{draw.randint(1, 9999)}"


def _host(draw: Draw) -> str:
    return f"{_word(draw)}-{draw.randint(1, 99)}.example.org"


def _encoding(draw: Draw) -> Exception:
    before = " ".join(_word(draw) for _ in range(draw.randint(1, 12))).encode()
    raw = before + bytes([draw.choice((0xE4, 0xE9, 0xF6, 0xFC))])
    return UnicodeDecodeError("utf-8", raw, len(before), len(raw), "invalid continuation byte")


def _fields(draw: Draw) -> Exception:
    wanted = draw.randint(2, 9)
    line, saw = draw.randint(2, 90_000), wanted + draw.randint(1, 9)
    return ValueError(
        f"Error tokenizing data. C error: Expected {wanted} fields in line {line}, saw {saw}"
    )


def _forbidden(draw: Draw) -> Exception:
    url = f"https://{_host(draw)}/{_word(draw)}?id={draw.randrange(10**8)}"
    error = urllib.error.HTTPError(url, 403, "Forbidden", Message(), None)
    error.close()
    return error


def _timeout(draw: Draw) -> Exception:
    return TimeoutError(
        f"read of {_host(draw)}:443 timed out after {draw.randint(5, 60)}.{draw.randint(0, 9)} s"
    )


def _relation(draw: Draw) -> Exception:
    table = f"{_word(draw)}_{draw.randint(2001, 2025)}"
    return psycopg.errors.UndefinedTable(
        f'relation "{table}" does not exist\nLINE 1: TABLE {table}\n              ^'
    )


def _cancelled(_: Draw) -> Exception:
    return psycopg.errors.QueryCanceled("canceling statement due to statement timeout")


def _no_folder(draw: Draw) -> Exception:
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path(draw))


def _disk_full(draw: Draw) -> Exception:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path(draw))


def _too_large(draw: Draw) -> Exception:
    size = draw.randint(30, 900)
    return smtplib.SMTPDataError(552, f"5.3.4 Message size {size}000000 exceeds limit".encode())


def _relay(draw: Draw) -> Exception:
    address = f"{_word(draw)}@{_host(draw)}"
    return smtplib.SMTPRecipientsRefused({address: (550, b"5.7.1 Relaying denied")})


def _killed(draw: Draw) -> Exception:
    command = ["deploy", _word(draw), f"--id={draw.randrange(16**8):08x}"]
    return subprocess.CalledProcessError(137, command)


def _refused(draw: Draw) -> Exception:
    return ConnectionRefusedError(
        errno.ECONNREFUSED, f"Connection refused: {_host(draw)}:{draw.randint(1024, 65535)}"
    )


_MAKE = {
    "encoding": _encoding,
    "separator": _fields,
    "forbidden": _forbidden,
    "slow host": _timeout,
    "other schema": _relation,
    "statement timeout": _cancelled,
    "no folder": _no_folder,
    "disk full": _disk_full,
    "too large": _too_large,
    "relaying": _relay,
    "memory": _killed,
    "not ready": _refused,
}
FAMILIES = tuple(FaultFamily(**one, make=_MAKE[one["name"]]) for one in records("faulty_tools"))


OWN, SHARED, HIDDEN = WORLDS = (
    "a tool for each family",
    "two families in each tool",
    "two families, told by nothing",
)
"""How a task tells which fault it will meet: by its tool, by its words, or not at all."""
PROJECTS = ("north", "south")
TASKS = 200
FIRES = 0.9
"""The share of tasks whose fault fires while the remedy is missing."""


class Task(NamedTuple):
    """Something to be done; `fires` says whether the family's fault strikes."""

    number: int
    project: str
    family: FaultFamily
    tool: str
    question: str
    target: str
    fires: bool


_SILENT = ("Take care of {target} for {city}", "{city} waits for {target}", "Do {target} in {city}")
_CITIES = ("Lyon", "Oslo", "Porto", "Ghent", "Turin", "Graz", "Malmö", "Bilbao", "Cork", "Brno")


def tool_of(family: FaultFamily, world: str) -> str:
    """The name of the tool that a family strikes in."""
    return family.tool if world != OWN else f"{family.tool}_{family.noun.replace(' ', '_')}"


def tools(world: str) -> dict[str, list[str]]:
    """Each tool of a world, and the arguments that it takes beside its target."""
    found: dict[str, list[str]] = {}
    for one in FAMILIES:
        found.setdefault(tool_of(one, world), []).extend(one.remedy)
    return found


def tasks(world: str, seed: int, count: int = TASKS) -> Iterator[Task]:
    """The same tasks for the same seed, in every world."""
    draw = random.Random(f"tasks {seed}")
    for number in range(count):
        family = draw.choice(FAMILIES)
        target = path(draw)
        phrasings = _SILENT if world == HIDDEN else family.phrasings
        said = draw.choice(phrasings).format(target=target, city=draw.choice(_CITIES))
        project, fires = draw.choice(PROJECTS), draw.random() < FIRES
        yield Task(number, project, family, tool_of(family, world), said, target, fires)


def call(task: Task, arguments: Mapping[str, Any], draw: Draw) -> str:
    """Do what the tool does for this task, or fail as its family does."""
    family = task.family
    remedied = all(arguments.get(name) == value for name, value in family.remedy.items())
    if task.fires and not remedied:
        raise family.make(draw)
    return f"{task.tool} is done with {task.target}"


# ---- the agent -----------------------------------------------------------------------------

CALLS = 4
"""A task is given up after so many."""
FOLLOWS = 0.95
WORKED_OUT = 0.5

Node = Runnable[Any, Any] | Callable[..., Any]
_ADVICE = re.compile(r"^ *Do instead: (\w+)\((\{.*\})\)$", re.MULTILINE)


class State(MemoryState, total=False):
    """A task's messages, and the task itself, which a real agent would not see."""

    task: Task
    seed: int


class Outcome(NamedTuple):
    """What came of a task."""

    task: Task
    failed_calls: int
    succeeded: bool


@dataclass(frozen=True, slots=True)
class Memory:
    """How an agent remembers: a node before each call, and what follows the last one."""

    recall: Node
    learn: Sequence[Any]
    store: TieredStore | None = None


@dataclass(frozen=True, slots=True)
class Agent:
    """The graph, and what runs it."""

    graph: CompiledStateGraph[Any, Any, Any, Any]
    tenant: str
    seed: int

    def do(self, task: Task) -> Outcome:
        """Run one task."""
        begun = {"messages": [HumanMessage(task.question)], "task": task, "seed": self.seed}
        context = MemoryContext(tenant=self.tenant, project_id=task.project)
        state = cast("State", self.graph.invoke(begun, context=context))
        failed = sum(one.status == "error" for one in answers(state))
        return Outcome(task, failed, succeeded(state))


def agent(memory: Memory, world: str, *, tenant: str, seed: int) -> Agent:
    """An agent with this memory and a world's tools."""
    builder = StateGraph(State, context_schema=MemoryContext)
    builder.add_node("plan", _plan)
    builder.add_node("recall", memory.recall)
    builder.add_node("decide", _decide)
    builder.add_node(
        "tools", ToolNode([_tool(*one) for one in tools(world).items()], handle_tool_errors=True)
    )
    builder.add_sequence([(f"learn {number}", one) for number, one in enumerate(memory.learn)])
    builder.add_edge(START, "plan")
    builder.add_edge("plan", "recall")
    builder.add_edge("recall", "decide")
    builder.add_edge("decide", "tools")
    builder.add_conditional_edges(
        "tools", lambda state: "learn 0" if _over(state) else "plan", ["learn 0", "plan"]
    )
    builder.add_edge(f"learn {len(memory.learn) - 1}", END)
    return Agent(builder.compile(store=memory.store), tenant, seed)


def forgetful() -> Memory:
    """No memory at all."""
    return Memory(recall=_nothing, learn=[_nothing])


def tiered(store: TieredStore, **options: Any) -> Memory:
    """Ours, with options of the recall node."""
    recall = create_recall_node(memory_types=["reflexion"], holdout=0, **options)
    return Memory(recall, [_note, create_outcome_node(succeeded)], store)


def lesson_of(state: State) -> dict[str, Any] | None:
    """What the agent notes of a task that failed first, and was solved; None of any other."""
    calls = list(executed_calls(state["messages"]))
    if not calls or not calls[0].failed or calls[-1].failed:
        return None
    return {
        "task_id": state["task"].question,
        "original_approach": calls[0].approach,
        "failure_reason": calls[0].text,
        "improved_approach": calls[-1].approach,
        "failure": calls[0].text,
        "tool": calls[0].tool,
    }


def _note(state: State, runtime: Runtime[MemoryContext]) -> dict[str, Any]:
    """Note a lesson as the agent's own."""
    store = runtime.store
    if isinstance(store, TieredStore) and (lesson := lesson_of(state)) is not None:
        MemoryCoordinator(store, context=runtime.context).store_reflexion(**lesson, source="agent")
    return {}


def _nothing(_: State) -> dict[str, Any]:
    return {}


def advice(text: str, tool: str) -> dict[str, Any]:
    """The arguments of the first lesson in a text that is about the tool; none without one."""
    for found in _ADVICE.finditer(text):
        if found[1] == tool:
            arguments: dict[str, Any] = json.loads(found[2])
            return arguments
    return {}


def _plan(state: State) -> dict[str, Any]:
    """The naive call, or from the second one on what was worked out from the error."""
    task, attempt = state["task"], len(answers(state))
    arguments: dict[str, Any] = {"target": task.target}
    if attempt and _draw(state, "worked out").random() < WORKED_OUT:
        arguments |= task.family.remedy
    return {"messages": [_calling(task, attempt, arguments)]}


def _decide(state: State) -> dict[str, Any]:
    """The planned call, with what the first lesson about the tool adds to it."""
    task, planned = state["task"], _arguments(state["messages"][-1])
    learned = advice(state.get("recalled_text", ""), task.tool) | planned
    worked_out = planned.keys() != {"target"}
    tried = learned in map(_arguments, state["messages"])
    if worked_out or tried or _draw(state, "follows").random() >= FOLLOWS:
        return {}
    return {"messages": [_calling(task, len(answers(state)), learned)]}


def _arguments(message: AnyMessage) -> dict[str, Any]:
    """What a message calls a tool with, if it does."""
    calls = message.tool_calls if isinstance(message, AIMessage) else []
    return dict(calls[0]["args"]) if calls else {}


def _calling(task: Task, attempt: int, arguments: Mapping[str, Any]) -> AIMessage:
    """The message that calls the tool; of one id, so that a decided call replaces the planned."""
    name = f"{task.number}-{attempt}"
    calls = [{"name": task.tool, "args": dict(arguments), "id": f"call-{name}"}]
    return AIMessage("", id=name, tool_calls=calls)


def _tool(name: str, further: Sequence[str]) -> BaseTool:
    """A tool that takes its target and further arguments."""

    def run(state: State, **arguments: Any) -> str:
        return call(state["task"], arguments, _draw(state, "error"))

    fields: dict[str, Any] = dict.fromkeys(further, (Any, None))
    schema = create_model(
        name, target=(str, ...), state=(Annotated[dict[str, Any], InjectedState], ...), **fields
    )
    return StructuredTool.from_function(
        run, name=name, description=f"{name}, when it works", args_schema=schema
    )


def _draw(state: State, what: str) -> random.Random:
    """A chance of its own for each task, call and question: the same however one remembers."""
    attempt = len(answers(state))
    return random.Random(f"{state['seed']} {state['task'].number} {attempt} {what}")


def answers(state: State) -> list[ToolMessage]:
    return [one for one in state["messages"] if isinstance(one, ToolMessage)]


def succeeded(state: State) -> bool:
    return answers(state)[-1].status != "error"


def _over(state: State) -> bool:
    return succeeded(state) or len(answers(state)) >= CALLS
