"""The stores under measurement, each with the same four verbs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any

from langgraph.store.base import BaseStore, PutOp
from langgraph.store.postgres import AsyncPostgresStore, PostgresStore

from benchmarks.corpus import Corpus, Memory
from benchmarks.databases import Databases, index_of, tiered_store
from benchmarks.raw import LIMIT, AsyncRawClient, RawClient

OURS, PEER, RAW = "TieredStore", "PostgresStore", "raw SQL"
GET, PUT, BATCH, SEARCH = VERBS = ("get", "put", "batch of 50 puts", "search")
CLIENTS = 16


Client = Mapping[str, Callable[[Any], Any]]
"""What is measured: what each verb does, blocking or awaited; PUT and BATCH take a list."""


def verbs_of(store: BaseStore) -> Client:
    """Any LangGraph store from blocking code."""
    return {
        GET: lambda one: store.get(one.namespace, one.key),
        SEARCH: lambda query: store.search(query.prefix, query=query.text, limit=LIMIT),
        PUT: lambda several: store.put(*_put(several[0])),
        BATCH: lambda several: store.batch([PutOp(*_put(one)) for one in several]),
    }


def awaited_verbs_of(store: BaseStore) -> Client:
    """Any LangGraph store on an event loop."""
    return {
        GET: lambda one: store.aget(one.namespace, one.key),
        SEARCH: lambda query: store.asearch(query.prefix, query=query.text, limit=LIMIT),
        PUT: lambda several: store.aput(*_put(several[0])),
        BATCH: lambda several: store.abatch([PutOp(*_put(one)) for one in several]),
    }


def _put(one: Memory) -> tuple[tuple[str, ...], str, dict[str, Any]]:
    return one.namespace, one.key, one.value


def _raw_verbs(client: RawClient | AsyncRawClient) -> Client:
    return {GET: client.get, SEARCH: client.search, PUT: client.put, BATCH: client.put}


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
        yield {OURS: verbs_of(ours), PEER: verbs_of(peer), RAW: _raw_verbs(raw)}
    raw.close()


@asynccontextmanager
async def tasks(databases: Databases, corpus: Corpus) -> AsyncIterator[dict[str, list[Client]]]:
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
        raw: list[Client] = []
        for _ in range(CLIENTS):
            client = await AsyncRawClient.connect(databases.raw, corpus.embeddings)
            stack.push_async_callback(client.close)
            raw.append(_raw_verbs(client))
        yield {
            OURS: [awaited_verbs_of(ours)] * CLIENTS,
            PEER: [awaited_verbs_of(peer)] * CLIENTS,
            RAW: raw,
        }
