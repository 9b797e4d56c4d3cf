"""The verbs by which somebody teaches a coordinator: what worked, and what a failure taught."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from langmem_tiers.core.memory import MemoryContext, StoreResult
from langmem_tiers.core.tracing import traced
from langmem_tiers.learn.reflexion import Reflexion, pattern
from langmem_tiers.learn.signature import Signature, signature
from langmem_tiers.memory.flows import MemoryFlows
from langmem_tiers.memory.learning import Failure
from langmem_tiers.postgres.flow import Flow
from langmem_tiers.remember.new import NewMemory, normalised_tags
from langmem_tiers.store.store import TieredStore


class TeachingVerbs:
    """What `MemoryCoordinator` is taught; every verb has an async twin."""

    context: MemoryContext
    _store: TieredStore
    _flows: MemoryFlows

    @traced("tool")
    def store_pattern(
        self,
        content: str,
        *,
        tags: Iterable[str] = (),
        project_id: str | None = None,
        source_task: str | None = None,
        source: str = "user",
    ) -> StoreResult:
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
        return self._store.run(self._pattern(content, tags, project_id, source_task, source))

    @traced("tool")
    async def astore_pattern(
        self,
        content: str,
        *,
        tags: Iterable[str] = (),
        project_id: str | None = None,
        source_task: str | None = None,
        source: str = "user",
    ) -> StoreResult:
        """Remember what worked; see `store_pattern`."""
        return await self._store.arun(self._pattern(content, tags, project_id, source_task, source))

    @traced("tool")
    def store_reflexion(
        self,
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
    ) -> StoreResult:
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
        given = (task_id, original_approach, failure_reason, improved_approach)
        failed = _signed(failure, failure_reason, tool)
        return self._store.run(self._lesson(given, tags, project_id, failed, source))

    @traced("tool")
    async def astore_reflexion(
        self,
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
    ) -> StoreResult:
        """Remember what a failure taught; see `store_reflexion`."""
        given = (task_id, original_approach, failure_reason, improved_approach)
        failed = _signed(failure, failure_reason, tool)
        return await self._store.arun(self._lesson(given, tags, project_id, failed, source))

    def _pattern(
        self,
        content: str,
        tags: Iterable[str],
        project_id: str | None,
        source_task: str | None,
        source: str,
    ) -> Flow[StoreResult]:
        where = self._where(project_id)
        one = pattern(content, context=where, tags=tags, source_task=source_task)
        return self._admitted(replace(one, source=source), where)

    def _lesson(
        self,
        given: tuple[str, str, str, str],
        tags: Iterable[str],
        project_id: str | None,
        failure: Signature | None,
        source: str,
    ) -> Flow[StoreResult]:
        task_id, original_approach, failure_reason, improved_approach = given
        where = self._where(project_id)
        lesson = Reflexion(
            task_id=task_id,
            original_approach=original_approach,
            failure_reason=failure_reason,
            improved_approach=improved_approach,
            tags=tuple(normalised_tags(tags)),
            failure=failure,
        )
        return self._admitted(replace(lesson.to_memory(where), source=source), where)

    def _admitted(self, one: NewMemory, where: MemoryContext) -> Flow[StoreResult]:
        (result,) = yield from self._flows.admit([one], where)
        return result

    def _where(self, project_id: str | None) -> MemoryContext:
        return self.context if project_id is None else replace(self.context, project_id=project_id)


def _signed(failure: Failure | None, reason: str, tool: str | None) -> Signature | None:
    if isinstance(failure, Signature):
        return failure
    if failure is None and tool is None:
        return None
    return signature(reason if failure is None else failure, tool=tool)
