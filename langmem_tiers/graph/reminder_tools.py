"""A tool by which a model says that what it was reminded of is done."""

from __future__ import annotations

from collections.abc import Callable

from langchain_core.runnables.config import ensure_config
from langchain_core.tools import BaseTool, StructuredTool, ToolException
from pydantic import BaseModel, Field

from langmem_tiers.core.errors import InvalidInputError, MissingExtraError
from langmem_tiers.core.prompts import (
    COMPLETE_REMINDER,
    REMINDER_WAS_CLOSED,
    REMINDER_WAS_COMPLETED,
)
from langmem_tiers.graph.node import Remembered
from langmem_tiers.memory.coordinator import MemoryCoordinator

try:
    from langgraph.runtime import get_runtime
except ImportError as error:
    raise MissingExtraError(
        "the tool needs LangGraph: pip install 'langmem-tiers[langgraph]'"
    ) from error


def create_complete_reminder_tool(
    *,
    tenant: str | None = None,
    project_id: str | None = None,
    session_id: str | None = None,
    coordinator: Callable[..., MemoryCoordinator] = MemoryCoordinator,
    name: str = "complete_reminder",
) -> BaseTool:
    """A tool that closes an intention as done, by the key that its reminder shows.

    It reaches what the run's context reaches, and nothing else. What the model gets wrong, such as
    a key that there is none of, it is told in the tool's message.

    Args:
        tenant: A label, in which `{name}` stands for `config["configurable"]["name"]`.
        project_id: Likewise.
        session_id: Likewise.
        coordinator: Makes the coordinator from a store and `context`.
        name: What the model calls it.

    Example:
        ```python
        from langmem_tiers import create_complete_reminder_tool

        done = create_complete_reminder_tool()
        ```
    """
    whose = Remembered(
        tenant=tenant, project_id=project_id, session_id=session_id, coordinator=coordinator
    )

    def complete_reminder(key: str) -> str:
        memory = whose.memory(get_runtime(), ensure_config())
        try:
            return _told(key, closed=memory.complete(key))
        except InvalidInputError as error:
            raise ToolException(str(error)) from error

    async def acomplete_reminder(key: str) -> str:
        memory = whose.memory(get_runtime(), ensure_config())
        try:
            return _told(key, closed=await memory.acomplete(key))
        except InvalidInputError as error:
            raise ToolException(str(error)) from error

    return StructuredTool(
        name=name,
        description=COMPLETE_REMINDER,
        args_schema=_CompleteReminder,
        func=complete_reminder,
        coroutine=acomplete_reminder,
        handle_tool_error=True,
    )


class _CompleteReminder(BaseModel):
    key: str = Field(description="The key of the reminder.")


def _told(key: str, *, closed: bool) -> str:
    return (REMINDER_WAS_COMPLETED if closed else REMINDER_WAS_CLOSED).format(key=key)
