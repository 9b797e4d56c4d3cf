"""Promotion within reach: by use without outcomes, near misses named, and what somebody judged."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest

from langmem_tiers import ConsolidationPolicy, ConsolidationReport, create_consolidation_graph
from langmem_tiers.core.context import MemoryContext
from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.learning.promotion_policy import PromotionPolicy
from langmem_tiers.store.store import local_index
from tests.support.learning import BILLING, Team, broken, team, tried
from tests.support.opening import Opener
from tests.support.wayward_chat import says, wayward

WAIT = "When a deploy hangs, read the logs of the migration first"
SAID_AGAIN = "Look at what the migration logged before anything else if a deploy hangs"
OPPOSITE = "When a deploy hangs, never read the logs of the migration first"
CYCLE = ConsolidationPolicy(merge=None, supersede=None)


@pytest.fixture
async def ours(open_store: Opener, database_url: str) -> AsyncIterator[Team]:
    """Two projects on a store that embeds as users' stores do."""
    async with team(open_store, database_url, index=local_index(), setup=True) as opened:
        yield opened
    assert broken(database_url) == {}


async def shown(ours: Team, *, days: int, sessions: int) -> None:
    """A recall a day, in so many sessions, of which nobody says what came of it."""
    for day in range(days):
        call = ours.member(project_id=BILLING, session_id=f"chat-{day % sessions}")
        found = await call("get_context", "a deploy hangs", run_id=f"run-{day}")
        assert [one.key for one in found] == ["wait"]
        ours.clock.advance(days=1)


async def cycle(ours: Team, policy: ConsolidationPolicy = CYCLE) -> ConsolidationReport:
    graph = create_consolidation_graph(store=ours.store, policy=policy)
    context = MemoryContext(tenant="acme")
    if ours.billing.mode == "abatch":
        return ConsolidationReport.of(await graph.ainvoke({}, context=context))
    return ConsolidationReport.of(graph.invoke({}, context=context))


async def test_what_matters_and_is_shown_day_after_day_is_promoted_without_any_outcome(
    ours: Team,
) -> None:
    await ours.billing("store", WAIT, "procedural", tier="working", key="wait", importance=0.9)
    await shown(ours, days=8, sessions=3)
    (alone,) = (await cycle(ours)).near_misses
    assert alone.reason == f"needs general words: only {BILLING} knows it"
    await ours.shipping("store", WAIT, "procedural", tier="working", key="theirs")
    report = await cycle(ours)
    assert report.count("promote") == 1
    explained = await ours.billing("learning.explain", "wait")
    reasons = explained.history[0].reasons
    assert [one.split()[0] for one in reasons] == ["importance", "shown", "sessions", "age"]
    third = ours.member(project_id="third")
    (found,) = await third("get_context", "a deploy hangs")
    assert (found.key, found.content) == (explained.successors[0].key, WAIT)


@pytest.mark.parametrize(
    ("given", "use", "lacks"),
    [
        ({"importance": 0.9}, {"days": 8, "sessions": 2}, "sessions 2 >= 3 no"),
        ({"importance": 0.6}, {"days": 8, "sessions": 3}, None),
        ({}, {"days": 8, "sessions": 3}, None),
    ],
)
async def test_what_lacks_one_thing_is_named_with_it_and_what_nobody_called_important_is_not(
    ours: Team, given: dict[str, float], use: dict[str, int], lacks: str | None
) -> None:
    await ours.billing("store", WAIT, "procedural", tier="working", key="wait", **given)
    await shown(ours, **use)
    report = await cycle(ours)
    assert report.count("promote") == 0
    assert [(one.key, one.reason) for one in report.near_misses] == (
        [("wait", f"it lacks: {lacks}")] if lacks else []
    )
    assert (f"near miss: wait: it lacks: {lacks}" in str(report)) == bool(lacks)


async def test_use_is_not_counted_where_it_is_not_asked_for_or_where_outcomes_say_otherwise(
    ours: Team,
) -> None:
    await ours.billing("store", WAIT, "procedural", tier="working", key="wait", importance=0.9)
    await shown(ours, days=8, sessions=3)
    alone = PromotionPolicy(by_use=False)
    assert not (await ours.billing("promote_to_long_term", "wait", policy=alone)).promoted
    await tried(ours.billing, "wait", successes=1, failures=3)
    stays = await ours.billing("promote_to_long_term", "wait")
    assert (stays.promoted, "success 0.25 > 0.80 no" in str(stays)) == (False, True)


async def say(ours: Team, other: str) -> None:
    for call, key, text in zip((ours.billing, ours.shipping), "ab", (WAIT, other), strict=True):
        await call("store", text, "procedural", tier="working", key=key)
        await tried(call, key, successes=6)
    ours.clock.advance(days=8)


@pytest.mark.parametrize("other", [SAID_AGAIN, OPPOSITE])
async def test_a_cycle_asks_whether_what_is_near_to_a_near_miss_is_the_same_or_the_opposite(
    ours: Team, other: str
) -> None:
    await say(ours, other)
    report = await cycle(ours)
    assert report.count("promote") == 0
    assert {(one.key, one.reason) for one in report.near_misses} == {
        (one, "it lacks: projects 1 >= 2 no") for one in "ab"
    }
    asked = {(one.key, one.other_key) for one in report.proposed if one.step == "promote"}
    assert asked == {("a", "b")}
    assert "the same or the opposite?" in str(report)


