"""What is taken back, and all that stands on it."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest

from langmem_tiers import InvalidInputError
from langmem_tiers.core.errors import RollbackError
from tests.support.coordinating import Caller, calling, keys
from tests.support.learning import Team, broken
from tests.support.opening import Opener, tables


async def found(call: Caller, query: str = "", **options: Any) -> list[str]:
    return sorted(keys(await call("get_context", query, limit=100, **options)))


async def chain(call: Caller, *names: str) -> None:
    """Memories of which each was derived from the one before."""
    for name, before in zip(names, [None, *names], strict=False):
        origins = [] if before is None else [before]
        await call("store", f"fact {name}", key=name, derived_from=origins)


def stored(url: str) -> dict[str, list[tuple[Any, ...]]]:
    """Every row but those of events."""
    return {name: rows for name, rows in tables(url).items() if name != "events"}


async def test_what_came_from_a_retracted_memory_is_suspect_also_if_it_comes_later(
    call: Caller, url: str
) -> None:
    await chain(call, "a", "b", "c")
    await call("store", "fact z", key="z")
    done = await call("retract", "a", reason="a rumour")
    assert done.suspects == ("b", "c")
    await call("store", "fact d", key="d", derived_from=["c"])
    assert await found(call) == await found(call, "fact") == ["z"]
    assert (await call("get", "d")).content == "fact d"
    before = stored(url)
    again = await call("retract", "a", reason="another")
    assert (again.move, again.suspects) == (done.move, ())
    assert stored(url) | {"usage": []} == before | {"usage": []}
    assert (await call("restore", "a")).restored == ("b", "c", "d")
    assert await found(call) == ["a", "b", "c", "d", "z"]


async def test_one_of_two_retractions_is_enough(call: Caller, url: str) -> None:
    for one in ("a", "b"):
        await call("store", f"fact {one}", key=one)
    await call("store", "fact c", key="c", derived_from=["a", "b"])
    before = stored(url)
    first = await call("retract", "a", reason="a rumour")
    await call("retract", "b", reason="a rumour")
    assert await call("rollback", first.move)
    assert await found(call) == ["a"]
    with pytest.raises(InvalidInputError, match="came from 'b'"):
        await call("restore", "c")
    await call("restore", "b")
    assert stored(url) == before
    with pytest.raises(InvalidInputError, match="is current"):
        await call("restore", "b")


async def test_what_came_from_a_deleted_retracted_memory_stays_out_until_it_is_restored(
    call: Caller,
) -> None:
    await chain(call, "a", "b", "c")
    await call("retract", "a", reason="a rumour")
    await call("delete_memory", "a")
    assert await found(call) == []
    told = await call("explain", "b")
    assert told.state == "retracted"
    assert "it came from a, which was deleted" in str(told)
    assert (await call("restore", "b")).restored == ("c",)
    assert await found(call) == ["b", "c"]


async def test_what_came_from_an_expired_retracted_memory_stays_out(
    open_store: Opener, url: str
) -> None:
    ttl: Any = {"omit_expired": True}
    async with calling(open_store, url, ttl=ttl, project_id="p", session_id="s") as call:
        await call("store", "brief", key="a", tier="short_term")
        await call("store", "fact", key="b", tier="working", derived_from=["a"])
        await call("retract", "a", reason="a rumour")
        open_store.clock.advance(days=1)
        assert await call.memory.tiered_store.asweep_ttl() == 1
        assert await found(call) == []


async def test_explain_tells_what_makes_a_memory_suspect(call: Caller) -> None:
    await chain(call, "a", "b", "c")
    await call("retract", "a", reason="a rumour")
    told = await call("explain", "c")
    assert [(one.path, one.state) for one in told.origins] == [
        (("c", "b"), "suspect"),
        (("c", "b", "a"), "retracted"),
    ]
    assert "retracted: a → b → c" in str(told)
    assert [one.key for one in (await call("explain", "a")).derived] == ["b"]
    assert "from 2026-03-01, recorded 2026-03-01" in str(told)


async def test_a_successor_of_a_retracted_memory_is_suspect(ours: Team, url: str) -> None:
    promotion = await ours.promoted()
    before = stored(url)
    done = await ours.billing("retract", promotion.key, reason="it does not help")
    assert done.suspects == (promotion.successor,)
    assert await ours.context_keys(ours.billing) == []
    await ours.billing("restore", promotion.key)
    assert stored(url) == before


@pytest.mark.parametrize("how", ["rollback", "delete"])
async def test_the_end_of_a_successor_does_not_bring_back_what_came_from_a_retracted_memory(
    ours: Team, url: str, how: str
) -> None:
    await ours.billing("store", "The invoice has an amount", key="origin")
    key = await ours.proven()
    store = ours.store
    value = (await store.aget(("acme", "billing-service"), key)).value  # type: ignore[union-attr]
    fields = {"content": value["content"], "memory_type": "reflexion", "key": key}
    await ours.billing("store_many", [{**fields, "derived_from": ["origin"]}])
    promotion = await ours.billing("promote_to_long_term", key)
    assert promotion.promoted
    done = await ours.billing("retract", "origin", reason="a rumour")
    assert set(done.suspects) == {key, promotion.successor}
    if how == "rollback":
        assert await ours.billing("rollback", promotion.move)
    else:
        assert await ours.billing("delete_memory", promotion.successor)
    assert (await ours.states())[key] == "suspect"
    assert (await ours.billing("restore", "origin")).restored == (key,)
    state = None if how == "rollback" else "consolidated"
    assert (await ours.states()) == {key: state, "origin": None}
    assert broken(url) == {}


async def test_a_memory_that_something_was_derived_from_is_promoted_all_the_same(
    ours: Team, url: str
) -> None:
    key = await ours.proven()
    await ours.billing("store", "Retries need a key too.", key="child", derived_from=[key])
    promotion = await ours.billing("promote_to_long_term", key)
    assert promotion.promoted
    assert await ours.billing("delete_memory", "child")
    assert (await ours.states())[key] == "consolidated"
    assert broken(url) == {}


async def test_a_retraction_stands_in_the_way_of_what_it_stands_on(ours: Team) -> None:
    promotion = await ours.promoted()
    done = await ours.billing("retract", promotion.successor, reason="it does not help")
    with pytest.raises(RollbackError, match=done.move):
        await ours.billing("rollback", promotion.move)


async def test_a_retraction_reaches_thousands_in_one_go(call: Caller, url: str) -> None:
    await call("store", "fact", key="root")
    with psycopg.connect(url) as conn:
        conn.execute("""
            INSERT INTO memory.memories
                (tenant, tier, namespace, key, value, created_at, updated_at)
            SELECT 'acme', 'working', 'p.', 'k' || i, '{"content": "fact"}', now(), now()
            FROM generate_series(1, 6000) i""")
        conn.execute("""
            INSERT INTO memory.lineage (tenant, id, source, event, derived)
            SELECT 'acme', m.id, s.id, 'e', true FROM memory.memories m JOIN memory.memories s
            ON s.key = CASE WHEN m.key = 'k1' OR right(m.key, 1) <> '0' THEN 'root'
                       ELSE 'k' || substr(m.key, 2)::int - 10 END
            WHERE m.key <> 'root' AND m.key <> 'k10'""")
    done = await call("retract", "root", reason="a rumour")
    assert len(done.suspects) == 5400  # those that end in 0 hang on k10, which came from nothing
    assert len((await call("retract", "k10", reason="a rumour")).suspects) == 599
    assert len((await call("restore", "root")).restored) == 5400


async def test_what_is_derived_while_its_origin_is_retracted_is_suspect(
    call: Caller, url: str
) -> None:
    await call("store", "fact root", key="root")
    await call("store", "fact middle", key="middle", derived_from=["root"])

    async def derive(number: int) -> None:
        await call("store", f"fact {number}", key=f"k{number}", derived_from=["middle"])

    retract = call("retract", "root", reason="a rumour")
    await asyncio.gather(
        *(derive(n) for n in range(8)), retract, *(derive(n) for n in range(8, 16))
    )
    with psycopg.connect(url) as conn:
        rows = conn.execute("SELECT key, state FROM memory.memories ORDER BY 1").fetchall()
    assert dict(rows) == {
        "root": "retracted",
        "middle": "suspect",
        **{f"k{n}": "suspect" for n in range(16)},
    }
