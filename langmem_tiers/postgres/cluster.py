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
import enum
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import quote

from langmem_tiers.core.errors import EmbeddedServerError
from langmem_tiers.postgres import programs
from langmem_tiers.postgres.programs import ACCOUNT, NEWEST, PROGRAMS, exclusively

if sys.platform != "win32":
    import fcntl

_DATA: Final = "data"
_UNFINISHED: Final = ".langmem-tiers-new"
_USERS: Final = "users.lock"
_MOUNT_POINT: Final = "lost+found"
_ACCOUNTS: Final = Path("/etc")

_LONGEST_SOCKET_PATH: Final = 103 if sys.platform == "darwin" else 107
_START_SECONDS: Final = 120  # recovery after a crash reads the log written since the checkpoint

# A stop loses nothing, however hard: the next start reads the log. A server that others use is
# stopped only if it is silent.
_FAST: Final = ("fast", 15)
_IMMEDIATE: Final = ("immediate", 10)  # Postgres kills its sessions itself after five
_KILLED_SECONDS: Final = 10
_SILENT_AT_START: Final = 30.0
_SILENT_AT_STOP: Final = 5.0

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

SOCKET: Final = ".s.PGSQL.5432"

_PROTOCOL: Final = 196608
_WHO: Final = b"user\0postgres\0database\0postgres\0\0"
_HELLO: Final = struct.pack("!ii", 8 + len(_WHO), _PROTOCOL) + _WHO
_GOODBYE: Final = b"X\0\0\0\4"
_CANNOT_CONNECT_NOW: Final = b"C57P03\0"
_PROCESSES: Final = Path("/proc")
_AGAIN_SECONDS: Final = 0.05
_GLANCE_SECONDS: Final = 0.01


class Answer(enum.Enum):
    """The answer of a server to a client that wants to connect."""

    NONE = enum.auto()
    """Nobody listens."""
    READY = enum.auto()
    NOT_NOW = enum.auto()
    """It starts, recovers or stops."""
    SILENT = enum.auto()
    """Somebody listens, and says nothing."""


