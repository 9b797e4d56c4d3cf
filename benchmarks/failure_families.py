"""Kinds of failure that signatures are tried on, and what is accidental about each.

A template has `{slots}`: a method of `Slots`, a slot of data/failure_slots.jsonl, or what was drawn
before, as `{the_name}`. `{number:1 90}` is given arguments, `{said!r}` is converted. `{one:a|b}` is
one of several, all of which are drawn; `{many:1 5|, |{name}}` so many, joined; `{odd:text}` is
there or not. Everything is drawn from left to right.
"""

from __future__ import annotations

import base64
import builtins
import json
import random
import re
import string
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pydoc import locate
from typing import Any, Final, NamedTuple

from benchmarks.data import Record, records

_WORDS: Final = (
    *("user", "order", "invoice", "customer", "session", "token", "payload", "report", "config"),
    *("cache", "queue", "billing", "widget", "ledger", "parser", "worker", "gateway", "profile"),
    *("timeout", "error", "status", "path", "index", "value", "record", "batch", "feature"),
)
_TEMPLATES: Final = {one["slot"]: one for one in records("failure_slots")}
_CONVERTED: Final[Mapping[str, Callable[[Any], str]]] = {
    "r": repr,
    "j": lambda said: json.dumps(said, ensure_ascii=False),
    "u": str.upper,
    "l": str.lower,
    "t": str.title,
    "1": lambda said: said[0],
    "2": lambda number: f"{number:02}",
}


