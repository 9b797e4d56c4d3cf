"""Lessons around a tool call: before it runs, and with its error when it fails."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from langchain_core.messages import ToolMessage

from langmem_tiers.core.errors import DatabaseError, InvalidTypeError, MissingExtraError, short
from langmem_tiers.core.memory import Recollection
from langmem_tiers.core.prompts import BEFORE_THE_CALL
from langmem_tiers.graph.attempts import HELD, answered_in, approach_of, messages_of, tool_of
from langmem_tiers.graph.node import (
    DEFAULT_LESSONS,
    Remembered,
    at_once,
    awaitable,
    blocking,
    checked_lessons,
    of_state,
    text_of,
)
from langmem_tiers.learn.outcome import Run
from langmem_tiers.learn.signature import signature
from langmem_tiers.memory.coordinator import MemoryCoordinator
from langmem_tiers.recall.recalled import recalled_text

try:
    from langgraph.prebuilt.tool_node import ToolCallRequest
    from langgraph.types import Command
except ImportError as error:
    raise MissingExtraError(
        "lessons around tool calls need LangGraph: pip install 'langmem-tiers[langgraph]'"
    ) from error

Answer = ToolMessage | Command[Any]

_log = logging.getLogger(__name__)


class ToolLessons:
    """Puts lessons before the calls of a `ToolNode` that failed before, and beside their errors.

    A `ToolNode` is given its two methods, not the object itself: one for `invoke` and one for
    `ainvoke`.

    Example:
        ```python
        from langgraph.prebuilt import ToolNode
        from langmem_tiers.graph.tool_lessons import ToolLessons

        lessons = ToolLessons()
        node = ToolNode(
            tools,
            wrap_tool_call=lessons.wrap_tool_call,
            awrap_tool_call=lessons.awrap_tool_call,
        )
        ```
    """

    def __init__(
        self,
        *,
        hold_repeats: bool = True,
        with_errors: bool = True,
        lessons: int = DEFAULT_LESSONS,
        holdout: float = 0.0,
        tenant: str | None = None,
        project_id: str | None = None,
        session_id: str | None = None,
        coordinator: Callable[..., MemoryCoordinator] = MemoryCoordinator,
        run: Callable[[ToolCallRequest], str | Run | None] | None = None,
    ) -> None:
        """Say when lessons are given.

        Args:
            hold_repeats: Do not run a call that failed before in just this form: answer it with
                the lesson instead, once for each call, so that the model can think again: if the
                lesson is a retry of it, or advice, and the failure not one that passes. The same
                call after that runs, as does one that has worked in the thread. None is held
                where the state has no `messages`, which tell what was held before, or where the
                tool's answer is returned directly.
            with_errors: Put the lessons of a failure before the error that the tool reports.
            lessons: Lessons at most for one call.
            holdout: The share of lessons that a run goes without; see `get_context`. A call
                without a run gets them all.
            tenant: A label, in which `{name}` stands for `config["configurable"]["name"]`.
            project_id: Likewise.
            session_id: Likewise.
            coordinator: Makes the coordinator from a store and `context`.
            run: The run that a lesson is shown to, of a request; if not given, what the recall
                node noted in the state.
        """
        for what, given in {"hold_repeats": hold_repeats, "with_errors": with_errors}.items():
            if not isinstance(given, bool):
                raise InvalidTypeError(f"{what} is True or False, not {short(given)}")
        checked_lessons(lessons, holdout)
        self._whose = Remembered(
            tenant=tenant, project_id=project_id, session_id=session_id, coordinator=coordinator
        )
        self._hold_repeats, self._with_errors = hold_repeats and lessons > 0, with_errors
        self._lessons, self._holdout = lessons, holdout
        self._run = run or (lambda request: of_state(request.state, "recalled_run", None))

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Answer]
    ) -> Answer:
        """Run a tool call, with the lessons there are."""
        return at_once(
            self._called(request, awaitable(handler), lambda: blocking(self._memory(request)))
        )

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Answer]]
    ) -> Answer:
        """Run a tool call, with the lessons there are."""
        return await self._called(request, handler, lambda: self._memory(request))

    async def _called(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], Awaitable[Answer]],
        memory: Callable[[], MemoryCoordinator],
    ) -> Answer:
        if self._hold_repeats and _may_be_held(request):
            approach = approach_of(request.tool_call)
            tool = request.tool_call["name"]
            if known := await self._found(memory(), request, tools=tool, approach=approach):
                return _held(request, known)
        answer = await handler(request)
        if not (self._with_errors and isinstance(answer, ToolMessage) and answer.status == "error"):
            return answer
        failure = signature(text_of(answer), tool=tool_of(request.tool_call))
        return _taught(answer, await self._found(memory(), request, failures=failure))

    def _memory(self, request: ToolCallRequest) -> MemoryCoordinator:
        return self._whose.memory(request.runtime, request.runtime.config)

    async def _found(
        self, memory: MemoryCoordinator, request: ToolCallRequest, **concern: Any
    ) -> Sequence[Recollection]:
        """Lessons stand beside a call: where Postgres refuses them, it runs all the same."""
        run = self._run(request)
        shown_to: dict[str, Any] = {} if run is None else {"run_id": run, "holdout": self._holdout}
        try:
            return await memory.aget_lessons(**concern, limit=self._lessons, **shown_to)
        except DatabaseError as error:
            _log.warning("a tool call runs without its lessons: %s", error)
            return ()


def _may_be_held(request: ToolCallRequest) -> bool:
    """Whether a model will see the lesson, and it can be seen that it was not held before.

    What has worked in the thread since is no mistake any more.
    """
    if tool_of(request.tool_call) is None or getattr(request.tool, "return_direct", False):
        return False
    messages = messages_of(request.state)
    approach = approach_of(request.tool_call)
    return bool(messages) and not any(
        one.approach == approach and (one.held or not one.failed) for one in answered_in(messages)
    )


def _held(request: ToolCallRequest, same: Sequence[Recollection]) -> ToolMessage:
    """The answer to a call that failed before in just this form."""
    call = request.tool_call
    said = BEFORE_THE_CALL.format(lessons=recalled_text((), same))
    return ToolMessage(
        said,
        name=call["name"],
        tool_call_id=call["id"],
        status="error",
        additional_kwargs={HELD: True},
    )


def _taught(error: ToolMessage, found: Sequence[Recollection]) -> ToolMessage:
    """The error, with the lessons before it."""
    if not found:
        return error
    lessons = f"{recalled_text((), found)}\n"
    if isinstance(error.content, str):
        return error.model_copy(update={"content": f"{lessons}{error.content}"})
    block = {"type": "text", "text": lessons}
    return error.model_copy(update={"content": [block, *error.content]})
