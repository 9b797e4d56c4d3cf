"""Archive files: memories as Parquet, wherever fsspec reaches, and checked both ways."""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import uuid4

from langmem_tiers.consolidation.archive import TIMES, ArchivedMemory, WrittenFile
from langmem_tiers.core.errors import (
    ConfigurationError,
    FileError,
    MissingExtraError,
    mask_passwords,
)

try:
    import fsspec
    import pyarrow as pa
    from fsspec.implementations.local import LocalFileSystem
    from pyarrow import parquet
except ImportError as error:
    raise MissingExtraError(
        'archives need pyarrow and fsspec: pip install "langmem-tiers[archive]"'
    ) from error

_FORMAT = 1
_METADATA = b"langmem-tiers"
_MAX_LETTERS = 100
"""Letters of a name in a path, before a hash stands for the rest."""
_TIME = pa.timestamp("us", tz="UTC")
_SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        *(pa.field(name, pa.string(), nullable=False) for name in ("tier", "namespace", "key")),
        pa.field("value", pa.large_string(), nullable=False),
        pa.field("lexemes", pa.large_string()),
        pa.field("ttl_minutes", pa.float64()),
        pa.field("session", pa.string()),
        pa.field("turn", pa.int32()),
        *(pa.field(name, pa.string()) for name in ("speaker", "signature", "tool", "state")),
        *(
            pa.field(name, pa.int32())
            for name in ("access_count", "success_count", "failure_count")
        ),
        pa.field("strength", pa.float64()),
        *(pa.field(name, _TIME) for name in TIMES),
        pa.field("fields", pa.list_(pa.string()), nullable=False),
        pa.field("embeddings", pa.list_(pa.binary()), nullable=False),
    ]
)
"""The columns of a file: those of an ArchivedMemory, with a column for each time."""


class ArchiveFiles:
    """Writes and reads archives.

    A file is written under a temporary name (`….part`), read back, compared, and only then named.
    Its name ends with a part of its SHA-256, so that nothing with other contents ever has it.
    Credentials for object stores come from where fsspec takes them: environment and its own files.
    """

    def check(self, directory: str) -> None:
        """Check that archives can be at a path or a URL, without going there.

        Raises:
            ConfigurationError: for a URL that fsspec does not know, or has no package for.
        """
        _open_filesystem(directory)

    def write(
        self, directory: str, name: str, tenant: str, memories: list[ArchivedMemory]
    ) -> WrittenFile:
        """Write a file, and read it back.

        Args:
            directory: A path or a URL that fsspec knows, such as `s3://bucket/memories`.
            name: The beginning of the file's name.
            tenant: The owner; each tenant has a folder of its own.
            memories: The contents of the file.

        Raises:
            FileError (archive): if it cannot be written, or is not read back as it was written.
            ConfigurationError: for a URL that fsspec does not know, or has no package for.
        """
        files, root = _open_filesystem(directory)
        folder = f"{root.rstrip('/')}/{_file_safe(tenant)}"
        return _write_file(files, folder, _file_safe(name), tenant, memories)

    def rewrite(
        self, url: str, archive: str, tenant: str, memories: list[ArchivedMemory]
    ) -> WrittenFile:
        """Write the remaining memories of a file beside it and read them back; the file stays.

        Raises:
            FileError (archive): if it cannot be written, or is not read back as it was written.
        """
        files, path = _open_filesystem(url)
        name = archive.rpartition("-")[0] or archive
        return _write_file(files, path.rpartition("/")[0], name, tenant, memories)

    def exists(self, url: str) -> bool:
        """Return True if the file exists.

        Raises:
            FileError (archive): if its place cannot be looked at.
        """
        files, path = _open_filesystem(url)
        with _file_errors(url, "looked for"):
            return bool(files.exists(path))

    def remove(self, url: str) -> None:
        """Remove a file, if it is there.

        Raises:
            FileError (archive): if it cannot be removed.
        """
        files, path = _open_filesystem(url)
        with _file_errors(url, "removed"):
            if files.exists(path):
                files.rm_file(path)
                if isinstance(files, LocalFileSystem):
                    _sync_folder(Path(path).parent)

    def read(self, url: str, checksum: str) -> list[ArchivedMemory]:
        """Return the memories of a file, if it is exactly what was written.

        Raises:
            FileError (archive): if it is missing, damaged, replaced, or of another format.
        """
        files, path = _open_filesystem(url)
        with _file_errors(url, "read"):
            data = files.cat_file(path)
        if hashlib.sha256(data).hexdigest() != checksum:
            raise FileError(
                f"{mask_passwords(url)} is not the archive that was written (its SHA-256 "
                "differs): it was "
                "damaged or replaced. Nothing was restored; bring the file back from a backup",
                code="archive",
            )
        try:
            return _from_parquet(data, url)
        except (pa.ArrowException, KeyError, TypeError, ValueError) as error:
            raise FileError(
                f"{mask_passwords(url)} is no archive of memories ({error}): nothing was changed",
                code="archive",
            ) from error


