"""Archive files: whatever a memory holds, the bytes give it back."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from langmem_tiers.consolidation.archive import ArchivedMemory
from langmem_tiers.consolidation.archive_files import ArchiveFiles, _from_parquet, _to_parquet

BIGINT = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
FLOAT = st.floats(allow_nan=False)
COUNT = st.integers(0, 2**31 - 1)
MEMORY = st.builds(
    ArchivedMemory,
    id=BIGINT,
    tier=TEXT,
    namespace=TEXT,
    key=TEXT,
    value=TEXT,
    lexemes=st.none() | TEXT,
    ttl_minutes=st.none() | FLOAT,
    session=st.none() | TEXT,
    turn=st.none() | COUNT,
    speaker=st.none() | TEXT,
    signature=st.none() | TEXT,
    tool=st.none() | TEXT,
    state=st.none() | TEXT,
    access_count=st.none() | COUNT,
    success_count=st.none() | COUNT,
    failure_count=st.none() | COUNT,
    strength=st.none() | FLOAT,
    times=st.lists(st.none() | BIGINT, min_size=9, max_size=9),
    fields=st.lists(TEXT, max_size=3),
    embeddings=st.lists(st.binary(max_size=20), max_size=3),
)


@settings(max_examples=50)
@given(TEXT, st.lists(MEMORY, max_size=4))
def test_what_is_packed_is_unpacked_the_same(tenant: str, memories: list[ArchivedMemory]) -> None:
    data = _to_parquet(tenant, memories)
    assert _from_parquet(data, "here") == memories
    assert _to_parquet(tenant, memories) == data


@given(names=st.lists(TEXT.filter(bool), min_size=2, max_size=2, unique=True))
@settings(max_examples=30, deadline=None)
def test_different_tenants_never_share_a_folder(
    tmp_path_factory: pytest.TempPathFactory, names: list[str]
) -> None:
    place = tmp_path_factory.mktemp("cold")
    urls = [ArchiveFiles().write(str(place), "day-1", name, []).url for name in names]

    paths = [Path(url.removeprefix("file://")) for url in urls]
    assert len({path.parent for path in paths}) == 2
    assert all(path.parent.parent == place for path in paths)
