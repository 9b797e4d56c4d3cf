"""An agent meets real failures again: whether the recall node shows the lesson of the task first.

The failures are those of programs that an agent wrote (the logs of `learning_data.py`), run again
in a process of their own, and those that were recorded of compilers, test runners and other tools
(`data/failed.jsonl`). A lesson is learned from one failure of a task; then another one of it is at
hand, among the messages, and the node recalls.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations
from operator import and_
from pathlib import Path
from typing import Any, Final, NamedTuple

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langgraph.graph import StateGraph

from benchmarks.data import records
from benchmarks.databases import create
from benchmarks.learning_data import Programming, programming
from langmem_tiers import MemoryContext, MemoryCoordinator, TieredStore, local_index
from langmem_tiers.graph.recall import MemoryState, create_recall_node
from langmem_tiers.learning.signature import signature

MBPP, RECORDED, ONE_TOOL = SETS = ("MBPP-Python", "recorded", "recorded, all in one tool")
NODE, CONTEXT = WAYS = ("recall node", "get_context")
SHELL: Final = "shell"
"""The tool of agents that have one for all."""
_PARTS: Final = ("original_approach", "failure_reason", "improved_approach")
_SECONDS: Final = 5
_BYTES: Final = 2**30


class Lesson(NamedTuple):
    """What was learned, of which task and from what failure."""

    task: str
    tried: str
    reason: str
    instead: str
    failure: str | None
    tool: str


class Met(NamedTuple):
    """A failure that is met again."""

    task: str
    prompt: str
    code: str
    output: str
    tool: str


class Cases(NamedTuple):
    """What is learned and what is met."""

    name: str
    lessons: Sequence[Lesson]
    met: Sequence[Met]


@dataclass(slots=True)
class Shown:
    """How often the task's lesson stood first, and how well signatures tell the failures apart."""

    name: str
    lessons: int
    met: int
    first: dict[str, int] = field(default_factory=dict)
    alike: int = 0
    """Failures that have the signature of one that was learned from."""
    first_of_alike: int = 0
    """Those of them that the recall node showed the task's lesson first for."""
    same: float = 0.0
    """Of the pairs of failures of one task, those with one signature."""
    other: float = 0.0
    """Of the pairs of failures of two tasks, those with one signature."""

    def share(self, way: str) -> float:
        """The share of failures that the task's lesson stood first for."""
        return self.first[way] / self.met


