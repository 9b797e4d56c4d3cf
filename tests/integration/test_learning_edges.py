"""What a caller can get wrong about learning is refused, in words that say what to give instead."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any, cast

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
from langmem_tiers.learning.outcome import Run
from langmem_tiers.learning.promotion_policy import PromotionPolicy
from langmem_tiers.learning.signature import Signature
from tests.support.graphs import ACME, TASK, asks, chain, learned, memories
from tests.support.opening import tables, text_index

ASKED = {"messages": [asks()]}
LESSON: dict[str, Any] = {
    "task_id": TASK,
    "original_approach": "guessed",
    "failure_reason": "there is no such invoice",
    "improved_approach": "look it up",
}
ATTEMPT = FailedAttempt(task_id=TASK, approach="guessed", error="ValueError: no such invoice")


# The nodes


def recalling(**options: Any) -> Callable[[], Any]:
    return partial(create_recall_node, **options)


def evolving(**options: Any) -> Callable[[], Any]:
    given: Any = {"interaction": "interaction", "success_metrics": "metrics", **options}
    return partial(create_evolution_node, **given)


async def judge(_: Any) -> bool:
    return True


MODEL: Any = "gpt-4o"
WRONG_VALUES: list[tuple[Callable[[], Any], str]] = [
    *((recalling(lessons=wrong), "^lessons is ") for wrong in (-1, 101, True, "3")),
    (recalling(limit=-1), "^limit is "),
    (partial(create_outcome_node, cast("Any", None)), "success is a key of the state, or"),
    (evolving(interaction=LESSON), "^interaction is a key of the state, or"),
    (evolving(success_metrics=3), "^success_metrics is a key of the state, or"),
    (evolving(judged=True), "^judged is a key of the state, or"),
    (evolving(threshold=2), "threshold"),
]
WRONG_TYPES: list[tuple[Callable[[], Any], str]] = [
    *(
        (recalling(memory_types=wrong), "memory_types is a list of names, not")
        for wrong in ("reflexion", 3, ["reflexion", 3])
    ),
    (partial(create_reflexion_node, model=MODEL), "a model is a LangChain chat model, not str"),
    (partial(create_promotion_node, model=MODEL), "a model is a LangChain chat model, not str"),
    (partial(create_promotion_node, policy=MODEL), "policy is a PromotionPolicy, not str"),
    (partial(Reflexion, **LESSON, failure=MODEL), "failure is a Signature, not str"),
    *(
        (given, f"^{what} is an async function.*in a node")
        for one in (judge, partial(judge))
        for what, given in (
            ("success", partial(create_outcome_node, cast("Any", one))),
            ("attempts", partial(create_reflexion_node, attempts=cast("Any", one))),
            ("interaction", evolving(interaction=one)),
        )
    ),
]


@pytest.mark.parametrize(
    ("error", "wrong"), [(InvalidInputError, WRONG_VALUES), (InvalidTypeError, WRONG_TYPES)]
)
def test_what_cannot_work_is_refused_by_its_name_before_any_run(
    error: type[Exception], wrong: list[tuple[Callable[[], Any], str]]
) -> None:
    for create, said in wrong:
        with pytest.raises(error, match=said):
            create()


UNTOLD: list[tuple[list[Any], str]] = [
    ([create_recall_node(), create_outcome_node("worked")], "no 'worked' yet: write it before"),
    (
        [create_recall_node(), create_outcome_node(lambda _: cast("Any", "yes"))],
        "True, False or None, not 'yes'",
    ),
    ([create_outcome_node(lambda _: True)], r"recalled_run.*recall node before this one"),
    ([evolving()()], "no 'metrics' yet"),
]


@pytest.mark.parametrize(("nodes", "said"), UNTOLD)
def test_what_a_state_does_not_tell_is_refused_with_what_to_do(
    store: TieredStore, nodes: list[Any], said: str
) -> None:
    with pytest.raises(InvalidInputError, match=said):
        chain(store, *nodes).invoke({**ASKED, "interaction": {"said": "x"}}, context=ACME)


# The verbs


def test_the_wrong_kind_of_thing_is_refused_with_the_right_one(
    store: TieredStore, url: str, memory: MemoryCoordinator
) -> None:
    learned(store)
    before = tables(url)["exposures"]
    failure = "an exception or a text, not"
    several: list[tuple[Callable[[Any], Any], str]] = [
        (
            lambda one: one.learning.record_outcome(recollections=True),
            r"not bool; what came of them is",
        ),
        (lambda one: one.learning.record_outcome("r1"), r"not str; .* is found by run_id=…"),
        (
            lambda one: one.learning.record_outcome(one.get_context("x")[0]),
            r"for one, give \[memory\]",
        ),
        (lambda one: one.learning.record_outcome(run_id="r"), "the run went, is True or False"),
        (lambda one: one.learning.record_exposure(3, run_id="r"), "not int"),
        (lambda one: one.learning.get_lessons(404), f"{failure} int; pass str"),
        (lambda one: one.learning.get_lessons({"error": "x"}), f"{failure} dict"),
        (
            lambda one: one.learning.get_lessons(ToolMessage("x", tool_call_id="1")),
            f"{failure} ToolMessage",
        ),
        (lambda one: one.learning.get_lessons(tools=404), "a tool is a string, not int"),
        (
            lambda one: one.learning.reflect(ATTEMPT),
            r"a list of attempts: for one, reflect\(\[attempt\]",
        ),
        (lambda one: one.learning.reflect(None), "an attempt is a FailedAttempt, not None"),
    ]
    for call, said in several:
        with pytest.raises(InvalidTypeError, match=said):
            call(memory)
    wrong: Any
    for wrong in (-1, 101, True, "3"):
        with pytest.raises(InvalidInputError, match=r"^limit is "):
            memory.learning.get_lessons(tools="add", limit=wrong)
    assert len(memory.learning.get_lessons(tools="add", limit=100)) == 1
    assert tables(url)["exposures"] == before
    assert memories(store, "attempt") == []
    memory.learning.reflect(one for one in [ATTEMPT])  # type: ignore[arg-type]
    assert len(memories(store, "attempt")) == 1


UNSTORABLE: list[Any] = ["a\0b", "half \ud800", "x" * 401, 3, b"run"]
"""What is no name: Postgres cannot hold it, or it is too long, or no text."""


def test_a_name_or_text_that_cannot_be_stored_is_refused_before_anything_is_written(
    store: TieredStore, url: str, memory: MemoryCoordinator
) -> None:
    names: list[Callable[..., Any]] = [
        lambda one, bad: one.get_context("x", run_id=Run("r", bad)),
        lambda one, bad: one.get_context_batch(["x"], run_id=bad),
        lambda one, bad: one.learning.record_exposure(one.get_context("x"), run_id=Run("r", bad)),
        lambda one, bad: one.learning.record_outcome(run_id=bad),
        lambda one, bad: one.learning.get_lessons(tools=["add", bad]),
        lambda one, bad: one.learning.get_lessons(Signature(tool=bad, error="E", template="")),
        lambda one, bad: one.store_reflexion(**LESSON, tool=bad),
        lambda one, bad: one.learning.reflect([replace(ATTEMPT, tool=bad)]),
    ]
    texts: list[Callable[..., Any]] = [
        lambda one, bad: one.learning.get_lessons(Signature(tool=None, error="E", template=bad)),
        *(
            lambda one, bad, name=name: one.learning.reflect([replace(ATTEMPT, **{name: bad})])
            for name in ("task_id", "approach", "error", "succeeded_with")
        ),
        lambda one, bad: one.learning.record_outcome([replace(one.get_context("")[0], key=bad)]),
        lambda one, bad: one.learning.record_exposure(
            [replace(one.get_context("")[0], key=bad)], run_id="r"
        ),
    ]
    learned(store)
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

    several: list[tuple[Callable[[Any], Any], Any, str]] = [
        (memory.learning.rollback, stays, r"pass the Promotion's \.move"),
        (memory.learning.rollback, stays.move, "nothing was promoted or demoted: the move is None"),
    ]
    for verb in (memory.learning.explain, memory.promote_to_long_term):
        several += [
            (verb, stored, r"not StoreResult: pass the StoreResult's \.key"),
            (verb, None, "the key is None"),
            (verb, 3, r"a key is a string, not int$"),
        ]
    for call, given, said in several:
        with pytest.raises(InvalidTypeError, match=said):
            call(given)


def test_a_policy_that_looks_at_an_unknown_type_is_refused_with_the_nearest(
    store: TieredStore, memory: MemoryCoordinator
) -> None:
    misspelt = PromotionPolicy(memory_types=("semantic", "reflexions"))
    own = MemoryCoordinator(store, context=ACME, policy=misspelt)
    graph = chain(store, create_promotion_node(policy=misspelt))
    for promoting in (
        partial(memory.learning.promote, policy=misspelt),
        own.learning.promote,
        partial(graph.invoke, ASKED, context=ACME),
    ):
        with pytest.raises(InvalidInputError, match="'reflexions'; did you mean 'reflexion'"):
            promoting()


# Databases that are not as they should be


@pytest.mark.parametrize("right", ["read-only transactions", "the right to read"])
async def test_what_is_known_of_a_memory_is_told_where_nothing_may_be_written(
    store: TieredStore, url: str, memory: MemoryCoordinator, right: str
) -> None:
    key = str(memory.store("Keys rotate on Mondays", memory_type="semantic").key)
    store.close()
    options = "-c default_transaction_read_only=on" if right.startswith("read-only") else ""
    with psycopg.connect(url, autocommit=True) as conn, _reader(conn) as reader:
        user = {} if options else {"user": reader}
        reading = psycopg.conninfo.make_conninfo(url, options=options, **user)
        with TieredStore(reading, index=text_index()) as read_only:
            found = MemoryCoordinator(read_only, context=ACME)
            assert found.get(key) is not None
            assert found.learning.explain(key).access_count == 0
            assert (await found.learning.aexplain(key)).content == "Keys rotate on Mondays"


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