def _write_file(
    files: Any, folder: str, name: str, tenant: str, memories: list[ArchivedMemory]
) -> WrittenFile:
    """Write a file whose name ends with a part of its SHA-256, once it is read back the same."""
    data = _to_parquet(tenant, memories)
    checksum = hashlib.sha256(data).hexdigest()
    archive = f"{name}-{checksum[:16]}"
    final = f"{folder}/{archive}.parquet"
    part, local = f"{final}.{uuid4().hex}.part", isinstance(files, LocalFileSystem)
    with _file_errors(final, "written"):
        files.makedirs(folder, exist_ok=True)
        try:
            with files.open(part, "wb") as file:
                file.write(data)
                if local:  # memories that leave the database must outlive a power cut
                    file.flush()
                    os.fsync(file.fileno())
            _check_written(files.cat_file(part), data, final, memories)
            files.mv(part, final)
        except BaseException:
            if files.exists(part):
                files.rm_file(part)
            raise
        if local:
            _sync_folder(Path(folder))
            _sync_folder(Path(folder).parent)
    return WrittenFile(archive, str(files.unstrip_protocol(final)), checksum)


def _check_written(back: bytes, data: bytes, url: str, memories: list[ArchivedMemory]) -> None:
    if back != data or _from_parquet(back, url) != memories:
        raise FileError(
            f"{mask_passwords(url)} was not read back as it was written: check the disk or the "
            "object "
            "store. Nothing was archived",
            code="archive",
        )


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _to_parquet(tenant: str, memories: list[ArchivedMemory]) -> bytes:
    """Return a Parquet file as bytes; the same memories give the same bytes."""
    rows = [memory._asdict() | dict(zip(TIMES, memory.times, strict=True)) for memory in memories]
    described = json.dumps({"format": _FORMAT, "tenant": tenant}).encode()
    schema = _SCHEMA.with_metadata({_METADATA: described})
    buffer = io.BytesIO()
    parquet.write_table(pa.Table.from_pylist(rows, schema), buffer, compression="zstd")
    return buffer.getvalue()


def _from_parquet(data: bytes, url: str) -> list[ArchivedMemory]:
    """Return the memories of a Parquet file of ours."""
    table = parquet.read_table(io.BytesIO(data))
    if json.loads(table.schema.metadata[_METADATA])["format"] != _FORMAT:
        raise FileError(
            f"{mask_passwords(url)} is not an archive that can be restored: it has another "
            "format, of a "
            "newer langmem-tiers perhaps. Nothing was changed",
            code="archive",
        )
    for number, field in enumerate(table.schema):
        if field.type == _TIME:  # some lie beyond what Python can date
            table = table.set_column(number, field.name, table.column(number).cast(pa.int64()))
    return [
        ArchivedMemory(times=[row.pop(name) for name in TIMES], **row) for row in table.to_pylist()
    ]


def _open_filesystem(url: str) -> tuple[Any, str]:
    """Return the file system of a URL, and the path in it."""
    try:
        files, path = fsspec.core.url_to_fs(url)
    except ImportError as error:
        raise ConfigurationError(
            f"{mask_passwords(url)} needs one more package: {error}"
        ) from error
    except ValueError as error:
        raise ConfigurationError(
            f"{mask_passwords(url)} is no place for archives ({error}): give a path, or a URL that "
            "fsspec knows"
        ) from error
    return files, path


@contextmanager
def _file_errors(url: str, verb: str) -> Iterator[None]:
    """Raise errors of a file system as errors of ours."""
    try:
        yield
    except FileNotFoundError as error:
        raise FileError(
            f"{mask_passwords(url)} is not there: bring it back from where it was moved to, or "
            "from a "
            "backup. Nothing was changed",
            code="archive",
        ) from error
    except OSError as error:
        raise FileError(
            f"{mask_passwords(url)} cannot be {verb} ({error}); nothing was changed", code="archive"
        ) from error


def _file_safe(name: str) -> str:
    """Return a name for one level of a path on any file system; different names stay different."""
    safe = quote(name, safe="").replace(".", "%2E").replace("%", "=")
    if len(safe) <= _MAX_LETTERS:
        return safe
    return f"{safe[:_MAX_LETTERS]}-{hashlib.sha256(name.encode()).hexdigest()[:16]}"
