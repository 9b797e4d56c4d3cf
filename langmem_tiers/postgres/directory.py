"""The directory of an embedded Postgres: what is in it, and who is using it.

Who may start or stop the server, and who still uses it, is decided by two advisory locks, which
the kernel drops when a process dies, however it dies:

- the directory itself, locked exclusively for as long as something is started or stopped;
- `users.lock`, locked shared for as long as a handle lives. Whoever can lock it exclusively
  is the last one, and stops the server.
"""

import contextlib
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from langmem_tiers.core.errors import EmbeddedServerError
from langmem_tiers.postgres.cluster import NEWEST, Cluster, system_account, version_of

if sys.platform != "win32":
    import fcntl

_DATA: Final = "data"
_UNFINISHED: Final = ".langmem-tiers-new"
_USERS: Final = "users.lock"
_MOUNT_POINT: Final = "lost+found"
_ACCOUNTS: Final = Path("/etc")


@contextlib.contextmanager
def exclusively(directory: Path) -> Iterator[None]:
    """Keep everybody else from starting or stopping something in the directory."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(descriptor, fcntl.LOCK_UN)
    finally:
        os.close(descriptor)


def open_users(path: Path, cluster: Cluster) -> int:
    """Count as a user of the directory for as long as the returned descriptor is open."""
    descriptor = os.open(path / _USERS, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if cluster.account is not None:
            os.fchown(descriptor, cluster.account, -1)
        fcntl.flock(descriptor, fcntl.LOCK_SH)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def is_last(users: int) -> bool:
    """Tell whether nobody but the holder of this descriptor uses the directory."""
    try:
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def refuse_foreign(path: Path) -> None:
    """Refuse a directory with anything in it that neither Postgres nor we have put there."""
    if not path.exists() or data_of(path) is not None:
        return
    foreign = {entry.name for entry in path.iterdir()} - {_UNFINISHED, _USERS, _MOUNT_POINT}
    if foreign:
        msg = (
            f"{path} is neither empty nor a Postgres data directory (it holds "
            f"{min(foreign)!r}): name a directory that is empty or does not exist yet."
        )
        raise EmbeddedServerError(msg)


def data_of(path: Path) -> Path | None:
    """Return the data directory: `path/data`, or `path` itself when it is one already."""
    return next((at for at in (path / _DATA, path) if (at / "PG_VERSION").exists()), None)


def ready_cluster(path: Path, version: int | None) -> Cluster:
    """Return the cluster of a directory, created if there is none; it may not run yet.

    Raises:
        EmbeddedServerError: the directory holds something else, or data of another version.

    """
    refuse_foreign(path)
    data = data_of(path)
    if data is None:
        return _new_cluster(path, version or NEWEST)
    found = version_of(data)
    if version not in {None, found}:
        msg = (
            f"{path} was created by Postgres {found}, and version={version} was asked for: pass "
            f"version={found} or leave it out, or copy the data into a new directory with "
            "pg_dump."
        )
        raise EmbeddedServerError(msg)
    return Cluster(data, found)


def _new_cluster(path: Path, version: int) -> Cluster:
    """Create the data aside and move it into place, so that it is there whole or not at all."""
    unfinished = path / _UNFINISHED
    if unfinished.exists():
        shutil.rmtree(unfinished)
    unfinished.mkdir(mode=0o700)
    if os.geteuid() == 0:
        with exclusively(_ACCOUNTS):  # useradd adds an account twice if it runs twice at once
            account = system_account()
        os.chown(unfinished, account, -1)
    Cluster(unfinished, version).create()
    return Cluster(unfinished.rename(path / _DATA), version)
