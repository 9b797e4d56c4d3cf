from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from langmem_tiers.core.errors import DatabaseError
from langmem_tiers.postgres.flow import Lookup, Rows
from langmem_tiers.postgres.lookups import Lookups


def row(lookup: Lookup) -> tuple[object, ...]:
    return (*lookup, {"value": lookup.key})


async def test_tasks_that_wait_share_one_statement_and_each_gets_its_own_row() -> None:
    asked: list[list[Lookup]] = []

    async def fetch(lookups: Sequence[Lookup]) -> Rows:
        asked.append(list(lookups))
        await asyncio.sleep(0)
        return [row(lookup) for lookup in lookups if lookup.key != "absent"]

    lookups = Lookups(fetch)
    keys = ["a", "b", "b", "absent", "c"]
    found = await asyncio.gather(*(lookups.find(Lookup("t", "", key)) for key in keys))
    assert [[one[2] for one in rows] for rows in found] == [["a"], ["b"], ["b"], [], ["c"]]
    assert found[1][0][3] is not found[2][0][3]
    assert [len(statement) for statement in asked] == [1, 4]
    await lookups.drain()


async def test_an_error_reaches_everybody_who_waited_and_nobody_after() -> None:
    failing = True

    async def fetch(lookups: Sequence[Lookup]) -> Rows:
        await asyncio.sleep(0)
        if failing and len(lookups) > 1:
            raise DatabaseError("refused")
        return [row(lookup) for lookup in lookups]

    lookups = Lookups(fetch)
    results = await asyncio.gather(
        *(lookups.find(Lookup("t", "", str(n))) for n in range(4)), return_exceptions=True
    )
    assert [type(one) for one in results] == [list, DatabaseError, DatabaseError, DatabaseError]
    failing = False
    assert await lookups.find(Lookup("t", "", "x"))


async def test_a_cancelled_caller_leaves_the_others_their_rows() -> None:
    async def fetch(lookups: Sequence[Lookup]) -> Rows:
        await asyncio.sleep(0.01)
        return [row(lookup) for lookup in lookups]

    lookups = Lookups(fetch)
    tasks = [asyncio.create_task(lookups.find(Lookup("t", "", str(n)))) for n in range(4)]
    await asyncio.sleep(0)
    tasks[0].cancel()
    tasks[2].cancel()
    with pytest.raises(asyncio.CancelledError):
        await tasks[0]
    assert await tasks[1]
    assert await tasks[3]
    await lookups.drain()
