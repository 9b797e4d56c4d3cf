"""A person's decision about a tool call, in any form, is no failure of that tool."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from langchain.agents.middleware import AgentMiddleware, HumanInTheLoopMiddleware
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import ToolException, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, interrupt

from langmem_tiers import (
    MemoryContext,
    MemoryCoordinator,
    TieredMemoryMiddleware,
    TieredStore,
    ToolLessons,
    create_reflexion_node,
    create_skill_node,
)
from tests.support.agents import Way, agent_on, scripted
from tests.support.graphs import Learning, off_the_loop

ADA, BEN = (MemoryContext(tenant="acme", project_id="hr", user_id=name) for name in ("ada", "ben"))
NOBODY = MemoryContext(tenant="acme", project_id="hr")
WORDS = "no! he is being fired on Friday, send it to his zanzibar deputy"
FIRST, SECOND = "bob at acme,com", "bob at acme.com"
BROKEN = "ValueError: the address 'acme,com' has a comma"
THREAD: Any = {"configurable": {"thread_id": "t"}}


@tool
def send(to: str, letter: str = "") -> str:  # noqa: ARG001 - of the call alone
    """Send the letter."""
    if "," in to:
        raise ToolException(BROKEN)
    return "It is sent."


send.handle_tool_error = True


class OwnReview(AgentMiddleware[Any, Any, Any]):
    """Asks a person about each call, and says in words of its own that one was rejected."""

    def after_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:  # noqa: ARG002
        last = state["messages"][-1]
        answers = [
            ToolMessage(said, tool_call_id=call["id"], name=call["name"], status="error")
            for call in last.tool_calls
            if (said := interrupt({"call": call["name"]})) != "approve"
        ]
        return {"messages": answers} if answers else None


class OwnGuard(AgentMiddleware[Any, Any, Any]):
    """Asks a person as the call begins, and answers in the tool's place."""

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        said = interrupt({"call": request.tool_call["name"]})
        return handler(request) if said == "approve" else self._answer(request, said)

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        said = interrupt({"call": request.tool_call["name"]})
        return await handler(request) if said == "approve" else self._answer(request, said)

    def _answer(self, request: Any, said: str) -> ToolMessage:
        call = request.tool_call
        return ToolMessage(said, tool_call_id=call["id"], name=call["name"], status="error")


def in_batches() -> Any:
    return HumanInTheLoopMiddleware({"send": True})


def for_each_call() -> Any:
    return HumanInTheLoopMiddleware({"send": True}, interrupt_mode="per_call")


Review = Callable[[], Any]
REVIEWS = [in_batches, for_each_call, OwnReview, OwnGuard]


def deciding(review: Review, kind: str, **of: Any) -> Any:
    """Return a person's answer in the form that this review takes."""
    if review in (OwnReview, OwnGuard):
        return "approve" if kind == "approve" else of.get("message", "")
    one = {"type": kind, **of}
    return {"decisions": [one]} if review is in_batches else one


def asking(to: str, number: int) -> AIMessage:
    call = {
        "name": "send",
        "args": {"to": to, "letter": "his"},
        "id": f"call-{number}",
        "type": "tool_call",
    }
    return AIMessage("", tool_calls=[call])


class Conversation:
    """A thread whose steps run in different processes, each with a new agent."""

    def __init__(self, way: Way, review: Review, *, order: str) -> None:
        self.way, self.review, self.order = way, review, order
        self.saver = InMemorySaver()

    async def __call__(self, given: Any, *said: Any, whose: MemoryContext = ADA) -> dict[str, Any]:
        memory = TieredMemoryMiddleware(reflect=True)
        middleware = [memory, self.review()]
        middleware = middleware if self.order == "memory first" else middleware[::-1]
        options = {"tools": [send], "checkpointer": self.saver}
        agent = agent_on(self.way.store, scripted(*said), *middleware, **options)
        return await self.way(agent, given, context=whose, config=THREAD)


def kept(store: TieredStore, whose: MemoryContext) -> list[Any]:
    """Return all that was learned of failures, and who sees what."""
    memory = MemoryCoordinator(store, context=whose)
    failed = [one for one in memory.get_context("", limit=100) if "failed-attempt" in one.tags]
    lessons = memory.learning.get_lessons([WORDS, BROKEN], tools="send", query=WORDS, limit=100)
    return list({one.key: one for one in (*failed, *lessons)}.values())


@pytest.mark.parametrize("order", ["memory first", "review first"])
@pytest.mark.parametrize("review", REVIEWS)
async def test_a_rejected_call_teaches_nothing_though_another_works_then(
    way: Way, review: Review, order: str
) -> None:
    talk = Conversation(way, review, order=order)
    await talk({"messages": [HumanMessage("Send Bob his letter")]}, asking(FIRST, 1))
    reject: Any = Command(resume=deciding(review, "reject", message=WORDS))
    await talk(reject, asking(SECOND, 2))
    state = await talk(Command(resume=deciding(review, "approve")), "It is on its way.")
    assert [one.status for one in state["messages"] if isinstance(one, ToolMessage)] == [
        "error",
        "success",
    ]
    assert WORDS in str(state["messages"])
    assert not state.get("memory_errors")
    for whose in (ADA, BEN, NOBODY):
        assert not await off_the_loop(kept, way.store, whose)


