"""Tiered, learning memory for LangGraph on Postgres."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from langmem_tiers.consolidation.policy import (
        ArchivalPolicy,
        ConsolidationPolicy,
        ConsolidationSchedule,
    )
    from langmem_tiers.consolidation.report import ConsolidationReport
    from langmem_tiers.coordinator.buffer import WorkingMemoryBuffer
    from langmem_tiers.coordinator.coordinator import MemoryCoordinator
    from langmem_tiers.coordinator.hooks import MemoryHooks
    from langmem_tiers.coordinator.short_term import ShortTermState
    from langmem_tiers.core.config import Audit, Bounds
    from langmem_tiers.core.context import MemoryContext
    from langmem_tiers.core.errors import TieredMemoryError
    from langmem_tiers.core.memory import Recollection, StoreResult, Tier
    from langmem_tiers.core.settings import CoordinatorSettings, OrchestratorSettings
    from langmem_tiers.core.types import MemoryType, MemoryTypes
    from langmem_tiers.graph.consolidation import consolidation_due, create_consolidation_graph
    from langmem_tiers.graph.langmem_tools import (
        create_manage_memory_tool,
        create_search_memory_tool,
    )
    from langmem_tiers.graph.learning import (
        ToolLessons,
        ToolReminders,
        create_evolution_node,
        create_outcome_node,
        create_promotion_node,
        create_reflexion_node,
        create_skill_node,
    )
    from langmem_tiers.graph.memory_tools import create_manage_reminder_tool
    from langmem_tiers.graph.middleware import TieredMemoryMiddleware
    from langmem_tiers.graph.recall import MemoryState, TieredMemoryRetriever, create_recall_node
    from langmem_tiers.graph.remember import create_remember_node
    from langmem_tiers.graph.reminders import (
        HookState,
        create_acknowledge_node,
        create_completed_task_node,
        create_reminder_node,
        create_session_end_node,
        create_session_start_node,
        create_user_prompt_node,
    )
    from langmem_tiers.graph.review import create_review_node
    from langmem_tiers.graph.turn import (
        ToolClock,
        create_assemble_node,
        create_commit_node,
        create_tool_tracking_node,
    )
    from langmem_tiers.graph.worker import ConsolidationWorker
    from langmem_tiers.learning.promotion_policy import PromotionPolicy
    from langmem_tiers.learning.reflexion import FailedAttempt, Reflexion
    from langmem_tiers.postgres.embedded import EmbeddedPostgres
    from langmem_tiers.postgres.embeddings import LocalEmbeddings
    from langmem_tiers.remember.gate import GatePolicy, TrustPolicy
    from langmem_tiers.remember.review import Reviewer
    from langmem_tiers.reminders.intentions import Reminder
    from langmem_tiers.reminders.triggers import At, BeforeTool, If, When
    from langmem_tiers.store.store import TieredStore, local_index
    from langmem_tiers.turn.layout import PERSONA, Fragment
    from langmem_tiers.turn.orchestrator import MemoryOrchestrator
    from langmem_tiers.turn.persona import Persona
    from langmem_tiers.turn.trace import Budget

    __all__ = [
        "PERSONA",
        "ArchivalPolicy",
        "At",
        "Audit",
        "BeforeTool",
        "Bounds",
        "Budget",
        "ConsolidationPolicy",
        "ConsolidationReport",
        "ConsolidationSchedule",
        "ConsolidationWorker",
        "CoordinatorSettings",
        "EmbeddedPostgres",
        "FailedAttempt",
        "Fragment",
        "GatePolicy",
        "HookState",
        "If",
        "LocalEmbeddings",
        "MemoryContext",
        "MemoryCoordinator",
        "MemoryHooks",
        "MemoryOrchestrator",
        "MemoryState",
        "MemoryType",
        "MemoryTypes",
        "OrchestratorSettings",
        "Persona",
        "PromotionPolicy",
        "Recollection",
        "Reflexion",
        "Reminder",
        "Reviewer",
        "ShortTermState",
        "StoreResult",
        "Tier",
        "TieredMemoryError",
        "TieredMemoryMiddleware",
        "TieredMemoryRetriever",
        "TieredStore",
        "ToolClock",
        "ToolLessons",
        "ToolReminders",
        "TrustPolicy",
        "When",
        "WorkingMemoryBuffer",
        "consolidation_due",
        "create_acknowledge_node",
        "create_assemble_node",
        "create_commit_node",
        "create_completed_task_node",
        "create_consolidation_graph",
        "create_evolution_node",
        "create_manage_memory_tool",
        "create_manage_reminder_tool",
        "create_outcome_node",
        "create_promotion_node",
        "create_recall_node",
        "create_reflexion_node",
        "create_remember_node",
        "create_reminder_node",
        "create_review_node",
        "create_search_memory_tool",
        "create_session_end_node",
        "create_session_start_node",
        "create_skill_node",
        "create_tool_tracking_node",
        "create_user_prompt_node",
        "local_index",
    ]
else:

    def __getattr__(name: str) -> object:
        if name == "__all__":
            return _available_names()
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)

    def _available_names() -> list[str]:
        """List the names of `from langmem_tiers import *`, without those of missing extras.

        The error for such a name says which extra it needs.
        """
        errors = import_module(f"{__name__}.core.errors")
        names = []
        for name in _MODULES:
            try:
                __getattr__(name)
            except errors.MissingExtraError:
                continue
            names.append(name)
        return names


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})


_MODULES = {
    "ArchivalPolicy": "consolidation.policy",
    "At": "reminders.triggers",
    "BeforeTool": "reminders.triggers",
    "Audit": "core.config",
    "Bounds": "core.config",
    "Budget": "turn.trace",
    "ConsolidationPolicy": "consolidation.policy",
    "ConsolidationReport": "consolidation.report",
    "ConsolidationSchedule": "consolidation.policy",
    "ConsolidationWorker": "graph.worker",
    "CoordinatorSettings": "core.settings",
    "EmbeddedPostgres": "postgres.embedded",
    "FailedAttempt": "learning.reflexion",
    "Fragment": "turn.layout",
    "GatePolicy": "remember.gate",
    "HookState": "graph.reminders",
    "If": "reminders.triggers",
    "LocalEmbeddings": "postgres.embeddings",
    "MemoryContext": "core.context",
    "MemoryCoordinator": "coordinator.coordinator",
    "MemoryHooks": "coordinator.hooks",
    "MemoryOrchestrator": "turn.orchestrator",
    "MemoryState": "graph.recall",
    "MemoryType": "core.types",
    "MemoryTypes": "core.types",
    "OrchestratorSettings": "core.settings",
    "PERSONA": "turn.layout",
    "Persona": "turn.persona",
    "PromotionPolicy": "learning.promotion_policy",
    "Recollection": "core.memory",
    "Reflexion": "learning.reflexion",
    "Reminder": "reminders.intentions",
    "Reviewer": "remember.review",
    "ShortTermState": "coordinator.short_term",
    "StoreResult": "core.memory",
    "Tier": "core.memory",
    "TieredMemoryError": "core.errors",
    "TieredMemoryMiddleware": "graph.middleware",
    "TieredMemoryRetriever": "graph.recall",
    "TieredStore": "store.store",
    "ToolClock": "graph.turn",
    "ToolLessons": "graph.learning",
    "ToolReminders": "graph.learning",
    "TrustPolicy": "remember.gate",
    "When": "reminders.triggers",
    "WorkingMemoryBuffer": "coordinator.buffer",
    "consolidation_due": "graph.consolidation",
    "create_acknowledge_node": "graph.reminders",
    "create_assemble_node": "graph.turn",
    "create_commit_node": "graph.turn",
    "create_manage_reminder_tool": "graph.memory_tools",
    "create_completed_task_node": "graph.reminders",
    "create_consolidation_graph": "graph.consolidation",
    "create_evolution_node": "graph.learning",
    "create_manage_memory_tool": "graph.langmem_tools",
    "create_outcome_node": "graph.learning",
    "create_promotion_node": "graph.learning",
    "create_recall_node": "graph.recall",
    "create_reflexion_node": "graph.learning",
    "create_remember_node": "graph.remember",
    "create_reminder_node": "graph.reminders",
    "create_review_node": "graph.review",
    "create_search_memory_tool": "graph.langmem_tools",
    "create_session_end_node": "graph.reminders",
    "create_session_start_node": "graph.reminders",
    "create_skill_node": "graph.learning",
    "create_tool_tracking_node": "graph.turn",
    "create_user_prompt_node": "graph.reminders",
    "local_index": "store.store",
}
"""The module of each name; it is imported when the name is asked for."""
