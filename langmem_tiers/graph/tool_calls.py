"""Around the calls of a `ToolNode`: how long they take, lessons, and reminders."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final
from uuid import NAMESPACE_OID, uuid5

from langchain_core.messages import ToolMessage
from langgraph.prebuilt.tool_node import ToolCallRequest

from langmem_tiers.core.checks import checked_flag
from langmem_tiers.core.memory import Recollection
from langmem_tiers.core.prompts import BEFORE_THE_CALL, REMINDED_BEFORE_THE_CALL
from langmem_tiers.graph import messages, node
from langmem_tiers.graph.messages import HELD, RAN, Answer, Handler, approach_of, watched
from langmem_tiers.graph.node import CALLER, Remembering, Scope, Step, asked
from langmem_tiers.graph.recall import DEFAULT_LESSONS, checked_lessons
from langmem_tiers.graph.remind import reminders_text
from langmem_tiers.learn.outcome import Run
from langmem_tiers.learn.signature import signature
from langmem_tiers.memory.coordinator import MemoryCoordinator
from langmem_tiers.postgres.flow import Flow, both
from langmem_tiers.recall.fence import recalled_text

SECONDS = "langmem_tiers_seconds"
"""Where a tool's answer says how long it took, among its `additional_kwargs`."""


class ToolClock:
    """Times the calls of a `ToolNode`, by the store's clock, for the node that tracks them.

    A `ToolNode` is given its two methods, one for `invoke` and one for `ainvoke`.

    Example:
        ```python
        from langgraph.prebuilt import ToolNode
        from langmem_tiers import ToolClock

        clock = ToolClock()
        node = ToolNode(
            tools, wrap_tool_call=clock.wrap_tool_call, awrap_tool_call=clock.awrap_tool_call
        )
        ```
    """

    runner = CALLER

    def _wrap_tool_call(self, request: ToolCallRequest, handler: Handler) -> Flow[Answer]:
        """Run a tool call, and note how long it took."""
        began = _now(request)
        answer = yield from watched(handler, request)
        if not isinstance(answer, ToolMessage):
            return answer
        seconds = max(0.0, (_now(request) - began).total_seconds())
        return messages.noted(answer, {SECONDS: seconds})

    wrap_tool_call, awrap_tool_call = both(_wrap_tool_call)


def seconds_of(answer: ToolMessage) -> float | None:
    """How long the call of an answer took; None if nobody timed it."""
    found = answer.additional_kwargs.get(SECONDS)
    return found if isinstance(found, float) else None


def _now(request: ToolCallRequest) -> datetime:
    return node.tiered(request.runtime.store).flows.now


BY_LESSONS: Final = "lessons"
"""What marks an answer in place of a call that lessons held."""