@pytest.mark.parametrize("order", ["memory first", "review first"])
@pytest.mark.parametrize("review", REVIEWS)
async def test_an_approved_call_that_fails_is_kept_with_what_worked_then(
    way: Way, review: Review, order: str
) -> None:
    talk = Conversation(way, review, order=order)
    await talk({"messages": [HumanMessage("Send Bob his letter")]}, asking(FIRST, 1))
    approve: Any = Command(resume=deciding(review, "approve"))
    await talk(approve, asking(SECOND, 2))
    await talk(approve, "It is on its way.")
    (attempt,) = await off_the_loop(kept, way.store, ADA)
    assert SECOND in attempt.content


@pytest.mark.parametrize("order", ["memory first", "review first"])
@pytest.mark.parametrize("review", [in_batches, for_each_call])
async def test_a_call_that_a_person_answers_or_changes_is_not_what_the_agent_did(
    way: Way, review: Review, order: str
) -> None:
    answered = Conversation(way, review, order=order)
    await answered({"messages": [HumanMessage("Send Bob his letter")]}, asking(FIRST, 1))
    await answered(Command(resume=deciding(review, "approve")), asking(SECOND, 2))
    respond: Any = Command(resume=deciding(review, "respond", message=WORDS))
    await answered(respond, "As you say.")
    assert not await off_the_loop(
        kept, way.store, ADA
    )  # no call of the agent's answered the failure

    edited = Conversation(way, review, order=order)
    await edited({"messages": [HumanMessage("Send it")]}, asking(SECOND, 1), whose=BEN)
    action = {"name": "send", "args": {"to": "zanzibar, his deputy"}}
    edit: Any = Command(resume=deciding(review, "edit", edited_action=action))
    state = await edited(edit, "It did not work.", whose=BEN)
    assert BROKEN in state["messages"][2].text
    assert not await off_the_loop(kept, way.store, BEN)


def test_a_rejection_brings_no_lesson_of_a_failure(store: TieredStore) -> None:
    memory = MemoryCoordinator(store, context=ADA)
    told = {"task_id": "letters", "original_approach": "send", "improved_approach": "Mind it"}
    memory.store_reflexion(**told, failure_reason="It is so", failure=WORDS, tool="send")
    saver, shown = InMemorySaver(), scripted("Then not.")
    for given, model in (
        ({"messages": [HumanMessage("Send it")]}, scripted(asking(SECOND, 1))),
        (Command(resume=WORDS), shown),
    ):
        made = [OwnReview(), TieredMemoryMiddleware(recall=False)]
        agent = agent_on(store, model, *made, tools=[send], checkpointer=saver)
        agent.invoke(given, context=ADA, config=THREAD)
    assert "Mind it" not in str(shown.seen[0])


class Swallowing(AgentMiddleware[Any, Any, Any]):
    """Makes an answer of any error of a call, around the memory."""

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        try:
            return handler(request)
        except LookupError as error:
            call = request.tool_call
            return ToolMessage(str(error), tool_call_id=call["id"], status="error")


@tool
def post(to: str, letter: str = "") -> str:  # noqa: ARG001 - of the call alone
    """Post the letter."""
    if "," in to:
        raise LookupError(BROKEN)
    return "It is sent."


def test_an_error_that_another_middleware_makes_an_answer_of_is_kept_all_the_same(
    store: TieredStore,
) -> None:
    said = [one.model_copy(deep=True) for one in (asking(FIRST, 1), asking(SECOND, 2))]
    for one in said:
        one.tool_calls[0]["name"] = "post"
    made = [Swallowing(), TieredMemoryMiddleware(reflect=True)]
    agent = agent_on(store, scripted(*said, "Done."), *made, tools=[post])
    agent.invoke({"messages": [HumanMessage("Post it")]}, context=ADA)
    (attempt,) = MemoryCoordinator(store, context=ADA).learning.get_lessons(BROKEN, tools="post")
    assert SECOND in attempt.content


def in_a_graph(store: TieredStore, answer: ToolMessage, *before: Any) -> dict[str, Any]:
    """Build a tool node with lessons around it, a person's answer, and the nodes that learn."""
    around = ToolLessons()
    node = ToolNode(
        [send], wrap_tool_call=around.wrap_tool_call, awrap_tool_call=around.awrap_tool_call
    )
    builder: Any = StateGraph(Learning, context_schema=MemoryContext)
    steps: list[tuple[str, Any]] = [
        *before,
        ("asks", lambda _: {"messages": [asking(FIRST, 1)]}),
        ("person", lambda _: {"messages": [answer]}),
        ("again", lambda _: {"messages": [asking(SECOND, 2)]}),
        ("tools", node),
        ("reflexion", create_reflexion_node()),
        ("skills", create_skill_node(lambda _: True)),
    ]
    builder.add_sequence(steps)
    builder.set_entry_point(steps[0][0])
    graph = builder.compile(store=store)
    state: dict[str, Any] = graph.invoke({"messages": [HumanMessage("Send it")]}, context=ADA)
    return state


@pytest.mark.parametrize("marked", [{}, {"langmem_tiers_held": "person"}])
def test_in_a_graph_a_persons_answer_is_known_by_what_stands_around_the_tool_node(
    store: TieredStore, marked: dict[str, Any]
) -> None:
    answer = ToolMessage(WORDS, tool_call_id="call-1", status="error", additional_kwargs=marked)
    assert in_a_graph(store, answer)["reflexions"] == []
    assert not kept(store, ADA)
    traces = MemoryCoordinator(store, context=ADA).get_context("", limit=100)
    assert [one.value["trace"]["calls"] for one in traces if "trace" in one.value] == [
        [["send", ["letter", "to"], True]]
    ]
