"""Write and read the file of an export: gzip of JSON Lines, a header, one row per line, an end.

    {"langmem_tiers_export": 1, "export": "…", "tenant": "acme", "schema": 27, …}
    ["memories", {"tenant": "acme", "id": 7, "key": "address", …}]
    {"end": {"rows": {"memories": 1}, "sha256": "…"}}

The checksum covers all lines before the end, so it shows whether the file was cut or changed. It
does not show who made the file.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any, Final, NamedTuple, NoReturn, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from langmem_tiers.core.checks import checked_path
from langmem_tiers.core.config import Bounds
from langmem_tiers.core.errors import FileError, InvalidInputError, short, short_path
from langmem_tiers.core.exported_tables import EXPORTED_TABLES
from langmem_tiers.forget.unfinished_exports import lock_file, part_path

FORMAT: Final = 1
BATCH_ROWS: Final = 500
BATCH_BYTES: Final = 8_000_000
"""The most rows and bytes that one transaction writes: our own choice."""
_LONGEST_HEADER: Final = 65_536
_BESIDE_VALUE: Final = 8_000_000
"""The most bytes of a line beside values: words (Postgres holds 1 MB), a vector, ids."""
_VALUES: Final = 2
"""The most values of the largest size in a line: an event quotes one, and has its own detail."""
MOST_DIGITS: Final = 15_000
"""The most digits of a JSON number, about as many as Postgres keeps behind the point."""
_LEVEL: Final = 5
_ESCAPED: Final = b"\\u0000"
_NUL: Final = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
_MARK: Final = "\0"
"""Prefix of a number that is kept as it was written. No text of a file contains it."""
_MARKED: Final = re.compile(r'"\\u0000([^"]*)"')
_NUMBER: Final = re.compile(r"-?(\d+)(?:\.(\d+))?(?:[eE]([-+]?\d{1,6}))?")
_LONGEST_INT: Final = 4_000
"""The most digits of a whole number that Python parses."""
_PLAIN: Final = 20
"""The most characters of a whole number that is read as an int."""
_ORDER: Final = {table: place for place, table in enumerate(EXPORTED_TABLES)}


class VectorShape(BaseModel):
    """The type and dimensions of a database's vectors."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
    dims: int
    vector_type: str


class ExportHeader(BaseModel):
    """The first line of an export."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
    format: int = Field(alias="langmem_tiers_export")
    export: str
    """Unique name of the export."""
    tenant: str
    at: str
    """Time at which the export began, as ISO 8601 in UTC."""
    schema_version: int = Field(alias="schema")
    """The latest migration of its database."""
    vectors: VectorShape | None
    language: str | None
    """Language of the word index."""
    model: str | None
    """The embedding model, if a wheel ships it and it is known; else None."""
    rows: dict[str, int]
    """Number of rows by table."""

    @property
    def total(self) -> int:
        """Return the number of all rows."""
        return sum(self.rows.values())


class ExportLine(NamedTuple):
    """A row of a file."""

    number: int
    """Number of the line, from 1."""
    row: dict[str, Any]


_SizedRow: TypeAlias = tuple[str, ExportLine, int]
"""A table, a row of it, and the row's bytes."""


class ExportBatch(NamedTuple):
    """Consecutive rows of one table."""

    table: str
    lines: list[ExportLine]


def check_target(value: object) -> Path:
    """Return the path of a new file in an existing directory.

    Raises:
        InvalidInputError: if it is no such path.
    """
    path = checked_path(value, "a file to export to")
    try:
        there, has_place = path.exists(), path.parent.is_dir()
    except OSError as error:
        raise InvalidInputError(
            f"{short_path(path)} cannot be a file ({error.strerror}): name another"
        ) from error
    if there:
        raise InvalidInputError(f"{path} is there already: name a new file")
    if not has_place:
        raise InvalidInputError(f"{path.parent} is no directory: make it first")
    return path


