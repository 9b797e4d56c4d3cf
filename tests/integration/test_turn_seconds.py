"""The seconds of a budget bound the assembly of a context, and it is told what is left out."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from langmem_tiers import (
    PERSONA,
    Budget,
    OrchestratorSettings,
    Persona,
)
from langmem_tiers.turn.layout import Stage
from tests.support.coordinating import Caller, calling
from tests.support.opening import Opener
from tests.support.turning import turning

SPENT = "TimeoutError: the turn's 0.5 seconds were spent before it answered"
LONG = 20.0
"""The seconds that a source hangs unless it is let go: far longer than any of these turns."""


@pytest.fixture
async def call(open_store: Opener, url: str) -> AsyncIterator[Caller]:
    """A coordinator of (acme, billing, chat), called each way."""
    async with calling(open_store, url, project_id="billing", session_id="chat") as opened:
        yield opened


class Hanging:
    """Sources that answer when they are let go, or after a long time."""

    def __init__(self) -> None:
        self.go, self.begun = threading.Event(), 0

    def __call__(self, *_: Any) -> str:
        self.begun += 1
        self.go.wait(LONG)
        return "late"

    async def on_a_loop(self, *_: Any) -> str:
        await asyncio.Event().wait()
        return "late"

    def query(self, *_: Any) -> dict[str, Any]:
        self.go.wait(LONG)
        return {"items": []}


@pytest.fixture
def hanging() -> Any:
    found = Hanging()
    yield found
    found.go.set()


def waits(hanging: Hanging) -> dict[str, Callable[[Caller], Any]]:
    return {
        "function": lambda _: hanging,
        "coroutine": lambda call: hanging.on_a_loop if call.mode == "abatch" else hanging,
    }


@pytest.mark.parametrize("kind", ["function", "coroutine"])
async def test_a_context_is_assembled_within_the_seconds_of_its_turn(
    call: Caller, hanging: Hanging, kind: str
) -> None:
    source = waits(hanging)[kind](call)
    stages = ("identity", "semantic")
    budget = Budget(seconds=0.5)
    sources = dict.fromkeys(stages, source)
    began = time.monotonic()
    async with turning(call, sources=sources, budget=budget) as turn:
        context = await turn("assemble_context", "keys", tools=[{"name": "look", "args": {}}])
        refused = turn.of.trace.of_kind("refused")
    took = time.monotonic() - began

    assert took < LONG / 2
    assert context.failed["semantic"] == context.failed["identity"] == SPENT
    assert "- look()" in context.text
    assert {one.detail["what"]: one.reasons for one in refused} == {
        f"ask the source {name!r}": (SPENT,) for name in context.failed
    }


async def test_a_daemon_that_hangs_is_waited_for_no_longer_than_the_turn_may_go_on(
    call: Caller, hanging: Hanging
) -> None:
    began = time.monotonic()
    async with turning(call, sources={"identity": hanging}, budget=Budget(seconds=0.5)) as turn:
        context = await turn("assemble_context", "keys")

    assert time.monotonic() - began < LONG / 2
    assert context.failed["identity"] == SPENT


async def test_a_persona_is_shown_whatever_the_time(call: Caller, hanging: Hanging) -> None:
    soul = Persona(persona_name="Nova", must_not_do=["Lie"])
    layout = PERSONA.with_stage(Stage(source="crm", title="# CRM"), before="persona")
    sources = {"persona": soul, "crm": hanging}
    async with turning(call, layout=layout, sources=sources, budget=Budget(seconds=0.5)) as turn:
        context = await turn("assemble_context", "keys")

    assert "MUST NOT: - Lie" in context.text
    assert set(context.failed) == {"crm", "conversation", "memories", "state"}


async def test_sources_without_a_stage_are_asked_side_by_side(call: Caller) -> None:
    together = threading.Barrier(3, timeout=LONG)

    def slow(_: str, metadata: Any) -> str:
        together.wait()
        return ", ".join(metadata["sections"])

    names = ("crm", "desk", "wiki")
    settings = OrchestratorSettings(source_seconds=LONG)
    async with turning(call, sources=dict.fromkeys(names, slow), settings=settings) as turn:
        context = await turn("assemble_context", "keys")

    assert context.failed == {}
    assert [one.source for one in context.fragments] == list(names)
    told = "identity, conversation, working, goals, episodic, semantic, tools"
    assert {one.text for one in context.fragments} == {told}


async def test_of_sources_that_are_asked_side_by_side_one_that_fails_or_hangs_costs_its_own_section(
    call: Caller, hanging: Hanging
) -> None:
    def down(*_: Any) -> str:
        raise ConnectionError("down")

    sources = {"crm": hanging, "desk": down, "wiki": lambda *_: "A page"}
    settings = OrchestratorSettings(source_seconds=0.5)
    async with turning(call, sources=sources, settings=settings) as turn:
        context = await turn("assemble_context", "keys")

    assert context.failed == {
        "crm": "TimeoutError: there was no answer within 0.5 seconds",
        "desk": "ConnectionError: down",
    }
    assert [one.text for one in context.fragments] == ["A page"]


async def test_blocking_sources_without_a_limit_are_called_on_one_thread(call: Caller) -> None:
    threads: list[int] = []
    sources = dict.fromkeys(("crm", "desk"), lambda *_: threads.append(threading.get_ident()))
    async with turning(call, sources=sources) as turn:
        await turn("assemble_context", "keys")

    assert len(threads) == 2
    assert call.mode == "abatch" or len(set(threads)) == 1
