"""Twelve families of real exceptions, by which tools fail, and the tasks that meet them.

docs/learning-benchmarks.md says what was chosen before anything was measured.
"""

from __future__ import annotations

import errno
import os
import random
import smtplib
import subprocess
import urllib.error
from collections.abc import Callable, Mapping, Sequence
from email.message import Message
from typing import Any, NamedTuple

import psycopg

Draw = random.Random


class FaultFamily(NamedTuple):
    """A kind of fault: where it strikes, what it raises, and the argument that prevents it."""

    name: str
    tool: str
    noun: str
    """What the task is about; it tells the families of one tool apart."""
    remedy: Mapping[str, Any]
    phrasings: Sequence[str]
    make: Callable[[Draw], Exception]


def _word(draw: Draw) -> str:
    return "".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=draw.randint(5, 9)))


def path(draw: Draw) -> str:
    top = draw.choice(("srv", "data", "home"))
    return f"/{top}/{_word(draw)}/{_word(draw)}-{draw.randint(1, 9999)}"


def _host(draw: Draw) -> str:
    return f"{_word(draw)}-{draw.randint(1, 99)}.example.org"


def _encoding(draw: Draw) -> Exception:
    before = " ".join(_word(draw) for _ in range(draw.randint(1, 12))).encode()
    raw = before + bytes([draw.choice((0xE4, 0xE9, 0xF6, 0xFC))])
    return UnicodeDecodeError("utf-8", raw, len(before), len(raw), "invalid continuation byte")


def _fields(draw: Draw) -> Exception:
    wanted = draw.randint(2, 9)
    line, saw = draw.randint(2, 90_000), wanted + draw.randint(1, 9)
    return ValueError(
        f"Error tokenizing data. C error: Expected {wanted} fields in line {line}, saw {saw}"
    )


def _forbidden(draw: Draw) -> Exception:
    url = f"https://{_host(draw)}/{_word(draw)}?id={draw.randrange(10**8)}"
    error = urllib.error.HTTPError(url, 403, "Forbidden", Message(), None)
    error.close()
    return error


def _timeout(draw: Draw) -> Exception:
    return TimeoutError(
        f"read of {_host(draw)}:443 timed out after {draw.randint(5, 60)}.{draw.randint(0, 9)} s"
    )


def _relation(draw: Draw) -> Exception:
    table = f"{_word(draw)}_{draw.randint(2001, 2025)}"
    return psycopg.errors.UndefinedTable(
        f'relation "{table}" does not exist\nLINE 1: TABLE {table}\n              ^'
    )


def _cancelled(_: Draw) -> Exception:
    return psycopg.errors.QueryCanceled("canceling statement due to statement timeout")


def _no_folder(draw: Draw) -> Exception:
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path(draw))


def _disk_full(draw: Draw) -> Exception:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path(draw))


def _too_large(draw: Draw) -> Exception:
    size = draw.randint(30, 900)
    return smtplib.SMTPDataError(552, f"5.3.4 Message size {size}000000 exceeds limit".encode())


def _relay(draw: Draw) -> Exception:
    address = f"{_word(draw)}@{_host(draw)}"
    return smtplib.SMTPRecipientsRefused({address: (550, b"5.7.1 Relaying denied")})


def _killed(draw: Draw) -> Exception:
    command = ["deploy", _word(draw), f"--id={draw.randrange(16**8):08x}"]
    return subprocess.CalledProcessError(137, command)


def _refused(draw: Draw) -> Exception:
    return ConnectionRefusedError(
        errno.ECONNREFUSED, f"Connection refused: {_host(draw)}:{draw.randint(1024, 65535)}"
    )


FAMILIES: tuple[FaultFamily, ...] = (
    FaultFamily(
        "encoding",
        "read_table",
        "till export",
        {"encoding": "latin-1"},
        (
            "Load the till export {target} of {city}",
            "Add up what {city} sold, from the till export {target}",
            "The till export {target} is in: put it into the ledger of {city}",
        ),
        _encoding,
    ),
    FaultFamily(
        "separator",
        "read_table",
        "sensor dump",
        {"separator": ";"},
        (
            "Read the sensor dump {target} from {city}",
            "Plot the temperatures in the sensor dump {target}, for {city}",
            "Which hours are missing in the sensor dump {target} of {city}?",
        ),
        _fields,
    ),
    FaultFamily(
        "forbidden",
        "fetch_url",
        "press page",
        {"user_agent": "newsroom/1.0"},
        (
            "Get the press page {target} about {city}",
            "What does the press page {target} say of {city}?",
            "Archive the press page {target} for our office in {city}",
        ),
        _forbidden,
    ),
    FaultFamily(
        "slow host",
        "fetch_url",
        "satellite tile",
        {"timeout": 300},
        (
            "Fetch the satellite tile {target} of {city}",
            "We need the satellite tile {target} for the map of {city}",
            "Compare the satellite tile {target} with last week's of {city}",
        ),
        _timeout,
    ),
    FaultFamily(
        "other schema",
        "run_sql",
        "closed invoices",
        {"catalog": "archive"},
        (
            "Sum the closed invoices of {city}, batch {target}",
            "How many closed invoices has {city} in {target}?",
            "List the closed invoices of {target} for the tax office in {city}",
        ),
        _relation,
    ),
    FaultFamily(
        "statement timeout",
        "run_sql",
        "click stream",
        {"sample": 0.01},
        (
            "Count visitors in the click stream {target} of {city}",
            "Where do people leave, by the click stream {target} of {city}?",
            "Find the busiest hour of {city} in the click stream {target}",
        ),
        _cancelled,
    ),
    FaultFamily(
        "no folder",
        "write_file",
        "audit report",
        {"make_parents": True},
        (
            "Save the audit report of {city} as {target}",
            "File the audit report {target} for {city}",
            "Write this quarter's audit report on {city} to {target}",
        ),
        _no_folder,
    ),
    FaultFamily(
        "disk full",
        "write_file",
        "video recording",
        {"volume": "bulk"},
        (
            "Store the video recording {target} of the fair in {city}",
            "Keep the video recording {target} that {city} sent",
            "Put the video recording of {city} at {target}",
        ),
        _disk_full,
    ),
    FaultFamily(
        "too large",
        "send_mail",
        "photo album",
        {"attach": "as link"},
        (
            "Mail the photo album {target} to the team in {city}",
            "Send {city} the photo album {target} of the party",
            "The photo album {target} should go to everybody in {city}",
        ),
        _too_large,
    ),
    FaultFamily(
        "relaying",
        "send_mail",
        "customer newsletter",
        {"relay": "outbound"},
        (
            "Send out the customer newsletter {target} for {city}",
            "Mail the customer newsletter {target} to our list in {city}",
            "Customers in {city} wait for the customer newsletter {target}",
        ),
        _relay,
    ),
    FaultFamily(
        "memory",
        "deploy",
        "image resizer",
        {"memory": "4g"},
        (
            "Roll out the image resizer {target} in {city}",
            "Bring the image resizer {target} to the servers of {city}",
            "Update the image resizer of {city} to {target}",
        ),
        _killed,
    ),
    FaultFamily(
        "not ready",
        "deploy",
        "search cluster",
        {"wait_for": "healthy"},
        (
            "Roll out the search cluster {target} in {city}",
            "Restart the search cluster {target} for {city}",
            "Move the search cluster of {city} to {target}",
        ),
        _refused,
    ),
)
