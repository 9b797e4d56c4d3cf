"""What was forgotten does not come back by itself, and a forgetting that is broken off is whole."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from langgraph.store.base import PutOp
from psycopg.types.json import Jsonb

from langmem_tiers import MemoryCoordinator, TieredStore
from langmem_tiers.cli.memories import import_records
from langmem_tiers.consolidation.archive import Archive, archive_all
from langmem_tiers.consolidation.archive_files import ArchiveFiles
from langmem_tiers.consolidation.steps import Cycle
from langmem_tiers.core.errors import FileError
from langmem_tiers.forget.find import ForgetRequest
from langmem_tiers.forget.forgetting import run_forgetting
from langmem_tiers.importers import read_records
from langmem_tiers.interop import import_chat_history
from tests.support.archives import count, files_in, one, policy, remember
from tests.support.coded import coded
from tests.support.coordinating import coordinator
from tests.support.forgetting import KEY, NAME, SAID, archived, bystanders, dump, traces
from tests.support.opening import text_index
from tests.support.servers import sessions, wait_until


def request(memory: MemoryCoordinator, files: ArchiveFiles) -> ForgetRequest:
    store = memory.tiered_store
    return ForgetRequest(
        context=memory.context,
        kind="subject",
        name=NAME,
        options=store.options,
        files=lambda: files,
        now=store.flows.now,
    )


def imported(store: TieredStore, path: Path, **options: Any) -> tuple[int, list[str]]:
    found = import_records(store, read_records(path, tenant="acme"), **options)
    return found.memories, [one.reason for one in found.bad]


def test_an_import_brings_nothing_forgotten_back_until_it_is_readmitted(
    store: TieredStore, url: str, tmp_path: Path
) -> None:
    notes = tmp_path / "notes.jsonl"
    said = [{"content": SAID, "key": KEY}, {"content": "The hay is dry.", "key": "hay"}]
    notes.write_text("\n".join(map(json.dumps, said)))
    memory = coordinator(store)
    assert imported(store, notes) == (2, [])
    memory.forget(key=KEY)

    said[0] |= {"content": f"  {SAID.upper()}!", "key": "another"}
    notes.write_text("\n".join(map(json.dumps, said)))
    refused = "key 'another': it was forgotten; readmit lets it back"
    assert imported(store, notes) == (1, [refused])
    assert imported(store, notes, readmit=True) == (2, [])
    assert imported(store, notes) == (2, [])
    assert count(url, "tombstones") == 0


def test_a_chat_history_brings_nothing_forgotten_back_until_it_is_readmitted(
    store: TieredStore, url: str
) -> None:
    memory = coordinator(store)
    memory.store(SAID, key="said")
    memory.forget(key="said")
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute("DROP TABLE IF EXISTS chats")
        conn.execute(
            "CREATE TABLE chats (id serial, session_id uuid, message jsonb, created_at timestamptz)"
        )
        for text in (SAID, "The hay is dry."):
            message = {"type": "human", "data": {"content": text, "type": "human"}}
            conn.execute(
                "INSERT INTO chats VALUES (DEFAULT, gen_random_uuid(), %s, '2026-01-01')",
                [Jsonb(message)],
            )
        first = import_chat_history(memory, conn, "chats")
        again = import_chat_history(memory, conn, "chats", readmit=True)
        conn.execute("DROP TABLE chats")
    assert (first.stored, list(first.refused.values())) == (
        1,
        ["it was forgotten; readmit lets it back"],
    )
    assert (again.stored, again.known, again.refused) == (1, 1, {})


def test_what_is_stored_or_put_again_is_not_refused(store: TieredStore) -> None:
    memory = coordinator(store)
    memory.store(SAID, key="said")
    memory.forget(key="said")
    assert memory.store(SAID, key="said").stored
    store.put(("acme", "_"), "put", {"content": SAID})
    assert store.get(("acme", "_"), "put") is not None


def test_an_archive_brings_nothing_forgotten_back_that_says_the_same_under_another_key(
    store: TieredStore, url: str, tmp_path: Path
) -> None:
    memory = coordinator(store)
    remember(url, "old", value=Jsonb({"content": SAID}))
    remember(url, "hay", value=Jsonb({"content": "The hay is dry."}))
    (name,) = memory.admin.archive(policy(tmp_path), dry_run=False).archives
    memory.store(SAID, key="new")
    receipt: Any = memory.forget(key="new")

    report = memory.admin.restore_archive(name)
    assert (report.restored, report.forgotten) == (1, ("old",))
    assert str(report) == "1 memory restored, 1 left as they were forgotten"
    (file,) = memory.admin.archives()
    assert file.remaining == 1
    assert [each.table for each in memory.admin.verify_forgotten(receipt).found] == ["archive file"]
    memory.forget(key="old")
    assert memory.admin.verify_forgotten(receipt)
    assert not any(SAID in line for line in archived(tmp_path))


def test_a_file_of_which_nothing_is_left_goes_and_others_are_restored_from_the_new_one(
    store: TieredStore, url: str, tmp_path: Path
) -> None:
    memory = coordinator(store)
    for key in ("old", "hay"):
        remember(url, key, value=Jsonb({"content": SAID if key == "old" else "The hay is dry."}))
    memory.admin.archive(policy(tmp_path), dry_run=False)
    (before,) = files_in(tmp_path)

    receipt: Any = memory.forget(key="old")
    (after,) = files_in(tmp_path)
    assert after != before
    (file,) = memory.admin.archives()
    assert (file.url.removeprefix("file://"), file.remaining) == (str(after), 1)
    assert memory.admin.restore_archive(file.archive).restored == 1
    assert memory.get("hay") is not None
    memory.forget(key="hay")
    assert files_in(tmp_path) == []
    assert memory.admin.archives() == []
    assert memory.admin.verify_forgotten(receipt)


class BrokenOff(ArchiveFiles):
    """Dies once, at a step."""

    def __init__(self, step: str) -> None:
        self.step = step

    def rewrite(self, *given: Any) -> Any:
        written = super().rewrite(*given)
        self._die("rewrite")
        return written

    def remove(self, *given: Any) -> None:
        self._die("remove")
        super().remove(*given)

    def _die(self, step: str) -> None:
        if self.step == step:
            raise FileError("broken off", code="archive")


def broken_off(memory: MemoryCoordinator, step: str) -> None:
    store, files = memory.tiered_store, BrokenOff(step)
    with coded("archive", match="broken off"):
        store.run(run_forgetting(request(memory, files)))


@pytest.fixture
def filed(store: TieredStore, url: str, tmp_path: Path) -> MemoryCoordinator:
    memory = coordinator(store)
    for key in (KEY, "hay"):
        remember(url, key, value=Jsonb({"content": SAID if key == KEY else "The hay is dry."}))
    memory.admin.archive(policy(tmp_path), dry_run=False)
    memory.store(SAID, key="said")
    return memory


def test_broken_off_before_the_transaction_nothing_has_changed(
    filed: MemoryCoordinator, url: str, tmp_path: Path
) -> None:
    before, files = dump(url), set(files_in(tmp_path))
    broken_off(filed, "rewrite")
    assert dump(url) == before
    assert set(files_in(tmp_path)) > files
    receipt: Any = filed.forget(subject=NAME)
    assert traces(url, tmp_path) == []
    assert len(files_in(tmp_path)) == 1
    assert filed.admin.verify_forgotten(receipt)


def test_broken_off_after_the_transaction_the_next_call_finishes_it(
    filed: MemoryCoordinator, url: str, tmp_path: Path
) -> None:
    broken_off(filed, "remove")
    assert traces(url, tmp_path) == ["archive"]
    plan: Any = filed.forget(subject=NAME, plan=True)
    assert plan.counts == {}
    row = one(url, "SELECT detail FROM memory.forgettings")
    found = filed.admin.verify_forgotten(row)
    assert [each.table for each in found.found] == ["removed file"]
    receipt: Any = filed.forget(subject=NAME)
    assert receipt.receipt == row["receipt"]
    assert traces(url, tmp_path) == []
    assert filed.admin.verify_forgotten(receipt)


class Meanwhile(ArchiveFiles):
    """Does something once, between the files and the transaction."""

    def __init__(self, meanwhile: Callable[[], object]) -> None:
        self.meanwhile: Callable[[], object] | None = meanwhile

    def rewrite(self, *given: Any) -> Any:
        written = super().rewrite(*given)
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            meanwhile()
        return written


@pytest.mark.parametrize("change", ["said", "derived", "archived", "restored", "deleted"])
def test_what_happens_meanwhile_is_seen(
    filed: MemoryCoordinator, url: str, tmp_path: Path, change: str
) -> None:
    other = coordinator(filed.tiered_store)
    other.store("The lamp is red.", key="lamp")
    remember(url, "late", value=Jsonb({"content": f"{NAME} came late."}))
    (name,) = (each.archive for each in other.admin.archives())
    both = f"The lamp is red. {SAID}"
    changes: dict[str, Callable[[], object]] = {
        "said": lambda: other.store(f"{NAME} sings.", key="new"),
        "derived": lambda: other.store("So so.", key="new", derived_from=["said", "lamp"]),
        "archived": lambda: other.admin.archive(policy(tmp_path), dry_run=False),
        "restored": lambda: other.admin.restore_archive(name),
        "deleted": lambda: other.delete_memory("said"),
    }
    other.store(both, key="both", derived_from=["said", "lamp"])
    store, files = filed.tiered_store, Meanwhile(changes[change])
    receipt = store.run(run_forgetting(request(filed, files)))
    assert files.meanwhile is None
    assert filed.admin.verify_forgotten(receipt)
    assert traces(url, tmp_path) == []


class Archiving(ArchiveFiles):
    """Does something once, between a new file and the transaction that records it."""

    def __init__(self, meanwhile: Callable[[], object]) -> None:
        self.meanwhile = meanwhile

    def write(self, *given: Any) -> Any:
        written = super().write(*given)
        self.meanwhile()
        return written


def test_a_file_that_was_being_written_is_named_and_forgetting_again_rewrites_it(
    store: TieredStore, url: str, tmp_path: Path
) -> None:
    memory, receipts = coordinator(store), list[Any]()
    for key in (KEY, "hay"):
        remember(url, key, value=Jsonb({"content": SAID if key == KEY else "The hay is dry."}))
    files = Archiving(lambda: receipts.append(memory.forget(key=KEY)))
    cycle = Cycle(tenant="acme", cycle="c", moment=store.flows.moment(), options=store.options)
    step = Archive(policy(tmp_path), files)
    assert store.run(archive_all(step, cycle, dry_run=False, advance=id)).memories == 1

    (receipt,) = receipts
    assert [each.table for each in memory.admin.verify_forgotten(receipt).found] == ["archive file"]
    again = memory.forget(key=KEY)
    assert again.ids == receipt.ids
    assert memory.admin.verify_forgotten(receipt)
    assert traces(url, tmp_path) == []


def test_a_file_that_is_missing_or_damaged_is_told_before_anything_is_changed(
    filed: MemoryCoordinator, url: str, tmp_path: Path
) -> None:
    before = dump(url)
    (file,) = files_in(tmp_path)
    whole = file.read_bytes()
    file.write_bytes(whole[:-1])
    with coded("archive", match="SHA-256"):
        filed.forget(subject=NAME)
    file.unlink()
    with coded("archive", match="not there"):
        filed.forget(key="said")
    assert dump(url) == before
    receipt: Any = filed.forget(tenant="acme")
    assert filed.admin.verify_forgotten(receipt)


FORGET = """
import sys
from langmem_tiers import MemoryContext, MemoryCoordinator, TieredStore
from tests.support.opening import text_index

