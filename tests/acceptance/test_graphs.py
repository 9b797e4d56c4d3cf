"""What langgraph.json serves can be served: agents remember and learn, memory is consolidated."""

from __future__ import annotations

import importlib.util
import json
import tomllib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import ToolMessage
from langchain_core.tools import ToolException
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import StateGraph
from langgraph.graph.state import CompiledStateGraph

from graphs import assistant, chat_agent, coding_agent, consolidation
from graphs.chat_agent import NOTED, UNKNOWN, make_agent
from graphs.coding_agent import NOTHING_TO_ADD, TRIES, run_python
from langmem_tiers import (
    ConsolidationReport,
    HookState,
    MemoryContext,
    MemoryCoordinator,
    TieredMemoryMiddleware,
    TieredStore,
    create_assemble_node,
    create_review_node,
    local_index,
)
from langmem_tiers.core.errors import InvalidInputError
from tests.support.agents import WAYS, How, calls, run, scripted
from tests.support.opening import Opened, opened_store

ROOT = Path(__file__).parents[2]
SERVED = json.loads((ROOT / "langgraph.json").read_text(encoding="utf-8"))
EXTRAS = ("embedded", "langchain", "local")

ADA = MemoryContext(tenant="ada", project_id="home")
TOLD = ("My bike stands in the cellar.", "My sister Ines lives in Lisbon.")
SUMS = ("Add up 1,234 and 20.", "What do 7,000 and 1 make?")
SERVED_FOR = {
    "assistant": (TOLD[0], "Where is my bike?", TOLD[0]),
    "chat_agent": (TOLD[0], "Where is my bike?", TOLD[0]),
    "coding_agent": (*SUMS, "The sum is 7001."),
}
"""What each graph is told, then asked, and answers."""


def named(path: str) -> Any:
    """What a path of langgraph.json names, loaded as a server does: from its file."""
    file, _, name = path.partition(":")
    spec = importlib.util.spec_from_file_location(Path(file).stem, ROOT / file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)


