"""Tiered, learning memory for LangGraph on Postgres."""

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
    PoolExhaustedError,
    TierConflictError,
    TieredMemoryError,
)
from langmem_tiers.memory import Match, RelationSize, Tier, TierStats
from langmem_tiers.store import TieredStore, local_index
from langmem_tiers.tier_view import TierView

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
    "Match",
    "MigrationError",
    "MissingExtraError",
    "NotSetUpError",
    "PoolExhaustedError",
    "RelationSize",
    "Tier",
    "TierConflictError",
    "TierStats",
    "TierView",
    "TieredMemoryError",
    "TieredStore",
    "local_index",
]
