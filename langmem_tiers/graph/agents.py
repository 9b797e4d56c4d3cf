"""What is used of LangChain's agents, which are an extra: who lacks it is told so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from langchain_core.language_models import BaseChatModel
from langchain_core.tools import BaseTool

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
    "with_tools",
]


def shown(request: ModelRequest[Any], text: str) -> ModelRequest[Any]:
    """The request, with a text at the end of its system message; nothing is added to none."""
    return request.override(system_message=with_recalled(request.system_message, text))


def with_tools(request: ModelRequest[Any], tools: Sequence[BaseTool]) -> ModelRequest[Any]:
    """The request, without these tools if its model cannot call any."""
    model = request.model
    if not tools or type(model).bind_tools is not BaseChatModel.bind_tools:
        return request
    return request.override(tools=[one for one in request.tools if one not in tools])


ModelHandler: TypeAlias = Callable[[ModelRequest[Any]], Any]
"""Calls the model: it returns its answer, or where the call is awaited what is awaited for it."""
