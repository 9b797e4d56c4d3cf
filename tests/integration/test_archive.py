"""Archival on a real database and real files: exact there and back, or nothing at all."""

from __future__ import annotations

import asyncio
import hashlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import fsspec
import psycopg
import pyarrow as pa
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from pyarrow import parquet

from langmem_tiers import ArchiveError, InvalidInputError, MemoryCoordinator, TieredStore
from langmem_tiers.archiving import ArchiveFiles
from langmem_tiers.consolidate.archive import TIMES, Archive, ArchivedMemory
from langmem_tiers.consolidate.policy import ConsolidationPolicy
from langmem_tiers.consolidate.steps import Cycle
from langmem_tiers.errors import (
    ConfigurationError,
    InvalidTypeError,
    LeaseLostError,
    MissingExtraError,
)
from tests.support.archives import (
    CONTENT,
    NOW,
    OLD,
    count,
    execute,
    files_in,
    fill,
    hashes,
    one,
    policy,
)
from tests.support.coordinating import Caller, coordinator
from tests.support.opening import Clock, Opener, text_index, tiered

NUMBER = 120
WITH_VECTOR = 'key 1 "quoted"'


@pytest.fixture
def store(url: str, clock: Clock) -> Iterator[TieredStore]:
    with TieredStore.from_conn_string(url, index=text_index(), clock=clock) as opened:
        yield opened


@pytest.fixture
def memory(store: TieredStore) -> MemoryCoordinator:
    return coordinator(store)


@pytest.fixture
def archived(url: str, memory: MemoryCoordinator, tmp_path: Path) -> str:
    """The name of an archive that odd memories have left for."""
    fill(url, NUMBER)
    memory.archive(policy(tmp_path))
    (file,) = memory.archives()
    return file.archive


def remember(url: str, key: str, **columns: Any) -> None:
    """Store one old memory, with these columns instead of the usual ones."""
    row = {
        "tenant": "acme",
        "tier": "working",
        "namespace": "_.",
        "key": key,
        "value": json.dumps({"content": key}),
        "created_at": OLD,
        "updated_at": OLD,
        **columns,
    }
    names = ", ".join(row)
    places = ", ".join(["%s"] * len(row))
    execute(url, f"INSERT INTO memory.memories ({names}) VALUES ({places})", *row.values())  # noqa: S608


def keys(url: str) -> list[str]:
    with psycopg.connect(url) as conn:
        rows = conn.execute("SELECT key FROM memory.memories ORDER BY key").fetchall()
    return [row[0] for row in rows]


# There and back


async def test_a_restore_brings_every_row_back_bit_by_bit(
    open_store: Opener, url: str, tmp_path: Path
) -> None:
    fill(url, NUMBER)
    before = hashes(url)
    async with open_store(url=url, index=text_index()) as driver:
        call = Caller(coordinator(tiered(driver)), driver.mode)
        report = await call("archive", policy(tmp_path))
        assert (report.memories, report.left) == (NUMBER, 0)
        assert [count(url, name) for name in CONTENT] == [0, 0, 0]
        (file,) = await call("archives")
        assert (file.archive, file.memories, file.remaining) == (*report.archives, NUMBER, NUMBER)
        assert (await call("restore_archive", file.archive)).restored == NUMBER
        assert hashes(url) == before
        assert (await call("restore_archive", file.url)).restored == 0
        (file,) = await call("archives")
        assert file.remaining == 0
    assert hashes(url) == before


@pytest.mark.proof
def test_ten_thousand_memories_come_back_bit_by_bit(
    url: str, memory: MemoryCoordinator, tmp_path: Path
) -> None:
    fill(url, 10_000)
    before = hashes(url)
    assert before["memories"].startswith("10000 rows")
    report = memory.archive(policy(tmp_path))
    assert (report.memories, len(report.archives)) == (10_000, 20)
    assert count(url, "memories") == 0
    assert sum(memory.restore_archive(name).restored for name in report.archives) == 10_000
    assert hashes(url) == before


