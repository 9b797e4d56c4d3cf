"""Tiered, learning memory for LangGraph on Postgres."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from langmem_tiers.config import CoordinatorSettings
from langmem_tiers.consolidate.archive import ArchiveReport
from langmem_tiers.consolidate.history import History
from langmem_tiers.consolidate.policy import (
    ArchivalPolicy,
    ConsolidationPolicy,
    MergePolicy,
    RisePolicy,
    SupersedePolicy,
)
from langmem_tiers.consolidate.report import ConsolidationReport
from langmem_tiers.consolidate.restore import ArchiveFile, RestoreReport
from langmem_tiers.consolidate.revise import Restoration, Retraction
from langmem_tiers.consolidate.schedule import ConsolidationSchedule
from langmem_tiers.consolidate.session_end import SessionReport
from langmem_tiers.coordinator import MemoryCoordinator
from langmem_tiers.embedded import EmbeddedPostgres
from langmem_tiers.embeddings import LocalEmbeddings
from langmem_tiers.errors import (
    ArchiveError,
    ConfigurationError,
    DatabaseError,
    DatabaseUnavailableError,
    DimensionMismatchError,
    EmbeddedServerError,
    EmbeddingError,
    InvalidFilterError,
    InvalidInputError,
    InvalidTypeError,
    LeaseLostError,
    MigrationError,
    MissingExtraError,
    ModelError,
    NotSetUpError,
    OutcomeUnknownError,
    PoolExhaustedError,
    QueryTimeoutError,
    RollbackError,
    TierConflictError,
    TieredMemoryError,
)
from langmem_tiers.learn.explain import Explanation
from langmem_tiers.learn.outcome import OutcomeReport
from langmem_tiers.learn.policy import PromotionPolicy
from langmem_tiers.learn.promote import Promotion
from langmem_tiers.learn.reflexion import FailedAttempt, Reflexion
from langmem_tiers.learn.rollback import Demotion
from langmem_tiers.learn.signature import Signature, signature
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

if TYPE_CHECKING:
    from langmem_tiers.consolidation import consolidation_due, create_consolidation_graph
    from langmem_tiers.evolving_nodes import create_evolution_node, create_skill_node
    from langmem_tiers.learning_nodes import (
        create_outcome_node,
        create_promotion_node,
        create_reflexion_node,
    )
    from langmem_tiers.middleware import TieredMemoryMiddleware
    from langmem_tiers.nodes import MemoryState, create_recall_node
    from langmem_tiers.recalled import recalled_text
    from langmem_tiers.retriever import TieredMemoryRetriever
    from langmem_tiers.session_nodes import create_session_end_node
    from langmem_tiers.settings import MemorySettings
    from langmem_tiers.tool_lessons import ToolLessons
    from langmem_tiers.tools import create_manage_memory_tool, create_search_memory_tool
    from langmem_tiers.worker import ConsolidationWorker

_ON_FIRST_USE = {
    "ConsolidationWorker": "worker",
    "MemorySettings": "settings",
    "MemoryState": "nodes",
    "TieredMemoryMiddleware": "middleware",
    "TieredMemoryRetriever": "retriever",
    "ToolLessons": "tool_lessons",
    "consolidation_due": "consolidation",
    "create_consolidation_graph": "consolidation",
    "create_evolution_node": "evolving_nodes",
    "create_manage_memory_tool": "tools",
    "create_outcome_node": "learning_nodes",
    "create_promotion_node": "learning_nodes",
    "create_recall_node": "nodes",
    "create_reflexion_node": "learning_nodes",
    "create_search_memory_tool": "tools",
    "create_session_end_node": "session_nodes",
    "create_skill_node": "evolving_nodes",
    "recalled_text": "recalled",
}
"""What needs LangGraph, LangChain or YAML, by module: imported when it is asked for."""


def __getattr__(name: str) -> Any:
    if name not in _ON_FIRST_USE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_ON_FIRST_USE[name]}"), name)


__all__ = [
    "ArchivalPolicy",
    "ArchiveError",
    "ArchiveFile",
    "ArchiveReport",
    "ConfigurationError",
    "ConsolidationPolicy",
    "ConsolidationReport",
    "ConsolidationSchedule",
    "ConsolidationWorker",
    "CoordinatorSettings",
    "DatabaseError",
    "DatabaseUnavailableError",
    "Demotion",
    "DimensionMismatchError",
    "EmbeddedPostgres",
    "EmbeddedServerError",
    "EmbeddingError",
    "Explanation",
    "FailedAttempt",
    "History",
    "InvalidFilterError",
    "InvalidInputError",
    "InvalidTypeError",
    "LeaseLostError",
    "LocalEmbeddings",
    "MemoryContext",
    "MemoryCoordinator",
    "MemorySettings",
    "MemoryState",
    "MemoryStats",
    "MemoryType",
    "MemoryTypes",
    "MergePolicy",
    "MigrationError",
    "MissingExtraError",
    "ModelError",
    "NotSetUpError",
    "OutcomeReport",
    "OutcomeUnknownError",
    "PoolExhaustedError",
    "Promotion",
    "PromotionPolicy",
    "QueryTimeoutError",
    "Recollection",
    "Recollections",
    "Reflexion",
    "RelationSize",
    "Restoration",
    "RestoreReport",
    "Retraction",
    "RisePolicy",
    "RollbackError",
    "SessionReport",
    "Signature",
    "StoreResult",
    "SupersedePolicy",
    "Tier",
    "TierConflictError",
    "TierStats",
    "TierView",
    "TieredMemoryError",
    "TieredMemoryMiddleware",
    "TieredMemoryRetriever",
    "TieredStore",
    "ToolLessons",
    "consolidation_due",
    "create_consolidation_graph",
    "create_evolution_node",
    "create_manage_memory_tool",
    "create_outcome_node",
    "create_promotion_node",
    "create_recall_node",
    "create_reflexion_node",
    "create_search_memory_tool",
    "create_session_end_node",
    "create_skill_node",
    "local_index",
    "recalled_text",
    "signature",
]
