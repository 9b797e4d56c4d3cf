"""What stands around a tool call: lessons beside its error, and what holds it before it runs."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import StructuredTool, ToolException
from langgraph.prebuilt import ToolNode

from langmem_tiers import (
    FailedAttempt,
    MemoryCoordinator,
    PromotionPolicy,
    TieredMemoryMiddleware,
    TieredStore,
    ToolLessons,
    ToolReminders,
    create_outcome_node,
    create_recall_node,
    create_reflexion_node,
)
from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.graph.messages import executed_calls
from tests.support.agents import Way, agent_on, calls, scripted
from tests.support.graphs import (
    ACME,
    BROKEN,
    TASK,
    add,
    answers,
    asks,
    call,
    chain,
    counts,
    learned,
    memories,
    off_the_loop,
    pay,
    tried,
)
from tests.support.opening import Clock

LESSON = "Do instead: add"


def tools(*more: Any, hold_repeats: bool = True) -> ToolNode:
    lessons = ToolLessons(hold_repeats=hold_repeats, holdout=0)
    return ToolNode(
        [add, pay, *more],
        handle_tool_errors=True,
        wrap_tool_call=lessons.wrap_tool_call,
        awrap_tool_call=lessons.awrap_tool_call,
    )


def says(number: int, name: str = "add", **arguments: Any) -> Any:
    """A node that calls a tool."""
    return lambda _: {"messages": [call(name, number, **arguments)]}


# Beside an error


def test_an_error_in_blocks_keeps_them_below_its_lesson(store: TieredStore) -> None:
    learned(store)
    image = {"type": "image", "url": "https://x.example/1"}
    blocks: list[Any] = [{"type": "text", "text": BROKEN}, image]

    def wrapped(request: Any, run: Any) -> Any:
        def broken(one: Any) -> ToolMessage:
            answer: ToolMessage = run(one)
            return answer.model_copy(update={"content": blocks})

        return ToolLessons().wrap_tool_call(request, broken)

    node = ToolNode([add], handle_tool_errors=True, wrap_tool_call=wrapped)
    state = chain(store, node).invoke(
        {"messages": [asks(), call("add", amount="1,2")]}, context=ACME
    )
    (said,) = answers(state)
    assert said.content[1:] == blocks
    assert LESSON in said.text


# Holding a call that failed before


def test_no_call_is_held_unless_that_is_asked_for(store: TieredStore) -> None:
    learned(store)
    graph = chain(store, says(1, amount="1,234"), tools(hold_repeats=False))
    (said,) = answers(graph.invoke({"messages": [asks()]}, context=ACME))
    assert said.text.startswith("<memories>")
    assert "the amount '1,234' has a comma" in said.text.partition("</memories>")[2]
    around = ToolLessons(holdout=0)
    node = ToolNode([add], handle_tool_errors=True, wrap_tool_call=around.wrap_tool_call)
    (said,) = answers(
        chain(store, says(1, amount="1,234"), node).invoke({"messages": [asks()]}, context=ACME)
    )
    assert not said.text.startswith("This call was not run")


async def test_a_call_that_failed_before_in_this_form_is_held_once_and_then_told_its_lesson(
    way: Way,
) -> None:
    await off_the_loop(learned, way.store)
    steps = [one for number in (1, 2, 3) for one in (says(number, amount="1,234"), tools())]
    graph = chain(way.store, *steps, says(4, amount="5,678"), tools())
    state = await way(graph, {"messages": [asks()]}, context=ACME)

    held, *ran = answers(state)
    assert held.text.startswith("This call was not run")
    assert LESSON in held.text
    for said, amount in zip(ran, ("1,234", "1,234", "5,678"), strict=True):
        assert said.text.startswith("<memories>")
        assert said.text.index(LESSON) < said.text.rindex(f"the amount '{amount}' has a comma")
    assert [one.status for one in (held, *ran)] == ["error"] * 4


def test_a_call_that_was_held_did_not_fail_and_teaches_nothing(store: TieredStore) -> None:
    learned(store)
    steps = [says(1, amount="1,234"), tools(), says(2, amount="1234"), tools()]
    graph = chain(store, *steps, create_reflexion_node())
    state = graph.invoke({"messages": [asks()]}, context=ACME)

    assert [one.status for one in answers(state)] == ["error", "success"]
    assert state["reflexions"] == []
    assert memories(store, "attempt") == []
    assert len(memories(store, "reflexion")) == 1
    assert [one.approach for one in executed_calls(state["messages"])] == [
        'add({"amount": "1234"})'
    ]


def test_a_lesson_that_held_a_call_is_credited_with_what_came_of_the_run(
    store: TieredStore,
) -> None:
    key = learned(store)
    other = learned(store, original_approach="something else", task_id="Other")
    recall = create_recall_node(limit=0, lessons=0)
    graph = chain(store, recall, says(1, amount="1,234"), tools(), create_outcome_node("worked"))
    for success, expected in ((True, (1, 0)), (False, (1, 1))):
        state = graph.invoke({"messages": [asks()], "worked": success}, context=ACME)
        assert state["credited"] == 1
        assert counts(store, key, other) == [expected, (0, 0)]


def test_a_call_that_has_worked_in_the_thread_is_not_held(store: TieredStore) -> None:
    learned(store, original_approach='add({"amount": "7"})')
    worked = tried(1, "7", "added 7")
    failed = tried(1, "7", "the server was down", failed=True)
    for before, status in ((worked, "success"), (failed, "error")):
        given = {"messages": [asks(), *before, asks("Once more"), call("add", 2, amount="7")]}
        state = chain(store, tools()).invoke(given, context=ACME)
        assert state["messages"][-1].status == status


# From one day to the next

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

    def __init__(self, failing: dict[str, str]) -> None:
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

    def day(self, store: TieredStore, *commands: str, **options: Any) -> Any:
        """An agent runs these commands in a thread of its own, and keeps what fails."""
        model = scripted(*(calls("shell", **one) for one in map(self.of, commands)), "That is all")
        memory = TieredMemoryMiddleware(reflect=True, **options)
        agent = agent_on(store, model, memory, tools=[self.tool])
        return agent.invoke({"messages": [HumanMessage("Set up the project")]}, context=ACME)

    def of(self, command: str) -> dict[str, str]:
        return {"command": command}


class Adding(Shell):
    """The same, in a folder that each call names."""

    def __init__(self, failing: dict[str, str]) -> None:
        super().__init__(failing)
        self.tool = StructuredTool.from_function(
            self.there, name="shell", description="Run a command.", handle_tool_error=True
        )

    def there(self, command: str, folder: str) -> str:
        return self.run(command) + f" in {folder}"

    def of(self, command: str) -> dict[str, str]:
        return {"command": command, "folder": "/" if command == LIST else "/srv"}


@pytest.mark.parametrize(
    ("shell", "error", "retry"),
    [
        (Shell, UNKNOWN, f"{INSTALL} --pre"),  # nothing in common that says it was another try
        (Adding, UNREACHABLE, f"{INSTALL} --retries 9"),
    ],
)
def test_nothing_is_kept_of_what_passes_or_of_what_may_be_another_errand(
    store: TieredStore, memory: MemoryCoordinator, shell: type[Shell], error: str, retry: str
) -> None:
    network = shell({INSTALL: error})
    network.day(store, INSTALL, retry)
    network.failing.clear()
    network.day(store, INSTALL, hold_repeats=True)

    assert network.ran == [INSTALL, retry, INSTALL]
    assert memory.learning.get_lessons(error, tools="shell") == []
    assert memories(store, "attempt") == []


def test_an_attempt_is_shown_as_what_it_is_beside_the_same_error_and_holds_no_call(
    store: TieredStore, memory: MemoryCoordinator
) -> None:
    wrong, right = "add 1,234", "add 1234"
    adding = Adding({wrong: BAD_NUMBER})
    adding.day(store, wrong, right)
    state = adding.day(store, wrong, right, hold_repeats=True)

    assert adding.ran == [wrong, right] * 2
    said = state["messages"][2].text
    call = 'shell({"command": "add 1234", "folder": "/srv"})'
    assert f"failed: {BAD_NUMBER}; later {call} worked" in " ".join(said.split())
    assert "Do instead" not in said
    assert memory.learning.get_lessons(tools="shell") == []  # of the tool alone it says nothing
    assert memory.learning.get_lessons(query="set up the project: add 1,234")
    assert memory.get_context("Set up the project")


def test_where_another_call_worked_between_them_nothing_is_kept(store: TieredStore) -> None:
    adding = Adding({"add 1,234": BAD_NUMBER})
    adding.day(store, "add 1,234", LIST, "add 1234")
    assert memories(store, "attempt") == []


@pytest.mark.parametrize(
    ("error", "ran"), [("it removed the sources", []), ("TimeoutError: x", ["rm -r build"])]
)
def test_what_a_person_teaches_holds_just_that_call_unless_it_failed_for_the_moment(
    store: TieredStore, error: str, ran: list[str]
) -> None:
    learned(
        store,
        original_approach='shell({"command": "rm -r build"})',
        improved_approach='shell({"command": "make clean"})',
        failure_reason=error,
        failure=error,
        tool="shell",
    )
    careful = Shell({})
    steps = (says(1, "shell", command="rm -r build"), tools(careful.tool))
    others = (says(2, "shell", command="rm -r out"), tools(careful.tool))
    chain(store, *steps, *others).invoke({"messages": [asks()]}, context=ACME)

    assert careful.ran == [*ran, "rm -r out"]


def test_a_hold_that_was_wrong_is_not_repeated_until_its_lesson_is_learned_anew(
    store: TieredStore, memory: MemoryCoordinator, clock: Clock
) -> None:
    command = "make build"
    wrong: dict[str, Any] = {
        "original_approach": f'shell({{"command": "{command}"}})',
        "improved_approach": 'shell({"command": "make all"})',
        "failure_reason": "it built nothing",
        "failure": "it built nothing",
        "tool": "shell",
    }
    learned(store, **wrong)
    working = Shell({})
    insisting = chain(
        store,
        says(1, "shell", command=command),
        tools(working.tool),
        says(2, "shell", command=command),
        tools(working.tool),
    )
    insisting.invoke({"messages": [asks()]}, context=ACME)
    assert working.ran == [command]
    insisting.invoke({"messages": [asks()]}, context=ACME)
    assert working.ran == [command] * 3
    assert memory.learning.get_lessons(tools="shell")
    assert memory.learning.allow(wrong["original_approach"], tool="shell") == 0

    clock.advance(seconds=1)
    learned(store, **wrong)
    assert memory.learning.allow(wrong["original_approach"], tool="shell") == 1
    with pytest.raises(InvalidInputError, match="approach is empty"):
        memory.learning.allow(" ", tool="shell")


def test_what_works_is_held_by_no_successor_and_stands_in_no_way_back(
    store: TieredStore, memory: MemoryCoordinator, clock: Clock
) -> None:
    key, call = learned(store), 'add({"amount": "1,234"})'
    clock.advance(days=1)
    assert memory.learning.allow(call, tool="add") == 1
    assert memory.learning.allow(call, tool="add") == 0
    policy = PromotionPolicy(min_access_count=0, min_success_rate=0, min_age_days=0, min_projects=1)
    memory.learning.get_lessons(tools="add", run_id="r")
    memory.learning.record_outcome(run_id="r", success=True)
    clock.advance(days=1)
    moved = memory.promote_to_long_term(key, policy=policy)
    assert moved.promoted, moved

    assert list(memory.learning.get_lessons(tools="add", approach=call)) == []
    assert memory.learning.allow(call, tool="add") == 0
    assert memory.learning.rollback(str(moved.move))


def test_a_lesson_comes_before_many_attempts_of_the_same_failure(
    store: TieredStore, memory: MemoryCoordinator
) -> None:
    failed = "--- FAIL: TestTotal (0.00s)\n    cart_test.go:9: got 4, want 3\nFAIL\n"
    key = learned(store, failure=failed, tool="go", improved_approach="count once")
    memory.learning.reflect(
        [
            FailedAttempt(task_id=f"t{n}", approach=f"go test {n}", error=failed, tool="go")
            for n in range(110)
        ]
    )
    assert memory.learning.get_lessons(failed, tools="go")[0].key == key


def test_lessons_are_found_by_what_is_asked_alone_and_by_no_short_name(
    store: TieredStore, memory: MemoryCoordinator
) -> None:
    key = learned(store, task_id="T-1", improved_approach="knead the dough for ten minutes")

    assert memory.learning.get_lessons(query="how long to knead the dough")[0].key == key
    others = memory.learning.get_lessons(query="T-12 deploy the service to staging")
    assert not any("task" in one.explanation for one in others)
    assert list(memory.learning.get_lessons()) == []


# Lessons by the verb


def test_lessons_of_what_was_tried_in_just_one_form_can_be_asked_for(
    store: TieredStore, memory: MemoryCoordinator
) -> None:
    key = learned(store)
    learned(store, original_approach="something else", improved_approach="more", task_id="Other")

    assert len(memory.learning.get_lessons(tools="add")) == 2
    found = memory.learning.get_lessons(tools="add", approach='add({"amount": "1,234"})')
    assert [one.key for one in found] == [key]
    assert list(memory.learning.get_lessons(tools="add", approach="nothing of it")) == []
    with pytest.raises(InvalidInputError, match="approach is empty"):
        memory.learning.get_lessons(tools="add", approach=" ")


def test_lessons_of_no_tool_come_before_those_of_any_and_those_of_the_tools_alone(
    store: TieredStore, memory: MemoryCoordinator
) -> None:
    error = ZeroDivisionError("division by zero")
    told = [(error, "run_python"), (error, None), (KeyError("x"), "add")]
    in_tool, bare, other = (
        learned(store, task_id=tool or TASK, improved_approach=f"way {n}", failure=why, tool=tool)
        for n, (why, tool) in enumerate(told)
    )
    found = memory.learning.get_lessons(error, tools=["add", "pay"])
    assert [one.key for one in found] == [bare, in_tool, other]
    assert memory.learning.get_lessons(error, tools="pay")[0].key == bare

    long = ValueError("the division went on for ever, " * 20)
    key = learned(store, failure=long, tool="run_python", improved_approach="way 4")
    assert memory.learning.get_lessons(long)[0].key == key


# Reminders


async def test_a_tool_call_is_held_once_by_what_is_intended_before_it(way: Way) -> None:
    memory = MemoryCoordinator(way.store, context=ACME)
    await memory.reminders.aadd("Ask Tom before paying", before_tool="pay", key="k")
    await memory.reminders.aadd("Anything else", key="other")
    lessons, reminders = ToolLessons(), ToolReminders()
    node = ToolNode(
        [pay],
        wrap_tool_call=lambda request, then: reminders.wrap_tool_call(
            request, lambda held: lessons.wrap_tool_call(held, then)
        ),
        awrap_tool_call=reminders.awrap_tool_call,
    )
    graph = chain(way.store, node)
    paying = call("pay", amount="7")
    first = await way(graph, {"messages": [asks("Pay"), paying]}, context=ACME)
    (held,) = answers(first)
    assert "Ask Tom before paying" in held.text
    assert "Anything else" not in held.text
    again = [*first["messages"], AIMessage("", tool_calls=paying.tool_calls)]
    second = await way(graph, {"messages": again}, context=ACME)
    assert second["messages"][-1].text == "paid 7"
    assert [one.key for one in await memory.reminders.adue()] == ["other"]
