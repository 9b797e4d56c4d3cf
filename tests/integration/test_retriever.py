from __future__ import annotations

import asyncio
import json
from typing import Any, TypedDict

import pytest
from langchain_tests.integration_tests import RetrieversIntegrationTests
from langgraph.graph import StateGraph

from langmem_tiers import MemoryContext, MemoryCoordinator, TieredStore
from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.graph.recall import TieredMemoryRetriever
from tests.support.agents import Way

QUERY = "When do the API keys rotate?"
MEMORIES: list[dict[str, Any]] = [
    {
        "content": "The API keys rotate on Mondays",
        "memory_type": "semantic",
        "speaker": "Ann",
        "occurred_at": "2026-02-03T04:05:06+00:00",
        "importance": 0.7,
        "tags": ["Ops Team"],
        "metadata": {"source": "runbook.md", "page": 7, "score": "high", "content": "short"},
    },
    {"content": "The API keys of staging rotate on Fridays", "memory_type": "semantic"},
    {"content": "Rotating the API keys takes ten minutes", "memory_type": "pattern"},
    {"content": "API keys are kept in the vault", "tier": "long_term"},
]


@pytest.fixture
def memory(store: TieredStore) -> MemoryCoordinator:
    context = MemoryContext(tenant="acme", project_id="billing")
    coordinator = MemoryCoordinator(store, context=context)
    coordinator.store_many(MEMORIES)
    return coordinator


class TestStandard(RetrieversIntegrationTests):
    """LangChain's own tests of a retriever."""

    memory: MemoryCoordinator

    @pytest.fixture(autouse=True)
    def _stand_on(self, memory: MemoryCoordinator) -> None:
        self.memory = memory

    @property
    def retriever_constructor(self) -> type[TieredMemoryRetriever]:
        return TieredMemoryRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"memory": self.memory}

    @property
    def retriever_query_example(self) -> str:
        return QUERY


def test_a_document_says_what_the_memory_says_and_carries_all_else_as_json(
    memory: MemoryCoordinator,
) -> None:
    retriever = TieredMemoryRetriever(memory=memory, memory_tags=["ops-team"])
    (found,) = retriever.invoke(QUERY)
    (known,) = memory.get_context(QUERY, tags=["ops-team"])

    assert (found.page_content, found.id) == (known.content, known.key)
    assert json.loads(json.dumps(found.metadata)) == found.metadata
    told = {name: MEMORIES[0][name] for name in ("memory_type", "speaker", "occurred_at")}
    place = {"tier": "working", "namespace": ["acme", "billing"], "tags": ["ops-team"]}
    assert found.metadata | told | place == found.metadata
    own = {"source": "runbook.md", "page": 7, "content": "short", "metadata": known.metadata}
    assert found.metadata | own == found.metadata  # and of what is called alike ours stands
    assert found.metadata["score"] == pytest.approx(known.score, abs=0.01)
    assert found.metadata["explanation"].keys() == known.explanation.keys()


async def test_options_narrow_a_retriever_and_those_of_a_call_come_first(
    memory: MemoryCoordinator,
) -> None:
    whole = TieredMemoryRetriever(memory=memory, k=3, tags=["prod"], metadata={"team": "ops"})
    assert [one.id for one in whole.invoke(QUERY)] == [
        one.key for one in memory.get_context(QUERY, limit=3)
    ]
    assert await whole.ainvoke(QUERY, max_tokens=0) == []
    assert whole.invoke("Who is Zebulon married to?", min_match=0.2) == []
    with pytest.raises(InvalidInputError, match="profile"):
        TieredMemoryRetriever(memory=memory, profile="nearest").invoke(QUERY)
    with pytest.raises(ValueError, match="tags_of_memory"):
        TieredMemoryRetriever(memory=memory, tags_of_memory=["x"])  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="top"):
        whole.invoke(QUERY, top=1)
    retriever = TieredMemoryRetriever(memory=memory, tiers=["long_term"], k=1)

    assert [one.metadata["tier"] for one in retriever.invoke(QUERY)] == ["long_term"]
    found = retriever.invoke(QUERY, k=9, tiers=["working"], memory_types=["pattern"])
    assert [one.metadata["memory_type"] for one in found] == ["pattern"]


class Asked(TypedDict, total=False):
    question: str
    pages: list[str]


async def test_a_retriever_works_in_a_graph_however_it_is_run(way: Way) -> None:
    memory = MemoryCoordinator(way.store, context=MemoryContext(tenant="acme"))
    await asyncio.to_thread(memory.store_many, MEMORIES)
    retriever = TieredMemoryRetriever(memory=memory, k=1)
    builder = StateGraph(Asked)
    builder.add_node("look", (lambda state: state["question"]) | retriever | pages_of)
    builder.set_entry_point("look")
    state = await way(builder.compile(), {"question": "Where is the vault?"})

    assert state["pages"] == ["API keys are kept in the vault"]


def pages_of(documents: list[Any]) -> dict[str, list[str]]:
    return {"pages": [one.page_content for one in documents]}
