"""Lessons around the tool calls of an agent, which knows which of its tools ran."""

from __future__ import annotations

from typing import Any

from langmem_tiers.graph.extra import ToolCallRequest
from langmem_tiers.graph.node import Careful
from langmem_tiers.graph.ran import Started
from langmem_tiers.graph.shown import noted_in
from langmem_tiers.graph.tool_calls import ToolLessons
from langmem_tiers.learn.outcome import Run


class AgentLessons(ToolLessons):
    """Lessons around the tool calls of an agent; they know which of its tools ran."""

    def __init__(self, careful: Careful, **options: Any) -> None:
        """Set up; `careful` says how to go on where memory fails, `options` are `ToolLessons`'."""
        super().__init__(**options, run=_run)
        self.calls, self._careful = Started(), careful

    def _started(self, request: ToolCallRequest, ran: str) -> None:
        if (run := _run(request)) is not None:
            self.calls.note(run.id, request.tool_call["id"], ran)


def _run(request: ToolCallRequest) -> Run | None:
    """The run that a tool call belongs to."""
    noted = noted_in(request.state)
    return None if noted is None else Run(noted["run"])
