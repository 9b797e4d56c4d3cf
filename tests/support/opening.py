"""Stores on ready databases, opened either way, at a time that the test sets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import psycopg
from langgraph.store.base import TTLConfig

from langmem_tiers import TieredStore
from langmem_tiers.testing import Mode, StoreDriver, TrigramEmbeddings

Opened = Literal["sync", "async"]

DIMS = 64


class Clock:
    """Tells the time that the test has set."""

    def __init__(self) -> None:
        """Begin at a fixed moment."""
        self.now = datetime(2026, 3, 1, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def advance(self, **delta: float) -> None:
        """Let time pass, by the arguments of timedelta."""
        self.now += timedelta(**delta)


def text_index(dims: int = DIMS, **options: Any) -> dict[str, Any]:
    """An index over the field "text" unless told otherwise; deterministic embeddings."""
    return {"dims": dims, "embed": TrigramEmbeddings(dims), "fields": ["text"], **options}


class FailingEmbeddings(TrigramEmbeddings):
    """Fails on any text with "poison" in it, and counts how often."""

    failures = 0

    def embed_query(self, text: str) -> list[float]:
        if "poison" in text:
            self.failures += 1
            raise LookupError("the model refuses this text")
        return super().embed_query(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Opener:
    """Opens stores in one way, and calls them in one way."""

    opened: Opened
    mode: Mode
    new_url: Callable[[], str]
    clock: Clock

    @asynccontextmanager
    async def __call__(
        self,
        *,
        url: str = "",
        index: Mapping[str, Any] | None = None,
        ttl: TTLConfig | None = None,
        setup: bool = False,
        **options: Any,
    ) -> AsyncIterator[StoreDriver]:
        """A store on `url`, else on a database of its own; `setup` for other than text_index."""
        store = TieredStore.from_conn_string(
            url or self.new_url(), index=index, ttl=ttl, **{"clock": self.clock, **options}
        )
        async with opened_store(store, self.opened):
            if setup:
                await store.asetup()
            yield StoreDriver(store, self.mode)


@asynccontextmanager
async def opened_store(store: TieredStore, opened: Opened) -> AsyncIterator[TieredStore]:
    """Open a store blocking, or on the running loop."""
    if opened == "async":
        async with store:
            yield store
        return
    await asyncio.to_thread(store.__enter__)
    try:
        yield store
    finally:
        await asyncio.to_thread(store.close)


def tiered(driver: StoreDriver) -> TieredStore:
    """The store that a driver drives."""
    assert isinstance(driver.store, TieredStore)
    return driver.store


def in_tier(driver: StoreDriver, tier: str) -> StoreDriver:
    """A driver of one tier's view."""
    return StoreDriver(tiered(driver).tier(tier), driver.mode)


TABLES = ("memories", "vectors", "usage", "exposures", "lineage", "events", "intentions")
"""Where a store keeps rows."""
ASIDE = (
    *("leases", "cycles", "archives", "archived", "states"),
    *("tombstones", "tombstone_keys", "forgettings", "tenant_sizes", "recalls"),
    *("audit", "audit_links", "imports", "exports"),
)
"""Where it keeps what it knows of its own work."""


_EMPTY = "; ".join(f"DELETE FROM memory.{name}" for name in (*TABLES, *ASIDE))  # noqa: S608
_emptying: dict[str, psycopg.Connection[Any]] = {}


def empty(url: str) -> None:
    """Remove every row of a store; most tests begin with this, so its connection is kept."""
    try:
        _emptying[url].execute(_EMPTY.encode(), prepare=False)
    except (KeyError, psycopg.OperationalError):  # the first time, or a test ended it
        leave(url)
        _emptying[url] = psycopg.connect(url, autocommit=True)
        _emptying[url].execute(_EMPTY.encode(), prepare=False)


def leave(url: str) -> None:
    """Close the connection that emptied a database, if there is one."""
    if url in _emptying:
        _emptying.pop(url).close()


@contextmanager
def refusing(url: str, table: str = "memories", unless: str = "false") -> Iterator[None]:
    """Meanwhile no row can be written to a table but those that pass a check."""
    check = f"ADD CONSTRAINT refusing CHECK ({unless}) NOT VALID"
    with _altered(url, f"{table} {check}", f"{table} DROP CONSTRAINT refusing"):
        yield


@contextmanager
def away(url: str, table: str) -> Iterator[None]:
    """Meanwhile a table is not there."""
    with _altered(url, f"{table} RENAME TO away", f"away RENAME TO {table}"):
        yield


@contextmanager
def _altered(url: str, change: str, back: str) -> Iterator[None]:
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute(f"ALTER TABLE memory.{change}".encode())
        try:
            yield
        finally:
            conn.execute(f"ALTER TABLE memory.{back}".encode())


def tables(url: str) -> dict[str, list[tuple[Any, ...]]]:
    """Every stored row of a store, by table, in order."""
    found = {}
    with psycopg.connect(url) as conn:
        for name in TABLES:
            query = f"SELECT t::text FROM memory.{name} t ORDER BY 1"  # noqa: S608 - names of ours
            rows = conn.execute(query.encode())
            found[name] = rows.fetchall()
    return found


def tier_of(url: str, key: str) -> list[str]:
    """The tiers in which memories of that key stand."""
    query = "SELECT tier::text FROM memory.memories WHERE key = %s ORDER BY 1"
    with psycopg.connect(url) as conn:
        return [row[0] for row in conn.execute(query, [key])]


def nested(levels: int, by: Callable[[Any], Any] = lambda inner: {"a": inner}) -> Any:
    """A value in a value, so many times."""
    value: Any = {}
    for _ in range(levels):
        value = by(value)
    return value