def test_every_column_of_the_three_tables_is_archived(url: str) -> None:
    query = """SELECT array_agg(attname::text) FROM pg_attribute
               WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped"""
    columns = {name: set(one(url, query, f"memory.{name}")) for name in CONTENT}
    known = set(ArchivedMemory._fields) | set(TIMES) | {"tenant"}

    assert columns["memories"] | columns["usage"] <= known
    assert columns["vectors"] == {"tenant", "tier", "namespace", "id", "field", "embedding"}


def test_some_keys_come_back_and_the_others_wait(
    url: str, memory: MemoryCoordinator, archived: str
) -> None:
    some = memory.restore_archive(archived, keys=["key 4", "key 8", "key 4"])

    assert (some.restored, keys(url)) == (2, ["key 4", "key 8"])
    assert memory.restore_archive(archived, keys=["key 4"]).restored == 0
    assert memory.restore_archive(archived).restored == NUMBER - 2


def test_what_is_archived_is_no_longer_found_and_is_found_again(
    memory: MemoryCoordinator, archived: str
) -> None:
    assert memory.get("key 4") is None
    memory.restore_archive(archived)
    found = memory.get("key 4")
    assert found is not None
    assert found.value["n"] == 4


def test_a_large_archive_is_several_files_and_a_dry_run_none(
    url: str, memory: MemoryCoordinator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("langmem_tiers.consolidate.archive.BATCH", 50)
    fill(url, NUMBER)
    dry = memory.archive(policy(tmp_path), dry_run=True)
    assert (dry.memories, dry.archives, files_in(tmp_path)) == (NUMBER, (), [])
    report = memory.archive(policy(tmp_path))
    assert [file.memories for file in memory.archives()] == [50, 50, 20]
    assert [file.archive for file in memory.archives()] == sorted(report.archives, key=_number)
    assert memory.archive(policy(tmp_path)).memories == 0


def _number(archive: str) -> int:
    return int(archive.split("-")[3])


# What is meant


def test_old_hardly_read_and_unimportant_is_meant_and_nothing_else(
    url: str, memory: MemoryCoordinator, tmp_path: Path
) -> None:
    edge = NOW - timedelta(days=180)
    value = json.dumps
    remember(url, "meant")
    remember(url, "just old enough", created_at=edge - timedelta(microseconds=1))
    remember(url, "just too young", created_at=edge)
    remember(url, "unimportant", value=value({"importance": 0.59}))
    remember(url, "important", value=value({"importance": 0.6}))
    remember(url, "oddly rated", value=value({"importance": "very"}))
    remember(url, "read twice")
    remember(url, "read thrice")
    remember(url, "expired", expires_at=NOW)
    remember(url, "expiring", expires_at=NOW + timedelta(seconds=1))
    remember(url, "superseded", state="superseded", state_at=OLD)
    remember(url, "in a session", session="s", value=value({"memory_type": "working"}))
    remember(url, "said in a session", session="s")
    remember(url, "of another tenant", tenant="other")
    remember(url, "a source")
    remember(url, "a successor")
    for key, reads in (("read twice", 2), ("read thrice", 3)):
        execute(
            url,
            """INSERT INTO memory.usage (tenant, id, access_count)
               SELECT tenant, id, %s FROM memory.memories WHERE key = %s""",
            reads,
            key,
        )
    execute(
        url,
        """INSERT INTO memory.lineage (tenant, id, source, event)
           SELECT 'acme', s.id, m.id, 'e' FROM memory.memories s, memory.memories m
           WHERE s.key = 'a successor' AND m.key = 'a source'""",
    )

    memory.archive(policy(tmp_path))

    assert keys(url) == [
        "a source",
        "a successor",
        "expired",
        "important",
        "in a session",
        "just too young",
        "of another tenant",
        "read thrice",
        "superseded",
    ]


def test_the_policy_sets_the_bounds_and_the_agent(
    url: str, memory: MemoryCoordinator, tmp_path: Path
) -> None:
    remember(url, "of coder", value=json.dumps({"agent_id": "coder", "importance": 0.9}))
    remember(url, "of critic", value=json.dumps({"agent_id": "critic", "importance": 0.9}))

    assert memory.archive(policy(tmp_path)).memories == 0
    assert memory.archive(policy(tmp_path, max_importance=1, older_than_days=300)).memories == 0
    report = memory.archive(policy(tmp_path, max_importance=1, agent_id="coder"))

    assert (report.memories, keys(url)) == (1, ["of critic"])


def test_reads_that_were_not_written_yet_count(
    url: str, memory: MemoryCoordinator, tmp_path: Path
) -> None:
    remember(url, "read")
    for _ in range(3):
        memory.get("read")

    assert memory.archive(policy(tmp_path)).memories == 0
    assert keys(url) == ["read"]


# Nobody is overtaken


class Meanwhile(ArchiveFiles):
    """Does something between the file and the transaction."""

    def __init__(self, meanwhile: Callable[[], object]) -> None:
        self._meanwhile = meanwhile

    def write(self, *given: Any) -> Any:
        written = super().write(*given)
        self._meanwhile()
        return written


def cycle_of(store: TieredStore, directory: Path | str, **options: Any) -> Cycle:
    return Cycle(
        tenant="acme",
        cycle="c1",
        moment=store.flows.moment(),
        policy=ConsolidationPolicy(archive=policy(directory)),
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
    step, cycle = Archive(Meanwhile(lambda: execute(url, change))), cycle_of(store, tmp_path)

    result = applied(store, step, cycle)

    assert (sum(result["done"].values()), sum(result["left"].values())) == (1, 1)
    assert keys(url) == ["a"]
    changed = hashes(url)
    (file,) = coordinator(store).archives()
    assert (file.memories, file.remaining) == (1, 1)
    assert coordinator(store).restore_archive(file.archive).restored == 1
    execute(url, "DELETE FROM memory.memories WHERE key = 'b'")
    assert hashes(url) == changed


def test_an_apply_that_is_done_twice_changes_nothing_the_second_time(
    store: TieredStore, url: str, tmp_path: Path
) -> None:
    fill(url, 20)
    step, cycle = Archive(ArchiveFiles()), cycle_of(store, tmp_path)
    proposal = store.run(step.propose(cycle, store.run(step.select(cycle, 0, 100))))

    first = store.run(step.apply(cycle, proposal["decisions"]))
    found = files_in(tmp_path)
    second = store.run(step.apply(cycle, proposal["decisions"]))

    assert first == second
    assert files_in(tmp_path) == found
    assert len(found) == count(url, "archives") == 1


def test_a_file_without_its_transaction_is_written_again_under_the_same_name(
    store: TieredStore, url: str, tmp_path: Path
) -> None:
    def fail() -> None:
        raise RuntimeError("power cut")

    fill(url, 20)
    before, cycle = hashes(url), cycle_of(store, tmp_path)
    with pytest.raises(RuntimeError, match="power cut"):
        applied(store, Archive(Meanwhile(fail)), cycle)
    orphans = [(path, path.read_bytes()) for path in files_in(tmp_path)]
    assert hashes(url) == before
    assert len(orphans) == 1

    applied(store, Archive(ArchiveFiles()), cycle)

    assert [(path, path.read_bytes()) for path in files_in(tmp_path)] == orphans
    assert count(url, "memories") == 0


@pytest.mark.parametrize("fence", [None, 1])
def test_without_the_lease_nothing_is_removed(
    store: TieredStore, url: str, tmp_path: Path, fence: int | None
) -> None:
    remember(url, "a")
    execute(url, "INSERT INTO memory.leases VALUES ('acme', 'other', 2, '2040-01-01')")

    with pytest.raises(LeaseLostError):
        applied(store, Archive(ArchiveFiles()), cycle_of(store, tmp_path, fence=fence))
    assert keys(url) == ["a"]
    applied(store, Archive(ArchiveFiles()), cycle_of(store, tmp_path, fence=2))
    assert keys(url) == []


DYING = """
import os, sys
from fsspec.implementations.local import LocalFileSystem
from langmem_tiers import ArchivalPolicy, MemoryContext, MemoryCoordinator, TieredStore
from langmem_tiers import archiving
from langmem_tiers.consolidate import archive

url, directory, point = sys.argv[1:]

def die(*_, **__):
    os._exit(9)

if point == "before the file":
    LocalFileSystem.makedirs = die
elif point == "before it is read back":
    archiving._check_same = die
elif point == "before it is named":
    LocalFileSystem.mv = die
elif point == "before the transaction":
    archive._remove = die
with TieredStore.from_conn_string(url, index={}) as store:
    memory = MemoryCoordinator(store, context=MemoryContext(tenant="acme"))
    memory.archive(ArchivalPolicy(url=directory))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "point",
    [
        "before the file",
        "before it is read back",
        "before it is named",
        "before the transaction",
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
    (name,) = memory.archive(policy(tmp_path)).archives
    assert count(url, "memories") == 0
    memory.restore_archive(name)
    assert hashes(url) == before


# Bad files


def flipped(data: bytes, at: float) -> bytes:
    changed = bytearray(data)
    changed[int(at * (len(data) - 1))] ^= 1
    return bytes(changed)


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    **{f"a bit flipped at {at}": lambda data, at=at: flipped(data, at) for at in (0, 0.3, 0.7, 1)},
    "truncated": lambda data: data[:-1],
    "halved": lambda data: data[: len(data) // 2],
    "emptied": lambda _: b"",
    "appended to": lambda data: data + b"\0",
    "text": lambda _: b"these are my memories",
}


def assert_refused(memory: MemoryCoordinator, url: str, archive: str, match: str) -> None:
    """The archive is refused whole, before anything is written."""
    before = (hashes(url), count(url, "archived"))
    with pytest.raises(ArchiveError, match=match):
        memory.restore_archive(archive)
    with pytest.raises(ArchiveError, match=match):
        memory.restore_archive(archive, keys=[WITH_VECTOR])
    assert (hashes(url), count(url, "archived")) == before


def believe(url: str, path: Path) -> None:
    """Make the database expect the file as it is now."""
    checksum = hashlib.sha256(path.read_bytes()).hexdigest()
    execute(url, "UPDATE memory.archives SET checksum = %s", checksum)


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_is_refused_whole(
    memory: MemoryCoordinator, url: str, archived: str, tmp_path: Path, damage: str
) -> None:
    (path,) = files_in(tmp_path)
    good = path.read_bytes()
    path.write_bytes(DAMAGE[damage](good))

    assert_refused(memory, url, archived, "SHA-256 differs")
    path.write_bytes(good)
    assert memory.restore_archive(archived).restored == NUMBER


@pytest.mark.parametrize("damage", ["halved", "emptied", "text", "truncated"])
def test_what_is_no_parquet_file_is_refused_even_with_its_checksum(
    memory: MemoryCoordinator, url: str, archived: str, tmp_path: Path, damage: str
) -> None:
    (path,) = files_in(tmp_path)
    path.write_bytes(DAMAGE[damage](path.read_bytes()))
    believe(url, path)

    assert_refused(memory, url, archived, "no Parquet file")


def test_a_missing_file_is_said_to_be_missing(
    memory: MemoryCoordinator, url: str, archived: str, tmp_path: Path
) -> None:
    (path,) = files_in(tmp_path)
    path.unlink()

    assert_refused(memory, url, archived, "is not there")


def rewritten(path: Path, change: Callable[[Any], Any]) -> None:
    table = parquet.read_table(path)
    parquet.write_table(change(table), path, compression="zstd")


def edited(table: Any, column: str, row: int, value: Any) -> Any:
    values = table[column].to_pylist()
    values[row] = value
    at = table.schema.get_field_index(column)
    field = table.schema.field(at)
    return table.set_column(at, field, pa.array(values, field.type))


TAMPERED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "reordered": (lambda table: table.take([1, 0, *range(2, len(table))]), "rows are not those"),
    "shortened": (lambda table: table.slice(1), "rows are not those"),
    "repeated": (
        lambda table: table.take([0, *range(len(table))]),
        "rows are not those",
    ),
    "edited": (lambda table: edited(table, "value", 0, "{}"), "rows are not those"),
    "narrowed": (lambda table: table.drop_columns(["strength"]), "columns are others"),
    "unsigned": (lambda table: table.replace_schema_metadata(), "did not write it"),
    "of the future": (
        lambda table: table.replace_schema_metadata({b"langmem-tiers": b'{"format": 2}'}),
        "another format",
    ),
}


@pytest.mark.parametrize("how", TAMPERED)
def test_a_tampered_file_is_refused_even_with_its_checksum(
    memory: MemoryCoordinator, url: str, archived: str, tmp_path: Path, how: str
) -> None:
    change, said = TAMPERED[how]
    (path,) = files_in(tmp_path)
    rewritten(path, change)
    believe(url, path)

    assert_refused(memory, url, archived, said)


def test_another_tenants_file_and_another_archive_are_refused(
    store: TieredStore, memory: MemoryCoordinator, url: str, archived: str, tmp_path: Path
) -> None:
    other = coordinator(store, "other")
    fill(url, 10, "other")
    other.archive(policy(tmp_path))
    mine, theirs = (next(tmp_path.glob(f"{name}/*")) for name in ("acme", "other"))
    with pytest.raises(InvalidInputError, match="no archive"):
        memory.restore_archive(other.archives()[0].archive)
    good = mine.read_bytes()
    mine.write_bytes(theirs.read_bytes())
    assert_refused(memory, url, archived, "SHA-256 differs")
    believe(url, mine)
    assert_refused(memory, url, archived, "another tenant's")
    mine.write_bytes(good)
    believe(url, mine)
    execute(url, "UPDATE memory.archived SET key = 'other' WHERE key = 'key 4'")
    assert_refused(memory, url, archived, "other memories than those that left")


def test_vectors_that_do_not_fit_the_database_are_refused(
    memory: MemoryCoordinator, url: str, archived: str
) -> None:
    execute(
        url, """UPDATE memory.settings SET value = value || '{"dims": 65}' WHERE name = 'vector'"""
    )
    try:
        assert_refused(memory, url, archived, "64.* dimensions")
    finally:
        execute(
            url,
            """UPDATE memory.settings SET value = value || '{"dims": 64}' WHERE name = 'vector'""",
        )


def test_unknown_archives_and_keys_are_a_callers_mistake(
    memory: MemoryCoordinator, archived: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidInputError, match="no archive"):
        memory.restore_archive("2020-01-01-1-0000")
    with pytest.raises(InvalidInputError, match="no archive"):
        memory.restore_archive(str(tmp_path / "unknown.parquet"))
    with pytest.raises(InvalidInputError, match="no memory of the key 'nobody'"):
        memory.restore_archive(archived, keys=["key 4", "nobody"])
    with pytest.raises(InvalidTypeError, match="list of strings"):
        memory.restore_archive(archived, keys="key 4")
    with pytest.raises(InvalidTypeError, match=r"pass its \.archive"):
        memory.restore_archive(memory.archives()[0])  # type: ignore[arg-type]
    with pytest.raises(InvalidTypeError, match="ArchivalPolicy"):
        memory.archive(str(tmp_path))  # type: ignore[arg-type]


# What is forgotten stays forgotten


FORGETTING: dict[str, Callable[[MemoryCoordinator], object]] = {
    "delete_memory": lambda memory: memory.delete_memory("key 4"),
    "delete": lambda memory: memory.tiered_store.delete(("acme",), "key 4"),
    "delete in its tier": lambda memory: memory.tiered_store.tier("working").delete(
        ("acme",), "key 4"
    ),
}


@pytest.mark.parametrize("how", FORGETTING)
def test_what_was_deleted_in_the_archive_does_not_come_back(
    memory: MemoryCoordinator, url: str, archived: str, how: str
) -> None:
    execute(
        url,
        """INSERT INTO memory.exposures (tenant, run, id, position, held_out, exposed_at)
           SELECT tenant, 'r', id, 1, false, '2026-01-01' FROM memory.archived
           WHERE key = 'key 4'""",
    )
    FORGETTING[how](memory)

    assert count(url, "exposures") == 0
    assert memory.restore_archive(archived).restored == NUMBER - 1
    assert "key 4" not in keys(url)


def test_only_what_is_meant_is_forgotten(memory: MemoryCoordinator, archived: str) -> None:
    memory.tiered_store.tier("long_term").delete(("acme",), "key 4")
    memory.tiered_store.delete(("acme", "elsewhere"), "key 4")
    memory.tiered_store.delete(("other",), "key 4")

    assert memory.delete_memory("nobody") is False
    assert memory.restore_archive(archived).restored == NUMBER
    assert memory.delete_memory("key 4") is True
    assert memory.delete_memory("key 4") is False


def test_a_key_that_lives_again_stays_and_its_archived_memory_waits(
    memory: MemoryCoordinator, url: str, archived: str
) -> None:
    memory.tiered_store.put(("acme",), "key 4", {"text": "new"})

    report = memory.restore_archive(archived)

    assert (report.restored, report.occupied) == (NUMBER - 1, ("key 4",))
    assert memory.archives()[0].remaining == 1
    assert memory.tiered_store.delete(("acme",), "key 4") is None
    assert memory.restore_archive(archived).restored == 0
    assert "key 4" not in keys(url)


def test_a_key_whose_new_memory_has_expired_comes_back(
    memory: MemoryCoordinator, clock: Clock, archived: str
) -> None:
    memory.tiered_store.put(("acme",), "key 4", {"text": "new"}, ttl=1)
    clock.advance(minutes=2)

    assert memory.restore_archive(archived).restored == NUMBER


def test_what_has_expired_in_the_archive_is_gone_for_good(
    memory: MemoryCoordinator, url: str, clock: Clock, archived: str
) -> None:
    expiring = one(
        url,
        "SELECT count(*) FROM memory.archived WHERE split_part(key, ' ', 2)::int %% 4 = 2",
    )
    clock.now = NOW + timedelta(days=3000)

    report = memory.restore_archive(archived)

    assert (report.restored, report.expired) == (NUMBER - expiring, expiring)
    clock.now = NOW
    assert memory.restore_archive(archived).restored == 0


def test_exposures_outlast_the_archive_and_what_they_earn_is_added(
    memory: MemoryCoordinator, url: str, tmp_path: Path
) -> None:
    remember(url, "a", namespace="")
    assert memory.get("a") is not None
    memory.record_outcome([memory.get("a")], success=True, run_id="first")  # type: ignore[list-item]
    execute(
        url,
        """INSERT INTO memory.exposures (tenant, run, id, position, held_out, exposed_at)
           SELECT tenant, 'open', id, 1, false, %s FROM memory.memories""",
        NOW,
    )
    (name,) = memory.archive(policy(tmp_path)).archives
    memory.tiered_store.optimize()
    memory.record_outcome(run_id="open", success=False)
    memory.tiered_store.optimize()

    memory.restore_archive(name)

    found = memory.get("a")
    assert found is not None
    assert (found.access_count, found.success_count, found.failure_count) == (2, 1, 1)
    assert count(url, "exposures") == 2


# Where files can be


class Bucket(MemoryFileSystem):
    """An object store: what is renamed is copied, and what is missing in a folder is no matter."""

    protocol = "bucket"

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return str(super()._strip_protocol(path.removeprefix(f"{cls.protocol}:/")))

    store: dict[str, Any] = {}  # noqa: RUF012 - as its parent has it
    pseudo_dirs = [""]  # noqa: RUF012


class Forgetful(Bucket):
    """One that loses the end of what is written."""

    protocol = "forgetful"

    def cat_file(self, path: str, *given: Any, **options: Any) -> bytes:
        return bytes(super().cat_file(path, *given, **options)[:-1])


class Full(Bucket):
    """One that takes no more."""

    protocol = "full"

    def _open(self, *_: Any, **__: Any) -> Any:
        raise OSError(28, "No space left on device")


@pytest.fixture
def buckets() -> Iterator[None]:
    for kind in (Bucket, Forgetful, Full):
        fsspec.register_implementation(kind.protocol, kind, clobber=True)
    yield
    Bucket.store.clear()
    MemoryFileSystem.store.clear()


@pytest.mark.usefixtures("buckets")
@pytest.mark.parametrize("directory", ["memory://cold/memories", "bucket://cold/memories"])
async def test_an_object_store_does_as_well(store: TieredStore, url: str, directory: str) -> None:
    memory = coordinator(store)
    fill(url, 40)
    before = hashes(url)

    await memory.aarchive(policy(directory))

    (file,) = await memory.aarchives()
    scheme = directory.partition(":")[0]
    assert file.url.startswith(f"{scheme}://")
    (path,) = fsspec.filesystem(scheme).find("/cold/memories/acme")
    assert path.endswith(f"{file.archive}.parquet")
    assert (await memory.arestore_archive(file.url)).restored == 40
    assert hashes(url) == before


@pytest.mark.usefixtures("buckets")
@pytest.mark.parametrize(
    ("directory", "said"),
    [("forgetful://cold", "read back"), ("full://cold", "No space left")],
)
def test_a_place_that_does_not_keep_files_gets_no_memories(
    memory: MemoryCoordinator, url: str, directory: str, said: str
) -> None:
    fill(url, 20)
    before = hashes(url)

    with pytest.raises(ArchiveError, match=said):
        memory.archive(policy(directory))

    assert (hashes(url), count(url, "archives"), count(url, "archived")) == (before, 0, 0)
    assert Bucket.store == {}


def test_an_unknown_place_is_a_mistake_of_configuration(
    memory: MemoryCoordinator, url: str
) -> None:
    fill(url, 1)
    with pytest.raises(ConfigurationError, match="no place for archives"):
        memory.archive(policy("nowhere://cold"))
    with pytest.raises(ConfigurationError, match="one more package"):
        memory.archive(policy("s3://cold"))


@pytest.mark.parametrize(
    "tenant", ["a.b", "..", "a/b", "../escape", "%2E", "C:\\x", "ü" * 180, " ", "Acme Ltd & Co"]
)
def test_a_tenant_of_any_name_has_a_folder_of_its_own_inside(
    store: TieredStore, url: str, tmp_path: Path, tenant: str
) -> None:
    memory = coordinator(store, tenant)
    fill(url, 3, memory.context.root)
    inside = tmp_path / "inside"

    report = memory.archive(policy(inside))

    assert files_in(tmp_path) == files_in(inside)
    (path,) = files_in(inside)
    assert len(path.relative_to(inside).parts) == 2
    assert memory.restore_archive(report.archives[0]).restored == 3


def test_without_the_extra_the_error_names_it() -> None:
    program = """
import sys
sys.modules["pyarrow"] = None
import langmem_tiers.coordinator
from langmem_tiers.errors import MissingExtraError
try:
    import langmem_tiers.archiving
except MissingExtraError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert issubclass(MissingExtraError, ImportError)
    assert 'pip install "langmem-tiers[archive]"' in done.stdout


async def test_two_restores_at_once_bring_each_memory_back_once(
    memory: MemoryCoordinator, url: str, archived: str
) -> None:
    reports = await asyncio.gather(
        *(asyncio.to_thread(memory.restore_archive, archived) for _ in range(3))
    )
    assert sum(report.restored for report in reports) == NUMBER
    assert count(url, "memories") == NUMBER
