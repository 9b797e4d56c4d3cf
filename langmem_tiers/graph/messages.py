"""Tool calls in the messages of a run: those that ran, those that failed, and their lessons.

A call that a person rejects, answers or changes has an answer as well, and so has one that a guard
refuses. Their wording does not tell them from a tool's answers. So a watcher notes that a tool
starts, and the answer to its call is marked.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from typing import Any, Final, NamedTuple, TypeAlias

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, BaseMessage, ToolCall, ToolMessage
from langchain_core.messages.utils import convert_to_messages
from langchain_core.tracers.context import register_configure_hook
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command

from langmem_tiers.agent_state.tasks import COMPLETED, IN_PROGRESS, normalise_status
from langmem_tiers.core import checks, errors, memory, settings, texts
from langmem_tiers.core.values import replace_unstorable
from langmem_tiers.graph.runtime import (
    LatestEntries,
    last_question,
    messages_since,
    text_of,
    turn_messages,
)
from langmem_tiers.learning.reflexion import FailedAttempt, TriedCall, find_cure
from langmem_tiers.learning.signature import Signature, signature
from langmem_tiers.postgres.flow import Ask, Flow
from langmem_tiers.recall.prompt_text import recalled_text

RAN_KEY: Final = "langmem_tiers_ran"
"""Key among an answer's `additional_kwargs`: the digest of the call that ran."""
ToolAnswer: TypeAlias = ToolMessage | Command[Any]
Handler: TypeAlias = Callable[[ToolCallRequest], Any]
"""Function that runs a call: it returns the answer, or an awaitable of it if it is awaited."""


class _Watcher(BaseCallbackHandler):
    """Callback that notes the start of a call's tool."""

    run_inline = True

    def __init__(self, call_id: str | None) -> None:
        self._call_id = call_id
        self.started: str | None = None
        """Digest of the call that ran; None if none did."""

    def on_tool_start(self, serialized: dict[str, Any], input_str: str, **options: Any) -> None:
        """Note the tool that starts first; it may call others in its turn."""
        is_own = options.get("tool_call_id", self._call_id) == self._call_id
        if is_own and self.started is None:
            inputs = options.get("inputs")
            args = {"input": input_str} if inputs is None else inputs
            self.started = digest(call_text(str((serialized or {}).get("name")), args))


_watcher: ContextVar[_Watcher | None] = ContextVar("langmem_tiers_watcher", default=None)
register_configure_hook(_watcher, inheritable=False)


def call_text(tool: str, args: Mapping[str, Any]) -> str:
    """Write a tool call as text: the tool with its arguments."""
    arguments = json.dumps(args, ensure_ascii=False, sort_keys=True, default=str)
    return replace_unstorable(f"{tool}({arguments})")


def digest(text: str) -> str:
    """Return a short hash of a call's text."""
    return blake2b(text.encode(), digest_size=8).hexdigest()


def run_tool_call(
    handler: Handler, request: ToolCallRequest, note: Callable[[str], None] = lambda _: None
) -> Flow[ToolAnswer]:
    """Run a tool call, mark its answer if the tool ran, and pass the call's digest to `note`.

    If the call raises, the tool node makes an unmarked answer of the error; `note` is still called.
    """
    call = request.tool_call
    watcher = _Watcher(call["id"])
    token = _watcher.set(watcher)
    try:
        call_it = partial(handler, request)
        answer: ToolAnswer = yield Ask(call_it, call_it)
    finally:
        _watcher.reset(token)
        if watcher.started is not None:
            note(watcher.started)
    ran = watcher.started
    if ran is None and request.tool is None:  # there is no such tool: the model's mistake
        ran = digest(call_text(call["name"], call["args"]))
    return answer if ran is None else _mark_answer(answer, call["id"], ran)


