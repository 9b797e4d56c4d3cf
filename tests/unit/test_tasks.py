"""Completed tasks as workflows: what they say, how long they took, each once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, ToolMessage

from langmem_tiers.agent_state.models import Task
from langmem_tiers.agent_state.tasks import (
    NO_TODOS_SEEN,
    STATUSES,
    build_workflow,
    find_newly_completed,
)
from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.graph.messages import todo_steps

NOW = datetime(2026, 3, 2, 10, tzinfo=UTC)


def todo(
    content: str = "Rotate the keys", status: str = "completed", **more: Any
) -> dict[str, Any]:
    return {"content": content, "status": status, **more}


def test_a_workflow_says_what_is_known_and_a_task_took_as_long_as_it_was_active() -> None:
    flow = build_workflow(todo(success=False))
    assert flow is not None
    assert flow["content"] == "Rotate the keys"
    assert flow["metadata"] == {"task_type": None, "success": False, "duration_minutes": None}
    task = Task(
        task_id="1", task_type="publishing", created_at=NOW, status="completed",
        metadata={"steps": ["Render it", "Send it"]},
    )  # fmt: skip
    flow = build_workflow(task, ended=NOW + timedelta(minutes=3, seconds=45))
    assert flow is not None
    assert flow["content"] == "publishing: 1. Render it 2. Send it"
    assert flow["metadata"]["duration_minutes"] == 3.75


def test_what_is_no_todo_is_refused() -> None:
    wrong: Any
    for wrong in (
        *("done", {"content": "x"}, {"status": "completed"}, todo(content=" "), todo(steps="one")),
        *(todo(steps=[1]), todo(duration=-1), todo(duration="long"), todo(duration=float("nan"))),
        *(todo(success="yes"), todo(task_type=3)),
    ):
        with pytest.raises(InvalidInputError):
            build_workflow(wrong)
    assert all(
        build_workflow(todo(status=one)) is None for one in ("pending", "cancelled", "undone")
    )


@pytest.mark.parametrize("status", ["done", "Done", " COMPLETED "])
def test_a_todo_that_is_done_is_completed_however_that_is_written(status: str) -> None:
    assert build_workflow(todo(status=status)) == build_workflow(todo())
    task = Task(task_id="1", task_type="publishing", created_at=NOW, status=status)
    assert build_workflow(task) is not None
    (fresh,), seen = find_newly_completed([todo(status=status)], NO_TODOS_SEEN, NOW)
    assert fresh["content"] == "Rotate the keys"
    assert find_newly_completed([todo()], seen, NOW)[0] == []
    messages = [
        *called("write_todos", 1, todos=[todo(status="In Progress")]),
        *called("look", 2),
        *called("write_todos", 3, todos=[todo(status=status)]),
    ]
    assert len(todo_steps("Rotate the keys", messages)) == 1


LISTS = st.lists(
    st.builds(todo, st.sampled_from("abcd"), st.sampled_from(STATUSES)),
    max_size=4,
    unique_by=lambda one: one["content"],
)


@given(st.lists(LISTS, max_size=8))
def test_whatever_the_lists_a_todo_is_captured_once_for_each_time_it_becomes_completed(
    lists: list[list[dict[str, Any]]],
) -> None:
    seen, before = NO_TODOS_SEEN, set[str]()
    for number, todos in enumerate(lists):
        fresh, seen = find_newly_completed(todos, seen, NOW + timedelta(minutes=number))
        done = {one["content"] for one in todos if one["status"] == "completed"}
        assert {one["content"] for one in fresh} == done - before
        assert len(fresh) == len(done - before)
        before = done
        again, _ = find_newly_completed(todos, seen, NOW)
        assert again == []


def called(name: str, number: int, status: str = "success", **args: Any) -> list[Any]:
    call = {"name": name, "args": args, "id": f"{number}", "type": "tool_call"}
    answer = ToolMessage("answer", tool_call_id=f"{number}", status=status)
    return [AIMessage("", tool_calls=[call]), answer]


def test_steps_are_the_calls_that_worked_while_a_todo_was_in_progress() -> None:
    messages = [
        *called("look", 1),
        *called("write_todos", 2, todos=[todo(status="in_progress"), todo("Other", "pending")]),
        *called("make_key", 3, status="error", kind="rsa"),
        *called("make_key", 4, kind="ed25519"),
        *called("write_todos", 5, todos=[todo(), todo("Other", "in_progress")]),
        *called("swap", 6),
    ]
    assert todo_steps("Other", messages) == ["swap({})"]
    assert todo_steps("Rotate the keys", messages) == ['make_key({"kind": "ed25519"})']
    assert todo_steps("Unknown", messages) == []