class Slots:
    """Fills for the slots of a failure's text; the same seed gives the same fills."""

    def __init__(self, rng: random.Random, family: str = "") -> None:
        self.rng, self.family = rng, family

    # ---- templates --------------------------------------------------------------------------

    def drawn(self, record: Record) -> dict[str, Any]:
        """What a record has drawn first."""
        bound: dict[str, Any] = {}
        for name, template in record.get("let", {}).items():
            bound[f"the_{name}"] = self.filled(template, bound)
        if "body" in record:
            bound["body"] = self.tree(record["body"], bound)
        return bound

    def tree(self, value: Any, bound: Mapping[str, Any]) -> Any:
        """A JSON value with all its templates filled."""
        if isinstance(value, Mapping):
            return {self.filled(name, bound): self.tree(one, bound) for name, one in value.items()}
        if isinstance(value, tuple):
            return [self.tree(one, bound) for one in value]
        return self.filled(value, bound) if isinstance(value, str) else value

    def filled(self, template: str, bound: Mapping[str, Any]) -> Any:
        """A template with its slots filled; a lone slot stays what it is."""
        parts: list[Any] = []
        for text, slot, given, conversion in _FORMAT.parse(template):
            parts += [text] if text else []
            if slot is not None:
                value = self._slot(slot, given or "", bound)
                parts.append(_CONVERTED[conversion](value) if conversion else value)
        return parts[0] if len(parts) == 1 else "".join(map(str, parts))

    def _slot(self, slot: str, given: str, bound: Mapping[str, Any]) -> Any:
        if slot in bound:
            return bound[slot]
        if slot in _SHAPES:
            return _SHAPES[slot](self, given, bound)
        if slot in _TEMPLATES:
            return self.filled(_TEMPLATES[slot]["says"], self.drawn(_TEMPLATES[slot]))
        return getattr(self, slot)(*(int(one) if one.isdigit() else one for one in given.split()))

    def __getattr__(self, slot: str) -> Callable[[], str]:
        """What a slot of the data says."""
        if slot not in _TEMPLATES:
            raise AttributeError(slot)
        return lambda: self._slot(slot, "", {})

    # ---- what no template can draw ----------------------------------------------------------

    def one(self, *choices: str) -> str:
        return self.rng.choice(choices)

    def number(self, least: int = 0, most: int = 99_999) -> int:
        """A number whose count of digits varies as much as its value."""
        return self.rng.randint(least, min(most, 10 ** self.rng.randint(1, 6) + least))

    def word(self) -> str:
        return self.rng.choice(_WORDS)

    def name(self) -> str:
        """An identifier in snake_case, with a number now and then."""
        name = "_".join(self.rng.sample(_WORDS, self.rng.randint(1, 3)))
        return name + self.one("", "", "", "_id", "2", "_v1")

    def kind(self) -> str:
        """An identifier in CamelCase."""
        return "".join(word.title() for word in self.rng.sample(_WORDS, self.rng.randint(1, 2)))

    def slug(self) -> str:
        """A name with hyphens, as packages, branches and pods have."""
        return "-".join(self.rng.sample(_WORDS, self.rng.randint(1, 3)))

    def uuid(self) -> str:
        digits = f"{self.rng.getrandbits(128):032x}"
        return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))

    def hexadecimal(self, digits: int = 40) -> str:
        return f"{self.rng.getrandbits(4 * digits):0{digits}x}"

    def sha(self) -> str:
        return self.hexadecimal(self.rng.choice((7, 12, 32, 40, 64)))

    def token(self, length: int = 24) -> str:
        return "".join(self.rng.choices(string.ascii_letters + string.digits, k=length))

    def secret(self) -> str:
        text = base64.b64encode(self.rng.randbytes(self.rng.choice((12, 20, 33)))).decode()
        return self.one("", "", "sk-", "Bearer ") + text

    def address(self) -> str:
        return f"0x{self.rng.getrandbits(48):012x}"

    def ip(self) -> str:
        return ".".join(str(self.rng.randint(1, 254)) for _ in range(4))

    def port(self) -> int:
        return self.rng.randint(80, 65_535)

    def time(self) -> str:
        return self._moment().strftime(
            self.one("%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d %H:%M:%S,%f", "%Y/%m/%d %H:%M:%S")
        )

    def stamp(self) -> str:
        """A time as logs print it."""
        moment = self._moment()
        shapes = ("%Y-%m-%dT%H:%M:%S.%f+02:00", "%b %d %H:%M:%S", "%a, %d %b %Y %H:%M:%S GMT")
        return self.one(self.time(), moment.isoformat(), *map(moment.strftime, shapes))

    def _moment(self) -> datetime:
        return datetime(2023, 1, 1, tzinfo=UTC) + timedelta(seconds=self.rng.randrange(10**8))

    def file(self, suffix: str = "") -> str:
        """The path of a file as a compiler prints it: from the project's folder, or whole."""
        local = f"{self.folder_of_code()}/{self.name()}{suffix}"
        whole = f"/home/{self.one('ada', 'ci')}/{self.one('shop', 'etl_jobs')}/{local}"
        return self.one(local, f"./{local}", whole)

    def path(self) -> str:
        folder = self.folder()
        gap = "\\" if "\\" in folder else "/"
        return gap.join((folder, self.folder_of_code(), self.name() + self.one(".py", ".json")))

    def url(self) -> str:
        place = f"{self.host()}:{self.port()}" if self.rng.random() < 0.3 else self.host()
        query = f"?q={self.token(6)}&page={self.number()}" if self.rng.random() < 0.3 else ""
        return f"{self.one('http', 'https')}://{place}/{self.word()}/{self.uuid()}{query}"

    def listed(self) -> str:
        return repr([self.one(self.word(), str(self.number())) for _ in range(self.number(0, 4))])

    def mapping(self) -> str:
        return repr({self.name(): self.one(self.word(), self.said()) for _ in range(2)})


def _one(s: Slots, given: str, bound: Mapping[str, Any]) -> str:
    return s.rng.choice([str(s.filled(one, bound)) for one in _split(given)])


def _many(s: Slots, given: str, bound: Mapping[str, Any]) -> str:
    often, gap, template = _split(given)
    count = s.rng.randint(*map(int, often.split())) if " " in often else int(often)
    return gap.join(str(s.filled(template, bound)) for _ in range(count))


def _odd(s: Slots, given: str, bound: Mapping[str, Any]) -> str:
    said = s.filled(given, bound)
    return str(said) if s.number() % 2 else ""


def _json(_: Slots, given: str, bound: Mapping[str, Any]) -> str:
    return json.dumps(bound["body"], indent=int(given) if given else None)


_SHAPES: Final = {"one": _one, "many": _many, "odd": _odd, "json": _json}
_FORMAT: Final = string.Formatter()


def _split(given: str) -> list[str]:
    """What stands between bars, but for those of inner slots."""
    parts, depth = [""], 0
    for letter in given:
        depth += {"{": 1, "}": -1}.get(letter, 0)
        if letter == "|" and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


# ---- families ------------------------------------------------------------------------------

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
