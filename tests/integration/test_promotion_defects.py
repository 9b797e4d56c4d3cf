"""Promotion where a value, a model or a caller's own move is not as it should be."""

from __future__ import annotations

import asyncio
import hashlib
import json
from typing import Any

import pytest
from langchain_core.embeddings import Embeddings

from langmem_tiers import MemoryCoordinator, TieredStore
from langmem_tiers.core.errors import ModelError, RollbackError
from langmem_tiers.core.options import PromotionSettings
from langmem_tiers.learn.reflexion import FailedAttempt
from tests.support.coordinating import coordinator
from tests.support.learning import (
    BILLING,
    SHIPPING,
    Team,
    model_of,
    team,
    tried,
)
from tests.support.opening import Clock, Opener, text_index
from tests.support.wayward_chat import Reply, Wayward, fails, says, wayward

EASY = PromotionSettings(min_access_count=0, min_success_rate=0.0, min_age_days=0.0, min_projects=1)
"""A policy that one success in one project is enough for, a while after it was stored."""


async def put(ours: Team, key: str, value: dict[str, Any], project: str = BILLING) -> None:
    """Put a memory past the coordinators, which check what they store."""
    await asyncio.to_thread(ours.store.put, ("acme", project), key, value)


async def proven(ours: Team, content: str, project: str = BILLING) -> str:
    """A pattern of a project that EASY promotes; its key."""
    call = ours.billing if project == BILLING else ours.shipping
    stored = await call("store_pattern", content)
    await tried(call, stored.key, successes=1)
    ours.clock.advance(hours=1)
    return str(stored.key)


def works(memory: MemoryCoordinator, key: str) -> None:
    """Say that a run which was given this memory succeeded."""
    one = memory.get(key)
    assert one is not None
    memory.record_outcome([one], success=True)


# Values that no coordinator stored


async def test_any_value_can_be_promoted_and_shares_what_means_the_same_to_all(ours: Team) -> None:
    odd: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"tags": None}, {}),
        ({"tags": 5}, {}),
        ({"tags": "kiwi"}, {}),
        ({"tags": [None, {"a": 1}, 3, "kiwi", BILLING]}, {"tags": ["kiwi"]}),
        ({"entities": 7}, {}),
        ({"entities": ["Kiwi", ["no"]]}, {"entities": ["Kiwi"]}),
        ({"importance": "high", "boost": [1]}, {}),
        ({"importance": True, "boost": None}, {}),
        ({"importance": 0.5, "boost": 2}, {"importance": 0.5, "boost": 2}),
        ({"emotional_valence": BILLING, "success_metrics": {"in": BILLING}}, {}),
        ({"success_metrics": {"hits": 3}}, {"success_metrics": {"hits": 3}}),
        ({"signature": {"of": BILLING}, "tool": "python"}, {}),
    ]
    keys = [f"k{number}" for number in range(len(odd))]
    for key, word, (given, _) in zip(keys, FRUITS, odd, strict=True):
        await put(ours, key, {"content": f"{word} " * 3, "memory_type": "pattern", **given})
        await tried(ours.billing, key, successes=1)
    ours.clock.advance(hours=1)
    moves = {one.key: one for one in await ours.billing("promote", policy=EASY)}
    assert [moves[key].sources for key in keys] == [(key,) for key in keys]
    for key, (_, shared) in zip(keys, odd, strict=True):
        found = await asyncio.to_thread(ours.store.get, ("acme",), moves[key].successor)
        assert found is not None
        own = {"content", "memory_type", "metadata"}
        assert {k: v for k, v in found.value.items() if k not in own} == shared


FRUITS = ["kiwi", "quince", "papaya", "fig", "mango", "cherry", "durian", "lychee", "plum"]
FRUITS += ["guava", "banana", "tomato"]


async def test_a_name_is_known_in_every_alphabet(ours: Team) -> None:
    value = {"content": "Kiwis ripen late", "memory_type": "pattern", "project_id": "größe"}
    await put(ours, "odd", {**value, "success_metrics": {"of": "Größe"}})
    await tried(ours.billing, "odd", successes=1)
    ours.clock.advance(hours=1)
    move = await ours.billing("promote_to_long_term", "odd", policy=EASY)
    found = await asyncio.to_thread(ours.store.get, ("acme",), move.successor)
    assert found is not None
    assert "success_metrics" not in found.value


# Models


