"""Files taken apart into JSON values, each with the line that it starts on."""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Generator, Iterator
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from langmem_tiers.core.checks import checked_path
from langmem_tiers.core.errors import ImportFileError, InvalidInputError, path_of
from langmem_tiers.importers.records import BadRecord, Where

_SAMPLE = 100
_BOM = b"\xef\xbb\xbf"
_SPACE = " \t\r\n"
_NOT_JSON = "this is not JSON: "
_BLANK = re.compile(r"[ \t\r\n]*")


class Element(NamedTuple):
    """One top-level JSON value of a file; `where` finds the line of a value inside it.

    The path given to `where` is the member names and array indexes that lead to that value.
    """

    value: Any
    where: Where
    number: int
    """Its place in the file, from 1."""


def checked_file(given: object) -> Path:
    """The path of a readable, non-empty UTF-8 file.

    Raises:
        ImportFileError: if there is none.
        InvalidInputError: for what is no path.
    """
    path = checked_path(given, "a file to import")
    try:
        if path.is_dir():
            raise ImportFileError(f"{path} is a directory; name one file in it")
        if not path.exists():
            raise ImportFileError(f"{path} does not exist; check the path")
        if not path.is_file():
            raise ImportFileError(f"{path} is not a regular file; save its content to one first")
        filled = sum(_is_filled(path, number, raw) for number, raw in _raw_lines(path))
    except OSError as error:
        problem = f"{path_of(path)} cannot be read ({error.strerror}); check its permissions"
        raise ImportFileError(problem) from error
    if not filled:
        raise ImportFileError(f"{path} is empty; there is nothing to import")
    return path


def nonblank_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield every line that is not blank with its number, one at a time."""
    lines = ((number, raw.decode()) for number, raw in _raw_lines(path))
    return ((number, line.rstrip(_SPACE)) for number, line in lines if line.strip(_SPACE))


def elements(path: Path) -> Iterator[Element | BadRecord]:
    """Yield the records of a JSON Lines file, or the elements of a JSON document."""
    if _is_document(path):
        return _Document(path).elements()
    return _line_elements(path)


def _line_elements(path: Path) -> Iterator[Element | BadRecord]:
    for number, (line, text) in enumerate(nonblank_lines(path), start=1):
        try:
            yield Element(decode(text), partial(_same_line, line), number)
        except InvalidInputError as error:
            yield BadRecord(line=line, reason=str(error))


def _same_line(line: int, _: tuple[str | int, ...]) -> int:
    return line


def _raw_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    with path.open("rb") as file:
        for number, raw in enumerate(file, start=1):
            yield number, raw.removeprefix(_BOM) if number == 1 else raw


def _is_filled(path: Path, number: int, raw: bytes) -> bool:
    try:
        return bool(raw.decode().strip(_SPACE))
    except UnicodeDecodeError as error:
        raise ImportFileError(
            f"{path} is not UTF-8 text (line {number}); save it as UTF-8 and import it again"
        ) from error


def _is_document(path: Path) -> bool:
    """Tell one JSON document from JSON Lines by the first lines, without reading the rest."""
    lines = [line for _, line in islice(nonblank_lines(path), _SAMPLE)]
    first = lines[0].lstrip(_SPACE)
    if first[:1] not in "[{" or len(lines) == 1:
        return first.startswith("[")
    if _parses(first, list, dict):
        return False
    if first.startswith("[") and _opens_array(path):
        return True
    return not any(_parses(one, dict) for one in lines if one[0] == "{")


def _opens_array(path: Path) -> bool:
    """Tell whether a file begins as an array of objects or lists does, and not as a broken line."""
    element = next(_Document(path).elements(), None)
    return element is None or (
        isinstance(element, Element) and isinstance(element.value, dict | list)
    )


def _parses(line: str, *kinds: type) -> bool:
    try:
        return isinstance(decode(line), kinds)
    except InvalidInputError:
        return False


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


_Member = tuple[str | int, int, Any]
"""The name or index of a member, its offset and its value."""


class _Document:
    """The text of a JSON document, usually an array."""

    def __init__(self, path: Path) -> None:
        self._text = path.read_bytes().removeprefix(_BOM).decode()
        self._children: dict[int, dict[str | int, int]] = {}

    @cached_property
    def _newlines(self) -> list[int]:
        return [found.start() for found in re.finditer("\n", self._text)]

    def elements(self) -> Iterator[Element | BadRecord]:
        """Yield the elements of the array, or the one value that is no array.

        After an element that is not JSON nothing more can be told apart: it is the last.
        """
        try:
            for number, (_, offset, value) in enumerate(self._top(), start=1):
                yield Element(value, partial(self._line_of, offset), number)
        except _BrokenAtError as error:
            yield BadRecord(line=self._line(error.offset), reason=str(error))

    def _top(self) -> Iterator[_Member]:
        start = _skip(self._text, 0)
        if self._text.startswith("[", start):
            end = yield from self._members(start)
        else:
            value, end = self._decode(start)
            yield 0, start, value
        if _skip(self._text, end) != len(self._text):
            raise _BrokenAtError(_skip(self._text, end), "more text follows the document")

    def _members(self, start: int) -> Generator[_Member, None, int]:
        """Yield each member of an array or object; return where that ends."""
        text, closing = self._text, "]" if self._text[start] == "[" else "}"
        offset, index = _skip(text, start + 1), 0
        while not text.startswith(closing, offset):
            name: str | int = index
            if closing == "}":
                name, end = self._decode(offset)
                offset = _skip(text, _skip(text, end) + 1)
            value, end = self._decode(offset)
            yield name, offset, value
            offset, index = self._next(end, closing), index + 1
        return offset + 1

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
            if offset not in self._children:
                self._children[offset] = {name: at for name, at, _ in self._members(offset)}
            offset = self._children[offset][step]
        return self._line(offset)
