"""Chat models that help to learn, over HTTP: what they may answer, and what becomes of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any, Literal

import pytest
from langchain_openai import ChatOpenAI

from langmem_tiers.core.errors import ModelError
from langmem_tiers.learning.generalise import generaliser_of
from langmem_tiers.learning.reflexion import (
    DrawnLesson,
    Experience,
    FailedAttempt,
    Reflexion,
    reflector_of,
)
from tests.support.learning import model_of
from tests.support.wayward_chat import SILENCE, Wayward, says, wayward

Way = Literal["sync", "async"]
Verb = Callable[[ChatOpenAI, Way], Any]

ATTEMPT = FailedAttempt(
    task_id="task-456",
    approach="Compared passwords with ==",
    error="AssertionError: took 0.31 s instead of 0.30 s",
    tool="pytest",
)
TOLD = Experience(attempts=[ATTEMPT])
LESSON = {
    "failure_reason": "The time that == takes tells how much is right",
    "improved_approach": "Use secrets.compare_digest",
    "tags": ["Security", "passwords"],
}
NOTED = "In billing-service, compare passwords by secrets.compare_digest, not by =="
GENERAL = {"content": "Compare passwords by secrets.compare_digest, not by =="}
LEAKY = {"content": "In BillingService, compare passwords by secrets.compare_digest"}
PRIVATE = ["billing-service", "acme"]


def reflect(model: ChatOpenAI, way: Way) -> list[DrawnLesson]:
    reflector = reflector_of(model)
    return reflector.call(TOLD, []) if way == "sync" else asyncio.run(_awaited(reflector.acall))


async def _awaited(acall: Any, *args: Any) -> Any:
    return await acall(*(args or (TOLD, [])))


def generalise(model: ChatOpenAI, way: Way) -> str | None:
    generaliser = generaliser_of(model)
    if way == "sync":
        return generaliser.call(NOTED, PRIVATE)
    return asyncio.run(_awaited(generaliser.acall, NOTED, PRIVATE))  # type: ignore[no-any-return]


def last_told(server: Wayward) -> str:
    content = server.asked[-1]["messages"][-1]["content"]
    assert isinstance(content, str)
    return content


both_ways = pytest.mark.parametrize("way", ["sync", "async"])
GOOD = says(json.dumps({**LESSON, **GENERAL}))
GARBAGE = says("I would rather talk about the weather.")
TRUNCATED = says(json.dumps({**LESSON, **GENERAL})[:-30])
WRONG_FIELDS = says(json.dumps({"lesson": "Use secrets.compare_digest"}))
BLANK = says(json.dumps({**LESSON, "improved_approach": "  ", "content": " "}))
NOTHING = says(None)


@both_ways
def test_a_model_finds_the_lesson_in_a_failed_attempt(way: Way) -> None:
    with wayward(says(json.dumps({"lessons": [LESSON]}))) as server:
        (drawn,) = reflect(model_of(server), way)

    assert drawn.kind == TOLD.kinds[0]
    assert drawn.lesson == Reflexion(
        task_id=ATTEMPT.task_id,
        original_approach=ATTEMPT.approach,
        failure_reason=LESSON["failure_reason"],  # type: ignore[arg-type]
        improved_approach=LESSON["improved_approach"],  # type: ignore[arg-type]
        tags=("security", "passwords"),
        failure=ATTEMPT.failure,
    )
    (asked,) = server.asked
    assert [one["role"] for one in asked["messages"]] == ["system", "user"]
    assert ATTEMPT.error in last_told(server)


@both_ways
def test_a_model_says_for_everybody_what_one_project_learned(way: Way) -> None:
    with wayward(says(json.dumps(GENERAL))) as server:
        assert generalise(model_of(server), way) == GENERAL["content"]

    assert len(server.asked) == 1
    assert NOTED in last_told(server)
    assert all(name in last_told(server) for name in PRIVATE)


@both_ways
@pytest.mark.parametrize("verb", [reflect, generalise])
def test_what_was_wrong_is_told_to_the_model_once(verb: Verb, way: Way) -> None:
    for bad in (GARBAGE, TRUNCATED, WRONG_FIELDS, BLANK, NOTHING):
        with wayward(bad, GOOD) as server:
            assert verb(model_of(server), way)
        first, second = (one["messages"] for one in server.asked)
        assert second[:-1] == first
        assert "cannot be used" in second[-1]["content"]
    with wayward(bad, bad, GOOD) as server, pytest.raises(ModelError, match="no usable answer"):
        verb(model_of(server), way)
    assert len(server.asked) == 2


@both_ways
def test_a_leak_is_told_to_the_model_once(way: Way) -> None:
    with wayward(says(json.dumps(LEAKY)), says(json.dumps(GENERAL))) as server:
        assert generalise(model_of(server), way) == GENERAL["content"]
    assert len(server.asked) == 2
    assert "BillingService" in last_told(server)
    leaky = says(json.dumps(LEAKY))
    with wayward(leaky, leaky, GOOD) as server, pytest.raises(ModelError, match="BillingService"):
        generalise(model_of(server), way)
    assert len(server.asked) == 2


async def test_a_model_that_is_asked_can_be_cancelled() -> None:
    with wayward(SILENCE, GOOD) as server:
        task = asyncio.create_task(_awaited(reflector_of(model_of(server)).acall))
        await asyncio.to_thread(server.was_asked.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert len(server.asked) == 1
