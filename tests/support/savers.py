"""Checkpointers of each kind, opened as their users do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver

Saver = Literal["memory", "postgres", "async postgres"]


@asynccontextmanager
async def saver(kind: Saver, url: str) -> AsyncIterator[Any]:
    """A checkpointer of a kind, set up; the Postgres ones keep their tables in that database."""
    if kind == "memory":
        yield InMemorySaver()
    elif kind == "async postgres":
        async with AsyncPostgresSaver.from_conn_string(url) as opened:
            await opened.setup()
            yield opened
    else:
        manager = PostgresSaver.from_conn_string(url)
        blocking = await asyncio.to_thread(manager.__enter__)
        await asyncio.to_thread(blocking.setup)
        yield blocking
        await asyncio.to_thread(manager.__exit__, None, None, None)
