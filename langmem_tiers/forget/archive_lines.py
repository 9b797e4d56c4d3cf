"""What archive files hold of what is forgotten, and the files without it.

A file is written anew before the transaction that records it, and the old one is removed after it:
whatever is broken off in between leaves a file that the database names, and it whole.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from langmem_tiers.consolidate.archive import ArchivedMemory, ArchiveFile, Files, Written
from langmem_tiers.core.config import StoreOptions
from langmem_tiers.core.namespaces import Place
from langmem_tiers.forget.reach import Known
from langmem_tiers.postgres.flow import Call, Flow, apart

ARCHIVED = "archived"
"""In place of a tier, of what is in a file."""


class Filed(NamedTuple):
    """An archive file and its lines."""

    file: ArchiveFile
    lines: tuple[ArchivedMemory, ...]


class Rewritten(NamedTuple):
    """A file and what stays of it: a new file, or nothing."""

    file: ArchiveFile
    written: Written | None
    lines: int


def read(archives: Sequence[ArchiveFile], files: Callable[[], Files]) -> Flow[list[Filed]]:
    """What the files of a tenant hold. One that holds nothing alone any more may be gone.

    Raises:
        ArchiveError: if any other is missing, or one is not what was written.
        MissingExtraError: without the `archive` extra, if there is any.
    """
    found: list[Filed] = []
    for file in archives:
        reading = partial(_read, files(), file)
        lines: list[ArchivedMemory] = yield from apart(reading, sys.maxsize)
        found.append(Filed(file, tuple(lines)))
    return found


def _read(files: Files, file: ArchiveFile) -> list[ArchivedMemory]:
    if not file.remaining and not files.exists(file.url):
        return []
    return files.read(file.url, file.checksum)


def place(tenant: str, one: ArchivedMemory) -> Place:
    """Where a line would come back."""
    return Place(tenant, one.namespace)


def known(one: ArchivedMemory, tenant: str, options: StoreOptions) -> Known:
    """A line as forgetting looks at it."""
    return Known(
        id=one.id,
        tier=ARCHIVED,
        namespace=one.namespace,
        key=one.key,
        value=json.loads(one.value),
        state=one.state,
        user_id=options.user_of(place(tenant, one)),
        session=one.session,
        speaker=one.speaker,
    )


def without(filed: Filed, goes: Callable[[ArchivedMemory], bool]) -> list[ArchivedMemory] | None:
    """What stays of a file; None if all of it does."""
    left = [one for one in filed.lines if not goes(one)]
    return None if len(left) == len(filed.lines) else left


def rewrite(
    several: Sequence[tuple[ArchiveFile, list[ArchivedMemory]]],
    tenant: str,
    files: Callable[[], Files],
) -> Flow[list[Rewritten]]:
    """Write what stays of files, each beside the old one; of which nothing stays, none."""
    found: list[Rewritten] = []
    for file, lines in several:
        written: Written | None = None
        if lines:
            writing = partial(files().rewrite, file.url, file.archive, tenant, lines)
            written = yield from apart(writing, sys.maxsize)
        found.append(Rewritten(file, written, len(lines)))
    return found


def replace_call(tenant: str, several: Sequence[Rewritten]) -> Call:
    """The call by which new files take the places of the old ones."""
    params: dict[str, Any] = {
        "tenant": tenant,
        "old": [one.file.archive for one in several],
        "archives": [one.written.archive if one.written else None for one in several],
        "urls": [one.written.url if one.written else None for one in several],
        "checksums": [one.written.checksum if one.written else None for one in several],
        "left": [one.lines for one in several],
    }
    return Call("replace_archives", params)


def remove(urls: Sequence[str], files: Callable[[], Files]) -> Flow[None]:
    """Remove files that nothing names any more."""
    for url in urls:
        removing = partial(files().remove, url)
        yield from apart(removing, sys.maxsize)
