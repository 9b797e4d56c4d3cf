"""One JSON document, decoded an element at a time, that knows the line of every value in it."""

import json
import re
from bisect import bisect_left
from collections.abc import Iterator
from functools import cached_property, partial
from typing import Any, NoReturn

from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.importers.records import BadRecord, Unit, Units

_NOT_JSON = "this is not JSON: "
_BLANK = re.compile(r"[ \t\r\n]*")


class _BrokenAtError(InvalidInputError):
    """Text that is not JSON, in the record that starts at `offset`."""

    def __init__(self, offset: int, problem: str) -> None:
        super().__init__(f"{_NOT_JSON}{problem}; nothing after it was read")
        self.offset = offset


def decode(text: str) -> object:
    """Decode a text that is one JSON value; raise `InvalidInputError` for any other."""
    value, end = _value(text, _skip(text, 0))
    if _skip(text, end) != len(text):
        raise InvalidInputError(f"{_NOT_JSON}more text follows the value (column {end + 1})")
    return value


def _value(text: str, offset: int) -> tuple[Any, int]:
    try:
        value, end = _DECODER.raw_decode(text, offset)
    except RecursionError as error:
        raise InvalidInputError("this is nested too deeply; flatten it") from error
    except json.JSONDecodeError as error:
        line = f"line {error.lineno}, " if "\n" in text else ""
        place = f"{line}column {error.colno}"
        raise InvalidInputError(f"{_NOT_JSON}{error.msg} ({place})") from error
    except ValueError as error:
        raise InvalidInputError(f"{_NOT_JSON}{error}") from error
    return value, end


def _reject(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a JSON number")


_DECODER = json.JSONDecoder(parse_constant=_reject)


def _skip(text: str, offset: int) -> int:
    found = _BLANK.match(text, offset)
    return found.end() if found else offset


class Document:
    """The text of a JSON document, usually an array."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._children: dict[int, dict[str | int, int]] = {}

    @cached_property
    def _newlines(self) -> list[int]:
        return [found.start() for found in re.finditer("\n", self._text)]

    def opens(self) -> bool:
        """Tell whether the text starts as a JSON array of objects or lists does."""
        first = next(self.units(), None)
        return first is None or (isinstance(first, Unit) and isinstance(first.value, dict | list))

    def units(self) -> Units:
        """Yield the elements of the array, or the one value that is no array.

        After an element that is not JSON nothing more can be told apart: it is the last.
        """
        try:
            for offset, value in self._top():
                yield Unit(value=value, where=partial(self._line_of, offset))
        except _BrokenAtError as error:
            yield BadRecord(line=self._line(error.offset), reason=str(error))

    def _top(self) -> Iterator[tuple[int, Any]]:
        start = _skip(self._text, 0)
        if self._text.startswith("[", start):
            end = start + 1
            for _, offset, value, after in self._members(start):
                yield offset, value
                end = after
            end = _skip(self._text, end) + 1
        else:
            value, end = self._decode(start)
            yield start, value
        if _skip(self._text, end) != len(self._text):
            raise _BrokenAtError(_skip(self._text, end), "more text follows the document")

    def _members(self, start: int) -> Iterator[tuple[str | int, int, Any, int]]:
        """Yield name or index, offset, value and end of each member of an array or object."""
        text, closing = self._text, "]" if self._text[start] == "[" else "}"
        offset, index = _skip(text, start + 1), 0
        while not text.startswith(closing, offset):
            name, offset = self._name(offset) if closing == "}" else (index, offset)
            value, end = self._decode(offset)
            yield name, offset, value, end
            offset, index = self._next(end, closing), index + 1

    def _name(self, offset: int) -> tuple[str, int]:
        name, end = self._decode(offset)
        return name, _skip(self._text, _skip(self._text, end) + 1)

    def _decode(self, offset: int) -> tuple[Any, int]:
        try:
            return _value(self._text, offset)
        except InvalidInputError as error:
            problem = str(error).removeprefix(_NOT_JSON)
            raise _BrokenAtError(offset, problem) from error

    def _next(self, end: int, closing: str) -> int:
        offset = _skip(self._text, end)
        if self._text.startswith(closing, offset):
            return offset
        following = _skip(self._text, offset + 1)
        if not self._text.startswith(",", offset) or self._text.startswith(closing, following):
            raise _BrokenAtError(offset, f"a comma or {closing} is missing, or one too many")
        return following

    def _line(self, offset: int) -> int:
        return bisect_left(self._newlines, offset) + 1

    def _line_of(self, offset: int, path: tuple[str | int, ...]) -> int:
        for step in path:
            offset = self._offsets(offset)[step]
        return self._line(offset)

    def _offsets(self, start: int) -> dict[str | int, int]:
        if start not in self._children:
            self._children[start] = {name: at for name, at, *_ in self._members(start)}
        return self._children[start]
