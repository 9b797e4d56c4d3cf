"""Kinds of failure that signatures are tried on, and what is accidental about each."""

from __future__ import annotations

import builtins
import json
import re
from collections.abc import Callable
from pydoc import locate
from typing import Any, Final, NamedTuple

from benchmarks.data import Record, records
from benchmarks.failure_slots import Slots

Failure = BaseException | str
"""An exception of Python, or the output of a program."""


class Family(NamedTuple):
    name: str
    mutated: str
    make: Callable[[Slots], Failure]


def raised(name: str, message: str) -> BaseException:
    """An exception of Python, or of a package that need not be installed."""
    module, _, last = name.rpartition(".")
    kind: Any = vars(builtins).get(name) or type(last, (Exception,), {"__module__": module})
    failure: BaseException = kind(message)
    return failure


def _made(record: Record, s: Slots) -> Failure:
    bound = s.drawn(record)
    if "with" in record:
        kind: Any = locate(record["raises"])
        failure: BaseException = kind(*s.tree(record["with"], bound))
        return failure
    name = s.filled(record.get("raises", ""), bound) if "raises" in record else ""
    said = s.filled(record["says"], bound)
    return raised(name, said) if name else str(said)


# ---- what no template can make --------------------------------------------------------------


def _json_error(s: Slots) -> Failure:
    try:
        json.loads(" " * s.number(0, 9) + s.one("{'a'", "{a", "{x: 1"))
    except json.JSONDecodeError as error:
        return error
    raise AssertionError


def _regex_error(s: Slots) -> Failure:
    try:
        re.compile(s.name() + "(" + s.word())
    except re.error as error:
        return error
    raise AssertionError


def _syntax_error(s: Slots) -> Failure:
    place = (s.path(), s.number(1), s.number(1, 80), f"{s.name()} = = 1\n")
    return SyntaxError("invalid syntax", place)


def _decode(s: Slots) -> Failure:
    start = s.number()
    return UnicodeDecodeError(
        "utf-8", bytes([s.rng.randint(128, 193)]), start, start + 1, "invalid start byte"
    )


def _encode(s: Slots) -> Failure:
    start = s.number()
    codec = s.one("ascii", "latin-1", "charmap", "cp1252")
    return UnicodeEncodeError(codec, "é" * (start + 2), start, start + 1, "character not mapped")


def _go_panic(s: Slots) -> Failure:
    size = s.number(1, 90)
    return (
        f"panic: runtime error: index out of range [{size + s.number()}] with length {size}\n\n"
        f"goroutine {s.number(1, 90)} [running]:\nmain.{s.kind()}(...)\n"
        f"\t{s.file('.go')}:{s.number(1)} +{s.address()}\nexit status 2"
    )


def _problem(s: Slots) -> Failure:
    return json.dumps(
        {
            "type": "https://example.org/problems/out-of-stock",
            "title": "Unprocessable Entity",
            "status": 422,
            "code": "OUT_OF_STOCK",
            "detail": f"item {s.number()} of order {s.uuid()}: {s.sentence()}",
            "instance": f"/orders/{s.number()}",
            "timestamp": s.stamp(),
            "traceId": s.hexadecimal(32),
        },
        ensure_ascii=False,
        indent=2 if s.number() % 2 else None,
    )


def _login(s: Slots) -> Failure:
    return (
        f"{s.one('Jan', 'Nov')} {s.number(1, 28):2} 03:{s.number(10, 59)}:05 {s.container()} "
        f"sshd[{s.number(1)}]: Failed password for invalid user {s.word()} from {s.ip()} port "
        f"{s.port()} ssh2"
    )


def _missing_in_body(s: Slots) -> Failure:
    item = {
        "type": "missing",
        "loc": ["body", s.name()],
        "msg": "Field required",
        "input": {s.name(): s.value()},
        "url": f"https://errors.pydantic.dev/2.{s.number(1, 12)}/v/missing",
    }
    return json.dumps({"detail": [item] * s.rng.randint(1, 2)})


def _element(s: Slots) -> Failure:
    selector = json.dumps({"method": "css selector", "selector": f"#{s.slug()}"})
    frames = "\n".join(f"#{n} {s.address()} <unknown>" for n in range(s.rng.randint(2, 5)))
    return raised(
        "selenium.common.exceptions.NoSuchElementException",
        f"Message: no such element: Unable to locate element: {selector}\n  (Session info: "
        f"chrome={s.number(90, 140)}.0.{s.number()}.{s.number(1, 99)})\nStacktrace:\n{frames}\n",
    )


def _positional(s: Slots) -> Failure:
    takes = s.number(0, 4)
    owner = s.one(s.name(), f"{s.kind()}.{s.name()}")
    plural = "" if takes == 1 else "s"
    return TypeError(
        f"{owner}() takes {takes} positional argument{plural} but {takes + 1} were given"
    )


_MADE: Final[dict[str, Callable[[Slots], Failure]]] = {
    "JSON": _json_error,
    "regex": _regex_error,
    "syntax": _syntax_error,
    "unicode": _decode,
    "unicode encode": _encode,
    "go panic": _go_panic,
    "problem details": _problem,
    "sshd login": _login,
    "missing in a body": _missing_in_body,
    "browser element": _element,
    "positional arguments": _positional,
}


def _family(record: Record) -> Family:
    name: str = record["name"]
    return Family(name, record["mutated"], _MADE.get(name) or (lambda s: _made(record, s)))


FAMILIES: Final = tuple(map(_family, records("failures")))
HELD_OUT: Final = frozenset(one["name"] for one in records("failures") if one["set"] == "held out")
"""Those that no rule was tuned on."""
