from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, NamedTuple
from uuid import uuid4

import pytest
from langchain_core.tracers.langchain import wait_for_all_tracers
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt
from langsmith import AsyncClient, Client, tracing_context
from langsmith.schemas import Feedback

from langmem_tiers import MemoryCoordinator, TieredStore
from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.graph.recall import create_recall_node
from langmem_tiers.memory.feedback import arecord_feedback, record_feedback
from tests.support.agents import WAYS, How, run
from tests.support.chat_server import serving
from tests.support.graphs import ACME, asks, chain, off_the_loop
from tests.support.langsmith_server import Runs
from tests.support.opening import Opened, opened_store, text_index

VAULT, KEYS = "The vault is in the cellar", "Keys change on Mondays"


def sent(score: float | None, of: str | None, within: str | None) -> dict[str, Any]:
    """Feedback as LangSmith sends it."""
    return {
        "id": str(uuid4()),
        "created_at": "2026-03-01T12:00:00+00:00",
        "modified_at": "2026-03-01T12:00:00+00:00",
        "run_id": of,
        "trace_id": within,
        "key": "user_score",
        "score": score,
        "value": None,
        "comment": None,
        "correction": None,
        "feedback_source": {"type": "api", "metadata": {}},
    }


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


@asynccontextmanager
async def filled(url: str, opened: Opened) -> AsyncIterator[TieredStore]:
    """A store that knows where the vault is, and when keys change."""
    store = TieredStore(url, index=text_index())
    async with opened_store(store, opened):
        await off_the_loop(remember, store)
        yield store


def remember(store: TieredStore) -> None:
    memory = MemoryCoordinator(store, context=ACME)
    given = {"vault": (VAULT, "semantic"), "keys": (KEYS, "procedural")}
    memory.store_many(
        {"key": key, "content": content, "memory_type": of} for key, (content, of) in given.items()
    )


def counts(store: TieredStore) -> dict[str, tuple[int, int]]:
    """Successes and failures of what is remembered."""
    found = [MemoryCoordinator(store, context=ACME).get(key) for key in ("vault", "keys")]
    return {one.key: (one.success_count, one.failure_count) for one in found if one}


def shows(store: TieredStore, memory_type: str, *nodes: Any) -> Any:
    """A graph that is shown the one memory of a type."""
    return chain(store, create_recall_node(memory_types=[memory_type], limit=1), *nodes)


def named(name: str) -> Any:
    return {"run_name": name}


def turn(store: TieredStore, name: str, memory_type: str = "semantic", *nodes: Any) -> Any:
    """Run such a graph."""
    given = {"messages": [asks("Where is the vault?")], "worked": True}
    return shows(store, memory_type, *nodes).invoke(given, named(name), context=ACME)


async def credited(memory: MemoryCoordinator, langsmith: LangSmith, root: str, how: How) -> Any:
    """Credit the feedback on a trace, as clients of each kind list it."""
    if how == "invoke":
        return await off_the_loop(record_feedback, memory, langsmith.said(root))
    if how == "astream":
        return await arecord_feedback(memory, langsmith.said(root))
    async with AsyncClient(langsmith.endpoint, api_key="none") as client:
        return await arecord_feedback(memory, client.list_feedback(run_ids=[root]))


@pytest.mark.parametrize(
    ("opened", "how", "score"),
    [(*way, score) for way, score in zip(WAYS, (1.0, 0.0, 1.0), strict=True)],
)
async def test_feedback_credits_what_its_trace_was_shown_and_nothing_else_once(
    url: str, langsmith: LangSmith, opened: Opened, how: How, score: float
) -> None:
    async with filled(url, opened) as store:
        given = {"messages": [asks("Where is the vault?")]}
        with langsmith.tracing():
            for name, of in (("one", "semantic"), ("other", "procedural")):
                graph = shows(store, of)
                await run(graph, how, given, config=named(name), context=ACME)
        root = langsmith.run_id("one")
        langsmith.say(score, root)
        memory = MemoryCoordinator(store, context=ACME)
        first, again = [await credited(memory, langsmith, root, how) for _ in range(2)]
        counted = await off_the_loop(counts, store)

    assert [(one.success, one.credited) for one in first] == [(bool(score), 1)]
    assert [one.credited for one in again] == [0]
    assert counted == {"vault": (int(score), 1 - int(score)), "keys": (0, 0)}


def test_after_an_interrupt_feedback_belongs_to_the_trace_that_recalled(
    ready: TieredStore, langsmith: LangSmith
) -> None:
    def paused(_: Any) -> dict[str, Any]:
        interrupt("Sure?")
        return {}

    remember(ready)
    recall = create_recall_node(memory_types=["semantic"], limit=1)
    graph = chain(ready, recall, paused, checkpointer=InMemorySaver())
    asked: Any = {"messages": [asks("Where is the vault?")]}
    for name, given in {"first": asked, "second": Command(resume=True)}.items():
        config = {"run_name": name, "configurable": {"thread_id": "1"}}
        with langsmith.tracing():
            graph.invoke(given, config, context=ACME)
    memory = MemoryCoordinator(ready, context=ACME)
    credited = []
    for name in ("second", "first"):
        langsmith.say(1, root := langsmith.run_id(name))
        credited += [one.credited for one in record_feedback(memory, langsmith.said(root))]

    assert credited == [0, 1]
    assert counts(ready)["vault"] == (1, 0)


def test_of_much_feedback_on_a_trace_the_first_that_says_anything_counts(
    ready: TieredStore, langsmith: LangSmith
) -> None:
    remember(ready)
    with langsmith.tracing():
        turn(ready, "turn")
    root = langsmith.run_id("turn")
    memory = MemoryCoordinator(ready, context=ACME)
    langsmith.say(None, root)
    assert record_feedback(memory, langsmith.said(root)) == []
    assert record_feedback(memory, [Feedback(**sent(1, None, None))]) == []
    for score in [1, 0, *[None] * 120]:  # listed newest first, on two pages
        langsmith.say(score, root)
    reports = record_feedback(memory, langsmith.said(root))

    assert [(one.success, one.credited) for one in reports] == [(False, 1)]
    assert counts(ready)["vault"] == (0, 1)


def test_what_cannot_be_told_is_refused_before_anything_is_credited(
    ready: TieredStore, langsmith: LangSmith
) -> None:
    remember(ready)
    with langsmith.tracing():
        turn(ready, "one", "semantic")
        turn(ready, "other", "procedural")
    roots = [langsmith.run_id("one"), langsmith.run_id("other")]
    for root in roots:
        langsmith.say(1, root)
    memory = MemoryCoordinator(ready, context=ACME)
    found = list(langsmith.said(*roots))
    answers = iter([True, "yes"])

    def unsure(_: Feedback) -> Any:
        return next(answers)

    with pytest.raises(InvalidInputError, match="True, False or None, not 'yes'"):
        record_feedback(memory, found, succeeded=unsure)
    with pytest.raises(InvalidInputError, match="succeeded is a function of"):
        record_feedback(memory, found, succeeded="score")  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="a list of one too, not a tuple"):
        record_feedback(memory, found[0])  # type: ignore[arg-type]
    assert counts(ready) == {"vault": (0, 0), "keys": (0, 0)}


async def test_feedback_that_blocks_is_not_read_on_the_loop(url: str) -> None:
    threads: list[threading.Thread] = []

    def pages() -> Iterator[Feedback]:
        threads.append(threading.current_thread())
        yield from ()

    async with filled(url, "async") as store:
        memory = MemoryCoordinator(store, context=ACME)
        assert await arecord_feedback(memory, pages()) == []

    assert threads != [threading.current_thread()]
