"""What langgraph.json serves can be served: its paths import, and the agent remembers."""

from __future__ import annotations

import importlib.util
import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph.state import CompiledStateGraph

from graphs.chat_agent import NOTED, UNKNOWN, make_agent
from langmem_tiers import InvalidInputError, MemoryContext, MemoryCoordinator, TieredStore
from tests.support.agents import WAYS, How, run
from tests.support.opening import Opened, opened_store

ROOT = Path(__file__).parents[2]
SERVED = json.loads((ROOT / "langgraph.json").read_text(encoding="utf-8"))
EXTRAS = ("embedded", "langchain", "local")

ADA = MemoryContext(tenant="ada", project_id="home")
TOLD = ("My bike stands in the cellar.", "My sister Ines lives in Lisbon.")


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


def thread(name: str) -> dict[str, Any]:
    return {"configurable": {"thread_id": name}}


async def answer(agent: Any, how: How, text: str, **options: Any) -> str:
    state = await run(agent, how, said(text), **{"context": ADA, **options})
    return str(state["messages"][-1].text)


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
    context = MemoryContext(tenant=f"{opened}-{how}")
    async with opened_store(TieredStore.embedded(directory), opened) as store:
        agent = make_agent(store=store)
        heard = [await answer(agent, how, one, context=context, config=thread("1")) for one in TOLD]
        found = await answer(agent, how, "Where is my bike?", context=context, config=thread("2"))

    assert heard == [NOTED, NOTED]
    assert found == f'You told me: "{TOLD[0]}"'


async def test_an_answer_streams_as_messages(directory: Path) -> None:
    async with TieredStore.embedded(directory) as store:
        await MemoryCoordinator(store, context=ADA).astore(TOLD[1], speaker="user")
        agent = make_agent(store=store)
        asked = said("Where does my sister live?")
        texts = [
            str(chunk.text)
            async for chunk, _ in agent.astream(asked, stream_mode="messages", context=ADA)
            if isinstance(chunk, AIMessage)
        ]

    assert "".join(texts) == f'You told me: "{TOLD[1]}"'


async def test_what_was_said_in_the_same_thread_is_quoted_as_well(directory: Path) -> None:
    same: dict[str, Any] = {"context": MemoryContext(tenant="same"), "config": thread("1")}
    async with TieredStore.embedded(directory) as store:
        agent = make_agent(store=store, checkpointer=InMemorySaver())
        await answer(agent, "ainvoke", TOLD[0], **same)
        found = await answer(agent, "ainvoke", "Where is my bike?", **same)

    assert found == f'You told me: "{TOLD[0]}"'


def test_another_tenant_is_told_nothing(directory: Path) -> None:
    with TieredStore.embedded(directory) as store:
        agent = make_agent(store=store)
        agent.invoke(said(TOLD[0]), context=MemoryContext(tenant="one"))
        state = agent.invoke(said("Where is my bike?"), context=MemoryContext(tenant="two"))

    assert state["messages"][-1].text == UNKNOWN


def test_a_run_that_does_not_say_whose_memory_it_uses_is_refused(directory: Path) -> None:
    with (
        TieredStore.embedded(directory) as store,
        pytest.raises(InvalidInputError, match="whose memory"),
    ):
        make_agent(store=store).invoke(said("Hello"))


def test_the_model_is_the_one_that_the_environment_names(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANGMEM_TIERS_MODEL", "nobody:model")
    with pytest.raises(ValueError, match="nobody"):
        make_agent()

    monkeypatch.setenv("LANGMEM_TIERS_MODEL", "")
    with TieredStore.embedded(directory) as store:
        state = make_agent(store=store).invoke(said("Hello"), context=ADA)
    assert state["messages"][-1].text == NOTED


async def test_a_server_can_run_each_graph_on_the_store_that_it_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANGMEM_TIERS_URL", f"embedded:{tmp_path}/memory")
    async with named(SERVED["store"]["path"])() as store:
        assert isinstance(store, TieredStore)
        for path in SERVED["graphs"].values():
            graph = named(path)
            assert isinstance(graph, CompiledStateGraph)
            graph.store = store  # as a server does
            await graph.ainvoke(said(TOLD[0]), context={"tenant": "ada"})
            state = await graph.ainvoke(said("Where is my bike?"), context={"tenant": "ada"})
            assert TOLD[0] in state["messages"][-1].text


async def test_the_store_is_by_default_in_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LANGMEM_TIERS_URL", raising=False)
    async with named(SERVED["store"]["path"])() as store:
        await store.aput(("ada",), "bike", {"content": TOLD[0]})

    assert (tmp_path / ".memory").is_dir()


async def test_the_store_is_on_a_server_of_ones_own_if_its_url_is_named(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANGMEM_TIERS_URL", database_url)
    for key in ("bike", "sister"):  # the second time the schema is there
        async with named(SERVED["store"]["path"])() as store:
            await store.aput(("ada",), key, {"content": TOLD[0]})
    with TieredStore.from_conn_string(database_url) as store:
        assert {one.key for one in store.search(("ada",))} == {"bike", "sister"}


def test_langgraph_json_asks_for_what_the_extras_of_the_package_ask_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = {one for extra in EXTRAS for one in project["optional-dependencies"][extra]}

    assert {*SERVED["dependencies"]} == {".", *wanted}
