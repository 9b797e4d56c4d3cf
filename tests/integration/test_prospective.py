"""What is intended is raised at its time or topic; what is only stored is found as what it is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver

from langmem_tiers import (
    At,
    MemoryContext,
    MemoryCoordinator,
    MemoryOrchestrator,
    TieredMemoryMiddleware,
    TieredStore,
    local_index,
)
from langmem_tiers.cli.memories import import_records
from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.graph.langmem_tools import create_manage_memory_tool
from langmem_tiers.importers import Record
from tests.integration.test_reminders import EVERY, Desk
from tests.support.agents import Way, agent_on, calls, scripted
from tests.support.coordinating import PATIENT, coordinator, keys
from tests.support.graphs import pay
from tests.support.opening import Clock, Opener, text_index, tiered
from tests.support.reading import Reader

FRIDAY = "I need to renew the TLS certificate on Friday, remind me"
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
    ("stores", "memory_type"),
    [
        (stored, "prospective"),
        (stored_without_a_type, "episodic"),
        (stored_among_several, "prospective"),
        (memorized_in_a_turn, "semantic"),
        (imported, "prospective"),
        (kept_by_a_tool, "episodic"),
    ],
    ids=lambda one: getattr(one, "__name__", None),
)
async def test_what_is_stored_is_found_as_what_it_is_and_its_wording_raises_nothing(
    ours: Desk, stores: Callable[[Desk], Awaitable[None]], memory_type: str
) -> None:
    await stores(ours)
    assert await ours("reminders.list") == []
    found = (await ours("get_context", "Which TLS certificate is to be renewed?", limit=1))[0]
    assert FRIDAY in found.content
    assert found.memory_type == memory_type
    ours.clock.advance(days=6)
    assert await ours.raised("Is the TLS certificate renewed?") == []


async def test_a_memory_that_was_stored_is_raised_once_it_is_intended_under_its_key(
    ours: Desk,
) -> None:
    await ours("store", FRIDAY, "prospective", key="k")
    await ours("reminders.add", FRIDAY, at=ours.at(days=5), key="k")
    assert await ours.raised(FRIDAY) == []
    ours.clock.advance(days=5)
    assert await ours.raised() == ["k"]


async def test_what_is_said_in_a_turn_goes_by_its_type_or_its_metadata_and_not_by_its_words(
    ours: Desk,
) -> None:
    said: list[tuple[Any, Any, str]] = [
        (FRIDAY, None, "semantic"),
        ({"content": FRIDAY, "memory_type": "procedural"}, None, "procedural"),
        (f"{FRIDAY}!", {"memory_type": "episodic"}, "episodic"),
        ({"content": f"Anna: {FRIDAY}", "speaker": "anna"}, None, "episodic"),
    ]
    async with MemoryOrchestrator(ours.memory) as turn:
        await turn.aassemble_context("What is there to do?")
        for item, metadata, memory_type in said:
            kept = await turn.amemorize(item, metadata)
            assert [one.memory_type for one in kept.destinations] == [memory_type]
        with pytest.raises(InvalidInputError, match="nonsense"):
            await turn.amemorize(FRIDAY, {"memory_type": "nonsense"})
        with pytest.raises(InvalidInputError, match="memory_type of the metadata"):
            await turn.amemorize(FRIDAY, {"memory_type": 7})
        report = await turn.acommit()
    assert len(report.stored) == len(said)


@pytest.mark.parametrize("finish", ["reminders.complete", "reminders.cancel", "delete_memory"])
async def test_what_waits_for_its_topic_is_raised_when_it_comes_up_unless_it_is_over(
    ours: Desk, finish: str
) -> None:
    for key, text in [
        ("tls", "Renew the TLS certificate of the shop"),
        ("over", "Send Priya the photos of the garden"),
    ]:
        await ours("reminders.add", text, topic=True, key=key)
    await ours(finish, "over")
    assert await ours.raised() == []
    for other in ("Good morning!", "What is the capital of Peru?", "Priya, garden, photos"):
        assert await ours.raised(other) == []
    assert await ours.raised("The browser says the TLS certificate of the shop is old") == ["tls"]
    assert await ours.raised("The TLS certificate of the shop in Lisbon, on our trip") == []


def test_a_topic_has_come_up_by_what_is_near_and_not_by_other_talk(database_url: str) -> None:
    with TieredStore(database_url, index=local_index()) as store:
        store.setup()
        memory = MemoryCoordinator(store, context=MemoryContext(tenant="acme"), settings=PATIENT)
        memory.reminders.add("Ask whether the boiler was serviced", topic=True, key="boiler")
        for other in ("Good morning!", "How do I cook rice?", "Which tickets do I need?"):
            assert memory.reminders.due(other) == []
        assert keys(memory.reminders.due("Was the boiler serviced last year?")) == ["boiler"]
        assert memory.reminders.list("pending") == []


async def test_a_judge_says_whether_a_topic_has_come_up(ours: Desk) -> None:
    await ours("reminders.add", "Renew the TLS certificate", topic=True, key="tls")
    await ours("reminders.add", "Water the plants", topic=True, key="plants")
    asked = "Whose TLS certificate is it?"
    assert await ours.raised(asked, judge=Reader("nothing")) == []
    assert await ours.raised(asked, judge=Reader("TLS")) == ["tls"]


async def test_what_waits_for_its_topic_names_no_tool_by_its_words(ours: Desk) -> None:
    await ours("reminders.add", "Tell the team before you run deploy_site", topic=True, key="tell")
    await ours("reminders.add", "Tell the team", before_tool="deploy_site", key="team")
    assert await ours.raised(tool="deploy_site", kinds=["tool"]) == ["team"]


RECURRING = {
    "FREQ=WEEKLY;BYDAY=MO": ["2026-03-02T00:00", "2026-03-09T00:00"],
    "FREQ=MONTHLY;BYMONTHDAY=-1": ["2026-03-31T00:00", "2026-04-30T00:00"],
    "FREQ=HOURLY;INTERVAL=2": ["2026-03-01T14:00", "2026-03-01T16:00"],
}


@pytest.mark.parametrize("lease", [None, 60])
@pytest.mark.parametrize("rule", RECURRING)
async def test_what_recurs_is_raised_once_each_time(
    ours: Desk, rule: str, lease: float | None
) -> None:
    first = datetime.fromisoformat(f"{RECURRING[rule][0]}+00:00")
    await ours("reminders.add", "Check the backups", at=At(first, every=rule), key="k")
    for at in RECURRING[rule]:
        ours.clock.now = datetime.fromisoformat(f"{at}+00:00") - timedelta(seconds=1)
        assert await ours.raised() == []
        ours.clock.advance(seconds=1)
        (found,) = await ours("reminders.due", lease_seconds=lease)
        assert found.due_at == ours.clock.now
        assert lease is None or await ours("reminders.acknowledge", found)
        assert lease is None or await ours("reminders.acknowledge", found)
        ours.clock.advance(minutes=2)
        assert await ours.raised() == []
        assert await ours("reminders.complete", "k") is True
        assert await ours.status("k") == "pending"
    assert await ours("reminders.cancel", "k") is True
    ours.clock.advance(days=40)
    assert await ours.raised() == []


async def test_what_recurs_and_no_one_acknowledged_is_due_again_and_missed_times_once(
    ours: Desk,
) -> None:
    daily = At(ours.at(hours=1), every="FREQ=DAILY")
    await ours("reminders.add", "Feed the cat", at=daily, expires_at=ours.at(days=9), key="k")
    ours.clock.advance(days=3)
    (missed,) = await ours("reminders.due", lease_seconds=60)
    ours.clock.advance(minutes=2)
    assert await ours("reminders.complete", "k") is True  # while it is due
    assert await ours("reminders.acknowledge", missed) is False
    assert await ours.raised() == []
    ours.clock.advance(hours=1)
    assert await ours.raised(run_id="a") == ["k"]
    assert await ours.raised(run_id="a") == ["k"]
    assert await ours.raised(run_id="b") == []
    ours.clock.advance(days=5)
    assert await ours.raised() == ["k"]
    ours.clock.advance(days=1)
    assert [str(one.status) for one in await ours("reminders.list", EVERY)] == ["expired"]
    assert await ours.raised() == []


async def test_what_recurs_does_so_in_its_time_zone(ours: Desk) -> None:
    monday = datetime(2026, 3, 2, 5, tzinfo=UTC)  # midnight there
    mondays = At(monday, every="FREQ=WEEKLY;BYDAY=MO", timezone=NEW_YORK)
    await ours("reminders.add", "Water the plants", at=mondays, key="plants")
    (one,) = await ours("reminders.list")
    assert str(one.trigger).startswith("at 2026-03-02T00:00:00-05:00, ")
    ours.clock.now = monday
    assert await ours.raised() == ["plants"]
    (again,) = await ours("reminders.list", "pending")
    assert again.due_at == datetime(2026, 3, 9, 4, tzinfo=UTC)  # summer time has begun


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


# In an agent


async def test_an_agent_is_shown_what_was_intended_when_it_is_due_and_not_before(
    way: Way, clock: Clock
) -> None:
    memory = MemoryCoordinator(way.store, context=MemoryContext(tenant="acme"))
    monday = datetime(2026, 3, 2, 5, tzinfo=UTC)  # it is midnight there
    mondays = At(monday, every="FREQ=WEEKLY;BYDAY=MO", timezone=NEW_YORK)
    await memory.reminders.aadd("Water the plants", at=mondays, key="plants")
    await memory.reminders.aadd("Ask Tom", before_tool="pay", key="tom")
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
