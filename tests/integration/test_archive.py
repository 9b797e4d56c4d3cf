"""Archival on a real database: exact there and back, and nothing else than what is meant."""

from __future__ import annotations

import asyncio
import json
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from langmem_tiers import (
    ConsolidationReport,
    MemoryContext,
    MemoryCoordinator,
    TieredStore,
    create_consolidation_graph,
)
from langmem_tiers.consolidation.archive import TIMES, ArchivedMemory
from langmem_tiers.core.errors import InvalidInputError, RollbackError
from tests.support.archives import (
    CONTENT,
    NOW,
    OLD,
    count,
    execute,
    files_in,
    fill,
    hashes,
    keys,
    one,
    policy,
    remember,
)
from tests.support.coordinating import Caller, coordinator
from tests.support.opening import Clock, Opener, text_index, tiered

NUMBER = 120


@pytest.fixture
def memory(store: TieredStore) -> MemoryCoordinator:
    return coordinator(store)


@pytest.fixture
def archived(url: str, memory: MemoryCoordinator, tmp_path: Path) -> str:
    """The name of an archive that odd memories have left for."""
    fill(url, NUMBER)
    memory.admin.archive(policy(tmp_path), dry_run=False)
    (file,) = memory.admin.archives()
    return file.archive


async def test_a_restore_brings_every_row_back_bit_by_bit(
    open_store: Opener, url: str, tmp_path: Path
) -> None:
    fill(url, NUMBER)
    before = hashes(url)
    async with open_store(url=url, index=text_index()) as driver:
        call = Caller(coordinator(tiered(driver)), driver.mode)
        report = await call("admin.archive", policy(tmp_path), dry_run=False)
        assert (report.memories, report.left) == (NUMBER, 0)
        assert [count(url, name) for name in CONTENT] == [0, 0, 0]
        (file,) = await call("admin.archives")
        assert (file.archive, file.memories, file.remaining) == (*report.archives, NUMBER, NUMBER)
        assert (await call("admin.restore_archive", file.archive)).restored == NUMBER
        assert hashes(url) == before
        assert (await call("admin.restore_archive", file.url)).restored == 0
        (file,) = await call("admin.archives")
        assert file.remaining == 0
    assert hashes(url) == before


@pytest.mark.proof
def test_ten_thousand_memories_come_back_bit_by_bit(
    url: str, memory: MemoryCoordinator, tmp_path: Path
) -> None:
    fill(url, 10_000)
    before = hashes(url)
    assert before["memories"].startswith("10000 rows")
    report = memory.admin.archive(policy(tmp_path), dry_run=False)
    assert (report.memories, len(report.archives)) == (10_000, 20)
    assert count(url, "memories") == 0
    assert sum(memory.admin.restore_archive(name).restored for name in report.archives) == 10_000
    assert hashes(url) == before


def test_every_column_of_the_three_tables_is_archived(url: str) -> None:
    query = """SELECT array_agg(attname::text) FROM pg_attribute
               WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped"""
    columns = {name: set(one(url, query, f"memory.{name}")) for name in CONTENT}
    # Whose it is stays with its name, in the database.
    known = set(ArchivedMemory._fields) | set(TIMES) | {"tenant", "user_id"}

    assert columns["memories"] | columns["usage"] <= known
    assert columns["vectors"] == {"tenant", "tier", "namespace", "id", "field", "embedding"}


OF_A_KEY: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "truth.history": (("a",), {}),
    "learning.explain": (("a",), {}),
    "promote_to_long_term": (("a",), {}),
    "truth.supersede": (("a",), {"by": "b"}),
    "truth.retract": (("a",), {"reason": "a rumour"}),
    "truth.restore": (("a",), {}),
    "store": (("The office says so.",), {"derived_from": ["a"]}),
}


async def test_verbs_of_an_archived_key_say_that_it_is_archived_and_how_to_get_it_back(
    open_store: Opener, url: str, tmp_path: Path
) -> None:
    async with open_store(url=url, index=text_index()) as driver:
        call = Caller(coordinator(tiered(driver)), driver.mode)
        remember(url, "a", namespace="elsewhere.")
        await call("admin.archive", policy(tmp_path / "elsewhere"), dry_run=False)
        remember(url, "a")
        (name,) = (await call("admin.archive", policy(tmp_path), dry_run=False)).archives
        await call("store", "Something", key="b")
        way = re.escape(f"'a' is archived: bring it back with admin.restore_archive('{name}')")
        for verb, (given, options) in OF_A_KEY.items():
            with pytest.raises(InvalidInputError, match=way):
                await call(verb, *given, **options)
        await call("admin.restore_archive", name)
        assert (await call("truth.history", "a")).key == "a"
        with pytest.raises(InvalidInputError, match="there is no memory 'c' in tenant 'acme'"):
            await call("truth.history", "c")