class ExportWriter:
    """Writes an export under a temporary name, and renames it once it is complete."""

    def __init__(self, path: Path) -> None:
        """Create the file. Only its owner may read it."""
        self.path = path
        self.part = part_path(path)
        """Temporary path of the file. The file is locked until it is complete."""
        self._rows = Counter[str]()
        self._hash = hashlib.sha256()
        self._writing = Lock()
        """Makes `discard` wait for a thread that still writes."""
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
            self._raw = os.fdopen(os.open(self.part, flags, 0o600), "wb")
            lock_file(self._raw.fileno())
        except OSError as error:
            raise self._write_error(error) from error
        self._file = gzip.GzipFile("", "wb", _LEVEL, self._raw, mtime=0)

    def begin(self, header: ExportHeader) -> None:
        """Write the header."""
        self._write(header.model_dump_json(by_alias=True) + "\n")

    def add(self, table: str, rows: Iterable[tuple[str]]) -> None:
        """Write rows of a table, each as JSON from Postgres."""
        lines = [f'["{table}",{row[0]}]\n' for row in rows]
        self._rows[table] += len(lines)
        self._write("".join(lines))

    def finish(self) -> int:
        """Write the end, rename the file, and return its size in bytes."""
        end = {"rows": dict(self._rows), "sha256": self._hash.hexdigest()}
        self._write(json.dumps({"end": end}) + "\n")
        try:
            self._file.close()
            self._raw.flush()
            os.fsync(self._raw.fileno())
            self._raw.close()
            self.part.rename(self.path)
            return self.path.stat().st_size
        except OSError as error:
            raise self._write_error(error) from error

    def discard(self) -> None:
        """Close and delete the temporary file."""
        with self._writing:
            for file in (self._file, self._raw):
                with suppress(OSError, ValueError):
                    file.close()
            self.part.unlink(missing_ok=True)

    def _write(self, text: str) -> None:
        data = text.encode()
        self._hash.update(data)
        try:
            with self._writing:
                self._file.write(data)
        except OSError as error:
            raise self._write_error(error) from error

    def _write_error(self, error: OSError) -> InvalidInputError:
        return InvalidInputError(
            f"{short_path(self.path)} cannot be written ({error.strerror}): free some space, or "
            "name another place. Nothing is left of it"
        )


