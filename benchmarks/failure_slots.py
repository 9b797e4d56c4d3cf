"""What is accidental about a failure: seeded names, numbers, places and times; and their templates.

A template has `{slots}`: a method of `Slots`, a slot of data/failure_slots.jsonl, or what was drawn
before, as `{the_name}`. `{number:1 90}` is given arguments, `{said!r}` is converted. `{one:a|b}` is
one of several, all of which are drawn; `{many:1 5|, |{name}}` so many, joined; `{odd:text}` is
there or not. Everything is drawn from left to right.
"""

from __future__ import annotations

import base64
import json
import random
import string
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

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

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

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
