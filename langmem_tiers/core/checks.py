"""Checks of arguments and of records: what is of another kind is refused with what to give instead.

They look at the type of what is given before they compare, count or show it, as an object of the
caller's may raise anything then. What one raises that is of the right type, such as a list that
cannot be read, is its own error and passes through; nothing is written.

A field of a `record` is checked by the function that its annotation names (`validated_by`), else by
its type.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import field
from datetime import UTC, datetime
from functools import partial, wraps
from inspect import iscoroutinefunction
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeGuard, TypeVar, dataclass_transform
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import ConfigDict, PlainValidator, ValidationError, ValidationInfo
from pydantic.dataclasses import dataclass

from langmem_tiers.core.errors import (
    ConfigurationError,
    InvalidInputError,
    InvalidTypeError,
    TieredMemoryError,
    short,
)

T = TypeVar("T")
_TWO: Final = 2


MAX_NAMESPACE_BYTES: Final = 400
MAX_KEY_BYTES: Final = 1024


def utf8_bytes(text: str, what: str) -> int:
    """Count the bytes of a text that Postgres can hold: no lone surrogates, no NUL."""
    if "\0" in text:
        raise InvalidInputError(f"the {what} holds a NUL character, which Postgres cannot store")
    if text.isascii():
        return len(text)
    try:
        return len(text.encode())
    except UnicodeEncodeError as error:
        raise InvalidInputError(
            f"the {what} holds a lone surrogate (position {error.start}): it is not valid "
            "Unicode; decode it properly, or with errors='replace'"
        ) from error


def check_key(key: object) -> str:
    """Check a key and return it.

    Raises:
        InvalidTypeError: if it is not a string.
        InvalidInputError: if it is over 1,024 bytes of UTF-8 or not valid Unicode.
    """
    if not isinstance(key, str):
        raise InvalidTypeError(f"a key is a string, not {type(key).__name__}")
    if (size := utf8_bytes(key, "key")) > MAX_KEY_BYTES:
        raise InvalidInputError(
            f"the key has {size} bytes; use a shorter one ({MAX_KEY_BYTES} at most) and keep "
            "the rest in the value"
        )
    return key


def is_number(value: object) -> TypeGuard[int | float]:
    """Tell whether a value is an int or a float; a bool is neither."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_whole(value: object) -> TypeGuard[int]:
    """Tell whether a value is an int; a bool is none."""
    return isinstance(value, int) and not isinstance(value, bool)


ErrorClass: TypeAlias = type[InvalidInputError | ConfigurationError]
"""The class of error that a check raises: for an argument, or for a setting."""


def _wrong_kind(error: ErrorClass) -> ErrorClass:
    return InvalidTypeError if error is InvalidInputError else error


def checked_number(
    value: object,
    what: str,
    low: float,
    high: float,
    *,
    but: Collection[float] = (),
    use: str = "",
    error: ErrorClass = InvalidInputError,
) -> float:
    """Check a number: in this range, and none of `but`; `use` describes the expected value."""
    if is_number(value) and low <= value <= high and value not in but:
        return value
    left_out = f" other than {' and '.join(map(str, but))}" if but else ""
    wanted = use or f"a number from {low} to {high:,}{left_out}"
    refused = error if is_number(value) else _wrong_kind(error)
    raise refused(f"{what} is {wanted}, not {short(value)}")


def checked_whole(
    value: object, what: str, low: int, high: int, error: ErrorClass = InvalidInputError
) -> int:
    """Check a whole number in this range."""
    if is_whole(value) and low <= value <= high:
        return value
    refused = error if is_whole(value) else _wrong_kind(error)
    raise refused(f"{what} is a whole number from {low} to {high:,}, not {short(value)}")


def suggest_name(value: object, names: Iterable[str]) -> str:
    """Say which of these names is meant, or which there are, if none is near."""
    names = tuple(names)
    near = difflib.get_close_matches(short(value).strip("'\""), names, n=1)
    return f"did you mean {near[0]!r}?" if near else f"known: {', '.join(names)}"


def check_known(options: Iterable[object], names: Iterable[str], what: str) -> None:
    """Refuse an option that is not known, and say which may be meant."""
    for key in options:
        if not isinstance(key, str) or key not in names:
            raise ConfigurationError(
                f"{what} has no option {short(key)}; {suggest_name(key, names)}"
            )


