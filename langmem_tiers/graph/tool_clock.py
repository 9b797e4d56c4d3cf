"""How long tool calls take, noted on their answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

from langchain_core.messages import ToolMessage

from langmem_tiers.core.errors import MissingExtraError
from langmem_tiers.graph.node import tiered

try:
    from langgraph.prebuilt.tool_node import ToolCallRequest
    from langgraph.types import Command
except ImportError as error:
    raise MissingExtraError(
        "timing tool calls needs LangGraph: pip install 'langmem-tiers[langgraph]'"
    ) from error

Answer = ToolMessage | Command[Any]
SECONDS = "langmem_tiers_seconds"
"""Where a tool's answer says how long it took, among its `additional_kwargs`."""


class ToolClock:
    """Times the calls of a `ToolNode`, by the store's clock, for the node that tracks them.

    A `ToolNode` is given its two methods, one for `invoke` and one for `ainvoke`.

    Example:
        ```python
        from langgraph.prebuilt import ToolNode
        from langmem_tiers.graph.tool_clock import ToolClock

        clock = ToolClock()
        node = ToolNode(
            tools, wrap_tool_call=clock.wrap_tool_call, awrap_tool_call=clock.awrap_tool_call
        )
        ```
    """

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Answer]
    ) -> Answer:
        """Run a tool call, and note how long it took."""
        began = _now(request)
        return _timed(handler(request), began, request)

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Answer]]
    ) -> Answer:
        """Run a tool call, and note how long it took."""
        began = _now(request)
        return _timed(await handler(request), began, request)


def seconds_of(answer: ToolMessage) -> float | None:
    """How long the call of an answer took; None if nobody timed it."""
    found = answer.additional_kwargs.get(SECONDS)
    return found if isinstance(found, float) else None


def _timed(answer: Answer, began: datetime, request: ToolCallRequest) -> Answer:
    if not isinstance(answer, ToolMessage):
        return answer
    seconds = max(0.0, (_now(request) - began).total_seconds())
    return answer.model_copy(
        update={"additional_kwargs": {**answer.additional_kwargs, SECONDS: seconds}}
    )


def _now(request: ToolCallRequest) -> datetime:
    return tiered(request.runtime.store).flows.now
