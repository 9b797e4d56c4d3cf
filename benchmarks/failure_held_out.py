"""Kinds of failure that no rule was tuned on, with what is accidental in every shape."""

from __future__ import annotations

import json
from typing import Final

from benchmarks.failure_exceptions import raised
from benchmarks.failure_family import Failure, Family
from benchmarks.failure_outputs import node_frames
from benchmarks.failure_slots import Slots


def broken_pickle(s: Slots) -> Failure:
    return TypeError(f"cannot pickle '{s.word()}.{s.kind()}' object")


def wrong_zone(s: Slots) -> Failure:
    return raised("zoneinfo.ZoneInfoNotFoundError", f"'No time zone found with key {s.slug()}'")


def refused_socket(s: Slots) -> Failure:
    return raised(
        "httpx.ConnectError", f"[Errno 113] No route to host: {s.ip()}:{s.port()} after {s.took()}"
    )


def statement(s: Slots) -> Failure:
    return raised(
        "sqlalchemy.exc.ProgrammingError",
        f'(psycopg.errors.AmbiguousColumn) column reference "{s.name()}" is '  # noqa: S608 - it is said
        f"ambiguous\nLINE "
        f"{s.number(1, 90)}: SELECT {s.name()}\n               ^\n[SQL: SELECT 1 FROM {s.name()}]\n"
        f"[parameters: {s.mapping()}]\n(Background on this error at: https://sqlalche.me/e/20/f405)",
    )


def date_field(s: Slots) -> Failure:
    return raised(
        "psycopg.errors.DatetimeFieldOverflow",
        f"date/time field value out of range: {s.quoted()}\nLINE {s.number(1, 90)}: {s.name()}",
    )


def keys_differ(s: Slots) -> Failure:
    return AssertionError(
        f"assert {s.mapping()} != {s.mapping()}\n  \n  Omitting {s.number(1, 9)} identical items, "
        "use -vv to show"
    )


def pytest_timeout(s: Slots) -> Failure:
    return raised("Failed", f"Timeout (>{s.number(1, 900)}.0s) from pytest-timeout.")


def conflict(s: Slots) -> Failure:
    body = {
        "error": {
            "type": "conflict",
            "code": "version_conflict",
            "message": f"document {s.sha()} was changed at {s.stamp()} by {s.email()}",
        },
        "requestId": s.uuid(),
    }
    return raised("elastic.ApiError", f"Error code: 409 - {body}")


def moved(s: Slots) -> Failure:
    return json.dumps(
        {"status": 410, "error": "Gone", "path": f"/{s.word()}/{s.uuid()}", "time": s.stamp()}
    )


def no_space(s: Slots) -> Failure:
    return f"tee: {s.anywhere()}: No space left on device"


def host_key(s: Slots) -> Failure:
    return (
        f"No ED25519 host key is known for {s.one(s.ip(), s.host())} and you have requested strict "
        "checking.\nHost key verification failed."
    )


def evicted(s: Slots) -> Failure:
    return (
        f"Pod {s.container()} evicted: The node was low on resource: memory. Threshold quantity: "
        f"{s.number()}Mi, available: {s.number()}Ki."
    )


def cast(s: Slots) -> Failure:
    owner = f"com.{s.word()}.{s.kind()}"
    return (
        f"{s.stamp()} [{s.thread()}] ERROR {owner} - job {s.uuid()} failed\n"
        f"java.lang.ClassCastException: class {owner} cannot be cast to class com.{s.word()}."
        f"{s.kind()}\n\tat {owner}.{s.name()}({s.kind()}.java:{s.number(1)})"
    )


def borrowed(s: Slots) -> Failure:
    return (
        f"error[E0502]: cannot borrow `{s.name()}` as mutable because it is also borrowed as "
        f"immutable\n --> {s.file('.rs')}:{s.number(1)}:{s.number(1, 80)}\n  |\n"
        f"{s.number(1, 900)} | let {s.name()} = &{s.name()};"
    )


def fetch(s: Slots) -> Failure:
    return f"TypeError: fetch failed\n{node_frames(s)} {{\n  [cause]: Error: getaddrinfo\n}}"


def go_sql(s: Slots) -> Failure:
    return f'ERROR: relation "{s.name()}" already exists (SQLSTATE 42P07) [{s.took()}]'


def call_budget(s: Slots) -> Failure:
    return (
        f"Error: tool call {s.one('call', 'toolu')}_{s.token(20)} used {s.number()} of "
        f"{s.number()} tokens in {s.took()}; budget exhausted"
    )


def corrupt(s: Slots) -> Failure:
    return raised(
        f"{s.word()}.storage.CorruptBlockError",
        f"block {s.number()} of {s.anywhere()} is corrupt: CRC {s.address()} != {s.address()} "
        f"({s.size()}, written {s.stamp()} by {s.container()})",
    )


HELD_OUT_FAMILIES: Final = (
    Family("pickle", "the class", broken_pickle),
    Family("time zone", "the zone", wrong_zone),
    Family("no route", "IP, port, duration", refused_socket),
    Family("ambiguous column", "column, table, line, parameters", statement),
    Family("date out of range", "the text, line, word", date_field),
    Family("assertion of a difference", "dictionaries, how many", keys_differ),
    Family("pytest timeout", "seconds", pytest_timeout),
    Family("version conflict", "hash, time, e-mail, request", conflict),
    Family("gone", "path, time", moved),
    Family("tee", "path", no_space),
    Family("host key", "host", host_key),
    Family("evicted pod", "pod, sizes", evicted),
    Family("java cast", "classes, time, thread, frames", cast),
    Family("rust borrow", "names, file, line", borrowed),
    Family("node fetch", "frames", fetch),
    Family("existing table", "table, duration", go_sql),
    Family("token budget", "call, tokens, duration", call_budget),
    Family("corrupt block", "module, path, checksums, size, time, container", corrupt),
)
"""Written before the last change of a rule and looked at after it."""
