"""How a todo was done: the tool calls that worked while it was in progress."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from langchain_core.messages import BaseMessage

from langmem_tiers.graph.attempts import calls_in
from langmem_tiers.state.tasks import COMPLETED, IN_PROGRESS

WRITE_TODOS: Final = "write_todos"
"""The tool by which LangChain's agents keep their todos."""
_MOST_STEPS: Final = 20
"""Steps that a workflow keeps, the last: our own choice."""
_LONGEST_STEP: Final = 200
"""Characters of a step that are kept: our own choice."""


def steps_of(content: str, messages: Sequence[BaseMessage]) -> list[str]:
    """The tool calls that worked since `write_todos` put a todo in progress."""
    steps: list[str] = []
    status = None
    for one in calls_in(messages):
        if one.call["name"] == WRITE_TODOS:
            before, status = status, _status(one.call["args"], content)
            if status == IN_PROGRESS != before:
                steps = []
        elif status == IN_PROGRESS and not one.failed:
            steps.append(_shortened(one.approach))
    return steps[-_MOST_STEPS:] if status in {IN_PROGRESS, COMPLETED} else []


def _status(args: Mapping[str, Any], content: str) -> str | None:
    """What a call of `write_todos` says of a todo."""
    todos = args.get("todos")
    known = [one for one in todos if isinstance(one, Mapping)] if isinstance(todos, list) else []
    return next((one.get("status") for one in known if one.get("content") == content), None)


def _shortened(step: str) -> str:
    line = " ".join(step.split())
    return line if len(line) <= _LONGEST_STEP else f"{line[: _LONGEST_STEP - 1]}…"
