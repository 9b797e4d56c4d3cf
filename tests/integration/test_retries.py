"""What a failed call and a later one teach, from one day to the next."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langchain_core.tools import StructuredTool, ToolException
from langgraph.prebuilt import ToolNode

from langmem_tiers import MemoryCoordinator, TieredMemoryMiddleware, TieredStore, ToolLessons
from tests.support.agents import Way, agent_on, calls, scripted
from tests.support.graphs import ACME, asks, chain

INSTALL, LIST = "pip install foo", "ls -la"
UNREACHABLE = (
    "WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError(\"x: Failed "
    "to establish a new connection: [Errno -3] Temporary failure in name resolution\")'\n"
    "ERROR: No matching distribution found for foo"
)
UNKNOWN = "ERROR: No matching distribution found for foo"
BAD_NUMBER = "ValueError: invalid literal for int() with base 10: '1,234'"


class Shell:
    """A shell that some commands fail in, and that keeps what was run."""

    def __init__(self, **failing: str) -> None:
        self.failing = failing
        self.ran: list[str] = []
        self.tool = StructuredTool.from_function(
            self.run, name="shell", description="Run a command.", handle_tool_error=True
        )

    def run(self, command: str) -> str:
        self.ran.append(command)
        if command in self.failing:
            raise ToolException(self.failing[command])
        return f"{command}: done"


def shell(*failing: tuple[str, str]) -> Shell:
    return Shell(**dict(failing))


async def a_day(way: Way, shell: Shell, *commands: str) -> dict[str, Any]:
    """An agent runs these commands in a thread of its own, and learns from what fails."""
    model = scripted(*(calls("shell", command=one) for one in commands), "That is all")
    agent = agent_on(way.store, model, TieredMemoryMiddleware(reflect=True), tools=[shell.tool])
    return await way(agent, {"messages": [HumanMessage("Set up the project")]}, context=ACME)


def lessons_node(shell: Shell) -> ToolNode:
    lessons = ToolLessons()
    return ToolNode(
        [shell.tool],
        wrap_tool_call=lessons.wrap_tool_call,
        awrap_tool_call=lessons.awrap_tool_call,
    )


@pytest.mark.parametrize("error", [UNREACHABLE, UNKNOWN])
async def test_a_call_is_run_the_next_day_whatever_else_worked_after_it_had_failed(
    way: Way, error: str
) -> None:
    network = shell((INSTALL, error))
    await a_day(way, network, INSTALL, LIST)
    network.failing.clear()
    await a_day(way, network, INSTALL)
    memory = MemoryCoordinator(way.store, context=ACME)
    lessons = await memory.aget_lessons(tools="shell")

    assert network.ran == [INSTALL, LIST, INSTALL]
    assert [one.memory_type for one in lessons] == ["episodic"]


async def test_a_call_that_failed_for_the_moment_is_run_though_its_retry_is_a_lesson(
    way: Way,
) -> None:
    patient = f"{INSTALL} --retries 9"
    network = shell((INSTALL, UNREACHABLE))
    await a_day(way, network, INSTALL, patient)
    network.failing.clear()
    await a_day(way, network, INSTALL)
    memory = MemoryCoordinator(way.store, context=ACME)
    (lesson,) = await memory.aget_lessons(UNREACHABLE, tools="shell")

    assert network.ran == [INSTALL, patient, INSTALL]
    assert "Do instead: shell" in lesson.content


async def test_a_near_retry_still_teaches_and_holds_the_call_the_next_day(way: Way) -> None:
    wrong, right = "add 1,234", "add 1234"
    adding = shell((wrong, BAD_NUMBER))
    await a_day(way, adding, wrong, LIST, right)
    state = await a_day(way, adding, wrong, right)

    assert adding.ran == [wrong, LIST, right, right]
    assert 'Do instead: shell({"command": "add 1234"})' in state["messages"][2].text


# Around a tool node


def says(command: str) -> Any:
    """A node that calls the shell."""
    return lambda _: {"messages": [calls("shell", command=command)]}


def test_what_a_person_teaches_holds_a_call_unless_it_failed_for_the_moment(
    store: TieredStore,
) -> None:
    memory = MemoryCoordinator(store, context=ACME)
    for command, error in (("rm -r build", "it removed the sources"), (INSTALL, "TimeoutError: x")):
        memory.store_reflexion(
            task_id="Set up the project",
            original_approach=f'shell({{"command": "{command}"}})',
            failure_reason=error,
            improved_approach='shell({"command": "make clean"})',
            failure=error,
            tool="shell",
        )
    careful = shell()
    for command in ("rm -r build", INSTALL):
        graph = chain(store, says(command), lessons_node(careful))
        graph.invoke({"messages": [asks()]}, context=ACME)

    assert careful.ran == [INSTALL]
