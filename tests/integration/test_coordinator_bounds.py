"""What stands on a store keeps its bounds, and refuses or survives what cannot be stored."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.graph import StateGraph

from langmem_tiers import (
    Bounds,
    Budget,
    MemoryContext,
    MemoryCoordinator,
    MemoryHooks,
    MemoryOrchestrator,
    MemoryState,
    Persona,
    TieredMemoryRetriever,
    TieredStore,
    WorkingMemoryBuffer,
    create_manage_memory_tool,
    create_recall_node,
    create_search_memory_tool,
)
from langmem_tiers.cli.memories import import_records
from langmem_tiers.core.config import check_ttl
from langmem_tiers.core.errors import ConfigurationError, InvalidInputError, InvalidTypeError, short
from langmem_tiers.importers import Record
from langmem_tiers.turn.persona import OperationalState
from tests.support.coded import coded
from tests.support.coordinating import Caller, Verbs, calling, coordinator, keys
from tests.support.opening import Opener, nested, tables, text_index, tiered

FACT = "The API key is rotated on Mondays."
LONG = "x" * 9_000_000
MANY: dict[str, Any] = {f"k{n}": n for n in range(2_000)}


ITEM = {"id": "a\0", "content": "I am kind.", "rationale": "so\ud800"}


@pytest.fixture
async def call(open_store: Opener, url: str) -> AsyncIterator[Caller]:
    async with calling(open_store, url) as opened:
        yield opened


@pytest.fixture
def notes(url: str) -> Iterator[MemoryCoordinator]:
    """A project's memory, found by its contents."""
    with TieredStore(url, index=text_index(fields=["content"])) as store:
        yield coordinator(store, project_id="ops", session_id="chat")


LESSON = {
    "task_id": "t",
    "original_approach": LONG,
    "failure_reason": "it failed",
    "improved_approach": "do not",
}
BEYOND: list[tuple[str, str, tuple[Any, ...], dict[str, Any]]] = [
    ("value_bytes", "store", (LONG,), {}),
    ("value_bytes", "store", ("漢" * 3_000_000,), {}),
    ("value_bytes", "store", (FACT,), {"metadata": {"page": LONG}}),
    ("value_bytes", "store_many", ([FACT, {"content": LONG}],), {}),
    ("value_bytes", "store_reflexion", (), LESSON),
    ("value_bytes", "store_pattern", (LONG,), {}),
    ("value_bytes", "reminders.add", (LONG,), {"cue": "when Anna calls"}),
    ("value_depth", "store", (FACT,), {"metadata": nested(600)}),
    ("value_depth", "store", (FACT,), {"metadata": nested(100_000)}),  # no interpreter writes it
    ("query_characters", "get_context", ("x" * 10**6,), {}),
    ("query_characters", "learning.get_lessons", ("boom",), {"query": "x" * 10**6}),
    ("filter_conditions", "get_context", ("x",), {"filter": MANY}),
    ("batch", "get_context_batch", (["x"] * 10**6,), {}),
]


async def test_what_is_beyond_the_stores_bounds_is_refused_before_anything_is_written(
    call: Caller, url: str
) -> None:
    before = tables(url)
    for name, verb, given, options in BEYOND:
        with coded("too_large", match=rf"Bounds\({name}=…\)"):
            await call(verb, *given, **options)
    with coded("too_large", match=r"Bounds\(batch=…\)"):
        await call("store_many", (FACT for _ in range(10**6)))
    assert tables(url) == before


async def test_a_state_keeps_the_stores_bounds(open_store: Opener, url: str) -> None:
    bounds = Bounds(value_bytes=200)
    async with open_store(url=url, index=text_index(), bounds=bounds) as driver:
        state = Verbs(coordinator(tiered(driver)).state, driver.mode)
        with coded("too_large", match="value_bytes"):
            await state("add_interaction", "user", "x" * 300)
        with coded("too_large", match="value_bytes"):
            await state("set_emotional_state", "calm", stress_indicators={"note": "x" * 300})
        assert (await state("snapshot")).messages == ()


async def test_a_million_characters_are_remembered_and_found(call: Caller) -> None:
    steps = " ".join(f"Step {n} of it takes {n} s." for n in range(40_000))
    content = f"{FACT} {steps}"[:1_000_000]
    stored = await call("store", content, memory_type="semantic")
    assert stored.stored, stored.reason
    assert keys(await call("get_context", "API key", min_match=0)) == [stored.key]


def test_retrievers_tools_and_buffers_keep_them_too(notes: MemoryCoordinator) -> None:
    query, store = "x" * 10**6, notes.tiered_store
    search = create_search_memory_tool(("acme", "notes"), store=store)
    manage = create_manage_memory_tool(("acme", "notes"), store=store)
    retriever, buffer = TieredMemoryRetriever(memory=notes), WorkingMemoryBuffer(notes)
    for ask in (retriever.invoke, buffer.search):
        with coded("too_large"):
            ask(query)
    for told, name in (
        (search.invoke({"query": query}), "query_characters"),
        (search.invoke({"query": "x", "filter": MANY}), "filter_conditions"),
        (manage.invoke({"content": LONG}), "value_bytes"),
    ):
        assert f"beyond {name}" in told  # the model, and the run goes on
    with MemoryOrchestrator(notes) as turn, coded("too_large"):
        turn.memorize(LONG)
    assert store.search(()) == []