@pytest.mark.parametrize(
    "replies",
    [
        [says(json.dumps({"content": f"In {BILLING}, kiwis"}))] * 2,
        [fails(400, "no such model")],
        [says("no JSON")] * 2,
    ],
    ids=["leaks", "refused", "malformed"],
)
async def test_a_memory_that_a_model_fails_at_holds_no_other_one_up(
    ours: Team, replies: list[Reply]
) -> None:
    bad = await proven(ours, "Kiwis ripen in two days")
    good = await proven(ours, "Retry after the header says so")
    with wayward(*replies, says(json.dumps({"content": "Wait as told"}))) as server:
        moves = await ours.billing("promote", policy=EASY, model=model_of(server))
    assert [(one.key, one.promoted) for one in moves] == [(bad, False), (good, True)]
    assert "model" in moves[0].reason
    with wayward(*replies) as server, pytest.raises(ModelError):
        await ours.billing("promote_to_long_term", bad, policy=EASY, model=model_of(server))
    assert (await ours.billing("promote_to_long_term", bad, policy=EASY)).promoted


async def test_a_lesson_that_expires_while_a_model_is_asked_is_not_reinforced(ours: Team) -> None:
    first = await ours.billing(
        "promote_to_long_term", await proven(ours, "Alpha apples are ripe"), policy=EASY
    )
    value = (await ours.billing("get", first.successor)).value
    await asyncio.to_thread(ours.store.put, ("acme",), first.successor, value, ["text"], ttl=1.0)
    key = await ours.shipping("store_pattern", "Alpha apples are ripe!")
    await tried(ours.shipping, key.key, successes=1)
    ours.clock.advance(seconds=10)
    replies = (says(json.dumps({"content": "Alpha apples are ripe"})),)

    class Slow(Wayward):
        def reply(self, body: bytes) -> Reply:
            ours.clock.advance(minutes=2)
            return super().reply(body)

    with wayward(*replies) as server:
        server.reply = Slow(replies).reply  # type: ignore[method-assign]
        move = await ours.shipping(
            "promote_to_long_term", key.key, policy=EASY, model=model_of(server)
        )
    assert (move.promoted, move.reinforced) == (True, False)
    await asyncio.to_thread(ours.store.sweep_ttl)
    assert await ours.context_keys(ours.shipping, "alpha apples") == [move.successor]


# Moves by hand, and the way back


async def test_the_last_copy_is_not_rolled_back(ours: Team) -> None:
    same = await ours.learn(ours.shipping)
    move = await ours.promoted()
    assert set(move.sources) == {move.key, same}
    await ours.billing("delete_memory", move.key)
    assert await ours.billing("explain", move.successor)
    await ours.shipping("delete_memory", same)
    before = await ours.rows()
    with pytest.raises(RollbackError, match="last copy"):
        await ours.billing("rollback", move.move)
    assert await ours.rows() == before
    assert await ours.context_keys(ours.shipping) == [move.successor]


async def test_a_source_that_has_expired_is_not_left(ours: Team) -> None:
    key = await proven(ours, "Kiwis ripen in two days")
    value = (await ours.billing("get", key)).value
    await asyncio.to_thread(ours.store.put, ("acme", BILLING), key, value, ttl=10.0)
    move = await ours.billing("promote_to_long_term", key, policy=EASY)
    ours.clock.advance(hours=1)
    with pytest.raises(RollbackError, match="last copy"):
        await ours.billing("rollback", move.move)
    assert await ours.context_keys(ours.billing, "kiwis") == [move.successor]


@pytest.mark.parametrize("tier", ["working", "short_term"])
async def test_a_lesson_moved_out_of_long_term_gives_its_sources_back(
    ours: Team, tier: str
) -> None:
    same = await ours.learn(ours.shipping)
    move = await ours.promoted()
    assert await asyncio.to_thread(ours.store.move, ("acme",), move.successor, tier)
    assert await ours.states() == {move.key: None, same: None, move.successor: None}
    assert (await ours.rows())["lineage"] == []
    assert move.key in await ours.context_keys(ours.billing)
    assert same in await ours.context_keys(ours.shipping)
    assert await ours.billing("rollback", move.move)
    assert await ours.states() == {move.key: None, same: None}


async def test_a_lesson_that_comes_back_to_long_term_is_not_handed_its_counts_twice(
    ours: Team,
) -> None:
    move = await ours.promoted()
    handed = counts(await ours.billing("explain", move.successor))
    for tier in ("working", "long_term"):
        assert await asyncio.to_thread(ours.store.move, ("acme",), move.successor, tier)
    before = await ours.rows("events")
    same = await ours.learn(ours.shipping)
    await tried(ours.shipping, same, successes=2)
    again = await ours.billing("promote_to_long_term", move.key)
    assert (again.reinforced, again.successor) == (True, move.successor)
    assert set(again.sources) == {move.key, same}
    found = counts(await ours.billing("explain", move.successor))
    assert found == (handed[0] + 2, handed[1] + 2, handed[2])
    assert await ours.billing("rollback", again.move)
    await ours.shipping("delete_memory", same)
    assert await ours.rows("events") == before
    assert await ours.billing("rollback", move.move)
    assert await ours.states() == {move.key: None}