def run_again(task: Programming) -> str | None:
    """What a program says when its tests are run; None if they pass, or it takes too long."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "solution.py"
        path.write_text(f"{task.solution}\n\n\n{task.test}", "utf-8")
        try:
            done = subprocess.run(  # noqa: S603 - its memory, time and files are limited
                [sys.executable, "-I", path.name],
                cwd=folder,
                env={},
                capture_output=True,
                text=True,
                timeout=_SECONDS,
                check=False,
                stdin=subprocess.DEVNULL,
                preexec_fn=_limited,
            )
        except subprocess.TimeoutExpired:
            return None
    return done.stderr.strip() or None


def _limited() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_BYTES, _BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (_SECONDS, _SECONDS))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


def of_logs(folder: Path) -> Cases:
    """The programs of run 1 teach; those of both runs are met."""
    first, second = programming(folder, 1), programming(folder, 2)
    failed = {one.name: run_again(one) for one in first if one.reflections and not one.solved}
    lessons = [
        Lesson(one.name, one.prompt, said, one.reflections[-1], failed.get(one.name), "python")
        for one in first
        for said in one.reflections
    ]
    known = {one.task for one in lessons}
    again = [(one, failed.get(one.name)) for one in first]
    again += [(one, run_again(one)) for one in second if one.name in known and not one.solved]
    met = [Met(one.name, one.prompt, one.solution, said, "python") for one, said in again if said]
    return Cases(MBPP, lessons, met)


def recorded(name: str = RECORDED) -> Cases:
    """The first failure of each task teaches; the second is met."""
    lessons, met = list[Lesson](), list[Met]()
    for one in records("failed"):
        tool = one["chain"] if name == RECORDED else SHELL
        task, (first, second) = f"{one['writer']}/{one['task']}", one["attempts"]
        tried, reason, instead = (one["lesson"][part] for part in _PARTS)
        lessons.append(Lesson(task, tried, reason, instead, first["output"], tool))
        met.append(Met(task, one["prompt"], second["code"], second["output"], tool))
    return Cases(name, lessons, met)


def all_recorded() -> list[Cases]:
    """The recorded failures, in their own tools and in one that does everything."""
    return [recorded(), recorded(ONE_TOOL)]


def measure(server_url: str, several: Sequence[Cases], most: int | None) -> Iterator[Shown]:
    """Each set of cases; `most` failures are met of each, if given."""
    for one in several:
        yield _measured(server_url, one._replace(met=one.met[:most]))


def _measured(server_url: str, cases: Cases) -> Shown:
    shown = Shown(cases.name, len(cases.lessons), len(cases.met))
    with TieredStore.from_conn_string(create(server_url, "met"), index=local_index()) as store:
        store.setup()
        memory = MemoryCoordinator(store, context=MemoryContext(tenant="met", project_id="p"))
        about = learned(memory, cases)
        builder = StateGraph(MemoryState, context_schema=MemoryContext)
        builder.add_node("recall", create_recall_node())
        builder.set_entry_point("recall")
        graph = builder.compile(store=store)
        ways: dict[str, Callable[[Met], list[str]]] = {
            NODE: partial(_recalled, graph, memory.context),
            CONTEXT: lambda one: [each.key for each in memory.get_context(one.prompt)],
        }
        for way, asked in ways.items():
            keys = [asked(one) for one in cases.met]
            first = [
                bool(found) and about.get(found[0]) == one.task
                for found, one in zip(keys, cases.met, strict=True)
            ]
            shown.first[way] = sum(first)
            if way == NODE:
                known = {(one.task, _signed(one.failure, one.tool)) for one in cases.lessons}
                alike = [(one.task, _signed(one.output, one.tool)) in known for one in cases.met]
                shown.alike = sum(alike)
                shown.first_of_alike = sum(map(and_, first, alike))
    shown.same, shown.other = told_apart(cases)
    return shown


def learned(memory: MemoryCoordinator, cases: Cases) -> dict[str, str]:
    """Store the lessons: which task each is of, by its key."""
    about = dict[str, str]()
    for one in cases.lessons:
        stored = memory.store_reflexion(
            task_id=one.task,
            original_approach=one.tried,
            failure_reason=one.reason,
            improved_approach=one.instead,
            failure=one.failure,
            tool=one.tool,
        )
        about[str(stored.key)] = one.task
    return about


def messages(one: Met) -> list[AnyMessage]:
    """What an agent has before it when a failure is met."""
    call = {"name": one.tool, "args": {"code": one.code}, "id": "call-1"}
    return [
        HumanMessage(one.prompt),
        AIMessage("", tool_calls=[call]),
        ToolMessage(one.output, tool_call_id="call-1", status="error"),
    ]


def _recalled(graph: Any, context: MemoryContext, one: Met) -> list[str]:
    found = graph.invoke({"messages": messages(one)}, context=context)
    return [each["key"] for each in found["recalled"]]


def _signed(said: str | None, tool: str) -> str | None:
    return None if said is None else str(signature(said, tool=tool))


def told_apart(cases: Cases) -> tuple[float, float]:
    """Of pairs of failures of one task, and of two, the shares with one signature."""
    failed = {(one.task, one.failure, one.tool) for one in cases.lessons if one.failure}
    failed |= {(one.task, one.output, one.tool) for one in cases.met}
    signed = [(task, _signed(said, tool)) for task, said, tool in sorted(failed)]
    pairs = [(a[0] == b[0], a[1] == b[1]) for a, b in combinations(signed, 2)]
    same = [equal for alike, equal in pairs if alike]
    other = [equal for alike, equal in pairs if not alike]
    return sum(same) / max(1, len(same)), sum(other) / max(1, len(other))
