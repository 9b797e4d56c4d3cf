"""What stands on a store keeps its bounds; what people say is cut where it is only sought by."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.graph import StateGraph

from langmem_tiers import (
    Bounds,
    MemoryContext,
    MemoryOrchestrator,
    MemoryState,
    TieredMemoryRetriever,
    TieredStore,
    WorkingMemoryBuffer,
    create_manage_memory_tool,
    create_recall_node,
    create_search_memory_tool,
)
from langmem_tiers.cli.memories import import_records
from langmem_tiers.core.errors import TooLargeError
from langmem_tiers.importers import Record
from tests.support.coordinating import Caller, calling, coordinator, keys
from tests.support.opening import Opener, tables, text_index, tiered

FACT = "The API key is rotated on Mondays."
LONG = "x" * 9_000_000
MANY: dict[str, Any] = {f"k{n}": n for n in range(2_000)}


def deep(levels: int) -> dict[str, Any]:
    """A mapping in a mapping, so many times."""
    found: dict[str, Any] = {}
    for _ in range(levels):
        found = {"a": found}
    return found


@pytest.fixture
async def call(open_store: Opener, url: str) -> AsyncIterator[Caller]:
    async with calling(open_store, url) as opened:
        yield opened


BEYOND: dict[str, tuple[str, tuple[Any, ...], dict[str, Any], str]] = {
    "a content": ("store", (LONG,), {}, "value_bytes"),
    "a content of three bytes a character": ("store", ("漢" * 3_000_000,), {}, "value_bytes"),
    "metadata": ("store", (FACT,), {"metadata": {"page": LONG}}, "value_bytes"),
    "deep metadata": ("store", (FACT,), {"metadata": deep(600)}, "value_depth"),
    "metadata that no interpreter writes": (
        "store",
        (FACT,),
        {"metadata": deep(100_000)},
        "value_depth",
    ),
    "one of many": ("store_many", ([FACT, {"content": LONG}],), {}, "value_bytes"),
    "too many": ("store_many", (lambda: (FACT for _ in range(10**6)),), {}, "batch"),
    "a lesson": (
        "store_reflexion",
        (),
        {
            "task_id": "t",
            "original_approach": LONG,
            "failure_reason": "it failed",
            "improved_approach": "do not",
        },
        "value_bytes",
    ),
    "a pattern": ("store_pattern", (LONG,), {}, "value_bytes"),
    "an intention": ("intend", (LONG,), {"cue": "when Anna calls"}, "value_bytes"),
    "a query": ("get_context", ("x" * 10**6,), {}, "query_characters"),
    "a filter": ("get_context", ("x",), {"filter": MANY}, "filter_conditions"),
    "too many queries": ("get_context_batch", (["x"] * 10**6,), {}, "batch"),
    "a query for lessons": ("get_lessons", ("boom",), {"query": "x" * 10**6}, "query_characters"),
}


async def test_what_is_beyond_the_stores_bounds_is_refused_before_anything_is_written(
    call: Caller, url: str
) -> None:
    before = tables(url)
    for verb, given, options, name in BEYOND.values():
        with pytest.raises(TooLargeError, match=rf"Bounds\({name}=…\)"):
            await call(verb, *(one() if callable(one) else one for one in given), **options)
    assert tables(url) == before


async def test_a_state_keeps_the_stores_bounds(open_store: Opener, url: str) -> None:
    bounds = Bounds(value_bytes=200)
    async with open_store(url=url, index=text_index(), bounds=bounds) as driver:
        state: Any = Caller(coordinator(tiered(driver)).state, driver.mode)  # type: ignore[arg-type]
        with pytest.raises(TooLargeError, match="value_bytes"):
            await state("add_interaction", "user", "x" * 300)
        with pytest.raises(TooLargeError, match="value_bytes"):
            await state("set_emotional_state", "calm", stress_indicators={"note": "x" * 300})
        assert (await state("snapshot")).messages == ()


async def test_a_million_characters_are_remembered_and_found(call: Caller) -> None:
    steps = " ".join(f"Step {n} of it takes {n} s." for n in range(40_000))
    content = f"{FACT} {steps}"[:1_000_000]
    stored = await call("store", content, memory_type="semantic")
    assert stored.stored, stored.reason
    assert keys(await call("get_context", "API key", cutoff=False)) == [stored.key]


def test_retrievers_tools_and_buffers_keep_them_too(url: str) -> None:
    query = "x" * 10**6
    with TieredStore(url, index=text_index(fields=["content"])) as store:
        memory = coordinator(store)
        search = create_search_memory_tool(("acme", "notes"), store=store)
        manage = create_manage_memory_tool(("acme", "notes"), store=store)
        retriever, buffer = TieredMemoryRetriever(memory=memory), WorkingMemoryBuffer(memory)
        for ask in (
            lambda: retriever.invoke(query),
            lambda: buffer.search(query),
            lambda: store.search(("acme",), query=query),
        ):
            with pytest.raises(TooLargeError):
                ask()
        for told, name in (
            (search.invoke({"query": query}), "query_characters"),
            (search.invoke({"query": "x", "filter": MANY}), "filter_conditions"),
            (manage.invoke({"content": LONG}), "value_bytes"),
        ):
            assert f"beyond {name}" in told  # the model, and the run goes on
        with MemoryOrchestrator(memory) as turn, pytest.raises(TooLargeError):
            turn.memorize(LONG)
        assert store.search(()) == []


# What people say


async def test_what_is_said_at_length_is_sought_by_its_beginning(
    url: str,
) -> None:
    async with TieredStore(url, index=text_index(fields=["content"])) as store:
        memory = coordinator(store, project_id="ops")
        await memory.astore(FACT, memory_type="semantic")
        prompt = "When is the API key rotated? " + "The log says nothing. " * 50_000
        async with MemoryOrchestrator(memory) as turn:
            assert FACT in (await turn.aassemble_context(prompt)).text
        builder = StateGraph(MemoryState, context_schema=MemoryContext)
        graph = builder.add_node("recall", create_recall_node()).set_entry_point("recall")
        asked: Any = {"messages": [HumanMessage(prompt)]}
        answer = await graph.compile(store=store).ainvoke(asked, context=memory.context)
        assert FACT in answer["recalled_text"]


# Imports


def test_an_import_stays_within_a_batch_of_the_store_by_itself(url: str) -> None:
    one = Record(tenant="acme", key="0", value={"content": FACT, "speaker": "Ada"}, project=None)
    records = [replace(one, key=f"{n}") for n in range(25)]
    sizes: list[int] = []
    with TieredStore(url, index={}, bounds=Bounds(batch=10, value_bytes=500)) as store:
        large = replace(one, key="large", value={"content": "x" * 600})
        imported = import_records(store, [*records, large], advance=sizes.append)
        assert (imported.memories, sizes) == (25, [10, 10, 6])
        (bad,) = imported.bad
        assert "value_bytes" in bad.reason
