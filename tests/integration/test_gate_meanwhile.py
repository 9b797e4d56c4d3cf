"""What the gate does where memories change between its look-up and its transaction."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import psycopg
import pytest

from langmem_tiers import MemoryCoordinator, MemoryOrchestrator, TieredStore
from langmem_tiers.core.errors import InvalidTypeError
from langmem_tiers.core.memory import Destination
from langmem_tiers.testing import TrigramEmbeddings
from langmem_tiers.turn.turn import Route
from tests.support.coordinating import Caller, coordinator
from tests.support.learning import broken
from tests.support.opening import DIMS, Opener, text_index, tiered

FACT = "The API key rotates on Mondays."
DELETED = "DELETE FROM memory.memories WHERE key = 'origin'"
LINEAGE = "SELECT count(*) FROM memory.lineage"


class Meanwhile(TrigramEmbeddings):
    """Embeds, and when it is asked to has something done before, once."""

    todo: Callable[[], object] | None = None

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        todo, self.todo = self.todo, None
        if todo is not None:
            todo()
        return super().embed_documents(texts)


@asynccontextmanager
async def calling(open_store: Opener, url: str) -> AsyncIterator[tuple[Caller, Meanwhile]]:
    """A coordinator whose model is asked between the look-up and the transaction."""
    model = Meanwhile(DIMS)
    async with open_store(url=url, index=text_index(embed=model)) as driver:
        memory = coordinator(tiered(driver), project_id="p", session_id="s")
        yield Caller(memory, driver.mode), model


@pytest.fixture
def memory(store: TieredStore) -> MemoryCoordinator:
    return coordinator(store, project_id="p", session_id="s")


def count(url: str, query: str) -> int:
    with psycopg.connect(url) as conn:
        row = conn.execute(query.encode()).fetchone()
    assert row is not None
    return int(row[0])


def delete(url: str) -> None:
    with psycopg.connect(url) as conn:
        conn.execute(DELETED)


async def test_what_repeats_a_memory_that_is_deleted_meanwhile_is_stored_for_itself(
    open_store: Opener, url: str
) -> None:
    async with calling(open_store, url) as (call, model):
        await call("store", FACT, tier="short_term", key="origin", source="tool")
        await call("get_context", FACT)
        model.todo = lambda: delete(url)
        kept = await call("store", FACT, tier="long_term", source="agent")
        (found,) = await call("get_context", FACT)

    assert (kept.stored, kept.reason, kept.trust) == (True, "stored", 0.8)
    assert found.key == kept.key
    assert count(url, LINEAGE) == 0


@pytest.mark.parametrize("goes", ["deleted before", "evicted", "stays"])
def test_a_turn_keeps_what_repeats_a_memory_though_that_is_gone_by_its_commit(
    memory: MemoryCoordinator, url: str, goes: str
) -> None:
    memory.store(FACT, tier="short_term", key="origin", source="tool")
    to = (Destination("semantic", "it is known"),)
    route = Route(destinations=to, evicted=("origin",) if goes == "evicted" else ())
    turn = MemoryOrchestrator(memory, router=lambda _: route).begin()
    turn.assemble_context("When does the API key rotate?")
    fact = {"content": FACT, "tier": "long_term", "source": "agent", "memory_type": "episodic"}
    again = turn.memorize(fact)
    state = json.loads(json.dumps(turn.to_state()))
    turn = MemoryOrchestrator(memory, router=lambda _: route).begin(state)
    turn.memorize("Room 4 is in the basement.")
    if goes == "deleted before":
        memory.delete_memory("origin")
    report = turn.commit()

    assert {one.reason for one in report.stored} == {"stored"}
    found = memory.get(again.keys[0])
    assert found is not None
    assert found.value["trust"] == (0.8 if goes == "deleted before" else 0.6)
    assert count(url, LINEAGE) == (1 if goes == "stays" else 0)
    assert broken(url) == {}


def test_what_came_of_what_it_repeats_is_stored_and_not_derived_from_it(
    memory: MemoryCoordinator, url: str
) -> None:
    memory.store("Anna guards the key.", key="guard", source="tool")
    memory.store(FACT, tier="short_term", key="came", source="tool", derived_from=["guard"])
    found = memory.get_context("API key rotates")
    kept = memory.store(FACT, key="guard", source="agent", recalled=found)

    assert (kept.stored, kept.trust) == (True, 0.6)
    assert count(url, LINEAGE) == 1
    assert broken(url) == {}


@pytest.mark.parametrize("name", ["echoes", "held", "threshold"])
def test_what_the_gate_says_of_a_memory_is_no_callers_to_say(
    memory: MemoryCoordinator, name: str
) -> None:
    with pytest.raises(InvalidTypeError, match=f"store takes no '{name}'"):
        memory.store_many([{"content": FACT, name: ()}])
