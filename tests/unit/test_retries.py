from __future__ import annotations

import errno
import json
import os
import time
from http import HTTPStatus
from typing import Any

import psycopg

from langmem_tiers.learn.retries import is_transient, may_hold, resembles, teaches
from langmem_tiers.learn.signature import signature

DIRECTORY = "/home/ada/code/acme/services/api"
Pair = tuple[dict[str, Any], dict[str, Any]]


def commands(*pairs: tuple[str, str]) -> list[Pair]:
    return [({"command": one}, {"command": other}) for one, other in pairs]


RETRIES: list[Pair] = [
    ({"text": "1,234"}, {"text": "1234"}),
    ({"text": "EUR 12"}, {"text": "12"}),
    ({"path": "fiel.txt"}, {"path": "file.txt"}),
    ({"path": "data/rates.csv"}, {"path": "/srv/data/rates.csv"}),
    ({"city": "Pariss"}, {"city": "Paris"}),
    ({"id": "17"}, {"id": 17}),
    ({"q": "cats", "limit": 1000}, {"q": "cats", "limit": 100}),
    ({"path": "a.csv"}, {"path": "a.csv", "encoding": "latin-1"}),
    ({"url": "https://example.org/a"}, {"address": "https://example.org/a"}),
    ({"filter": {"name": "Ada", "of": [1, 2]}}, {"filter": {"name": "Ada", "of": ["1", "2"]}}),
    ({}, {"q": "cats"}),
    ({"code": "int('1,234')"}, {"code": "int('1,234'.replace(',', ''))"}),
    ({"sql": "SELECT nme FROM users"}, {"sql": "SELECT name FROM users"}),
    *commands(
        ("pip install foo", "pip install foo --find-links wheels --no-index"),
        ("pip install sklearn", "pip install scikit-learn"),
        ("git push", "git push --set-upstream origin main"),
    ),
]
OTHERS: list[Pair] = [
    ({"city": "Paris"}, {"city": "Berlin"}),
    ({"city": "Paris", "units": "metric"}, {"city": "Berlin", "units": "metric"}),
    ({"id": 17}, {"id": 18}),
    ({"id": "order-17"}, {"id": "order-18"}),
    ({"path": f"{DIRECTORY}/rates.py"}, {"path": f"{DIRECTORY}/README.md"}),
    ({"command": "pip install foo"}, {"script": "ls -la"}),
    (
        {"command": "pip install foo", "cwd": DIRECTORY},
        {"command": "ls -la", "cwd": DIRECTORY},
    ),
    *commands(
        ("pip install foo", "ls -la"),
        ("pip install foo", "pip list"),
        ("git push", "git status"),
        ("cat a.txt", "cat b.txt"),
        ("python train.py", "python test.py"),
        ("cd /repo && pytest -q", "cd /repo && ls -la"),
    ),
]


def test_a_retry_keeps_most_of_what_failed_and_another_call_of_the_tool_is_none() -> None:
    for failed, retry in RETRIES:
        assert resembles(failed, retry), retry
        assert teaches(failed, retry), retry
    for failed, later in OTHERS:
        assert not resembles(failed, later), later


def test_another_call_of_the_tool_teaches_nothing() -> None:
    for of in (["city"], ["id"], ["path"], ["command"], ["command", "cwd"]):
        pairs = [(one, other) for one, other in OTHERS if [*one] == [*other] == of]
        assert pairs
        assert not any(teaches(one, other) for one, other in pairs)
    locked, opened = ({"key": "api", "vault": one} for one in ("locked", "open"))
    assert teaches(locked, opened)  # a name beside a text that is kept, which holds nothing
    assert not resembles(locked, opened)


def test_texts_of_any_make_are_compared_without_holding_a_thread() -> None:
    for one, other in (("a", "ax"), ("a ", "ax "), ("a1", "b1"), ("a/", "ax/"), ("ab.", "ba.")):
        begun = time.process_time()
        teaches({"code": one * 100_000, "as": "it is"}, {"code": other * 100_000, "as": "it is"})
        assert time.process_time() - begun < 0.5


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
    "HTTP 403",
    "ERROR: No matching distribution found for foo",
]


def test_what_passes_by_itself_is_known_by_the_names_of_systems_and_what_lasts_is_not() -> None:
    assert [one for one in PASSING if not is_transient(one)] == []
    assert [one for one in LASTING if is_transient(one)] == []
    for failure in (
        TimeoutError(),
        ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED)),
        psycopg.errors.DeadlockDetected("deadlock detected"),
        psycopg.errors.LockNotAvailable("x: could not obtain lock"),
    ):
        assert is_transient(str(signature(failure, tool="run")))


def lesson(**changes: Any) -> dict[str, Any]:
    return {
        "original_approach": 'run({"command": "pip install foo"})',
        "improved_approach": 'run({"command": "pip install foo --pre"})',
        "failure_reason": "ERROR: No matching distribution found for foo without --pre",
        "source": "tool",
        **changes,
    }


def test_a_lesson_holds_a_call_for_a_retry_and_for_what_somebody_says() -> None:
    other = 'run({"command": "ls -la"})'

    assert may_hold(lesson())
    assert not may_hold(lesson(failure_reason="ERROR: No matching distribution found for foo"))
    assert may_hold(lesson(improved_approach="Ask for a release candidate"))
    assert may_hold(lesson(improved_approach=other, source="user"))
    assert may_hold({**lesson(improved_approach=other), "source": None})
    assert not may_hold(lesson(improved_approach=other))
    assert not may_hold(lesson(failure_reason="TimeoutError: x"))
    assert not may_hold(lesson(signature="run: ConnectionError: x", source="user"))


def test_no_call_is_held_for_one_in_which_something_stands_for_another_thing() -> None:
    pairs: list[Pair] = [
        ({"cmd": "deploy --env staging app"}, {"cmd": "deploy --env production app"}),
        ({"order": 7, "note": "a refund"}, {"order": 8, "note": "a refund"}),
        ({"cmd": "curl -X DELETE localhost/17"}, {"cmd": "curl -X GET localhost/17"}),
        ({"to": "ada", "text": "It is done"}, {"to": "bob", "text": "It is done"}),
    ]
    for pair in pairs:
        failed, worked = (f"run({json.dumps(one)})" for one in pair)
        assert not may_hold(lesson(original_approach=failed, improved_approach=worked))
