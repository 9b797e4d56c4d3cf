"""A session ends before the models have reviewed its notes: what is kept of them is reviewed."""

from __future__ import annotations

from typing import Any

import pytest

from langmem_tiers import MemoryContext
from tests.support.coordinating import Caller, calling, coordinator, keys
from tests.support.cycles import cycle
from tests.support.opening import Opener
from tests.support.reviewing import BAD, Answer, model_of, scoring
from tests.support.wayward_chat import Reply, minded

CLAIM = "The port of billing is 8080."
FIGURE = "Reading the logs of last night"
WHOSE: dict[str, Any] = {"project_id": "billing", "session_id": "chat"}


@pytest.mark.parametrize("ended", ["by its verb", "by a cycle"])
async def test_what_is_kept_of_a_note_that_awaits_a_review_awaits_it_in_its_place(
    open_store: Opener, url: str, ended: str
) -> None:
    answers: list[Answer] = [BAD["fails"]]

    def answered(request: dict[str, object]) -> Reply:
        return answers[-1](request)

    with minded(answered) as server:
        options: dict[str, Any] = {"review_model": model_of(server), "review_storage": "background"}
        async with calling(open_store, url, **WHOSE, **options) as call:
            store = call.memory.tiered_store
            seen = Caller(coordinator(store, **WHOSE), call.mode)
            await seen("store", CLAIM, "working", importance=0.9)
            await call("store", FIGURE, "working", source="agent")
            assert await call("finish_reviews")
            if ended == "by its verb":
                await call("consolidate_session")
                assert await call("finish_reviews")
            else:
                context = MemoryContext(tenant="acme", **WHOSE)
                await cycle(store).ainvoke({"session_ended": True}, context=context)
            assert await call("session_notes") == []
            answers.append(scoring(injection=0))

            report = await call("review_waiting")
            held = await call("list_quarantined")
            found = await call("get_context", "", limit=9)

    assert report.quarantined == tuple(keys(held))
    (digest,) = held
    assert FIGURE in digest.content
    assert digest.reason == "instructs: injection by model"
    assert [one.content for one in found] == [CLAIM]


async def test_the_end_of_a_session_has_the_models_look_at_once(
    open_store: Opener, url: str
) -> None:
    answers: list[Answer] = [BAD["fails"]]

    def answered(request: dict[str, object]) -> Reply:
        return answers[-1](request)

    with minded(answered) as server:
        options: dict[str, Any] = {"review_model": model_of(server), "review_storage": "background"}
        async with calling(open_store, url, **WHOSE, **options) as call:
            await call("store", CLAIM, "working")
            assert await call("finish_reviews")
            answers.append(scoring())
            report = await call("consolidate_session")
            assert await call("finish_reviews")
            for key in (*report.semantic, *report.episodic):
                events = (await call("history", key)).events
                assert [one.kind for one in events] == ["reviewed"]
            assert str(await call("review_waiting")) == "nothing awaited a review"
