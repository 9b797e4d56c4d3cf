"""What was true when, what was known when, and what stands on what was taken back."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from benchmarks.ruling import Ruling
from langmem_tiers import (
    ConsolidationReport,
    InvalidInputError,
    InvalidTypeError,
    MemoryContext,
    TieredMemoryRetriever,
    create_consolidation_graph,
)
from langmem_tiers.graph.recall import create_recall_node
from tests.support.coordinating import Caller, keys
from tests.support.learning import LESSON, Team
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
    return str(await call("supersede", "old", by="new"))


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


def stored(url: str) -> dict[str, list[tuple[Any, ...]]]:
    """Every row but those of events."""
    return {name: rows for name, rows in tables(url).items() if name != "events"}


# Storing


async def test_what_ends_before_it_begins_is_refused(call: Caller, url: str) -> None:
    for ended in (LONG_AGO, MOVED):
        with pytest.raises(InvalidInputError, match="not after valid_from"):
            await call("store", "x", valid_from=MOVED, valid_to=ended)
    with pytest.raises(InvalidInputError, match="time zone"):
        await call("store", "x", valid_from=datetime(2026, 1, 1))  # noqa: DTZ001 - the mistake
    assert tables(url)["memories"] == []


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


async def test_what_is_stored_again_is_true_when_it_says_now(call: Caller, clock: Clock) -> None:
    await call("store", "one", key="k", valid_to=clock.now + timedelta(hours=1))
    await call("store", "two", key="k")
    clock.advance(hours=2)
    assert await found(call) == ["k"]


async def test_what_a_memory_is_derived_from_must_be_there(call: Caller, url: str) -> None:
    with pytest.raises(InvalidInputError, match="no memory 'b'"):
        await call("store_many", [{"content": "x"}, {"content": "y", "derived_from": ["b"]}])
    with pytest.raises(InvalidInputError, match="list of strings"):
        await call("store", "x", derived_from="b")
    assert tables(url)["memories"] == []


async def test_nothing_is_derived_from_what_came_from_it(call: Caller, url: str) -> None:
    await chain(call, "a", "b", "c")
    before = stored(url)
    for source in ("c", "b", "a"):
        with pytest.raises(InvalidInputError, match=r"came from|itself derived"):
            await call("store", "x", key="a", derived_from=[source])
    pair = [{"content": "x", "key": one, "derived_from": ["c"]} for one in ("d", "e")]
    await call("store_many", pair)
    circle = [{"content": "x", "key": one, "derived_from": ["d", "e"]} for one in ("d", "e")]
    with pytest.raises(InvalidInputError, match="itself derived"):
        await call("store_many", circle)
    assert [row for row in stored(url)["lineage"] if row in before["lineage"]] == before["lineage"]


async def test_deriving_again_says_nothing_new(call: Caller, url: str) -> None:
    await chain(call, "a", "b")
    before = tables(url)
    await call("store", "fact b", key="b", derived_from=["a", "a"])
    after = tables(url)
    assert (after["lineage"], after["events"]) == (before["lineage"], before["events"])


# Reading


async def test_what_was_superseded_is_recalled_as_of_when_it_was_true(
    call: Caller, clock: Clock
) -> None:
    await offices(call)
    assert await found(call, ASKED) == ["new"]
    assert await found(call, ASKED, as_of="2025-06-01T00:00:00+00:00") == ["old"]
    assert await found(call, ASKED, as_of=MOVED) == ["new"]
    assert await found(call, ASKED, as_of=LONG_AGO - timedelta(days=1)) == []
    assert await found(call, ASKED, as_of=MOVED, known_at=clock.now - timedelta(1)) == []
    (batch,) = await call("get_context_batch", [ASKED], as_of=LONG_AGO)
    assert keys(batch) == ["old"]


async def test_before_a_supersession_was_known_both_were(call: Caller, clock: Clock) -> None:
    await call("store", "The office is in Berlin.", key="old", valid_from=LONG_AGO)
    await call("store", "The office is in Munich.", key="new", valid_from=MOVED)
    stored_at = clock.now
    clock.advance(days=1)
    await call("supersede", "old", by="new")
    assert await found(call, ASKED, known_at=stored_at) == ["new", "old"]
    assert await found(call, ASKED, known_at=clock.now) == ["new"]


async def test_until_the_newer_one_begins_the_older_one_is_recalled(
    call: Caller, clock: Clock
) -> None:
    await call("store", "The office is in Berlin.", key="old")
    begins = clock.now + timedelta(days=9)
    await call("store", "The office is in Munich.", key="new", valid_from=begins)
    await call("supersede", "old", by="new")
    assert await found(call, ASKED) == await found(call, ASKED, as_of=clock.now) == ["old"]
    clock.advance(days=9)
    assert await found(call, ASKED) == ["new"]


async def test_a_moment_without_a_zone_is_refused(call: Caller) -> None:
    for option in ("as_of", "known_at"):
        with pytest.raises(InvalidInputError, match=option):
            await call("get_context", ASKED, **{option: "2026-01-01"})


async def test_retrievers_and_nodes_take_both_moments(call: Caller) -> None:
    await offices(call)
    retriever = TieredMemoryRetriever(memory=call.memory, as_of=LONG_AGO)
    documents = await asyncio.to_thread(retriever.invoke, ASKED)
    assert [one.page_content for one in documents] == ["The office is in Berlin."]
    create_recall_node(as_of=LONG_AGO, known_at="2026-01-01T00:00:00Z")
    with pytest.raises(InvalidInputError, match="as_of"):
        create_recall_node(as_of="soon")


async def test_a_retracted_neighbour_is_no_evidence(call: Caller) -> None:
    turns = [
        {"key": one, "content": content, "speaker": speaker}
        for one, content, speaker in (
            ("a", "Where are the plums?", "Ines"),
            ("b", "The zebra ate them all", "Ben"),
        )
    ]
    await call("store_many", turns)
    before = {one.key: one.match for one in await call("get_context", "plums zebra")}
    await call("retract", "b", reason="no zebra was there")
    after = {one.key: one.match for one in await call("get_context", "plums zebra")}
    assert set(after) == {"a"}
    assert after["a"] < before["a"]


async def test_a_lesson_that_was_retracted_is_not_given(ours: Team) -> None:
    key = await ours.learn(ours.billing)
    failed = LESSON["failure"]
    assert keys(await ours.billing("get_lessons", failed, tools="python")) == [key]
    await ours.billing("retract", key, reason="it does not help")
    assert await ours.billing("get_lessons", failed, tools="python") == []


# Superseding


async def test_a_supersession_is_rolled_back_to_the_very_rows(call: Caller, url: str) -> None:
    until = datetime(2030, 1, 1, tzinfo=UTC)
    await call("store", "Berlin", key="old", valid_from=LONG_AGO, valid_to=until)
    await call("store", "Munich", key="new", valid_from=MOVED)
    before = stored(url)
    move = await call("supersede", "old", by="new")
    assert stored(url) != before
    assert await call("rollback", move) is True
    assert await call("rollback", move) is False
    assert stored(url) == before


async def test_an_end_that_was_told_is_not_put_off(call: Caller) -> None:
    ended = datetime(2021, 1, 1, tzinfo=UTC)
    await call("store", "Berlin", key="old", valid_from=LONG_AGO, valid_to=ended)
    await call("store", "Munich", key="new", valid_from=MOVED)
    await call("supersede", "old", by="new")
    assert (await call("history", "old")).versions[0].valid_to == ended


async def test_a_supersession_that_makes_no_sense_is_refused(call: Caller, url: str) -> None:
    await offices(call)
    await call("store", "Rome", key="other")
    before = tables(url)
    for old, new, why in (
        ("old", "other", "is superseded"),
        ("new", "new", "itself"),
        ("new", "absent", "no memory"),
        ("other", "new", "other way round"),
    ):
        with pytest.raises(InvalidInputError, match=why):
            await call("supersede", old, by=new)
    assert tables(url) == before


async def test_what_has_no_part_in_a_supersession_is_refused_with_a_way_out(
    call: Caller, url: str
) -> None:
    move = await offices(call)
    for key in ("other", "wrong", "shaky"):
        origins = ["wrong"] if key == "shaky" else []
        await call("store", f"Rome {key}", key=key, derived_from=origins)
    await call("retract", "wrong", reason="a rumour")
    before = tables(url)

    for old, new, why in (
        ("old", "other", rf"'old' is superseded already: by 'new'\. .* rollback\('{move}'\)"),
        ("other", "wrong", r"'wrong' is retracted: restore\('wrong'\) first"),
        ("shaky", "other", "'shaky' is suspect: restore what it came from first"),
    ):
        with pytest.raises(InvalidInputError, match=why):
            await call("supersede", old, by=new)
    assert tables(url) == before

    await call("delete_memory", "new")
    with pytest.raises(InvalidInputError, match="'old' is superseded already: what is superseded"):
        await call("supersede", "old", by="other")


async def test_a_memory_that_was_merged_is_not_superseded_but_the_one_it_lives_on_in(
    call: Caller, clock: Clock
) -> None:
    for key in ("one", "two"):
        await call("store", "The lamp is red.", "semantic", key=key)
        clock.advance(hours=1)
    await consolidated(call)
    await call("store", "The lamp is blue now.", "semantic", key="new")

    with pytest.raises(InvalidInputError, match=r"'two' .* was merged and lives on in 'one'"):
        await call("supersede", "two", by="new")


async def test_what_is_no_move_is_refused_with_what_to_roll_back_instead(
    call: Caller, clock: Clock
) -> None:
    for key in ("one", "two"):
        await call("store", "The lamp is red.", "semantic", key=key)
        clock.advance(hours=1)
    report = ConsolidationReport.of(await consolidated(call))
    retraction = await call("retract", "one", reason="a rumour")

    for given, why in (
        (None, "the move is None"),
        (report, "a ConsolidationReport's .moves one by one, the latest first"),
        (list(report.moves), "those of a list one by one, the latest first"),
        (retraction, "pass the Retraction's .move"),
        ((await call("history", "one")).events[-1], "pass the MoveRecord's .move"),
        (7, "move is a string, not int"),
    ):
        with pytest.raises(InvalidTypeError, match=why):
            await call("rollback", given)

    assert await call("rollback", retraction.move)
    for move in reversed(report.moves):
        assert await call("rollback", move)
    assert await found(call) == ["one", "two"]


async def test_what_superseded_may_be_deleted_or_retracted_before_the_rollback(
    call: Caller,
) -> None:
    for verb, options in (("retract", {"reason": "a rumour"}), ("delete_memory", {})):
        move = await offices(call)
        await call(verb, "new", **options)
        assert await call("rollback", move)
        assert await found(call) == ["old"]
        await call("delete_memory", "new")
        await call("delete_memory", "old")


async def test_a_history_tells_the_versions_in_the_order_in_which_they_were_true(
    call: Caller,
) -> None:
    await offices(call)
    await call("store", "The office is in Rome.", key="newest")
    await call("supersede", "new", by="newest")
    history = await call("history", "old")
    assert [one.key for one in history.versions] == ["old", "new", "newest"]
    assert [one.superseded_by for one in history.versions] == ["new", "newest", None]
    for key in ("new", "newest"):
        assert (await call("history", key)).versions == history.versions
    assert [one.state for one in history.versions] == ["superseded", "superseded", None]
    assert history.versions[0].valid_to == history.versions[1].valid_from == MOVED
    assert str(history).splitlines()[0].startswith("2020-01-01 00:00 – 2026-02-01 00:00: The off")
    await call("retract", "newest", reason="<b>rumour</b>")
    html = (await call("history", "newest"))._repr_html_()
    assert "&lt;b&gt;rumour" in html
    assert "<b>rumour" not in html


async def test_a_history_names_what_superseded_a_memory_then_what_that_one_did(
    call: Caller,
) -> None:
    move = await offices(call)
    await call("store", "The office is in Rome.", key="newest")
    last = await call("supersede", "new", by="newest")

    told = await call("history", "old")

    assert [(one.key, one.kind, one.move) for one in told.successors] == [
        ("new", "superseded", move),
        ("newest", "superseded", last),
    ]
    assert [one.state for one in told.successors] == ["superseded", None]
    assert f"superseded by new (superseded, move {move})" in str(told)
    assert "superseded since 2026-03-01 12:00 by new)" in str(told.versions[0])
    assert (await call("history", "newest")).successors == ()


async def test_a_history_names_the_memory_that_a_merged_one_lives_on_in_and_the_move(
    call: Caller, clock: Clock
) -> None:
    for key in ("one", "two"):
        clock.advance(hours=1)
        await call("store", "The lamp is red.", "semantic", key=key)
    clock.advance(hours=1)
    await consolidated(call)

    told = await call("history", "two")

    (successor,) = told.successors
    assert told.versions[0].state == "consolidated"
    assert (successor.namespace, successor.key) == (("acme", "p"), "one")
    assert (successor.kind, successor.state) == ("merged", None)
    assert f"lives on in one (merged, move {successor.move})" in str(told).splitlines()
    assert f"<li>lives on in one (merged, move {successor.move})" in told._repr_html_()
    await call("rollback", successor.move)
    assert (await call("history", "two")).successors == ()


async def test_a_history_says_where_a_memory_lives_on_if_that_is_elsewhere(ours: Team) -> None:
    promotion = await ours.promoted()

    told = await ours.billing("history", promotion.key)

    (successor,) = told.successors
    assert (successor.namespace, successor.key) == (("acme",), promotion.successor)
    assert successor.move == promotion.move
    assert f"lives on in {promotion.successor} in acme (promoted, move {promotion.move})" in str(
        told
    )
    await ours.billing("rollback", promotion.move)
    assert (await ours.billing("history", promotion.key)).successors == ()
