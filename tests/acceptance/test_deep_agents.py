"""An agent of the deepagents package keeps its files on a tiered store, beside its memories."""

from __future__ import annotations

from importlib import import_module

import pytest
from langchain_core.messages import HumanMessage

from langmem_tiers import MemoryContext, MemoryCoordinator, TieredStore
from langmem_tiers.graph.middleware import TieredMemoryMiddleware
from tests.support.agents import calls, scripted

ACME = MemoryContext(tenant="acme")


@pytest.mark.peers
def test_a_deep_agent_keeps_files_and_recalls_memories_on_one_store(store: TieredStore) -> None:
    deep, backends = import_module("deepagents"), import_module("deepagents.backends")
    MemoryCoordinator(store, context=ACME).store("The vault is in the cellar")
    model = scripted(
        calls("write_file", file_path="/plan.md", content="Open the vault"),
        calls("read_file", file_path="/plan.md"),
        "Done",
    )
    agent = deep.create_deep_agent(
        model,
        backend=backends.StoreBackend(namespace=lambda _: ("files", "acme")),
        middleware=[TieredMemoryMiddleware(limit=1)],
        context_schema=MemoryContext,
        store=store,
    )
    state = agent.invoke({"messages": [HumanMessage("Where is the vault?")]}, context=ACME)

    (item,) = store.search(("files", "acme"))
    assert item.key == "/plan.md"
    assert "Open the vault" in str(item.value)
    assert any("Open the vault" in one.text for one in state["messages"] if one.type == "tool")
    assert all("The vault is in the cellar" in str(seen[0].content) for seen in model.seen)
