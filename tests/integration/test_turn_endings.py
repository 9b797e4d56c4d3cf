"""How a turn ends: once, whoever else ends it as well, and what is left of its trace."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from langmem_tiers import MemoryCoordinator, MemoryOrchestrator, TieredStore
from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.testing import TrigramEmbeddings
from tests.support.coordinating import coordinator
from tests.support.opening import DIMS, Clock, tables, text_index

FACT = "The API key is rotated on Mondays."
BAD = "ValueError: the amount '1,234' has a comma"


class Counting(TrigramEmbeddings):
    """Keeps the texts that it embeds."""

    def __init__(self, dims: int) -> None:
        """Embed into so many dimensions."""
        super().__init__(dims)
        self.seen: list[str] = []

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed, and keep what."""
        self.seen += texts
        return super().embed_documents(texts)


@pytest.fixture
def memory(store: TieredStore) -> MemoryCoordinator:
    return coordinator(store, project_id="billing", session_id="chat")


def go(turn: MemoryOrchestrator, *facts: str) -> None:
    """Two tool calls, what was learned of them, and facts."""
    turn.track_tool_invocation("add", {"amount": "1,234", "of": "May"}, error=BAD)
    turn.track_tool_invocation("add", {"amount": "1234", "of": "May"}, result="added")
    turn.note_progress("books", 0.25, "two invoices")
    for one in facts:
        turn.memorize(one)


def committed(memory: MemoryCoordinator, *facts: str) -> Any:
    with MemoryOrchestrator(memory, turn_id="t1") as turn:
        go(turn, *facts)
        return turn.commit()


def without(report: Any) -> dict[str, Any]:
    return {name: one for name, one in json.loads(report.to_json()).items() if name != "budget"}


# A turn that was committed before


def test_a_retry_elsewhere_is_told_what_the_first_commit_stored_as_it_is_by_now(
    memory: MemoryCoordinator, url: str
) -> None:
    memory.state.set_goal("books", "Close the books")
    first = committed(memory, FACT)
    once = tables(url)

    elsewhere = coordinator(memory.tiered_store, project_id="billing", session_id="chat")
    again = committed(elsewhere, FACT)

    assert without(again) == without(first)
    assert again.stored == first.stored
    assert tables(url) == once
    key = first.semantic[-1]["key"]
    memory.store("The API key is rotated on Fridays.", memory_type="semantic", key=key)
    told = {one["key"]: one["value"]["content"] for one in committed(memory, FACT).semantic}
    assert told[key] == "The API key is rotated on Fridays."


@pytest.mark.parametrize("project", ["billing", "shipping"])
def test_a_turn_id_of_another_turn_loses_nothing_without_a_word(
    memory: MemoryCoordinator, url: str, project: str
) -> None:
    memory.state.set_goal("books", "Close the books")
    committed(memory, FACT)
    once = tables(url)
    another = coordinator(memory.tiered_store, project_id=project, session_id="chat")
    other = FACT if project == "shipping" else "The vault is in the basement."

    with pytest.raises(InvalidInputError, match=r"committed before, without .* turn_id of its own"):
        committed(another, other)
    assert tables(url) == once


# Two who end it at once


def test_of_a_commit_and_an_abandonment_at_once_exactly_one_ending_stands(
    memory: MemoryCoordinator, url: str
) -> None:
    for number in range(30):
        state = MemoryOrchestrator(memory, turn_id=f"t{number}").begin().to_state()
        ready = threading.Barrier(2)
        turns = [MemoryOrchestrator(memory).begin(state) for _ in range(2)]
        turns[0].memorize(f"{FACT} Room {number}.")

        def commit(turn: MemoryOrchestrator = turns[0], ready: Any = ready) -> bool:
            ready.wait()
            try:
                return bool(turn.commit().stored)
            except InvalidInputError:
                return False

        def leave(turn: MemoryOrchestrator = turns[1], ready: Any = ready) -> None:
            ready.wait()
            turn.__exit__(None, None, None)

        with ThreadPoolExecutor(2) as pool:
            stored, left = pool.submit(commit), pool.submit(leave)
            left.result()
        kinds = [one.kind for one in turns[0].history(f"t{number}").events]
        assert kinds == (["memorized", "committed"] if stored.result() else ["abandoned"])
    assert not [row for row in tables(url)["memories"] if "abandoned" in str(row)]