def test_what_is_said_at_length_is_sought_by_its_beginning(notes: MemoryCoordinator) -> None:
    notes.store(FACT, memory_type="semantic")
    prompt = "When is the API key rotated? " + "The log says nothing. " * 50_000
    with MemoryOrchestrator(notes) as turn:
        assert FACT in turn.assemble_context(prompt).text
    builder = StateGraph(MemoryState, context_schema=MemoryContext)
    graph = builder.add_node("recall", create_recall_node()).set_entry_point("recall")
    asked: Any = {"messages": [HumanMessage(prompt)]}
    answer = graph.compile(store=notes.tiered_store).invoke(asked, context=notes.context)
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


# What no caller should hand over


@pytest.mark.parametrize(
    ("shown", "sources"),
    [
        ({"messages": [{"role": "user", "content": "hi", "timestamp": "a\0\ud800"}]}, None),
        ({"messages": [HumanMessage("hi", id="a\0b")]}, None),
        ({"tools": [{"name": "a\0b\ud800", "description": "reads a file"}]}, None),
        ({}, {"identity": {"identity": [ITEM], "effective_at": "\0"}}),
        ({}, {"wiki": lambda *_: {"items": [{"content": "x"}], "effective_at": "\0\ud800"}}),
    ],
)
def test_what_cannot_be_stored_in_a_label_costs_no_turn(
    notes: MemoryCoordinator, shown: dict[str, Any], sources: dict[str, Any] | None
) -> None:
    with MemoryOrchestrator(notes, sources=sources) as turn:
        turn.assemble_context("When is the key rotated?", **shown)
        turn.memorize(FACT)
        report = turn.commit()

    assert [one.content for one in notes.get_context("API key")] == [FACT]
    assert report.trace.of_kind("assembled")


DEEP: Any = nested(3_000)
HUGE: Any = 10**400
CALM = {"primary_emotion": "calm"}
REFUSED: list[tuple[type[Exception], str, Callable[[Any], object]]] = [
    (InvalidInputError, "seconds", lambda notes: begin(notes, budget=Budget(seconds=HUGE))),
    (
        InvalidInputError,
        "duration",
        lambda notes: track(notes, duration=HUGE),
    ),
    (
        InvalidInputError,
        "confidence_level",
        lambda _: feel({**CALM, "confidence_level": HUGE}),
    ),
    (ConfigurationError, "minutes", lambda _: check_ttl({"default_ttl": HUGE})),
    (InvalidTypeError, "source", lambda notes: notes.store_many([{"content": FACT, "source": []}])),
    (InvalidTypeError, " ", lambda notes: notes.store(FACT, source=DEEP)),
    (InvalidTypeError, " ", lambda notes: notes.store(FACT, DEEP)),
    (InvalidTypeError, " ", lambda notes: notes.store(FACT, key=DEEP)),
    (
        InvalidTypeError,
        " ",
        lambda notes: notes.reminders.add("Call", cue="when Anna calls", source=DEEP),
    ),
    (InvalidTypeError, "task_id", lambda notes: MemoryHooks(notes).complete_task(DEEP)),
    (InvalidInputError, " ", lambda notes: notes.get_context("x", tiers=[DEEP])),
    (InvalidInputError, " ", lambda notes: notes.get_context("x", review=DEEP)),
    (InvalidInputError, " ", lambda notes: notes.store(FACT, recalled=DEEP)),
    (InvalidInputError, " ", lambda notes: notes.reminders.due(tool=DEEP)),
    (InvalidInputError, " ", lambda notes: notes.reminders.acknowledge(DEEP)),
    (
        InvalidInputError,
        " ",
        lambda notes: notes.reminders.add("x", cue="when Anna", priority=DEEP),
    ),
    (InvalidInputError, " ", lambda _: Budget(tokens=DEEP)),
    (InvalidInputError, " ", lambda _: Persona(persona_name="x", must_do=[DEEP])),
    (InvalidInputError, " ", lambda _: feel(DEEP)),
]


def begin(memory: MemoryCoordinator, **options: Any) -> MemoryOrchestrator:
    return MemoryOrchestrator(memory, **options).begin()


def track(memory: MemoryCoordinator, **options: Any) -> object:
    return begin(memory).track_tool_invocation("search", **options)


def feel(mood: dict[str, Any]) -> object:
    return OperationalState(emotional_state=mood).remember("", {})


def test_what_is_huge_nested_deeply_or_no_text_is_refused_with_a_reason(
    notes: MemoryCoordinator,
) -> None:
    for error, said, call in REFUSED:
        with pytest.raises(error, match=said):
            call(notes)


def test_an_error_shows_the_beginning_of_any_value() -> None:
    assert short({"a": [1, "b"]}) == "{'a': [1, 'b']}"
    assert short("x" * 500, 40) == f"'{'x' * 39}"
    assert short(10**9000) == "a number of 29,898 bits"
    assert len(short(DEEP)) <= 80
