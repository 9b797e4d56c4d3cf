"""What the middlewares share: LangChain's agents, which are an extra, and a run's memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from langchain_core.runnables.config import ensure_config

from langmem_tiers.core.errors import MissingExtraError
from langmem_tiers.graph.context import Remembered
from langmem_tiers.graph.driven import CALLER, Caller
from langmem_tiers.memory.coordinator import MemoryCoordinator

try:
    from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
    from langchain.agents.middleware.types import (
        AgentState,
        ExtendedModelResponse,
        ModelCallResult,
        PrivateStateAttr,
    )
except ImportError as error:
    raise MissingExtraError(
        "the middleware needs LangChain's agents: pip install 'langmem-tiers[langchain]'"
    ) from error

__all__ = [
    "AgentMiddleware",
    "AgentState",
    "ExtendedModelResponse",
    "ModelCallResult",
    "ModelRequest",
    "ModelResponse",
    "PrivateStateAttr",
]

ModelHandler: TypeAlias = Callable[[ModelRequest[Any]], Any]
"""Calls the model: it returns its answer, or where the call is awaited what is awaited for it."""


class Remembering:
    """A middleware with a memory; `both` makes the two hooks that LangChain knows of one flow."""

    _whose: Remembered

    @property
    def runner(self) -> Caller:
        """What drives its hooks: where the agent stands."""
        return CALLER

    def _memory(self, runtime: Any) -> MemoryCoordinator:
        return self._whose.memory(runtime, ensure_config())