def said(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


def thread(name: str) -> Any:
    return {"configurable": {"thread_id": name}}


async def answer(agent: Any, how: How, text: str, number: str, **context: str) -> str:
    options = {"context": MemoryContext(**context) if context else None, "config": thread(number)}
    return str((await run(agent, how, said(text), **options))["messages"][-1].text)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An embedded store's directory, with its server kept running."""
    path = tmp_path_factory.mktemp("graphs") / "memory"
    with TieredStore.embedded(path):
        yield path


@pytest.mark.parametrize(("opened", "how"), WAYS)
async def test_what_is_said_in_one_thread_is_quoted_in_another(
    directory: Path, opened: Opened, how: How
) -> None:
    tenant, question = f"{opened}-{how}", "Where is my bike?"
    async with opened_store(TieredStore.embedded(directory), opened) as store:
        agent = make_agent(store=store, checkpointer=InMemorySaver())
        heard = [await answer(agent, how, one, "1", tenant=tenant) for one in TOLD]
        found = [await answer(agent, how, question, one, tenant=tenant) for one in "12"]
        other = await answer(agent, how, question, "3", tenant="another")
        with pytest.raises(InvalidInputError, match="whose memory"):
            await answer(agent, how, "Hello", "4")

    assert heard == [NOTED, NOTED]
    assert found == [f'You told me: "{TOLD[0]}"'] * 2
    assert other == UNKNOWN


@pytest.mark.parametrize(
    ("agent", "hello"),
    [(assistant, NOTED), (chat_agent, NOTED), (coding_agent, NOTHING_TO_ADD)],
)
def test_the_model_is_the_one_that_the_environment_names(
    agent: Any, hello: str, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANGMEM_TIERS_CHAT_MODEL", "nobody:model")
    for make in (agent.make_agent, consolidation.make_graph):
        with pytest.raises(ValueError, match="nobody"):
            make()

    monkeypatch.setenv("LANGMEM_TIERS_CHAT_MODEL", "")
    with TieredStore.embedded(directory) as store:
        state = agent.make_agent(store=store).invoke(said("Hello"), context=ADA)
    assert state["messages"][-1].text == hello


def failed(state: dict[str, Any]) -> list[str]:
    """The errors that tools reported in a run."""
    return [
        str(one.text)
        for one in state["messages"]
        if isinstance(one, ToolMessage) and one.status == "error"
    ]


async def test_the_coding_agent_fails_once_a_project_and_what_it_learned_is_credited(
    directory: Path,
) -> None:
    billing, shipping = (
        MemoryContext(tenant="credit", project_id=one) for one in ("billing", "shipping")
    )
    async with TieredStore.embedded(directory) as store:
        agent = coding_agent.make_agent(store=store, checkpointer=InMemorySaver())
        runs = []
        for question in (*SUMS, "Hello"):  # each reads a thread that grows
            state = await agent.ainvoke(said(question), context=billing, config=thread("1"))
            runs.append(failed(state))
        elsewhere = failed(await agent.ainvoke(said(SUMS[1]), context=shipping, config=thread("2")))
        (lesson,) = await MemoryCoordinator(store, context=billing).learning.aget_lessons(
            elsewhere, tools="run_python"
        )

    assert "invalid literal for int() with base 10: '1,234'" in runs[0][0]
    assert [len(one) for one in (*runs, elsewhere)] == [1, 1, 1, 1]
    assert (lesson.success_count, lesson.failure_count) == (1, 0)


def test_a_model_that_fails_on_and_on_has_to_answer_in_the_end(directory: Path) -> None:
    model = scripted(*(calls("run_python", code="1 / 0") for _ in range(TRIES)), "I give up.")
    with TieredStore.embedded(directory) as store:
        agent = coding_agent.make_agent(model=model, store=store)
        state = agent.invoke(said("Divide by zero."), context=ADA)

    assert len(failed(state)) == TRIES
    assert state["messages"][-1].text == "I give up."


def test_code_is_run_without_the_environment_for_a_while_and_its_end_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    long = "import os; os.write(1, b'\\xff' + b'x' * 10_000 + b'end')"
    assert run_python.invoke({"code": long}) == "x" * (coding_agent.LONGEST - 3) + "end"
    monkeypatch.setenv("A_KEY", "secret")
    assert run_python.invoke({"code": "import os; print('A_KEY' in os.environ)"}) == "False\n"
    monkeypatch.setattr(coding_agent, "SECONDS", 0.5)

    with pytest.raises(ToolException, match=r"longer than 0\.5 seconds"):
        run_python.invoke({"code": "while True: pass"})


async def test_a_server_can_run_each_graph_on_the_store_that_it_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANGMEM_TIERS_URL", f"embedded:{tmp_path}/memory")
    async with named(SERVED["store"]["path"])() as store:
        assert isinstance(store, TieredStore)
        for name, (told, question, answered) in SERVED_FOR.items():
            graph = named(SERVED["graphs"][name])
            assert isinstance(graph, CompiledStateGraph)
            graph.store = store  # as a server does
            await graph.ainvoke(said(told), context={"tenant": "ada"})
            state = await graph.ainvoke(said(question), context={"tenant": "ada"})
            assert answered in state["messages"][-1].text


def chain(node: Any) -> Any:
    """A graph of one node over the state that ours write."""
    builder: Any = StateGraph(HookState, context_schema=MemoryContext)
    return builder.add_node("node", node).set_entry_point("node").compile()


MADE: dict[str, Callable[[], Any]] = {
    **{name: partial(named, path) for name, path in SERVED["graphs"].items()},
    "review": partial(chain, create_review_node()),
    "assemble": partial(chain, create_assemble_node()),
    "agent": partial(create_agent, scripted(), [], middleware=[TieredMemoryMiddleware()]),
}
"""Graphs that are served, and such as users make of ours."""


@pytest.mark.parametrize("name", MADE)
def test_a_server_can_tell_what_each_graph_takes_and_gives(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LANGMEM_TIERS_CHAT_MODEL", raising=False)
    graph = MADE[name]()
    for schema in (graph.get_input_jsonschema(), graph.get_output_jsonschema()):
        assert schema["properties"].keys() & {"messages", "consolidated"}


async def test_a_server_can_consolidate_the_memory_of_a_tenant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANGMEM_TIERS_URL", f"embedded:{tmp_path}/memory")
    monkeypatch.delenv("LANGMEM_TIERS_CHAT_MODEL", raising=False)
    async with named(SERVED["store"]["path"])() as store:
        for tenant in ("ada", "ben"):
            memory = MemoryCoordinator(store, context=MemoryContext(tenant=tenant))
            for key in ("1", "2"):
                await memory.astore(TOLD[0], "semantic", tier="working", key=key)
        graph = named(SERVED["graphs"]["consolidation"])
        graph.store, graph.checkpointer = store, InMemorySaver()  # as a server does
        state = await graph.ainvoke({}, thread("ada"), context={"tenant": "ada"})
    report = ConsolidationReport.of(state)

    assert (report.tenant, report.count("merge")) == ("ada", 1)
    assert graph.get_context_jsonschema()["required"] == ["tenant"]


async def test_the_store_is_in_the_working_directory_or_on_a_server_that_is_named(
    tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANGMEM_TIERS_URL", database_url)
    monkeypatch.setenv("LANGMEM_TIERS_MODEL", "minilm")
    for key in ("bike", "sister"):  # the second time the schema is there
        async with named(SERVED["store"]["path"])() as store:
            await store.aput(("ada",), key, {"content": TOLD[0]})
    with TieredStore.from_conn_string(database_url, index=local_index("minilm")) as store:
        assert store.search(("ada",), query="bicycle")[0].score is not None
        assert {one.key for one in store.search(("ada",))} == {"bike", "sister"}
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LANGMEM_TIERS_URL", raising=False)
    monkeypatch.delenv("LANGMEM_TIERS_MODEL", raising=False)
    async with named(SERVED["store"]["path"])() as store:
        await store.aput(("ada",), "bike", {"content": TOLD[0]})

    assert (tmp_path / ".memory").is_dir()


def test_langgraph_json_asks_for_what_the_extras_of_the_package_ask_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = {one for extra in EXTRAS for one in project["optional-dependencies"][extra]}

    assert {*SERVED["dependencies"]} == {".", *wanted}
    assert SERVED["graphs"].keys() == {*SERVED_FOR, "consolidation"}
