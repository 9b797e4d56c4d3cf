"""What a type checker must accept and refuse; checked by `make types`, never run."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from typing import assert_type

from langgraph.store.base import BaseStore, Item, Result, SearchItem

from langmem_tiers import (
    ConsolidationPolicy,
    ConsolidationReport,
    ConsolidationSchedule,
    MemoryContext,
    MemoryCoordinator,
    Recollection,
    StoreResult,
    Tier,
    TieredStore,
    WorkingMemoryBuffer,
    consolidation_due,
    create_consolidation_graph,
)
from langmem_tiers.agent_state.models import Goal, ShortTermSnapshot, Task
from langmem_tiers.consolidation.session_end import SessionReport
from langmem_tiers.coordinator.buffer import BufferedMemory
from langmem_tiers.core.memory import Recollections, TierStats
from langmem_tiers.forget.receipt import ForgetPlan, ForgetReceipt, Verification
from langmem_tiers.learning.moves import Explanation
from langmem_tiers.learning.outcome import LearningStats, OutcomeReport
from langmem_tiers.learning.promote import Promotion
from langmem_tiers.learning.skills import Trace
from langmem_tiers.reminders.intentions import Intention, Reminder
from langmem_tiers.store.store import TierView


def blocking(url: str) -> None:
    with TieredStore.from_conn_string(url, index={"dims": 3, "embed": len}) as store:
        assert_type(store, TieredStore)
        base: BaseStore = store
        assert_type(base.get(("a",), "k"), Item | None)
        assert_type(store.search(("a",), query="x"), list[SearchItem])
        assert_type(store.batch([]), list[Result])
        assert_type(store.tier("working"), TierView)
        assert_type(store.move(("a",), "k", Tier.LONG_TERM), bool)
        assert_type(store.stats(), list[TierStats])
        assert_type(store.start_ttl_sweeper(), Future[None])
        store.tier("working").put(("a",), "k", {"v": 1}, index=["v"], ttl=5)
        store.put(("a",), "k", 5)  # type: ignore[arg-type]
        store.get("a", "k")  # type: ignore[arg-type]


async def asynchronous(url: str) -> None:
    async with TieredStore.embedded(url, version=18) as store:
        assert_type(store, TieredStore)
        assert_type(await store.aget(("a",), "k"), Item | None)
        assert_type(await store.amove(("a",), "k", "long_term"), bool)
        assert_type(await store.astart_ttl_sweeper(), asyncio.Task[None])
        TieredStore.embedded(url, version=17)  # type: ignore[arg-type]
        TieredStore.embedded(url, index="remote")  # type: ignore[arg-type]


async def coordinating(store: TieredStore) -> None:
    memory = MemoryCoordinator(store, context=MemoryContext(tenant="a", session_id="s"))
    assert_type(memory.store("x", "pattern", tier="working", tags=["t"]), StoreResult)
    assert_type(await memory.astore("x"), StoreResult)
    assert_type(memory.store_many(["x", {"content": "y"}]), list[StoreResult])
    assert_type(memory.get_context("x", tiers=[Tier.WORKING], limit=3), Recollections)
    assert_type(await memory.aget_context("x", limit=3), Recollections)
    found: list[Recollection] = memory.get_context("x", profile=lambda one, _: one.match)
    assert_type(found[0].score, float)
    assert_type(memory.get("k"), Recollection | None)
    assert_type(await memory.adelete_memory("k"), bool)
    assert_type(memory.get_context_batch(["x"]), list[Recollections])
    assert_type(await memory.astats(), LearningStats)
    memory.get_context()  # type: ignore[call-arg]
    memory.get_context("x", limit="5")  # type: ignore[arg-type]
    memory.store(5)  # type: ignore[arg-type]
    MemoryContext(project_id="p")  # type: ignore[call-arg]


async def forgetting(memory: MemoryCoordinator, *, plan: bool) -> None:
    assert_type(memory.forget(key="a", plan=True), ForgetPlan)
    receipt = memory.forget(subject="Ada", checkpointer=None)
    assert_type(receipt, ForgetReceipt)
    assert_type(await memory.aforget(user="ada", plan=True), ForgetPlan)
    assert_type(await memory.aforget(tenant="a"), ForgetReceipt)
    assert_type(memory.admin.verify_forgotten(receipt.to_json()), Verification)
    assert_type(memory.forget(key="a", plan=plan), ForgetPlan | ForgetReceipt)
    memory.forget("a")  # type: ignore[call-overload]


async def learning(memory: MemoryCoordinator) -> None:
    assert_type(memory.learning.get_lessons([ValueError("x"), "y"], tools="t"), Recollections)
    assert_type(memory.learning.record_exposure(memory.get_context("x"), run_id="r"), Recollections)
    assert_type(memory.learning.learn_skills(Trace("r", (), True)), list[StoreResult])  # noqa: FBT003
    assert_type(await memory.learning.aevolve({"said": "x"}, {}, threshold=0.5), StoreResult)
    assert_type(memory.learning.record_outcome(run_id="r", success=False), OutcomeReport)
    assert_type(await memory.learning.apromote(), list[Promotion])
    assert_type(memory.learning.rollback("m"), bool)
    assert_type(memory.learning.explain("k"), Explanation)
    memory.learning.record_exposure([])  # type: ignore[call-arg]
    memory.store_reflexion("x")  # type: ignore[call-arg]
    memory.learning.evolve({"said": "x"})  # type: ignore[call-arg]


async def reminding(memory: MemoryCoordinator) -> None:
    assert_type(memory.reminders.add("x", cue="when Anna calls"), StoreResult)
    assert_type(await memory.reminders.adue("x", lease_seconds=9), list[Reminder])
    assert_type(memory.reminders.list("done", limit=3), list[Intention])
    assert_type(await memory.reminders.asnooze("k", "2027-01-01T00:00Z"), None)
    memory.reminders.due(limit="5")  # type: ignore[arg-type]
    memory.reminders.remind("x")  # type: ignore[attr-defined]


async def administering(memory: MemoryCoordinator) -> None:
    assert_type(memory.truth.supersede("a", by="b"), str)
    assert_type(await memory.learning.afinish_reflections(1), bool)
    assert_type(memory.learning.allow("rm x", tool="shell"), int)
    assert_type(await memory.admin.aconsolidate_session(), SessionReport)
    memory.admin.release("k")  # type: ignore[call-arg]


async def states(memory: MemoryCoordinator) -> None:
    assert_type(memory.state.close_task("x"), Task | None)
    assert_type(await memory.state.aget_goals(), list[Goal])
    assert_type(memory.state.snapshot(), ShortTermSnapshot)
    assert_type(await WorkingMemoryBuffer(memory).aupdate_context("x"), list[BufferedMemory])
    memory.state.advance_goal("x", 0.1)  # type: ignore[call-arg]
    memory.state.add_spend("1")  # type: ignore[arg-type]


def consolidating(store: TieredStore, state: dict[str, object]) -> None:
    graph = create_consolidation_graph(store=store, policy=ConsolidationPolicy(merge=None))
    graph.invoke({}, context=MemoryContext(tenant="a"))
    report = ConsolidationReport.of(state)
    assert_type(report.count("merge", "kept"), int)
    assert_type(consolidation_due(ConsolidationSchedule(every_turns=1)).invoke(state), str)
    report.count("merge", "merged")  # type: ignore[arg-type]
    ConsolidationPolicy(merge=True)  # type: ignore[arg-type]
    ConsolidationSchedule(every=5)  # type: ignore[arg-type]
