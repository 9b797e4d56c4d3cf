from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from uuid import uuid4

import pytest
from langchain_core.tracers.langchain import wait_for_all_tracers
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt
from langsmith import AsyncClient, Client, tracing_context
from langsmith.schemas import Feedback

from langmem_tiers import MemoryCoordinator, TieredStore
from langmem_tiers.coordinator.outcomes import arecord_feedback, record_feedback
from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.graph.recall import create_recall_node
from tests.support.agents import How, Way
from tests.support.chat_server import serving
from tests.support.graphs import ACME, asks, chain, off_the_loop
from tests.support.langsmith_server import Runs

GIVEN: dict[str, Any] = {"messages": [asks("Where is the vault?")]}


def sent(score: float | None, of: str | None, within: str | None) -> dict[str, Any]:
    """Feedback as LangSmith sends it."""
    nothing = dict.fromkeys(("value", "comment", "correction"))
    at = dict.fromkeys(("created_at", "modified_at"), "2026-03-01T12:00:00+00:00")
    ids = {"id": str(uuid4()), "run_id": of, "trace_id": within}
    return {**nothing, **at, **ids, "key": "user_score", "score": score}


class LangSmith(NamedTuple):
    """A client, and what its server knows."""

    client: Client
    server: Runs
    endpoint: str

    @contextmanager
    def tracing(self) -> Iterator[None]:
        """Trace what runs within."""
        with tracing_context(enabled=True, client=self.client):
            yield
        wait_for_all_tracers()
        self.client.flush()

    def run_id(self, name: str, under: str | None = None) -> str:
        """The id of the only run of a name."""
        (found,) = self.server.named(name, under)
        return str(found["id"])

    def say(self, score: float | None, of: str, *, within: str | None = None) -> None:
        """Give feedback on a run; `within` is its trace."""
        self.server.feedback.append(sent(score, of, within or of))

    def said(self, *runs: str) -> Iterator[Feedback]:
        """What the client lists of these runs."""
        return self.client.list_feedback(run_ids=runs)


@pytest.fixture
def langsmith() -> Iterator[LangSmith]:
    server = Runs()
    with serving(server) as endpoint:
        client = Client(endpoint, api_key="none")
        yield LangSmith(client, server, endpoint)
        client.flush()
        client.cleanup()
        client.session.close()


def remember(store: TieredStore) -> None:
    memory = MemoryCoordinator(store, context=ACME)
    memory.store("The vault is in the cellar", "semantic", key="vault")
    memory.store("Keys change on Mondays", "procedural", key="keys")


def counts(store: TieredStore) -> dict[str, tuple[int, int]]:
    """Successes and failures of what is remembered."""
    found = [MemoryCoordinator(store, context=ACME).get(key) for key in ("vault", "keys")]
    return {one.key: (one.success_count, one.failure_count) for one in found if one}


def shows(store: TieredStore, memory_type: str, *nodes: Any, **options: Any) -> Any:
    """A graph that is shown the one memory of a type."""
    return chain(store, create_recall_node(memory_types=[memory_type], limit=1), *nodes, **options)


@pytest.fixture
def remembered(ready: TieredStore, memory: MemoryCoordinator) -> MemoryCoordinator:
    """Who remembers where the vault is, and when keys change."""
    remember(ready)
    return memory


async def credited(memory: MemoryCoordinator, langsmith: LangSmith, root: str, how: How) -> Any:
    """Credit the feedback on a trace, as clients of each kind list it."""
    if how == "invoke":
        return await off_the_loop(record_feedback, memory, langsmith.said(root))
    if how == "astream":
        return await arecord_feedback(memory, langsmith.said(root))
    async with AsyncClient(langsmith.endpoint, api_key="none") as client:
        return await arecord_feedback(memory, client.list_feedback(run_ids=[root]))


