"""Tiered, learning memory for LangGraph on Postgres."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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
    from langmem_tiers.consolidation import consolidation_due, create_consolidation_graph
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
    from langmem_tiers.evolving_nodes import create_evolution_node, create_skill_node
    from langmem_tiers.learn.explain import Explanation
    from langmem_tiers.learn.outcome import OutcomeReport
    from langmem_tiers.learn.policy import PromotionPolicy
    from langmem_tiers.learn.promote import Promotion
    from langmem_tiers.learn.reflexion import FailedAttempt, Reflexion
    from langmem_tiers.learn.rollback import Demotion
    from langmem_tiers.learn.signature import Signature, signature
    from langmem_tiers.learning_nodes import (
        create_outcome_node,
        create_promotion_node,
        create_reflexion_node,
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
    from langmem_tiers.middleware import TieredMemoryMiddleware
    from langmem_tiers.nodes import MemoryState, create_recall_node
    from langmem_tiers.recalled import recalled_text
    from langmem_tiers.retriever import TieredMemoryRetriever
    from langmem_tiers.session_nodes import create_session_end_node
    from langmem_tiers.settings import MemorySettings
    from langmem_tiers.store import TieredStore, local_index
    from langmem_tiers.tier_view import TierView
    from langmem_tiers.tool_lessons import ToolLessons
    from langmem_tiers.tools import create_manage_memory_tool, create_search_memory_tool
    from langmem_tiers.types import MemoryType, MemoryTypes
    from langmem_tiers.worker import ConsolidationWorker
else:

    def __getattr__(name: str) -> object:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


_MODULES = {
    "ArchivalPolicy": "consolidate.policy",
    "ArchiveError": "errors",
    "ArchiveFile": "consolidate.restore",
    "ArchiveReport": "consolidate.archive",
    "ConfigurationError": "errors",
    "ConsolidationPolicy": "consolidate.policy",
    "ConsolidationReport": "consolidate.report",
    "ConsolidationSchedule": "consolidate.schedule",
    "ConsolidationWorker": "worker",
    "CoordinatorSettings": "config",
    "DatabaseError": "errors",
    "DatabaseUnavailableError": "errors",
    "Demotion": "learn.rollback",
    "DimensionMismatchError": "errors",
    "EmbeddedPostgres": "embedded",
    "EmbeddedServerError": "errors",
    "EmbeddingError": "errors",
    "Explanation": "learn.explain",
    "FailedAttempt": "learn.reflexion",
    "History": "consolidate.history",
    "InvalidFilterError": "errors",
    "InvalidInputError": "errors",
    "InvalidTypeError": "errors",
    "LeaseLostError": "errors",
    "LocalEmbeddings": "embeddings",
    "MemoryContext": "memory",
    "MemoryCoordinator": "coordinator",
    "MemorySettings": "settings",
    "MemoryState": "nodes",
    "MemoryStats": "memory",
    "MemoryType": "types",
    "MemoryTypes": "types",
    "MergePolicy": "consolidate.policy",
    "MigrationError": "errors",
    "MissingExtraError": "errors",
    "ModelError": "errors",
    "NotSetUpError": "errors",
    "OutcomeReport": "learn.outcome",
    "OutcomeUnknownError": "errors",
    "PoolExhaustedError": "errors",
    "Promotion": "learn.promote",
    "PromotionPolicy": "learn.policy",
    "QueryTimeoutError": "errors",
    "Recollection": "memory",
    "Recollections": "memory",
    "Reflexion": "learn.reflexion",
    "RelationSize": "memory",
    "Restoration": "consolidate.revise",
    "RestoreReport": "consolidate.restore",
    "Retraction": "consolidate.revise",
    "RisePolicy": "consolidate.policy",
    "RollbackError": "errors",
    "SessionReport": "consolidate.session_end",
    "Signature": "learn.signature",
    "StoreResult": "memory",
    "SupersedePolicy": "consolidate.policy",
    "Tier": "memory",
    "TierConflictError": "errors",
    "TierStats": "memory",
    "TierView": "tier_view",
    "TieredMemoryError": "errors",
    "TieredMemoryMiddleware": "middleware",
    "TieredMemoryRetriever": "retriever",
    "TieredStore": "store",
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
    "local_index": "store",
    "recalled_text": "recalled",
    "signature": "learn.signature",
}
"""Where each name is: its module is imported when the name is asked for."""

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
