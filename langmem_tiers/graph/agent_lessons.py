"""Lessons around the tool calls of an agent, which knows of each call whether its tool ran."""

from __future__ import annotations

from typing import Any

from langmem_tiers.graph.extra import ToolCallRequest
from langmem_tiers.graph.node import Careful
from langmem_tiers.graph.ran import Started
from langmem_tiers.graph.shown import noted_in
from langmem_tiers.graph.tool_calls import ToolLessons
from langmem_tiers.learn.outcome import Run


class AgentLessons(ToolLessons):
    """Lessons around the calls of an agent, which know of each whether its tool ran."""

    def __init__(self, careful: Careful, **options: Any) -> None:
        """Go on as `careful` says where memory fails; `options` are those of `ToolLessons`."""
        super().__init__(**options, run=_run)
        self.calls, self._careful = Started(), careful

    def _started(self, request: ToolCallRequest, ran: str) -> None:
        if (run := _run(request)) is not None:
            self.calls.note(run.id, request.tool_call["id"], ran)


def _run(request: ToolCallRequest) -> Run | None:
    """The run that a tool call belongs to."""
    noted = noted_in(request.state)
    return None if noted is None else Run(noted["run"])
