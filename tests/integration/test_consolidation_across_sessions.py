"""What sessions of a project told is compared, and what belongs to anybody else is not."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from langmem_tiers import MemoryContext, MemoryCoordinator, TieredStore
from langmem_tiers.consolidation.steps import read_memories
from langmem_tiers.core.memory import encode_namespace
from langmem_tiers.postgres.flow import Flow, Query
from langmem_tiers.store.write import lock_call
from tests.support.coordinating import coordinator
from tests.support.cycling import column, cycle, done, judged, step
from tests.support.learning import broken
from tests.support.opening import Clock
from tests.support.servers import blocked, wait_until

ACME = MemoryContext(tenant="acme")
TEA = "Anna likes green tea"
BOTH = ("merge", "supersede")


@pytest.fixture
def store(store: TieredStore, url: str) -> Iterator[TieredStore]:
    """A store on an empty database, which stays whole."""
    yield store
    assert broken(url) == {}


def note(memory: MemoryCoordinator, key: str, content: str) -> None:
    """Note in a session what matters, so that it rises."""
    memory.store(content, "semantic", tier="short_term", key=key, importance=0.9)


def told(store: TieredStore, clock: Clock, session: str, key: str, said: str, **given: Any) -> None:
    """A session says something that rises, an hour before what comes next."""
    context = {"project_id": "billing", **given}
    note(coordinator(store, session_id=session, **context), key, said)
    done(store, step("rise"), cycle(store, f"rise of {key}"))
    clock.advance(hours=1)


def twice(store: TieredStore, clock: Clock, name: str) -> MemoryCoordinator:
    """Two sessions tell the same, or what contradicts it; the coordinator of the second."""
    said = {"merge": (TEA, f"{TEA}!"), "supersede": ("The port is 80.", "The port is 443.")}[name]
    for session, content in zip(("monday", "tuesday"), said, strict=True):
        told(store, clock, session, session, content)
    return coordinator(store, project_id="billing", session_id="tuesday")


# What meets


def test_what_changes_again_and_again_has_one_current_value(
    store: TieredStore, clock: Clock
) -> None:
    for number in range(7):
        told(store, clock, f"s{number}", f"port {number}", f"The port is {(80, 443)[number % 2]}.")
        done(store, step("supersede"), cycle(store, f"change {number}"))
    memory = coordinator(store, project_id="billing")
    assert [one.key for one in memory.get_context("the port", limit=99)] == ["port 6"]


# What does not


@pytest.mark.parametrize("name", BOTH)
@pytest.mark.parametrize(
    "elsewhere",
    [{"project_id": "shipping"}, {"tenant": "other"}, {"project_id": None}],
    ids=["project", "tenant", "no project"],
)
def test_what_is_of_another_project_or_tenant_is_left_alone(
    store: TieredStore, clock: Clock, url: str, name: str, elsewhere: dict[str, Any]
) -> None:
    twice(store, clock, name)
    memory = coordinator(store, session_id="monday", **{"project_id": "billing", **elsewhere})
    said = {"merge": TEA, "supersede": "The port is 8443."}[name]
    memory.store(said, "semantic", tier="short_term", key="theirs", importance=0.9)
    other = cycle(store, "theirs", tenant=memory.context.root)
    done(store, step("rise"), other)
    clock.advance(hours=1)
    for at in (cycle(store), other):
        done(store, step(name), at)
    assert column(url, "tier")["theirs"] == "working"
    assert column(url, "state")["theirs"] is None
    assert set(column(url, "state").values()) != {None}


HOMES = {
    "x.s1.": ("s1", "x."),
    "s1.": ("s1", ""),
    "s1.x.": ("s1", "s1.x."),
    "x.s1.y.": ("s1", "x.s1.y."),
    "s1.s1.": ("s1", "s1."),
    "x._.": (None, "x."),
    "_._.": (None, "_."),
}


def test_a_home_is_a_namespace_without_its_own_session_at_the_end(
    store: TieredStore, url: str
) -> None:
    for namespace, (session, _) in HOMES.items():
        labels = ("acme", *namespace.split(".")[:-1])
        assert encode_namespace(labels).namespace == namespace
        told = {"session_id": session} if session else {}
        store.put(labels, f"in {namespace}", {"content": TEA, **told})
    found = store.run(read_memories(cycle(store), column(url, "id").values()))
    assert {one.key: one.home for one in found} == {f"in {n}": of[1] for n, of in HOMES.items()}


# At once


@pytest.mark.parametrize("name", BOTH)
def test_two_cycles_at_once_do_it_once(
    store: TieredStore, clock: Clock, url: str, name: str
) -> None:
    for number in range(12):
        for session, port in (("monday", 80), ("tuesday", 443), ("friday", 8443)):
            said = {"merge": TEA, "supersede": f"Port {number} of host {number} is {port}."}[name]
            about = f" of brand {number:x}" if name == "merge" else ""
            memory = coordinator(store, project_id="billing", session_id=session)
            note(memory, f"{session} {number}", said + about)
            clock.advance(minutes=1)
    done(store, step("rise"), cycle(store, "rise"))
    clock.advance(hours=1)
    both = [cycle(store, one) for one in ("first", "second")]
    decisions = judged(store, step(name), both[0])
    assert len(decisions) == 24

    def work(number: int) -> int:
        ordered = decisions if number % 2 else decisions[::-1]
        parts = [ordered[start : start + 3] for start in range(0, len(ordered), 3)]
        one, at = step(name), both[number % 2]
        return sum(sum(store.run(one.apply(at, some))["done"].values()) for some in parts)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    states = list(column(url, "state").values())
    gone = {"merge": "consolidated", "supersede": "superseded"}[name]
    assert (states.count(gone), states.count(None)) == (24, 12)
    moves = {row[0] for row in _sources(url)}
    assert len(moves) == len(_sources(url)) == 24


def _sources(url: str) -> list[tuple[int]]:
    """What was merged or superseded, once for each time."""
    query = """SELECT s.id FROM memory.events e
               CROSS JOIN LATERAL jsonb_array_elements_text(
                   coalesce(e.detail -> 'sources', jsonb_build_array(e.id))) AS s (id)
               WHERE e.kind IN ('merged', 'superseded')"""
    with psycopg.connect(url) as conn:
        return conn.execute(query).fetchall()


@pytest.mark.parametrize("name", BOTH)
@pytest.mark.parametrize("key", ["monday", "tuesday"])
def test_a_cycle_waits_for_whoever_writes_either_memory_and_leaves_what_changed(
    store: TieredStore, clock: Clock, url: str, name: str, key: str
) -> None:
    twice(store, clock, name)
    at, one = cycle(store), step(name)
    decisions = judged(store, one, at)
    assert len(decisions) == 1

    def writes() -> Flow[None]:
        yield Query((lock_call([("acme", f"billing.{key}.", key)], store.options),))
        applying = pool.submit(store.run, one.apply(at, decisions))
        wait_until(lambda: blocked(url))
        with psycopg.connect(url) as conn:
            later = [clock.now + timedelta(minutes=1), key]
            conn.execute("UPDATE memory.memories SET updated_at = %s WHERE key = %s", later)
        yield Query((), commit=True)
        left.update(applying.result(timeout=30)["left"])

    left: dict[str, int] = {}
    with ThreadPoolExecutor() as pool:
        store.run(writes())
    assert sum(left.values()) == 1
    assert set(column(url, "state").values()) == {None}
