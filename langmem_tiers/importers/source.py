"""Files taken apart into JSON values, each with the line it starts on."""

from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path

from langmem_tiers.core.errors import ImportFileError, InvalidInputError
from langmem_tiers.importers.document import Document, decode
from langmem_tiers.importers.records import BadRecord, Unit, Units

_SAMPLE = 100
_BOM = b"\xef\xbb\xbf"
_SPACE = " \t\r\n"


def check_file(path: Path) -> None:
    """Raise `ImportFileError` unless the path is a readable, non-empty UTF-8 file."""
    if path.is_dir():
        raise ImportFileError(f"{path} is a directory; name one file in it")
    if not path.exists():
        raise ImportFileError(f"{path} does not exist; check the path")
    if not path.is_file():
        raise ImportFileError(f"{path} is not a regular file; save its content to one first")
    try:
        filled = sum(_is_filled(path, number, raw) for number, raw in _raw_lines(path))
    except OSError as error:
        problem = f"{path} cannot be read ({error.strerror}); check its permissions"
        raise ImportFileError(problem) from error
    if not filled:
        raise ImportFileError(f"{path} is empty; there is nothing to import")


def nonblank_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield every line that is not blank with its number, one at a time."""
    lines = ((number, raw.decode()) for number, raw in _raw_lines(path))
    return ((number, line.rstrip(_SPACE)) for number, line in lines if line.strip(_SPACE))


def units(path: Path) -> Units:
    """Yield the records of a JSON Lines file, or the elements of a JSON document."""
    if _is_document(path):
        return _document(path).units()
    return _line_units(path)


def _document(path: Path) -> Document:
    return Document(path.read_bytes().removeprefix(_BOM).decode())


def _line_units(path: Path) -> Units:
    for number, line in nonblank_lines(path):
        try:
            yield Unit(value=decode(line), where=partial(_same_line, number))
        except InvalidInputError as error:
            yield BadRecord(line=number, reason=str(error))


def _same_line(number: int, _path: tuple[str | int, ...]) -> int:
    return number


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
    if first.startswith("[") and _document(path).opens():
        return True
    return not any(line.startswith("{") and _parses(line, dict) for line in lines)


def _parses(line: str, *kinds: type) -> bool:
    try:
        return isinstance(decode(line), kinds)
    except InvalidInputError:
        return False
