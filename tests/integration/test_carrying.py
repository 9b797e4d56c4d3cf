"""An export holds all of a tenant, and its import brings all of it back as it was."""

from __future__ import annotations

import asyncio
import json
import random
import shutil
import signal
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest

from langmem_tiers import GatePolicy, MemoryContext, TieredStore
from langmem_tiers.core.errors import (
    ConfigurationError,
    ConflictError,
    InvalidInputError,
)
from langmem_tiers.core.exported_tables import (
    EXPORTED_TABLES,
    ID_COLUMNS,
    PROOF_TABLES,
    UNEXPORTED_TABLES,
)
from langmem_tiers.remember.gate import TrustPolicy
from langmem_tiers.transfer import transfer
from langmem_tiers.transfer.rows import OWNER_ONLY
from tests.support.archives import count, execute, fill, one
from tests.support.carrying import (
    changed,
    digest,
    lines_of,
    many,
    recalled,
    rich,
    tenant_rows,
    wipe,
    write_lines,
)
from tests.support.coded import coded
from tests.support.coordinating import coordinator
from tests.support.forgetting import KEY, MARK, SAID
from tests.support.opening import Clock, text_index
from tests.support.servers import fresh_database, name_of, sessions, wait_until
from tests.support.walls import APPLICATION, login, walled_tables

CATALOG = """
    SELECT c.relname, a.attname, format_type(a.atttypid, NULL),
           a.attnum = ANY (coalesce(i.indkey[:i.indnkeyatts - 1], '{}'))
    FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
    LEFT JOIN pg_index i ON i.indrelid = c.oid AND i.indisprimary
    WHERE c.relnamespace = 'memory'::regnamespace AND c.relkind IN ('r', 'p')
      AND a.attnum > 0 AND NOT a.attisdropped ORDER BY 1, a.attnum"""
COUNTS = {("archives", "memories"), ("intentions", "fence")}
"""Columns of large numbers that are no ids."""


def names_in(directory: Path) -> list[str]:
    """What is in a directory."""
    return sorted(each.name for each in directory.iterdir())


class Filled(NamedTuple):
    """A database with a rich tenant beside others, and what that was exported to."""

    database: str
    export: Path


@pytest.fixture(scope="module")
def filled(
    server_url: str, template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Filled]:
    """What tests copy."""
    directory = tmp_path_factory.mktemp("rich")
    with fresh_database(server_url, template) as url:
        with TieredStore(url, index=text_index(), clock=Clock()) as store:
            rich(store, url, directory / "cold")
            coordinator(store).admin.export_tenant(directory / "acme.gz")
        yield Filled(name_of(url), directory / "acme.gz")


@pytest.fixture
def url(server_url: str, filled: Filled) -> Iterator[str]:
    """A database of its own with the rich tenant, and others."""
    with fresh_database(server_url, filled.database) as url:
        yield url


@pytest.fixture
def export(filled: Filled, tmp_path: Path) -> Path:
    """What the tenant was exported to."""
    return Path(shutil.copy2(filled.export, tmp_path))


@pytest.fixture
def other_url(new_url: Callable[[], str]) -> str:
    """Another database, set up in the same way, with nothing in it."""
    return new_url()


# What is carried


def test_every_table_that_has_a_tenant_is_carried_or_stays_for_a_reason(url: str) -> None:
    """A new table has to be in one of both lists, and its ids among the ids."""
    walled = {name.removeprefix("memory.") for name in walled_tables(url) if "memory." in name}
    assert {
        name for name in walled if "." not in name
    } == EXPORTED_TABLES.keys() | UNEXPORTED_TABLES.keys()
    assert not EXPORTED_TABLES.keys() & UNEXPORTED_TABLES.keys()
    assert set(list(EXPORTED_TABLES)[-len(PROOF_TABLES) :]) == PROOF_TABLES
    with psycopg.connect(url) as conn:
        columns = conn.execute(CATALOG).fetchall()
    for table, order in EXPORTED_TABLES.items():
        keys = {*order.split(", "), "tenant"}
        assert keys == {name for of, name, _, leads in columns if of == table and leads}, table
    large = {(of, name) for of, name, kind, _ in columns if kind.startswith("bigint")}
    of_ids = {(of, name) for of, name in large if of in EXPORTED_TABLES} - COUNTS
    assert {name for _, name in of_ids} == ID_COLUMNS
    assert {
        kind for of, name, kind, _ in columns if of in EXPORTED_TABLES and name in ID_COLUMNS
    } == {*("bigint", "bigint[]")}