class Cluster:
    """One data directory, with the programs and the account that go with it."""

    def __init__(self, data: Path, version: int) -> None:
        """Find the programs of a version, and the account to run them as."""
        self.data = data
        self.version = version
        self.account = _owner_of(data)
        self.programs = programs.runnable_by(self.account, programs.programs_of(version))

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
            f"--locale={programs.LOCALE}",
            *(provider if self.version == 18 else []),  # noqa: PLR2004 - older ones have none
            "--set=timezone=UTC",
            "--set=log_timezone=UTC",
        )

    def ensure_running(self, address: Path) -> None:
        """Return when a server of ours is ready; `address` is a name that fits a socket.

        It waits for a server that recovers. It stops one that was told to stop, or says nothing at
        all, and starts it anew.
        """
        began = time.monotonic()
        while (answer := answer_of(address, _SILENT_AT_START)) is not Answer.READY:
            waited = time.monotonic() - began
            if waited > _START_SECONDS:
                raise EmbeddedServerError(self._failure("Postgres does not become ready"))
            if answer is Answer.NONE:
                self._start(insisting=waited > _REMNANT_SECONDS)
            elif answer is Answer.SILENT or self._stopping():
                self._refuse_foreign()
                self._stop(address, answer)
            else:
                time.sleep(0.05)
        self._refuse_foreign()

    def ensure_stopped(self, address: Path) -> None:
        """End all sessions and stop the server, if one is running; a killed one has stopped."""
        answer = answer_of(address, _SILENT_AT_STOP)
        if answer is not Answer.NONE:
            self._stop(address, answer)

    def _stop(self, address: Path, answer: Answer) -> None:
        """Ask the server to stop, then tell it to, then kill it.

        A server that recovers from the death of a session is not asked: it would stop its
        recovery, and wait for ever for the processes that it had begun.
        """
        asked = answer is Answer.READY or (answer is Answer.NOT_NOW and self._stopping())
        for mode, seconds in [_FAST, _IMMEDIATE] if asked else [_IMMEDIATE]:
            with contextlib.suppress(EmbeddedServerError):  # the lines below see whether it stopped
                self._pg_ctl("stop", seconds, "-m", mode)
            if not listens(address):
                return
        kill_all(self.data, self._postmaster())
        patience = time.monotonic() + _KILLED_SECONDS
        while listens(address):
            if time.monotonic() > patience:
                raise EmbeddedServerError(self._failure("Postgres does not stop"))
            time.sleep(0.05)

    def _refuse_foreign(self) -> None:
        try:
            options = (self.data / "postmaster.opts").read_text(errors="replace")
        except FileNotFoundError:  # a server of ours has written them
            options = ""
        if _OURS not in options:
            raise EmbeddedServerError(
                f"Another program runs a Postgres server on {self.data}: stop that server, or "
                "pass its URL instead of the directory."
            )

    def _start(self, *, insisting: bool) -> None:
        """Start the server; return too if the rest of a killed one keeps it from starting.

        With `insisting` it kills that rest, which nobody can reach. A server of another program
        may be reached at a socket elsewhere.
        """
        if insisting:
            self._refuse_foreign()
            kill_all(self.data, self._postmaster())
        log = self.data / "server.log"
        if log.exists():
            log.replace(log.with_suffix(".log.1"))
        self._drop_stale_locks()
        try:
            self._pg_ctl("start", _START_SECONDS, "-l", log.name, "-o", _SERVER_OPTIONS)
        except EmbeddedServerError:
            if not any(sign in self._log() for sign in _REMNANT_SIGNS):
                raise
            log.unlink()
            time.sleep(0.1)

    def _drop_stale_locks(self) -> None:
        """Remove lock files left by a crash that Postgres would not dare to remove.

        When there is no process with the recorded id, Postgres clears `postmaster.pid` itself,
        and makes sure that no session of the old server is left. But it takes any living process
        of its user for a server, even one that is dead and not yet waited for. The socket's own
        lock says nothing about the data, and nobody listens on the socket here.
        """
        pid = self._postmaster()
        if pid is not None and not may_serve(pid, self.data):
            (self.data / "postmaster.pid").unlink()
        (self.data / f"{SOCKET}.lock").unlink(missing_ok=True)

    def _pg_ctl(self, verb: str, seconds: int, *options: str) -> None:
        self._run("pg_ctl", verb, "-D", self._self(), "-w", "-t", str(seconds), *options)

    def _pid_file(self) -> list[str]:
        try:
            text = (self.data / "postmaster.pid").read_text(errors="replace")
        except FileNotFoundError:
            return []
        return [line.strip() for line in text.splitlines()]

    def _postmaster(self) -> int | None:
        first = next(iter(self._pid_file()), "")
        return int(first) if first.isdigit() else None

    def _stopping(self) -> bool:
        return "stopping" in self._pid_file()

    def _self(self) -> str:
        """Name the directory the program runs in, without needing to search its parents."""
        linux_root = sys.platform == "linux" and self.account is not None
        return "/proc/self/cwd" if linux_root else "."

    def _run(self, program: str, *arguments: str) -> None:
        result = programs.run([str(self.programs / program), *arguments], self.account, self.data)
        if result.returncode != 0:
            raise EmbeddedServerError(self._failure(f"{program} failed", result.stdout))

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
        raise EmbeddedServerError(
            f"{data} was created by Postgres {text}; the embedded Postgres is 16 or 18."
        )
    return int(text)


def _owner_of(data: Path) -> int | None:
    """Return the account to run the programs as, if that is not simply the current one."""
    if os.geteuid() != 0:
        return None
    owner = data.stat().st_uid
    if owner == 0:
        raise EmbeddedServerError(
            f"{data} belongs to root, and Postgres refuses to run as root: give it to another "
            f"account, for instance with chown -R {ACCOUNT}."
        )
    return owner


def fits_socket_address(directory: Path) -> bool:
    """Tell whether a client can name the socket in a directory: short, and without commas."""
    name = os.fsencode(directory / SOCKET)
    return len(name) <= _LONGEST_SOCKET_PATH and b"," not in name


