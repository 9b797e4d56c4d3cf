from __future__ import annotations

import json
import re
from collections.abc import Iterator
from importlib import import_module
from typing import Any
from uuid import UUID, uuid4

import pytest
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langchain_tests.integration_tests import ToolsIntegrationTests
from langchain_tests.unit_tests import ToolsUnitTests
from langgraph.store.base import InvalidNamespaceError
from langgraph.store.memory import InMemoryStore
from pydantic import BaseModel

from langmem_tiers import MemoryContext, TieredStore
from langmem_tiers.core.errors import ConfigurationError, InvalidInputError
from langmem_tiers.graph.recall import create_recall_node
from langmem_tiers.graph.tools import create_manage_memory_tool, create_search_memory_tool
from tests.support.agents import Way, calls, scripted
from tests.support.opening import text_index

NOTES = ("memories", "{user_id}")
ANN: RunnableConfig = {"configurable": {"user_id": "ann"}}
PLACE = ("memories", "ann")
SOME_ID = "6f1c3f1e-8c2b-4f0e-9a53-0d6f3b1d2c4e"
AGENTS = {"source": "agent", "trust": 0.8}
"""What stands beside the content that a model gave, in a store of ours."""


@pytest.fixture
def tiered(url: str) -> Iterator[TieredStore]:
    with TieredStore(url, index=text_index()) as store:
        yield store


class OnAStore:
    tiered: TieredStore

    @pytest.fixture(autouse=True)
    def _stand_on(self, tiered: TieredStore) -> None:
        tiered.put(("memories",), SOME_ID, {"content": "The vault is in the cellar", **AGENTS})
        self.tiered = tiered


class Search(OnAStore):
    @property
    def tool_constructor(self) -> BaseTool:
        return create_search_memory_tool(
            "memories", store=self.tiered, response_format="content_and_artifact"
        )

    @property
    def tool_invoke_params_example(self) -> dict[str, Any]:
        return {"query": "vault", "limit": 3, "filter": {"content": {"$ne": "x"}}}


class Manage(OnAStore):
    @property
    def tool_constructor(self) -> BaseTool:
        return create_manage_memory_tool("memories", store=self.tiered)

    @property
    def tool_invoke_params_example(self) -> dict[str, Any]:
        return {"content": "moved to the attic", "action": "update", "id": SOME_ID}


class TestSearchIntegration(Search, ToolsIntegrationTests):
    """LangChain's own tests of a tool."""


class TestSearchUnit(Search, ToolsUnitTests):
    """LangChain's own tests of a tool."""


class TestManageIntegration(Manage, ToolsIntegrationTests):
    """LangChain's own tests of a tool."""


class TestManageUnit(Manage, ToolsUnitTests):
    """LangChain's own tests of a tool."""


async def test_an_agent_keeps_and_finds_memories_however_it_is_run(way: Way) -> None:
    store = way.store
    model = scripted(
        calls("manage_memory", content="Likes tea", action="create"),
        calls("search_memory", query="Which drink?", limit=3),
        "Tea",
    )
    tools = [create_manage_memory_tool(NOTES), create_search_memory_tool(NOTES)]
    made = create_agent(model, tools=tools, store=store)
    asked = {"messages": [HumanMessage("I like tea")]}
    state = await way(made, asked, config=ANN)
    (item,) = await store.asearch(PLACE)

    assert item.value == {"content": "Likes tea", **AGENTS}
    created, found = (one.text for one in state["messages"] if isinstance(one, ToolMessage))
    assert created == f"created memory {item.key}"
    (shown,) = json.loads(found)
    assert shown["key"] == item.key
    assert shown["namespace"] == list(PLACE)
    assert shown["value"] == {"content": "Likes tea", **AGENTS}


@pytest.mark.parametrize("kind", ["tiered", "in_memory"])
async def test_a_memory_is_created_updated_and_deleted_on_any_store(
    kind: str, tiered: TieredStore
) -> None:
    store = tiered if kind == "tiered" else InMemoryStore()
    beside = AGENTS if kind == "tiered" else {}
    manage = create_manage_memory_tool(NOTES, store=store)
    created = manage.invoke({"content": "Likes tea"}, ANN)
    (item,) = store.search(PLACE)
    assert created == f"created memory {UUID(item.key)}"

    updated = await manage.ainvoke(
        {"content": "Likes coffee", "action": "update", "id": item.key}, ANN
    )
    assert updated == f"updated memory {item.key}"
    assert [one.value for one in store.search(PLACE)] == [{"content": "Likes coffee", **beside}]

    deleted = manage.invoke({"action": "delete", "id": item.key}, ANN)
    assert deleted == f"Deleted memory {item.key}"
    assert store.search(PLACE) == []


