"""Kinds of failure that signatures are tried on, and what is accidental about each."""

from __future__ import annotations

from typing import Final

from benchmarks import failure_exceptions as exceptions
from benchmarks import failure_outputs as outputs
from benchmarks.failure_families_wide import WIDE
from benchmarks.failure_family import Family
from benchmarks.failure_held_out import HELD_OUT_FAMILIES
from benchmarks.failure_second import SECOND
from benchmarks.failure_third import THIRD

_FIRST: Final = (
    Family("KeyError", "the key", lambda s: KeyError(s.said())),
    Family(
        "attribute of None",
        "the attribute",
        lambda s: AttributeError(f"'NoneType' object has no attribute '{s.name()}'"),
    ),
    Family(
        "attribute of a module",
        "module, attribute",
        lambda s: AttributeError(f"module '{s.name()}' has no attribute '{s.kind()}'"),
    ),
    Family("missing argument", "function, argument", exceptions.argument),
    Family(
        "invalid int",
        "the text",
        lambda s: ValueError(f"invalid literal for int() with base 10: {s.said()!r}"),
    ),
    Family("list index", "nothing", lambda _: IndexError("list index out of range")),
    Family("zero division", "nothing", lambda _: ZeroDivisionError("division by zero")),
    Family(
        "recursion",
        "nothing",
        lambda _: RecursionError("maximum recursion depth exceeded while calling a Python object"),
    ),
    Family(
        "module not found",
        "the module",
        lambda s: ModuleNotFoundError(
            f"No module named '{s.one(s.name(), s.word() + '.' + s.name())}'"
        ),
    ),
    Family(
        "file not found",
        "the path",
        lambda s: FileNotFoundError(2, "No such file or directory", s.path()),
    ),
    Family("permission", "the path", lambda s: PermissionError(13, "Permission denied", s.path())),
    Family("disk full", "the path", lambda s: OSError(28, "No space left on device", s.path())),
    Family("unicode", "byte, position", exceptions.decode),
    Family("name", "the name", lambda s: NameError(f"name '{s.name()}' is not defined")),
    Family("syntax", "path, line, code", exceptions.syntax_error),
    Family("regex", "pattern, position", exceptions.regex_error),
    Family("JSON", "line, column", exceptions.json_error),
    Family("timeout without a message", "nothing", lambda _: TimeoutError()),
    Family(
        "cancelled", "nothing", lambda _: exceptions.raised("asyncio.exceptions.CancelledError", "")
    ),
    Family("subprocess exit 128", "command", exceptions.exit_status),
    Family(
        "connection refused",
        "host, port",
        lambda s: ConnectionRefusedError(111, f"Connect call failed ('{s.ip()}', {s.port()})"),
    ),
    Family("HTTP 404", "URL", lambda s: exceptions.status(s, "404 Not Found")),
    Family("HTTP 503", "URL", lambda s: exceptions.status(s, "503 Service Unavailable")),
    Family("DNS", "host, port, path, address", exceptions.unresolved),
    Family("TLS certificate", "line of C", exceptions.tls),
    Family("rate limit", "organization, limits, time", exceptions.rate_limit),
    Family("context length", "tokens", exceptions.context_length),
    Family("unique key", "constraint, key, value", exceptions.unique_key),
    Family("foreign key", "table, constraint, statement, parameters", exceptions.foreign_key),
    Family("SQL syntax", "word, line", exceptions.near_word),
    Family("password", "IP, port, user", exceptions.login),
    Family("pandas columns", "the columns", exceptions.index_missing),
    Family("validation", "model, field, value, version", exceptions.validation),
    Family("assertion of pytest", "both values, function, diff", exceptions.compared),
    Family("assertion of unittest", "both values, message", exceptions.not_equal),
    Family("GPU memory", "sizes, GPU", exceptions.cuda),
    Family("git merge conflict", "files, how many", outputs.merge_conflict),
    Family("npm tree", "packages, versions, log", outputs.npm),
    Family("tsc name", "file, line, name, how many", outputs.tsc),
    Family("cargo types", "package, file, line, names", outputs.cargo),
    Family("go vet", "package, file, line, name", outputs.go_vet),
    Family("go panic", "index, length, goroutine, file", outputs.go_panic),
    Family("rust panic", "thread, file, line, form", outputs.rust_panic),
    Family("node undefined", "property, file, frames", outputs.node_undefined),
    Family("java null", "class, method, thread, frames", outputs.java),
    Family("docker port", "endpoint, IP, port", outputs.docker),
    Family("kubernetes pod", "pod", outputs.kubernetes),
    Family("kubernetes image", "image, times", outputs.image_pull),
    Family("command not found", "command, script, line, shell", outputs.command),
    Family("killed", "script, line, process", outputs.killed),
    Family(
        "import of a name",
        "name, module, path",
        lambda s: ImportError(f"cannot import name '{s.name()}' from '{s.name()}' ({s.path()})"),
    ),
    Family(
        "unbound local",
        "the name",
        lambda s: UnboundLocalError(
            f"cannot access local variable '{s.name()}' where it is not associated with a value"
        ),
    ),
    Family("git push rejected", "remote, branch", outputs.rejected),
    Family("docker image", "image", outputs.docker_image),
    Family("subprocess timeout", "command, seconds", exceptions.timed_out),
    Family("npm 404", "package", outputs.npm_missing),
    Family("make", "target, line, folder", outputs.make_error),
    Family("node module", "module, files, frames", outputs.node_module),
    Family("pip", "package, versions", outputs.pip),
    Family("redis refused", "host, port", exceptions.redis),
    Family("mongo refused", "host, port, times, ids", exceptions.mongo),
    Family("cloud role", "account, role, user, bucket", exceptions.cloud_role),
    Family("terraform lock", "id, path, user, time", outputs.state_lock),
    Family("ansible service", "host, role, task, service", outputs.playbook),
    Family("gradle task", "project, time", outputs.gradle),
    Family("linker", "files, functions, offset", outputs.linker),
    Family("ruby nil", "file, line, methods", outputs.ruby),
    Family("php function", "function, files, lines", outputs.php),
    Family("elasticsearch index", "index", exceptions.no_index),
    Family("celery time limit", "time, worker, task, id", outputs.time_limit),
)

FAMILIES: Final = (*_FIRST, *WIDE, *SECOND, *THIRD, *HELD_OUT_FAMILIES)
HELD_OUT: Final = frozenset(one.name for one in HELD_OUT_FAMILIES)
"""Those that no rule was tuned on."""
