"""Conversation and memory files, read as records that can be stored.

Reading is pure: no database is touched. The five formats (see `Format`) are detected by the content
of a file, never by its name. Every record of a file becomes exactly one `Record`, or one
`BadRecord` that names its line and its fault.
"""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from langmem_tiers.core.checks import checked_choice
from langmem_tiers.core.errors import FileError, InvalidInputError
from langmem_tiers.importers.formats import FORMATS
from langmem_tiers.importers.records import (
    BadRecord,
    Format,
    Record,
    RecordMaker,
    check_tenant,
    to_label,
)
from langmem_tiers.importers.source import check_file, read_elements

__all__ = ["BadRecord", "Format", "Record", "count_records", "detect_format", "read_records"]

_SAMPLE = 100
_SUPPORTED = (
    "locomo (conversations with session_1, session_2, …), "
    "langchain (messages_to_dict or dumpd), "
    "openai (role and content, also as {messages: […]} a line), "
    "chatgpt (conversations.json of its data export) and "
    "jsonl (an object a line, with content or text)"
)


def detect_format(path: Path) -> Format:
    """Return the format of a file, detected by the first record that has a known one.

    Only the first hundred records are looked at; the file's name does not matter.
    Raises `FileError` (import_file) for a file that is missing, a directory, empty, not UTF-8 or in
    none of the formats.
    """
    return _recognise_format(check_file(path))


def read_records(
    path: Path,
    *,
    format: Format | None = None,  # noqa: A002  # the command line uses the word
    tenant: str | None = None,
) -> Iterator[Record | BadRecord]:
    r"""Read a file's memories, in the file's order.

    Without `format` it is detected. `tenant` wins over any in the file; without both, it is
    the file's name without its extension. JSON Lines are read line by line, JSON documents
    whole. A message list, a LoCoMo session and a ChatGPT conversation are one session each.

    Raises, before the first record, `FileError` as `detect_format` does, and
    `InvalidInputError` for a tenant that cannot start a namespace.

    >>> import tempfile
    >>> notes = Path(tempfile.mkdtemp(), "notes.jsonl")
    >>> _ = notes.write_text('{"content": "Ana likes tea", "key": "tea"}\n{"content": 7}')
    >>> for each in read_records(notes):
    ...     print(each.key if isinstance(each, Record) else each)
    tea
    BadRecord(line=2, reason='there is no `content` or `text` that is text')
    """
    check_tenant(tenant)
    file = check_file(path)
    file_format = None if format is None else checked_choice(format, Format, "format")
    return _make_records(
        file, _recognise_format(file) if file_format is None else Format(file_format), tenant
    )


def count_records(path: Path, *, format: Format | None = None) -> int:  # noqa: A002  # as above
    """Return how many items `read_records` yields for a file, good and bad.

    The file is read once. Raises `FileError` as `read_records` does.
    """
    return sum(1 for _ in read_records(path, format=format))


def _make_records(
    path: Path, file_format: Format, tenant: str | None
) -> Iterator[Record | BadRecord]:
    stem = to_label(path.stem.encode(errors="replace").decode())
    maker = RecordMaker(file_format, stem=stem, tenant=tenant)
    for element in read_elements(path):
        if isinstance(element, BadRecord):
            yield element
            continue
        try:
            for raw in FORMATS[file_format].read(element, stem, tenant):
                yield maker.make(raw, element.find_line)
        except InvalidInputError as error:
            yield BadRecord(line=element.find_line(()), reason=str(error))


def _recognise_format(path: Path) -> Format:
    for element in islice(read_elements(path), _SAMPLE):
        if isinstance(element, BadRecord):
            continue
        for file_format, reader in FORMATS.items():
            if reader.recognises(element.value):
                return file_format
    raise FileError(
        f"{path} is in no format that can be imported; supported are {_SUPPORTED}",
        code="import_file",
    )