def test_what_is_exported_wiped_and_imported_is_equal_row_for_row_and_recalled_alike(
    store: TieredStore, url: str, export: Path
) -> None:
    before, others, answers = tenant_rows(url), digest(url, "beta"), recalled(store)
    assert all(before.values()), "each table that is carried has rows"
    assert any(answers)

    wipe(url)
    assert not any(tenant_rows(url).values())
    report = coordinator(store).admin.import_tenant(export)
    assert tenant_rows(url) == before
    assert recalled(store) == answers
    assert digest(url, "beta") == others
    assert report.rows == {name: len(before[f"memory.{name}"]) for name in EXPORTED_TABLES}
    assert (report.shift, report.resumed_after, report.forgotten, report.held) == (0, 0, (), 0)
    assert count(url, "imports") == 0
    assert one(url, "SELECT last_value FROM memory.memory_ids") >= one(
        url, "SELECT max(number) FROM memory.events"
    )


async def test_so_it_is_in_another_database_by_the_async_twins(
    store: TieredStore, url: str, other_url: str, tmp_path: Path
) -> None:
    source = TieredStore(url, index=text_index(), clock=Clock())
    target = TieredStore(other_url, index=text_index(), clock=Clock())
    async with source, target:
        report = await coordinator(source).admin.aexport_tenant(tmp_path / "acme.gz")
        assert report.bytes == (tmp_path / "acme.gz").stat().st_size
        brought = await coordinator(target).admin.aimport_tenant(tmp_path / "acme.gz")
        assert brought.rows == report.rows
        assert tenant_rows(other_url) == tenant_rows(url)
        answers = await asyncio.to_thread(recalled, store)
        assert await asyncio.to_thread(recalled, target) == answers
        stored = await coordinator(target).astore("A new one.", key="new")
    query = "SELECT id FROM memory.memories WHERE key = %s"
    assert stored.stored
    assert one(other_url, query, "new") > one(url, "SELECT last_value FROM memory.memory_ids") - 1


def test_the_file_is_its_owners_alone_and_a_second_export_differs_in_name_and_time_alone(
    store: TieredStore, export: Path, tmp_path: Path
) -> None:
    assert export.stat().st_mode & 0o777 == 0o600
    coordinator(store).admin.export_tenant(tmp_path / "again.gz")
    assert lines_of(export)[1:-1] == lines_of(tmp_path / "again.gz")[1:-1]
    with pytest.raises(InvalidInputError, match=r"again\.gz is there already: name a new file"):
        coordinator(store).admin.export_tenant(tmp_path / "again.gz")
    with pytest.raises(InvalidInputError, match="no directory: make it first"):
        coordinator(store).admin.export_tenant(tmp_path / "none" / "again.gz")
    assert names_in(tmp_path) == ["acme.gz", "again.gz"]


def test_an_export_is_of_one_moment_and_needs_no_memory_for_what_it_reads(
    store: TieredStore, url: str, tmp_path: Path
) -> None:
    """What is written meanwhile is not in it."""
    memory = coordinator(store)
    wipe(url)
    many(url, 2_400)
    memory.store("warm", key="warm")
    memory.admin.export_tenant(tmp_path / "first.gz")
    total = len("".join(lines_of(tmp_path / "first.gz")))
    tracemalloc.start()
    memory.admin.export_tenant(tmp_path / "acme.gz")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert total > 20_000_000
    assert peak < total / 2

    written: list[int] = []

    def meanwhile(rows: int) -> None:
        if not written:
            execute(url, "DELETE FROM memory.memories WHERE key <> 'n1'")
        written.append(rows)

    store.run(transfer.export_all(store, memory.context, tmp_path / "then.gz", advance=meanwhile))
    assert (
        sum(written)
        == len(lines_of(tmp_path / "then.gz")) - 2
        == len(lines_of(tmp_path / "acme.gz")) - 2
    )
    assert count(url, "memories") == 1


