"""Promotion in two projects: what is near is no evidence, however near; what is equal is."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from langmem_tiers import ConsolidationPolicy, ConsolidationReport, create_consolidation_graph
from langmem_tiers.core.context import MemoryContext
from langmem_tiers.learning.promotion_policy import PromotionPolicy
from langmem_tiers.store.store import local_index
from tests.support.learning import BILLING, SHIPPING, Team, broken, team, tried
from tests.support.opening import Opener

ONE_PROJECT = PromotionPolicy(min_projects=1)
PAIRS = {
    "always, never": (
        "Always retry a request after a timeout in the payment service",
        "Never retry a request after a timeout in the payment service",
    ),
    "another number": (
        "Set the connection pool size of the worker to 10",
        "Set the connection pool size of the worker to 100",
    ),
    "a question": (
        "The nightly export of invoices needs a lock on the whole table.",
        "The nightly export of invoices needs a lock on the whole table?",
    ),
}
"""What one project says, and what another says: the opposite, or something else."""


@pytest.fixture
async def ours(open_store: Opener, database_url: str) -> AsyncIterator[Team]:
    """Two projects on a store that embeds as users' stores do."""
    async with team(open_store, database_url, index=local_index(), setup=True) as opened:
        yield opened
    assert broken(database_url) == {}


async def say(ours: Team, texts: tuple[str, str]) -> None:
    """Let billing and shipping each remember a text, which serves each of them well."""
    for call, key, text in zip((ours.billing, ours.shipping), "ab", texts, strict=True):
        await call("store", text, "pattern", tier="working", key=key)
        await tried(call, key, successes=6)
    ours.clock.advance(days=8)


@pytest.mark.parametrize("texts", PAIRS.values(), ids=PAIRS.keys())
async def test_what_is_near_in_another_project_is_named_and_neither_evidence_nor_a_successor(
    ours: Team, texts: tuple[str, str]
) -> None:
    await say(ours, texts)
    stays = await ours.billing("promote_to_long_term", "a")
    assert (stays.promoted, stays.reason) == (False, "not proven yet")
    assert [one.key for one in stays.near] == ["b"]
    assert stays.near[0].similarity >= ONE_PROJECT.near_duplicate
    assert "near, and not the same: b (" in str(stays)
    explained = await ours.billing("learning.explain", "a")
    assert (explained.projects, explained.near) == ((BILLING,), stays.near)
    assert "near, not counted: b (" in str(explained)
    assert texts[1] not in f"{stays} {explained}"
    assert await ours.states() == {"a": None, "b": None}

    first = await ours.billing("promote_to_long_term", "a", policy=ONE_PROJECT)
    assert (first.sources, [one.key for one in first.near]) == (("a",), ["b"])
    found = await ours.billing("get", first.successor)
    assert (found.success_count, found.failure_count) == (6, 0)
    assert (await ours.states())["b"] is None
    second = await ours.shipping("promote_to_long_term", "b", policy=ONE_PROJECT)
    assert (second.promoted, second.reinforced, second.sources) == (True, False, ("b",))
    shown = await ours.billing("get_context", "", tiers=["long_term"])
    assert {one.content for one in shown} == set(texts)


@pytest.mark.parametrize(
    "again",
    [
        "Always retry a request after a timeout in the payment service",
        "always retry a request  after a timeout\nin the payment service.",
    ],
)
async def test_an_equal_text_of_another_project_is_evidence_and_lives_on_together(
    ours: Team, again: str
) -> None:
    await say(ours, (PAIRS["always, never"][0], again))
    assert (await ours.billing("learning.explain", "a")).projects == (BILLING, SHIPPING)
    move = await ours.billing("promote_to_long_term", "a")
    assert (move.promoted, set(move.sources), move.near) == (True, {"a", "b"}, ())
    assert await ours.states() == {"a": None, "b": None, move.successor: None}
    found = await ours.shipping("get", move.successor)
    assert found.success_count == 12


async def test_a_cycle_names_what_is_near_to_what_it_promotes(ours: Team) -> None:
    await say(ours, PAIRS["always, never"])
    policy = ConsolidationPolicy(promotion=ONE_PROJECT, merge=None, supersede=None)
    graph = create_consolidation_graph(store=ours.store, policy=policy)
    context = MemoryContext(tenant="acme")
    if ours.billing.mode == "abatch":
        state = await graph.ainvoke({}, context=context)
    else:
        state = graph.invoke({}, context=context)
    report = ConsolidationReport.of(state)
    assert report.count("promote") == 2
    (one,) = report.proposed
    assert (one.step, {one.key, one.other_key}) == ("promote", {"a", "b"})
    assert {one.namespace, one.other_namespace} == {("acme", BILLING), ("acme", SHIPPING)}
    assert "not counted" in str(report)
    assert not any(text in str(report) for text in PAIRS["always, never"])
