"""Archival beside others, and processes that die on the way: nothing is lost, nobody overtaken."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from langmem_tiers import MemoryCoordinator, TieredStore
from langmem_tiers.consolidation.archive import Archive
from langmem_tiers.consolidation.archive_files import ArchiveFiles
from langmem_tiers.consolidation.steps import Cycle
from tests.support.archives import (
    count,
    execute,
    files_in,
    fill,
    hashes,
    keys,
    policy,
    remember,
)
from tests.support.coded import coded
from tests.support.coordinating import coordinator
from tests.support.invariants import broken_rows
from tests.support.opening import text_index


@pytest.fixture
def memory(store: TieredStore) -> MemoryCoordinator:
    return coordinator(store)


class Meanwhile(ArchiveFiles):
    """Does something between the file and the transaction."""

    def __init__(self, meanwhile: Callable[[], object]) -> None:
        self._meanwhile = meanwhile

    def write(self, *given: Any) -> Any:
        written = super().write(*given)
        self._meanwhile()
        return written


def cycle_of(store: TieredStore, **options: Any) -> Cycle:
    return Cycle(
        tenant="acme",
        cycle="c1",
        moment=store.flows.moment(),
        options=store.options,
        **options,
    )


def applied(store: TieredStore, step: Archive, cycle: Cycle) -> Any:
    proposal = store.run(step.propose(cycle, store.run(step.select(cycle, 0, 100))))
    return store.run(step.apply(cycle, proposal["decisions"]))


@pytest.mark.parametrize(
    "change",
    [
        """UPDATE memory.memories SET value = '{"content": "new"}' WHERE key = 'a'""",
        "UPDATE memory.memories SET expires_at = '2040-01-01' WHERE key = 'a'",
        "UPDATE memory.memories SET tier = 'long_term' WHERE key = 'a'",
        """INSERT INTO memory.usage (tenant, id, access_count)
           SELECT tenant, id, 1 FROM memory.memories WHERE key = 'a'""",
        """INSERT INTO memory.lineage (tenant, id, source, event)
           SELECT tenant, 0, id, 'e' FROM memory.memories WHERE key = 'a'""",
        """INSERT INTO memory.vectors (tenant, tier, namespace, id, field, embedding)
           SELECT tenant, tier, namespace, id, 'late', array_fill(1::real, ARRAY[64])::vector
           FROM memory.memories WHERE key = 'a'""",
    ],
)
def test_a_memory_that_changes_before_its_file_counts_stays_and_is_not_listed(
    store: TieredStore, url: str, tmp_path: Path, change: str
) -> None:
    remember(url, "a")
    remember(url, "b")
    step, cycle = (
        Archive(policy(tmp_path), Meanwhile(lambda: execute(url, change))),
        cycle_of(store),
    )

    result = applied(store, step, cycle)

    assert (sum(result["done"].values()), sum(result["left"].values())) == (1, 1)
    assert keys(url) == ["a"]
    changed = hashes(url)
    (file,) = coordinator(store).admin.archives()
    assert (file.memories, file.remaining) == (1, 1)
    assert coordinator(store).admin.restore_archive(file.archive).restored == 1
    execute(url, "DELETE FROM memory.memories WHERE key = 'b'")
    assert hashes(url) == changed


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE memory.memories SET value = '{}', updated_at = updated_at + interval '1 second'",
        "UPDATE memory.memories SET state = 'superseded'",
        """INSERT INTO memory.usage (tenant, id, access_count)
           SELECT tenant, id, 3 FROM memory.memories""",
        """INSERT INTO memory.lineage (tenant, id, source, event)
           SELECT tenant, id, 0, 'e' FROM memory.memories""",
    ],
)
def test_what_was_judged_long_ago_and_is_no_longer_meant_stays(
    store: TieredStore, url: str, tmp_path: Path, change: str
) -> None:
    remember(url, "judged_long_ago")
    step, cycle = Archive(policy(tmp_path), ArchiveFiles()), cycle_of(store)
    proposal = store.run(step.propose(cycle, store.run(step.select(cycle, 0, 100))))
    execute(url, change)

    assert store.run(step.apply(cycle, proposal["decisions"]))["done"] == {}
    assert keys(url) == ["judged_long_ago"]
    assert (count(url, "archives"), count(url, "archived")) == (0, 0)


def test_a_file_without_its_transaction_is_written_again_under_the_same_name(
    store: TieredStore, url: str, tmp_path: Path
) -> None:
    def fail() -> None:
        raise RuntimeError("power cut")

    fill(url, 20)
    before, cycle = hashes(url), cycle_of(store)
    with pytest.raises(RuntimeError, match="power cut"):
        applied(store, Archive(policy(tmp_path), Meanwhile(fail)), cycle)
    orphans = [(path, path.read_bytes()) for path in files_in(tmp_path)]
    assert hashes(url) == before
    assert len(orphans) == 1

    applied(store, Archive(policy(tmp_path), ArchiveFiles()), cycle)

    assert [(path, path.read_bytes()) for path in files_in(tmp_path)] == orphans
    assert count(url, "memories") == 0


@pytest.mark.parametrize("fence", [None, 1])
def test_without_the_lease_nothing_is_removed(
    store: TieredStore, url: str, tmp_path: Path, fence: int | None
) -> None:
    remember(url, "a")
    execute(url, "INSERT INTO memory.leases VALUES ('acme', 'other', 2, '2040-01-01')")

    with coded("lease_lost"):
        applied(store, Archive(policy(tmp_path), ArchiveFiles()), cycle_of(store, fence=fence))
    assert keys(url) == ["a"]
    applied(store, Archive(policy(tmp_path), ArchiveFiles()), cycle_of(store, fence=2))
    assert keys(url) == []


DYING = """
import os, sys
from fsspec.implementations.local import LocalFileSystem
from langmem_tiers import ArchivalPolicy, MemoryContext, MemoryCoordinator, TieredStore
from langmem_tiers.consolidation import archive, archive_files

