"""Files of exports that were broken off: they hold what a tenant has said, and have no name yet.

The process that writes such a file holds a lock on it, and the database says where it is. So a
later process knows which files a killed one left.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from langmem_tiers.core.reading import plain
from langmem_tiers.postgres.flow import Call, Flow, Query, aside, rows_of

try:
    import fcntl
except ImportError:  # Windows removes no open file, so none has to be locked
    fcntl = None  # type: ignore[assignment]


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
        return f"{plain(self.path)} on {plain(self.machine)}"


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
    there: list[Part] = yield from aside(lambda: [one for one in parts if _is_left(one)])
    return there


def clean(tenant: str) -> Flow[list[Part]]:
    """Remove the files that a tenant's exports left here; return those left elsewhere."""
    elsewhere = []
    for one in [Part(*row) for row in (yield from rows_of("exports", tenant=tenant))]:
        if (yield from aside(partial(_is_gone, one))):
            yield from end(tenant, Path(one.path))
        elif not one.is_here and (yield from aside(partial(_is_left, one))):
            elsewhere.append(one)
    return elsewhere


def _is_left(one: Part) -> bool:
    path = Path(one.path)
    if not path.exists():
        return not one.is_here
    with _unused(path) as found:
        return found is not None


def _is_gone(one: Part) -> bool:
    """Remove a file that nobody writes, and tell whether it is gone."""
    path = Path(one.path)
    if not path.exists():
        return one.is_here
    with _unused(path) as found:
        if found is not None:
            path.unlink(missing_ok=True)
        return not path.exists()


@contextmanager
def _unused(path: Path) -> Iterator[Any]:
    """Hold a file, if it is there and nobody writes it."""
    try:
        file = path.open("rb")
    except OSError:
        yield None
        return
    with file:
        try:
            lock(file.fileno())
        except OSError:
            yield None
            return
        yield file
