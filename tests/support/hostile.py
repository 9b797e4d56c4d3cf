"""What no caller should hand over: a value of every kind that an argument may turn out to be."""

from __future__ import annotations

import asyncio
import enum
import gc
import math
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, Final, NoReturn

import numpy as np
from pydantic import BaseModel

from langmem_tiers import MemoryContext
from tests.support.opening import nested


class WaywardError(Exception):
    """What an object of the caller's raises, whatever it is asked."""


def _raises(*_: object, **__: object) -> NoReturn:
    raise WaywardError("asked for more than it can say")


class Silent:
    """Can neither be shown, compared, hashed nor counted."""

    __str__ = __repr__ = __eq__ = __hash__ = __len__ = __bool__ = _raises
    __getitem__ = __contains__ = __float__ = __index__ = __format__ = _raises


class Unread:
    """Says that it can be read, and cannot."""

    __iter__ = __len__ = __repr__ = _raises


class Unshown:
    """Cannot be shown."""

    __str__ = __repr__ = _raises


class Unequal:
    """Cannot be compared."""

    __eq__ = _raises
    __hash__ = object.__hash__


class UnshownText(str):
    """A text that cannot be shown."""

    __slots__ = ()
    __str__ = __repr__ = __format__ = _raises


class Shouting(str):
    """A text of a class of its own."""

    __slots__ = ()


class UnshownList(list[Any]):
    """A list that cannot be shown or read."""

    __repr__ = __iter__ = __len__ = _raises


class UnreadMapping(Mapping[str, Any]):
    """A mapping that cannot be read."""

    __getitem__ = __iter__ = __len__ = __repr__ = _raises


class NoZone(tzinfo):
    """A time zone that knows nothing."""

    def utcoffset(self, _: datetime | None) -> timedelta | None:
        return None

    dst = utcoffset

    def tzname(self, _: datetime | None) -> str | None:
        return None


class BrokenZone(tzinfo):
    """A time zone that fails."""

    utcoffset = dst = tzname = _raises


class Foreign(enum.Enum):
    """Members of an enumeration that is none of ours."""

    WORKING = "working"
    NUMBER = 1


class ForeignText(enum.StrEnum):
    """Texts of an enumeration that is none of ours."""

    WORKING = "working"
    NOWHERE = "nowhere"


class Model(BaseModel):
    """A model of the caller's."""

    content: str = "x"
    key: str = "k"


class Loop:
    """A coroutine function as a value, and what it makes."""

    @staticmethod
    async def coroutine(*_: object, **__: object) -> None:
        return None


def _cyclic_list() -> list[Any]:
    loop: list[Any] = []
    loop.append(loop)
    return loop


def _cyclic_mapping() -> dict[str, Any]:
    loop: dict[str, Any] = {}
    loop["in"] = loop
    return loop


def _failing() -> Iterator[str]:
    yield "x"
    raise WaywardError("no more")


