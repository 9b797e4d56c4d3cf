"""The store that langgraph.json serves the graphs with."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from langmem_tiers import TieredStore, local_index


@asynccontextmanager
async def generate_store() -> AsyncIterator[TieredStore]:
    """Open the store that LANGMEM_TIERS_URL names, and close it when the server is done.

    It is a Postgres URL, or `embedded:PATH` for a Postgres of its own in a directory; by default
    `embedded:./.memory`. Embeddings are local, by the model that LANGMEM_TIERS_MODEL names, as for
    the command line: `local`, `minilm` or `multilingual`. What has expired is swept in the
    background.
    """
    url = os.environ.get("LANGMEM_TIERS_URL") or "embedded:./.memory"
    model: Any = os.environ.get("LANGMEM_TIERS_MODEL") or "local"
    async with TieredStore.from_conn_string(url, index=local_index(model)) as store:
        await store.asetup()
        await store.astart_ttl_sweeper()
        yield store
