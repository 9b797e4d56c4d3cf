"""Vector store of langchain-postgres over one tenant's memories of a tier."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Never, Self

import psycopg

from langmem_tiers.core import errors
from langmem_tiers.core.context import MemoryContext
from langmem_tiers.core.memory import Tier
from langmem_tiers.core.vectors import Distance
from langmem_tiers.postgres import migrate
from langmem_tiers.postgres.connection_config import CONNECTION_FACTS, Target
from langmem_tiers.postgres.flow import Ask, Call, Flow, Query
from langmem_tiers.store.operations import to_tier
from langmem_tiers.store.store import TieredStore

try:
    from langchain_postgres import PGEngine, PGVectorStore
    from langchain_postgres.v2.indexes import DistanceStrategy
    from sqlalchemy import Connection, event
except ImportError as error:
    raise errors.MissingExtraError(
        "a tier as a PGVectorStore needs langchain-postgres: "
        'pip install "langmem-tiers[langchain-postgres]"'
    ) from error

_VIEW = "documents"
_STRATEGIES = {
    Distance.COSINE: DistanceStrategy.COSINE_DISTANCE,
    Distance.L2: DistanceStrategy.EUCLIDEAN,
    Distance.INNER_PRODUCT: DistanceStrategy.INNER_PRODUCT,
}
_ENTER_TRANSACTION = """SELECT set_config('langmem_tiers.tenant', %(tenant)s, true),
                   set_config('langmem_tiers.user', %(user_id)s, true),
                   set_config('transaction_read_only', 'on', true),
                   set_config('timezone', 'UTC', true),
                   (SELECT set_config('search_path', format('pg_catalog, %%I', n.nspname), true)
                    FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
                    WHERE e.extname = 'vector')"""
"""Statement that begins every transaction. It is not in queries.sql because SQLAlchemy runs it,
outside a flow. Its settings end with the transaction: a connection pooler hands no tenant on."""


class TierVectorStore(PGVectorStore):
    """Read-only `PGVectorStore` over one tenant's current memories of a tier."""

    def _refuse(self, *_: Any, **__: Any) -> Never:
        raise errors.InvalidInputError(
            "this is a tier opened for reading, and nothing can be written through it: remember "
            "with MemoryCoordinator.store or TieredStore.put, forget with delete_memory or delete; "
            "store.optimize() builds vector indexes"
        )

    async def _arefuse(self, *_: Any, **__: Any) -> Never:
        self._refuse()

    add_texts = add_documents = add_embeddings = delete = _refuse
    aadd_texts = aadd_documents = aadd_embeddings = adelete = _arefuse
    apply_vector_index = apply_hybrid_search_index = drop_vector_index = reindex = _refuse
    aapply_vector_index = aapply_hybrid_search_index = adrop_vector_index = areindex = _arefuse

    def close(self) -> None:
        """Close its connections; the store under it stays open."""
        self._engine._run_as_sync(self._engine.close())  # noqa: SLF001 - its one way from a thread

    async def aclose(self) -> None:
        """Close its connections; the store under it stays open."""
        await self._engine.close()

    def __enter__(self) -> Self:
        """Return itself: it is open already."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close; see `close`."""
        self.close()

    async def __aenter__(self) -> Self:
        """Return itself: it is open already."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close; see `aclose`."""
        await self.aclose()


def open_vector_store(
    store: TieredStore, tier: Tier | str, tenant: str, user_id: str | None, **options: Any
) -> Flow[TierVectorStore]:
    """Open a tier; see `open_tier`."""
    source, context = _creation_options(store, tier), MemoryContext(tenant=tenant, user_id=user_id)
    return _open(store, {**source, **options}, context)


def _open(
    store: TieredStore, source: dict[str, Any], context: MemoryContext
) -> Flow[TierVectorStore]:
    yield from _check_view(store, source["schema_name"])
    target = store.target
    if target.embeddings is None:
        raise errors.ConfigurationError(
            "this store has no embedding model; pass index={'embed': …}"
        )
    engine = _create_engine(target, context)
    source |= {"engine": engine, "embedding_service": target.embeddings}
    created: TierVectorStore = yield Ask(
        lambda: engine._run_as_sync(_create(**source)),  # noqa: SLF001 - its one way from a thread
        lambda: _create(**source),
    )
    return created


async def _create(engine: PGEngine, **source: Any) -> Any:
    try:
        return await TierVectorStore.create(engine, **source)
    except BaseException:
        await engine.close()
        raise


def _creation_options(store: TieredStore, tier: Tier | str) -> dict[str, Any]:
    """Return the view to open, as arguments of a `PGVectorStore`."""
    if not isinstance(store, TieredStore):
        raise errors.InvalidTypeError(f"a tier is a TieredStore's, not {type(store).__name__}'s")
    index = store.options.index
    if index is None or index.vector is None:
        use = "open the store with index={'dims': …, 'embed': …}"
        raise errors.ConfigurationError(f"a vector store needs vectors: {use}")
    return {
        "schema_name": store.options.schema(to_tier(tier)),
        "table_name": _VIEW,
        "id_column": "id",
        "metadata_json_column": "metadata",
        "distance_strategy": _STRATEGIES[index.vector.distance],
    }


def _check_view(store: TieredStore, schema: str) -> Flow[None]:
    yield from migrate.read_state(store.options)
    view = f"{schema}.{_VIEW}"
    (((exists,),),) = yield Query((Call("has_documents", {"view": view}),), commit=True)
    if not exists:
        use = "call store.setup() once with this version"
        raise errors.DatabaseError(f"this database has no view {view}: {use}", code="not_set_up")


async def _connect(target: Target, options: Mapping[str, Any]) -> psycopg.AsyncConnection[Any]:
    """Connect, without prepared statements if a pooler is between; see `Connection.learn`."""
    conn: psycopg.AsyncConnection[Any]
    conn = await psycopg.AsyncConnection.connect(target.conninfo, **options)
    try:
        cursor = await conn.execute(CONNECTION_FACTS, {"type": None}, prepare=False)
        ((process, *_),) = await cursor.fetchall()
        if process != conn.info.backend_pid and not target.sets_prepare_threshold:
            conn.prepare_threshold = None
        await conn.set_autocommit(False)
    except BaseException:
        await conn.close()
        raise
    return conn


def _create_engine(target: Target, context: MemoryContext) -> PGEngine:
    """Create connections whose transactions only read, and see only what this context sees."""

    async def connect() -> psycopg.AsyncConnection[Any]:
        options = target.connection_options()
        name = f"{options.get('application_name', 'langmem-tiers')} documents"
        options.update(application_name=name)
        return await _connect(target, options)

    def enter(conn: Connection) -> None:
        params = {name: value or "" for name, value in context.scope_params.items()}
        conn.exec_driver_sql(_ENTER_TRANSACTION, params)

    engine = PGEngine.from_connection_string(
        "postgresql+psycopg://", async_creator=connect, pool_pre_ping=True
    )
    event.listen(engine._pool.sync_engine, "begin", enter)  # noqa: SLF001 - it has no other name
    return engine
