"""Reminders for a tool that is about to run."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from uuid import NAMESPACE_OID, uuid5

from langchain_core.messages import ToolMessage

from langmem_tiers.core.errors import DatabaseError, MissingExtraError
from langmem_tiers.core.prompts import REMINDED_BEFORE_THE_CALL
from langmem_tiers.graph.attempts import HELD
from langmem_tiers.graph.node import Remembered, at_once, awaitable, blocking
from langmem_tiers.graph.recall import this_run
from langmem_tiers.graph.remind import reminders_text
from langmem_tiers.graph.tool_lessons import Answer
from langmem_tiers.memory.coordinator import MemoryCoordinator
from langmem_tiers.remind.intentions import Reminder

try:
    from langgraph.prebuilt.tool_node import ToolCallRequest
except ImportError as error:
    raise MissingExtraError(
        "reminders before tool calls need LangGraph: pip install 'langmem-tiers[langgraph]'"
    ) from error

_log = logging.getLogger(__name__)


class ToolReminders:
    """Raises what is intended before a tool runs: the call is answered with it, once, and not run.

    The model then thinks again: the same call after that runs, as each reminder is raised at most
    once. A call that is repeated by itself, after a crash, is held again. Where a tool's answer is
    returned directly no model would see it, and nothing is raised.

    Example:
        ```python
        from langgraph.prebuilt import ToolNode
        from langmem_tiers.graph.tool_lessons import ToolLessons
        from langmem_tiers.graph.tool_reminders import ToolReminders

        lessons, reminders = ToolLessons(), ToolReminders()
        node = ToolNode(
            tools,
            wrap_tool_call=lambda request, run: reminders.wrap_tool_call(
                request, lambda held: lessons.wrap_tool_call(held, run)
            ),
        )
        ```
    """

    def __init__(
        self,
        *,
        tenant: str | None = None,
        project_id: str | None = None,
        session_id: str | None = None,
        coordinator: Callable[..., MemoryCoordinator] = MemoryCoordinator,
    ) -> None:
        """Say whose intentions are raised.

        Args:
            tenant: A label, in which `{name}` stands for `config["configurable"]["name"]`.
            project_id: Likewise.
            session_id: Likewise.
            coordinator: Makes the coordinator from a store and `context`.
        """
        self._whose = Remembered(
            tenant=tenant, project_id=project_id, session_id=session_id, coordinator=coordinator
        )

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Answer]
    ) -> Answer:
        """Run a tool call, unless there is a reminder for before it."""
        return at_once(
            held_once(request, awaitable(handler), lambda: blocking(self._memory(request)))
        )

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Answer]]
    ) -> Answer:
        """Run a tool call, unless there is a reminder for before it."""
        return await held_once(request, handler, lambda: self._memory(request))

    def _memory(self, request: ToolCallRequest) -> MemoryCoordinator:
        return self._whose.memory(request.runtime, request.runtime.config)


async def held_once(
    request: ToolCallRequest,
    handler: Callable[[ToolCallRequest], Awaitable[Answer]],
    memory: Callable[[], MemoryCoordinator],
) -> Answer:
    """Run a tool call, unless there is a reminder for before it, with which it is answered."""
    if getattr(request.tool, "return_direct", False):
        return await handler(request)
    raised = await _raised(memory(), request)
    if not raised:
        return await handler(request)
    call = request.tool_call
    return ToolMessage(
        REMINDED_BEFORE_THE_CALL.format(reminders=reminders_text(raised)),
        name=call["name"],
        tool_call_id=call["id"],
        status="error",
        additional_kwargs={HELD: True},
    )


async def _raised(memory: MemoryCoordinator, request: ToolCallRequest) -> Sequence[Reminder]:
    """Reminders stand beside a call: where Postgres refuses them, it runs all the same."""
    call: Any = request.tool_call
    try:
        run = uuid5(NAMESPACE_OID, f"{this_run().id} {call['id']}")
        return await memory.aremind(tool=call, kinds=["tool"], run_id=str(run))
    except DatabaseError as error:
        _log.warning("a tool call runs without its reminders: %s", error)
        return ()