async def test_an_export_that_is_cancelled_or_fails_leaves_nothing(
    url: str, tmp_path: Path
) -> None:
    async with TieredStore(url, index=text_index(), clock=Clock()) as store:
        context = MemoryContext(tenant="acme")

        def export(advance: Callable[[int], object]) -> Any:
            return store.runner.arun(
                transfer.export_all(store, context, tmp_path / "acme.gz", advance=advance)
            )

        task: asyncio.Task[Any] = asyncio.ensure_future(export(lambda _: task.cancel()))
        with pytest.raises(asyncio.CancelledError):
            await task

        def fail(_: int) -> None:
            raise LookupError("no")

        with pytest.raises(LookupError):
            await export(fail)
        assert names_in(tmp_path) == []
        await export(id)


# Ids that others have


def test_where_others_have_the_ids_all_are_drawn_anew_and_it_is_recalled_alike(
    store: TieredStore, url: str, export: Path, other_url: str
) -> None:
    answers = recalled(store)
    lowest = one(url, "SELECT min(id) FROM memory.memories WHERE tenant = 'acme'")
    execute(other_url, "SELECT setval('memory.memory_ids', %s)", lowest)
    fill(other_url, 30, "gamma")
    theirs = digest(other_url, "gamma")
    with TieredStore(other_url, index=text_index(), clock=Clock()) as target:
        shift = coordinator(target).admin.import_tenant(export).shift
        assert shift > 0
        assert recalled(target) == answers
    assert digest(other_url, "gamma") == theirs
    ids = "SELECT array_agg(id - %s ORDER BY id) FROM memory.memories WHERE tenant = 'acme'"
    assert one(other_url, ids, shift) == one(url, ids, 0)
    for column in (
        "id",
        "number",
        "target",
        "(detail -> 'sources' ->> 1)::bigint",
        "(detail -> 'handed' ->> 'id')::bigint",
        "(detail -> 'had' ->> 'id')::bigint",
        "(SELECT min(k)::bigint FROM jsonb_object_keys(detail -> 'versions') k)",
        "(detail -> 'again' ->> 0)::bigint",
    ):
        moved = f"SELECT {column} - %s FROM memory.events WHERE event = 'merge'"  # noqa: S608
        assert one(other_url, moved, shift) == one(url, moved, 0)
    edges = """SELECT count(*) FROM memory.lineage l JOIN memory.memories m
        ON m.tenant = l.tenant AND m.id = l.source WHERE l.tenant = 'acme'"""
    assert one(other_url, edges) == one(url, edges) > 0
    gone = "SELECT (detail -> 'ids' ->> 0)::bigint - %s FROM memory.forgettings"
    assert one(other_url, gone, shift) == one(url, gone, 0)
    last = "SELECT last_value FROM memory.memory_ids"
    assert one(other_url, last) >= one(other_url, "SELECT max(number) FROM memory.events")


# Stopped, and gone on with


def stopped(store: TieredStore, path: Path, after: int) -> None:
    """Import until so many rows were checked or written, and be stopped there."""
    seen = [0]

    def advance(rows: int) -> None:
        seen[0] += rows
        if seen[0] > after:
            raise KeyboardInterrupt

    context = MemoryContext(tenant="acme")
    how = transfer.ImportJob(store=store, context=context, path=path, advance=advance)
    with pytest.raises(KeyboardInterrupt):
        store.run(transfer.import_all(how))