def test_search_pages_filters_and_returns_the_items_if_asked(tiered: TieredStore) -> None:
    for number in range(4):
        tiered.put(PLACE, str(number), {"content": f"Tea {number}", "even": number % 2 == 0})
    search = create_search_memory_tool(PLACE, store=tiered, response_format="content_and_artifact")
    call = {"name": "search_memory", "id": "1", "type": "tool_call"}
    asked = {"query": "Tea 2", "filter": {"even": True}, "limit": 1, "offset": 1}
    message = search.invoke({**call, "args": asked})

    assert [one.key for one in message.artifact] == ["0"]
    assert json.loads(message.content)[0]["key"] == "0"


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"action": "update", "content": "x"}, "To update a memory, give its id"),
        ({"action": "delete"}, "To delete a memory, give its id"),
        ({"action": "create", "content": "x", "id": SOME_ID}, "without the id"),
        ({"action": "create"}, "give its content"),
        ({"content": "a\0b"}, "NUL"),
    ],
)
async def test_the_model_is_told_what_it_got_wrong_and_nothing_is_written(
    tiered: TieredStore, asked: dict[str, Any], told: str
) -> None:
    manage = create_manage_memory_tool(PLACE, store=tiered)

    assert told in manage.invoke(asked)
    assert told in await manage.ainvoke(asked)
    search = create_search_memory_tool(PLACE, store=tiered)
    assert "$near" in search.invoke({"query": "x", "filter": {"a": {"$near": 1}}})
    assert tiered.search(()) == []


def test_only_what_is_permitted_is_offered(tiered: TieredStore) -> None:
    manage = create_manage_memory_tool(PLACE, store=tiered, actions_permitted=("update", "create"))

    shown = convert_to_openai_tool(manage)["function"]["parameters"]["properties"]["action"]
    assert (shown["enum"], shown["default"]) == (["create", "update"], "create")
    with pytest.raises(ValueError, match="action"):
        manage.invoke({"action": "delete", "id": str(uuid4())})
    assert manage.description.startswith("Create or update a memory in your memory")
    for wrong in ((), ("forget",), None):
        with pytest.raises(InvalidInputError, match="actions_permitted"):
            create_manage_memory_tool(PLACE, actions_permitted=wrong)  # type: ignore[arg-type]


def test_a_memory_may_have_a_schema(tiered: TieredStore) -> None:
    class Taste(BaseModel):
        drink: str
        strength: int = 1

    manage = create_manage_memory_tool(PLACE, store=tiered, schema=Taste)
    manage.invoke({"content": {"drink": "tea"}})

    assert tiered.search(PLACE)[0].value == {
        "content": {"drink": "tea", "strength": 1},
        **AGENTS,
    }
    with pytest.raises(ValueError, match="drink"):
        manage.invoke({"content": {"strength": 2}})


def test_a_model_is_shown_the_parameters_and_no_more(tiered: TieredStore) -> None:
    manage = convert_to_openai_tool(create_manage_memory_tool(PLACE, store=tiered))["function"]
    search = convert_to_openai_tool(create_search_memory_tool(PLACE, store=tiered))["function"]

    assert (manage["name"], search["name"]) == ("manage_memory", "search_memory")
    assert list(manage["parameters"]["properties"]) == ["content", "action", "id"]
    assert manage["parameters"]["required"] == []
    assert list(search["parameters"]["properties"]) == ["query", "limit", "offset", "filter"]
    assert search["parameters"]["required"] == ["query"]
    own: Any = {"name": "look_up", "instructions": "Look twice."}
    for tool in (create_search_memory_tool(PLACE, **own), create_manage_memory_tool(PLACE, **own)):
        assert tool.name == "look_up"
        assert tool.description.endswith("Look twice.")


def test_a_tool_without_a_store_or_a_label_says_what_to_do(tiered: TieredStore) -> None:
    search = create_search_memory_tool(NOTES)
    with pytest.raises(ConfigurationError, match="store="):
        search.invoke({"query": "x"}, ANN)
    with pytest.raises(InvalidInputError, match=re.escape("['user_id']")):
        create_search_memory_tool(NOTES, store=tiered).invoke({"query": "x"})
    with pytest.raises(InvalidNamespaceError, match="period"):
        create_manage_memory_tool(NOTES, store=tiered).invoke(
            {"content": "x"}, {"configurable": {"user_id": "ann@example.org"}}
        )
    model = scripted(calls("search_memory", query="x"), "y")
    bare = create_agent(model, tools=[create_search_memory_tool(PLACE)])
    with pytest.raises(ConfigurationError, match="without a store"):
        bare.invoke({"messages": [HumanMessage("hi")]})


