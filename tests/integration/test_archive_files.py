"""Archive files: wherever they are, bad ones are refused whole."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from pyarrow import parquet

from langmem_tiers import MemoryCoordinator, TieredStore
from langmem_tiers.core.errors import (
    ConfigurationError,
    InvalidInputError,
    InvalidTypeError,
)
from tests.support.archives import (
    count,
    execute,
    files_in,
    fill,
    hashes,
    policy,
)
from tests.support.coded import coded
from tests.support.coordinating import coordinator

NUMBER = 120
WITH_VECTOR = 'key 1 "quoted"'


@pytest.fixture
def memory(store: TieredStore) -> MemoryCoordinator:
    return coordinator(store)


@pytest.fixture
def archived(url: str, memory: MemoryCoordinator, tmp_path: Path) -> str:
    """The name of an archive that odd memories have left for."""
    fill(url, NUMBER)
    memory.admin.archive(policy(tmp_path), dry_run=False)
    (file,) = memory.admin.archives()
    return file.archive


def assert_refused(memory: MemoryCoordinator, url: str, archive: str, match: str) -> None:
    """The archive is refused whole, before anything is written."""
    before = (hashes(url), count(url, "archived"))
    with coded("archive", match=match):
        memory.admin.restore_archive(archive)
    assert (hashes(url), count(url, "archived")) == before


def flipped(data: bytes) -> bytes:
    return data[:999] + bytes([data[999] ^ 1]) + data[1000:]


@pytest.mark.parametrize(
    "damage",
    [flipped, lambda data: data[:-1], lambda data: data + b"\0", lambda _: b""],
    ids=["a bit flipped", "truncated", "appended to", "emptied"],
)
def test_a_damaged_or_missing_file_is_refused_whole(
    memory: MemoryCoordinator,
    url: str,
    archived: str,
    tmp_path: Path,
    damage: Callable[[bytes], bytes],
) -> None:
    (path,) = files_in(tmp_path)
    good = path.read_bytes()
    path.write_bytes(damage(good))
    assert_refused(memory, url, archived, "SHA-256 differs")
    path.unlink()
    assert_refused(memory, url, archived, "is not there")
    path.write_bytes(good)
    assert memory.admin.restore_archive(archived).restored == NUMBER


def test_a_file_of_another_format_is_refused(
    memory: MemoryCoordinator, url: str, archived: str, tmp_path: Path
) -> None:
    (path,) = files_in(tmp_path)
    table = parquet.read_table(path)
    told = {b"langmem-tiers": b'{"format": 2}'}
    parquet.write_table(table.replace_schema_metadata(told), path)
    checksum = hashlib.sha256(path.read_bytes()).hexdigest()
    execute(url, "UPDATE memory.archives SET checksum = %s", checksum)
    assert_refused(memory, url, archived, "another format")


def test_another_tenants_file_and_another_archive_are_refused(
    store: TieredStore, memory: MemoryCoordinator, url: str, archived: str, tmp_path: Path
) -> None:
    other = coordinator(store, "other")
    fill(url, 10, "other")
    other.admin.archive(policy(tmp_path), dry_run=False)
    mine, theirs = (next(tmp_path.glob(f"{name}/*")) for name in ("acme", "other"))
    with pytest.raises(InvalidInputError, match="no archive"):
        memory.admin.restore_archive(other.admin.archives()[0].archive)
    good = mine.read_bytes()
    mine.write_bytes(theirs.read_bytes())
    assert_refused(memory, url, archived, "SHA-256 differs")
    mine.write_bytes(good)
    execute(url, "UPDATE memory.archived SET key = 'other' WHERE key = 'key 4'")
    assert_refused(memory, url, archived, "other memories than those that left")


def test_vectors_that_do_not_fit_the_database_are_refused(
    memory: MemoryCoordinator, url: str, archived: str
) -> None:
    change = "UPDATE memory.settings SET value = value || %s::jsonb WHERE name = 'vector'"
    execute(url, change, '{"dims": 65}')
    try:
        assert_refused(memory, url, archived, "64.* dimensions")
    finally:
        execute(url, change, '{"dims": 64}')


@pytest.mark.usefixtures("archived")
def test_a_callers_mistake_is_refused_by_what_is_wrong(
    memory: MemoryCoordinator,
) -> None:
    file: Any = memory.admin.archives()[0]
    for name, error, match in (
        ("2020-01-01-1-0000", InvalidInputError, "no archive"),
        (f"{file.url}x", InvalidInputError, "no archive"),
        (file, InvalidTypeError, r"pass its \.archive"),
    ):
        with pytest.raises(error, match=match):
            memory.admin.restore_archive(name)
    with pytest.raises(InvalidTypeError, match="ArchivalPolicy"):
        memory.admin.archive(file.url, dry_run=False)
    for place, match in (("nowhere://cold", "no place for archives"), ("s3://cold", "one more")):
        with pytest.raises(ConfigurationError, match=match):
            memory.admin.archive(policy(place), dry_run=False)


class Bucket(MemoryFileSystem):  # type: ignore[misc]  # fsspec has no types
    """An object store: what is renamed is copied, and what is missing in a folder is no matter."""

    protocol = "bucket"

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return str(super()._strip_protocol(path.removeprefix(f"{cls.protocol}:/")))

    store: dict[str, Any] = {}  # noqa: RUF012 - as its parent has it
    pseudo_dirs = [""]  # noqa: RUF012


class Forgetful(Bucket):
    """One that loses the end of what is written."""

    protocol = "forgetful"

    def cat_file(self, path: str, *given: Any, **options: Any) -> bytes:
        return bytes(super().cat_file(path, *given, **options)[:-1])


class Full(Bucket):
    """One that takes no more."""

    protocol = "full"

    def _open(self, *_: Any, **__: Any) -> Any:
        raise OSError(28, "No space left on device")


@pytest.fixture
def buckets() -> Iterator[None]:
    for kind in (Bucket, Forgetful, Full):
        fsspec.register_implementation(kind.protocol, kind, clobber=True)
    yield
    Bucket.store.clear()
    MemoryFileSystem.store.clear()


@pytest.mark.usefixtures("buckets")
@pytest.mark.parametrize("directory", ["memory://cold/memories", "bucket://cold/memories"])
async def test_an_object_store_does_as_well(store: TieredStore, url: str, directory: str) -> None:
    memory = coordinator(store)
    fill(url, 40)
    before = hashes(url)

    await memory.admin.aarchive(policy(directory), dry_run=False)

    (file,) = await memory.admin.aarchives()
    scheme = directory.partition(":")[0]
    assert file.url.startswith(f"{scheme}://")
    (path,) = fsspec.filesystem(scheme).find("/cold/memories/acme")
    assert path.endswith(f"{file.archive}.parquet")
    assert (await memory.admin.arestore_archive(file.url)).restored == 40
    assert hashes(url) == before


@pytest.mark.usefixtures("buckets")
@pytest.mark.parametrize(
    ("directory", "said"),
    [("forgetful://cold", "read back"), ("full://cold", "No space left")],
)
def test_a_place_that_does_not_keep_files_gets_no_memories(
    memory: MemoryCoordinator, url: str, directory: str, said: str
) -> None:
    fill(url, 20)
    before = hashes(url)

    with coded("archive", match=said):
        memory.admin.archive(policy(directory), dry_run=False)

    assert (hashes(url), count(url, "archives"), count(url, "archived")) == (before, 0, 0)
    assert Bucket.store == {}
