"""A running Postgres, seen from outside: by its socket, and by its processes."""

import contextlib
import enum
import os
import shutil
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

SOCKET: Final = ".s.PGSQL.5432"

_PROTOCOL: Final = 196608
_WHO: Final = b"user\0postgres\0database\0postgres\0\0"
_HELLO: Final = struct.pack("!ii", 8 + len(_WHO), _PROTOCOL) + _WHO
_GOODBYE: Final = b"X\0\0\0\4"
_CANNOT_CONNECT_NOW: Final = b"C57P03\0"
_PROCESSES: Final = Path("/proc")
_AGAIN_SECONDS: Final = 0.05


class Answer(enum.Enum):
    """The answer of a server to a client that wants to connect."""

    NONE = enum.auto()
    """Nobody listens."""
    READY = enum.auto()
    NOT_NOW = enum.auto()
    """It starts, recovers or stops."""
    SILENT = enum.auto()
    """Somebody listens, and says nothing."""


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
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(5)
        try:
            client.connect(os.fsencode(directory / SOCKET))
        except (FileNotFoundError, ConnectionRefusedError):
            return False
        except (TimeoutError, BlockingIOError):
            return True  # the server's queue is full
    return True


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