def test_a_move_of_an_archived_memory_is_rolled_back_once_that_is_restored(
    store: TieredStore, memory: MemoryCoordinator, clock: Clock, tmp_path: Path
) -> None:
    memory.store("The launch is on 3 May", tier="short_term", key="a", importance=0.9)
    graph = create_consolidation_graph(store=store)
    state = graph.invoke({}, context=MemoryContext(tenant="acme"))
    (move,) = ConsolidationReport.of(state).moves
    clock.advance(days=181)
    (name,) = memory.admin.archive(policy(tmp_path, max_importance=1.0), dry_run=False).archives

    with pytest.raises(RollbackError, match=re.escape(f"restore_archive('{name}')")):
        memory.learning.rollback(move)

    memory.admin.restore_archive(name)
    assert memory.learning.rollback(move)


def test_a_large_archive_is_several_files_and_a_dry_run_none(
    url: str, memory: MemoryCoordinator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("langmem_tiers.consolidation.archive.BATCH", 50)
    fill(url, NUMBER)
    dry = memory.admin.archive(policy(tmp_path), dry_run=True)
    assert (dry.memories, dry.archives, files_in(tmp_path)) == (NUMBER, (), [])
    report = memory.admin.archive(policy(tmp_path), dry_run=False)
    assert [file.memories for file in memory.admin.archives()] == [50, 50, 20]
    assert [file.archive for file in memory.admin.archives()] == sorted(
        report.archives, key=_number
    )
    assert memory.admin.archive(policy(tmp_path), dry_run=False).memories == 0


def _number(archive: str) -> int:
    return int(archive.split("-")[3])


async def test_two_restores_at_once_bring_each_memory_back_once(
    memory: MemoryCoordinator, url: str, archived: str
) -> None:
    reports = await asyncio.gather(
        *(asyncio.to_thread(memory.admin.restore_archive, archived) for _ in range(3))
    )
    assert sum(report.restored for report in reports) == NUMBER
    assert count(url, "memories") == NUMBER


def test_old_hardly_read_and_unimportant_is_meant_and_nothing_else(
    url: str, memory: MemoryCoordinator, tmp_path: Path
) -> None:
    edge = NOW - timedelta(days=180)
    value = json.dumps
    meant: dict[str, dict[str, Any]] = {
        "meant": {},
        "just old enough": {"created_at": edge - timedelta(microseconds=1)},
        "unimportant": {"value": value({"importance": 0.59})},
        "oddly rated": {"value": value({"importance": "very"})},
        "read twice": {},
        "read long ago": {},
        "failed as often": {},
        "expiring": {"expires_at": NOW + timedelta(seconds=1)},
        "said in a session": {"session": "s"},
    }
    stays: dict[str, dict[str, Any]] = {
        "a source": {},
        "a successor": {},
        "expired": {"expires_at": NOW},
        "important": {"value": value({"importance": 0.6})},
        "in a session": {"session": "s", "value": value({"memory_type": "working"})},
        "just too young": {"created_at": edge},
        "of another tenant": {"tenant": "other"},
        "read lately": {},
        "read thrice": {},
        "served": {},
        "superseded": {"state": "superseded", "state_at": OLD},
    }
    for key, columns in (meant | stays).items():
        remember(url, key, **columns)
    execute(
        url,
        """INSERT INTO memory.usage (tenant, id, access_count)
           SELECT tenant, id, CASE key WHEN 'read twice' THEN 2 ELSE 3 END
           FROM memory.memories WHERE key LIKE 'read t%%'""",
    )
    for key, read_at, successes, failures in (
        ("read long ago", edge - timedelta(microseconds=1), 0, 0),
        ("read lately", edge, 0, 0),
        ("failed as often", None, 2, 2),
        ("served", None, 2, 1),
    ):
        execute(
            url,
            """INSERT INTO memory.usage
                   (tenant, id, access_count, success_count, failure_count, last_accessed_at)
               SELECT tenant, id, 1, %s, %s, %s FROM memory.memories WHERE key = %s""",
            *(successes, failures, read_at, key),
        )
    execute(
        url,
        """INSERT INTO memory.lineage (tenant, id, source, event)
           SELECT 'acme', s.id, m.id, 'e' FROM memory.memories s, memory.memories m
           WHERE s.key = 'a successor' AND m.key = 'a source'""",
    )

    memory.admin.archive(policy(tmp_path), dry_run=False)

    assert keys(url) == list(stays)


def test_reads_that_were_not_written_yet_count(
    url: str, memory: MemoryCoordinator, tmp_path: Path
) -> None:
    remember(url, "read")
    for _ in range(3):
        memory.get("read")

    assert memory.admin.archive(policy(tmp_path), dry_run=False).memories == 0
    assert keys(url) == ["read"]


@pytest.mark.parametrize("how", ["delete_memory", "delete", "delete in its tier"])
def test_what_was_deleted_in_the_archive_does_not_come_back(
    memory: MemoryCoordinator, url: str, archived: str, how: str
) -> None:
    execute(
        url,
        """INSERT INTO memory.exposures (tenant, run, id, position, held_out, exposed_at)
           SELECT tenant, 'r', id, 1, false, '2026-01-01' FROM memory.archived
           WHERE key = 'key 4'""",
    )
    store = memory.tiered_store
    if how == "delete_memory":
        assert memory.delete_memory("key 4")
    else:
        (store if how == "delete" else store.tier("working")).delete(("acme",), "key 4")

    assert count(url, "exposures") == 0
    assert memory.admin.restore_archive(archived).restored == NUMBER - 1
    assert "key 4" not in keys(url)


def test_only_what_is_meant_is_forgotten(memory: MemoryCoordinator, archived: str) -> None:
    memory.tiered_store.tier("long_term").delete(("acme",), "key 4")
    memory.tiered_store.delete(("acme", "elsewhere"), "key 4")
    memory.tiered_store.delete(("other",), "key 4")

    assert memory.delete_memory("nobody") is False
    assert memory.admin.restore_archive(archived).restored == NUMBER
    assert memory.delete_memory("key 4") is True
    assert memory.delete_memory("key 4") is False


def test_a_key_that_lives_again_stays_and_its_archived_memory_waits(
    memory: MemoryCoordinator, url: str, archived: str
) -> None:
    memory.tiered_store.put(("acme",), "key 4", {"text": "new"})

    report = memory.admin.restore_archive(archived)

    assert (report.restored, report.occupied) == (NUMBER - 1, ("key 4",))
    assert memory.admin.archives()[0].remaining == 1
    memory.tiered_store.delete(("acme",), "key 4")
    assert memory.admin.restore_archive(archived).restored == 0
    assert "key 4" not in keys(url)


def test_of_two_archived_memories_of_a_key_the_newer_one_comes_back(
    memory: MemoryCoordinator, clock: Clock, archived: str, tmp_path: Path
) -> None:
    memory.tiered_store.put(("acme",), "key 4", {"text": "new"})
    clock.advance(days=181)
    (newer,) = memory.admin.archive(policy(tmp_path), dry_run=False).archives

    older = memory.admin.restore_archive(archived)

    assert (older.restored, older.occupied) == (NUMBER - 1, ("key 4",))
    assert memory.admin.restore_archive(newer).restored == 1
    assert memory.tiered_store.get(("acme",), "key 4").value == {"text": "new"}  # type: ignore[union-attr]


def test_what_has_expired_in_the_archive_is_gone_for_good(
    memory: MemoryCoordinator, url: str, clock: Clock, archived: str
) -> None:
    expiring = one(
        url,
        "SELECT count(*) FROM memory.archived WHERE split_part(key, ' ', 2)::int %% 4 = 2",
    )
    clock.now = NOW + timedelta(days=3000)

    report = memory.admin.restore_archive(archived)

    assert (report.restored, report.expired) == (NUMBER - expiring, expiring)
    clock.now = NOW
    assert memory.admin.restore_archive(archived).restored == 0


def test_exposures_outlast_the_archive_and_what_they_earn_is_added(
    memory: MemoryCoordinator, url: str, tmp_path: Path
) -> None:
    remember(url, "a", namespace="")
    assert memory.get("a") is not None
    memory.learning.record_outcome([memory.get("a")], success=False, run_id="first")  # type: ignore[list-item]
    memory.stats()  # what was read is written down
    execute(url, "UPDATE memory.usage SET last_accessed_at = last_accessed_at - interval '1 year'")
    execute(
        url,
        """INSERT INTO memory.exposures (tenant, run, id, position, held_out, exposed_at)
           SELECT tenant, 'open', id, 1, false, %s FROM memory.memories""",
        NOW,
    )
    (name,) = memory.admin.archive(policy(tmp_path), dry_run=False).archives
    memory.tiered_store.optimize()
    memory.learning.record_outcome(run_id="open", success=False)
    memory.tiered_store.optimize()

    memory.admin.restore_archive(name)

    found = memory.get("a")
    assert found is not None
    assert (found.access_count, found.success_count, found.failure_count) == (2, 0, 2)
    assert count(url, "exposures") == 2
