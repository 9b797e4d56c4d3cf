"""A third set of kinds of failure, with what is accidental in every shape."""

from __future__ import annotations

import json
from typing import Final

from benchmarks.failure_exceptions import raised
from benchmarks.failure_family import Failure, Family
from benchmarks.failure_outputs import node_frames
from benchmarks.failure_slots import Slots


def positional(s: Slots) -> Failure:
    takes = s.number(0, 4)
    owner = s.one(s.name(), f"{s.kind()}.{s.name()}")
    plural = "" if takes == 1 else "s"
    return TypeError(
        f"{owner}() takes {takes} positional argument{plural} but {takes + 1} were given"
    )


def in_use(s: Slots) -> Failure:
    return OSError(98, f"error while attempting to bind on address ('{s.ip()}', {s.port()})")


def allocate(s: Slots) -> Failure:
    return MemoryError(
        f"Unable to allocate {s.size()} for an array with shape ({s.number()}, {s.number()}) and "
        "data type float64"
    )


def option(s: Slots) -> Failure:
    return raised("configparser.NoOptionError", f"No option '{s.name()}' in section: '{s.word()}'")


def yaml(s: Slots) -> Failure:
    return raised(
        "yaml.scanner.ScannerError",
        f'mapping values are not allowed here\n  in "{s.anywhere()}", line {s.number(1)}, column '
        f"{s.number(1, 80)}",
    )


def keyword(s: Slots) -> Failure:
    known = ", ".join(s.name() for _ in range(s.rng.randint(2, 6)))
    return raised(
        "django.core.exceptions.FieldError",
        f"Cannot resolve keyword '{s.name()}' into field. Choices are: {known}",
    )


def queue_pool(s: Slots) -> Failure:
    return raised(
        "sqlalchemy.exc.TimeoutError",
        f"QueuePool limit of size {s.number(1, 90)} overflow {s.number(1, 90)} reached, connection "
        f"timed out, timeout {s.number(1, 90)}.00 (Background on this error at: "
        "https://sqlalche.me/e/20/3o7r)",
    )


def connector(s: Slots) -> Failure:
    return raised(
        "aiohttp.client_exceptions.ClientConnectorError",
        f"Cannot connect to host {s.host()}:{s.port()} ssl:default [Connect call failed "
        f"('{s.ip()}', {s.port()})]",
    )


def check(s: Slots) -> Failure:
    row = ", ".join(s.one("null", s.sentence(), s.stamp(), str(s.number())) for _ in range(3))
    return raised(
        "psycopg.errors.CheckViolation",
        f'new row for relation "{s.name()}" violates check constraint "{s.name()}_check"\n'
        f"DETAIL:  Failing row contains ({row}).",
    )


def column(s: Slots) -> Failure:
    name = s.name()
    hint = f'\nHINT:  Perhaps you meant to reference the column "{s.name()}.{s.name()}".'
    return raised(
        "psycopg.errors.UndefinedColumn",
        f'column "{name}" does not exist\nLINE '  # noqa: S608 - it is said
        f"{s.number(1, 90)}: SELECT {name} FROM {s.name()}\n"
        f"               ^{s.one('', hint)}",
    )


def server(s: Slots) -> Failure:
    return raised(
        "psycopg.OperationalError",
        f'connection failed: connection to server at "{s.host()}" ({s.ip()}), port {s.port()} '
        "failed: Connection refused\n\tIs the server running on that host and accepting TCP/IP "
        "connections?",
    )


def model(s: Slots) -> Failure:
    return OSError(
        f"{s.one(s.slug(), s.word() + '/' + s.slug())} is not a local folder and is not a valid "
        f"model identifier listed on '{s.url()}'"
    )


def forbidden(s: Slots) -> Failure:
    return raised(
        "requests.exceptions.HTTPError", f"403 Client Error: Forbidden for url: {s.url()}"
    )


def called_once(s: Slots) -> Failure:
    return AssertionError(
        f"Expected '{s.name()}' to have been called once. Called {s.number(2, 90)} times.\nCalls: "
        f"[call({s.value()!r}), call({s.number()})]."
    )


def is_none(s: Slots) -> Failure:
    found = s.one(s.object_at(), repr(s.value()), s.mapping())
    return AssertionError(f"assert {found} is None\n +  where {found} = {s.name()}()")


def existing(s: Slots) -> Failure:
    return f"mkdir: cannot create directory \u2018{s.anywhere()}\u2019: File exists"


def tar(s: Slots) -> Failure:
    return (
        f"tar: {s.file('.tar.gz')}: Cannot open: No such file or directory\n"
        "tar: Error is not recoverable: exiting now"
    )


def no_process(s: Slots) -> Failure:
    return f"{s.one('', f'bash: line {s.number(1)}: ')}kill: ({s.number(1)}) - No such process"


def container_name(s: Slots) -> Failure:
    return (
        "docker: Error response from daemon: Conflict. The container name "
        f'"/{s.container()}" is already in use by container "{s.hexadecimal(64)}". You have to '
        "remove (or rename) that container to be able to reuse that name."
    )


def rbac(s: Slots) -> Failure:
    return (
        f'Error from server (Forbidden): pods "{s.container()}" is forbidden: User "{s.email()}" '
        f'cannot delete resource "pods" in API group "" in the namespace "{s.slug()}"'
    )


