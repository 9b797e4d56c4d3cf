"""Which of the package's functions one warm call runs, on a Postgres of its own."""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import HumanMessage

import langmem_tiers
from langmem_tiers import (
    CoordinatorSettings,
    MemoryContext,
    MemoryCoordinator,
    TieredMemoryMiddleware,
    TieredStore,
)

_HOME = str(Path(langmem_tiers.__file__).parent) + os.sep
_PATIENT = CoordinatorSettings(query_timeout_ms=60_000)
_KNOWN = (
    "The API key rotates on Mondays",
    "The staging database moved to Frankfurt in May",
    "Anna prefers answers in bullet points",
)
_QUESTION = "When do keys change?"
_ASKED = (_QUESTION, "On which day do keys change?", "Where is the staging database?")
_NEW = "The build server needs Python 3.12 since June"
"""Not among the known: what was read of a text is kept, so that reading it again takes less."""


@dataclass(frozen=True, slots=True)
class Calls:
    """Distinct functions of the package, by file and qualified name, and their files.

    Those that share a qualified name, such as the lambdas of one function, count once.
    """

    functions: int
    files: int


class _Listener:
    """Notes the code that any thread begins, of those that were started after it."""

    def __init__(self) -> None:
        self._codes: set[CodeType] = set()
        self._listens = False

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        if self._listens and event == "call":
            self._codes.add(frame.f_code)

    def of(self, call: Callable[[], object]) -> Calls:
        self._codes.clear()
        self._listens = True
        try:
            call()
        finally:
            self._listens = False
        ours = [one for one in self._codes if one.co_filename.startswith(_HOME)]
        return Calls(
            functions=len({(one.co_filename, one.co_qualname) for one in ours}),
            files=len({one.co_filename for one in ours}),
        )


@contextmanager
def _listening() -> Iterator[_Listener]:
    listener = _Listener()
    threading.setprofile(listener)
    sys.setprofile(listener)
    try:
        yield listener
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def least(counts: Iterable[Calls]) -> Calls:
    """Return the count of fewest functions."""
    return min(counts, key=lambda one: one.functions)


def calls() -> dict[str, Calls]:
    """Count what `get_context`, `store` and a turn of an agent run once each was done before.

    A recall that finds accesses due writes them along, once a second: of a recall and a turn the
    least of three counts.
    """
    with (
        tempfile.TemporaryDirectory() as directory,
        _listening() as listener,
        TieredStore.embedded(f"{directory}/data") as store,
    ):
        memory = MemoryCoordinator(store, context=MemoryContext(tenant="acme"), settings=_PATIENT)
        for text in _KNOWN:
            memory.store(text)
        memory.get_context(_QUESTION)
        return {
            "get_context": least(
                listener.of(lambda: memory.get_context(_QUESTION)) for _ in range(3)
            ),
            "store": listener.of(lambda: memory.store(_NEW)),
            "turn of an agent": _turn(listener, store),
        }


def _turn(listener: _Listener, store: TieredStore) -> Calls:
    """Count what the middleware runs in a turn whose model answers at once."""
    model = FakeListChatModel(responses=["On Mondays."])
    agent: Any = create_agent(
        model,
        middleware=[TieredMemoryMiddleware(on_error="raise")],  # what fails would run less
        context_schema=MemoryContext,
        store=store,
    )
    whose = MemoryContext(tenant="acme", user_id="ada")

    def turn(question: str) -> Callable[[], object]:
        said = {"messages": [HumanMessage(question, id=question)]}
        return lambda: agent.invoke(said, context=whose)

    turn("Who prefers bullet points?")()
    return least(listener.of(turn(one)) for one in _ASKED)
