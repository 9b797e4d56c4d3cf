"""The verbs by which somebody teaches a coordinator: what worked, and what a failure taught."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from langmem_tiers.core.memory import MemoryContext, StoreResult
from langmem_tiers.learn.reflexion import Reflexion, pattern
from langmem_tiers.learn.signature import Signature, signature
from langmem_tiers.memory.base import Memory
from langmem_tiers.memory.learning import Failure
from langmem_tiers.postgres.flow import Flow
from langmem_tiers.remember.new import NewMemory, normalised_tags


def store_pattern(
    memory: Memory,
    content: str,
    *,
    tags: Iterable[str] = (),
    project_id: str | None = None,
    source_task: str | None = None,
    source: str = "user",
) -> Flow[StoreResult]:
    """Remember what worked, unless the gate refuses it; the same is stored once.

    Args:
        content: What worked.
        tags: Stored in lower case, words joined by hyphens.
        project_id: The context's if not given.
        source_task: The task it comes from.
        source: Who says so; see `store`.

    Raises:
        InvalidInputError: for what cannot be stored; nothing was.
    """
    where = _where(memory, project_id)
    one = pattern(content, context=where, tags=tags, source_task=source_task)
    return _admitted(memory, replace(one, source=source), where)


def store_reflexion(
    memory: Memory,
    *,
    task_id: str,
    original_approach: str,
    failure_reason: str,
    improved_approach: str,
    tags: Iterable[str] = (),
    project_id: str | None = None,
    failure: Failure | None = None,
    tool: str | None = None,
    source: str = "user",
) -> Flow[StoreResult]:
    """Remember what a failure taught, unless the gate refuses it; the same is stored once.

    Args:
        task_id: The task that failed.
        original_approach: What was tried.
        failure_reason: Why it failed.
        improved_approach: What to do instead.
        tags: Stored in lower case, words joined by hyphens.
        project_id: The context's if not given.
        failure: What failed: the exception or the text of its error. The same failure in the
            same tool recalls this lesson first (see `get_lessons`).
        tool: The tool that failed.
        source: Who says so; see `store`.

    Raises:
        InvalidInputError: for a field that is empty; nothing was stored.
    """
    where = _where(memory, project_id)
    lesson = Reflexion(
        task_id=task_id,
        original_approach=original_approach,
        failure_reason=failure_reason,
        improved_approach=improved_approach,
        tags=tuple(normalised_tags(tags)),
        failure=_signed(failure, failure_reason, tool),
    )
    return _admitted(memory, replace(lesson.to_memory(where), source=source), where)


def _admitted(memory: Memory, one: NewMemory, where: MemoryContext) -> Flow[StoreResult]:
    (result,) = yield from memory.flows.admit([one], where)
    return result


def _where(memory: Memory, project_id: str | None) -> MemoryContext:
    return memory.context if project_id is None else replace(memory.context, project_id=project_id)


def _signed(failure: Failure | None, reason: str, tool: str | None) -> Signature | None:
    if isinstance(failure, Signature):
        return failure
    if failure is None and tool is None:
        return None
    return signature(reason if failure is None else failure, tool=tool)
