"""What was true when, what was known when, and what stands on what was taken back."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from benchmarks.ruling import Ruling
from langmem_tiers import (
    ConsolidationReport,
    MemoryContext,
    TieredMemoryRetriever,
    create_consolidation_graph,
)
from langmem_tiers.core.errors import InvalidInputError, InvalidTypeError, RollbackError
from langmem_tiers.graph.recall import create_recall_node
from tests.support.coordinating import Caller, keys
from tests.support.cycling import without_events
from tests.support.learning import Team, broken
from tests.support.opening import Clock, tables

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
MOVED = datetime(2026, 2, 1, tzinfo=UTC)
ASKED = "Where is the office?"


async def found(call: Caller, query: str = "", **options: Any) -> list[str]:
    return sorted(keys(await call("get_context", query, limit=100, **options)))


async def offices(call: Caller) -> str:
    """Two offices, one after the other; the move."""
    await call("store", "The office is in Berlin.", "semantic", key="old", valid_from=LONG_AGO)
    await call("store", "The office is in Munich.", "semantic", key="new", valid_from=MOVED)
    return str(await call("truth.supersede", "old", by="new"))


async def chain(call: Caller, *names: str) -> None:
    """Memories of which each was derived from the one before."""
    for name, before in zip(names, [None, *names], strict=False):
        origins = [] if before is None else [before]
        await call("store", f"fact {name}", key=name, derived_from=origins)


async def consolidated(call: Caller) -> Any:
    """What a cycle over the tenant leaves."""
    graph = create_consolidation_graph(Ruling(), store=call.memory.tiered_store)
    context = MemoryContext(tenant="acme")
    if call.mode == "abatch":
        return await graph.ainvoke({}, context=context)
    return await asyncio.to_thread(graph.invoke, {}, context=context)


# Storing


async def test_a_plain_put_tells_when_a_value_is_true(call: Caller, clock: Clock) -> None:
    store = call.memory.tiered_store
    values: dict[str, dict[str, Any]] = {
        "past": {"valid_to": "2026-01-01T00:00:00+00:00"},
        "naive": {"valid_from": "2026-03-01T12:00:00"},
        "future": {"valid_from": "2026-03-01T13:00:00"},
        "offset": {"valid_from": "2026-03-01T13:00:00+01:00"},
        "nonsense": {"valid_from": "soon", "valid_to": 7},
        "never": {"valid_from": "2026-02-02", "valid_to": "2026-01-01"},
    }
    for key, told in values.items():
        await store.aput(("acme", "p"), key, {"content": f"a {key} fact", **told})
    assert await found(call) == ["naive", "never", "nonsense", "offset"]
    clock.advance(hours=1)
    assert "future" in await found(call)


async def test_what_a_memory_is_derived_from_must_be_there(call: Caller, url: str) -> None:
    with pytest.raises(InvalidInputError, match="no memory 'b'"):
        await call(
            "store_many", [{"content": "fact x"}, {"content": "fact y", "derived_from": ["b"]}]
        )
    with pytest.raises(InvalidInputError, match="list of strings"):
        await call("store", "fact x", derived_from="b")
    assert tables(url)["memories"] == []


async def test_nothing_is_derived_from_what_came_from_it(call: Caller, url: str) -> None:
    await chain(call, "a", "b", "c")
    before = without_events(url)
    for source in ("c", "b", "a"):
        with pytest.raises(InvalidInputError, match=r"came from|itself derived"):
            await call("store", "fact x", key="a", derived_from=[source])
    pair = [{"content": "fact x", "key": one, "derived_from": ["c"]} for one in ("d", "e")]
    await call("store_many", pair)
    circle = [{"content": "fact x", "key": one, "derived_from": ["d", "e"]} for one in ("d", "e")]
    with pytest.raises(InvalidInputError, match="itself derived"):
        await call("store_many", circle)
    assert [row for row in without_events(url)["lineage"] if row in before["lineage"]] == before[
        "lineage"
    ]


# Reading


async def test_recall_retrievers_and_nodes_take_both_moments(call: Caller, clock: Clock) -> None:
    await offices(call)
    assert await found(call, ASKED) == ["new"]
    assert await found(call, ASKED, as_of="2025-06-01T00:00:00+00:00") == ["old"]
    assert await found(call, ASKED, as_of=MOVED, known_at=clock.now - timedelta(1)) == []
    (batch,) = await call("get_context_batch", [ASKED], as_of=LONG_AGO)
    assert keys(batch) == ["old"]
    retriever = TieredMemoryRetriever(memory=call.memory, as_of=LONG_AGO)
    documents = await asyncio.to_thread(retriever.invoke, ASKED)
    assert [one.page_content for one in documents] == ["The office is in Berlin."]
    create_recall_node(as_of=LONG_AGO, known_at="2026-01-01T00:00:00Z")
    with pytest.raises(InvalidInputError, match="as_of"):
        create_recall_node(as_of="soon")
    for option in ("as_of", "known_at"):
        with pytest.raises(InvalidInputError, match=option):
            await call("get_context", ASKED, **{option: "2026-01-01"})


async def test_a_retracted_neighbour_is_no_evidence(call: Caller) -> None:
    turns = [
        {"key": one, "content": content, "speaker": speaker}
        for one, content, speaker in (
            ("a", "Where are the plums?", "Ines"),
            ("b", "The zebra ate them all", "Ben"),
        )
    ]
    await call("store_many", turns)
    before = {one.key: one.evidence for one in await call("get_context", "plums zebra")}
    await call("truth.retract", "b", reason="no zebra was there")
    after = {one.key: one.evidence for one in await call("get_context", "plums zebra")}
    assert set(after) == {"a"}
    assert 0 < after["a"]["window"] < before["a"]["window"]


# Superseding


async def test_what_cannot_be_superseded_or_restored_is_refused_with_a_way_out(
    call: Caller, url: str
) -> None:
    move = await offices(call)
    for key in ("other", "wrong", "shaky"):
        origins = ["wrong"] if key == "shaky" else []
        await call("store", f"Rome {key}", key=key, derived_from=origins)
    await call("truth.retract", "wrong", reason="a rumour")
    before = tables(url)

    for old, new, why in (
        (
            "old",
            "other",
            rf"'old' is superseded already: by 'new'\. .* learning\.rollback\('{move}'\)",
        ),
        ("new", "new", "itself"),
        ("new", "absent", "no memory"),
        ("other", "new", "other way round"),
        ("other", "wrong", r"'wrong' is retracted: truth\.restore\('wrong'\) first"),
        ("shaky", "other", "'shaky' is suspect: restore what it came from first"),
    ):
        with pytest.raises(InvalidInputError, match=why):
            await call("truth.supersede", old, by=new)
    for key, why in (("shaky", "came from 'wrong'"), ("other", "is current")):
        with pytest.raises(InvalidInputError, match=why):
            await call("truth.restore", key)
    assert tables(url) == before

    await call("delete_memory", "new")
    with pytest.raises(InvalidInputError, match="'old' is superseded already: what is superseded"):
        await call("truth.supersede", "old", by="other")


async def test_what_was_merged_names_the_memory_it_lives_on_in_and_the_move_that_can_be_taken_back(
    call: Caller, clock: Clock
) -> None:
    for key in ("one", "two"):
        await call("store", "The lamp is red.", "semantic", key=key)
        clock.advance(hours=1)
    report = ConsolidationReport.of(await consolidated(call))
    await call("store", "The lamp is blue now.", "semantic", key="new")

    told = await call("truth.history", "two")
    (successor,) = told.successors
    assert told.versions[0].state == "consolidated"
    assert (successor.namespace, successor.key) == (("acme", "p"), "one")
    assert (successor.kind, successor.state) == ("merged", None)
    assert f"lives on in one (merged, move {successor.move})" in str(told).splitlines()
    with pytest.raises(InvalidInputError, match=r"'two' .* was merged and lives on in 'one'"):
        await call("truth.supersede", "two", by="new")

    retraction = await call("truth.retract", "one", reason="a rumour")
    again = await call("truth.retract", "one", reason="another")
    assert (again.move, again.suspects) == (retraction.move, ())
    for given, why in (
        (None, "the move is None"),
        (report, "a ConsolidationReport's .moves one by one, the latest first"),
        (list(report.moves), "those of a list one by one, the latest first"),
        (retraction, "pass the Retraction's .move"),
        ((await call("truth.history", "one")).events[-1], "pass the MoveRecord's .move"),
        (7, "move is a string, not int"),
    ):
        with pytest.raises(InvalidTypeError, match=why):
            await call("learning.rollback", given)

    for move in (retraction.move, *reversed(report.moves)):
        assert await call("learning.rollback", move)
        assert not await call("learning.rollback", move)
    assert (await call("truth.history", "two")).successors == ()
    assert await found(call) == ["new", "one", "two"]


async def test_a_history_tells_the_versions_in_the_order_in_which_they_were_true(
    call: Caller,
) -> None:
    await offices(call)
    await call("store", "The office is in Rome.", key="newest")
    await call("truth.supersede", "new", by="newest")
    history = await call("truth.history", "old")
    assert [one.key for one in history.versions] == ["old", "new", "newest"]
    assert [one.superseded_by for one in history.versions] == ["new", "newest", None]
    for key in ("new", "newest"):
        assert (await call("truth.history", key)).versions == history.versions
    assert [one.state for one in history.versions] == ["superseded", "superseded", None]
    assert history.versions[0].valid_to == history.versions[1].valid_from == MOVED
    assert str(history).splitlines()[0].startswith("2020-01-01 00:00 – 2026-02-01 00:00: The off")


async def test_a_history_says_where_a_memory_lives_on_if_that_is_elsewhere(ours: Team) -> None:
    promotion = await ours.promoted()

    told = await ours.billing("truth.history", promotion.key)

    (successor,) = told.successors
    assert (successor.namespace, successor.key) == (("acme",), promotion.successor)
    assert successor.move == promotion.move
    assert f"lives on in {promotion.successor} in acme (promoted, move {promotion.move})" in str(
        told
    )
    await ours.billing("learning.rollback", promotion.move)
    assert (await ours.billing("truth.history", promotion.key)).successors == ()


async def test_explain_tells_what_makes_a_memory_suspect_also_when_that_was_deleted(
    call: Caller,
) -> None:
    await chain(call, "a", "b", "c")
    await call("truth.retract", "a", reason="a rumour")
    assert (await call("get", "c")).content == "fact c"
    told = await call("learning.explain", "c")
    assert [(one.path, one.state) for one in told.origins] == [
        (("c", "b"), "suspect"),
        (("c", "b", "a"), "retracted"),
    ]
    assert "retracted: a → b → c" in str(told)
    assert [one.key for one in (await call("learning.explain", "a")).derived] == ["b"]
    assert "from 2026-03-01, recorded 2026-03-01" in str(told)
    await call("delete_memory", "a")
    told = await call("learning.explain", "b")
    assert told.state == "retracted"
    assert "it came from a, which was deleted" in str(told)
    assert (await call("truth.restore", "b")).restored == ("c",)


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
    done = await ours.billing("truth.retract", "origin", reason="a rumour")
    assert set(done.suspects) == {key, promotion.successor}
    if how == "rollback":
        assert await ours.billing("learning.rollback", promotion.move)
    else:
        assert await ours.billing("delete_memory", promotion.successor)
    assert (await ours.states())[key] == "suspect"
    assert (await ours.billing("truth.restore", "origin")).restored == (key,)
    assert (await ours.states()) == {key: None, "origin": None}
    assert broken(url) == {}


async def test_a_retraction_stands_in_the_way_of_what_it_stands_on(ours: Team) -> None:
    promotion = await ours.promoted()
    done = await ours.billing("truth.retract", promotion.successor, reason="it does not help")
    with pytest.raises(RollbackError, match=done.move):
        await ours.billing("learning.rollback", promotion.move)


async def test_a_retraction_reaches_hundreds_in_one_go(call: Caller, url: str) -> None:
    await call("store", "fact", key="root")
    with psycopg.connect(url) as conn:
        conn.execute("""
            INSERT INTO memory.memories
                (tenant, tier, namespace, key, value, created_at, updated_at)
            SELECT 'acme', 'working', 'p.', 'k' || i, '{"content": "fact"}', now(), now()
            FROM generate_series(1, 600) i""")
        conn.execute("""
            INSERT INTO memory.lineage (tenant, id, source, event, derived)
            SELECT 'acme', m.id, s.id, 'e', true FROM memory.memories m JOIN memory.memories s
            ON s.key = CASE WHEN m.key = 'k1' OR right(m.key, 1) <> '0' THEN 'root'
                       ELSE 'k' || substr(m.key, 2)::int - 10 END
            WHERE m.key <> 'root' AND m.key <> 'k10'""")
    done = await call("truth.retract", "root", reason="a rumour")
    assert len(done.suspects) == 540  # those that end in 0 hang on k10, which came from nothing
    assert len((await call("truth.retract", "k10", reason="a rumour")).suspects) == 59
    assert len((await call("truth.restore", "root")).restored) == 540


async def test_what_is_derived_while_its_origin_is_retracted_is_suspect(
    call: Caller, url: str
) -> None:
    await call("store", "fact root", key="root")
    await call("store", "fact middle", key="middle", derived_from=["root"])

    async def derive(number: int) -> None:
        await call("store", f"fact {number}", key=f"k{number}", derived_from=["middle"])

    retract = call("truth.retract", "root", reason="a rumour")
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
