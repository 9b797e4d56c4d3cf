"""A model that fails as a reviewer is named in the log, once a call and without what it read."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from langmem_tiers.core.settings import CoordinatorSettings
from tests.support.coordinating import calling
from tests.support.opening import Opener
from tests.support.reviewing import BAD, member, model_of, scoring
from tests.support.wayward_chat import Reply, fails, minded

FACT = "The API key of billing rotates on Mondays at 9:00."
LOGGER = "langmem_tiers.remember.review_models"


def only(failing: str, reply: Reply) -> Any:
    """Members that answer well, but for one."""
    well = scoring()
    return lambda request: reply if member(request) == failing else well(request)


def warned(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the module has warned of."""
    return [
        one.getMessage()
        for one in caplog.records
        if (one.name, one.levelno) == (LOGGER, logging.WARNING)
    ]


@pytest.mark.parametrize("when", ["before", "background"])
async def test_a_model_that_fails_is_told_once_beside_the_result(
    open_store: Opener, url: str, caplog: pytest.LogCaptureFixture, when: str
) -> None:
    answer = only("analyzer", fails(500, f"I choked on: {FACT}"))
    with minded(answer) as server:
        options: dict[str, Any] = {"review_model": model_of(server), "review_storage": when}
        async with calling(open_store, url, **options) as call:
            kept = await call("store", FACT)
            assert await call("finish_reviews")

    (said,) = warned(caplog)
    assert said.startswith("1 of 4 reviews for storage by a model failed: 1 of analyzer (")
    assert "API key" not in said
    assert kept.failures.keys() == ({"analyzer"} if when == "before" else set())


async def test_a_model_that_does_not_answer_in_time_is_named_with_the_time(
    open_store: Opener, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    settings = CoordinatorSettings(query_timeout_ms=60_000, relevance_timeout_ms=50)
    with minded(BAD["never comes"]) as server:
        async with calling(
            open_store, url, settings=settings, review_model=model_of(server)
        ) as call:
            await call("store", FACT)
            (found,) = await call("get_context", FACT, review="model")

    assert found.review is not None
    late = "the model did not answer within 0.05 s"
    (said,) = warned(caplog)
    assert said == (
        "2 of 2 reviews for relevance by a model failed: "
        f"1 of analyzer ({late}), 1 of patterns ({late})"
    )
