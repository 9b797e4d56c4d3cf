"""Turns of any course: never over any budget, and left at any point the tables are consistent."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from langmem_tiers import Budget, MemoryCoordinator, MemoryOrchestrator, TieredStore
from langmem_tiers.core.errors import BudgetExceededError
from langmem_tiers.postgres.flow import Flow
from langmem_tiers.turn.assembly import assemble_context
from langmem_tiers.turn.orchestrator import commit
from tests.support.coordinating import coordinator
from tests.support.learning import broken
from tests.support.opening import Clock, tables, text_index
from tests.support.servers import fresh_database

MANY = pytest.param(
    500 if os.environ.get("LANGMEM_TIERS_PROOF") == "full" else 50, marks=pytest.mark.proof
)
COMMON = settings(
    derandomize=True, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
FACTS = ("The API key is rotated on Mondays.", "The vault is in the basement.", "ok")


class StoppedError(Exception):
    """Somebody stopped here."""


class World(NamedTuple):
    """A filled memory, where its database is, and its clock."""

    memory: MemoryCoordinator
    url: str
    clock: Clock


@pytest.fixture(scope="module")
def world(server_url: str) -> Iterator[World]:
    clock = Clock()
    with (
        fresh_database(server_url) as url,
        TieredStore(url, index=text_index(), clock=clock) as store,
    ):
        store.setup()
        memory = coordinator(store, project_id="ops", session_id="chat", agent_id="coder")
        memory.state.set_goal("books", "Close the books", constraints=["Before Friday"])
        memory.state.add_interaction("user", "Where is the vault?")
        for number in range(12):
            memory.store(f"Room {number} is red.", memory_type="semantic", key=f"k{number}")
            memory.store(f"Ann saw room {number} yesterday.", key=f"e{number}")
        yield World(memory, url, clock)


verbs = st.one_of(
    st.tuples(st.just("assemble_context"), st.tuples(st.sampled_from(["rooms", "vault", ""]))),
    st.tuples(st.just("assemble_context"), st.tuples(st.just("red rooms"), st.integers(0, 300))),
    st.tuples(st.just("memorize"), st.tuples(st.sampled_from(FACTS))),
    st.tuples(st.just("track_tool_invocation"), st.tuples(st.sampled_from(["look", "add"]))),
    st.tuples(st.just("note_progress"), st.just(("books", 0.1, "a step"))),
    st.tuples(st.just("wait"), st.tuples(st.integers(0, 20))),
)
limits = st.tuples(
    st.none() | st.integers(0, 600), st.none() | st.integers(0, 8), st.none() | st.integers(0, 40)
)


def words(text: str) -> int:
    return len(text.split())


courses = st.tuples(limits, st.lists(verbs, max_size=12), st.sampled_from(["commit", "leave"]))


@pytest.mark.parametrize("examples", [12, MANY])
def test_no_course_of_a_turn_goes_over_any_of_its_budgets(world: World, examples: int) -> None:
    check = given(courses)(lambda course: check_budgets(world, *course))
    settings(COMMON, max_examples=examples)(check)()


def check_budgets(world: World, given_: tuple[Any, Any, Any], course: list[Any], end: str) -> None:
    budget = Budget(tokens=given_[0], events=given_[1], seconds=given_[2])
    shown = done = 0
    with MemoryOrchestrator(world.memory, budget=budget, count_tokens=words) as turn:
        for verb, arguments in course:
            if verb == "wait":
                world.clock.advance(seconds=arguments[0])
                continue
            before = turn.get_budget_status()
            spent = 0 in (before.events_left, before.seconds_left) or (
                verb == "assemble_context" and before.tokens_left == 0
            )
            try:
                found = getattr(turn, verb)(*arguments)
            except BudgetExceededError:
                assert spent
                continue
            assert not spent
            done += 1
            if verb == "assemble_context":
                shown += found.tokens
                assert found.tokens == (words(found.text) if found.text else 0)
                assert found.tokens <= min(
                    one for one in (*arguments[1:], before.tokens_left, 10**9) if one is not None
                )
        status = turn.get_budget_status()
        assert (status.tokens_used, status.events_used) == (shown, done)
        assert budget.tokens is None or shown <= budget.tokens
        assert budget.events is None or done <= budget.events
        if end == "commit":
            turn.commit()


@pytest.mark.parametrize("examples", [8, MANY])
def test_a_turn_left_after_any_course_leaves_its_trace_and_accesses_alone(
    world: World, examples: int
) -> None:
    check = given(st.lists(verbs, max_size=8))(lambda course: check_left(world, course))
    settings(COMMON, max_examples=examples)(check)()


def check_left(world: World, course: list[Any]) -> None:
    before = tables(world.url)
    with MemoryOrchestrator(world.memory) as turn:
        for verb, arguments in course:
            if verb != "wait":
                getattr(turn, verb)(*arguments)
        name = turn.to_state()["turn"]

    assert changed(before, tables(world.url)) <= {"events", "usage"}
    kept = [(one.kind, one.reasons) for one in turn.history(name).events]
    assert kept[:-1] == [(one.kind, one.reasons) for one in turn.trace.events]
    assert kept[-1][0] == "abandoned"
    assert broken(world.url) == {}


def changed(before: dict[str, Any], after: dict[str, Any]) -> set[str]:
    return {name for name, rows in after.items() if rows != before[name]}


def flow_until(flow: Flow[Any], effects: int) -> Flow[Any]:
    """A flow that is stopped after so many of its effects; what it did is rolled back."""
    answer: Any = None
    for _ in range(effects):
        try:
            effect = flow.send(answer)
        except StopIteration as done:
            return done.value
        answer = yield effect
    flow.close()
    raise StoppedError


def stopped(run: Callable[[int], Any]) -> Iterator[int]:
    """Each number of steps after which it is stopped, until it comes to its end."""
    for steps in range(100):
        try:
            run(steps)
        except StoppedError:
            yield steps
        else:
            return
    raise AssertionError("it has no end")


def test_a_turn_that_is_stopped_within_its_assembly_leaves_its_trace_alone(world: World) -> None:
    store, sources = world.memory.tiered_store, {"mine": lambda *_: "mine"}
    before = tables(world.url)

    def run(steps: int) -> None:
        with MemoryOrchestrator(world.memory, sources=sources) as turn:
            store.run(flow_until(assemble_context(turn, "Which rooms are red?"), steps))

    assert list(stopped(run))[-1] >= 5  # conversation, notes, goals, and two that recall
    assert changed(before, tables(world.url)) <= {"events", "usage"}


def test_a_turn_that_is_stopped_within_its_commit_leaves_its_trace_alone_or_all_of_it(
    world: World,
) -> None:
    store = world.memory.tiered_store

    def run(effects: int) -> None:
        before, turn = tables(world.url), MemoryOrchestrator(world.memory)
        try:
            with turn:
                for fact in FACTS:
                    turn.memorize(f"{fact} It is known.")
                turn.track_tool_invocation("look", {"at": "1"}, error="ValueError: no")
                turn.track_tool_invocation("look", {"at": "2"}, result="yes")
                turn.note_progress("books", 0.1, "a step")
                store.run(flow_until(commit(turn), effects))
        except StoppedError:
            ended = turn.history(turn.to_state()["turn"]).events[-1].kind
            kept = changed(before, tables(world.url)) - {"events"}
            assert bool(kept) == (ended == "committed")  # by its last effect
            raise

    assert list(stopped(run))[-1] >= 4
    assert broken(world.url) == {}
