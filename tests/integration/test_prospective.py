"""What is stored as prospective is raised, whatever stored it: in time, on its topic, and once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver

from langmem_tiers import (
    At,
    MemoryContext,
    MemoryCoordinator,
    MemoryHooks,
    MemoryOrchestrator,
    TieredMemoryMiddleware,
    TieredStore,
    local_index,
)
from langmem_tiers.cli.memories import import_records
from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.graph.tools import create_manage_memory_tool
from langmem_tiers.importers import Record
from tests.integration.test_reminders import EVERY, Desk
from tests.support.agents import Way, agent_on, calls, scripted
from tests.support.coordinating import PATIENT, coordinator, keys
from tests.support.graphs import pay
from tests.support.opening import Clock, Opener, text_index, tiered
from tests.support.reading import Reader

FRIDAY = "I need to renew the TLS certificate on Friday"
"""Said on Sunday, 1 March 2026."""
NEW_YORK = "America/New_York"


@pytest.fixture
async def ours(open_store: Opener, url: str) -> AsyncIterator[Desk]:
    async with open_store(url=url, index=text_index()) as driver:
        memory = coordinator(tiered(driver), project_id="billing")
        yield Desk(memory, driver.mode, open_store.clock, url)


async def stored(ours: Desk) -> None:
    await ours("store", FRIDAY, "prospective")


async def stored_without_a_type(ours: Desk) -> None:
    await ours("store", FRIDAY, None)


async def stored_by_keyword(ours: Desk) -> None:
    await ours("store", "I need to renew the TLS certificate on Friday", None)


async def stored_among_several(ours: Desk) -> None:
    several = ["Anna likes tea", {"content": FRIDAY, "memory_type": "prospective"}]
    await ours("store_many", several)


async def memorized_in_a_turn(ours: Desk) -> None:
    async with MemoryOrchestrator(ours.memory) as turn:
        await turn.aassemble_context("What is there to do?")
        await turn.amemorize(FRIDAY)
        await turn.acommit()


async def imported(ours: Desk) -> None:
    value = {"content": FRIDAY, "memory_type": "prospective"}
    one = Record(tenant="acme", project="billing", key="k", value=value)
    await asyncio.to_thread(import_records, ours.store, [one])


async def kept_by_a_tool(ours: Desk) -> None:
    tool = create_manage_memory_tool(("acme", "billing"), store=ours.store)
    await tool.ainvoke({"content": FRIDAY})


@pytest.mark.parametrize(
    "stores",
    [
        stored,
        stored_without_a_type,
        stored_by_keyword,
        stored_among_several,
        memorized_in_a_turn,
        imported,
        kept_by_a_tool,
    ],
    ids=lambda one: one.__name__,
)
async def test_what_is_stored_for_a_day_is_raised_then_and_never_again_once_it_was_seen(
    ours: Desk, stores: Callable[[Desk], Awaitable[None]]
) -> None:
    await stores(ours)
    ours.clock.now = datetime(2026, 3, 5, 23, 59, tzinfo=UTC)
    assert await ours.raised("Which TLS certificate is that?") == []
    ours.clock.advance(minutes=1)
    (found,) = await ours("remind", lease_seconds=60)
    assert "renew the TLS certificate" in found.content
    ours.clock.advance(minutes=1)
    (again,) = await ours("remind", lease_seconds=60)
    assert await ours("acknowledge", again)
    ours.clock.advance(days=30)
    assert await ours.raised("Renew the TLS certificate") == []
    assert await ours("complete", again.key) is True


@pytest.mark.parametrize("finish", ["complete", "cancel", "delete_memory"])
async def test_what_names_no_occasion_is_raised_when_its_topic_comes_up_unless_it_is_over(
    ours: Desk, finish: str
) -> None:
    for key, text in [
        ("tls", "Renew the TLS certificate of the shop"),
        ("lisbon", "If the trip to Lisbon comes up, mention the tram tickets"),
        ("over", "Send Priya the photos of the garden"),
    ]:
        await ours("store", text, "prospective", key=key)
    await ours(finish, "over")
    assert await ours.raised() == []
    for other in ("Good morning!", "What is the capital of Peru?", "Priya, garden, photos"):
        assert await ours.raised(other) == []
    assert await ours.raised("What do I pack for the trip to Lisbon?") == ["lisbon"]
    assert await ours.raised("The browser says the TLS certificate of the shop is old") == ["tls"]
    assert await ours.raised("The TLS certificate of the shop in Lisbon, on our trip") == []


def test_a_cue_is_shown_by_what_is_near_and_not_by_other_talk(database_url: str) -> None:
    with TieredStore(database_url, index=local_index()) as store:
        store.setup()
        memory = MemoryCoordinator(store, context=MemoryContext(tenant="acme"), settings=PATIENT)
        hooks = MemoryHooks(memory, session_id="s")
        hooks.on_user_prompt_submit("Next time we speak of the aquarium, I need to see to the pump")
        memory.store("If Madrid comes up, mention the museum tickets", "prospective", key="madrid")
        memory.intend("Ask whether the boiler was serviced", topic=True, key="boiler")
        for other in ("Good morning!", "How do I cook rice?", "Which tickets do I need?"):
            assert memory.remind(other) == []
        assert keys(memory.remind("I am flying to Madrid in May")) == ["madrid"]
        assert keys(memory.remind("Was the boiler serviced last year?")) == ["boiler"]
        (pump,) = memory.remind("Thanks. The water of my aquarium is green, what can I do?")
        assert "pump" in pump.content
        assert memory.intentions("pending") == []


async def test_a_judge_says_whether_a_topic_has_come_up(ours: Desk) -> None:
    await ours("store", "Renew the TLS certificate", "prospective", key="tls")
    await ours("store", "Water the plants", "prospective", key="plants")
    asked = "Whose TLS certificate is it?"
    assert await ours.raised(asked, judge=Reader("nothing")) == []
    assert await ours.raised(asked, judge=Reader("TLS")) == ["tls"]


async def test_what_is_to_be_done_before_a_tool_runs_is_raised_by_its_call_and_no_other(
    ours: Desk,
) -> None:
    await ours("store", "Tell the team before you run deploy_site", "prospective", key="tell")
    await ours("store", "Try deploy_site with the new flag", "prospective", key="try")
    assert await ours.raised(tool=["deploy", "search"], kinds=["tool"]) == []
    assert await ours.raised(tool="deploy_site", kinds=["tool"]) == ["tell"]
    assert await ours.raised(tool="deploy_site") == []


async def test_days_and_hours_are_those_of_the_users_time_zone(ours: Desk) -> None:
    there = MemoryContext(tenant="acme", project_id="billing", timezone=NEW_YORK)
    ours.clock.now = datetime(2026, 3, 2, 3, tzinfo=UTC)  # it is Sunday there still
    memory = MemoryCoordinator(ours.store, context=there, settings=PATIENT)
    await memory.astore("Call the bank on Monday at 9:30", "prospective", key="call")
    await memory.astore("Water the plants every Monday", "prospective", key="plants")
    (first, second) = await memory.aintentions()
    assert (first.key, first.due_at) == ("plants", datetime(2026, 3, 2, 5, tzinfo=UTC))
    assert str(first.trigger).startswith("at 2026-03-02T00:00:00-05:00, ")
    assert (second.key, second.due_at) == ("call", datetime(2026, 3, 2, 14, 30, tzinfo=UTC))
    ours.clock.now = second.due_at
    assert keys(await memory.aremind()) == ["plants", "call"]
    again = {one.key: one.due_at for one in await memory.aintentions("pending")}
    assert again == {"plants": datetime(2026, 3, 9, 4, tzinfo=UTC)}  # summer time has begun


RECURRING = {
    "Check the backups every Monday": ["2026-03-02T00:00", "2026-03-09T00:00"],
    "Send Anna the hours weekly": ["2026-03-08T00:00", "2026-03-15T00:00"],
    "Pay the rent at the end of every month": ["2026-03-31T00:00", "2026-04-30T00:00"],
    "Take a break every 2 hours": ["2026-03-01T14:00", "2026-03-01T16:00"],
}


@pytest.mark.parametrize("lease", [None, 60])
@pytest.mark.parametrize("text", RECURRING)
async def test_what_recurs_is_raised_once_each_time(
    ours: Desk, text: str, lease: float | None
) -> None:
    await ours("store", text, "prospective", key="k")
    for at in RECURRING[text]:
        ours.clock.now = datetime.fromisoformat(f"{at}+00:00") - timedelta(seconds=1)
        assert await ours.raised(text) == []
        ours.clock.advance(seconds=1)
        (found,) = await ours("remind", lease_seconds=lease)
        assert found.due_at == ours.clock.now
        assert lease is None or await ours("acknowledge", found)
        assert lease is None or await ours("acknowledge", found)
        ours.clock.advance(minutes=2)
        assert await ours.raised(text) == []
        assert await ours("complete", "k") is True
        assert await ours.status("k") == "pending"
    assert await ours("cancel", "k") is True
    ours.clock.advance(days=40)
    assert await ours.raised(text) == []


async def test_what_recurs_and_no_one_acknowledged_is_due_again_and_missed_times_once(
    ours: Desk,
) -> None:
    daily = At(ours.at(hours=1), every="FREQ=DAILY")
    await ours("intend", "Feed the cat", at=daily, expires_at=ours.at(days=9), key="k")
    ours.clock.advance(days=3)
    (missed,) = await ours("remind", lease_seconds=60)
    ours.clock.advance(minutes=2)
    assert await ours("complete", "k") is True  # while it is due
    assert await ours("acknowledge", missed) is False
    assert await ours.raised() == []
    ours.clock.advance(hours=1)
    assert await ours.raised(run_id="a") == ["k"]
    assert await ours.raised(run_id="a") == ["k"]
    assert await ours.raised(run_id="b") == []
    ours.clock.advance(days=5)
    assert await ours.raised() == ["k"]
    ours.clock.advance(days=1)
    assert [str(one.status) for one in await ours("intentions", EVERY)] == ["expired"]
    assert await ours.raised() == []


async def test_the_end_of_the_month_is_its_last_day(ours: Desk) -> None:
    await ours("store", "Pay the rent at the end of the month", "prospective", key="k")
    (one,) = await ours("intentions")
    assert one.due_at == datetime(2026, 3, 31, tzinfo=UTC)
    ours.clock.now = one.due_at
    assert await ours.raised() == ["k"]
    ours.clock.advance(days=31)
    assert await ours.raised() == []


async def test_a_time_counts_from_when_it_was_said_and_what_is_past_waits_for_its_topic(
    ours: Desk,
) -> None:
    for key, days, when in (
        ("near", 1, "in 2 days"),
        ("long", 60, "in 2 days"),
        ("today", 1, "tomorrow"),
        ("over", 2, "tomorrow"),
    ):
        said = {"occurred_at": ours.at(days=-days), "key": key}
        await ours("store", f"Call Ben about the boiler {when}", "prospective", **said)
    found = {one.key: str(one.trigger) for one in await ours("intentions")}
    assert found == {
        "near": "at 2026-03-02T12:00:00+00:00",
        "long": "its topic came up",
        "today": "at 2026-03-01T00:00:00+00:00",
        "over": "its topic came up",
    }


async def test_what_intends_nothing_is_routed_nowhere_else(ours: Desk) -> None:
    for text in (
        "The song was a reminder to follow my passions",
        "That reminds me of my grandmother",
        "What do I need to do about the roof?",
        "I don't need to renew the passport",
    ):
        (to,) = (await ours("store", text, None)).destinations
        assert to.memory_type == "episodic"
    assert await ours("intentions") == []


async def test_storing_it_again_under_its_key_raises_nothing_twice_unless_it_says_otherwise(
    ours: Desk,
) -> None:
    await ours("store", FRIDAY, "prospective", key="k", metadata={"priority": "high"})
    await ours("store", FRIDAY, "prospective", key="k", metadata={"priority": "high"})
    ours.clock.advance(days=5)
    (found,) = await ours("remind")
    assert (found.key, found.priority) == ("k", "high")
    await ours("store", f"{FRIDAY}, at 18:00", "prospective", key="k")
    ours.clock.advance(days=7)
    assert await ours.raised() == []
    ours.clock.advance(hours=6)
    assert await ours.raised() == ["k"]


def test_what_is_no_recurrence_and_no_time_zone_is_refused() -> None:
    moment = datetime(2026, 4, 1, tzinfo=UTC)
    for rule in (
        "weekly",
        "FREQ=MINUTELY",
        "FREQ=DAILY;COUNT=3",
        "BYDAY=MO",
        "FREQ=DAILY;BYHOUR=99",
    ):
        with pytest.raises(InvalidInputError, match="is no r"):
            At(moment, every=rule)
    with pytest.raises(InvalidInputError, match="has a first moment"):
        At(every="FREQ=DAILY")
    for zone in ("Mars/Base", "", "../etc"):
        with pytest.raises(InvalidInputError, match="is no time zone"):
            MemoryContext(tenant="acme", timezone=zone)


@pytest.mark.parametrize("text", [FRIDAY, "Renew the TLS certificate of the shop"])
async def test_what_was_said_twice_is_raised_once_and_what_is_said_again_later_again(
    ours: Desk, text: str
) -> None:
    asked = "Is the TLS certificate of the shop renewed?"
    for key in ("a", "b"):
        await ours("store", text, "prospective", key=key)
    ours.clock.now = datetime(2026, 3, 6, tzinfo=UTC)
    assert await ours.raised(asked) == ["a"]
    assert await ours.raised(asked) == []
    await ours("store", text, "prospective", key="c")
    ours.clock.advance(days=7)
    assert await ours.raised(asked) == ["c"]


# In an agent


async def test_an_agent_is_shown_what_was_memorized_when_it_is_due_and_not_before(
    way: Way, clock: Clock
) -> None:
    memory = MemoryCoordinator(way.store, context=MemoryContext(tenant="acme"))
    await memory.astore("Water the plants every Monday", "prospective", key="plants")
    await memory.astore("Ask Tom before you pay", "prospective", key="tom")
    model = scripted(*["Fine."] * 4, *(calls("pay", amount="5") for _ in range(2)), "Done.")
    whose = {"tenant": "acme", "timezone": "{timezone}"}
    reminding = TieredMemoryMiddleware(recall=False, context=whose)
    agent = agent_on(way.store, model, reminding, tools=[pay], checkpointer=InMemorySaver())
    states = []
    for number, days in enumerate((0, 1, 1, 6, 1)):
        clock.advance(days=days)
        said = {"messages": [HumanMessage(f"Anything new, number {number}?", id=f"m{number}")]}
        where = {"thread_id": "t", "timezone": NEW_YORK}
        states.append(await way(agent, said, config={"configurable": where}))
    shown = [[one.text for one in seen if one.type == "system"] for seen in model.seen[:4]]
    assert ["Water the plants" in "".join(each) for each in shown] == [False, True, False, True]
    held, ran = [one.text for one in states[-1]["messages"] if isinstance(one, ToolMessage)]
    assert "Ask Tom" in held
    assert ran == "paid 5"
    assert isinstance(states[-1]["messages"][-1], AIMessage)
