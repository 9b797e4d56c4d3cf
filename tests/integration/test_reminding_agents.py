"""An agent that reminds: of what is due, once; nothing is lost."""

from __future__ import annotations

import re
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from langmem_tiers import MemoryContext, MemoryCoordinator, MemoryHooks
from tests.integration.test_middleware import PAYS, PAYS_AGAIN, agent, said, systems, thread
from tests.support.agents import Way, scripted
from tests.support.graphs import ACME, answers
from tests.support.opening import Clock, refusing

FRIDAY = "Renew the certificate"
FIGURES = "Ask for the figures"


async def test_what_is_intended_is_shown_from_when_it_is_due_until_it_is_done(
    way: Way, clock: Clock
) -> None:
    model = scripted(*["Fine."] * 5)
    made = agent(model, way.store, recall=False)
    context = MemoryContext(tenant="acme", project_id="billing", timezone="Europe/Berlin")
    memory = MemoryCoordinator(way.store, context=context)
    await memory.reminders.aadd(FRIDAY, at="2026-03-06T00:00:00+01:00")  # it is Sunday
    await memory.reminders.aadd(FIGURES, cue="when Anna mentions the budget")
    for number, (days, text) in enumerate((
        (1, "What does the certificate of the shop say?"),
        (1, "Anna asked about the budget"),
        (3, "Good morning"),
        (1, "Good morning"),
    )):  # fmt: skip
        clock.advance(days=days)
        await way(made, said(text, number), config=thread(str(number)), context=context)

    assert [bool(one) for one in systems(model)] == [False, True, True, True]
    _, cue, due, later = systems(model)
    assert f"] {FIGURES} (" in cue
    assert f"] {FRIDAY} (" not in cue
    for one in (due, later):  # it stays until it is done
        assert f"] {FIGURES} (" in one
        assert f"] {FRIDAY} (" in one
    for each in await memory.reminders.alist():
        await memory.reminders.acomplete(each.key)
    await way(made, said("Good morning", 9), config=thread("9"), context=context)
    assert systems(model)[-1] == ""
    assert await memory.reminders.alist() == []


async def test_what_a_user_asks_to_be_reminded_of_is_remembered_and_nothing_more(
    way: Way, clock: Clock
) -> None:
    asked = "Remind me to renew the certificate on Friday. I need to call Ben tomorrow."
    model = scripted("I will.", "Good morning!")
    made = agent(model, way.store, saver=InMemorySaver())
    for number, text in enumerate((asked, "Which certificate is to be renewed on Friday?")):
        await way(made, said(text, number), config=thread(str(number)), context=ACME)
        clock.advance(days=8)
    memory = MemoryCoordinator(way.store, context=ACME)
    assert await memory.reminders.alist() == []
    assert await memory.reminders.adue("the certificate") == []
    assert asked in systems(model)[1]  # it is no less shown than what else was said


async def test_a_day_begins_and_is_told_in_the_users_time_zone(way: Way, clock: Clock) -> None:
    whose = MemoryContext(tenant="acme", timezone="Europe/Berlin")
    memory = MemoryCoordinator(way.store, context=whose)
    await memory.reminders.aadd(FRIDAY, at="2026-03-06T00:00:00+01:00")
    clock.now = datetime(2026, 3, 5, 22, 59, tzinfo=UTC)
    model = scripted(*["Fine."] * 3)
    blue = "The certificate of the shop is in the blue folder"
    red = "The certificate of the shop is now in the red folder"
    asked = "In which folder is the certificate of the shop?"
    for number, text in enumerate((blue, red, asked)):
        await way(agent(model, way.store), said(text, number), context=whose)
        clock.advance(minutes=1)
    before, after, then = systems(model)
    assert before == ""
    assert "Today is Friday 6 March 2026.\n" in after
    assert re.search(r"Due now, tell the user:\n- \[\w{6}\] Renew the certificate", after)
    assert f" 5 Mar: {blue}\n" in after
    assert re.search(rf" 6 Mar: {red}\n- \[\w{{6}}\] 5 Mar: {blue}\n", then)


