"""Promotion with a chat model that says it for everybody, or fails to."""

from __future__ import annotations

import json
from typing import Any

import pytest

from langmem_tiers import TieredStore
from langmem_tiers.core.errors import ModelError
from langmem_tiers.core.memory import Tier
from langmem_tiers.core.settings import PromotionSettings
from tests.support.coordinating import coordinator
from tests.support.learning import (
    BILLING,
    Team,
    model_of,
)
from tests.support.wayward_chat import Wayward, says, wayward

EASY = PromotionSettings(min_access_count=0, min_success_rate=0.0, min_age_days=0.0, min_projects=1)
"""A policy that one success in one project is enough for, a while after it was stored."""


def test_what_changes_while_a_model_is_asked_is_not_promoted(own_store: TieredStore) -> None:
    memory = coordinator(own_store, project_id=BILLING)
    memory.store("kiwi in billing-service", "pattern", tier="working", key="k")
    one = memory.get("k")
    assert one is not None
    memory.record_outcome([one], success=True)
    replies = [says(json.dumps({"content": "Kiwi"}))]

    class Meddling(Wayward):
        def reply(self, body: bytes) -> Any:
            memory.store("something else", "pattern", tier="working", key="k")
            return super().reply(body)

    with wayward(*replies) as server:
        server.reply = Meddling(tuple(replies)).reply  # type: ignore[method-assign]
        stays = memory.promote_to_long_term("k", policy=EASY, model=model_of(server))
    assert not stays.promoted
    assert "meanwhile" in stays.reason
    assert memory.stats().by_tier[Tier.LONG_TERM] == 0


async def test_a_model_says_it_for_everybody(ours: Team) -> None:
    key = await ours.proven()
    with wayward(says(json.dumps({"content": "Expect keys to be absent"}))) as server:
        move = await ours.billing("promote_to_long_term", key, model=model_of(server))
    assert (await ours.billing("get", move.successor)).content == "Expect keys to be absent"


async def test_a_model_that_fails_leaves_everything_as_it_was(ours: Team) -> None:
    key = await ours.proven()
    before = await ours.rows()
    for verb in ("promote_to_long_term", "promote"):
        leak = says(json.dumps({"content": "In billing-service, expect no keys"}))
        with wayward(leak, leak) as server:
            if verb == "promote":
                (stays,) = await ours.billing("promote", model=model_of(server))
                assert (stays.promoted, stays.key) == (False, key)
                assert "billing-service" in stays.reason
            else:
                with pytest.raises(ModelError):
                    await ours.billing(verb, key, model=model_of(server))
        assert await ours.rows() == before