def _mark_answer(answer: Any, call_id: str | None, ran: str) -> Any:
    """Mark the answer to a call, in whatever form it comes."""
    if isinstance(answer, ToolMessage):
        return annotate_answer(answer, {RAN_KEY: ran}) if answer.tool_call_id == call_id else answer
    if isinstance(answer, Command) and isinstance(answer.update, dict):
        update = {
            name: _mark_answer(value, call_id, ran) if isinstance(value, list) else value
            for name, value in answer.update.items()
        }
        return replace(answer, update=update)
    if isinstance(answer, list):
        return [_mark_answer(item, call_id, ran) for item in answer]
    return answer


def annotate_answer(answer: ToolMessage, notes: Mapping[str, Any], **changed: Any) -> ToolMessage:
    """Return a tool's answer with notes among its `additional_kwargs`."""
    kwargs = {**answer.additional_kwargs, **notes}
    return answer.model_copy(update={"additional_kwargs": kwargs, **changed})


UNNAMED_TASK = "a task without a name"
HELD_KEY = "langmem_tiers_held"
"""Key among an answer's `additional_kwargs`: its call was held, and by what."""
FAILED_KEY = "langmem_tiers_failed"
"""Key among an answer's `additional_kwargs`: the caller's function takes it for a failure."""
TAUGHT_KEY = "langmem_tiers_taught"
"""Key among an answer's `additional_kwargs`: the characters of lessons that stand before it."""
_TITLE_LENGTH = 200
"""Characters of a question that name its task."""
WRITE_TODOS: Final = "write_todos"
"""The tool by which LangChain's agents keep their todos."""
_MOST_STEPS: Final = 20
"""Steps that a workflow keeps, the last: our own choice."""
_LONGEST_STEP: Final = 200
"""Characters of a step that are kept: our own choice."""


class AnsweredCall(NamedTuple):
    """A tool call with its answer."""

    call: ToolCall
    answer: ToolMessage
    step: int
    """Index of the message that asked for it: calls of one message know nothing of each other."""

    @property
    def failed(self) -> bool:
        """Tell whether the tool reported an error, or its answer is marked as a failure."""
        judged = self.answer.additional_kwargs.get(FAILED_KEY)
        return self.answer.status == "error" or bool(judged)

    @property
    def held(self) -> bool:
        """Tell whether the call was answered with a lesson or a reminder, and its tool not run."""
        return bool(self.answer.additional_kwargs.get(HELD_KEY))

    @property
    def ran(self) -> bool:
        """Tell whether the tool was seen to run with exactly these arguments."""
        return bool(self.answer.additional_kwargs.get(RAN_KEY) == digest(self.approach))

    @property
    def text(self) -> str:
        """Return the tool's answer as text, without the lessons before it."""
        lessons = self.answer.additional_kwargs.get(TAUGHT_KEY, 0)
        return replace_unstorable(str(self.answer.text)[lessons:].strip())

    @property
    def error(self) -> str:
        """Return the text of the tool's error."""
        return self.text or "the tool reported an error and nothing else"

    @property
    def tool(self) -> str | None:
        """Return the name of the tool; None if no lesson can be about it."""
        return tool_of(self.call)

    @property
    def approach(self) -> str:
        """Return the call as text: the tool with its arguments."""
        return text_of_call(self.call)


def text_of_call(call: ToolCall) -> str:
    """Write a tool call as text: the tool with its arguments."""
    return call_text(call["name"], call["args"])


DidRun = Callable[[AnsweredCall], bool]
"""Function that tells whether an answered call ran."""


def did_run_by_marks(messages: Sequence[BaseMessage]) -> DidRun:
    """Return a function that tells from the answers which calls ran.

    A wrapper of the tool node marks the answers of the calls that ran. If one answer is marked,
    the marked ones ran; else all ran whose answer does not say that the call was held.
    """
    if any(RAN_KEY in message.additional_kwargs for message in messages):
        return lambda call: call.ran
    return lambda call: not call.held


StartedCalls = LatestEntries[tuple[str | None, str | None], str]
"""Digests of calls that ran in this process, by run and call. An answer that a tool node makes of
an error has no mark. After a restart none is known: a call without a mark counts as not run."""


def did_run_by_watching(started: StartedCalls, run: str | None) -> DidRun:
    """Return a function that tells which watched calls ran: those marked, those seen to start."""
    return lambda call: call.ran or started.get((run, call.call["id"])) == digest(call.approach)


