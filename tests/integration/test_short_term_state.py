"""Short-term state: what is going on is seen by whom it concerns, for as long as it lasts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import psycopg
import pytest

from langmem_tiers import TieredStore
from langmem_tiers.agent_state.models import MAX_MESSAGES, DailySpend, Message, ShortTermSnapshot
from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.testing import StoreDriver
from tests.support.coordinating import Verbs, at_once, coordinator
from tests.support.opening import Clock, Opener, text_index, tiered
from tests.support.plans import (
    MODES,
    calls_of,
    indexes,
    loaded_store,
    named,
    plan,
    rows_read,
    sequential,
)

WHOSE = {"agent_id": "coder", "project_id": "billing", "session_id": "chat"}


@pytest.fixture
async def opened(open_store: Opener, url: str) -> AsyncIterator[StoreDriver]:
    async with open_store(url=url, index=text_index()) as driver:
        yield driver


def agent(opened: StoreDriver, tenant: str = "acme", **labels: str) -> Verbs:
    """The state of that context, called in the driver's way."""
    return Verbs(coordinator(tiered(opened), tenant, **{**WHOSE, **labels}).state, opened.mode)


@pytest.fixture
def coder(opened: StoreDriver) -> Verbs:
    return agent(opened)


def said(messages: Sequence[Message]) -> list[str]:
    return [one.content for one in messages]


def kinds(url: str) -> set[str]:
    """What is stored of states."""
    with psycopg.connect(url) as conn:
        return {kind for (kind,) in conn.execute("SELECT kind FROM memory.states")}


# The conversation


async def test_the_newest_twenty_are_read_unless_asked_otherwise_until_they_are_cleared(
    opened: StoreDriver, coder: Verbs
) -> None:
    for n in range(25):
        await coder("add_interaction", "user", f"line {n}")
    assert said(await coder("get_recent_context")) == [f"line {n}" for n in range(5, 25)]
    assert said(await coder("get_recent_context", 2)) == ["line 23", "line 24"]
    assert await coder("get_recent_context", limit=0) == []
    assert len(await coder("get_recent_context", limit=MAX_MESSAGES)) == 25
    other = agent(opened, session_id="other")
    await other("add_interaction", "user", "hello")
    assert [await coder("clear_conversation") for _ in range(2)] == [25, 0]
    assert await coder("get_recent_context") == []
    assert said(await other("get_recent_context")) == ["hello"]


async def test_what_cannot_be_stored_is_refused_and_nothing_is_written(
    coder: Verbs, url: str
) -> None:
    calls: list[tuple[Any, ...]] = [
        ("add_interaction", "user", ""),
        ("add_interaction", 1, "x"),
        ("close_task", 7),
        ("add_spend", "5"),
        *(("get_recent_context", limit) for limit in (-1, MAX_MESSAGES + 1, 2.0, True)),
        ("add_interaction", "user", "x", {"at": datetime(2026, 3, 1, tzinfo=UTC)}),
        ("add_interaction", "user", "x", ["no", "mapping"]),
        ("start_task", "x\0"),
        ("update_task", "nobody"),
        ("close_task", None),
        ("close_goal", ""),
        ("set_goal", "ship", " "),
        ("advance_goal", "ship", 0.1, "there is none"),
        ("set_emotional_state", ""),
        ("add_spend", -1),
        ("get_daily_spend", "2026-13-01"),
        ("get_daily_spend", datetime(2026, 3, 1, tzinfo=UTC)),
    ]
    for call in calls:
        with pytest.raises(InvalidInputError):
            await coder(*call)
    assert kinds(url) == set()


# Whose it is


async def everything(coder: Verbs) -> ShortTermSnapshot:
    await coder("add_interaction", "user", "hello")
    await coder("start_task", "writing", task_id="report")
    await coder("set_goal", "ship", "Ship the release")
    await coder("set_emotional_state", "engaged", confidence_level=0.88)
    await coder("add_spend", 2.5, transaction_id="t1")
    found = await coder("snapshot")
    assert isinstance(found, ShortTermSnapshot)
    return found


