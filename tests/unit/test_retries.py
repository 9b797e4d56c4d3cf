"""What worked later speaks for what failed if it was the next try; what passes teaches nothing."""

from __future__ import annotations

import errno
import os
from http import HTTPStatus
from typing import Any

import psycopg
import pytest

from langmem_tiers.learning.reflexion import TriedCall, find_cure, is_transient_failure
from langmem_tiers.learning.signature import signature

COMMA = "ValueError: the amount '1,234' has a comma"
FAILED = TriedCall(
    "read", {"path": "a.csv", "encoding": "utf-8"}, "UnicodeDecodeError: byte 0xe9", 1
)
WORKED = TriedCall("read", {"path": "a.csv", "encoding": "latin-1"}, None, 3)


def cure(*calls: TriedCall) -> int | None:
    return find_cure(0, calls)


def test_the_next_call_that_worked_speaks_for_a_failure_if_it_shares_an_argument() -> None:
    assert cure(FAILED, WORKED) == 1
    assert cure(FAILED, FAILED._replace(error="still", step=2), WORKED) == 2
    assert cure(FAILED, WORKED._replace(arguments={"path": "a.csv"})) == 1
    assert cure(FAILED) is None
    assert cure(WORKED, FAILED, WORKED) is None


@pytest.mark.parametrize(
    ("failed", "worked"),
    [
        ({"command": "pip install foo"}, {"command": "pip install --pre foo"}),
        ({"path": "a.csv"}, {"path": "b.csv"}),
        ({"path": "a.csv", "binary": True}, {"path": "b.csv", "binary": True}),
        ({"path": "a.csv", "mode": None, "of": []}, {"path": "b.csv", "mode": None, "of": []}),
        ({}, {"path": "a.csv"}),
    ],
)
def test_what_shares_nothing_that_names_anything_may_be_about_another_thing(
    failed: dict[str, Any], worked: dict[str, Any]
) -> None:
    assert cure(FAILED._replace(arguments=failed), WORKED._replace(arguments=worked)) is None


@pytest.mark.parametrize("tool", ["install", "read"])
def test_where_another_call_worked_between_them_that_may_have_been_the_cure(tool: str) -> None:
    between = TriedCall(tool, {"path": "b.csv"}, None, 2)
    assert cure(FAILED, between, WORKED) is None
    assert cure(FAILED, between._replace(error="no"), WORKED) == 2
    assert cure(FAILED, between._replace(tool="write_todos"), WORKED) == 2


def test_a_sibling_a_call_that_works_as_it_was_and_what_passes_teach_nothing() -> None:
    assert cure(FAILED, WORKED._replace(step=1)) is None
    assert cure(FAILED, FAILED._replace(error=None, step=3)) is None
    assert cure(FAILED, WORKED, FAILED._replace(error=None, step=5)) is None
    assert cure(FAILED._replace(error="HTTP 503"), WORKED) is None


UNREACHABLE = (
    "WARNING: Retrying (Retry(total=4)) after connection broken by 'NewConnectionError(\"x: Failed "
    "to establish a new connection: [Errno -2] Name or service not known\")': /simple/foo/\n"
    "ERROR: No matching distribution found for foo"
)
PASSING = [
    *(f"OSError: {os.strerror(one)}" for one in (errno.ECONNREFUSED, errno.ENETUNREACH)),
    f"[Errno {errno.ECONNRESET}] whatever the platform calls it",
    *(f"HTTP {code}" for code in (408, 425, 429, 500, 502, 503, 504)),
    *(f"{HTTPStatus(code).phrase}" for code in (408, 429, 502, 503, 504)),
    *("TimeoutError", "TimeoutError: read of x:443 timed out after 5 s", "ConnectionError: x"),
    *("requests.exceptions.ReadTimeout: x", "httpx.ConnectError: x", "BrokenPipeError: x"),
    "openai.RateLimitError: Error code: 429 - {'message': 'slow down'}",
    "503 Server Error: Service Unavailable for url: https://example.org",
    "Request failed with status code 502",
    *("Rate limit exceeded, try again in 20s", "i/o timeout", "context deadline exceeded"),
    "dial tcp 10.0.0.1:5432: connect: connection refused",
    *("getaddrinfo ENOTFOUND example.org", "sqlite3.OperationalError: database is locked"),
    "socket.gaierror: [Errno -3] Temporary failure in name resolution",
    "ERROR: canceling statement due to lock timeout",
    "Lock wait timeout exceeded; try restarting transaction",
    "ERROR 1213 (40001): Deadlock found when trying to get lock",
    "subprocess.TimeoutExpired: Command 'x' timed out after 3 seconds",
    "ERROR: could not serialize access due to concurrent update",
    'ERROR: could not obtain lock on row in relation "t"',
    "server closed the connection unexpectedly",
    *("Error: socket hang up", "[Errno 32] Broken pipe"),
    *("504 Gateway Time-out", "<title>503 Service Temporarily Unavailable</title>"),
    "E: Could not get lock /var/lib/dpkg/lock-frontend",
    'status = StatusCode.UNAVAILABLE details = "x"',
    *(
        "APIError: [503]: backendError",
        "429 slow down",
        "UNABLE_TO_LOCK_ROW: x",
        "HTTP 529",
        "<HttpError 500 when requesting x>",
    ),
    "The sheet is locked by another session",
    UNREACHABLE,
]
LASTING = [
    "ValueError: the amount '1,234' has a comma",
    "FileNotFoundError: [Errno 2] No such file or directory: 'x'",
    "PermissionError: [Errno 13] Permission denied",
    "TypeError: f() got an unexpected keyword argument 'timeout'",
    "KeyError: 'connection'",
    "the connection string is invalid",
    "unknown option --timeout",
    "assert 500 == 200",
    "HTTP 404: Not Found",
    "<HttpError 404 when requesting x>",
    *("HTTP 403", "BLOCKED_BY_POLICY", "500 rows were read", "550 5.1.1 no such mailbox"),
    "ERROR: No matching distribution found for foo",
]


def test_what_passes_by_itself_is_known_by_the_names_of_systems_and_what_lasts_is_not() -> None:
    assert [one for one in PASSING if not is_transient_failure(one)] == []
    assert [one for one in LASTING if is_transient_failure(one)] == []
    for failure in (
        TimeoutError(),
        ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED)),
        psycopg.errors.DeadlockDetected("deadlock detected"),
        psycopg.errors.LockNotAvailable("x: could not obtain lock"),
    ):
        assert is_transient_failure(str(signature(failure, tool="run")))