def test_a_contended_commit_embeds_each_text_once(url: str, clock: Clock) -> None:
    embeddings = Counting(64)
    index = {**text_index(), "embed": embeddings}
    with TieredStore(url, index=index, clock=clock) as store:
        memory = coordinator(store, project_id="billing", session_id="chat")
        turns = [MemoryOrchestrator(memory, turn_id=f"t{n}").begin() for n in range(6)]
        for number, turn in enumerate(turns):
            turn.track_tool_invocation("add", {"amount": str(number)}, result="added")
            turn.memorize(f"{FACT} Room {number}.")
        with ThreadPoolExecutor(6) as pool:
            list(pool.map(lambda turn: turn.commit(), turns))

    facts = [text for text in embeddings.seen if text.startswith(FACT)]
    assert sorted(facts) == [f"{FACT} Room {number}." for number in range(6)]


# What is left of a trace


def test_traces_are_forgotten_after_their_days_and_nothing_else_is(url: str, clock: Clock) -> None:
    with TieredStore(url, index=text_index(), clock=clock, trace_days=30) as store:
        memory = coordinator(store, project_id="billing")
        memory.state.set_goal("books", "Close the books")
        kept = committed(memory, FACT).semantic[-1]["key"]
        clock.now += timedelta(days=29)
        store.sweep_ttl()
        before = tables(url)
        clock.now += timedelta(days=2)
        with MemoryOrchestrator(memory, turn_id="t2") as turn:
            turn.commit()
        store.sweep_ttl()

        with pytest.raises(InvalidInputError, match="kept for as many days as the store's"):
            turn.history("t1")
        assert [one.kind for one in turn.history("t2").events] == ["committed"]
        assert memory.get(kept) is not None
    after = tables(url)
    assert after["memories"] == before["memories"]
    others = [row for row in before["events"] if "turn/" not in str(row)]
    assert others == [row for row in after["events"] if "turn/" not in str(row)]


def test_a_prompt_of_any_length_leaves_a_short_trace_and_a_short_task(
    memory: MemoryCoordinator,
) -> None:
    with MemoryOrchestrator(memory) as turn:
        turn.assemble_context("When is the API key rotated? " * 1_000)
        turn.track_tool_invocation("look", {"at": "calendar"}, result="Mondays")
        state = turn.to_state()
        (found,) = turn.commit().episodic[:1]

    assert len(json.dumps(state)) < 20_000
    assert len(found["value"]["source_task"]) == 200


# A commit that fails in the driver


class Slow(TrigramEmbeddings):
    """Answers nothing when it is asked first."""

    def __init__(self, dims: int) -> None:
        """Embed into so many dimensions."""
        super().__init__(dims)
        self.asked = asyncio.Event()

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed, but for the first time."""
        if not self.asked.is_set():
            self.asked.set()
            await asyncio.Event().wait()
        return super().embed_documents(texts)


async def test_a_commit_that_is_cancelled_may_be_tried_again(url: str, clock: Clock) -> None:
    embed = Slow(DIMS)
    async with TieredStore(url, index=text_index(embed=embed), clock=clock) as store:
        turn = MemoryOrchestrator(coordinator(store, project_id="billing")).begin()
        await turn.amemorize(FACT)
        committing = asyncio.create_task(turn.acommit())
        await asyncio.wait_for(embed.asked.wait(), 10)
        committing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await committing

        assert len((await turn.acommit()).stored) == 1


# What is kept beside a commit


@pytest.mark.parametrize(
    "verb",
    [
        lambda turn: turn.track_tool_invocation("add", {"amount": "1"}, "added"),
        lambda turn: turn.note_progress("books", 0.5, "half of them"),
        lambda turn: turn.memorize("The vault is in the basement."),
    ],
)
def test_what_comes_beside_a_commit_is_refused_and_not_written(
    memory: MemoryCoordinator, verb: Callable[[MemoryOrchestrator], Any]
) -> None:
    memory.state.set_goal("books", "Close the books")
    turn = MemoryOrchestrator(memory).begin()
    turn.memorize(FACT)
    ended = Ended(turn)
    turn.lock = ended  # type: ignore[assignment]

    with pytest.raises(InvalidInputError, match="committed: begin another"):
        verb(turn)

    assert [one.kind for one in turn.trace.events] == ["memorized"]
    assert (turn.record.calls, turn.record.goals) == ([], [])  # type: ignore[union-attr]
    assert len(ended.reports) == 1


class Ended:
    """A lock of a turn whose commit was faster than whoever waits for it."""

    def __init__(self, turn: MemoryOrchestrator) -> None:
        """Of that turn."""
        self.turn, self.real, self.reports = turn, turn.lock, list[Any]()

    def __enter__(self) -> None:
        if not self.reports:
            self.turn.lock = self.real
            self.reports.append(self.turn.commit())
        self.real.acquire()

    def __exit__(self, *_: object) -> None:
        self.real.release()
