"""Reviewers score what was recalled: by functions of their own, or by a model that may fail."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest

from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.core.memory import ReviewResult, recollection_fields
from langmem_tiers.core.settings import CoordinatorSettings
from langmem_tiers.remember.review import Reviewer, Reviewers
from tests.support.coordinating import Caller, calling, coordinator, keys
from tests.support.opening import Opener
from tests.support.reviewing import BAD, model_of
from tests.support.wayward_chat import Reply, Wayward, minded, says

CONTENTS = [f"kiwi number {n} hangs on tree {9 - n}" for n in range(9)]
QUERY = "kiwi number 1"


def by_number(content: str, _: str) -> tuple[float, str]:
    number = int(content.split()[2])
    return number / 10, f"its number is {number}"


NUMBERED = Reviewers([Reviewer(name="number", relevance=by_number)])


@asynccontextmanager
async def filled(open_store: Opener, url: str, **options: Any) -> AsyncIterator[Caller]:
    async with calling(open_store, url, **options) as call:
        todo = [{"content": text, "key": str(n)} for n, text in enumerate(CONTENTS)]
        plain = Caller(coordinator(call.memory.tiered_store), call.mode)
        await plain("store_many", todo)  # by a coordinator without reviewers
        yield call


@asynccontextmanager
async def reviewed_by(
    reply: Callable[[dict[str, Any]], Reply], open_store: Opener, url: str, timeout_ms: int = 60_000
) -> AsyncIterator[tuple[Caller, Wayward]]:
    """A coordinator with a model that answers like this."""
    chosen = CoordinatorSettings(query_timeout_ms=60_000, relevance_timeout_ms=timeout_ms)
    with minded(reply) as server:
        model = model_of(server)
        async with filled(open_store, url, review_model=model, settings=chosen) as call:
            yield call, server


def numbered(request: dict[str, Any]) -> Reply:
    """The higher its number, the more relevant."""
    number = int(str(request["messages"][1]["content"]).split("kiwi number ")[-1][0])
    return says(json.dumps({"score": number / 10, "reason": f"it is {number}"}))


async def test_the_best_of_three_times_the_limit_are_returned_by_relevance(
    open_store: Opener, url: str
) -> None:
    async with filled(open_store, url, reviewers=NUMBERED) as call:
        ranked = keys(await call("get_context", QUERY, limit=6, min_match=0))
        found = await call("get_context", QUERY, limit=2, min_match=0, review="own")

    assert keys(found) == sorted(ranked, reverse=True)[:2]
    assert ranked[:2] != keys(found)
    assert found[0].review == ReviewResult(
        consensus_score=int(found[0].key) / 10,
        agent_scores={"number": int(found[0].key) / 10},
        reasons={"number": f"its number is {found[0].key}"},
    )
    assert found[0].evidence["relevance"] == int(found[0].key) / 10
    assert sum(found[0].explanation.values()) == pytest.approx(found[0].score)
    assert f"relevance 0.{found[0].key}0, number 0.{found[0].key}0: its number is" in str(found[0])
    json.dumps(recollection_fields(found[0]))


async def test_nobody_reviews_unless_asked_to_and_nothing_without_a_query(
    open_store: Opener, url: str
) -> None:
    asked = []

    def noted(content: str, _: str) -> tuple[float, str]:
        asked.append(content)
        return 0.5, "noted"

    panel = Reviewers([Reviewer(name="noted", relevance=noted)])
    async with filled(open_store, url, reviewers=panel) as call:
        assert (await call("get_context", QUERY))[0].review is None
        assert (await call("get_context", "", review="own"))[0].review is None
        assert asked == []
        with pytest.raises(InvalidInputError, match="review is one of own, model, not 'rules'"):
            await call("get_context", QUERY, review="rules")
        with pytest.raises(InvalidInputError, match="give the coordinator a review_model"):
            await call("get_context", QUERY, review="model")


async def test_without_a_function_for_relevance_no_reviewer_can_be_asked_without_a_model(
    open_store: Opener, url: str
) -> None:
    async with calling(open_store, url) as call:
        with pytest.raises(InvalidInputError, match="no reviewer has a function for relevance"):
            await call("get_context", QUERY, review="own")
        call.memory.reviewers.register(Reviewer(name="number", relevance=by_number))
        assert await call("get_context", QUERY, review="own") == []


async def test_a_model_scores_each_memory_by_each_member_and_of_a_batch_too(
    open_store: Opener, url: str
) -> None:
    async with reviewed_by(numbered, open_store, url) as (call, server):
        asks = partial(call, limit=3, min_match=0, review="model")
        found = await asks("get_context", QUERY)
        asked = len(server.asked)
        batch = await asks("get_context_batch", [QUERY, ""])

    assert keys(found) == ["8", "7", "6"]
    assert asked == 2 * len(CONTENTS)
    assert dict(found[0].review.reasons) == {"analyzer": "it is 8", "patterns": "it is 8"}
    assert [keys(batch[0]), batch[1][0].review] == [["8", "7", "6"], None]


@pytest.mark.parametrize("answer", BAD)
async def test_a_model_whose_answer_is_no_use_loses_and_holds_up_nothing(
    open_store: Opener, url: str, answer: str
) -> None:
    timeout_ms = 500 if answer == "never comes" else 60_000
    async with reviewed_by(BAD[answer], open_store, url, timeout_ms=timeout_ms) as (
        call,
        server,
    ):
        found = await call("get_context", QUERY, limit=3, min_match=0, review="model")
        ranked = await call("get_context", QUERY, limit=3, min_match=0)
        assert not server.closed.is_set()  # what waits for an answer waits still

    assert keys(found) == keys(ranked)
    assert [one.review.consensus_score for one in found] == [None] * 3
    assert all(set(one.review.failures) == {"analyzer", "patterns"} for one in found)
    assert "analyzer failed: the model" in str(found[0])
