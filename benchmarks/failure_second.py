"""A second set of kinds of failure, with what is accidental in every shape."""

from __future__ import annotations

import json
from typing import Final

from benchmarks.failure_exceptions import raised
from benchmarks.failure_family import Failure, Family
from benchmarks.failure_outputs import node_frames
from benchmarks.failure_slots import Slots


def subscript(s: Slots) -> Failure:
    return TypeError(
        f"'{s.one('int', 'NoneType', 'method', s.kind())}' object is not subscriptable"
    )


def keyword(s: Slots) -> Failure:
    owner = s.one(s.name(), f"{s.kind()}.__init__", f"{s.kind()}.{s.name()}")
    hint = s.one("", f". Did you mean '{s.name()}'?")
    return TypeError(f"{owner}() got an unexpected keyword argument '{s.name()}'{hint}")


def folder(s: Slots) -> Failure:
    return IsADirectoryError(21, "Is a directory", s.anywhere())


def encode(s: Slots) -> Failure:
    start = s.number()
    codec = s.one("ascii", "latin-1", "charmap", "cp1252")
    return UnicodeEncodeError(codec, "é" * (start + 2), start, start + 1, "character not mapped")


def statement_timeout(s: Slots) -> Failure:
    return raised(
        "psycopg.errors.QueryCanceled",
        "canceling statement due to statement timeout\nCONTEXT:  while locking tuple "
        f'({s.number()},{s.number()}) in relation "{s.name()}"',
    )


def text_as_number(s: Slots) -> Failure:
    said = json.dumps(s.said(), ensure_ascii=False)
    return raised(
        "psycopg.errors.InvalidTextRepresentation",
        f"invalid input syntax for type {s.one('integer', 'uuid', 'bigint')}: {said}\n"
        f"LINE {s.number(1, 60)}: ... WHERE {s.name()} = {s.said()!r}\n{' ' * 20}^",
    )


def pool(s: Slots) -> Failure:
    return raised(
        "psycopg_pool.PoolTimeout", f"couldn't get a connection after {s.number(1, 90)}.00 sec"
    )


def mysql(s: Slots) -> Failure:
    said = (
        f"Access denied for user '{s.person()}'@'{s.one(s.ip(), s.host())}' (using password: YES)"
    )
    return raised("pymysql.err.OperationalError", f'(1045, "{said}")')


def missing_in_body(s: Slots) -> Failure:
    item = {
        "type": "missing",
        "loc": ["body", s.name()],
        "msg": "Field required",
        "input": {s.name(): s.value()},
        "url": f"https://errors.pydantic.dev/2.{s.number(1, 12)}/v/missing",
    }
    return json.dumps({"detail": [item] * s.rng.randint(1, 2)})


def quota(s: Slots) -> Failure:
    body = {
        "error": {
            "code": 429,
            "message": f"Quota exceeded for quota metric '{s.word()} requests' and limit "
            f"'{s.word()} requests per minute' of service '{s.host()}' for consumer "
            f"'project_number:{s.number()}'.",
            "status": "RESOURCE_EXHAUSTED",
            "details": [{"reason": "RATE_LIMIT_EXCEEDED", "metadata": {"limit": s.name()}}],
        }
    }
    return json.dumps(body, indent=2)


def throttled(s: Slots) -> Failure:
    return raised(
        "botocore.errorfactory.ThrottlingException",
        "An error occurred (ThrottlingException) when calling the InvokeModel operation (reached "
        f"max retries: {s.number(1, 12)}): Too many requests, please wait before trying again.",
    )


def busy(s: Slots) -> Failure:
    return f"rm: cannot remove '{s.anywhere()}': Device or resource busy"


def unterminated(s: Slots) -> Failure:
    return f"sed: -e expression #{s.number(1, 3)}, char {s.number(1, 90)}: unterminated `s' command"


def deadline(s: Slots) -> Failure:
    prefix = s.one("", f"{s.time()} ", f"level=error time={s.time()} msg=")
    said = f'{s.one("Get", "Post")} "{s.url()}": context deadline exceeded'
    return f"{prefix}{said} (Client.Timeout exceeded while awaiting headers)"


def hikari(s: Slots) -> Failure:
    owner = f"com.{s.word()}.{s.kind()}"
    frames = "".join(f"\n\tat {owner}.{s.name()}({s.kind()}.java:{s.number(1)})" for _ in range(2))
    return (
        f"java.sql.SQLTransientConnectionException: HikariPool-{s.number(1, 9)} - Connection is "
        f"not available, request timed out after {s.number(1)}ms.{frames}"
    )


def unwrapped(s: Slots) -> Failure:
    return (
        f"thread '{s.one('main', 'tokio-runtime-worker', s.name())}' panicked at "
        f"{s.file('.rs')}:{s.number(1)}:{s.number(1, 80)}:\ncalled `Result::unwrap()` on an `Err` "
        "value: ParseIntError { kind: InvalidDigit }\nnote: run with `RUST_BACKTRACE=1` "
        "environment variable to display a backtrace"
    )


