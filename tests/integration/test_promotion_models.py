"""Promotion with a chat model that says it for everybody, fails to, or takes its time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from functools import partial

import pytest

from langmem_tiers import TieredStore
from langmem_tiers.core.errors import ModelError
from langmem_tiers.core.memory import Tier
from tests.support.coordinating import coordinator
from tests.support.learning import BILLING, EASY, Team, model_of, tried
from tests.support.wayward_chat import Reply, Wayward, fails, says, wayward


async def proven(ours: Team, content: str) -> str:
    """A pattern of billing that EASY promotes; its key."""
    stored = await ours.billing("store_pattern", content)
    await tried(ours.billing, stored.key, successes=1)
    ours.clock.advance(hours=1)
    return str(stored.key)


def general(content: str) -> Reply:
    """A model's answer."""
    return says(json.dumps({"content": content}))


def meanwhile(server: Wayward, done: Callable[[], object]) -> None:
    """Let something be done while the model is asked."""
    reply = server.reply

    def meddling(body: bytes) -> Reply:
        done()
        return reply(body)

    server.reply = meddling  # type: ignore[method-assign]


def test_what_changes_while_a_model_is_asked_is_not_promoted(own_store: TieredStore) -> None:
    memory = coordinator(own_store, project_id=BILLING)
    memory.store("kiwi in billing-service", "pattern", tier="working", key="k")
    memory.learning.record_outcome(memory.get_context("kiwi"), success=True)
    with wayward(general("Kiwi")) as server:
        other = partial(memory.store, "something else", "pattern", tier="working", key="k")
        meanwhile(server, other)
        stays = memory.promote_to_long_term("k", policy=EASY, model=model_of(server))
    assert not stays.promoted
    assert "meanwhile" in stays.reason
    assert memory.stats().by_tier[Tier.LONG_TERM] == 0


async def test_a_lesson_that_expires_while_a_model_is_asked_is_not_reinforced(ours: Team) -> None:
    apples = await proven(ours, "Alpha apples are ripe")
    first = await ours.billing("promote_to_long_term", apples, policy=EASY)
    value = (await ours.billing("get", first.successor)).value
    await asyncio.to_thread(ours.store.put, ("acme",), first.successor, value, ["text"], ttl=1.0)
    key = await ours.shipping("store_pattern", "Alpha apples are ripe!")
    await tried(ours.shipping, key.key, successes=1)
    ours.clock.advance(seconds=10)
    with wayward(general("Alpha apples are ripe")) as server:
        meanwhile(server, lambda: ours.clock.advance(minutes=2))
        move = await ours.shipping(
            "promote_to_long_term", key.key, policy=EASY, model=model_of(server)
        )
    assert (move.promoted, move.reinforced) == (True, False)
    await asyncio.to_thread(ours.store.sweep_ttl)
    assert await ours.context_keys(ours.shipping, "alpha apples") == [key.key]
    third = ours.member(project_id="third")
    assert await ours.context_keys(third, "alpha apples") == [move.successor]


@pytest.mark.parametrize(
    "replies",
    [
        [general(f"In {BILLING}, kiwis")] * 2,
        [general("a\0b")] * 2,
        [fails(400, "no such model")],
        [says("no JSON")] * 2,
    ],
    ids=["leaks", "cannot be stored", "refused", "malformed"],
)
async def test_a_memory_that_a_model_fails_at_stays_and_holds_no_other_one_up(
    ours: Team, replies: list[Reply]
) -> None:
    bad = await proven(ours, "Kiwis ripen in two days")
    good = await proven(ours, "Retry after the header says so")
    before = await ours.rows()
    with wayward(*replies) as server, pytest.raises(ModelError):
        await ours.billing("promote_to_long_term", bad, policy=EASY, model=model_of(server))
    assert await ours.rows() == before
    with wayward(*replies, general("Wait as told")) as server:
        moves = await ours.billing("learning.promote", policy=EASY, model=model_of(server))
    assert [(one.key, one.promoted) for one in moves] == [(bad, False), (good, True)]
    assert "model" in moves[0].reason
    assert (await ours.billing("get", moves[1].successor)).content == "Wait as told"
    assert (await ours.billing("promote_to_long_term", bad, policy=EASY)).promoted
