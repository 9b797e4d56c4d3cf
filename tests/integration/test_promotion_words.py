"""Promotion keeps the words: the very text, or what a person or a model wrote, or nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from langmem_tiers import ConsolidationPolicy, ConsolidationReport, create_consolidation_graph
from langmem_tiers.core.context import MemoryContext
from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.learning.promotion_policy import PromotionPolicy
from tests.support.learning import BILLING, Team, model_of, tried
from tests.support.wayward_chat import says, wayward

GENERAL = "Use `secrets.compare_digest` for constant-time comparison"
ACCOUNT = "Account 4471-2093 of Brightwater is production: Ines Valadão forbids destroy there"
NEEDS = "needs general words: it names Brightwater, Valadão"
IN_GENERAL = "Check which account is meant before anything is destroyed"
ALONE = PromotionPolicy(min_projects=1)
"""One project is enough."""


async def proven(ours: Team, content: str, key: str = "a", **told: Any) -> str:
    """What billing remembers, and has proven itself there."""
    options = {"memory_type": "semantic", "tier": "working", "key": key, **told}
    await ours.billing("store", content, **options)
    await tried(ours.billing, key, successes=6)
    ours.clock.advance(days=8)
    return key


async def promoted(ours: Team, key: str, **how: Any) -> Any:
    return await ours.billing("promote_to_long_term", key, policy=ALONE, **how)


async def cycle(ours: Team) -> ConsolidationReport:
    policy = ConsolidationPolicy(merge=None, supersede=None, promotion=ALONE)
    graph = create_consolidation_graph(store=ours.store, policy=policy)
    context = MemoryContext(tenant="acme")
    if ours.billing.mode == "abatch":
        return ConsolidationReport.of(await graph.ainvoke({}, context=context))
    return ConsolidationReport.of(graph.invoke({}, context=context))


@pytest.mark.parametrize("how", ["one", "all", "cycle"])
async def test_what_identifies_nobody_goes_to_everybody_word_for_word(ours: Team, how: str) -> None:
    key = await proven(ours, GENERAL)
    if how == "one":
        assert (await promoted(ours, key)).promoted
    elif how == "all":
        assert [one.promoted for one in await ours.billing("learning.promote", policy=ALONE)] == [
            True
        ]
    else:
        assert (await cycle(ours)).count("promote") == 1
    (found,) = await ours.shipping("get_context", GENERAL)
    assert (found.content, found.tier) == (GENERAL, "long_term")
    (own,) = await ours.billing("get_context", GENERAL)
    assert (own.key, own.content) == (key, GENERAL)


async def test_what_names_somebody_stays_is_recalled_and_listed_until_somebody_says_it(
    ours: Team,
) -> None:
    key = await proven(ours, ACCOUNT)
    stays = await promoted(ours, key)
    assert (stays.promoted, stays.reason) == (False, NEEDS)
    (judged,) = await ours.billing("learning.promote", policy=ALONE)
    assert judged.reason == NEEDS
    report = await cycle(ours)
    assert report.count("promote") == 0
    assert [(one.key, one.reason) for one in report.near_misses] == [(key, NEEDS)]
    assert f"{key}: {NEEDS}" in str(report)
    assert await ours.context_keys(ours.billing, "account production") == [key]
    assert await ours.context_keys(ours.shipping, "account production") == []

    move = await promoted(ours, key, general=IN_GENERAL)
    assert (await ours.shipping("get", move.successor)).content == IN_GENERAL
    for query in ("account production", IN_GENERAL, ""):
        assert await ours.context_keys(ours.billing, query) == [key]
        assert await ours.context_keys(ours.shipping, query) == [move.successor]
    with pytest.raises(InvalidInputError, match="general"):
        await promoted(ours, key, general=" ")


async def test_a_word_that_another_project_knows_identifies_nobody(ours: Team) -> None:
    key = await proven(ours, "Prefer Postgres to files")
    assert not (await promoted(ours, key)).promoted
    await ours.shipping("store", "postgres is upgraded on weekends", "semantic", tier="working")
    assert (await promoted(ours, key)).promoted


async def test_a_word_that_begins_a_sentence_is_a_name_if_its_project_uses_it_as_one(
    ours: Team,
) -> None:
    key = await proven(ours, "Northwind pays late")
    await ours.billing("store", "Invoices of Northwind are large", "semantic", tier="working")
    assert (await promoted(ours, key)).reason == "needs general words: it names Northwind"


async def test_what_was_said_in_a_conversation_goes_only_in_general_words(ours: Team) -> None:
    key = await proven(ours, GENERAL, speaker="user", session_id="monday")
    assert (
        await promoted(ours, key)
    ).reason == "needs general words: it was said in a conversation"
    assert await ours.context_keys(ours.billing, GENERAL) == [key]
    assert (await promoted(ours, key, general="Compare secrets in constant time")).promoted


@pytest.mark.parametrize("tier", ["short_term", "working"])
async def test_a_lesson_that_quotes_a_conversation_goes_only_in_general_words(
    ours: Team, tier: str
) -> None:
    said = "please never touch the ledger before the books are closed"
    talk = ours.member(project_id=BILLING, session_id="monday")
    await talk("store", said, "episodic", tier=tier, speaker="user")
    key = await ours.learn(
        ours.billing, improved_approach="Never touch the ledger before the books are closed"
    )
    other = await ours.learn(ours.billing, improved_approach="Close the books, then the ledger")
    for one in (key, other):
        await tried(ours.billing, one, successes=6)
    ours.clock.advance(minutes=30)
    policy = PromotionPolicy(min_projects=1, min_age_days=0)
    stays = await ours.billing("promote_to_long_term", key, policy=policy)
    assert stays.reason == "needs general words: it quotes a conversation"
    assert (await ours.billing("promote_to_long_term", other, policy=policy)).promoted
    move = await ours.billing("promote_to_long_term", key, policy=policy, general=IN_GENERAL)
    found = await ours.shipping("get", move.successor)
    assert (found.content, found.value["improved_approach"]) == (IN_GENERAL, IN_GENERAL)
    assert not found.value.keys() & {"original_approach", "failure_reason", "task_id"}
    lessons = await ours.shipping("learning.get_lessons", "KeyError: 'amount'", tools="python")
    assert move.successor in {one.key for one in lessons}


async def test_tags_that_name_somebody_stay_with_the_original(ours: Team) -> None:
    tags = ["deploy", "valadao", "Brightwater", BILLING]
    key = await proven(ours, ACCOUNT, tags=tags)
    move = await promoted(ours, key, general="Look at the account before a deploy")
    assert (await ours.shipping("get", move.successor)).tags == ("deploy",)
    assert set((await ours.billing("get", key)).tags) == {one.lower() for one in tags}


async def test_a_model_writes_the_words_or_says_that_there_are_none(ours: Team) -> None:
    key = await proven(ours, ACCOUNT)
    with wayward(says(json.dumps({"content": "", "bound": True}))) as server:
        stays = await promoted(ours, key, model=model_of(server))
    assert (stays.promoted, "about its project alone" in stays.reason) == (False, True)
    with wayward(says(json.dumps({"content": IN_GENERAL}))) as server:
        move = await promoted(ours, key, model=model_of(server))
    assert (await ours.shipping("get", move.successor)).content == IN_GENERAL


async def test_what_a_project_superseded_does_not_come_back_to_it_as_everybodys(ours: Team) -> None:
    key = await proven(ours, "releases are on fridays")
    move = await promoted(ours, key)
    await ours.billing(
        "store", "releases are on mondays now", "semantic", tier="working", key="newer"
    )
    await ours.billing("truth.supersede", key, by="newer")
    assert await ours.context_keys(ours.billing, "releases") == ["newer"]
    assert await ours.context_keys(ours.shipping, "releases") == [move.successor]
    everybody = await ours.billing("get_context", "releases", tiers=["long_term"])
    assert [one.key for one in everybody] == [move.successor]


async def test_what_is_promoted_for_its_user_goes_as_it_stands(ours: Team) -> None:
    ada = ours.member(project_id=BILLING, user_id="ada")
    await ada("store", ACCOUNT, "semantic", tier="working", key="a", personal=True)
    await tried(ada, "a", successes=6)
    ours.clock.advance(days=8)
    move = await ada("promote_to_long_term", "a", policy=ALONE)
    assert move.promoted
    elsewhere = ours.member(project_id="third", user_id="ada")
    assert (await elsewhere("get", move.successor)).content == ACCOUNT
    assert await ours.context_keys(elsewhere, "account") == [move.successor]
    assert await ours.context_keys(ada, "account") == ["a"]
    assert await ours.context_keys(ours.shipping, "account") == []
