"""An archive whose rows no verb could read is refused as a whole, though its checksum fits."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import pytest

from langmem_tiers import TieredStore
from langmem_tiers.consolidation.archive_files import ArchiveFiles
from tests.support.archives import count, execute, fill, policy
from tests.support.coded import coded
from tests.support.coordinating import coordinator


@pytest.mark.parametrize("damage", [{"state": "zzz"}, {"value": "7"}, {"value": '"text"'}])
def test_rows_that_no_verb_reads_stay_in_the_file(
    store: TieredStore, url: str, tmp_path: Path, damage: dict[str, Any]
) -> None:
    fill(url, 3)
    memory = coordinator(store)
    memory.admin.archive(policy(tmp_path), dry_run=False)
    (file,) = memory.admin.archives()
    first, *others = ArchiveFiles().read(file.url, file.checksum)
    forged = ArchiveFiles().write(
        str(tmp_path), "forged", "acme", [first._replace(**damage), *others]
    )
    named = [forged.archive, forged.url, forged.checksum]
    execute(url, "UPDATE memory.archives SET archive = %s, url = %s, checksum = %s", *named)
    execute(url, "UPDATE memory.archived SET archive = %s", forged.archive)
    with coded("archive", match="no verb reads: nothing was restored"):
        memory.admin.restore_archive(forged.archive)
    assert count(url, "memories") == 0


@pytest.mark.parametrize("data", [b"", b"PAR1", b"no parquet at all"])
def test_a_file_that_is_no_archive_is_named(
    store: TieredStore, url: str, tmp_path: Path, data: bytes
) -> None:
    fill(url, 3)
    memory = coordinator(store)
    memory.admin.archive(policy(tmp_path), dry_run=False)
    (file,) = memory.admin.archives()
    Path(urlparse(file.url).path).write_bytes(data)
    execute(url, "UPDATE memory.archives SET checksum = %s", hashlib.sha256(data).hexdigest())
    with coded("archive", match="is no archive of memories"):
        memory.admin.restore_archive(file.archive)