async def test_tenants_agents_and_sessions_see_what_is_their_own(
    opened: StoreDriver, coder: Verbs, clock: Clock
) -> None:
    here = await everything(coder)
    nothing = ShortTermSnapshot(daily_spend=DailySpend(date=clock.now.date()))
    for tenant in ("acme2", "acm", "chat"):
        other = agent(opened, tenant)
        assert await other("snapshot") == nothing
        assert await other("close_task", "report") is None
        assert await other("clear_conversation") == 0
    for elsewhere in ({"session_id": "other"}, {"project_id": "ops"}):
        there = await agent(opened, **elsewhere)("snapshot")
        assert there == replace(here, messages=())
    reviewer = await agent(opened, agent_id="reviewer")("snapshot")
    assert reviewer == replace(nothing, messages=here.messages)
    for name in ("billing.chat", "billing.chat.", "coder.", "_", "%5F", "Coder", "coder%2E"):
        assert await agent(opened, agent_id=name, session_id="s2")("snapshot") == nothing
    assert await coder("snapshot") == here


# Tasks


async def test_a_task_that_is_started_again_stays_as_it_is_and_changes_while_it_is_active(
    coder: Verbs, clock: Clock
) -> None:
    first = await coder(
        "start_task", "writing", task_id="t1", worker_assigned="w", metadata={"a": 1}
    )
    clock.advance(minutes=1)
    assert await coder("start_task", "another", task_id="t1", status="new") == first
    task = await coder("update_task", "t1", status="waiting", metadata={"b": 2})
    assert [task] == await coder("get_active_tasks")
    assert task == replace(first, status="waiting", metadata={"a": 1, "b": 2})
    closed = await coder("close_task", "t1", "failed")
    assert (closed.task_id, closed.status) == ("t1", "failed")
    assert await coder("close_task", "t1") is None
    with pytest.raises(InvalidInputError, match="no task 't1' is active: start it first"):
        await coder("update_task", "t1", status="waiting")
    assert (await coder("start_task", "another", task_id="t1")).created_at == clock.now


# Mood and spend


async def test_a_days_spend_and_its_transactions_begin_anew_at_midnight_utc_and_last_24_hours(
    coder: Verbs, clock: Clock
) -> None:
    clock.now = datetime(2026, 3, 1, 12, tzinfo=UTC)
    counts = []
    for hours in (0, 1, 22, 1):
        clock.advance(hours=hours)
        counts.append((await coder("add_spend", 5, transaction_id="t1")).transaction_count)
    assert counts == [1, 1, 0, 1]
    clock.now = datetime(2026, 3, 5, 23, 59, 59, 999999, tzinfo=UTC)
    first, second = clock.now.date(), clock.now.date() + timedelta(days=1)
    await coder("add_spend", Decimal("32.50"))
    assert (await coder("get_daily_spend")).total_spent == Decimal("32.50")
    clock.advance(microseconds=1)
    assert await coder("get_daily_spend") == DailySpend(date=second)
    assert (await coder("add_spend", 1)).total_spent == 1
    assert (await coder("get_daily_spend", first)).total_spent == Decimal("32.50")
    assert (await coder("snapshot")).daily_spend.total_spent == 1
    clock.advance(days=1, microseconds=-1)
    assert (await coder("get_daily_spend", first)) == DailySpend(date=first)
    assert (await coder("get_daily_spend", second)).total_spent == 1
    clock.now = datetime.fromisoformat("2026-03-12T00:30:00+01:00")  # in whatever zone
    assert (await coder("add_spend", 1)).date.isoformat() == "2026-03-11"


# Time, and everybody at once


async def test_a_refused_change_holds_nobody_up(open_store: Opener, url: str, coder: Verbs) -> None:
    with pytest.raises(InvalidInputError):
        await coder("advance_goal", "ship", 0.1, "there is none")
    with pytest.raises(InvalidInputError):
        await coder("update_task", "nobody", status="x")
    async with open_store(url=url, index=text_index()) as other:
        elsewhere = agent(other)
        await elsewhere("set_goal", "ship", "Ship the release")
        await elsewhere("start_task", "writing", task_id="nobody")
    assert (await coder("advance_goal", "ship", 0.1, "now there is one")).progress == 0.1


async def test_what_has_expired_is_swept_and_what_lasts_stays(
    opened: StoreDriver, coder: Verbs, clock: Clock, url: str
) -> None:
    await everything(coder)
    lasting, of_a_day = {"task", "goal"}, {"spend", "transaction"}
    assert kinds(url) == lasting | of_a_day | {"message", "emotion"}
    clock.advance(hours=1)
    await tiered(opened).asweep_ttl()
    assert kinds(url) == lasting | of_a_day
    clock.advance(hours=23)
    await tiered(opened).asweep_ttl()
    assert kinds(url) == lasting


