"""Conversation and memory files, read as records that can be stored.

Reading is pure: no database is touched. Five formats are known (see `Format`), and told apart
by what a file holds, never by its name. Every record of a file becomes exactly one `Record`,
or one `BadRecord` that says where it stands and what is wrong with it.
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
    label,
)
from langmem_tiers.importers.source import checked_file, elements

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
    """Return the format of a file, told by the first record that can be recognised.

    Only the first hundred records are looked at; the file's name says nothing.
    Raises `FileError` (import_file) for a file that is missing, a directory, empty, not UTF-8 or in
    none of the formats.
    """
    return _detect(checked_file(path))


def read_records(
    path: Path,
    *,
    format: Format | None = None,  # noqa: A002  # the word the command line uses
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
    file = checked_file(path)
    form = None if format is None else checked_choice(format, Format, "format")
    return _records(file, _detect(file) if form is None else Format(form), tenant)


def count_records(path: Path, *, format: Format | None = None) -> int:  # noqa: A002  # as above
    """Return how many items `read_records` yields for a file, good and bad.

    The file is read once for it. Raises `FileError` as `read_records` does.
    """
    return sum(1 for _ in read_records(path, format=format))


def _records(path: Path, form: Format, tenant: str | None) -> Iterator[Record | BadRecord]:
    stem = label(path.stem.encode(errors="replace").decode())
    maker = RecordMaker(form, stem=stem, tenant=tenant)
    for element in elements(path):
        if isinstance(element, BadRecord):
            yield element
            continue
        try:
            for part in FORMATS[form].said_in(element, stem, tenant):
                yield maker.make(part, element.where)
        except InvalidInputError as error:
            yield BadRecord(line=element.where(()), reason=str(error))


def _detect(path: Path) -> Format:
    for element in islice(elements(path), _SAMPLE):
        if isinstance(element, BadRecord):
            continue
        for form, reads in FORMATS.items():
            if reads.recognises(element.value):
                return form
    raise FileError(
        f"{path} is in no format that can be imported; supported are {_SUPPORTED}",
        code="import_file",
    )