def test_stopped_anywhere_it_goes_on_and_ends_as_if_it_had_not_been(
    store: TieredStore, url: str, export: Path
) -> None:
    before, answers = tenant_rows(url), recalled(store)
    rows, memory = len(lines_of(export)) - 2, coordinator(store)
    wipe(url)
    stopped(store, export, rows // 2)
    assert not any(tenant_rows(url).values()), "while it is checked nothing is written"
    for after in range(rows, 2 * rows, rows // 9):
        stopped(store, export, after)
        seen = one(url, "SELECT count(*) FROM memory.memories WHERE tenant = 'acme'")
        assert seen in (0, len(before["memory.memories"]))
    report = memory.admin.import_tenant(export)
    assert 0 < report.resumed_after < rows
    assert tenant_rows(url) == before
    assert recalled(store) == answers
    with pytest.raises(InvalidInputError, match="'acme' has rows already"):
        memory.admin.import_tenant(export)


def test_another_export_or_other_options_or_another_process_do_not_mix_with_it(
    store: TieredStore, url: str, export: Path, tmp_path: Path
) -> None:
    memory = coordinator(store)
    memory.admin.export_tenant(tmp_path / "other.gz")
    wipe(url)
    rows = len(lines_of(export)) - 2
    stopped(store, export, rows + rows // 2)
    with pytest.raises(InvalidInputError, match="the import of another export of 'acme' was begun"):
        memory.admin.import_tenant(tmp_path / "other.gz")
    with pytest.raises(
        InvalidInputError, match="source=None and readmit=False: go on with the same"
    ):
        memory.admin.import_tenant(export, readmit=True)
    done = [0]

    def meanwhile(_: int) -> None:
        done[0] += 1
        execute(url, "UPDATE memory.imports SET done = done + 1")

    context = MemoryContext(tenant="acme")
    how = transfer.ImportJob(store=store, context=context, path=export, advance=meanwhile)
    with pytest.raises(ConflictError, match="somebody else imports 'acme'"):
        store.run(transfer.import_all(how))
    execute(url, "UPDATE memory.imports SET done = done - %s", done[0])
    lease = "UPDATE memory.leases SET holder = 'a worker', until = 'infinity'"
    execute(url, lease)
    with coded("lease_lost", match="somebody consolidates 'acme'"):
        memory.admin.import_tenant(export)
    execute(url, "DELETE FROM memory.leases")
    assert memory.admin.import_tenant(export).resumed_after > 0
    assert one(url, "SELECT count(*) FROM memory.leases WHERE isfinite(until)") == 0


IMPORT = """
import sys
from langmem_tiers import MemoryContext, MemoryCoordinator, TieredStore
from tests.support.opening import text_index

with TieredStore.from_conn_string(sys.argv[1], index=text_index()) as store:
    memory = MemoryCoordinator(store, context=MemoryContext(tenant="acme"))
    memory.stats()
    print("ready", flush=True)
    memory.admin.import_tenant(sys.argv[2])
"""


def kill_amid(url: str, path: Path, delay: float) -> None:
    """Let a process import, and kill it after a while."""
    command = [sys.executable, "-W", "error", "-c", IMPORT, url, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)
    wait_until(lambda: sessions(url) == 0)


@pytest.mark.slow
@pytest.mark.parametrize("kills", [1, pytest.param(30, marks=pytest.mark.proof)])
def test_killed_amid_it_a_process_goes_on_where_the_last_one_came_to(
    url: str, tmp_path: Path, kills: int
) -> None:
    rng, path = random.Random(kills), tmp_path / "all.gz"  # noqa: S311 - seeded, not secret
    with TieredStore.from_conn_string(url, index=text_index()) as store:
        many(url, 700)
        coordinator(store).admin.export_tenant(path)
        before = tenant_rows(url)
        wipe(url)
        began = time.monotonic()
        coordinator(store).admin.import_tenant(path)
        took = time.monotonic() - began
    resumed = 0
    for _ in range(kills):
        wipe(url)
        kill_amid(url, path, rng.uniform(took / 2, took))
        with TieredStore.from_conn_string(url, index=text_index()) as store:
            if count(url, "imports") or not any(tenant_rows(url).values()):
                report = coordinator(store).admin.import_tenant(path)
                resumed += report.resumed_after > 0
        assert tenant_rows(url) == before
    assert kills < 30 or resumed > 3


# What is refused


def test_a_tenant_that_has_anything_is_refused_and_so_is_another_ones_file(
    store: TieredStore, url: str, export: Path
) -> None:
    before = tenant_rows(url)
    with pytest.raises(InvalidInputError, match=r"'acme' has rows already \(.* of memories.*\)"):
        coordinator(store).admin.import_tenant(export)
    with pytest.raises(InvalidInputError, match=r"line 1: this is an export of the tenant 'acme'"):
        coordinator(store, "delta").admin.import_tenant(export)
    for verb in ("export_tenant", "import_tenant"):
        with pytest.raises(InvalidInputError, match="use one that names no user"):
            getattr(coordinator(store, user_id="ada").admin, verb)(export)
    assert tenant_rows(url) == before
    with coded("import_file", match=r"none\.gz' cannot be read \(No such file"):
        coordinator(store).admin.import_tenant(export.with_name("none.gz"))


def test_a_database_that_was_set_up_otherwise_is_refused(
    store: TieredStore, url: str, export: Path
) -> None:
    wipe(url)
    header = json.loads(lines_of(export)[0])
    others: dict[str, dict[str, Any]] = {
        "export is of schema version 26": {"schema": 26},
        "the export has vectors of 65": {"vectors": {"dims": 65, "vector_type": "vector"}},
        "the export has no vectors": {"vectors": None},
        "words of german": {"language": "german"},
        "format 2; this package reads 1": {"langmem_tiers_export": 2},
        "no header of an export": {"rows": "many"},
        "names tables that no export has": {"rows": {"settings": 1}},
    }
    for said, told in others.items():
        lines = [json.dumps({**header, **told}), *lines_of(export)[1:]]
        path = write_lines(export.with_name("other.gz"), lines)
        with pytest.raises(InvalidInputError, match=f"line 1: .*{said}"):
            coordinator(store).admin.import_tenant(path)
    assert not any(tenant_rows(url).values())


def test_an_application_exports_its_tenant_and_imports_none(
    url: str, export: Path, tmp_path: Path
) -> None:
    with (
        login(url, APPLICATION) as web,
        TieredStore(web, index=text_index(), clock=Clock()) as application,
    ):
        coordinator(application).admin.export_tenant(tmp_path / "web.gz")
        assert lines_of(tmp_path / "web.gz")[1:-1] == lines_of(export)[1:-1]
        wipe(url)
        with pytest.raises(ConfigurationError, match="those of a role 'application': open it as"):
            coordinator(application).admin.import_tenant(export)
    assert not any(tenant_rows(url).values())


def test_what_postgres_takes_for_none_is_told_with_its_line_and_what_was_written_before_goes_on(
    store: TieredStore, url: str, export: Path
) -> None:
    before, memory = tenant_rows(url), coordinator(store)
    wipe(url)
    bad = changed(export, "memories", lambda row: row.update(lexemes="'a':1x"))
    with pytest.raises(InvalidInputError, match=r"line \d+: Postgres takes this row, or one up to"):
        memory.admin.import_tenant(bad)
    assert tenant_rows(url)["memory.memories"] == []
    assert tenant_rows(url)["memory.vectors"] == before["memory.vectors"]
    memory.admin.import_tenant(export)
    assert tenant_rows(url) == before


# What was forgotten


def test_what_was_forgotten_here_stays_gone_with_what_quotes_it_until_it_is_readmitted(
    store: TieredStore, url: str, export: Path
) -> None:
    before = tenant_rows(url)
    own = coordinator(store, project_id="billing", session_id="chat-7", agent_id="coder")
    own.forget(key=KEY)
    dead = tenant_rows(url, "acme")
    with psycopg.connect(url) as conn:
        for name in before.keys() - {f"memory.{one}" for one in PROOF_TABLES}:
            conn.execute(f"DELETE FROM {name} WHERE tenant = 'acme'".encode())  # noqa: S608
    report = coordinator(store).admin.import_tenant(export)
    assert KEY in report.forgotten
    after = tenant_rows(url)
    for name in ("memories", "events", "states", "lineage", "usage"):
        assert SAID not in "\n".join(after[f"memory.{name}"]), name
    assert len(after["memory.memories"]) == len(before["memory.memories"]) - len(report.forgotten)
    assert after["memory.tombstones"] == dead["memory.tombstones"]
    assert own.get("approvals") is not None

    with psycopg.connect(url) as conn:
        for name in before.keys() - {f"memory.{one}" for one in PROOF_TABLES}:
            conn.execute(f"DELETE FROM {name} WHERE tenant = 'acme'".encode())  # noqa: S608
    assert coordinator(store).admin.import_tenant(export, readmit=True).forgotten == ()
    after = tenant_rows(url)
    kept = {f"memory.{one}" for one in PROOF_TABLES}
    assert {k: v for k, v in after.items() if k not in kept} == {
        k: v for k, v in before.items() if k not in kept
    }
    assert MARK in "\n".join(after["memory.memories"])


def test_a_database_that_forgot_something_by_a_key_of_its_own_is_told(
    export: Path, other_url: str
) -> None:
    with TieredStore(other_url, index=text_index(), clock=Clock()) as target:
        memory = coordinator(target)
        memory.store("The lamp is red.", key="lamp")
        memory.forget(tenant="acme")
        with pytest.raises(InvalidInputError, match="by keys of their own"):
            memory.admin.import_tenant(export)
    assert count(other_url, "memories") == 0


# Who answers for it


def test_no_memory_is_trusted_more_than_before_or_than_who_answers_for_the_file(
    store: TieredStore, url: str, export: Path
) -> None:
    trusts = """SELECT jsonb_object_agg(key, coalesce((value ->> 'trust')::float8, 1))
        FROM memory.memories WHERE tenant = 'acme'"""
    states = "SELECT jsonb_object_agg(key, state) FROM memory.memories WHERE tenant = 'acme'"
    sources = """SELECT array_agg(DISTINCT value ->> 'source') FROM memory.memories
        WHERE tenant = 'acme'"""
    before, stood = one(url, trusts), one(url, states)
    wipe(url)
    report = coordinator(store).admin.import_tenant(export, source="web")
    assert one(url, sources) == ["web"]
    assert one(url, trusts) == {key: min(trust, 0.4) for key, trust in before.items()}
    assert one(url, states) == stood
    assert (report.held, stood["held"]) == (0, "quarantined")

    wipe(url)
    strict = GatePolicy(trust=TrustPolicy(sources={"leaked": 0.2}))
    report = coordinator(store, gate=strict).admin.import_tenant(export, source="leaked")
    free = {key for key, state in stood.items() if state != "quarantined"}
    assert report.held == len(free)
    assert set(one(url, states).values()) == {"quarantined"}
    said = {each.key: each.reason for each in coordinator(store).admin.list_quarantined(limit=100)}
    assert "leaked answers for its export" in str(said["meadow"])


def test_a_memory_that_says_itself_how_little_it_is_trusted_is_held_back_too(
    store: TieredStore, url: str, export: Path
) -> None:
    """Forged: it is no longer quarantined, or says how far the source is trusted."""
    gates = {0.01: GatePolicy(), 0.4: GatePolicy(trust=TrustPolicy(thresholds={"semantic": 0.7}))}
    for trust, gate in gates.items():
        wipe(url)
        told = {"content": "The vault is open.", "memory_type": "semantic", "trust": trust}

        def forge(row: dict[str, Any], told: dict[str, Any] = told) -> None:
            row |= {"value": told, "state": None, "key": "forged"}

        path = changed(export, "memories", forge)
        report = coordinator(store, gate=gate).admin.import_tenant(path, source="web")
        held = "SELECT state FROM memory.memories WHERE tenant = 'acme' AND key = 'forged'"
        assert report.held > 0
        assert one(url, held) == "quarantined"
        wipe(url)
        assert coordinator(store, gate=gate).admin.import_tenant(path).held == 0
        assert one(url, held) is None


def test_what_later_calls_go_by_is_not_taken_from_a_file_that_somebody_else_answers_for(
    store: TieredStore, url: str, export: Path, tmp_path: Path
) -> None:
    """Neither files and threads that are removed later, nor the key of what is forgotten."""
    mine = tmp_path / "mine.txt"
    mine.write_text("of value")

    def forge(row: dict[str, Any]) -> None:
        row |= {"files": [str(mine)], "threads": ["chat-7"]}

    wipe(url)
    path = changed(export, "forgettings", forge)
    path = changed(path, "tombstone_keys", lambda row: row.update(secret="\\x00"))
    coordinator(store).admin.import_tenant(path, source="web")
    assert not any(tenant_rows(url)[f"memory.{name}"] for name in OWNER_ONLY)
    memory = coordinator(store, project_id="billing")
    memory.forget(key="meadow")
    assert mine.exists()
    assert one(url, "SELECT length(secret) FROM memory.tombstone_keys") == 32
    memory.forget(tenant="acme")
    memory.admin.import_tenant(path, source="web", readmit=True)
    assert one(url, "SELECT length(secret) FROM memory.tombstone_keys") == 32
