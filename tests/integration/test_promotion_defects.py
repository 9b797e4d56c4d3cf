"""Promotion where a value, a model or a caller's own move is not as it should be."""

from __future__ import annotations

import asyncio
import hashlib
import json
from typing import Any

import pytest
from langchain_core.embeddings import Embeddings

from langmem_tiers import MemoryCoordinator, TieredStore
from langmem_tiers.core.errors import ModelError
from langmem_tiers.core.settings import PromotionSettings
from langmem_tiers.learn.reflexion import FailedAttempt
from tests.support.coordinating import coordinator
from tests.support.learning import (
    BILLING,
    Team,
    model_of,
    tried,
)
from tests.support.opening import Clock, text_index
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
