"""The memory of a tenant consolidated, one cycle a run: a graph for a cron, or for the night.

`langgraph dev` serves it as `consolidation`, on the store of `graphs/store.py`. Each run says in
its context whose memory it is about: `{"tenant": "acme"}`. Its input is `{}`; on the thread of a
cycle that was broken off, a run without input goes on with it. docs/consolidation.md has the cron.

The environment, or `.env` beside langgraph.json:

- `LANGMEM_TIERS_CHAT_MODEL` names a chat model as `provider:model`, which decides what is else
  proposed; its key and its package are up to you. Without it no model is asked.
- `LANGMEM_TIERS_URL` names the database; see `graphs/store.py`.
"""

from __future__ import annotations

import os
from typing import Any

from langchain.chat_models import init_chat_model
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Checkpointer

from langmem_tiers import MemoryContext, TieredStore, create_consolidation_graph


def make_graph(
    *, store: TieredStore | None = None, checkpointer: Checkpointer = None
) -> CompiledStateGraph[Any, MemoryContext, Any, Any]:
    """Build the graph; a server gives it a store and a checkpointer of its own.

    Example:
        ```python
        from graphs.consolidation import make_graph
        from langmem_tiers import ConsolidationReport, MemoryContext, TieredStore

        with TieredStore.embedded("./.memory") as store:
            state = make_graph(store=store).invoke({}, context=MemoryContext(tenant="acme"))
            print(ConsolidationReport.of(state))
        ```
    """
    name = os.environ.get("LANGMEM_TIERS_CHAT_MODEL")
    return create_consolidation_graph(
        init_chat_model(name) if name else None, store=store, checkpointer=checkpointer
    )


graph = make_graph()
