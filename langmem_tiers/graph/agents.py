"""What is used of LangChain's agents, which are an extra: who lacks it is told so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from langmem_tiers.core.errors import MissingExtraError
from langmem_tiers.recall.fence import with_recalled

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
    "shown",
]


def shown(request: ModelRequest[Any], text: str) -> ModelRequest[Any]:
    """The request, with a text at the end of its system message; nothing is added to none."""
    return request.override(system_message=with_recalled(request.system_message, text))


ModelHandler: TypeAlias = Callable[[ModelRequest[Any]], Any]
"""Calls the model: it returns its answer, or where the call is awaited what is awaited for it."""
