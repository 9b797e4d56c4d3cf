"""A killed export leaves a file: it is named, and cleaned, and one that is being written is not."""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from typer.testing import CliRunner

from langmem_tiers import TieredStore
from langmem_tiers.cli.app import app
from langmem_tiers.transfer.transfer import export_all
from tests.support.archives import count, execute
from tests.support.carrying import many
from tests.support.coordinating import coordinator
from tests.support.walls import APPLICATION

_EXPORT = """
import os, signal, sys
from pathlib import Path
from langmem_tiers import MemoryContext, TieredStore
from langmem_tiers.transfer.transfer import export_all

with TieredStore.from_conn_string(sys.argv[1], index=None) as store:
    def advance(rows):
        print("writing", flush=True)
        if sys.argv[3] == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        sys.stdin.readline()
    context = MemoryContext(tenant="acme")
    store.run(export_all(store, context, Path(sys.argv[2]), advance=advance))
"""


def process(url: str, path: Path, how: str) -> list[str]:
    """Return the command of a process that exports, and says when it has written some rows."""
    return [sys.executable, "-c", _EXPORT, url, str(path), how]


def kill_amid(url: str, path: Path) -> Path:
    """Let a process export, kill it once it has written some rows; return the file it leaves."""
    done = subprocess.run(process(url, path, "killed"), stdout=subprocess.PIPE, check=False)
    assert (done.returncode, done.stdout) == (-signal.SIGKILL, b"writing\n")
    (part,) = path.parent.iterdir()
    assert part.name.startswith(f"{path.name}.")
    assert part.suffix == ".part"
    return part


def doctor(url: str) -> dict[str, object]:
    """Return the check of exports that were broken off."""
    told = CliRunner().invoke(app, ["doctor", "--url", url, "--json"])
    checks = json.loads(told.stdout)["checks"]
    return next(one for one in checks if one["check"] == "no export was broken off")


@pytest.fixture
def killed(url: str, tmp_path: Path) -> Path:
    """Give the file that a killed export left."""
    many(url, 30)
    return kill_amid(url, tmp_path / "acme.gz")


def test_it_is_named_and_the_next_export_to_any_place_removes_it(
    store: TieredStore, url: str, killed: Path, tmp_path: Path
) -> None:
    memory = coordinator(store)
    check = doctor(url)
    assert (check["ok"], str(killed) in str(check["found"])) == (False, True)
    assert memory.forget(key="n1", plan=True).unfinished[0].startswith(str(killed))
    assert "unfinished export: " in str(memory.forget(key="n1", plan=True))

    (tmp_path / "elsewhere").mkdir()
    memory.admin.export_tenant(tmp_path / "elsewhere" / "acme.gz")
    assert not killed.exists()
    assert doctor(url)["ok"]
    assert count(url, "exports") == 0


@pytest.mark.parametrize("named", [{"key": "n1"}, {"tenant": "acme"}])
def test_forgetting_removes_it_and_until_then_nothing_is_proven(
    store: TieredStore, url: str, tmp_path: Path, named: dict[str, str]
) -> None:
    memory = coordinator(store)
    many(url, 30)
    receipt = memory.forget(**named)  # type: ignore[call-overload]
    assert memory.admin.verify_forgotten(receipt)
    if "tenant" in named:
        many(url, 30)
    part = kill_amid(url, tmp_path / "acme.gz")
    found = memory.admin.verify_forgotten(receipt).found
    assert ("unfinished export", True) in {(one.table, str(part) in one.row) for one in found}
    memory.forget(**named)  # type: ignore[call-overload]
    assert list(tmp_path.iterdir()) == []


def test_one_that_is_being_written_is_neither_named_nor_removed(
    store: TieredStore, url: str, tmp_path: Path
) -> None:
    many(url, 30)
    slow = process(url, tmp_path / "slow.gz", "slow")
    pipe = subprocess.PIPE
    with subprocess.Popen(slow, stdin=pipe, stdout=pipe, text=True) as writing:
        assert writing.stdout is not None
        assert writing.stdout.readline() == "writing\n"
        assert doctor(url)["ok"]
        coordinator(store).admin.export_tenant(tmp_path / "fast.gz")
        writing.communicate("\n" * 100)
    assert writing.returncode == 0
    assert sorted(each.name for each in tmp_path.iterdir()) == ["fast.gz", "slow.gz"]
    assert count(url, "exports") == 0


def test_one_of_another_machine_is_named_until_it_is_removed_there(
    store: TieredStore, url: str, killed: Path
) -> None:
    execute(url, "UPDATE memory.exports SET machine = 'elsewhere', part = '/none/acme.gz.part'")
    memory = coordinator(store)
    receipt = memory.forget(key="n1")
    assert receipt.unfinished == ("/none/acme.gz.part on elsewhere",)
    assert "elsewhere" in str(doctor(url)["found"])
    assert not memory.admin.verify_forgotten(receipt)
    killed.unlink()


def test_one_of_another_machine_is_removed_where_its_path_is_seen(
    store: TieredStore, url: str, killed: Path
) -> None:
    execute(url, "UPDATE memory.exports SET machine = 'elsewhere'")
    receipt = coordinator(store).forget(key="n1")
    assert (receipt.unfinished, killed.exists(), count(url, "exports")) == ((), False, 0)


def planted(url: str, path: Path) -> None:
    """Say as an application that an export was begun at a path."""
    with psycopg.connect(url) as conn:
        conn.execute(f"SET ROLE {APPLICATION}".encode())
        conn.execute("SELECT set_config('langmem_tiers.tenant', 'acme', false)")
        conn.execute(
            "INSERT INTO memory.exports VALUES ('acme', %s, %s, now())",
            [str(path), platform.node()],
        )


def test_no_other_file_is_removed_whatever_path_an_application_names(
    store: TieredStore, url: str, tmp_path: Path
) -> None:
    many(url, 3)
    named = f"acme.gz.{uuid4().hex}.part"
    mine = tmp_path / "passwords"
    for folder in ("link", "pipe", "folder", "other"):
        (tmp_path / folder).mkdir()
    mine.write_text("kept")
    (tmp_path / "link" / named).symlink_to(mine)
    os.mkfifo(tmp_path / "pipe" / named)
    (tmp_path / "folder" / named).mkdir()
    others = [tmp_path / "other" / named] if os.geteuid() == 0 else []
    for one in others:
        one.write_text("another account's")
        os.chown(one, 65534, 65534)
    paths = [mine, *(tmp_path / one / named for one in ("link", "pipe", "folder")), *others]
    for path in paths:
        planted(url, path)
    receipt = coordinator(store).forget(key="n1")
    assert all(os.path.lexists(path) for path in paths)
    assert mine.read_text() == "kept"
    assert [one.split(" on ")[0] for one in receipt.unfinished] == list(map(str, others))
    assert count(url, "exports") == len(paths)


@pytest.mark.parametrize("error", [LookupError, KeyboardInterrupt])
def test_an_export_that_fails_leaves_neither_a_file_nor_a_note(
    store: TieredStore, url: str, tmp_path: Path, error: type[BaseException]
) -> None:
    def fail(_: int) -> None:
        raise error("broken off")

    many(url, 30)
    memory = coordinator(store)
    with pytest.raises(error):
        store.run(export_all(store, memory.context, tmp_path / "acme.gz", advance=fail))
    assert list(tmp_path.iterdir()) == []
    assert count(url, "exports") == 0
    assert doctor(url)["ok"]
    assert memory.forget(key="n1", plan=True).unfinished == ()
