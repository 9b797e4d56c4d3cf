"""The verbs by which an agent keeps track of its tasks and goals."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeVar, cast
from uuid import uuid4

from langmem_tiers.core.errors import InvalidInputError, InvalidTypeError
from langmem_tiers.core.memory import MemoryContext
from langmem_tiers.core.tracing import traced
from langmem_tiers.postgres.flow import Flow
from langmem_tiers.remember.new import checked_text
from langmem_tiers.state import flows
from langmem_tiers.state.flows import GOAL, MOST_MESSAGES, TASK, Whose
from langmem_tiers.state.state import Goal, ProgressDelta, ShortTermSnapshot, Task
from langmem_tiers.store.store import TieredStore

S = TypeVar("S")


class PursuingVerbs:
    """What `ShortTermState` knows of an agent's tasks and goals; every verb has an async twin."""

    context: MemoryContext
    _store: TieredStore

    # Tasks

    @traced("tool")
    def start_task(
        self,
        task_type: str,
        *,
        task_id: str | None = None,
        status: str = "in_progress",
        estimated_completion: dt.datetime | str | None = None,
        worker_assigned: str | None = None,
        confidence_so_far: float | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Task:
        """Say that the agent is at something, until it is closed.

        Args:
            task_type: What kind of task.
            task_id: An id of one's own; one that is active stays as it is, so that a retry starts
                nothing twice. A new UUID if not given.
            status: In a word.
            estimated_completion: When it may be done, with a time zone.
            worker_assigned: Who does it.
            confidence_so_far: How sure it is to succeed, in 0…1.
            metadata: Anything else that is JSON.

        Raises:
            InvalidInputError: for what is no task; nothing was stored.
        """
        flow = self._start(
            task_type,
            task_id=task_id,
            status=status,
            estimated_completion=estimated_completion,
            worker_assigned=worker_assigned,
            confidence_so_far=confidence_so_far,
            metadata=metadata,
        )
        return self._store.run(flow)

    @traced("tool")
    async def astart_task(
        self, task_type: str, *, task_id: str | None = None, **fields: Any
    ) -> Task:
        """Say that the agent is at something; see `start_task`."""
        return await self._store.arun(self._start(task_type, task_id=task_id, **fields))

    @traced("tool")
    def update_task(
        self,
        task_id: str,
        *,
        status: str | None = None,
        estimated_completion: dt.datetime | str | None = None,
        worker_assigned: str | None = None,
        confidence_so_far: float | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Task:
        """Change what is given of an active task; metadata is added to what there is.

        Raises:
            InvalidInputError: if the task is not active, or for what is no task.
        """
        flow = self._update(
            task_id,
            status=status,
            estimated_completion=estimated_completion,
            worker_assigned=worker_assigned,
            confidence_so_far=confidence_so_far,
            metadata=metadata,
        )
        return self._store.run(flow)

    @traced("tool")
    async def aupdate_task(self, task_id: str, **fields: Any) -> Task:
        """Change what is given of an active task; see `update_task`."""
        return await self._store.arun(self._update(task_id, **fields))

    @traced("tool")
    def close_task(self, task_id: str, status: str = "completed") -> Task | None:
        """Be done with a task: as it was, with its last status, or None if it was not active."""
        return self._store.run(self._close(flows.close_task, task_id, status))

    @traced("tool")
    async def aclose_task(self, task_id: str, status: str = "completed") -> Task | None:
        """Be done with a task; see `close_task`."""
        return await self._store.arun(self._close(flows.close_task, task_id, status))

    def get_active_tasks(self) -> list[Task]:
        """What the agent is at, in the order in which it was started."""
        return list(self._store.run(self._look(kinds=[TASK])).tasks)

    async def aget_active_tasks(self) -> list[Task]:
        """What the agent is at; see `get_active_tasks`."""
        return list((await self._store.arun(self._look(kinds=[TASK]))).tasks)

    # Goals

    @traced("tool")
    def set_goal(
        self,
        goal_id: str,
        description: str,
        *,
        priority: int = 0,
        constraints: Sequence[str] = (),
        status: str = "active",
    ) -> Goal:
        """Say what the agent is after, until it is closed; said anew, it keeps its progress.

        Args:
            goal_id: An id of one's own.
            description: What is to be reached.
            priority: The goals with the highest come first.
            constraints: What must hold on the way.
            status: In a word.

        Raises:
            InvalidInputError: for what is no goal; nothing was stored.
        """
        flow = self._set_goal(
            goal_id, description, priority=priority, constraints=constraints, status=status
        )
        return self._store.run(flow)

    @traced("tool")
    async def aset_goal(self, goal_id: str, description: str, **fields: Any) -> Goal:
        """Say what the agent is after; see `set_goal`."""
        return await self._store.arun(self._set_goal(goal_id, description, **fields))

    @traced("tool")
    def advance_goal(
        self, goal_id: str, delta: float, reason: str, *, delta_id: str | None = None
    ) -> Goal:
        """Add to a goal's progress, which stays in 0…1.

        Args:
            goal_id: Of a goal that was set.
            delta: How much nearer it came, from -1 to 1. Decimals add up exactly.
            reason: Why.
            delta_id: An id of one's own. A delta of that id counts once, as long as it is among
                the latest 100 of the goal.

        Raises:
            InvalidInputError: if there is no such goal, or for what is no delta.
        """
        return self._store.run(self._advance(goal_id, delta, reason, delta_id=delta_id))

    @traced("tool")
    async def aadvance_goal(self, goal_id: str, delta: float, reason: str, **fields: Any) -> Goal:
        """Add to a goal's progress; see `advance_goal`."""
        return await self._store.arun(self._advance(goal_id, delta, reason, **fields))

    @traced("tool")
    def close_goal(self, goal_id: str, status: str = "completed") -> Goal | None:
        """Be done with a goal: as it was, with its last status, or None if there was none."""
        return self._store.run(self._close(flows.close_goal, goal_id, status))

    @traced("tool")
    async def aclose_goal(self, goal_id: str, status: str = "completed") -> Goal | None:
        """Be done with a goal; see `close_goal`."""
        return await self._store.arun(self._close(flows.close_goal, goal_id, status))

    def get_goals(self) -> list[Goal]:
        """What the agent is after, by priority, the highest first."""
        return list(self._store.run(self._look(kinds=[GOAL])).goals)

    async def aget_goals(self) -> list[Goal]:
        """What the agent is after; see `get_goals`."""
        return list((await self._store.arun(self._look(kinds=[GOAL]))).goals)

    @property
    def _now(self) -> dt.datetime:
        return self._store.flows.now.astimezone(dt.UTC)

    @cached_property
    def _whose(self) -> Whose:
        return Whose.of(self.context, self._store.options.bounds)

    def _look(self, limit: int = 0, kinds: Sequence[str] = ()) -> Flow[ShortTermSnapshot]:
        if isinstance(limit, bool) or not isinstance(limit, int):
            raise InvalidTypeError(f"limit is a whole number, not {type(limit).__name__}")
        if not 0 <= limit <= MOST_MESSAGES:
            raise InvalidInputError(f"limit is {limit}: use a number from 0 to {MOST_MESSAGES}")
        return flows.look(self._whose, self._now, limit=limit, kinds=kinds)

    def _start(
        self,
        task_type: str,
        *,
        task_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        **fields: Any,
    ) -> Flow[Task]:
        task = Task(
            task_id=str(uuid4()) if task_id is None else task_id,
            task_type=task_type,
            created_at=self._now,
            metadata={} if metadata is None else metadata,
            **_task_fields(**fields),
        )
        return flows.start_task(self._whose, task)

    def _update(self, task_id: str, **fields: Any) -> Flow[Task]:
        return flows.update_task(self._whose, task_id, _task_fields(**fields), self._now)

    def _set_goal(
        self,
        goal_id: str,
        description: str,
        *,
        priority: int = 0,
        constraints: Sequence[str] = (),
        status: str = "active",
    ) -> Flow[Goal]:
        goal = Goal(
            goal_id=goal_id,
            description=description,
            priority=priority,
            constraints=cast("tuple[str, ...]", constraints),
            status=status,
        )
        return flows.set_goal(self._whose, goal, self._now)

    def _advance(
        self, goal_id: str, delta: float, reason: str, *, delta_id: str | None = None
    ) -> Flow[Goal]:
        step = ProgressDelta(delta=delta, reason=reason, at=self._now, delta_id=delta_id)
        return flows.advance_goal(self._whose, goal_id, step)

    def _close(
        self, close: Callable[[Whose, str, str], Flow[S]], name: str, status: str
    ) -> Flow[S]:
        return close(self._whose, name, checked_text(status, "status"))


def _task_fields(
    *,
    status: str | None = None,
    estimated_completion: dt.datetime | str | None = None,
    worker_assigned: str | None = None,
    confidence_so_far: float | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Those fields of a task that are given."""
    named = {
        "status": status,
        "estimated_completion": estimated_completion,
        "worker_assigned": worker_assigned,
        "confidence_so_far": confidence_so_far,
        "metadata": metadata,
    }
    return {name: given for name, given in named.items() if given is not None}