def url_of(directory: Path) -> str:
    """Return the URL of database `postgres` on the server that listens in a directory."""
    host = quote(os.fsencode(directory), safe="")
    return f"postgresql://postgres@/postgres?host={host}&port=5432"


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
        raise EmbeddedServerError(
            f"{path} is neither empty nor a Postgres data directory (it holds "
            f"{min(foreign)!r}): name a directory that is empty or does not exist yet."
        )


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
        raise EmbeddedServerError(
            f"{path} was created by Postgres {found}, and version={version} was asked for: pass "
            f"version={found} or leave it out, or copy the data into a new directory with "
            "pg_dump."
        )
    return Cluster(data, found)


def _new_cluster(path: Path, version: int) -> Cluster:
    """Create the data aside and move it into place, so that it is there whole or not at all."""
    unfinished = path / _UNFINISHED
    if unfinished.exists():
        shutil.rmtree(unfinished)
    unfinished.mkdir(mode=0o700)
    if os.geteuid() == 0:
        with exclusively(_ACCOUNTS):  # useradd adds an account twice if it runs twice at once
            account = programs.system_account()
        os.chown(unfinished, account, -1)
    Cluster(unfinished, version).create()
    return Cluster(unfinished.rename(path / _DATA), version)


def answer_of(directory: Path, seconds: float) -> Answer:
    """Ask the server that listens in a directory whether one can connect; wait for so long."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(seconds)
        try:
            _connect(client, directory, seconds)
            client.sendall(_HELLO)
            said = client.recv(4096)
            client.sendall(_GOODBYE)
        except (FileNotFoundError, ConnectionRefusedError):
            return Answer.NONE
        except (ConnectionResetError, BrokenPipeError):
            return Answer.NOT_NOW  # the server has ended, or has ended this session
        except TimeoutError:
            return Answer.SILENT
    if not said or _CANNOT_CONNECT_NOW in said:
        return Answer.NOT_NOW
    return Answer.READY


def _connect(client: socket.socket, directory: Path, seconds: float) -> None:
    """Connect within so many seconds; a server whose queue is full refuses at once until then."""
    until = time.monotonic() + seconds
    while True:
        try:
            return client.connect(os.fsencode(directory / SOCKET))
        except BlockingIOError:
            if time.monotonic() >= until:
                raise TimeoutError from None
            time.sleep(_AGAIN_SECONDS)


def listens(directory: Path) -> bool:
    """Tell whether a server listens in a directory, whatever it would answer."""
    return answer_of(directory, _GLANCE_SECONDS) is not Answer.NONE


def may_serve(pid: int, data: Path) -> bool:
    """Tell whether a process id may be a Postgres on this data; True where that is unknown."""
    try:
        name, _, rest = (_PROCESSES / str(pid) / "stat").read_text().rpartition(")")
        living = name.endswith("(postgres") and not rest.lstrip().startswith("Z")
        return living and (_PROCESSES / str(pid) / "cwd").samefile(data)
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return True


def kill_all(data: Path, postmaster: int | None) -> None:
    """Kill the processes of the Postgres on this data; its log has all that it acknowledged."""
    known = [] if postmaster is None or _PROCESSES.is_dir() else [postmaster]
    for pid in (*filter(_is_postgres, known), *_serving(data)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _is_postgres(pid: int) -> bool:
    """Tell whether a process is a Postgres, where `ps` alone knows: its id may be old."""
    ps = shutil.which("ps")
    if ps is None:
        return False
    told = subprocess.run(  # noqa: S603 - the command is ours
        [ps, "-o", "comm=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return Path(told.stdout.strip()).name == "postgres"


def _serving(data: Path) -> Iterator[int]:
    for entry in _PROCESSES.glob("[0-9]*"):
        with contextlib.suppress(OSError):  # the process has ended, or is another user's
            if (entry / "comm").read_text() == "postgres\n" and (entry / "cwd").samefile(data):
                yield int(entry.name)
