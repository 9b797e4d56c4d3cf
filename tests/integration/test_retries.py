"""What a failed call and a later one teach, from one day to the next."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langchain_core.tools import StructuredTool, ToolException
from langgraph.prebuilt import ToolNode

from langmem_tiers import MemoryCoordinator, TieredMemoryMiddleware, TieredStore, ToolLessons
from tests.support.agents import WAYS, How, agent_on, calls, run, scripted
from tests.support.graphs import ACME, asks, chain
from tests.support.opening import Opened, opened_store, text_index

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


async def a_day(store: TieredStore, shell: Shell, how: How, *commands: str) -> dict[str, Any]:
    """An agent runs these commands in a thread of its own, and learns from what fails."""
    model = scripted(*(calls("shell", command=one) for one in commands), "That is all")
    agent = agent_on(store, model, TieredMemoryMiddleware(reflect=True), tools=[shell.tool])
    return await run(agent, how, {"messages": [HumanMessage("Set up the project")]}, context=ACME)


@pytest.fixture
def store(url: str) -> Iterator[TieredStore]:
    with TieredStore(url, index=text_index()) as opened:
        yield opened


def lessons_node(shell: Shell) -> ToolNode:
    lessons = ToolLessons()
    return ToolNode(
        [shell.tool],
        wrap_tool_call=lessons.wrap_tool_call,
        awrap_tool_call=lessons.awrap_tool_call,
    )


@pytest.mark.parametrize("error", [UNREACHABLE, UNKNOWN])
@pytest.mark.parametrize(("opened", "how"), WAYS)
async def test_a_call_is_run_the_next_day_whatever_else_worked_after_it_had_failed(
    url: str, opened: Opened, how: How, error: str
) -> None:
    network = shell((INSTALL, error))
    async with opened_store(TieredStore(url, index=text_index()), opened) as store:
        await a_day(store, network, how, INSTALL, LIST)
        network.failing.clear()
        await a_day(store, network, how, INSTALL)
        memory = MemoryCoordinator(store, context=ACME)
        lessons = await memory.aget_lessons(tools="shell")

    assert network.ran == [INSTALL, LIST, INSTALL]
    assert [one.memory_type for one in lessons] == ["episodic"]


@pytest.mark.parametrize(("opened", "how"), WAYS)
async def test_a_call_that_failed_for_the_moment_is_run_though_its_retry_is_a_lesson(
    url: str, opened: Opened, how: How
) -> None:
    patient = f"{INSTALL} --retries 9"
    network = shell((INSTALL, UNREACHABLE))
    async with opened_store(TieredStore(url, index=text_index()), opened) as store:
        await a_day(store, network, how, INSTALL, patient)
        network.failing.clear()
        await a_day(store, network, how, INSTALL)
        memory = MemoryCoordinator(store, context=ACME)
        (lesson,) = await memory.aget_lessons(UNREACHABLE, tools="shell")

    assert network.ran == [INSTALL, patient, INSTALL]
    assert "Do instead: shell" in lesson.content


@pytest.mark.parametrize(("opened", "how"), WAYS)
async def test_a_near_retry_still_teaches_and_holds_the_call_the_next_day(
    url: str, opened: Opened, how: How
) -> None:
    wrong, right = "add 1,234", "add 1234"
    adding = shell((wrong, BAD_NUMBER))
    async with opened_store(TieredStore(url, index=text_index()), opened) as store:
        await a_day(store, adding, how, wrong, LIST, right)
        state = await a_day(store, adding, how, wrong, right)

    assert adding.ran == [wrong, LIST, right, right]
    assert 'Do instead: shell({"command": "add 1234"})' in state["messages"][2].text


# A turn


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