async def test_what_is_intended_is_shown_once_it_is_due_and_recalled_for_what_is_about_it(
    way: Way,
) -> None:
    memory = MemoryCoordinator(way.store, context=ACME)
    await memory.reminders.aadd("Water the tomatoes on the roof", at="2027-01-01T00:00:00+00:00")
    model = scripted(*["Fine."] * 3)
    asked = "What have I to do with the tomatoes on the roof?"
    for text, own in (
        (asked, {}),
        ("Which train leaves?", {}),
        ("Which train?", {"remind": False}),
    ):
        await way(agent(model, way.store, remember=False, **own), said(text), context=ACME)

    assert not any("Water the tomatoes" in one for one in systems(model))
    train = "When does my train leave?"
    named: dict[str, Any] = {"memory_types": ["prospective"]}
    all_: dict[str, Any] = {"min_match": 0}
    for query, options, found in (
        (train, {}, 0),
        (train, named, 1),
        (train, {"min_match": 0.0001}, 0),
        (train, {"min_match": 0.0001, **named}, 1),
        (train, all_, 1),
        ("", {}, 0),
        ("", named, 1),
        ("", all_, 1),
    ):
        assert len(await memory.aget_context(query, **options)) == found


async def test_a_reminder_that_no_model_saw_is_shown_again_and_one_that_cannot_be_told_is_not_lost(
    way: Way, url: str, clock: Clock
) -> None:
    memory = MemoryCoordinator(way.store, context=ACME)
    await memory.reminders.aadd("Call the bank", key="bank")
    hello = said("Hello, Nova here")
    with refusing(url, "intentions"):
        unknowing = scripted("Fine.")
        state = await way(agent(unknowing, way.store), hello, context=ACME)
    assert state["messages"][-1].text == "Fine."
    assert state["memory_errors"].keys() == {"remind"}
    with pytest.raises(IndexError):
        await way(agent(scripted(), way.store), hello, context=ACME)
    assert [one.status for one in await memory.reminders.alist()] == ["leased"]
    with ExitStack() as gone:
        refuses = partial(gone.enter_context, refusing(url, "intentions"))
        forgetful = scripted("Fine.", meanwhile=refuses)
        clock.advance(minutes=6)
        state = await way(agent(forgetful, way.store), hello, context=ACME)
    assert state["memory_errors"].keys() == {"remind"}
    assert "Call the bank" in systems(forgetful)[0]
    answering = scripted(PAYS, *["Fine."] * 2)
    for _ in range(2):
        clock.advance(minutes=6)
        await way(agent(answering, way.store), hello, context=ACME)
    assert ["] Call the bank" in one for one in systems(answering)] == [True] * 3
    assert systems(answering)[0] == systems(answering)[1]
    assert [one.status for one in await memory.reminders.alist()] == ["delivered"]


async def test_what_is_to_be_done_before_a_tool_answers_its_call_once_and_states_and_starts_remind(
    way: Way,
) -> None:
    memory = MemoryCoordinator(way.store, context=ACME)
    await memory.reminders.aadd("Offer free shipping", when="cart_is_full")
    await MemoryHooks(memory).aon_user_prompt_submit("Clean up the old branches later")
    model = scripted("Noted.", PAYS, PAYS_AGAIN, "Done.")
    await memory.reminders.aadd("Tell the team", before_tool="pay")
    full = {"cart_is_full": lambda state: len(state["messages"]) > 2}
    made = agent(model, way.store, remind=full, saver=InMemorySaver(), recall=False)
    await way(made, said("Hello", 1), config=thread("1"), context=ACME)
    state = await way(made, said("Go on then", 2), config=thread("1"), context=ACME)

    first, *then = systems(model)
    assert ("old branches" in first, "free shipping" in first) == (True, False)
    assert all("free shipping" in one and "old branches" in one for one in then)
    held, ran = [one.text for one in answers(state)]
    assert "Tell the team" in held
    assert ran == "paid 5"
