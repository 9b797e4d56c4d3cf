"""Checks of arguments: what is of another kind is refused with what to give instead.

They look at the type of what is given before they compare, count or show it, as an object of the
caller's may raise anything then. What one raises that is of the right type, such as a list that
cannot be read, is its own error and passes through; nothing is written.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import UTC, datetime
from functools import partial
from inspect import iscoroutinefunction
from pathlib import Path
from typing import Any, Final, TypeVar

from langmem_tiers.core.errors import ConfigurationError, InvalidInputError, InvalidTypeError, short

T = TypeVar("T")
_TWO: Final = 2


def is_number(value: object) -> bool:
    """Whether it is a number of Python's own that can be compared with others; True is none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def checked_whole(value: object, key: str, low: int, high: int) -> int:
    """A whole number in this range, or a ConfigurationError that begins with its key."""
    if isinstance(value, int) and not isinstance(value, bool) and low <= value <= high:
        return value
    raise ConfigurationError(f"{key} is a whole number from {low} to {high:,}, not {short(value)}")


def checked_count(value: object, what: str, most: int) -> int:
    """A whole number from 0 to this."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidTypeError(f"{what} is a whole number, not {type(value).__name__}")
    if not 0 <= value <= most:
        raise InvalidInputError(f"{what} is {short(value)}: use a number from 0 to {most:,}")
    return value


def checked_number(
    value: object, key: str, low: float, high: float, *, but: Collection[float] = ()
) -> None:
    """Refuse what is no number in this range, or one of those, by a ConfigurationError."""
    if not (is_number(value) and low <= value <= high and value not in but):  # type: ignore[operator]
        left_out = f" other than {' and '.join(map(str, but))}" if but else ""
        raise ConfigurationError(
            f"{key} is a number from {low} to {high:,}{left_out}, not {short(value)}"
        )


def checked_amount(
    given: object, what: str, low: float, high: float, use: str, *, above: bool = False
) -> float:
    """A number in this range, or `above` its low end; `use` says what to give instead."""
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise InvalidTypeError(f"{what} is a number, not {short(given)}: use {use}")
    if not low <= given <= high or (above and given == low):
        raise InvalidInputError(f"{what} is {short(given)}: use {use}")
    return float(given)


def check_known(given: Iterable[object], known: Iterable[str], what: str) -> None:
    """Refuse an option that is not known, and say which may be meant."""
    for key in given:
        if not isinstance(key, str) or key not in known:
            near = difflib.get_close_matches(short(key).strip("'\""), known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; known: {', '.join(known)}"
            raise ConfigurationError(f"{what} has no option {short(key)}{hint}")


def checked_flag(given: object, what: str) -> bool:
    """True or False, and nothing that is like it."""
    if not isinstance(given, bool):
        raise InvalidTypeError(f"{what} is True or False, not {short(given)}")
    return given


def checked_choice(
    given: object,
    known: Iterable[str],
    what: str,
    error: type[InvalidInputError | ConfigurationError] = InvalidInputError,
) -> str:
    """One of the names that there are."""
    names = tuple(known)
    if not isinstance(given, str) or given not in names:
        one_of = (
            " or ".join(map(repr, names)) if len(names) == _TWO else f"one of {', '.join(names)}"
        )
        raise error(f"{what} is {one_of}, not {short(given, 40)}")
    return given


def checked_list(given: Any, what: str, of: str = "strings") -> Iterable[Any]:
    """Several things that can be read one after another, and not the signs of a text."""
    if isinstance(given, str | bytes | bytearray | type) or not isinstance(given, Iterable):
        raise InvalidTypeError(f"{what} is a list of {of}, not {short(given)}")
    return given


def checked_strings(given: object, what: str) -> list[str]:
    """Texts."""
    found = list(checked_list(given, what))
    for one in found:
        if not isinstance(one, str):
            raise InvalidTypeError(f"{what} is a list of strings: {short(one)} is none")
    return found


def checked_mapping(given: object, what: str, such_as: str) -> Mapping[Any, Any]:
    """A mapping."""
    if not isinstance(given, Mapping):
        raise InvalidTypeError(f"{what} is a mapping, such as {such_as}, not {short(given)}")
    return given


def checked_kind(given: object, kind: type[T], what: str) -> T:
    """An object of a class."""
    if not isinstance(given, kind):
        raise InvalidTypeError(f"{what} is a {kind.__name__}, not {short(given)}")
    return given


def checked_function(given: object, what: str) -> None:
    """Refuse what cannot be called, and an `async def` where nobody awaits its answer.

    An object whose `__call__` is one is refused as well.
    """
    if not callable(given):
        raise InvalidTypeError(f"{what} is a function, not {short(given)}")
    called = getattr(type(given), "__call__", None)  # noqa: B004 - which of the two it is
    if iscoroutinefunction(given) or iscoroutinefunction(called):
        raise InvalidTypeError(
            f"{what} is an async function, and is asked without being awaited: give a plain one, "
            "or await yours before, as in a node that writes what it found to the state"
        )


_FIRST_YEAR, _LAST_YEAR = 1900, 9000
"""The years between which a clock may be: our own choice. Ages and lives reach to both sides."""


def checked_clock(clock: Any) -> Callable[[], datetime]:
    """A clock, the machine's for None; refuse what tells no time, or one without a time zone."""
    if clock is None:
        return partial(datetime.now, UTC)
    checked_function(clock, "clock")
    _checked_now(clock)
    return partial(_checked_now, clock)


def _checked_now(clock: Callable[[], Any]) -> datetime:
    """Read a clock.

    Raises:
        ConfigurationError: if that is no moment, has no zone, or is too far off to reckon with.
    """
    now = clock()
    if not (isinstance(now, datetime) and now.utcoffset() is not None):
        raise ConfigurationError(
            f"clock must tell timezone-aware time: datetime.now(UTC), not {short(now)}"
        )
    if not _FIRST_YEAR <= now.year < _LAST_YEAR:
        raise ConfigurationError(
            f"clock tells {now.isoformat()}: use a time from the year {_FIRST_YEAR:,} to "
            f"{_LAST_YEAR:,}, as lives and ages are reckoned from it"
        )
    return now


def checked_path(given: Any, what: str) -> Path:
    """A path that a file system can hold."""
    text = os.fspath(given) if isinstance(given, str | os.PathLike) else None
    if not isinstance(text, str):
        raise InvalidTypeError(f"{what} is a path, as a string or a Path, not {short(given)}")
    try:
        os.fsencode(text)
    except UnicodeEncodeError as error:
        raise InvalidInputError(f"{what} {short(text)} is no path: it is not Unicode") from error
    if not text or "\0" in text:
        raise InvalidInputError(f"{what} {short(text)} is no path: name a file or a directory")
    return Path(given)
