"""A TCP door to a Postgres on a Unix socket, which can be cut in the middle of a message."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Self

import psycopg


class CuttingProxy:
    """Forwards connections; `cut_after` and `cut_before` end one in the middle."""

    def __init__(self, url: str) -> None:
        """Listen on a free port of this machine, in front of the server of `url`."""
        params = psycopg.conninfo.conninfo_to_dict(url)
        self._upstream = f"{params['host']}/.s.PGSQL.{params.get('port') or 5432}"
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._lock = threading.Lock()
        self._budget: int | None = None
        self._waits_for = b""
        self._upwards = True
        self.silent = False
        """True if data is lost on the way, and nobody is told."""
        self._threads: list[threading.Thread] = []
        self._sockets: list[socket.socket] = []
        port = self._listener.getsockname()[1]
        self.url = psycopg.conninfo.make_conninfo(url, host="127.0.0.1", port=port)

    def cut_after(self, count: int, *, upwards: bool) -> None:
        """Cut one connection after `count` more bytes to the server, or from it."""
        with self._lock:
            self._budget, self._upwards, self._waits_for = count, upwards, b""

    def cut_before(self, part: bytes, *, upwards: bool) -> None:
        """Cut one connection when this is to pass to the server, or from it."""
        with self._lock:
            self._budget, self._upwards, self._waits_for = 0, upwards, part

    def hang_up(self) -> None:
        """End every connection at once."""
        with self._lock:
            ended, self._sockets = self._sockets, []
        for each in ended:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def passing(self) -> int:
        """How many directions are open; once none is, each end has what the other said."""
        return sum(thread.is_alive() for thread in self._threads[1:])  # the first one accepts

    def disarm(self) -> bool:
        """Cut nothing any more; whether a connection has been cut."""
        with self._lock:
            was_cut, self._budget = self._budget is None, None
        return was_cut

    def __enter__(self) -> Self:
        self._spawn(self._accept)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for each in (self._listener, *self._sockets):
            _end(each)
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(self._upstream)
                self._sockets += [client, server]
                self._spawn(partial(self._pump, client, server, upwards=True))
                self._spawn(partial(self._pump, server, client, upwards=False))

    def _pump(self, source: socket.socket, target: socket.socket, *, upwards: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if self.silent:
                    continue
                allowed = self._allowed(data, upwards=upwards)
                target.sendall(data[:allowed])
                if allowed < len(data):
                    break
        _end(source)
        _end(target)

    def _allowed(self, data: bytes, *, upwards: bool) -> int:
        size = len(data)
        with self._lock:
            if self._budget is None or upwards is not self._upwards:
                return size
            if self._waits_for not in data:
                return size
            if size <= self._budget:
                self._budget -= size
                return size
            allowed, self._budget = self._budget, None
            return allowed

    def _spawn(self, work: Callable[[], None]) -> None:
        self._threads.append(threading.Thread(target=work, daemon=True))
        self._threads[-1].start()


def _end(each: socket.socket) -> None:
    with contextlib.suppress(OSError):
        each.shutdown(socket.SHUT_RDWR)
    each.close()
