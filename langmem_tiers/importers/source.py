"""Readers of files: they split one into JSON values, each with the line that it starts on."""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Generator, Iterator
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from langmem_tiers.core.checks import checked_path
from langmem_tiers.core.errors import FileError, InvalidInputError, short_path
from langmem_tiers.importers.records import BadRecord, LineFinder

_SAMPLE = 100
_BOM = b"\xef\xbb\xbf"
_SPACE = " \t\r\n"
_NOT_JSON = "this is not JSON: "
_BLANK = re.compile(r"[ \t\r\n]*")


class Element(NamedTuple):
    """Top-level JSON value of a file; `find_line` returns the line of a value inside it.

    `find_line` takes the path to that value: member names and array indexes.
    """

    value: Any
    find_line: LineFinder
    number: int
    """Position in the file, from 1."""


# Lines


def check_file(value: object) -> Path:
    """Return the path of a readable, non-empty UTF-8 file.

    Raises:
        FileError (import_file): if there is none.
        InvalidInputError: if the value is no path.
    """
    path = checked_path(value, "a file to import")
    try:
        if path.is_dir():
            raise FileError(f"{path} is a directory; name one file in it", code="import_file")
        if not path.exists():
            raise FileError(f"{path} does not exist; check the path", code="import_file")
        if not path.is_file():
            raise FileError(
                f"{path} is not a regular file; save its content to one first", code="import_file"
            )
        filled = sum(1 for _ in _numbered_lines(path))
    except OSError as error:
        problem = f"{short_path(path)} cannot be read ({error.strerror}); check its permissions"
        raise FileError(problem, code="import_file") from error
    if not filled:
        raise FileError(f"{path} is empty; there is nothing to import", code="import_file")
    return path


def _numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield every line that is not blank, with its number."""
    with path.open("rb") as file:
        for number, raw in enumerate(file, start=1):
            try:
                line = (raw.removeprefix(_BOM) if number == 1 else raw).decode().rstrip(_SPACE)
            except UnicodeDecodeError as error:
                raise FileError(
                    f"{path} is not UTF-8 text (line {number}); save it as UTF-8 and import it "
                    "again",
                    code="import_file",
                ) from error
            if line:
                yield number, line


# Values


def read_elements(path: Path) -> Iterator[Element | BadRecord]:
    """Yield the records of a JSON Lines file, or the elements of a JSON document."""
    return _read_document(path) if _is_document(path) else _read_lines(path)


def _read_lines(path: Path) -> Iterator[Element | BadRecord]:
    for number, (line, text) in enumerate(_numbered_lines(path), start=1):
        try:
            yield Element(_decode(text), partial(_same_line, line), number)
        except InvalidInputError as error:
            yield BadRecord(line=line, reason=str(error))


def _same_line(line: int, _: tuple[str | int, ...]) -> int:
    return line


def _read_document(path: Path) -> Iterator[Element | BadRecord]:
    """Yield the elements of a document's array, or its one value.

    An element that is not JSON is the last: where the next one starts is unknown.
    """
    text = path.read_bytes().removeprefix(_BOM).decode()

    @cache
    def newlines() -> list[int]:
        return [match.start() for match in re.finditer("\n", text)]

    @cache
    def member_offsets(offset: int) -> dict[str | int, int]:
        return {name: at for name, at, _ in _iterate_members(text, offset)}

    def line(offset: int, path: tuple[str | int, ...]) -> int:
        for step in path:
            offset = member_offsets(offset)[step]
        return bisect_left(newlines(), offset) + 1

    try:
        for number, (_, offset, value) in enumerate(_iterate_document(text), start=1):
            yield Element(value, partial(line, offset), number)
    except _BrokenError as error:
        reason = f"{error}; nothing after it was read"
        yield BadRecord(line=line(error.offset, ()), reason=reason)


def _is_document(path: Path) -> bool:
    """Return True for one JSON document, False for JSON Lines; read the first lines only."""
    lines = [line for _, line in islice(_numbered_lines(path), _SAMPLE)]
    first = lines[0].lstrip(_SPACE)
    if first[:1] not in "[{" or len(lines) == 1:
        return first.startswith("[")
    if _decodes_to(first, list, dict):
        return False
    if first.startswith("["):  # an array of objects or lists, not a broken line
        element = next(_read_document(path), None)
        if element is None or (
            isinstance(element, Element) and isinstance(element.value, dict | list)
        ):
            return True
    return not any(_decodes_to(line, dict) for line in lines if line[0] == "{")


def _decodes_to(line: str, *kinds: type) -> bool:
    try:
        return isinstance(_decode(line), kinds)
    except InvalidInputError:
        return False


# JSON


class _BrokenError(InvalidInputError):
    """Error: the value that starts at `offset` is not JSON."""

    def __init__(self, offset: int, problem: str) -> None:
        super().__init__(problem)
        self.offset = offset


def _reject_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a JSON number")


_DECODER = json.JSONDecoder(parse_constant=_reject_constant)


def _skip_space(text: str, offset: int) -> int:
    match = _BLANK.match(text, offset)
    return match.end() if match else offset


def _decode(text: str) -> object:
    """Decode a text that is one JSON value; raise `InvalidInputError` for any other text."""
    value, end = _decode_value(text, _skip_space(text, 0))
    if _skip_space(text, end) != len(text):
        raise InvalidInputError(f"{_NOT_JSON}more text follows the value (column {end + 1})")
    return value


def _decode_value(text: str, offset: int) -> tuple[Any, int]:
    """Return the value that starts at `offset`, and the offset of its end."""
    try:
        return _DECODER.raw_decode(text, offset)
    except RecursionError as error:
        raise _BrokenError(offset, "this is nested too deeply; flatten it") from error
    except json.JSONDecodeError as error:
        line = f"line {error.lineno}, " if "\n" in text else ""
        problem = f"{_NOT_JSON}{error.msg} ({line}column {error.colno})"
        raise _BrokenError(offset, problem) from error
    except ValueError as error:
        raise _BrokenError(offset, f"{_NOT_JSON}{error}") from error


_Member = tuple[str | int, int, Any]
"""Name or index of a member, its offset and its value."""


def _iterate_document(text: str) -> Iterator[_Member]:
    """Yield each element of a document's array, or its one value."""
    start = _skip_space(text, 0)
    if text.startswith("[", start):
        end = yield from _iterate_members(text, start)
    else:
        value, end = _decode_value(text, start)
        yield 0, start, value
    if (rest := _skip_space(text, end)) != len(text):
        raise _BrokenError(rest, f"{_NOT_JSON}more text follows the document")


def _iterate_members(text: str, start: int) -> Generator[_Member, None, int]:
    """Yield each member of an array or object; return the offset of its end."""
    closing = "]" if text[start] == "[" else "}"
    offset, index = _skip_space(text, start + 1), 0
    while not text.startswith(closing, offset):
        name: str | int = index
        if closing == "}":
            name, end = _decode_value(text, offset)
            offset = _skip_space(text, _skip_space(text, end) + 1)
        value, end = _decode_value(text, offset)
        yield name, offset, value
        offset, index = _skip_space(text, end), index + 1
        if not text.startswith(closing, offset):
            following = _skip_space(text, offset + 1)
            if not text.startswith(",", offset) or text.startswith(closing, following):
                problem = f"a comma or {closing} is missing, or one too many"
                raise _BrokenError(offset, f"{_NOT_JSON}{problem}")
            offset = following
    return offset + 1
