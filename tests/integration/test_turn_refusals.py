"""A turn refuses what it cannot write, at the call or in the commit, and keeps all else."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from langmem_tiers.core.errors import InvalidInputError, InvalidTypeError
from langmem_tiers.core.memory import Destination
from langmem_tiers.turn.turn import Route
from tests.support.coordinating import Caller, calling
from tests.support.opening import Opener
from tests.support.turning import turning

FACT = "The API key is rotated on Mondays."
OTHER = "The vault is in the basement."


@pytest.fixture
async def call(open_store: Opener, url: str) -> AsyncIterator[Caller]:
    """A coordinator of (acme, billing, chat), called each way."""
    async with calling(open_store, url, project_id="billing", session_id="chat") as opened:
        yield opened


async def test_progress_of_no_goal_is_refused_at_the_call_and_the_rest_is_committed(
    call: Caller,
) -> None:
    for name in ("ledger", "books"):
        await call.memory.state.aset_goal(name, f"Close the {name}")
    async with turning(call) as turn:
        kept = await turn("memorize", FACT)
        with pytest.raises(InvalidInputError, match="no goal 'no such goal': set it first") as no:
            await turn("note_progress", "no such goal", 0.5, "half")
        await turn("note_progress", "books", 0.25, "two invoices")
        report = await turn("commit")

    assert str(no.value).endswith("or name one of 'books', 'ledger'")
    assert [one.key for one in report.stored] == list(kept.keys)
    assert [one["goal"] for one in report.goals] == ["books"]
    assert report.refused == ()


async def test_what_comes_from_nowhere_is_refused_at_the_call_and_the_rest_is_committed(
    call: Caller,
) -> None:
    async with turning(call) as turn:
        kept = await turn("memorize", FACT)
        for origin in ("nowhere", kept.keys[0]):
            derived = {"content": OTHER, "derived_from": [origin]}
            with pytest.raises(InvalidInputError, match=f"there is no memory '{origin}'"):
                await turn("memorize", derived)
        report = await turn("commit")

    assert [one.key for one in report.stored] == list(kept.keys)


async def test_what_went_before_the_commit_is_refused_there_by_itself(call: Caller) -> None:
    state = call.memory.state
    await state.aset_goal("books", "Close the books")
    await call("store", "Ann said so.", key="said")
    async with turning(call, turn_id="t1") as turn:
        kept = await turn("memorize", FACT)
        lost = await turn("memorize", {"content": OTHER, "derived_from": ["said"]})
        await turn("note_progress", "books", 0.25, "two invoices")
        await call("forget", key="said")
        await state.aclose_goal("books")
        report = await turn("commit")

    assert [one.key for one in report.stored] == list(kept.keys)
    reasons = {one.key: one.reason for one in report.refused}
    assert reasons.pop(lost.keys[0]).startswith("there is no memory 'said'")
    (closed,) = reasons.values()
    assert closed == "the goal 'books' is closed by now: it is no nearer"
    assert (report.goals, report.summary["goals"], report.summary["refused"]) == ((), 0, 2)
    told = [one.reasons[0] for one in report.trace.of_kind("refused")]
    assert len(told) == 2
    assert closed in told


async def test_what_comes_from_what_the_same_turn_replaces_or_evicts_is_refused_by_itself(
    call: Caller,
) -> None:
    for key in ("said", "old"):
        await call("store", f"Ann said that of the {key} one.", key=key)
    evicting = Route(destinations=(Destination("semantic", "known"),), evicted=("old",))
    async with turning(call, router=lambda _: evicting) as turn:
        kept = await turn("memorize", FACT)
        typed = {"content": OTHER, "memory_type": "semantic"}
        lost = await turn("memorize", {**typed, "derived_from": ["old"]})
        circular = {"content": "Ann did say so.", "memory_type": "semantic", "key": "said"}
        await turn("memorize", {**circular, "derived_from": ["said"]})
        report = await turn("commit")

    assert [one.key for one in report.stored] == list(kept.keys)
    assert {one.key for one in report.refused} == {lost.keys[0], "said"}
    assert all("derive from it in a call of its own" in one.reason for one in report.refused)
    assert (await call("get", "said")).content == "Ann said that of the said one."


async def test_a_retry_of_a_committed_turn_is_answered_though_its_goal_is_closed(
    call: Caller,
) -> None:
    await call.memory.state.aset_goal("books", "Close the books")
    reports = []
    for _ in range(2):
        async with turning(call, turn_id="t1") as turn:
            await turn("note_progress", "books", 1.0, "all of them")
            reports.append(await turn("commit"))
        await call.memory.state.aclose_goal("books")

    assert reports[0].goals == reports[1].goals != ()


async def test_a_route_that_evicts_no_keys_is_refused_at_the_call(call: Caller) -> None:
    wrong: Any = (5,)
    route = Route(destinations=(Destination("semantic", "known"),), evicted=wrong)
    async with turning(call, router=lambda _: route) as turn:
        with pytest.raises(InvalidTypeError, match="evicted of a route"):
            await turn("memorize", FACT)
        assert (await turn("commit")).stored == ()