def counts(found: Any) -> tuple[int, int, int]:
    """Accesses, successes and failures."""
    return found.access_count, found.success_count, found.failure_count


async def test_an_attempt_lives_on_in_its_lesson_in_every_tier(ours: Team) -> None:
    attempt = FailedAttempt(
        task_id="read",
        approach="read it by its key",
        error="KeyError: 'amount'",
        tool="python",
        succeeded_with="used dict.get",
    )
    (lesson,) = await ours.billing("reflect", [attempt])
    before = (await ours.rows())["lineage"]
    assert len(before) == 1
    for tier in ("long_term", "working", "short_term"):
        assert await asyncio.to_thread(ours.store.move, ("acme", BILLING), lesson.key, tier)
        assert (await ours.rows())["lineage"] == before


# What is put over a memory that lives on in another


async def test_what_is_put_over_a_promoted_memory_is_recalled_and_promoted_anew(
    ours: Team,
) -> None:
    key = await proven(ours, "Kiwis ripen in two days")
    move = await ours.billing("promote_to_long_term", key, policy=EASY)
    value = (await ours.billing("get", key)).value
    await put(ours, key, {**value, "tags": ["fruit"]})
    assert await ours.states() == {key: "consolidated", move.successor: None}
    await ours.billing("store", "Quinces keep until spring", "pattern", tier="working", key=key)
    assert await ours.states() == {key: None, move.successor: None}
    assert key in await ours.context_keys(ours.billing, "quinces spring")
    assert (await ours.billing("explain", key)).successors == ()
    ours.clock.advance(hours=1)
    (anew,) = [one for one in await ours.billing("promote", policy=EASY) if one.promoted]
    assert (anew.key, anew.reinforced) == (key, False)
    assert await ours.billing("rollback", anew.move)
    assert await ours.states() == {key: None, move.successor: None}
    with pytest.raises(RollbackError, match="last copy"):
        await ours.billing("rollback", move.move)


async def test_what_is_put_over_one_of_several_sources_leaves_the_others_where_they_are(
    ours: Team,
) -> None:
    same = await ours.learn(ours.shipping)
    move = await ours.promoted()
    await tried(ours.billing, move.successor, successes=2)
    await put(ours, move.key, {"content": "Quinces keep until spring"})
    assert await ours.states() == {move.key: None, same: "consolidated", move.successor: None}
    assert await ours.billing("rollback", move.move)
    assert await ours.states() == {move.key: None, same: None}
    assert counts(await ours.shipping("explain", same)) == (2, 2, 0)


async def test_what_is_put_over_the_source_of_a_demoted_memory_is_not_hidden_by_a_rollback(
    ours: Team,
) -> None:
    move = await ours.promoted()
    await tried(ours.billing, move.successor, failures=20)
    (down,) = [one for one in await ours.billing("demote") if one.demoted]
    await put(ours, move.key, {"content": "Quinces keep until spring"})
    assert await ours.billing("rollback", down.move)
    assert await ours.states() == {move.key: None, move.successor: None}


async def test_what_is_put_over_an_attempt_is_no_attempt_of_its_lesson(ours: Team) -> None:
    attempt = FailedAttempt(
        task_id="read", approach="by its key", error="KeyError: 'a'", succeeded_with="used get"
    )
    (lesson,) = await ours.billing("reflect", [attempt])
    (key,) = set(await ours.states()) - {lesson.key}
    await put(ours, key, {"content": "Quinces keep until spring"})
    assert await ours.states() == {key: None, lesson.key: None}
    await ours.billing("reflect", [attempt])
    assert (await ours.states())[key] == "consolidated"


# Near-duplicates


class Scaled(Embeddings):
    """Unlike texts, unlike directions; vectors are as long as `scale` says."""

    def __init__(self, scale: float) -> None:
        self.scale = scale

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [
            [(byte / 127.5 - 1) * self.scale for byte in hashlib.sha256(text.encode()).digest()]
            for text in texts
        ]

    def embed_query(self, text: str) -> list[float]:
        return self.embed_documents([text])[0]