FailureTest = Callable[[ToolMessage], bool]
"""Function that tells whether a tool's answer reports a failure, whatever its status."""


def mark_failures(messages: Sequence[Any], failed: FailureTest | None) -> list[BaseMessage]:
    """Return the messages; those answers of tools are marked that `failed` takes for a failure.

    Raises:
        InvalidTypeError: if `failed` returns neither True nor False.
    """
    converted = convert_to_messages(messages)
    for place, message in enumerate(converted):
        if failed is None or not isinstance(message, ToolMessage):
            continue
        if not isinstance(is_failure := failed(message), bool):
            raise errors.InvalidTypeError(
                f"failed returns True or False, not {errors.short(is_failure)}"
            )
        converted[place] = annotate_answer(message, {FAILED_KEY: is_failure})
    return converted


def failed_attempts(messages: Sequence[Any], ran: DidRun | None = None) -> list[FailedAttempt]:
    """Return each tool call that failed since the last human message, with its cure, if known.

    `find_cure` finds the later call that worked. The task is what the human asked for. A call that
    did not run has not failed: somebody rejected it, or answered it in the tool's place.
    """
    converted = convert_to_messages(messages)
    calls, attempts = turn_calls(converted, ran), list[FailedAttempt]()
    tried = [
        TriedCall(
            call.call["name"], call.call["args"], call.error if call.failed else None, call.step
        )
        for call in calls
    ]
    for place, call in enumerate(calls):
        if call.failed and call.call["name"] not in settings.BOOKKEEPING:
            cure = find_cure(place, tried)
            with_ = None if cure is None else calls[cure].approach
            fields: Any = {"approach": call.approach, "error": call.error, "tool": call.tool}
            attempts.append(
                FailedAttempt(task_id=task_of(converted), succeeded_with=with_, **fields)
            )
    return attempts


def executed_calls(
    messages: Sequence[BaseMessage], ran: DidRun | None = None
) -> Iterator[AnsweredCall]:
    """Find the calls that ran, as the messages or `ran` tell, in the order of their answers."""
    return filter(ran or did_run_by_marks(messages), answered_calls(messages))


def turn_calls(messages: Sequence[BaseMessage], ran: DidRun | None = None) -> list[AnsweredCall]:
    """Find the calls that ran since the last human message, in the order of their answers."""
    return [*executed_calls(turn_messages(messages), ran or did_run_by_marks(messages))]


def answered_calls(messages: Sequence[BaseMessage]) -> Iterator[AnsweredCall]:
    """Find the tool calls that were answered, in the order of their answers; some did not run."""
    requests: dict[str | None, tuple[ToolCall, int]] = {}
    for step, message in enumerate(messages):
        if isinstance(message, AIMessage):
            requests |= {call["id"]: (call, step) for call in message.tool_calls}
        elif isinstance(message, ToolMessage) and message.tool_call_id in requests:
            call, asked_at = requests[message.tool_call_id]
            yield AnsweredCall(call, message, asked_at)


def open_failures(messages: Sequence[BaseMessage]) -> list[Signature]:
    """Return this turn's failures whose tool has not worked since, newest first."""
    worked: set[str] = set()
    failures: dict[Signature, None] = {}
    for call in reversed(turn_calls(messages)):
        if not call.failed:
            worked.add(call.call["name"])
        elif call.call["name"] not in worked:
            failures[signature(call.text, tool=call.tool)] = None
    return list(failures)


def last_failure(messages: Sequence[BaseMessage]) -> Signature | None:
    """Return the last failure since the last human message, whatever has worked since."""
    failed = (call for call in reversed(turn_calls(messages)) if call.failed)
    return next((signature(call.text, tool=call.tool) for call in failed), None)


def pending_calls(messages: Sequence[BaseMessage]) -> list[ToolCall]:
    """Return the tool calls of the last message."""
    last = messages[-1] if messages else None
    return list(last.tool_calls) if isinstance(last, AIMessage) else []