def api_limit(s: Slots) -> Failure:
    return json.dumps(
        {
            "message": f"API rate limit exceeded for {s.one(s.ip(), s.ipv6())}. (But here's the "
            "good news: Authenticated requests get a higher rate limit.)",
            "documentation_url": s.url(),
        }
    )


def grant(s: Slots) -> Failure:
    return json.dumps(
        {
            "error": "invalid_grant",
            "error_description": f"AADSTS70008: The code {s.secret()} expired at {s.stamp()}.",
            "trace_id": s.uuid(),
        }
    )


def detail(s: Slots) -> Failure:
    return json.dumps({"detail": f"Item {s.one(str(s.number()), s.uuid(), s.sha())} not found"})


def reference(s: Slots) -> Failure:
    return (
        f"{s.path()}:{s.number(1)}\n{s.name()}();\n^\n\nReferenceError: {s.name()} is not "
        f"defined\n{node_frames(s)}"
    )


def bounds(s: Slots) -> Failure:
    owner = f"com.{s.word()}.{s.kind()}"
    return (
        f'Exception in thread "{s.thread()}" java.lang.ArrayIndexOutOfBoundsException: Index '
        f"{s.number()} out of bounds for length {s.number()}\n\tat {owner}.{s.name()}"
        f"({s.kind()}.java:{s.number(1)})"
    )


def nil_map(s: Slots) -> Failure:
    return (
        f"panic: assignment to entry in nil map\n\ngoroutine {s.number(1)} [running]:\n"
        f"main.{s.kind()}({s.address()}, {s.address()})\n\t{s.file('.go')}:{s.number(1)} "
        f"+{s.address()}\nexit status 2"
    )


def unmarshal(s: Slots) -> Failure:
    return (
        f"{s.one('', s.time() + ' ')}json: cannot unmarshal string into Go struct field "
        f"{s.kind()}.{s.name()} of type int"
    )


def rust_bounds(s: Slots) -> Failure:
    return (
        f"thread '{s.one('main', s.name())}' panicked at {s.file('.rs')}:{s.number(1)}:5:\nindex "
        f"out of bounds: the len is {s.number()} but the index is {s.number()}"
    )


def dotnet(s: Slots) -> Failure:
    return (
        "Unhandled exception. System.NullReferenceException: Object reference not set to an "
        f"instance of an object.\n   at {s.kind()}.{s.kind()}() in {s.path()}:line {s.number(1)}\n"
        f"   at {s.kind()}.Main(String[] args) in {s.path()}:line {s.number(1)}"
    )


def tool_quota(s: Slots) -> Failure:
    return (
        f"Tool `{s.name()}` failed [call_{s.token(16)}] after {s.took()}: quota of {s.size()} per "
        f"{s.one('user', 'user')} {s.quoted()} exceeded"
    )


def json_log(s: Slots) -> Failure:
    return json.dumps(
        {"level": "error", "ts": s.time(), "msg": f"dial {s.ip()}:{s.port()}: no route to host"}
    )


def checksum(s: Slots) -> Failure:
    return (
        f"THESE PACKAGES DO NOT MATCH THE HASHES: {s.url()}\n    Expected sha256 "
        f"{s.hexadecimal(64)}\n         Got        {s.hexadecimal(64)}"
    )


THIRD: Final = (
    Family("positional arguments", "function, how many", positional),
    Family("bind", "IP, port", in_use),
    Family("array memory", "size, shape", allocate),
    Family("config option", "option, section", option),
    Family("YAML", "path, line, column", yaml),
    Family("ORM keyword", "field, choices, how many", keyword),
    Family("queue pool", "size, overflow, timeout", queue_pool),
    Family("client connector", "host, ports, IP", connector),
    Family("check constraint", "table, constraint, row", check),
    Family("missing column", "column, table, line, hint", column),
    Family("database refused", "host, IP, port", server),
    Family("model identifier", "model, URL", model),
    Family("HTTP 403", "URL", forbidden),
    Family("mock called", "name, how often, arguments", called_once),
    Family("assertion of None", "object, value", is_none),
    Family("mkdir", "path", existing),
    Family("tar", "path", tar),
    Family("kill", "process, line", no_process),
    Family("container name", "name, hash", container_name),
    Family("RBAC", "pod, user, namespace", rbac),
    Family("API rate limit", "address, URL", api_limit),
    Family("OAuth grant", "code, time, trace", grant),
    Family("detail of an item", "id", detail),
    Family("node reference", "name, path, frames", reference),
    Family("java bounds", "index, length, thread, frames", bounds),
    Family("go map", "goroutine, file, addresses", nil_map),
    Family("go JSON", "struct, field, time", unmarshal),
    Family("rust bounds", "thread, file, numbers", rust_bounds),
    Family(".NET null", "methods, paths, lines", dotnet),
    Family("tool quota", "tool, call, duration, size, user", tool_quota),
    Family("JSON log", "time, IP, port", json_log),
    Family("package hashes", "URL, hashes", checksum),
)
"""Held out at first: the rules tuned on the second set as well kept 96.3 % of it."""