@pytest.mark.parametrize(
    ("metric", "scale"), [("cosine", 1.0), ("l2", 0.01), ("inner_product", 3.0)]
)
def test_near_duplicates_go_by_direction_whatever_the_metric(
    database_url: str, clock: Clock, metric: str, scale: float
) -> None:
    index = text_index(dims=32, embed=Scaled(scale), distance_type=metric, fields=["content"])
    with TieredStore.from_conn_string(database_url, index=index, clock=clock) as store:
        store.setup()
        memory = coordinator(store, project_id=BILLING, policy=EASY)
        texts = ["alpha apples", "zebra kite", "gamma guitars"]
        for number, text in enumerate([*texts, "alpha apples"]):
            memory.store(text, "pattern", tier="working", key=f"k{number}")
            works(memory, f"k{number}")
        clock.advance(hours=1)
        moves = memory.promote()
        assert [one.sources for one in moves] == [("k0", "k3"), ("k1",), ("k2",)]
        memory.store("zebra kite", "pattern", tier="working", key="late")
        works(memory, "late")
        clock.advance(hours=1)
        (late,) = memory.promote()
        assert (late.successor, late.reinforced) == (moves[1].successor, True)


SAME = "see the handbook, chapter five"


@pytest.mark.parametrize(
    ("other", "sources"),
    [
        ({"content": "alpha apples ripen", "note": SAME}, ("own",)),
        ({"content": "zebra quagga stripes", "note": "alpha apples ripen"}, ("own",)),
        ({"content": "zebra quagga stripes"}, ("own",)),
        ({"note": SAME}, ("own",)),
        ({"content": SAME, "note": "zebra quagga stripes"}, ("own",)),
        ({"content": "zebra quagga stripes", "note": SAME}, ("own", "other")),
    ],
    ids=["same note", "same content", "no note", "no content", "crossed", "same"],
)
def test_near_duplicates_are_near_in_every_field(
    database_url: str, clock: Clock, other: dict[str, str], sources: tuple[str, ...]
) -> None:
    index = text_index(fields=["content", "note"])
    with TieredStore.from_conn_string(database_url, index=index, clock=clock) as store:
        store.setup()
        memory = coordinator(store, project_id=BILLING, policy=EASY)
        own = {"content": "zebra quagga stripes", "note": SAME}
        store.put(("acme", BILLING), "own", {**own, "memory_type": "pattern"})
        store.put(("acme", SHIPPING), "other", {**other, "memory_type": "pattern"})
        works(memory, "own")
        clock.advance(hours=1)
        (move,) = memory.promote()
        assert move.sources == sources


def test_a_note_in_long_term_teaches_nothing_that_a_content_says(
    database_url: str, clock: Clock
) -> None:
    index = text_index(fields=["content", "note"])
    with TieredStore.from_conn_string(database_url, index=index, clock=clock) as store:
        store.setup()
        value = {"content": "alpha apples ripen", "note": SAME, "memory_type": "pattern"}
        store.tier("long_term").put(("acme",), "there", value)
        memory = coordinator(store, project_id=BILLING, policy=EASY)
        memory.store(SAME, "pattern", tier="working", key="k")
        works(memory, "k")
        clock.advance(hours=1)
        (move,) = memory.promote()
        assert (move.promoted, move.reinforced) == (True, False)


async def test_vectors_without_a_direction_are_near_to_nothing(
    open_store: Opener, database_url: str
) -> None:
    index = text_index(dims=32, embed=Scaled(0.0), distance_type="l2")
    async with team(open_store, database_url, index=index, setup=True) as ours:
        keys = [await proven(ours, one) for one in ("alpha apples", "zebra kite")]
        moves = await ours.billing("promote", policy=EASY)
        assert [one.sources for one in moves] == [(one,) for one in keys]


async def test_neighbours_that_live_on_elsewhere_hide_none_that_do_not(ours: Team) -> None:
    """Sixty moved ones, as near as any, stand before the ones that are to go along."""
    text = "Always retry the upload with a backoff when the gateway is busy"
    for number in range(60):
        value = {"content": text, "text": text, "memory_type": "pattern"}
        await put(ours, f"k{number}", value)
    await tried(ours.billing, "k0", successes=1)
    ours.clock.advance(hours=1)
    (first,) = await ours.billing("promote", policy=EASY)
    assert len(first.sources) == 60
    for number in range(2):
        await put(ours, f"late{number}", {"content": text, "text": text, "memory_type": "pattern"})
    await tried(ours.billing, "late0", successes=1)
    ours.clock.advance(hours=1)
    (late,) = await ours.billing("promote", policy=EASY)
    assert (late.sources, late.successor) == (("late0", "late1"), first.successor)
    assert late.reinforced


async def test_one_source_that_is_left_is_enough_for_a_rollback(ours: Team) -> None:
    same = await ours.learn(ours.shipping)
    move = await ours.promoted()
    await ours.billing("delete_memory", move.key)
    assert await ours.billing("rollback", move.move)
    assert await ours.states() == {same: None}
