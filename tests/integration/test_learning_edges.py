"""What a caller can get wrong about learning is refused, in words that say what to give instead."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import product
from typing import Any

import psycopg
import pytest
from langchain_core.messages import ToolMessage

from langmem_tiers import (
    FailedAttempt,
    MemoryCoordinator,
    Reflexion,
    TieredStore,
    create_evolution_node,
    create_outcome_node,
    create_promotion_node,
    create_recall_node,
    create_reflexion_node,
)
from langmem_tiers.core.errors import InvalidInputError, InvalidTypeError
from langmem_tiers.graph.node import checked_blocking
from langmem_tiers.learn.outcome import Run
from langmem_tiers.learn.promotion_rules import PromotionPolicy
from langmem_tiers.learn.signature import Signature
from tests.support.graphs import (
    ACME,
    TASK,
    asks,
    chain,
    learned,
    memories,
)
from tests.support.opening import tables, text_index

ASKED = {"messages": [asks()]}
LESSON: dict[str, Any] = {
    "task_id": TASK,
    "original_approach": "guessed",
    "failure_reason": "there is no such invoice",
    "improved_approach": "look it up",
}
ATTEMPT = FailedAttempt(task_id=TASK, approach="guessed", error="ValueError: no such invoice")


# Options of the surfaces


def test_a_value_that_cannot_be_is_refused_by_its_name_before_any_run(
    memory: MemoryCoordinator,
) -> None:
    wrong: Any
    for wrong in (-1, 101, True, "3"):
        with pytest.raises(InvalidInputError, match=r"^lessons is "):
            create_recall_node(lessons=wrong)
        with pytest.raises(InvalidInputError, match=r"^limit is "):
            memory.get_lessons(tools="add", limit=wrong)
    assert memory.get_lessons(tools="add", limit=100) == []
    for wrong in ("reflexion", 3, ["reflexion", 3]):
        with pytest.raises(InvalidTypeError, match=r"memory_types is a list of names, not"):
            create_recall_node(memory_types=wrong)
    wrong = "gpt-4o"
    for create in (create_reflexion_node, create_promotion_node):
        with pytest.raises(InvalidTypeError, match="a model is a LangChain chat model, not str"):
            create(model=wrong)
    with pytest.raises(InvalidTypeError, match="policy is a PromotionPolicy, not str"):
        create_promotion_node(policy=wrong)
    with pytest.raises(InvalidTypeError, match="failure is a Signature, not str"):
        Reflexion(**LESSON, failure=wrong)


# Functions that would have to be awaited


async def judge(_: Any) -> bool:
    return True


def test_a_function_that_must_be_awaited_is_refused_before_any_run() -> None:
    creates: dict[str, Callable[[Any], Any]] = {
        "success": create_outcome_node,
        "attempts": lambda one: create_reflexion_node(attempts=one),
        "interaction": lambda one: create_evolution_node(interaction=one, success_metrics="m"),
    }
    for (what, create), given in product(creates.items(), (judge, functools.partial(judge))):
        with pytest.raises(InvalidTypeError, match=f"^{what} is an async function.*in a node"):
            create(given)
    checked_blocking(functools.partial(lambda _: True), "success")


# The verbs


def test_the_wrong_kind_of_thing_is_refused_with_the_right_one(
    ready: TieredStore, url: str, memory: MemoryCoordinator
) -> None:
    learned(ready)
    before = tables(url)["exposures"]
    failure = "an exception or a text, not"
    several: list[tuple[Callable[[Any], Any], str]] = [
        (lambda one: one.record_outcome(recollections=True), r"not bool; what came of them is"),
        (lambda one: one.record_outcome("r1"), r"not str; .* is found by run_id=…"),
        (lambda one: one.record_outcome(one.get_context("x")[0]), r"for one, give \[memory\]"),
        (lambda one: one.record_outcome(run_id="r"), "not None: say how the run went"),
        (lambda one: one.expose(3, run_id="r"), "not int"),
        (lambda one: one.get_lessons(404), f"{failure} int; pass str"),
        (lambda one: one.get_lessons({"error": "x"}), f"{failure} dict"),
        (lambda one: one.get_lessons(ToolMessage("x", tool_call_id="1")), f"{failure} ToolMessage"),
        (lambda one: one.get_lessons(tools=404), "a tool is a string, not int"),
        (lambda one: one.reflect(ATTEMPT), r"a list of attempts: for one, reflect\(\[attempt\]"),
        (lambda one: one.reflect(None), "an attempt is a FailedAttempt, not NoneType"),
    ]
    for call, said in several:
        with pytest.raises(InvalidTypeError, match=said):
            call(memory)
    assert tables(url)["exposures"] == before
    assert memories(ready, "episodic") == []
    memory.reflect(one for one in [ATTEMPT])  # type: ignore[arg-type]
    assert len(memories(ready, "episodic")) == 1


UNSTORABLE: list[Any] = ["a\0b", "half \ud800", "x" * 401, 3, b"run"]
"""What is no name: Postgres cannot hold it, or it is too long, or no text."""


def test_a_name_or_text_that_cannot_be_stored_is_refused_before_anything_is_written(
    ready: TieredStore, url: str, memory: MemoryCoordinator
) -> None:
    names: list[Callable[..., Any]] = [
        lambda one, bad: one.get_context("x", run_id=Run("r", bad)),
        lambda one, bad: one.get_context_batch(["x"], run_id=bad),
        lambda one, bad: one.expose(one.get_context("x"), run_id=Run("r", bad)),
        lambda one, bad: one.record_outcome(run_id=bad),
        lambda one, bad: one.get_lessons(tools=["add", bad]),
        lambda one, bad: one.get_lessons(Signature(tool=bad, error="E", template="")),
        lambda one, bad: one.store_reflexion(**LESSON, tool=bad),
        lambda one, bad: one.reflect([replace(ATTEMPT, tool=bad)]),
    ]
    texts: list[Callable[..., Any]] = [
        lambda one, bad: one.get_lessons(Signature(tool=None, error="E", template=bad)),
        *(
            lambda one, bad, name=name: one.reflect([replace(ATTEMPT, **{name: bad})])
            for name in ("task_id", "approach", "error", "succeeded_with")
        ),
        lambda one, bad: one.record_outcome([replace(one.get_context("")[0], key=bad)]),
        lambda one, bad: one.expose([replace(one.get_context("")[0], key=bad)], run_id="r"),
    ]
    learned(ready)
    before = written(url)
    for calls, several in ((names, [*UNSTORABLE, ""]), (texts, ["a\0b", "half \ud800", 3])):
        for call, bad in product(calls, several):
            error = InvalidInputError if isinstance(bad, str) else InvalidTypeError
            with pytest.raises(error):
                call(memory, bad)
    assert written(url) == before


def written(url: str) -> dict[str, Any]:
    """All that is stored but for counts of accesses, which a read leaves behind."""
    return {name: rows for name, rows in tables(url).items() if name != "usage"}


def test_what_has_a_key_or_a_move_is_not_taken_for_it(memory: MemoryCoordinator) -> None:
    stored = memory.store("Keys rotate on Mondays", memory_type="semantic")
    stays = memory.promote_to_long_term(str(stored.key))

    for verb in (memory.explain, memory.promote_to_long_term):
        with pytest.raises(
            InvalidTypeError, match=r"not StoreResult: pass the StoreResult's \.key"
        ):
            verb(stored)  # type: ignore[arg-type]
        with pytest.raises(InvalidTypeError, match="the key is None"):
            verb(None)  # type: ignore[arg-type]
        with pytest.raises(InvalidTypeError, match=r"a key is a string, not int$"):
            verb(3)  # type: ignore[arg-type]
    with pytest.raises(InvalidTypeError, match=r"pass the Promotion's \.move"):
        memory.rollback(stays)  # type: ignore[arg-type]
    with pytest.raises(InvalidTypeError, match="nothing was promoted or demoted: the move is None"):
        memory.rollback(stays.move)  # type: ignore[arg-type]


# The types that a policy looks at


async def test_a_policy_that_looks_at_an_unknown_type_is_refused_with_the_nearest(
    ready: TieredStore, memory: MemoryCoordinator
) -> None:
    misspelt = PromotionPolicy(memory_types=("semantic", "reflexions"))
    said = "no memory type 'reflexions'; did you mean 'reflexion'"
    with pytest.raises(InvalidInputError, match=said):
        memory.promote(policy=misspelt)
    with pytest.raises(InvalidInputError, match=said):
        await memory.apromote(policy=misspelt)
    with pytest.raises(InvalidInputError, match=said):
        MemoryCoordinator(ready, context=ACME, policy=misspelt).promote()
    graph = chain(ready, create_promotion_node(policy=misspelt))
    with pytest.raises(InvalidInputError, match=said):
        graph.invoke(ASKED, context=ACME)


# Databases that are not as they should be


@pytest.mark.parametrize("right", ["read-only transactions", "the right to read"])
async def test_what_is_known_of_a_memory_is_told_where_nothing_may_be_written(
    ready: TieredStore, url: str, memory: MemoryCoordinator, right: str
) -> None:
    key = str(memory.store("Keys rotate on Mondays", memory_type="semantic").key)
    ready.close()
    options = "-c default_transaction_read_only=on" if right.startswith("read-only") else ""
    with psycopg.connect(url, autocommit=True) as conn, _reader(conn) as reader:
        user = {} if options else {"user": reader}
        reading = psycopg.conninfo.make_conninfo(url, options=options, **user)
        with TieredStore(reading, index=text_index()) as store:
            found = MemoryCoordinator(store, context=ACME)
            assert found.get(key) is not None
            assert found.explain(key).access_count == 0
            assert (await found.aexplain(key)).content == "Keys rotate on Mondays"


@contextmanager
def _reader(conn: psycopg.Connection[Any]) -> Iterator[str]:
    """A role that may read the tables of a store, and no more."""
    schemas = "memory, short_term, working, long_term"
    conn.execute("CREATE ROLE reader LOGIN")
    try:
        conn.execute(f"GRANT USAGE ON SCHEMA {schemas} TO reader".encode())
        conn.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA {schemas} TO reader".encode())
        yield "reader"
    finally:
        conn.execute("DROP OWNED BY reader")
        conn.execute("DROP ROLE reader")
