"""The stores under measurement, each with the same four verbs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any, Protocol

from langgraph.store.base import BaseStore, PutOp
from langgraph.store.postgres import AsyncPostgresStore, PostgresStore

from benchmarks.corpus import Corpus, Memory, Query
from benchmarks.databases import Databases, index_of, tiered_store
from benchmarks.raw import LIMIT, AsyncRawClient, RawClient

OURS, PEER, RAW = "TieredStore", "PostgresStore", "raw SQL"
CLIENTS = 16


class Client(Protocol):
    """What is measured; `put` takes one memory or many."""

    def get(self, memory: Memory) -> Any: ...
    def search(self, query: Query) -> Sequence[Any]: ...
    def put(self, memories: Sequence[Memory]) -> object: ...


class AsyncClient(Protocol):
    """The same, awaited."""

    async def get(self, memory: Memory) -> Any: ...
    async def search(self, query: Query) -> Sequence[Any]: ...
    async def put(self, memories: Sequence[Memory]) -> object: ...


class StoreClient:
    """Any LangGraph store from blocking code."""

    def __init__(self, store: BaseStore) -> None:
        self._store = store

    def get(self, memory: Memory) -> Any:
        return self._store.get(memory.namespace, memory.key)

    def search(self, query: Query) -> Sequence[Any]:
        return self._store.search(query.prefix, query=query.text, limit=LIMIT)

    def put(self, memories: Sequence[Memory]) -> object:
        if len(memories) == 1:
            one = memories[0]
            return self._store.put(one.namespace, one.key, one.value)  # type: ignore[func-returns-value]
        return self._store.batch([PutOp(one.namespace, one.key, one.value) for one in memories])


class AsyncStoreClient:
    """Any LangGraph store on an event loop."""

    def __init__(self, store: BaseStore) -> None:
        self._store = store

    async def get(self, memory: Memory) -> Any:
        return await self._store.aget(memory.namespace, memory.key)

    async def search(self, query: Query) -> Sequence[Any]:
        return await self._store.asearch(query.prefix, query=query.text, limit=LIMIT)

    async def put(self, memories: Sequence[Memory]) -> object:
        if len(memories) == 1:
            one = memories[0]
            return await self._store.aput(one.namespace, one.key, one.value)  # type: ignore[func-returns-value]
        todo = [PutOp(one.namespace, one.key, one.value) for one in memories]
        return await self._store.abatch(todo)


def keys_of(found: Sequence[Any]) -> set[str]:
    """The keys of a page, whatever its items are."""
    return {item["key"] if isinstance(item, dict) else item.key for item in found}


@contextmanager
def one_client(databases: Databases, corpus: Corpus) -> Iterator[dict[str, Client]]:
    """Each contender as its documentation opens it."""
    raw = RawClient(databases.raw, corpus.embeddings)
    with (
        tiered_store(databases.tiers, corpus) as ours,
        PostgresStore.from_conn_string(databases.peer, index=index_of(corpus)) as peer,
    ):
        yield {OURS: StoreClient(ours), PEER: StoreClient(peer), RAW: raw}
    raw.close()


@asynccontextmanager
async def tasks(
    databases: Databases, corpus: Corpus
) -> AsyncIterator[dict[str, list[AsyncClient]]]:
    """Each contender for 16 tasks, with 16 connections."""
    async with AsyncExitStack() as stack:
        pool: Any = {"min_size": CLIENTS, "max_size": CLIENTS}
        ours = await stack.enter_async_context(
            tiered_store(databases.tiers, corpus, pool_config=pool)
        )
        peer = await stack.enter_async_context(
            AsyncPostgresStore.from_conn_string(
                databases.peer, index=index_of(corpus), pool_config=pool
            )
        )
        raw: list[AsyncClient] = []
        for _ in range(CLIENTS):
            client = await AsyncRawClient.connect(databases.raw, corpus.embeddings)
            stack.push_async_callback(client.close)
            raw.append(client)
        yield {
            OURS: [AsyncStoreClient(ours)] * CLIENTS,
            PEER: [AsyncStoreClient(peer)] * CLIENTS,
            RAW: raw,
        }