class ExportReader:
    """Reads an export in batches, and checks it to its end.

    Raises InvalidInputError with the number of the line that is wrong.
    """

    def __init__(self, path: object, bounds: Bounds | None = None) -> None:
        """Open a file and read its header. `bounds`, or the default, limit the size of values."""
        self.path = checked_path(path, "an export")
        self._longest = _VALUES * (bounds or Bounds()).value_bytes + _BESIDE_VALUE
        self._hash = hashlib.sha256()
        self._number = 0
        self._rows = self._read_rows()
        self._next: _SizedRow | None = None
        """The first row of the next batch, if it was read already."""
        try:
            self._raw = self.path.open("rb")
        except OSError as error:
            problem = f"{short_path(self.path)} cannot be read ({error.strerror}); check the path"
            raise FileError(problem, code="import_file") from error
        self._file = gzip.GzipFile(fileobj=self._raw)
        try:
            self.header = self._read_header()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the file."""
        self._raw.close()

    def read_batch(self) -> ExportBatch | None:
        """Read the next rows, all of one table; None at a correct end of the file."""
        first = self._next or next(self._rows, None)
        self._next = None
        if first is None:
            return None
        table, line, size = first
        lines = [line]
        for following in self._rows:
            name, line, more = following
            size += more
            if name != table or len(lines) == BATCH_ROWS or size > BATCH_BYTES:
                self._next = following
                break
            lines.append(line)
        return ExportBatch(table, lines)

    def line_error(self, number: int, why: str) -> InvalidInputError:
        """Return the error for a line."""
        return InvalidInputError(f"{short_path(self.path)}, line {number}: {why}")

    def _read_header(self) -> ExportHeader:
        value = self._decode(self._read_line(_LONGEST_HEADER))
        try:
            header = ExportHeader.model_validate(value)
        except ValidationError as error:
            wrong = error.errors(include_url=False, include_input=False)[0]
            where = short(".".join(map(str, wrong["loc"])))
            why = f"this is no header of an export ({where}: {wrong['msg']})"
            raise self.line_error(self._number, why) from error
        if header.format != FORMAT:
            raise self.line_error(
                self._number, f"an export of format {header.format}; this package reads {FORMAT}"
            )
        if not set(header.rows) <= set(EXPORTED_TABLES):
            raise self.line_error(self._number, "it names tables that no export has")
        return header

    def _read_rows(self) -> Iterator[_SizedRow]:
        """Read each row, and check at the end that the file is complete and unchanged."""
        at, rows, digest = 0, Counter[str](), ""
        end: dict[str, Any] | None = None
        while end is None:
            digest = self._hash.hexdigest()
            raw = self._read_line(self._longest)
            match self._decode(raw):
                case [str(table), dict(row)] if table in _ORDER:
                    if _ORDER[table] < at:
                        raise self.line_error(self._number, f"a row of {table} stands too late")
                    at = _ORDER[table]
                    rows[table] += 1
                    yield table, ExportLine(self._number, row), len(raw)
                case {"end": dict(found)}:
                    end = found
                case _:
                    raise self.line_error(self._number, "this is no row of a table that is carried")
        named = {table: number for table, number in self.header.rows.items() if number}
        if end != {"rows": dict(rows), "sha256": digest} or named != rows:
            raise self.line_error(
                self._number, "the file is not as it was written: rows are missing or changed"
            )
        if self._read_bytes(1):
            raise self.line_error(self._number + 1, "something follows the end of the export")

    def _read_line(self, longest: int) -> bytes:
        """Read the next line. Of a longer line only `longest` bytes are held in memory."""
        self._number += 1
        raw = self._read_bytes(longest)
        if not raw.endswith(b"\n"):
            why = "the file is cut off here"
            if len(raw) == longest:
                why = f"the line has more than {longest:,} bytes"
                if longest == self._longest:
                    why += (
                        ": open the store with bounds=Bounds(value_bytes=…) to take larger values"
                    )
            raise self.line_error(self._number, why)
        self._hash.update(raw)
        return raw

    def _read_bytes(self, most: int) -> bytes:
        try:
            return self._file.readline(most)
        except gzip.BadGzipFile as error:
            raise self.line_error(self._number, f"this is not gzip ({error})") from error
        except (EOFError, zlib.error) as error:
            raise self.line_error(
                self._number, f"the file is cut off or damaged ({error})"
            ) from error
        except OSError as error:
            problem = f"{short_path(self.path)} cannot be read ({error.strerror})"
            raise FileError(problem, code="import_file") from error

    def _decode(self, raw: bytes) -> Any:
        if _ESCAPED in raw and _NUL.search(raw):  # JSON has no raw NUL
            raise self.line_error(self._number, "a text has a NUL, which Postgres cannot store")
        try:
            return _DECODER.decode(raw.decode())
        except UnicodeDecodeError as error:
            raise self.line_error(self._number, "this is not UTF-8") from error
        except RecursionError as error:
            raise self.line_error(self._number, "this is nested too deeply") from error
        except ValueError as error:
            raise self.line_error(self._number, f"this is not JSON: {short(str(error))}") from error


def encode_json(value: object) -> str:
    """Encode a value that was read as JSON, with its numbers as they were written.

    Raises:
        ValueError: if a text is no valid Unicode.
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    text.encode()
    return _MARKED.sub(r"\1", text)


def python_value(value: object) -> Any:
    """Return the value as Python parses JSON. A number that is too long for an int is a float."""
    return json.loads(encode_json(value), parse_int=_python_int)


def _python_int(text: str) -> float:
    return int(text) if len(text) <= _LONGEST_INT else float(text)


def _exact_number(text: str) -> Any:
    """Keep a JSON number as it was written: it may be more exact or larger than a float."""
    match = _NUMBER.fullmatch(text)
    whole, behind, exponent = ("", "", "") if match is None else match.groups(default="")
    if match is None or len(whole) + len(behind) + abs(int(exponent or 0)) > MOST_DIGITS:
        raise ValueError("a number is too large, or too exact")
    return _MARK + text


def _whole_number(text: str) -> Any:
    return int(text) if len(text) <= _PLAIN else _exact_number(text)


def _reject_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a JSON number")


_DECODER: Final = json.JSONDecoder(
    parse_float=_exact_number, parse_int=_whole_number, parse_constant=_reject_constant
)
