"""Tiered, learning memory for LangGraph on Postgres."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from langmem_tiers.consolidate.archive import ArchiveReport
    from langmem_tiers.consolidate.policy import (
        ArchivalPolicy,
        ConsolidationPolicy,
        ConsolidationSchedule,
        MergePolicy,
        RisePolicy,
        SupersedePolicy,
    )
    from langmem_tiers.consolidate.report import ConsolidationReport
    from langmem_tiers.consolidate.restore import ArchiveFile, RestoreReport
    from langmem_tiers.consolidate.session import SessionReport
    from langmem_tiers.consolidate.truth import History, Restoration, Retraction
    from langmem_tiers.core.bounds import Bounds
    from langmem_tiers.core.errors import (
        ArchiveError,
        BudgetExceededError,
        CheckpointError,
        ConfigurationError,
        ConflictError,
        DatabaseError,
        DatabaseUnavailableError,
        DimensionMismatchError,
        EmbeddedServerError,
        EmbeddingError,
        ImportFileError,
        InvalidFilterError,
        InvalidInputError,
        InvalidTypeError,
        LeaseLostError,
        MigrationError,
        MissingExtraError,
        ModelError,
        NotQuarantinedError,
        NotSetUpError,
        OutcomeUnknownError,
        PoolExhaustedError,
        QueryTimeoutError,
        RollbackError,
        TierConflictError,
        TieredMemoryError,
        TooLargeError,
    )
    from langmem_tiers.core.memory import (
        Destination,
        MemoryContext,
        Recollection,
        Recollections,
        ReviewResult,
        StoreResult,
        Tier,
    )
    from langmem_tiers.core.options import CoordinatorSettings, OrchestratorSettings
    from langmem_tiers.core.settings import MemorySettings
    from langmem_tiers.core.stats import MemoryStats, RelationSize, TierStats
    from langmem_tiers.core.types import MemoryType, MemoryTypes
    from langmem_tiers.graph.consolidation import consolidation_due, create_consolidation_graph
    from langmem_tiers.graph.hook_middleware import MemoryHooksMiddleware
    from langmem_tiers.graph.hooks import (
        HookState,
        create_completed_task_node,
        create_session_end_node,
        create_session_start_node,
        create_user_prompt_node,
    )
    from langmem_tiers.graph.learn import (
        create_evolution_node,
        create_outcome_node,
        create_promotion_node,
        create_reflexion_node,
        create_skill_node,
    )
    from langmem_tiers.graph.middleware import TieredMemoryMiddleware
    from langmem_tiers.graph.recall import MemoryState, create_recall_node
    from langmem_tiers.graph.remind import (
        create_acknowledge_node,
        create_reminder_node,
        reminders_text,
    )
    from langmem_tiers.graph.retriever import TieredMemoryRetriever
    from langmem_tiers.graph.review import create_review_node
    from langmem_tiers.graph.tool_calls import ToolClock, ToolLessons, ToolReminders
    from langmem_tiers.graph.tools import (
        create_complete_reminder_tool,
        create_manage_memory_tool,
        create_search_memory_tool,
    )
    from langmem_tiers.graph.turn import (
        create_assemble_node,
        create_commit_node,
        create_tool_tracking_node,
    )
    from langmem_tiers.graph.turn_middleware import TurnMiddleware
    from langmem_tiers.graph.worker import ConsolidationWorker
    from langmem_tiers.learn.explain import Explanation
    from langmem_tiers.learn.outcome import OutcomeReport
    from langmem_tiers.learn.policy import PromotionPolicy
    from langmem_tiers.learn.promote import Promotion
    from langmem_tiers.learn.reflexion import FailedAttempt, Reflexion
    from langmem_tiers.learn.rollback import Demotion
    from langmem_tiers.learn.signature import Signature, signature
    from langmem_tiers.memory.buffer import (
        BufferedMemory,
        PromptMemories,
        PromptMemory,
        WorkingMemoryBuffer,
    )
    from langmem_tiers.memory.coordinator import MemoryCoordinator
    from langmem_tiers.memory.hook_data import PromptSubmit, SessionStart, SessionStop
    from langmem_tiers.memory.hooks import MemoryHooks
    from langmem_tiers.memory.short_term import ShortTermState
    from langmem_tiers.postgres.embedded import EmbeddedPostgres
    from langmem_tiers.postgres.embeddings import LocalEmbeddings
    from langmem_tiers.recall.fence import recalled_text
    from langmem_tiers.remember.gate import Decision, GatePolicy
    from langmem_tiers.remember.panel import default_reviewers
    from langmem_tiers.remember.quarantine import Quarantined, Released
    from langmem_tiers.remember.review import Reviewer, Reviewers
    from langmem_tiers.remember.review_models import ReviewReport
    from langmem_tiers.remember.trust import TrustPolicy
    from langmem_tiers.remind.intentions import Intention, Reminder
    from langmem_tiers.remind.triggers import At, BeforeTool, If, When
    from langmem_tiers.state.state import (
        DailySpend,
        EmotionalState,
        Goal,
        Message,
        ProgressDelta,
        ShortTermSnapshot,
        Task,
    )
    from langmem_tiers.store.store import TieredStore, local_index
    from langmem_tiers.store.tier import TierView
    from langmem_tiers.turn.fitting import Assembled
    from langmem_tiers.turn.keeping import Memorized, Tracked
    from langmem_tiers.turn.layout import ORCHESTRATOR, PERSONA, Fragment, Layout, Section, Stage
    from langmem_tiers.turn.orchestrator import MemoryOrchestrator
    from langmem_tiers.turn.persona import OperationalState, Persona
    from langmem_tiers.turn.spending import Budget, BudgetStatus
    from langmem_tiers.turn.trace import CommitReport, EndedTurn, TurnEvent, TurnTrace
    from langmem_tiers.turn.turn import Route

    __all__ = [
        "ORCHESTRATOR",
        "PERSONA",
        "ArchivalPolicy",
        "ArchiveError",
        "ArchiveFile",
        "ArchiveReport",
        "Assembled",
        "At",
        "BeforeTool",
        "Bounds",
        "Budget",
        "BudgetExceededError",
        "BudgetStatus",
        "BufferedMemory",
        "CheckpointError",
        "CommitReport",
        "ConfigurationError",
        "ConflictError",
        "ConsolidationPolicy",
        "ConsolidationReport",
        "ConsolidationSchedule",
        "ConsolidationWorker",
        "CoordinatorSettings",
        "DailySpend",
        "DatabaseError",
        "DatabaseUnavailableError",
        "Decision",
        "Demotion",
        "Destination",
        "DimensionMismatchError",
        "EmbeddedPostgres",
        "EmbeddedServerError",
        "EmbeddingError",
        "EmotionalState",
        "EndedTurn",
        "Explanation",
        "FailedAttempt",
        "Fragment",
        "GatePolicy",
        "Goal",
        "History",
        "HookState",
        "If",
        "ImportFileError",
        "Intention",
        "InvalidFilterError",
        "InvalidInputError",
        "InvalidTypeError",
        "Layout",
        "LeaseLostError",
        "LocalEmbeddings",
        "Memorized",
        "MemoryContext",
        "MemoryCoordinator",
        "MemoryHooks",
        "MemoryHooksMiddleware",
        "MemoryOrchestrator",
        "MemorySettings",
        "MemoryState",
        "MemoryStats",
        "MemoryType",
        "MemoryTypes",
        "MergePolicy",
        "Message",
        "MigrationError",
        "MissingExtraError",
        "ModelError",
        "NotQuarantinedError",
        "NotSetUpError",
        "OperationalState",
        "OrchestratorSettings",
        "OutcomeReport",
        "OutcomeUnknownError",
        "Persona",
        "PoolExhaustedError",
        "ProgressDelta",
        "Promotion",
        "PromotionPolicy",
        "PromptMemories",
        "PromptMemory",
        "PromptSubmit",
        "Quarantined",
        "QueryTimeoutError",
        "Recollection",
        "Recollections",
        "Reflexion",
        "RelationSize",
        "Released",
        "Reminder",
        "Restoration",
        "RestoreReport",
        "Retraction",
        "ReviewReport",
        "ReviewResult",
        "Reviewer",
        "Reviewers",
        "RisePolicy",
        "RollbackError",
        "Route",
        "Section",
        "SessionReport",
        "SessionStart",
        "SessionStop",
        "ShortTermSnapshot",
        "ShortTermState",
        "Signature",
        "Stage",
        "StoreResult",
        "SupersedePolicy",
        "Task",
        "Tier",
        "TierConflictError",
        "TierStats",
        "TierView",
        "TieredMemoryError",
        "TieredMemoryMiddleware",
        "TieredMemoryRetriever",
        "TieredStore",
        "TooLargeError",
        "ToolClock",
        "ToolLessons",
        "ToolReminders",
        "Tracked",
        "TrustPolicy",
        "TurnEvent",
        "TurnMiddleware",
        "TurnTrace",
        "When",
        "WorkingMemoryBuffer",
        "consolidation_due",
        "create_acknowledge_node",
        "create_assemble_node",
        "create_commit_node",
        "create_complete_reminder_tool",
        "create_completed_task_node",
        "create_consolidation_graph",
        "create_evolution_node",
        "create_manage_memory_tool",
        "create_outcome_node",
        "create_promotion_node",
        "create_recall_node",
        "create_reflexion_node",
        "create_reminder_node",
        "create_review_node",
        "create_search_memory_tool",
        "create_session_end_node",
        "create_session_start_node",
        "create_skill_node",
        "create_tool_tracking_node",
        "create_user_prompt_node",
        "default_reviewers",
        "local_index",
        "recalled_text",
        "reminders_text",
        "signature",
    ]
else:

    def __getattr__(name: str) -> object:
        if name == "__all__":
            return _offered()
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)

    def _offered() -> list[str]:
        """What `from langmem_tiers import *` brings: all but names of extras that are not there.

        Who asks for one of those by its name is told which extra it needs.
        """
        missing_extra = __getattr__("MissingExtraError")
        found = []
        for name in _MODULES:
            try:
                __getattr__(name)
            except missing_extra:
                continue
            found.append(name)
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})


_MODULES = {
    "ArchivalPolicy": "consolidate.policy",
    "ArchiveError": "core.errors",
    "ArchiveFile": "consolidate.restore",
    "ArchiveReport": "consolidate.archive",
    "Assembled": "turn.fitting",
    "At": "remind.triggers",
    "BeforeTool": "remind.triggers",
    "Bounds": "core.bounds",
    "Budget": "turn.spending",
    "BudgetExceededError": "core.errors",
    "BudgetStatus": "turn.spending",
    "BufferedMemory": "memory.buffer",
    "CheckpointError": "core.errors",
    "CommitReport": "turn.trace",
    "ConfigurationError": "core.errors",
    "ConflictError": "core.errors",
    "ConsolidationPolicy": "consolidate.policy",
    "ConsolidationReport": "consolidate.report",
    "ConsolidationSchedule": "consolidate.policy",
    "ConsolidationWorker": "graph.worker",
    "CoordinatorSettings": "core.options",
    "DailySpend": "state.state",
    "DatabaseError": "core.errors",
    "DatabaseUnavailableError": "core.errors",
    "Decision": "remember.gate",
    "Demotion": "learn.rollback",
    "Destination": "core.memory",
    "DimensionMismatchError": "core.errors",
    "EmbeddedPostgres": "postgres.embedded",
    "EmbeddedServerError": "core.errors",
    "EmbeddingError": "core.errors",
    "EmotionalState": "state.state",
    "EndedTurn": "turn.trace",
    "Explanation": "learn.explain",
    "FailedAttempt": "learn.reflexion",
    "Fragment": "turn.layout",
    "GatePolicy": "remember.gate",
    "Goal": "state.state",
    "History": "consolidate.truth",
    "HookState": "graph.hooks",
    "If": "remind.triggers",
    "ImportFileError": "core.errors",
    "Intention": "remind.intentions",
    "InvalidFilterError": "core.errors",
    "InvalidInputError": "core.errors",
    "InvalidTypeError": "core.errors",
    "Layout": "turn.layout",
    "LeaseLostError": "core.errors",
    "LocalEmbeddings": "postgres.embeddings",
    "Memorized": "turn.keeping",
    "MemoryContext": "core.memory",
    "MemoryCoordinator": "memory.coordinator",
    "MemoryHooks": "memory.hooks",
    "MemoryHooksMiddleware": "graph.hook_middleware",
    "MemoryOrchestrator": "turn.orchestrator",
    "MemorySettings": "core.settings",
    "MemoryState": "graph.recall",
    "MemoryStats": "core.stats",
    "MemoryType": "core.types",
    "MemoryTypes": "core.types",
    "MergePolicy": "consolidate.policy",
    "Message": "state.state",
    "MigrationError": "core.errors",
    "MissingExtraError": "core.errors",
    "ModelError": "core.errors",
    "NotQuarantinedError": "core.errors",
    "NotSetUpError": "core.errors",
    "ORCHESTRATOR": "turn.layout",
    "OperationalState": "turn.persona",
    "OrchestratorSettings": "core.options",
    "OutcomeReport": "learn.outcome",
    "OutcomeUnknownError": "core.errors",
    "PERSONA": "turn.layout",
    "Persona": "turn.persona",
    "PoolExhaustedError": "core.errors",
    "ProgressDelta": "state.state",
    "Promotion": "learn.promote",
    "PromotionPolicy": "learn.policy",
    "PromptMemories": "memory.buffer",
    "PromptMemory": "memory.buffer",
    "PromptSubmit": "memory.hook_data",
    "Quarantined": "remember.quarantine",
    "QueryTimeoutError": "core.errors",
    "Recollection": "core.memory",
    "Recollections": "core.memory",
    "Reflexion": "learn.reflexion",
    "RelationSize": "core.stats",
    "Released": "remember.quarantine",
    "Reminder": "remind.intentions",
    "Restoration": "consolidate.truth",
    "RestoreReport": "consolidate.restore",
    "Retraction": "consolidate.truth",
    "ReviewReport": "remember.review_models",
    "ReviewResult": "core.memory",
    "Reviewer": "remember.review",
    "Reviewers": "remember.review",
    "RisePolicy": "consolidate.policy",
    "RollbackError": "core.errors",
    "Route": "turn.turn",
    "Section": "turn.layout",
    "SessionReport": "consolidate.session",
    "SessionStart": "memory.hook_data",
    "SessionStop": "memory.hook_data",
    "ShortTermSnapshot": "state.state",
    "ShortTermState": "memory.short_term",
    "Signature": "learn.signature",
    "Stage": "turn.layout",
    "StoreResult": "core.memory",
    "SupersedePolicy": "consolidate.policy",
    "Task": "state.state",
    "Tier": "core.memory",
    "TierConflictError": "core.errors",
    "TierStats": "core.stats",
    "TierView": "store.tier",
    "TieredMemoryError": "core.errors",
    "TieredMemoryMiddleware": "graph.middleware",
    "TieredMemoryRetriever": "graph.retriever",
    "TieredStore": "store.store",
    "ToolClock": "graph.tool_calls",
    "ToolLessons": "graph.tool_calls",
    "TooLargeError": "core.errors",
    "ToolReminders": "graph.tool_calls",
    "Tracked": "turn.keeping",
    "TrustPolicy": "remember.trust",
    "TurnEvent": "turn.trace",
    "TurnMiddleware": "graph.turn_middleware",
    "TurnTrace": "turn.trace",
    "When": "remind.triggers",
    "WorkingMemoryBuffer": "memory.buffer",
    "consolidation_due": "graph.consolidation",
    "create_acknowledge_node": "graph.remind",
    "create_assemble_node": "graph.turn",
    "create_commit_node": "graph.turn",
    "create_complete_reminder_tool": "graph.tools",
    "create_completed_task_node": "graph.hooks",
    "create_consolidation_graph": "graph.consolidation",
    "create_evolution_node": "graph.learn",
    "create_manage_memory_tool": "graph.tools",
    "create_outcome_node": "graph.learn",
    "create_promotion_node": "graph.learn",
    "create_recall_node": "graph.recall",
    "create_reflexion_node": "graph.learn",
    "create_reminder_node": "graph.remind",
    "create_review_node": "graph.review",
    "create_search_memory_tool": "graph.tools",
    "create_session_end_node": "graph.hooks",
    "create_session_start_node": "graph.hooks",
    "create_skill_node": "graph.learn",
    "create_tool_tracking_node": "graph.turn",
    "create_user_prompt_node": "graph.hooks",
    "default_reviewers": "remember.panel",
    "local_index": "store.store",
    "recalled_text": "recall.fence",
    "reminders_text": "graph.remind",
    "signature": "learn.signature",
}
"""Where each name is: its module is imported when the name is asked for."""