url, directory, point = sys.argv[1:]

def die(*_, **__):
    os._exit(9)

if point == "before the file":
    LocalFileSystem.makedirs = die
elif point == "before it is read back":
    archive_files._check_written = die
elif point == "before it is named":
    LocalFileSystem.mv = die
elif point == "before the transaction":
    archive._remove_archived = die
elif point == "inside the transaction":
    archive.lease.check_guard = die
with TieredStore.from_conn_string(url, index={}) as store:
    memory = MemoryCoordinator(store, context=MemoryContext(tenant="acme"))
    memory.admin.archive(ArchivalPolicy(url=directory, default_importance=0.5), dry_run=False)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "point",
    [
        "before the file",
        "before it is read back",
        "before it is named",
        "before the transaction",
        "inside the transaction",
    ],
)
def test_a_process_that_dies_on_the_way_loses_nothing(
    memory: MemoryCoordinator, url: str, tmp_path: Path, point: str
) -> None:
    fill(url, 20)
    before = hashes(url)
    command = [sys.executable, "-c", DYING, url, str(tmp_path), point]

    assert subprocess.run(command, check=False).returncode == 9
    assert (hashes(url), count(url, "archives"), count(url, "archived")) == (before, 0, 0)
    (name,) = memory.admin.archive(policy(tmp_path), dry_run=False).archives
    assert count(url, "memories") == 0
    memory.admin.restore_archive(name)
    assert hashes(url) == before


PLACE = ("acme", "notes")


def write(store: TieredStore, writer: int) -> dict[str, int | None]:
    """Put, delete and read keys of one's own; what each must say in the end."""
    rng = random.Random(writer)  # noqa: S311 - seeded, not secret
    wanted: dict[str, int | None] = {}
    for number in range(80):
        key = f"{writer}-{rng.randrange(6)}"
        if rng.random() < 0.3:
            store.delete(PLACE, key)
            wanted[key] = None
        elif rng.random() < 0.7:
            store.put(PLACE, key, {"text": f"note {number}", "number": number})
            wanted[key] = number
        else:
            store.get(PLACE, key)
    return wanted


def restore_all(memory: MemoryCoordinator) -> None:
    for file in memory.admin.archives():
        memory.admin.restore_archive(file.archive)


def test_beside_writers_nothing_is_lost_and_nothing_deleted_comes_back(
    url: str, tmp_path: Path
) -> None:
    cold = policy(tmp_path, older_than_days=0, max_access_count=1000)
    with TieredStore.from_conn_string(url, index=text_index()) as store:
        memory = coordinator(store)
        with ThreadPoolExecutor() as pool:
            writers = [pool.submit(write, store, number) for number in range(3)]
            while not all(writer.done() for writer in writers):
                memory.admin.archive(cold, dry_run=False)
                restore_all(memory)
        memory.admin.archive(cold, dry_run=False)
        assert count(url, "memories") == 0
        restore_all(memory)
        store.optimize()
        wanted = {key: said for writer in writers for key, said in writer.result().items()}
        items = {key: store.get(PLACE, key) for key in wanted}

    assert {key: item and item.value["number"] for key, item in items.items()} == wanted
    execute(url, "DELETE FROM memory.usage u USING memory.archived a WHERE a.id = u.id")
    assert broken_rows(url) == {}
