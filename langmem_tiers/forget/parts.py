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

from langmem_tiers.core.reading import printable_line
from langmem_tiers.postgres.flow import Call, Flow, Query, call_blocking, rows_of

try:
    import fcntl
except ImportError:  # Windows removes no open file, so none has to be locked
    fcntl = None  # type: ignore[assignment]

_NAMED: Final = re.compile(r".+\.[0-9a-f]{32}\.part", re.DOTALL)
"""The names of the files: the database may be told of any path, and no other file is touched."""
_OPENS: Final = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


class Part(NamedTuple):
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


def part_of(path: Path) -> Path:
    """Return the place for what will be named as `path` once it is whole."""
    return path.absolute().with_name(f"{path.name}.{uuid4().hex}.part")


def lock(descriptor: int) -> None:
    """Hold a file for as long as the descriptor is open."""
    if fcntl is not None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def begin(tenant: str, path: Path, now: datetime) -> Flow[None]:
    """Note that an export is written into a file, which is locked and still empty."""
    params = {"tenant": tenant, "part": str(path), "machine": platform.node(), "now": now}
    yield Query((Call("begin_export", params),), commit=True)


def end(tenant: str, path: Path) -> Flow[None]:
    """Note that no file is left under that name."""
    yield Query((Call("end_export", {"tenant": tenant, "part": str(path)}),), commit=True)


def left(tenant: str | None) -> Flow[list[Part]]:
    """Find the files that exports left, of a tenant or of all tenants in sight.

    Files of other machines are among them, unless this one sees them and somebody writes them.
    """
    parts = [Part(*row) for row in (yield from rows_of("exports", tenant=tenant))]
    there: list[Part] = yield from call_blocking(lambda: [one for one in parts if _is_left(one)])
    return there


def clean(tenant: str) -> Flow[list[Part]]:
    """Remove the files that a tenant's exports left here; return those left otherwise.

    Those are on other machines, or another account's.
    """
    elsewhere = []
    for one in [Part(*row) for row in (yield from rows_of("exports", tenant=tenant))]:
        if (yield from call_blocking(partial(_is_gone, one))):
            yield from end(tenant, Path(one.path))
        elif (yield from call_blocking(partial(_is_left, one))):
            elsewhere.append(one)
    return elsewhere


def _is_left(part: Part) -> bool:
    path = Path(part.path)
    if not _is_there(path):
        return not part.is_here
    with _unused(path) as found:
        return found is not None


def _is_gone(part: Part) -> bool:
    """Remove a file of ours that nobody writes, and tell whether it is gone."""
    path = Path(part.path)
    if not _is_there(path):
        return part.is_here
    own: int = getattr(os, "geteuid", lambda: 0)()  # Windows knows no owners by number
    with _unused(path) as found:
        if found is not None and os.fstat(found).st_uid == own:
            path.unlink(missing_ok=True)
        return not _is_there(path)


def _is_there(path: Path) -> bool:
    """Tell whether there is anything at a path; True where nobody lets us know."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


@contextmanager
def _unused(path: Path) -> Iterator[int | None]:
    """Hold the file of an export, if it is there and nobody writes it."""
    descriptor, held = None, False
    with suppress(OSError):
        if _NAMED.fullmatch(path.name) and stat.S_ISREG(path.lstat().st_mode):
            descriptor = os.open(path, _OPENS)
            if stat.S_ISREG(os.fstat(descriptor).st_mode):  # it may be another one by now
                lock(descriptor)
                held = True
    try:
        yield descriptor if held else None
    finally:
        if descriptor is not None:
            os.close(descriptor)