class ToolLessons(Remembering):
    """Puts lessons beside the errors of a `ToolNode`, and before its calls if that is asked for.

    A `ToolNode` is given its two methods, not the object itself: one for `invoke` and one for
    `ainvoke`.

    Example:
        ```python
        from langgraph.prebuilt import ToolNode
        from langmem_tiers import ToolLessons

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
        hold_repeats: bool = False,
        with_errors: bool = True,
        lessons: int = DEFAULT_LESSONS,
        holdout: float | None = None,
        context: Scope | None = None,
        coordinator: Callable[..., MemoryCoordinator] = MemoryCoordinator,
        run: Callable[[ToolCallRequest], str | Run | None] | None = None,
    ) -> None:
        """Say when lessons are given.

        Args:
            hold_repeats: Do not run a call in just the form in which a lesson says that it failed:
                answer it with that lesson instead, once for each call, so that the model can think
                again; not for a failure that passes by itself. The same call after that runs, as
                does one that has worked in the thread; if it works, it is held by that lesson no
                more, in no thread. None is held where the state has no `messages`, which tell what
                was held before, or where the tool's answer is returned directly.
            with_errors: Put the lessons of a failure before the error that the tool reports.
            lessons: Lessons at most for one call.
            holdout: The share of lessons that a run goes without; see `get_context`. A call
                without a run gets them all.
            context: Whose memory it is, a `MemoryContext` or a mapping with some of its fields:
                `{name}` in one stands for `config["configurable"]["name"]`.
            coordinator: Makes the coordinator from a store and `context`.
            run: The run that a lesson is shown to, of a request; if not given, what the recall
                node noted in the state.
        """
        checked_flag(hold_repeats, "hold_repeats")
        checked_flag(with_errors, "with_errors")
        checked_lessons(lessons, holdout)
        node.checked_helpers(run=run)
        self._whose = node.Remembered(context, coordinator)
        self._hold_repeats, self._with_errors = hold_repeats and lessons > 0, with_errors
        self._lessons, self._holdout = lessons, holdout
        self._run = run or (lambda request: node.of_state(request.state, "recalled_run", None))

    def _started(self, request: ToolCallRequest, ran: str) -> None:
        """Take note of the digest of each call whose tool has run, whatever came of it."""

    def _wrap_tool_call(self, request: ToolCallRequest, handler: Handler) -> Flow[Answer]:
        """Run a tool call, with the lessons there are."""
        before = _made_before(request) if self._hold_repeats else []
        if self._hold_repeats and _may_be_held(request, before):
            call = request.tool_call
            same = {"tools": call["name"], "approach": approach_of(call)}
            if known := (yield from self._found(request, **same)):
                said = BEFORE_THE_CALL.format(lessons=recalled_text((), known))
                return _held(request, said, BY_LESSONS)
        answer = yield from watched(handler, request, partial(self._started, request))
        if not isinstance(answer, ToolMessage) or RAN not in answer.additional_kwargs:
            return answer  # a person, or another in the tool's place, answered it
        if answer.status != "error":
            if before and before[-1].answer.additional_kwargs.get(HELD) == BY_LESSONS:
                yield from self._let_pass(request)
            return answer
        if not self._with_errors:
            return answer
        tool = messages.tool_of(request.tool_call)
        failure = signature(node.text_of(answer), tool=tool)
        return messages.taught(answer, (yield from self._found(request, failures=failure)))

    wrap_tool_call, awrap_tool_call = both(_wrap_tool_call)

    def _found(self, request: ToolCallRequest, **concern: Any) -> Flow[Sequence[Recollection]]:
        """Find the lessons of a call; where memory fails, the call runs without them."""
        step, run = self._step(request.state, request.runtime), self._run(request)
        shown_to: dict[str, Any] = {} if run is None else {"run_id": run, "holdout": self._holdout}
        concern |= {"limit": self._lessons, **shown_to}
        with step.without("lessons of a tool call"):
            return (yield from asked(step.memory.get_lessons, **concern))
        return ()

    def _let_pass(self, request: ToolCallRequest) -> Flow[None]:
        """What was held, and works all the same, is held by these lessons no more."""
        step, call = self._step(request.state, request.runtime), request.tool_call
        with step.without("lessons of a tool call"):
            yield from asked(step.memory.stop_holding, approach_of(call), tool=call["name"])


def _made_before(request: ToolCallRequest) -> list[messages.Called]:
    """The answers in the thread to just this call."""
    approach = approach_of(request.tool_call)
    answered = messages.answered_in(node.messages_of(request.state))
    return [one for one in answered if one.approach == approach]


def _may_be_held(request: ToolCallRequest, before: Sequence[messages.Called]) -> bool:
    """Whether a model will see the lesson, and it can be seen that it was not held before.

    What has worked in the thread since is no mistake any more.
    """
    tool = messages.tool_of(request.tool_call)
    if tool is None or getattr(request.tool, "return_direct", False):
        return False
    return bool(node.messages_of(request.state)) and all(
        one.failed and not one.held for one in before
    )


def _held(request: ToolCallRequest, said: str, by: str) -> ToolMessage:
    """The answer to a call that is not run."""
    call = request.tool_call
    return ToolMessage(
        said,
        name=call["name"],
        tool_call_id=call["id"],
        status="error",
        additional_kwargs={HELD: by},
    )


class ToolReminders(Remembering):
    """Raises what is intended before a tool runs: the call is answered with it, once, and not run.

    The model then thinks again: the same call after that runs, as each reminder is raised at most
    once. A call that is repeated by itself, after a crash, is held again. Where a tool's answer is
    returned directly no model would see it, and nothing is raised.

    Example:
        ```python
        from langgraph.prebuilt import ToolNode
        from langmem_tiers import ToolLessons, ToolReminders

        lessons, reminders = ToolLessons(), ToolReminders()
        node = ToolNode(
            tools,
            wrap_tool_call=lambda request, run: reminders.wrap_tool_call(
                request, lambda held: lessons.wrap_tool_call(held, run)
            ),
        )
        ```
    """

    def __init__(
        self,
        *,
        context: Scope | None = None,
        coordinator: Callable[..., MemoryCoordinator] = MemoryCoordinator,
    ) -> None:
        """Say whose intentions are raised.

        Args:
            context: Whose memory it is, a `MemoryContext` or a mapping with some of its fields:
                `{name}` in one stands for `config["configurable"]["name"]`.
            coordinator: Makes the coordinator from a store and `context`.
        """
        self._whose = node.Remembered(context, coordinator)

    def _wrap_tool_call(self, request: ToolCallRequest, handler: Handler) -> Flow[Answer]:
        """Run a tool call, unless there is a reminder for before it."""
        held = yield from held_by_reminder(request, self._step(request.state, request.runtime))
        return held or (yield from watched(handler, request))

    wrap_tool_call, awrap_tool_call = both(_wrap_tool_call)


def held_by_reminder(request: ToolCallRequest, step: Step) -> Flow[ToolMessage | None]:
    """What a tool call is answered with if there is a reminder for before it; else None.

    Where memory fails, the call runs without any.
    """
    call: Any = request.tool_call
    if getattr(request.tool, "return_direct", False):
        return None
    run = str(uuid5(NAMESPACE_OID, f"{step.run.id} {call['id']}"))
    with step.without("reminders of a tool call"):
        raised = yield from asked(step.memory.remind, tool=call, kinds=["tool"], run_id=run)
        if raised:
            told = reminders_text(raised, zone=step.memory.context.zone)
            return _held(request, REMINDED_BEFORE_THE_CALL.format(reminders=told), "reminders")
    return None