async def test_what_a_person_judged_the_same_counts_and_goes_along(ours: Team) -> None:
    await say(ours, SAID_AGAIN)
    with pytest.raises(InvalidInputError, match="list of keys"):
        await ours.billing("promote_to_long_term", "a", same="b")
    move = await ours.billing("promote_to_long_term", "a", same=["b"])
    assert (move.promoted, set(move.sources), move.near) == (True, {"a", "b"}, ())
    assert await ours.states() == {"a": None, "b": None, move.successor: None}
    await ours.billing("learning.rollback", move.move)
    assert await ours.states() == {"a": None, "b": None}


@pytest.mark.parametrize("same", [True, False])
async def test_what_a_model_judges_the_same_counts_in_a_cycle(ours: Team, *, same: bool) -> None:
    from langchain_openai import ChatOpenAI  # noqa: PLC0415 - loads slowly, and here alone

    await say(ours, SAID_AGAIN if same else OPPOSITE)
    answer = says(json.dumps({"pairs": [{"older": 1, "newer": 2}] if same else []}))
    general = says(json.dumps({"content": "Read what a migration logged when a deploy hangs"}))
    context = MemoryContext(tenant="acme")
    with wayward(answer, general, general) as server:
        model = ChatOpenAI(model="local", base_url=server.url, api_key=lambda: "none")
        graph = create_consolidation_graph(model, store=ours.store, policy=CYCLE)
        state = (
            await graph.ainvoke({}, context=context)
            if ours.billing.mode == "abatch"
            else graph.invoke({}, context=context)
        )
    report = ConsolidationReport.of(state)
    assert report.count("promote") == (2 if same else 0)
    states = await ours.states()
    assert (len(states), set(states.values())) == (2 + same, {None})


async def test_a_model_is_asked_of_near_misses_alone(ours: Team) -> None:
    from langchain_openai import ChatOpenAI  # noqa: PLC0415 - loads slowly, and here alone

    for call, key, text in zip((ours.billing, ours.shipping), "ab", (WAIT, OPPOSITE), strict=True):
        await call("store", text, "procedural", tier="working", key=key)
        await tried(call, key, successes=2, failures=5)
    ours.clock.advance(days=8)
    context = MemoryContext(tenant="acme")
    with wayward() as server:
        model = ChatOpenAI(model="local", base_url=server.url, api_key=lambda: "none")
        graph = create_consolidation_graph(model, store=ours.store, policy=CYCLE)
        if ours.billing.mode == "abatch":
            await graph.ainvoke({}, context=context)
        else:
            graph.invoke({}, context=context)
    assert server.asked == []


async def test_what_somebody_says_is_the_same_is_known_and_named_by_one(ours: Team) -> None:
    await say(ours, SAID_AGAIN)
    third = ours.member(project_id="third")
    await third("store", OPPOSITE, "procedural", tier="working", key="b")
    for wrong, why in (("c", "no memory"), ("b", "more than one memory")):
        with pytest.raises(InvalidInputError, match=why):
            await ours.billing("promote_to_long_term", "a", same=[wrong])
    assert set((await ours.states()).values()) == {None}


async def test_what_runs_were_shown_and_failed_with_is_not_promoted_for_its_use(ours: Team) -> None:
    await ours.billing("store", WAIT, "procedural", tier="working", key="wait", importance=0.9)
    for day in range(8):
        call = ours.member(project_id=BILLING, session_id=f"chat-{day % 3}")
        await call("get_context", "a deploy hangs", run_id=f"run-{day}")
        outcome = {"success": False, "run_id": f"run-{day}", "answer": "No idea."}
        assert (await call("learning.record_outcome", **outcome)).unused == 1
        ours.clock.advance(days=1)
    assert (await cycle(ours)).count("promote") == 0


async def test_a_rollback_credits_nothing_that_was_not_used(ours: Team) -> None:
    await ours.billing("store", WAIT, "procedural", tier="working", key="wait")
    await tried(ours.billing, "wait", successes=6)
    ours.clock.advance(days=8)
    policy = PromotionPolicy(min_projects=1)
    move = await ours.billing("promote_to_long_term", "wait", policy=policy)
    for run in ("x", "y"):
        await ours.billing("get_context", "a deploy hangs", run_id=run)
        report = await ours.billing(
            "learning.record_outcome", success=True, run_id=run, answer="No idea."
        )
        assert report.unused == 1
    await ours.billing("learning.rollback", move.move)
    assert (await ours.billing("learning.explain", "wait")).success_count == 6


ASKED = PromotionPolicy(min_projects=1)


async def test_a_model_may_say_that_it_is_about_its_project_alone(ours: Team) -> None:
    from langchain_openai import ChatOpenAI  # noqa: PLC0415 - loads slowly, and here alone

    await ours.billing("store", WAIT, "procedural", tier="working", key="wait")
    await tried(ours.billing, "wait", successes=6)
    ours.clock.advance(days=8)
    with wayward(says(json.dumps({"content": "", "bound": True}))) as server:
        model = ChatOpenAI(model="local", base_url=server.url, api_key=lambda: "none")
        stays = await ours.billing("promote_to_long_term", "wait", policy=ASKED, model=model)
    assert (stays.promoted, "about its project alone" in stays.reason) == (False, True)