async def test_feedback_credits_what_its_trace_was_shown_and_nothing_else_once(
    way: Way, langsmith: LangSmith
) -> None:
    score = float(way.how != "ainvoke")
    await off_the_loop(remember, way.store)
    with langsmith.tracing():
        for name, of in (("one", "semantic"), ("other", "procedural")):
            await way(shows(way.store, of), GIVEN, config={"run_name": name}, context=ACME)
    root = langsmith.run_id("one")
    langsmith.say(score, root)
    memory = MemoryCoordinator(way.store, context=ACME)
    first, again = [await credited(memory, langsmith, root, way.how) for _ in range(2)]
    counted = await off_the_loop(counts, way.store)

    assert [(one.success, one.credited) for one in first] == [(bool(score), 1)]
    assert [one.credited for one in again] == [0]
    assert counted == {"vault": (int(score), 1 - int(score)), "keys": (0, 0)}


def test_after_an_interrupt_feedback_belongs_to_the_trace_that_recalled(
    ready: TieredStore, remembered: MemoryCoordinator, langsmith: LangSmith
) -> None:
    def paused(_: Any) -> dict[str, Any]:
        interrupt("Sure?")
        return {}

    graph = shows(ready, "semantic", paused, checkpointer=InMemorySaver())
    for name, given in {"first": GIVEN, "second": Command(resume=True)}.items():
        config = {"run_name": name, "configurable": {"thread_id": "1"}}
        with langsmith.tracing():
            graph.invoke(given, config, context=ACME)
    credited = []
    for name in ("second", "first"):
        langsmith.say(1, root := langsmith.run_id(name))
        credited += [one.credited for one in record_feedback(remembered, langsmith.said(root))]

    assert credited == [0, 1]
    assert counts(ready)["vault"] == (1, 0)


def test_of_much_feedback_on_a_trace_the_first_that_says_anything_counts(
    ready: TieredStore, remembered: MemoryCoordinator, langsmith: LangSmith
) -> None:
    with langsmith.tracing():
        shows(ready, "semantic").invoke(GIVEN, {"run_name": "turn"}, context=ACME)
    root = langsmith.run_id("turn")
    langsmith.say(None, root)
    assert record_feedback(remembered, langsmith.said(root)) == []
    assert record_feedback(remembered, [Feedback(**sent(1, None, None))]) == []
    for score in [1, 0, *[None] * 120]:  # listed newest first, on two pages
        langsmith.say(score, root)
    reports = record_feedback(remembered, langsmith.said(root))

    assert [(one.success, one.credited) for one in reports] == [(False, 1)]
    assert counts(ready)["vault"] == (0, 1)


def test_what_cannot_be_told_is_refused_before_anything_is_credited(
    ready: TieredStore, remembered: MemoryCoordinator, langsmith: LangSmith
) -> None:
    for name, of in (("one", "semantic"), ("other", "procedural")):
        with langsmith.tracing():
            shows(ready, of).invoke(GIVEN, {"run_name": name}, context=ACME)
        langsmith.say(1, langsmith.run_id(name))
    found = list(langsmith.said(langsmith.run_id("one"), langsmith.run_id("other")))
    answers = iter([True, "yes"])
    wrong: list[tuple[Any, Any, str]] = [
        (found, lambda _: next(answers), "True, False or None, not 'yes'"),
        (found, "score", "succeeded is a function of"),
        (found[0], None, "a list of one too, not a tuple"),
    ]
    for feedback, succeeded, says in wrong:
        options = {"succeeded": succeeded} if succeeded else {}
        with pytest.raises(InvalidInputError, match=says):
            record_feedback(remembered, feedback, **options)
    assert counts(ready) == {"vault": (0, 0), "keys": (0, 0)}


async def test_feedback_that_blocks_is_not_read_on_the_loop(memory: MemoryCoordinator) -> None:
    threads: list[threading.Thread] = []

    def pages() -> Iterator[Feedback]:
        threads.append(threading.current_thread())
        yield from ()

    assert await arecord_feedback(memory, pages()) == []
    assert threads != [threading.current_thread()]