def checked_flag(value: object, what: str, error: ErrorClass = InvalidInputError) -> bool:
    """Check that an argument is True or False; 0 and 1 are refused."""
    if not isinstance(value, bool):
        raise _wrong_kind(error)(f"{what} is True or False, not {short(value)}")
    return value


def checked_switch(value: object, key: str) -> bool:
    """Check that a setting is True or False."""
    return checked_flag(value, key, ConfigurationError)


def checked_choice(
    value: object,
    names: Iterable[str],
    what: str,
    error: ErrorClass = InvalidInputError,
) -> str:
    """Check that a value is one of these names."""
    names = tuple(names)
    if not isinstance(value, str) or value not in names:
        one_of = (
            " or ".join(map(repr, names)) if len(names) == _TWO else f"one of {', '.join(names)}"
        )
        raise error(f"{what} is {one_of}, not {short(value, 40)}")
    return value


def checked_list(value: Any, what: str, of: str = "strings") -> Iterable[Any]:
    """Check that a value is iterable, and no text."""
    if isinstance(value, str | bytes | bytearray | type) or not isinstance(value, Iterable):
        raise InvalidTypeError(f"{what} is a list of {of}, not {short(value)}")
    return value


def checked_strings(value: object, what: str) -> list[str]:
    """Check a list of strings."""
    strings = list(checked_list(value, what))
    for string in strings:
        if not isinstance(string, str):
            raise InvalidTypeError(f"{what} is a list of strings: {short(string)} is none")
    return strings


def checked_mapping(value: object, what: str, such_as: str) -> Mapping[Any, Any]:
    """Check a mapping."""
    if not isinstance(value, Mapping):
        raise InvalidTypeError(f"{what} is a mapping, such as {such_as}, not {short(value)}")
    return value


def checked_label(named: object, what: str) -> str | None:
    """Check a name of 1 to 400 bytes, or None.

    Raises:
        InvalidInputError: for anything else.
    """
    if named is None:
        return None
    if not isinstance(named, str):
        raise InvalidTypeError(f"{what} is a string, not {type(named).__name__}")
    if not 0 < utf8_bytes(named, what) <= MAX_NAMESPACE_BYTES:
        raise InvalidInputError(f"{what} has 1 to {MAX_NAMESPACE_BYTES} bytes of UTF-8")
    return named


def checked_name(value: object, what: str) -> str:
    """Check a name of 1 to 400 bytes."""
    if (label := checked_label(value, what)) is None:
        raise InvalidTypeError(f"{what} is a string, not None")
    return label


def checked_share(number: object, what: str) -> float | None:
    """Check a number in 0…1, or None."""
    return None if number is None else float(checked_number(number, what, 0, 1))


def parsed_moment(moment: datetime | str, what: str) -> datetime:
    """Convert a datetime or an ISO 8601 text to UTC.

    Raises:
        InvalidInputError: for one without a time zone, text that is no date, or what is beyond the
            years 1 to 9999.
    """
    if isinstance(moment, str):
        try:
            moment = datetime.fromisoformat(moment)
        except ValueError as error:
            raise InvalidInputError(
                f"{what} {short(moment, 40)} is no date: use a datetime or ISO 8601"
            ) from error
    if not isinstance(moment, datetime):
        raise InvalidTypeError(f"{what} is a datetime, not {type(moment).__name__}")
    if moment.tzinfo is None:
        raise InvalidInputError(
            f"{what} needs a time zone: datetime(…, tzinfo=UTC) or an ISO 8601 text with +00:00"
        )
    try:
        return moment.astimezone(UTC)
    except OverflowError as error:
        raise InvalidInputError(
            f"{what} lies beyond the calendar in UTC: {short(moment)}"
        ) from error


def normalised_tags(tags: object, what: str = "tags") -> list[str]:
    """Normalise tags: lower case, words joined by hyphens, each once."""
    normalised = []
    for tag in checked_list(tags, what, "strings, such as ['python']"):
        if not isinstance(tag, str):
            raise InvalidTypeError(f"a tag is a string, not {type(tag).__name__}")
        utf8_bytes(tag, "tag")
        if not tag.strip():
            raise InvalidInputError("a tag is blank: leave it out")
        normalised.append("-".join(tag.split()).lower())
    return list(dict.fromkeys(normalised))


def checked_instance(value: object, kind: type[T], what: str) -> T:
    """Check that a value is an instance of a class."""
    if not isinstance(value, kind):
        raise InvalidTypeError(f"{what} is a {kind.__name__}, not {short(value)}")
    return value


