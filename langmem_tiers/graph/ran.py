"""Finding which tool calls ran: a tool is seen to start, and the answer to its call is marked.

A call that a person rejects, answers or changes has an answer as well, and so has one that a guard
refuses. Their wording does not tell them from a tool's answers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from hashlib import blake2b
from typing import Any, Final, TypeAlias

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import ToolMessage
from langchain_core.tracers.context import register_configure_hook

from langmem_tiers.core.values import storable
from langmem_tiers.graph.extra import Command, ToolCallRequest
from langmem_tiers.graph.runs import handed_over
from langmem_tiers.postgres.flow import Flow

RAN: Final = "langmem_tiers_ran"
"""The key, among the answer's `additional_kwargs`, of a digest of the call that ran."""
Answer: TypeAlias = ToolMessage | Command[Any]
Handler: TypeAlias = Callable[[ToolCallRequest], Any]
"""Runs a call: it returns its answer, or where the call is awaited what is awaited for it."""
_MOST: Final = 1024
"""The number of calls, the latest, that this process knows to have run."""


class _Watcher(BaseCallbackHandler):
    """Sees the tool of a call start."""

    run_inline = True

    def __init__(self, call_id: str | None) -> None:
        self._call_id = call_id
        self.started: str | None = None
        """The digest of the call that ran; None if none did."""

    def on_tool_start(
        self,
        serialized: dict[str, Any],
        input_str: str,
        *,
        inputs: dict[str, Any] | None = None,
        **options: Any,
    ) -> None:
        """Note the tool that starts first; it may call others in its turn."""
        own = options.get("tool_call_id", self._call_id) == self._call_id
        if own and self.started is None:
            args = {"input": input_str} if inputs is None else inputs
            self.started = digest(approach(str((serialized or {}).get("name")), args))


_watcher: ContextVar[_Watcher | None] = ContextVar("langmem_tiers_watcher", default=None)
register_configure_hook(_watcher, inheritable=False)


def approach(tool: str, args: Mapping[str, Any]) -> str:
    """A tool call as text: the tool with its arguments."""
    arguments = json.dumps(args, ensure_ascii=False, sort_keys=True, default=str)
    return storable(f"{tool}({arguments})")


def digest(said: str) -> str:
    """Return a short name for a call's text."""
    return blake2b(said.encode(), digest_size=8).hexdigest()


def watched(
    handler: Handler, request: ToolCallRequest, note: Callable[[str], None] = lambda _: None
) -> Flow[Answer]:
    """Run a tool call, mark its answer if the tool ran, and tell `note`.

    Where the call raises, others make an answer of the error, and `note` alone is told.
    """
    call = request.tool_call
    with _watching(call["id"]) as watcher:
        try:
            answer: Answer = yield from handed_over(handler, request)
        finally:
            if watcher.started is not None:
                note(watcher.started)
    ran = watcher.started
    if ran is None and request.tool is None:  # there is no such tool: the model's mistake
        ran = digest(approach(call["name"], call["args"]))
    return answer if ran is None else _marked(answer, call["id"], ran)


@contextmanager
def _watching(call_id: str | None) -> Iterator[_Watcher]:
    watcher = _Watcher(call_id)
    token = _watcher.set(watcher)
    try:
        yield watcher
    finally:
        _watcher.reset(token)


class Started:
    """The calls that ran in this process, for answers that others make of a tool's error.

    After a restart it knows none of them: a call without a mark then counts as not run.
    """

    def __init__(self) -> None:
        """Begin with no calls."""
        self._seen: dict[tuple[str, str | None], str] = {}

    def note(self, run: str, call_id: str | None, ran: str) -> None:
        """Note that a call of a run ran."""
        self._seen[run, call_id] = ran
        for oldest in list(self._seen)[:-_MOST]:
            self._seen.pop(oldest, None)

    def knows(self, run: str | None, call_id: str | None, ran: str) -> bool:
        """Tell whether just this call ran in this run."""
        return run is not None and self._seen.get((run, call_id)) == ran


def _marked(answer: Any, call_id: str | None, ran: str) -> Any:
    """Return the answer to a call with the mark, in whatever form it comes."""
    if isinstance(answer, ToolMessage):
        if answer.tool_call_id != call_id:
            return answer
        noted = {**answer.additional_kwargs, RAN: ran}
        return answer.model_copy(update={"additional_kwargs": noted})
    if isinstance(answer, Command) and isinstance(answer.update, dict):
        update = {name: _each(one, call_id, ran) for name, one in answer.update.items()}
        return replace(answer, update=update)
    return _each(answer, call_id, ran)


def _each(several: Any, call_id: str | None, ran: str) -> Any:
    """Mark the answer in a list that holds it; all else stays as it is."""
    if not isinstance(several, list):
        return several
    answers = (ToolMessage, Command)
    return [_marked(one, call_id, ran) if isinstance(one, answers) else one for one in several]
