"""Folders that several processes, or several accounts, share."""

import contextlib
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

if sys.platform != "win32":
    import fcntl

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_ALL_ENTER = stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH


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


def own_folder_in(parent: Path, name: str) -> Path | None:
    """Return a folder of root's, made if need be, that all may enter and root alone changes.

    It is None if somebody else made the folder, or could put another one in its place.
    """
    folder = parent.resolve() / name
    try:
        folder.mkdir(mode=0o755)
        folder.chmod(0o755)  # whatever the umask is
    except FileExistsError:
        pass
    except OSError:
        return None
    return folder if _is_roots(folder) else None


def _is_roots(folder: Path) -> bool:
    """Tell whether root alone can change the entries of a folder, and what its path means.

    In a sticky folder, such as /tmp, others may make new entries, and may not touch root's.
    """
    own, *above = (path.lstat() for path in (folder, *folder.parents))
    return (
        all(stat.S_ISDIR(one.st_mode) and one.st_uid == 0 for one in (own, *above))
        and all(one.st_mode & _ALL_ENTER == _ALL_ENTER for one in (own, *above))
        and not own.st_mode & _OTHERS_WRITE
        and all(one.st_mode & stat.S_ISVTX or not one.st_mode & _OTHERS_WRITE for one in above)
    )


def readable_by_all(folder: Path) -> None:
    """Let everybody read, enter and run what is in a folder; let its owner alone write."""
    for directory, _, files in os.walk(folder):
        Path(directory).chmod(0o755)
        for name in files:
            path = Path(directory, name)
            path.chmod(0o755 if path.stat().st_mode & stat.S_IXUSR else 0o644)
