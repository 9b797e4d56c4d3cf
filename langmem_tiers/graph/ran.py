"""Which calls of tools ran: a tool says so by starting, and the answer to its call is marked.

A call that a person rejects, answers or changes has an answer as well, and so has one that a guard
refuses; no wording tells them from what a tool says.
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
"""Marks the answer to a call that ran, among its `additional_kwargs`: by a digest of that call."""
Answer: TypeAlias = ToolMessage | Command[Any]
Handler: TypeAlias = Callable[[ToolCallRequest], Any]
"""Runs a call: it returns its answer, or where the call is awaited what is awaited for it."""
_MOST: Final = 1024
"""Calls of which is known in this process that they ran, the latest."""


class _Watcher(BaseCallbackHandler):
    """Sees the tool start that a call is of."""

    run_inline = True

    def __init__(self, call_id: str | None) -> None:
        self._call_id = call_id
        self.started: str | None = None
        """The digest of what ran; None if nothing did."""

    def on_tool_start(
        self,
        serialized: dict[str, Any],
        input_str: str,
        *,
        inputs: dict[str, Any] | None = None,
        **options: Any,
    ) -> None:
        """Note what starts first; a tool may call others in its turn."""
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
    """A short name of a call's text."""
    return blake2b(said.encode(), digest_size=8).hexdigest()


def watched(
    handler: Handler, request: ToolCallRequest, note: Callable[[str], None] = lambda _: None
) -> Flow[Answer]:
    """Run a tool call, and mark its answer if the tool ran; `note` is told as well.

    Where the call raises, as an error that others make an answer of, `note` alone is told.
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
    """Which calls ran in this process, where another makes the answer of an error of the tool.

    After a restart it knows none of them, and a call without a mark has not run.
    """

    def __init__(self) -> None:
        """Know of none."""
        self._seen: dict[tuple[str, str | None], str] = {}

    def note(self, run: str, call_id: str | None, ran: str) -> None:
        """Keep in mind that a call of a run ran."""
        self._seen[run, call_id] = ran
        for oldest in list(self._seen)[:-_MOST]:
            self._seen.pop(oldest, None)

    def knows(self, run: str | None, call_id: str | None, ran: str) -> bool:
        """Whether just this call ran in this run."""
        return run is not None and self._seen.get((run, call_id)) == ran


def _marked(answer: Any, call_id: str | None, ran: str) -> Any:
    """The answer to a call with the mark, in whatever form it comes."""
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
    """The same of a list that holds the answer; all else stays as it is."""
    if not isinstance(several, list):
        return several
    answers = (ToolMessage, Command)
    return [_marked(one, call_id, ran) if isinstance(one, answers) else one for one in several]
