"""A directory for as long as a run lives; those of runs that were killed are removed by another."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp

if sys.platform != "win32":
    import fcntl

_PREFIX = "langmem-tiers-tests-"
_LOCK = "run.lock"
"""Locked by the run whose directory it is. A lock ends with its process, in whatever namespace."""


@contextmanager
def own_directory(disk: Path | None) -> Iterator[Path]:
    """A new directory there, or where temporary files are, that no `sweep` removes meanwhile."""
    path = Path(mkdtemp(prefix=_PREFIX, dir=disk))
    making = path / "new.lock"
    with making.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            making.rename(path / _LOCK)  # nobody finds it before it is locked
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)


def sweep(disk: Path) -> None:
    """Remove what runs left there that were killed."""
    for found in disk.glob(f"{_PREFIX}*/{_LOCK}"):
        try:
            with found.open("r+") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(found.parent, ignore_errors=True)
        except OSError:
            continue  # it is in use, gone, or somebody else's