with TieredStore.from_conn_string(sys.argv[1], index=text_index()) as store:
    memory = MemoryCoordinator(store, context=MemoryContext(tenant="acme"))
    store.setup()
    print("ready", flush=True)
    memory.forget(subject="Xylofant Maier")
    print("done", flush=True)
"""


def kill_amid(url: str, delay: float | None) -> float:
    """Let a process forget, and kill it after a while, or never; how long it was at it."""
    command = [sys.executable, "-W", "error", "-c", FORGET, url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        began = time.monotonic()
        if delay is None:
            assert process.stdout.readline() == "done\n"
        else:
            time.sleep(delay)
            process.send_signal(signal.SIGKILL)
        took = time.monotonic() - began
    wait_until(lambda: sessions(url) == 0)
    return took


@pytest.mark.slow
@pytest.mark.parametrize("kills", [3, pytest.param(100, marks=pytest.mark.proof)])
def test_a_client_that_is_killed_amid_it_leaves_all_or_nothing(
    new_url: Callable[[], str], tmp_path: Path, kills: int
) -> None:
    rng, url = random.Random(kills), new_url()  # noqa: S311 - seeded, not secret
    halves, took = set(), 0.0
    for number in range(kills + kills // 9 + 1):
        cold = tmp_path / str(number)
        with TieredStore.from_conn_string(url, index=text_index()) as store:
            memory = coordinator(store)
            fill(store, url, cold)
            store.close()  # what it keeps up in the background is none of this
            before = dump(url)
            killed = number % 10 > 0  # each tenth is let be, and says how long it takes by now
            lasted = kill_amid(url, rng.uniform(0, 1.2 * took) if killed else None)
            took = took if killed else lasted
            after = dump(url)
            changed = {table for table in before if before[table] != after[table]}
            whole = changed <= {"memory.settings"}  # when tenants were last counted
            halves |= {whole} if killed else set()
            left = [each for each in traces(url, cold) if each != "archive"]
            assert whole or left == [], changed
            receipt: Any = memory.forget(subject=NAME)
            assert traces(url, cold) == []
            assert memory.admin.verify_forgotten(receipt)
            memory.forget(tenant="acme")
    assert kills < 100 or halves == {True, False}


def fill(store: TieredStore, url: str, cold: Path) -> None:
    """Many rows of many kinds, and lines of a file."""
    memory = coordinator(store)
    for key in (KEY, "hay"):
        remember(url, key, value=Jsonb({"content": SAID if key == KEY else "The hay is dry."}))
    memory.admin.archive(policy(cold), dry_run=False)
    bystanders(store)
    several = [f"{NAME} has told story number {number}." for number in range(300)]
    store.batch(
        PutOp(("acme", "_"), str(number), {"content": text, "text": text})
        for number, text in enumerate(several)
    )
    memory.store("So it was.", key="so", derived_from=["1", "2"])
    memory.state.add_interaction("user", SAID)
    store.run(store.flows.flush())