HOSTILE: Final[dict[str, Callable[[], Any]]] = {
    "none": lambda: None,
    "true": lambda: True,
    "false": lambda: False,
    "nan": lambda: math.nan,
    "infinite": lambda: math.inf,
    "minus infinite": lambda: -math.inf,
    "zero": lambda: 0,
    "one": lambda: 1,
    "minus one": lambda: -1,
    "minus a half": lambda: -0.5,
    "a half": lambda: 0.5,
    "tiny": lambda: 5e-324,
    "1e308": lambda: 1e308,
    "2**31": lambda: 2**31,
    "2**63": lambda: 2**63,
    "-2**63": lambda: -(2**63) - 1,
    "10**400": lambda: 10**400,
    "10**5000": lambda: 10**5000,
    "-10**5000": lambda: -(10**5000),
    "no text": lambda: "",
    "blanks": lambda: " \t\n ",
    "a word": lambda: "word",
    "a number as text": lambda: "1e999",
    "half a megabyte": lambda: "x" * 500_000,
    "half a megabyte of signs": lambda: "[{(%" * 125_000,
    "nul": lambda: "a\0b",
    "surrogate": lambda: "a\ud800b",
    "right to left": lambda: "\u202eabc\u200f",
    "dots": lambda: "a.b..c",
    "dollars": lambda: "$.a[*].{b}",
    "a broken path": lambda: "[[[{",
    "percent": lambda: "%s %(x)s {y} {0.__class__}",
    "a time": lambda: "2026-05-04T00:00:00+00:00",
    "a far time": lambda: "9999-12-31T23:59:59-14:00",
    "an early time": lambda: "0001-01-01T00:00:00+14:00",
    "a broken pattern": lambda: "(?P<",
    "a rule": lambda: "FREQ=DAILY;INTERVAL=0",
    "a url": lambda: "s3://nowhere/there",
    "a file": lambda: "file:///proc/none",
    "bytes": lambda: b"bytes\xff",
    "bytearray": lambda: bytearray(b"x"),
    "memoryview": lambda: memoryview(b"x"),
    "list": list,
    "tuple": tuple,
    "mapping": dict,
    "set": set,
    "list of none": lambda: [None],
    "list of text": lambda: ["x"],
    "list of no text": lambda: [""],
    "list of nul": lambda: ["a\0b"],
    "list of surrogate": lambda: ["\ud800"],
    "list of number": lambda: [1],
    "list of nan": lambda: [math.nan],
    "list of list": lambda: [["x"]],
    "list of mapping": lambda: [{"x": 1}],
    "list of bytes": lambda: [b"x"],
    "list of silent": lambda: [Silent()],
    "huge list": lambda: ["x"] * 120_000,
    "list of huge": lambda: [10**5000, "x" * 500_000],
    "cyclic list": _cyclic_list,
    "cyclic mapping": _cyclic_mapping,
    "deep list": lambda: nested(3_000, lambda inner: [inner]),
    "deep mapping": lambda: nested(3_000),
    "mapping of numbers": lambda: {1: 2, None: 3},
    "mapping of tuples": lambda: {("x",): "y"},
    "mapping of silent": lambda: {"x": Silent()},
    "mapping of nan": lambda: {"x": math.nan},
    "mapping of nul": lambda: {"a\0": "b\0"},
    "mapping of surrogate": lambda: {"\ud800": "\udfff"},
    "mapping of mapping": lambda: {"content": {"x": {}}},
    "mapping of content": lambda: {"content": 5, "text": None, "role": [], "name": {}},
    "mapping of huge": lambda: {"x" * 500_000: 10**5000},
    "mapping of operators": lambda: {"$gt": {"$lt": None}},
    "huge mapping": lambda: {f"k{n}": n for n in range(3_000)},
    "mixed set": lambda: {1, "x", None, (2,)},
    "frozenset": lambda: frozenset(("x", 1)),
    "generator": lambda: (one for one in ("x", 5)),
    "failing generator": _failing,
    "range": lambda: range(3),
    "iterator": lambda: iter([None]),
    "silent": Silent,
    "unread": Unread,
    "unshown": Unshown,
    "unequal": Unequal,
    "unshown text": lambda: UnshownText("word"),
    "text of a class": lambda: Shouting("word"),
    "unshown list": lambda: UnshownList(["x"]),
    "unread mapping": UnreadMapping,
    "object": object,
    "naive": lambda: datetime(2026, 5, 4),  # noqa: DTZ001 - it is meant to have no zone
    "aware": lambda: datetime(2026, 5, 4, tzinfo=UTC),
    "least time": lambda: datetime(1, 1, 1),  # noqa: DTZ001 - it is meant to have no zone
    "least time, aware": lambda: datetime.min.replace(tzinfo=timezone(timedelta(hours=14))),
    "last time, aware": lambda: datetime.max.replace(tzinfo=timezone(timedelta(hours=-14))),
    "no zone": lambda: datetime(2026, 5, 4, tzinfo=NoZone()),
    "broken zone": lambda: datetime(2026, 5, 4, tzinfo=BrokenZone()),
    "date": lambda: date(2026, 5, 4),
    "least date": lambda: date.min,
    "longest": lambda: timedelta.max,
    "shortest": lambda: timedelta.min,
    "no time": timedelta,
    "decimal": lambda: Decimal("0.5"),
    "decimal nan": lambda: Decimal("NaN"),
    "decimal snan": lambda: Decimal("sNaN"),
    "decimal huge": lambda: Decimal("1e999999"),
    "fraction": lambda: Fraction(1, 3),
    "complex": lambda: 1j,
    "function": lambda: lambda *_, **__: None,
    "raising function": lambda: _raises,
    "type": lambda: int,
    "our type": lambda: MemoryContext,
    "coroutine function": lambda: Loop.coroutine,
    "coroutine": Loop.coroutine,
    "path": lambda: Path("nowhere"),
    "numpy integer": lambda: np.int64(3),
    "numpy float": lambda: np.float32("nan"),
    "numpy bool": lambda: np.bool_(True),  # noqa: FBT003
    "numpy text": lambda: np.str_("word"),
    "numpy array": lambda: np.zeros(3),
    "numpy array of ones": lambda: np.ones((2, 2)),
    "numpy no array": lambda: np.array([]),
    "numpy objects": lambda: np.array([None, "x"], dtype=object),
    "pydantic": Model,
    "pydantic class": lambda: Model,
    "foreign enum": lambda: Foreign.WORKING,
    "foreign enum, number": lambda: Foreign.NUMBER,
    "foreign text enum": lambda: ForeignText.WORKING,
    "foreign text enum, nowhere": lambda: ForeignText.NOWHERE,
    "error": lambda: ValueError("x"),
    "context": lambda: MemoryContext(tenant="other"),
    "ellipsis": lambda: ...,
    "not implemented": lambda: NotImplemented,
    "module": lambda: math,
    "slice": lambda: slice(None),
}
"""How each is made, by its name: some can be read only once."""


def discard(given: Any) -> None:
    """Close what would complain that nobody has waited for it."""
    if asyncio.iscoroutine(given):
        given.close()


def swept() -> None:
    """Collect what a call has left, so that a warning is of this call."""
    gc.collect()
