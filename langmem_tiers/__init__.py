"""Tiered, learning memory for LangGraph on Postgres."""

from langmem_tiers.coordinator import MemoryCoordinator
from langmem_tiers.embedded import EmbeddedPostgres
from langmem_tiers.embeddings import LocalEmbeddings
from langmem_tiers.errors import (
    ConfigurationError,
    DatabaseError,
    DatabaseUnavailableError,
    DimensionMismatchError,
    EmbeddedServerError,
    EmbeddingError,
    InvalidFilterError,
    InvalidInputError,
    MigrationError,
    MissingExtraError,
    NotSetUpError,
    OutcomeUnknownError,
    PoolExhaustedError,
    QueryTimeoutError,
    TierConflictError,
    TieredMemoryError,
)
from langmem_tiers.memory import (
    MemoryContext,
    MemoryStats,
    Recollection,
    Recollections,
    RelationSize,
    StoreResult,
    Tier,
    TierStats,
)
from langmem_tiers.store import TieredStore, local_index
from langmem_tiers.tier_view import TierView
from langmem_tiers.types import MemoryType, MemoryTypes

__all__ = [
    "ConfigurationError",
    "DatabaseError",
    "DatabaseUnavailableError",
    "DimensionMismatchError",
    "EmbeddedPostgres",
    "EmbeddedServerError",
    "EmbeddingError",
    "InvalidFilterError",
    "InvalidInputError",
    "LocalEmbeddings",
    "MemoryContext",
    "MemoryCoordinator",
    "MemoryStats",
    "MemoryType",
    "MemoryTypes",
    "MigrationError",
    "MissingExtraError",
    "NotSetUpError",
    "OutcomeUnknownError",
    "PoolExhaustedError",
    "QueryTimeoutError",
    "Recollection",
    "Recollections",
    "RelationSize",
    "StoreResult",
    "Tier",
    "TierConflictError",
    "TierStats",
    "TierView",
    "TieredMemoryError",
    "TieredStore",
    "local_index",
]
