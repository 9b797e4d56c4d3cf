"""Unit tests touch no network: a connection to anything is an error."""

from __future__ import annotations

import socket
from typing import Any, NoReturn

import pytest


@pytest.fixture(autouse=True)
def no_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let sockets exist, as event loops need them, but connect nowhere."""

    def refuse(_: socket.socket, address: Any) -> NoReturn:
        raise AssertionError(f"a unit test connects to {address}")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket.socket, "connect_ex", refuse)