# langmem's own tools

# trustcall, which langmem stands on, takes Send from where it was.
LANGMEM = pytest.mark.filterwarnings("ignore:Importing Send from langgraph:DeprecationWarning")


@pytest.mark.peers
@LANGMEM
def test_either_tool_finds_what_the_other_kept(tiered: TieredStore) -> None:
    theirs = import_module("langmem")
    ours = create_manage_memory_tool(NOTES, store=tiered)
    ours.invoke({"content": "Likes tea"}, ANN)
    theirs.create_manage_memory_tool(NOTES, store=tiered).invoke({"content": "Likes rain"}, ANN)

    values = sorted(one.value["content"] for one in tiered.search(PLACE))
    assert values == ["Likes rain", "Likes tea"]
    mine = create_search_memory_tool(NOTES, store=tiered).invoke({"query": "tea"}, ANN)
    other = theirs.create_search_memory_tool(NOTES, store=tiered).invoke({"query": "tea"}, ANN)
    assert [(one["key"], one["value"]) for one in json.loads(mine)] == [
        (one["key"], one["value"]) for one in json.loads(other)
    ]
    assert json.loads(mine)[0].keys() == json.loads(other)[0].keys()


@pytest.mark.peers
@LANGMEM
def test_the_parameters_are_those_of_langmem(tiered: TieredStore) -> None:
    theirs = import_module("langmem")

    for make in (create_manage_memory_tool, create_search_memory_tool):
        mine = make(PLACE, store=tiered)
        other = getattr(theirs, make.__name__)(PLACE, store=tiered)
        assert (mine.name, mine.response_format) == (other.name, other.response_format)
        assert parameters(mine) == parameters(other)


def parameters(tool: BaseTool) -> dict[str, Any]:
    shown = convert_to_openai_tool(tool)["function"]["parameters"]
    return {
        name: {key: one for key, one in about.items() if key not in {"minimum", "title"}}
        for name, about in shown["properties"].items()
    }


REFUSED = {
    "one label at least": [(), "", ("",), ("memories", "")],
    "sign between them": ["{org}{user_id}", "{org}x{user_id}", "a{org}-{team}{user_id}"],
    "no placeholder": ["{user-id}", "{user id}", "{user_id", "{}", "{user_id!r}", "{a.b}"],
}


@pytest.mark.parametrize(("wrong", "places"), REFUSED.items())
def test_a_place_that_would_be_anothers_is_refused_where_it_is_written(
    wrong: str, places: list[Any]
) -> None:
    for place in places:
        for create in (create_search_memory_tool, create_manage_memory_tool):
            with pytest.raises(InvalidInputError, match=wrong):
                create(place)
        for field in ("tenant", "project_id") if wrong != "one label at least" else ():
            with pytest.raises(InvalidInputError, match=wrong):
                create_recall_node(context={field: place})


NAMES = ["a", "b", "-", "a-", "-b", "a-b", "%", "%2D", "a%2Db", "a%2Eb", "_", "%5F", "ä"]


@pytest.mark.parametrize(
    "labels", [("{org}", "{user_id}"), ("{org}-{user_id}",), ("{org}_/{user_id}x",)]
)
def test_two_users_never_share_a_place(labels: tuple[str, ...]) -> None:
    store = InMemoryStore()
    manage = create_manage_memory_tool(("memories", *labels), store=store)
    search = create_search_memory_tool(("memories", *labels), store=store)
    users: list[RunnableConfig] = [
        {"configurable": {"org": org, "user_id": user}} for org in NAMES for user in NAMES
    ]
    for number, config in enumerate(users):
        manage.invoke({"content": f"Tea {number}"}, config)
    for number, config in enumerate(users):
        (found,) = json.loads(search.invoke({"query": "tea", "limit": 100}, config))
        assert found["value"]["content"] == f"Tea {number}"


def test_a_name_in_a_tool_is_the_place_of_that_name_and_of_no_other(tiered: TieredStore) -> None:
    tiered.put((MemoryContext(tenant="a.b").root,), "1", {"content": "The tea of a.b"})
    manage = create_manage_memory_tool(("{user_id}",), store=tiered)
    names = [name for name in NAMES if name != "_"]
    for name in names:
        manage.invoke({"content": f"The tea of {name}"}, {"configurable": {"user_id": name}})
    for name in ("a.b", *names):
        found = tiered.search((MemoryContext(tenant=name).root,))
        assert [one.value["content"] for one in found] == [f"The tea of {name}"]
