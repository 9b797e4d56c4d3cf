"""Lessons around a tool call: before it runs, and with its error when it fails."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

from langchain_core.messages import ToolMessage

from langmem_tiers.attempts import HELD, answered_in, approach_of, messages_of
from langmem_tiers.coordinator import MemoryCoordinator
from langmem_tiers.errors import DatabaseError, InvalidTypeError, MissingExtraError
from langmem_tiers.learn.outcome import Run
from langmem_tiers.learn.signature import signature
from langmem_tiers.memory import Recollection
from langmem_tiers.prompts import BEFORE_THE_CALL
from langmem_tiers.recalled import recalled_text
from langmem_tiers.runs import DEFAULT_LESSONS, Remembered, checked_lessons, text_of

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
    """Puts lessons before the calls of a `ToolNode`, and beside their errors.

    A `ToolNode` is given its two methods, not the object itself: one for `invoke` and one for
    `ainvoke`.

    Example:
        ```python
        from langgraph.prebuilt import ToolNode
        from langmem_tiers.tool_lessons import ToolLessons

        lessons = ToolLessons(hold_repeats=True)
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
        hold_repeats: bool = False,
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
                the lesson instead, once for each call, so that the model can think again. The
                same call after that runs. None is held where the state has no `messages`, which
                tell what was held before.
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
                raise InvalidTypeError(f"{what} is True or False, not {given!r:.80}")
        checked_lessons(lessons, holdout)
        scope = {"tenant": tenant, "project_id": project_id, "session_id": session_id}
        self._whose = Remembered(scope=scope, coordinator=coordinator)
        self._hold_repeats, self._with_errors = hold_repeats, with_errors
        self._lessons, self._holdout = lessons, holdout
        self._run = run or _noted_run

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Answer]
    ) -> Answer:
        """Run a tool call, with the lessons there are."""
        known: Sequence[Recollection] = ()
        if self._hold_repeats and _may_be_held(request):
            memory = self._memory(request)
            with _aside():
                known = memory.get_lessons(**self._before(request))
        if known:
            return _held(request, known)
        answer = handler(request)
        if self._with_errors and _failed(answer):
            memory = self._memory(request)
            with _aside():
                known = memory.get_lessons(**self._after(request, answer))
        return _taught(answer, known)

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Answer]]
    ) -> Answer:
        """Run a tool call, with the lessons there are."""
        known: Sequence[Recollection] = ()
        if self._hold_repeats and _may_be_held(request):
            memory = self._memory(request)
            with _aside():
                known = await memory.aget_lessons(**self._before(request))
        if known:
            return _held(request, known)
        answer = await handler(request)
        if self._with_errors and _failed(answer):
            memory = self._memory(request)
            with _aside():
                known = await memory.aget_lessons(**self._after(request, answer))
        return _taught(answer, known)

    def _memory(self, request: ToolCallRequest) -> MemoryCoordinator:
        return self._whose.memory(request.runtime, request.runtime.config)

    def _before(self, request: ToolCallRequest) -> dict[str, Any]:
        approach = approach_of(request.tool_call)
        return {
            "tools": request.tool_call["name"],
            "approach": approach,
            **self._shown_to(request),
        }

    def _after(self, request: ToolCallRequest, answer: Any) -> dict[str, Any]:
        failed = signature(text_of(answer), tool=request.tool_call["name"])
        return {"failures": failed, **self._shown_to(request)}

    def _shown_to(self, request: ToolCallRequest) -> dict[str, Any]:
        run = self._run(request)
        held_out = {} if run is None else {"run_id": run, "holdout": self._holdout}
        return {"limit": self._lessons, **held_out}


@contextmanager
def _aside() -> Iterator[None]:
    """Lessons stand beside a call: where Postgres refuses them, the call runs all the same."""
    try:
        yield
    except DatabaseError as error:
        _log.warning("a tool call runs without its lessons: %s", error)


def _noted_run(request: ToolCallRequest) -> str | None:
    state = request.state
    if isinstance(state, Mapping):
        found = state.get("recalled_run")
    else:
        found = getattr(state, "recalled_run", None)
    return None if found is None else str(found)


def _failed(answer: Answer) -> bool:
    return isinstance(answer, ToolMessage) and answer.status == "error"


def _may_be_held(request: ToolCallRequest) -> bool:
    """Whether it can be seen that this call was not held before."""
    messages = messages_of(request.state)
    approach = approach_of(request.tool_call)
    return bool(messages) and not any(
        one.held and one.approach == approach for one in answered_in(messages)
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


def _taught(answer: Answer, found: Sequence[Recollection]) -> Answer:
    """The error, with the lessons before it."""
    message: Any = answer
    if not found:
        return answer
    lessons = recalled_text((), found)
    if isinstance(message.content, str):
        message = message.model_copy(update={"content": f"{lessons}\n{message.content}"})
        return cast("ToolMessage", message)
    block = {"type": "text", "text": f"{lessons}\n"}
    message = message.model_copy(update={"content": [block, *message.content]})
    return cast("ToolMessage", message)
