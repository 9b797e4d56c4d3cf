"""Workflows: completed tasks and todos as procedural memories."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from langmem_tiers.agent_state.models import Task
from langmem_tiers.core.checks import checked_flag, checked_label, checked_list, checked_number
from langmem_tiers.core.errors import InvalidInputError, InvalidTypeError, short
from langmem_tiers.remember.new_memory import checked_text

COMPLETED: Final = "completed"
IN_PROGRESS: Final = "in_progress"
STATUSES: Final = ("pending", IN_PROGRESS, COMPLETED)
"""Statuses of a list's todos; a task may have others."""
_DONE: Final = "done"
"""Another word for completed."""


def normalise_status(text: str) -> str:
    """Return a status as it is compared: in small letters, its words joined by `_`."""
    status = "_".join(text.replace("-", " ").replace("_", " ").casefold().split())
    return COMPLETED if status == _DONE else status


def build_workflow(
    todo: Mapping[str, Any] | Task, *, ended: datetime | None = None
) -> dict[str, Any] | None:
    """Return the workflow of a todo or task, as arguments of a memory; None if not completed.

    Args:
        todo: With `content` (or `task_type`) and `status`; `steps`, `task_type`, `success` and
            `duration`, in minutes, if they are known.
        ended: Moment at which a task of `memory.state` ended.

    Raises:
        InvalidInputError: if it is no todo.
    """
    if isinstance(todo, Task):
        lasted = None if ended is None else minutes_between(todo.created_at, ended)
        own = {"task_type": todo.task_type, "status": todo.status}
        fields: Mapping[str, Any] = {"duration": lasted, **todo.metadata, **own}
    else:
        fields = _check_todo(todo)
    if normalise_status(fields["status"]) != COMPLETED:
        return None
    kind = checked_label(fields.get("task_type"), "task_type")
    content = fields.get("content") or kind
    raw_steps = checked_list(fields.get("steps") or (), "steps", "texts")
    steps = [checked_text(step, "a step").strip() for step in raw_steps]
    numbered = " ".join(f"{number}. {step}" for number, step in enumerate(steps, 1))
    head = checked_text(content, "the content of a todo").strip()
    if (minutes := fields.get("duration")) is not None:
        checked_number(minutes, "duration", 0, sys.float_info.max, use="minutes, 0 or more")
    metadata = {
        "task_type": kind,
        "success": checked_flag(fields.get("success", True), "success"),
        "duration_minutes": minutes,
    }
    whole = f"{head.rstrip('.:')}: {numbered}" if numbered else head
    return {"content": whole, "memory_type": "procedural", "metadata": metadata}


def minutes_between(began: datetime, ended: datetime) -> float:
    """Return the minutes between two moments, to a hundredth; 0 if they would be negative."""
    return max(0.0, round((ended - began).total_seconds() / 60, 2))


NO_TODOS_SEEN: Final[Mapping[str, Any]] = {"began": {}, "noted": []}
"""Progress of a list of todos before its first look: `began` says since when each is in progress,
`noted` which were returned as completed."""


def find_newly_completed(
    todos: Iterable[Mapping[str, Any]], seen: Mapping[str, Any], now: datetime
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the completed todos that were not noted, and the progress seen by now.

    A todo has its duration if its start was seen. A todo that leaves the list, or is taken up
    again, is new when it is completed the next time.

    Raises:
        InvalidInputError: if a todo is none.
    """
    todos_by_name = {_todo_name(todo): todo for todo in map(_check_todo, todos)}
    began = {
        name: seen["began"].get(name) or now.isoformat()
        for name, todo in todos_by_name.items()
        if todo["status"] == IN_PROGRESS or (todo["status"] == COMPLETED and name in seen["began"])
    }
    done = [name for name, todo in todos_by_name.items() if todo["status"] == COMPLETED]
    new = [name for name in done if name not in seen["noted"]]
    fresh = [_add_duration(todos_by_name[name], began.get(name), now) for name in new]
    return fresh, {"began": began, "noted": done}


def _add_duration(todo: Mapping[str, Any], began: str | None, now: datetime) -> dict[str, Any]:
    if began is None or todo.get("duration") is not None:
        return dict(todo)
    return {**todo, "duration": minutes_between(datetime.fromisoformat(began), now)}


def _todo_name(todo: Mapping[str, Any]) -> str:
    return str(todo.get("id") or todo["content"])


def _check_todo(todo: object) -> Mapping[str, Any]:
    if not isinstance(todo, Mapping):
        raise InvalidTypeError(f"a todo is a mapping or a Task, not {type(todo).__name__}")
    if not isinstance(todo.get("status"), str):
        raise InvalidInputError(
            f"a todo has a status, such as {', '.join(STATUSES)}: {short(dict(todo))}"
        )
    checked_text(todo.get("content"), "the content of a todo")
    return {**todo, "status": normalise_status(todo["status"])}