def checked_function(value: object, what: str) -> None:
    """Refuse what cannot be called, and an `async def` where nobody awaits its answer.

    An object whose `__call__` is one is refused as well.
    """
    if not callable(value):
        raise InvalidTypeError(f"{what} is a function, not {short(value)}")
    called = getattr(type(value), "__call__", None)  # noqa: B004 - which of the two it is
    if iscoroutinefunction(value) or iscoroutinefunction(called):
        raise InvalidTypeError(
            f"{what} is an async function, and is asked without being awaited: give a plain one, "
            "or await yours before, as in a node that writes what it found to the state"
        )


_FIRST_YEAR, _LAST_YEAR = 1900, 9000
"""The years between which a clock may be: our own choice. Ages and lives reach to both sides."""


def checked_clock(clock: Any) -> Callable[[], datetime]:
    """Check a clock, the machine's for None; its time needs a time zone."""
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


def checked_path(value: Any, what: str) -> Path:
    """Check a path that a file system can hold."""
    text = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if not isinstance(text, str):
        raise InvalidTypeError(f"{what} is a path, as a string or a Path, not {short(value)}")
    try:
        os.fsencode(text)
    except UnicodeEncodeError as error:
        raise InvalidInputError(f"{what} {short(text)} is no path: it is not Unicode") from error
    if not text or "\0" in text:
        raise InvalidInputError(f"{what} {short(text)} is no path: name a file or a directory")
    return Path(value)


def zone_of(name: object) -> ZoneInfo:
    """Look up a time zone by its name.

    Raises:
        InvalidInputError: if there is none.
    """
    if not isinstance(name, str):
        raise InvalidTypeError(f"a time zone is a name, not {type(name).__name__}")
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise InvalidInputError(
            f"{short(name, 40)} is no time zone: use a name such as 'UTC' or 'Europe/Berlin'"
        ) from error


# Records that are checked as they are made, by pydantic

_CONFIG: Final = ConfigDict(extra="forbid")
_WANTED: Final = {
    "bool_type": "True or False",
    "int_type": "a whole number",
    "tuple_type": "a list",
}
"""The expected value, by pydantic's name of the error."""


def validated_by(check: Callable[[Any, str], Any]) -> PlainValidator:
    """Validate a field by a function of its value and its name."""

    def checked(value: Any, field: ValidationInfo) -> Any:
        return check(value, field.field_name or "it")

    return PlainValidator(checked)


def number_between(low: float, high: float, *, but: Collection[float] = ()) -> PlainValidator:
    """Validate that a field is a number in this range, and none of `but`."""

    def check(value: Any, name: str) -> Any:
        return checked_number(value, name, low, high, but=but, error=ConfigurationError)

    return validated_by(check)


def whole_between(low: int, high: int) -> PlainValidator:
    """Validate that a field is a whole number in this range; else ConfigurationError."""
    return validated_by(
        lambda value, name: checked_whole(value, name, low, high, ConfigurationError)
    )


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(field,))
def record(cls: type[T]) -> type[T]:
    """Make a class a frozen dataclass whose keywords pydantic checks."""
    made: Any = dataclass(cls, frozen=True, slots=True, kw_only=True, config=_CONFIG)
    check = made.__init__

    @wraps(check)
    def init(self: object, *args: Any, **fields: Any) -> None:
        try:
            check(self, *args, **fields)
        except ValidationError as error:
            raise _refusal(cls.__name__, error) from None

    made.__init__ = init
    record_class: type[T] = made
    return record_class


def _refusal(what: str, error: ValidationError) -> TieredMemoryError:
    """Turn pydantic's first error into one of ours."""
    wrong = error.errors(include_url=False)[0]
    ours = wrong.get("ctx", {}).get("error")
    if isinstance(ours, TieredMemoryError):
        return ours
    name, shown = ".".join(map(str, wrong["loc"])), short(wrong["input"])
    if wrong["type"] == "missing":
        return InvalidInputError(f"{what} needs {name}: give it")
    if wrong["type"] in _WANTED:
        return InvalidTypeError(f"{name} is {_WANTED[wrong['type']]}, not {shown}")
    refused = InvalidTypeError if wrong["type"].endswith("_type") else InvalidInputError
    return refused(f"{name} of {what}: {wrong['msg']}; see {shown}")