async def sixteen(coder: Verbs, *calls: tuple[Any, ...], **options: Any) -> None:
    """Let sixteen make each of the calls at once, five times each."""

    async def work() -> None:
        for verb, *args in calls * 5:
            await coder(verb, *args, **options)

    await at_once(16, work)


@pytest.mark.slow
async def test_sixteen_at_once_lose_nothing_and_their_retries_count_once(coder: Verbs) -> None:
    for goal in ("ship", "retry"):
        await coder("set_goal", goal, "Ship the release")
    await sixteen(
        coder,
        ("add_spend", Decimal("0.01")),
        ("advance_goal", "ship", 0.01, "step"),
        ("add_interaction", "user", "hello"),
    )
    await sixteen(coder, ("add_spend", 1), transaction_id="t1")
    await sixteen(coder, ("advance_goal", "retry", 0.25, "step"), delta_id="d1")
    await sixteen(coder, ("start_task", "writing"), task_id="t1")
    await sixteen(coder, ("add_interaction", "user", "hello"), message_id="m1")
    found = await coder("snapshot", MAX_MESSAGES)
    spend = found.daily_spend
    assert (spend.total_spent, spend.transaction_count) == (Decimal("1.80"), 81)
    goals = {one.goal_id: (one.progress, len(one.deltas)) for one in found.goals}
    assert goals == {"ship": (0.8, 80), "retry": (0.25, 1)}
    assert (len(found.tasks), len(found.messages)) == (1, 81)


async def test_a_full_conversation_takes_messages_from_many_at_once(
    coder: Verbs, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as small:
        small.setattr("langmem_tiers.agent_state.models.MAX_MESSAGES", 10)
        await sixteen(coder, ("add_interaction", "user", "hello"))
        for n in range(3):
            await coder("add_interaction", "user", f"last {n}")
    kept = await coder("get_recent_context", 100)
    assert said(kept)[-3:] == ["last 0", "last 1", "last 2"]
    assert len(kept) == 10


# What a read costs


_FILL = """
INSERT INTO memory.states (tenant, owner, kind, name, value, at, expires_at)
SELECT t.name, o.owner, o.kind, i::text,
       CASE o.kind
       WHEN 'message' THEN jsonb_build_object('role', 'user', 'content', 'row', 'metadata',
                                              jsonb_build_object())
       WHEN 'task' THEN jsonb_build_object('task_id', i::text, 'task_type', 'row',
                                           'created_at', '2026-03-01T00:00:00+00:00')
       ELSE jsonb_build_object() END,
       timestamptz '2026-03-01 11:00' + i * interval '10 seconds',
       CASE WHEN o.kind <> 'task' THEN timestamptz '2026-03-01 12:00' + i * interval '1 second' END
FROM (SELECT 'tenant' || n AS name FROM generate_series(1, 20) n) t,
     (VALUES ('billing.chat.', 'message', 300), ('billing.other.', 'message', 300),
             ('coder.', 'task', 20), ('coder.', 'transaction', 400)) o (owner, kind, number),
     LATERAL generate_series(1, o.number) i
"""


store = loaded_store(_FILL, "memory.states", clock=Clock())

READS = {
    "get_recent_context": 20,
    "get_active_tasks": 20,
    "get_emotional_state": 0,
    "get_goals": 0,
    "snapshot": 40,
    "get_daily_spend": 0,
}


def test_a_read_is_one_statement_that_visits_what_it_returns(store: TieredStore) -> None:
    state = coordinator(store, "tenant7", **WHOSE).state
    adding = named(calls_of(store, lambda: state.add_interaction("user", "hi")), "add_message")
    with psycopg.connect(store.target.conninfo) as conn:
        conn.execute("DELETE FROM memory.states WHERE value ->> 'content' = 'hi'")
    for mode in MODES:
        for verb, rows in READS.items():
            (call,) = calls_of(store, getattr(state, verb))
            root = plan(store, call, mode)
            assert (sequential(root), rows_read(root)) == ([], rows), (verb, mode)
        root = plan(store, adding._replace(params={**adding.params, "name": "new"}), mode)
        assert sequential(root) == []
        removed = 100
        assert rows_read(root) <= MAX_MESSAGES + 2 * removed + 4
        assert "states_messages" in indexes(root)
