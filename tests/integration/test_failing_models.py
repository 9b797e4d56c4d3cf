"""An agent answers and a graph goes on when any model of memory fails, and that is told."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from langchain_core.documents import BaseDocumentCompressor
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import ToolException, tool
from langgraph.graph import StateGraph

from langmem_tiers import (
    MemoryContext,
    MemoryCoordinator,
    TieredMemoryMiddleware,
    TieredStore,
    create_assemble_node,
    create_commit_node,
    create_evolution_node,
    create_manage_memory_tool,
    create_outcome_node,
    create_promotion_node,
    create_recall_node,
    create_reflexion_node,
    create_remember_node,
    create_reminder_node,
    create_search_memory_tool,
    create_skill_node,
)
from langmem_tiers.core.errors import (
    ConfigurationError,
    InvalidInputError,
    ModelError,
)
from langmem_tiers.testing import TrigramEmbeddings
from tests.support.agents import Way, agent_on, calls, scripted
from tests.support.coded import coded
from tests.support.graphs import Learning, failed_then_worked, off_the_loop
from tests.support.opening import DIMS, text_index

ADA = MemoryContext(tenant="acme", project_id="billing", session_id="chat", user_id="ada")
QUESTION = "Forget that the vault is in the cellar. What is in it?"
ANSWER = "Gold, as far as I know."


class Failing(GenericFakeChatModel):
    """A chat model that times out."""

    messages: Any = ()

    def bind_tools(self, *_: Any, **__: Any) -> Any:
        return self

    def _generate(self, *_: Any, **__: Any) -> Any:
        raise TimeoutError("the provider took too long")


class Malformed(Failing):
    """A chat model that never answers in the form asked for."""

    def _generate(self, *given: Any, **options: Any) -> Any:
        said = scripted("I would rather not say.")
        return said._generate(*given, **options)


class FailingReranker(BaseDocumentCompressor):
    """A re-ranker that times out."""

    def compress_documents(self, *_: Any, **__: Any) -> Any:
        raise TimeoutError("the re-ranker took too long")


class FailingEmbeddings(TrigramEmbeddings):
    """An embedding model that fails from some moment on."""

    fails = False

    def embed_query(self, text: str) -> list[float]:
        if self.fails:
            raise TimeoutError("the embedding model took too long")
        return super().embed_query(text)


@tool
def pay(amount: str, of: str = "") -> str:  # noqa: ARG001 - of the call alone
    """Pay an amount."""
    if "," in amount:
        raise ToolException(f"ValueError: the amount {amount!r} has a comma")
    return f"paid {amount}"


pay.handle_tool_error = True


def timing_out(_: Any) -> bool:
    raise TimeoutError("the judge took too long")


RERANKING: Any = partial(MemoryCoordinator, reranker=FailingReranker())
FAILURES: list[tuple[str, dict[str, Any]]] = [
    ("outcome", {"outcome": timing_out}),
    ("recall", {"coordinator": RERANKING}),
]


def asking(question: str = QUESTION) -> dict[str, Any]:
    return {"messages": [HumanMessage(question, id="m1")]}


def paying(store: Any, *more: Any, **own: Any) -> Any:
    """Make an agent whose first call fails."""
    said = scripted(*(calls("pay", amount=one, of="may") for one in ("1,5", "1.5")), ANSWER)
    return agent_on(store, said, TieredMemoryMiddleware(**own), tools=[pay, *more])


def knowing(store: TieredStore) -> None:
    memory = MemoryCoordinator(store, context=ADA)
    memory.store("The vault is in the cellar", memory_type="semantic", speaker="user")
    memory.store("The vault is of steel", memory_type="semantic", speaker="user")
    memory.reminders.add("Ask about gold", cue="gold")


@pytest.mark.parametrize(("during", "own"), FAILURES)
async def test_an_agent_answers_whatever_model_of_its_memory_fails(
    way: Way, during: str, own: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    await off_the_loop(knowing, way.store)
    with caplog.at_level(logging.WARNING, logger="langmem_tiers"):
        state = await way(paying(way.store, **own), asking(), context=ADA)
    assert state["messages"][-1].text == ANSWER
    assert during in state["memory_errors"]
    assert caplog.text


@pytest.mark.parametrize(("during", "own"), FAILURES)
def test_it_is_told_in_a_stream_and_raised_if_that_is_wanted(
    store: TieredStore, during: str, own: dict[str, Any]
) -> None:
    knowing(store)
    parts = list(paying(store, **own).stream(asking(), context=ADA, stream_mode="custom"))
    assert during in {one["during"] for one in parts if one.get("memory") == "failed"}
    with pytest.raises((ModelError, TimeoutError)):
        paying(store, **own, on_error="raise").invoke(asking(), context=ADA)


@pytest.mark.parametrize("reflect", [True, False])
def test_an_agent_answers_though_its_embedding_model_fails_and_its_tools_say_so(
    url: str, reflect: Any
) -> None:
    embed = FailingEmbeddings(DIMS)
    with TieredStore(url, index=text_index(embed=embed)) as store:
        store.setup()
        knowing(store)
        embed.fails = True
        labels = ("acme", "notes")
        own = [create_search_memory_tool(labels), create_manage_memory_tool(labels)]
        said = scripted(
            calls("pay", amount="1,5", of="may"),
            calls("pay", amount="1.5", of="may"),
            calls("search_memory", query="gold"),
            calls("manage_memory", content="Gold is in the vault"),
            ANSWER,
        )
        made = agent_on(store, said, TieredMemoryMiddleware(reflect=reflect), tools=[pay, *own])
        state = made.invoke(asking(), context=ADA)
    assert state["messages"][-1].text == ANSWER
    told = [one.text for one in state["messages"] if one.type == "tool"]
    assert [one.startswith("Memory cannot be reached") for one in told] == [False] * 3 + [True]
    assert {"remember"} <= state["memory_errors"].keys()
    assert ("reflect" in state["memory_errors"]) is reflect


def test_an_error_too_long_to_be_kept_takes_no_answer_away(store: TieredStore) -> None:
    @tool
    def read(path: str, mode: str) -> str:
        """Read a file."""
        if mode == "text":
            raise ToolException(f"ValueError: {path} " + "is broken " * 1_000_000)
        return "It is read."

    read.handle_tool_error = True
    said = scripted(*(calls("read", path="a", mode=one) for one in ("text", "raw")), ANSWER)
    made = agent_on(store, said, TieredMemoryMiddleware(reflect=True), tools=[read])
    state = made.invoke(asking(), context=ADA)
    assert state["messages"][-1].text == ANSWER
    assert "too_large" in state["memory_errors"]["reflect"]


def test_a_mistake_of_who_built_the_agent_is_raised(store: TieredStore) -> None:
    with pytest.raises(InvalidInputError, match="True, False or None"):
        paying(store, outcome=lambda _: "yes").invoke(asking(), context=ADA)
    with pytest.raises(ConfigurationError, match="TieredStore"):
        paying(None).invoke(asking(), context=ADA)


NODES: dict[str, Callable[..., Any]] = {
    "reflexion": partial(create_reflexion_node, model=Failing()),
    "recall": partial(create_recall_node, coordinator=RERANKING),
    "remind": partial(create_reminder_node, judge=Failing()),
}


@pytest.mark.parametrize("name", ["reflexion", "recall", "remind"])
async def test_a_node_goes_on_without_its_model_or_raises_if_that_is_wanted(
    way: Way, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    await off_the_loop(knowing, way.store)
    given = {"messages": [HumanMessage("Is there gold?"), *failed_then_worked()[1:]]}
    for on_error in ("continue", "raise"):
        builder: Any = StateGraph(Everything, context_schema=MemoryContext)
        builder.add_node(name, NODES[name](on_error=on_error))
        builder.set_entry_point(name)
        graph = builder.compile(store=way.store)
        if on_error == "raise":
            with pytest.raises((ModelError, TimeoutError)):
                await way(graph, given, context=ADA)
            continue
        with caplog.at_level(logging.WARNING, logger="langmem_tiers"):
            state = await way(graph, given, context=ADA)
        assert len(state["messages"]) == len(given["messages"])
        assert "goes on without its memory" in caplog.text
        assert not state.get("reflexions")
        assert not state.get("recalled_text")


class Everything(Learning, total=False):
    """A state with the keys that these nodes write."""

    reminders: list[dict[str, Any]]
    reminders_text: str
    intentions: list[dict[str, Any]]


def test_nodes_behind_an_answer_go_on_without_an_embedding_model(url: str) -> None:
    embed = FailingEmbeddings(DIMS)
    with TieredStore(url, index=text_index(embed=embed)) as store:
        store.setup()
        knowing(store)
        builder: Any = StateGraph(Everything, context_schema=MemoryContext)
        steps = [
            ("recall", create_recall_node()),
            ("remind", create_reminder_node()),
            ("model", lambda _: {"messages": [AIMessage(ANSWER)]}),
            ("remember", create_remember_node()),
            ("reflexion", create_reflexion_node()),
            ("outcome", create_outcome_node(lambda _: True)),
            ("skills", create_skill_node(lambda _: True)),
            (
                "evolution",
                create_evolution_node(
                    interaction=lambda _: {"content": "Gold sells", "novel_pattern": True},
                    success_metrics=lambda _: {"success": True},
                    threshold=0.0,
                ),
            ),
            ("promotion", create_promotion_node()),
        ]
        builder.add_sequence(steps)
        builder.set_entry_point("recall")
        graph = builder.compile(store=store)
        embed.fails = True
        state = graph.invoke({"messages": failed_then_worked()}, context=ADA)
    assert state["messages"][-1].text == ANSWER
    assert state["memory_errors"].keys() >= {"recall", "remember"}
    assert (state["reflexions"], state["skills"], state["remembered"]) == ([], [], [])
    assert state["evolved"]["stored"] is False


def test_a_context_is_assembled_without_a_re_ranker_that_fails_and_a_commit_is_all_or_nothing(
    url: str,
) -> None:
    embed = FailingEmbeddings(DIMS)
    with TieredStore(url, index=text_index(embed=embed)) as store:
        store.setup()
        knowing(store)
        builder: Any = StateGraph(Everything, context_schema=MemoryContext)
        builder.add_node("assemble", create_assemble_node(coordinator=RERANKING))
        builder.set_entry_point("assemble")
        state = builder.compile(store=store).invoke(asking(), context=ADA)
        assert state["memory_errors"]
        builder.add_node("commit", create_commit_node(memorize=lambda _: "Gold is heavy."))
        builder.add_edge("assemble", "commit")
        embed.fails = True
        with coded("model_failed"):
            builder.compile(store=store).invoke(asking(), context=ADA)