def in_use(s: Slots) -> Failure:
    port = s.port()
    place = s.one(f":::{port}", f"{s.ip()}:{port}")
    return (
        f"node:events:{s.number(400, 600)}\n      throw er; // Unhandled 'error' event\n      ^\n\n"
        f"Error: listen EADDRINUSE: address already in use {place}\n{node_frames(s)}"
    )


def no_entry(s: Slots) -> Failure:
    path = s.anywhere()
    return (
        f"Error: ENOENT: no such file or directory, open '{path}'\n{node_frames(s)} {{\n"
        f"  errno: -2,\n  code: 'ENOENT',\n  syscall: 'open',\n  path: '{path}'\n}}"
    )


def counted(s: Slots) -> Failure:
    found, said = s.number(0, 90), s.listed()
    return AssertionError(f"assert {found} == {s.number(0, 90)}\n +  where {found} = len({said})")


def unmatched(s: Slots) -> Failure:
    return AssertionError(
        f"Regex pattern did not match.\n Regex: {s.sentence()!r}\n Input: {s.value()!r}"
    )


def locator(s: Slots) -> Failure:
    return raised(
        "playwright._impl._errors.TimeoutError",
        f"Locator.click: Timeout {s.number(1)}ms exceeded.\nCall log:\n"
        f'  - waiting for locator("#{s.slug()}")\n',
    )


def element(s: Slots) -> Failure:
    selector = json.dumps({"method": "css selector", "selector": f"#{s.slug()}"})
    frames = "\n".join(f"#{n} {s.address()} <unknown>" for n in range(s.rng.randint(2, 5)))
    return raised(
        "selenium.common.exceptions.NoSuchElementException",
        f"Message: no such element: Unable to locate element: {selector}\n  (Session info: "
        f"chrome={s.number(90, 140)}.0.{s.number()}.{s.number(1, 99)})\nStacktrace:\n{frames}\n",
    )


def graph_limit(s: Slots) -> Failure:
    return raised(
        "langgraph.errors.GraphRecursionError",
        f"Recursion limit of {s.number(2, 900)} reached without hitting a stop condition. You can "
        "increase the limit by setting the `recursion_limit` config key.",
    )


def powershell(s: Slots) -> Failure:
    return (
        f"Get-Content : Cannot find path 'C:\\{s.word()}\\{s.name()}.txt' because it does not "
        f"exist.\nAt line:{s.number(1, 90)} char:{s.number(1, 90)}\n+ Get-Content {s.name()}.txt\n"
        "+ ~~~~~~~~~~~~~~~~\n    + CategoryInfo          : ObjectNotFound: (:) [Get-Content], "
        "ItemNotFoundException"
    )


def dead_worker(s: Slots) -> Failure:
    return (
        f"[{s.stamp()}] [{s.number()}] [ERROR] Worker (pid:{s.number()}) was sent SIGKILL! Perhaps "
        "out of memory?"
    )


def invoice(s: Slots) -> Failure:
    which = s.one(f"INV-{s.number()}", s.uuid(), s.sha())
    return raised(
        f"{s.word()}.errors.PaymentDeclinedError",
        f"payment of {s.number()}.{s.number(10, 99)} EUR for {which} by {s.email()} declined at "
        f"{s.stamp()} after {s.took()}: insufficient funds [ref={s.secret()}]",
    )


def expired(s: Slots) -> Failure:
    return (
        f"x509: certificate has expired or is not yet valid: current time {s.time()} is after "
        f"{s.time()}"
    )


SECOND: Final = (
    Family("not subscriptable", "the type", subscript),
    Family("keyword argument", "function, argument, suggestion", keyword),
    Family("is a directory", "the path", folder),
    Family("unicode encode", "codec, character, position", encode),
    Family("statement timeout", "tuple, table", statement_timeout),
    Family("text as a number", "type, text, line, column", text_as_number),
    Family("connection pool", "seconds", pool),
    Family("mysql login", "user, host", mysql),
    Family("missing in a body", "field, input, version, how many", missing_in_body),
    Family("quota", "metric, limit, service, project", quota),
    Family("throttled", "retries", throttled),
    Family("rm busy", "path", busy),
    Family("sed expression", "expression, character", unterminated),
    Family("go deadline", "method, URL, time", deadline),
    Family("java pool", "pool, milliseconds, frames", hikari),
    Family("rust unwrap", "thread, file, line", unwrapped),
    Family("node port", "IP, port, line, frames", in_use),
    Family("node file", "path, frames", no_entry),
    Family("assertion of a length", "numbers, list", counted),
    Family("assertion of a pattern", "pattern, text", unmatched),
    Family("browser timeout", "milliseconds, locator", locator),
    Family("browser element", "selector, version, frames", element),
    Family("graph recursion", "limit", graph_limit),
    Family("PowerShell path", "path, line", powershell),
    Family("killed worker", "time, processes", dead_worker),
    Family("payment declined", "amount, id, e-mail, time, duration, reference", invoice),
    Family("expired certificate", "times", expired),
)
"""Held out at first: the rules tuned on the first set kept 95.7 % of it."""