def tool_of(call: ToolCall) -> str | None:
    """Return the tool of a call; None if no lesson can be about it: a model may call any name."""
    tool = call["name"]
    named = (
        tool == replace_unstorable(tool) and 0 < len(tool.encode()) <= checks.MAX_NAMESPACE_BYTES
    )
    return tool if named else None


def outcome_texts(messages: Sequence[BaseMessage]) -> dict[str, str]:
    """Return the last question, and the answers and calls since; empty if there are none.

    They are options of `learning.record_outcome`.
    """
    turn = [message for message in turn_messages(messages) if isinstance(message, AIMessage)]
    parts = [text_of(message) for message in turn]
    parts += [text_of_call(call) for message in turn for call in message.tool_calls]
    answer = replace_unstorable("\n".join(filter(None, parts)))
    question = replace_unstorable(text_of(last_question(messages)))
    return {"question": question, "answer": answer} if answer else {}


def task_of(messages: Sequence[BaseMessage]) -> str:
    """Return the text of the last human message, shortened to a title."""
    question = " ".join(text_of(last_question(messages)).split())
    return replace_unstorable(question[:_TITLE_LENGTH]) or UNNAMED_TASK


def todo_steps(content: str, messages: Sequence[BaseMessage]) -> list[str]:
    """Return the tool calls that worked since `write_todos` put a todo in progress, as texts."""
    steps: list[str] = []
    status = None
    for call in executed_calls(messages):
        if call.call["name"] == WRITE_TODOS:
            before, status = status, _todo_status(call.call["args"], content)
            if status == IN_PROGRESS != before:
                steps = []
        elif status == IN_PROGRESS and not call.failed:
            steps.append(texts.shorten_line(call.approach, _LONGEST_STEP))
    return steps[-_MOST_STEPS:] if status in {IN_PROGRESS, COMPLETED} else []


def _todo_status(args: Mapping[str, Any], content: str) -> str | None:
    """Return the status that a call of `write_todos` gives a todo; None if it gives none."""
    todos = args.get("todos")
    entries = (
        [entry for entry in todos if isinstance(entry, Mapping)] if isinstance(todos, list) else []
    )
    status = next(
        (entry.get("status") for entry in entries if entry.get("content") == content), None
    )
    return normalise_status(status) if isinstance(status, str) else None


_LESSONS_KEY: Final = "langmem_tiers_lessons"
"""Key among an answer's `additional_kwargs`: the keys of the lessons that stand before it."""


def untaught_failures(messages: Sequence[BaseMessage], ran: DidRun) -> list[AnsweredCall]:
    """Find the calls that ran and failed since the model's last message and have no lessons yet."""
    latest = messages_since(messages, lambda message: isinstance(message, AIMessage))
    return [
        call
        for call in answered_calls(latest)
        if call.failed and ran(call) and TAUGHT_KEY not in call.answer.additional_kwargs
    ]


def taught_keys(messages: Sequence[BaseMessage]) -> set[str]:
    """Return the keys of the lessons that stand before answers of this turn."""
    key_lists = (
        message.additional_kwargs.get(_LESSONS_KEY, ()) for message in turn_messages(messages)
    )
    return {key for keys in key_lists for key in keys}


def prepend_lessons(error: ToolMessage, lessons: Sequence[memory.Recollection]) -> ToolMessage:
    """Return the error with the lessons before it."""
    if not lessons:
        return error
    text = f"{recalled_text((), lessons)}\n"
    block = {"type": "text", "text": text}
    content = (
        f"{text}{error.content}" if isinstance(error.content, str) else [block, *error.content]
    )
    notes = {TAUGHT_KEY: len(text), _LESSONS_KEY: [lesson.key for lesson in lessons]}
    return annotate_answer(error, notes, content=content)


def add_lessons(
    messages: Sequence[Any], lessons: Mapping[str | None, Sequence[memory.Recollection]]
) -> list[Any]:
    """Return the messages with lessons before the answers that they belong to, by id."""
    return [
        prepend_lessons(message, lessons.get(message.id, ()))
        if isinstance(message, ToolMessage)
        else message
        for message in messages
    ]
