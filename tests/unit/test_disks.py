"""What tests keep on a disk: nobody removes it while its run lives, somebody does after that."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.disks import own_directory, sweep

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no server is embedded there")
_KILLED = """
import os, sys
from pathlib import Path
from tests.support.disks import own_directory

with own_directory(Path(sys.argv[1])) as path:
    (path / "data").mkdir()
    print(path, flush=True)
    os._exit(1)
"""
_SWEEP = """
import sys
from pathlib import Path
from tests.support.disks import sweep

sweep(Path(sys.argv[1]))
"""


def _run(code: str, disk: Path) -> str:
    command = [sys.executable, "-c", code, str(disk)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def test_a_directory_of_a_run_that_lives_stays_whoever_sweeps(tmp_path: Path) -> None:
    with own_directory(tmp_path) as ours, own_directory(tmp_path) as theirs:
        sweep(tmp_path)
        _run(_SWEEP, tmp_path)
        assert {*tmp_path.iterdir()} == {ours, theirs}
        assert ours != theirs
    assert list(tmp_path.iterdir()) == []


def test_a_directory_of_a_run_that_was_killed_is_swept(tmp_path: Path) -> None:
    left = Path(_run(_KILLED, tmp_path))
    assert (left / "data").is_dir()
    sweep(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_a_run_is_just_making_and_one_of_others_stay(tmp_path: Path) -> None:
    others = {tmp_path / "langmem-tiers-tests-1", tmp_path / "somebody-else"}
    for one in others:
        one.mkdir()
    sweep(tmp_path)
    assert {*tmp_path.iterdir()} == others
