"""Files of exports that were broken off: they hold what a tenant has said, and have no name yet.

The process that writes such a file holds a lock on it, and the database says where it is. So a
later process knows which files a killed one left.
"""

from __future__ import annotations

import os
import platform
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple
from uuid import uuid4

from langmem_tiers.core.texts import printable_line
from langmem_tiers.postgres.flow import Call, Flow, Query, call_blocking, rows_of

try:
    import fcntl
except ImportError:  # Windows removes no open file, so none has to be locked
    fcntl = None  # type: ignore[assignment]

_PART_NAME: Final = re.compile(r".+\.[0-9a-f]{32}\.part", re.DOTALL)
"""The names of the files: the database may be told of any path, and no other file is touched."""
_OPENS: Final = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


class UnfinishedExport(NamedTuple):
    """An export that was begun; a row of exports, the columns are in this order."""

    tenant: str
    path: str
    machine: str
    began_at: datetime

    @property
    def is_here(self) -> bool:
        """Tell whether it was begun on this machine."""
        return self.machine == platform.node()

    def __str__(self) -> str:
        """Name the file, and its machine."""
        return f"{printable_line(self.path)} on {printable_line(self.machine)}"


def part_path(path: Path) -> Path:
    """Return the place for what will be named as `path` once it is whole."""
    return path.absolute().with_name(f"{path.name}.{uuid4().hex}.part")


def lock_file(descriptor: int) -> None:
    """Hold a file for as long as the descriptor is open."""
    if fcntl is not None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def begin_export(tenant: str, path: Path, now: datetime) -> Flow[None]:
    """Note that an export is written into a file, which is locked and still empty."""
    params = {"tenant": tenant, "part": str(path), "machine": platform.node(), "now": now}
    yield Query((Call("begin_export", params),), commit=True)


def end_export(tenant: str, path: Path) -> Flow[None]:
    """Note that no file is left under that name."""
    yield Query((Call("end_export", {"tenant": tenant, "part": str(path)}),), commit=True)


def list_unfinished(tenant: str | None) -> Flow[list[UnfinishedExport]]:
    """Find the files that exports left, of a tenant or of all tenants in sight.

    Files of other machines are among them, unless this one sees them and somebody writes them.
    """
    parts = [UnfinishedExport(*row) for row in (yield from rows_of("exports", tenant=tenant))]
    there: list[UnfinishedExport] = yield from call_blocking(
        lambda: [part for part in parts if _is_unfinished(part)]
    )
    return there


def remove_unfinished(tenant: str) -> Flow[list[UnfinishedExport]]:
    """Remove the files that a tenant's exports left here; return those left otherwise.

    Those are on other machines, or another account's.
    """
    elsewhere = []
    for part in [UnfinishedExport(*row) for row in (yield from rows_of("exports", tenant=tenant))]:
        if (yield from call_blocking(partial(_remove_unused, part))):
            yield from end_export(tenant, Path(part.path))
        elif (yield from call_blocking(partial(_is_unfinished, part))):
            elsewhere.append(part)
    return elsewhere


def _is_unfinished(part: UnfinishedExport) -> bool:
    path = Path(part.path)
    if not _exists(path):
        return not part.is_here
    with _lock_unused(path) as descriptor:
        return descriptor is not None


def _remove_unused(part: UnfinishedExport) -> bool:
    """Remove a file of ours that nobody writes, and tell whether it is gone."""
    path = Path(part.path)
    if not _exists(path):
        return part.is_here
    own: int = getattr(os, "geteuid", lambda: 0)()  # Windows knows no owners by number
    with _lock_unused(path) as descriptor:
        if descriptor is not None and os.fstat(descriptor).st_uid == own:
            path.unlink(missing_ok=True)
        return not _exists(path)


def _exists(path: Path) -> bool:
    """Tell whether there is anything at a path; True where nobody lets us know."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


@contextmanager
def _lock_unused(path: Path) -> Iterator[int | None]:
    """Hold the file of an export, if it is there and nobody writes it."""
    descriptor, held = None, False
    with suppress(OSError):
        if _PART_NAME.fullmatch(path.name) and stat.S_ISREG(path.lstat().st_mode):
            descriptor = os.open(path, _OPENS)
            if stat.S_ISREG(os.fstat(descriptor).st_mode):  # it may be another one by now
                lock_file(descriptor)
                held = True
    try:
        yield descriptor if held else None
    finally:
        if descriptor is not None:
            os.close(descriptor)
