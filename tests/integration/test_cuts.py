"""A connection that is cut in the middle of a batch writes all of it or none."""

from __future__ import annotations

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from langgraph.store.base import GetOp, Op, PutOp

from langmem_tiers import TieredStore
from langmem_tiers.errors import DatabaseUnavailableError
from tests.support.invariants import broken_rows, values
from tests.support.proxy import CuttingProxy
from tests.support.servers import blocked, terminate_blocked, wait_until

NAMESPACE = ("acme", "cuts")
SIZE = 20
POOL = {"min_size": 1, "max_size": 2}


def puts(turn: int) -> list[Op]:
    return [
        PutOp(NAMESPACE, str(i), {"text": f"turn {turn}, {i}", "turn": turn}) for i in range(SIZE)
    ]


def mixed(turn: int) -> list[Op]:
    return [GetOp(NAMESPACE, "0"), *puts(turn)]


def turn_of(url: str) -> int:
    """The one turn that all rows are of."""
    turns = [value["turn"] for value in values(url).values()]
    assert len(turns) == SIZE
    assert len(set(turns)) == 1
    return int(turns[0])


def attempt(store: TieredStore, ops: list[Op]) -> bool:
    """Run a batch; whether it was acknowledged. Only one error may come instead."""
    try:
        store.batch(ops)
    except DatabaseUnavailableError:
        return False
    return True


@pytest.fixture
def filled(database_url: str, index: dict[str, Any]) -> Iterator[TieredStore]:
    with TieredStore.from_conn_string(database_url, index=index, pool_config=POOL) as store:
        store.setup()
        store.batch(puts(0))
        yield store


@pytest.mark.parametrize("table", ["memories", "vectors"])
@pytest.mark.parametrize("kind", [puts, mixed])
def test_a_terminated_session_writes_all_or_nothing(
    filled: TieredStore, database_url: str, table: str, kind: Any
) -> None:
    with psycopg.connect(database_url) as conn, ThreadPoolExecutor() as pool:
        conn.execute(f"LOCK TABLE memory.{table}".encode())
        running = pool.submit(attempt, filled, kind(1))
        wait_until(lambda: blocked(database_url))
        assert terminate_blocked(database_url) == 1
        conn.rollback()
        acknowledged = running.result(timeout=20)
    assert turn_of(database_url) == (1 if acknowledged else 0)
    filled.batch(kind(2))
    assert turn_of(database_url) == 2
    assert broken_rows(database_url) == {}


def cut_at_many_places(url: str, index: dict[str, Any], cuts: int, seed: int) -> int:
    """Cut the connection after every kind of message; how many cuts hit a batch."""
    rng, hits, stored = random.Random(seed), 0, 0  # noqa: S311 - seeded, not secret
    with (
        CuttingProxy(url) as proxy,
        TieredStore.from_conn_string(proxy.url, index=index, pool_config=POOL) as store,
    ):
        for turn in range(1, cuts + 1):
            upwards = rng.random() < 0.5
            proxy.cut_after(rng.randrange(12_000 if upwards else 1_200), upwards=upwards)
            acknowledged = attempt(store, rng.choice([puts, mixed])(turn))
            hits += proxy.disarm()
            now = turn_of(url)
            assert now == turn if acknowledged else now in (stored, turn)
            stored = now
    return hits


def test_a_cut_connection_writes_all_or_nothing(
    filled: TieredStore, database_url: str, index: dict[str, Any]
) -> None:
    assert filled is not None
    assert cut_at_many_places(database_url, index, cuts=40, seed=1) >= 10
    assert broken_rows(database_url) == {}


@pytest.mark.proof
def test_a_thousand_cuts_write_all_or_nothing(
    filled: TieredStore, database_url: str, index: dict[str, Any]
) -> None:
    assert filled is not None
    assert cut_at_many_places(database_url, index, cuts=1000, seed=2) >= 250
    assert broken_rows(database_url) == {}
