"""Whatever a file holds that says it is an export, it is read as it was written, or refused."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from langmem_tiers import Bounds, TieredStore
from langmem_tiers.core.errors import InvalidInputError, TieredMemoryError
from langmem_tiers.core.exported_tables import EXPORTED_TABLES
from langmem_tiers.transfer.export_format import ExportReader, encode_json
from langmem_tiers.transfer.rows import Tables, make_tables
from langmem_tiers.transfer.transfer import read_batch
from tests.support.carrying import changed, lines_of, rich, tenant_rows, wipe, write_lines
from tests.support.coordinating import coordinator
from tests.support.opening import Clock, empty, text_index

COLUMNS = """
    SELECT c.relname, a.attname, regexp_replace(format_type(a.atttypid, a.atttypmod), '^.*\\.', ''),
           a.attnotnull
    FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
    WHERE c.relnamespace = 'memory'::regnamespace AND a.attnum > 0 AND NOT a.attisdropped
      AND c.relname = ANY (%s)"""
COMMON = settings(
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.explicit, Phase.generate, Phase.shrink),
)
HOSTILE = (
    *("\\u0000", "\0", '"\\ud800"', "\\ud800", "1e999999999", "9" * 5_000, "-1", "0", "1.5", "NaN"),
    *(
        "null",
        "true",
        "[",
        "]",
        "{",
        "}",
        '"',
        "\\",
        ",",
        ":",
        "[]",
        "{}",
        "[" * 3_000,
        '"infinity"',
    ),
    *(
        "4611686018427387904",
        '"acme"',
        '"beta"',
        '"2026-13-45T99:00:00+00:00"',
        "\n",
        "\r",
        "ü",
        "",
    ),
    *(
        '"\\\\x0g"',
        '"[1,2]"',
        '"[]"',
        "[null]",
        '["a", null]',
        '{"sources": [1e5]}',
        "-0.0",
        '"NaN"',
    ),
)


class Kept:
    """An export, and the columns of its tables."""

    path: Path
    tables: Tables


@pytest.fixture(scope="module")
def kept(shared_url: str, tmp_path_factory: pytest.TempPathFactory) -> Kept:
    """What a small rich tenant was exported to."""
    empty(shared_url)
    found = Kept()
    found.path = tmp_path_factory.mktemp("export") / "acme.gz"
    with TieredStore(shared_url, index=text_index(), clock=Clock()) as store:
        rich(store, shared_url, found.path.with_name("cold"), 6)
        coordinator(store).admin.export_tenant(found.path)
    with psycopg.connect(shared_url) as conn:
        found.tables = make_tables(conn.execute(COLUMNS, [list(EXPORTED_TABLES)]).fetchall())
    return found


def read(path: Path, tables: Tables) -> list[str]:
    """All rows of a file as JSON."""
    reader, found = ExportReader(path), []
    try:
        while (batch := read_batch(reader, "acme", tables)) is not None:
            found += [encode_json([batch.table, line.row]) for line in batch.lines]
    finally:
        reader.close()
    return found


def test_numbers_are_kept_to_the_last_digit(kept: Kept) -> None:
    rows = read(kept.path, kept.tables)
    assert rows == [json_text(line) for line in lines_of(kept.path)[1:-1]]
    whole = "".join(rows)
    for number in (
        "123456789012345678901234567890.125",
        "1.50",
        "0.000000001",
        "0.30000000000000004",
    ):
        assert number in whole


def json_text(line: str) -> str:
    """A line without white space between values, and its numbers as they are."""
    marked = json.loads(line, parse_float=lambda text: f"#{text}#")
    dense = json.dumps(marked, ensure_ascii=False, separators=(",", ":"))
    return dense.replace('"#', "").replace('#"', "")


@pytest.mark.parametrize("cut", [0, 1, 9, 30, 2_000, -2_000, -8, -1])
def test_a_file_that_is_cut_off_anywhere_is_refused(kept: Kept, cut: int, tmp_path: Path) -> None:
    data = kept.path.read_bytes()
    path = tmp_path / "cut.gz"
    path.write_bytes(data[:cut])
    with pytest.raises(InvalidInputError, match=r"line \d+: .*(cut off|not gzip)"):
        read(path, kept.tables)
    lines = lines_of(kept.path)
    with pytest.raises(InvalidInputError, match="cut off"):
        read(write_lines(path, lines[:-1], end=False), kept.tables)
    without = [*lines[:5], *lines[6:]]
    with pytest.raises(InvalidInputError, match="rows are missing or changed"):
        read(write_lines(path, without, end=False), kept.tables)
    with pytest.raises(InvalidInputError, match="something follows the end"):
        read(write_lines(path, [*lines, lines[-1]], end=False), kept.tables)


@pytest.mark.parametrize(
    ("table", "columns", "said"),
    [
        ("memories", {"tenant": "beta"}, "a row of memories is of another tenant, 'beta'"),
        ("memories", {"namespace": "a..b"}, "no namespace"),
        ("memories", {"namespace": "a." * 300}, "the namespace has 604 bytes"),
        ("memories", {"key": "k" * 2_000}, "the key has 2000 bytes"),
        ("memories", {"value": [1]}, "memories.value is no object"),
        ("memories", {"value": None}, "memories.value is missing"),
        ("memories", {"id": 2**62}, "memories.id is no bigint"),
        ("memories", {"id": 0}, "memories.id is no bigint"),
        ("memories", {"tier": "eternal"}, "memories.tier is no tier"),
        ("memories", {"created_at": "2026-02-30T00:00:00+00:00"}, "created_at is no timestamp"),
        ("memories", {"updated_at": "infinity"}, "updated_at is no timestamp"),
        ("memories", {"updated_at": "10000-01-01T00:00:00+00:00"}, "updated_at is no timestamp"),
        ("events", {"at": "0044-03-15T10:00:00+00:00 BC"}, "events.at is no timestamp"),
        ("memories", {"turn": 2**31}, "memories.turn is no integer"),
        ("memories", {"value": {"a": "\0"}}, "a text has a NUL"),
        ("memories", {"value": {"a": "\ud800"}}, "no valid Unicode"),
        ("memories", {"shoe": 45}, "a row of memories has other columns"),
        ("vectors", {"embedding": "[1,2]"}, r"vectors.embedding is no halfvec\(64\)"),
        ("vectors", {"embedding": [1.0] * 64}, r"vectors.embedding is no halfvec\(64\)"),
        ("usage", {"strength": "many"}, "usage.strength is no double precision"),
        ("lineage", {"derived": "t"}, "lineage.derived is no boolean"),
        ("tombstones", {"hash": "\\xzz"}, "tombstones.hash is no bytea"),
        ("intentions", {"needs": [1, None]}, r"intentions.needs is no bigint\[\]"),
        ("states", {"owner": 5}, "states.owner is no text"),
    ],
)
def test_what_no_row_can_hold_is_told_with_its_line(
    kept: Kept, table: str, columns: dict[str, Any], said: str
) -> None:
    path = changed(kept.path, table, lambda row: row.update(columns))
    with pytest.raises(InvalidInputError, match=rf"line \d+: .*{said}"):
        read(path, kept.tables)


def test_no_more_of_a_line_is_held_than_a_row_can_have(kept: Kept, tmp_path: Path) -> None:
    """A small file may unpack to any size."""
    header, path, narrow = lines_of(kept.path)[0], tmp_path / "bomb.gz", Bounds(value_bytes=1_000)
    many = "[]," * 20_000_000
    for before, said, most in (
        ([], r"line 1: the line has more than 65,536 bytes$", 2_000_000),
        ([header], r"line 2: .* 8,002,000 bytes: open .*value_bytes=", 20_000_000),
    ):
        write_lines(path, [*before, many], end=False)
        tracemalloc.start()
        with (
            pytest.raises(InvalidInputError, match=said),
            closing(ExportReader(path, narrow)) as reader,
        ):
            reader.read_batch()
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < most
    write_lines(path, [header, json.dumps(["x" * 20_000_000])], end=False)
    with (
        pytest.raises(InvalidInputError, match="2: this is no row"),
        closing(ExportReader(path)) as wide,
    ):
        wide.read_batch()


def damaged(data: st.DataObject, text: str) -> str:
    """A text with some of it replaced."""
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 40)))
    return text[:start] + data.draw(st.sampled_from(HOSTILE)) + text[end:]


def check_lines(kept: Kept, data: st.DataObject) -> None:
    lines = lines_of(kept.path)
    place = data.draw(st.integers(0, len(lines) - 1))
    if place < len(lines) - 1 and data.draw(st.booleans()):
        lines[place : place + 1] = damaged(data, lines[place]).split("\n")
        path = kept.path.with_name("mutated.gz")
        try:
            write_lines(path, lines)
        except (ValueError, TypeError, KeyError, RecursionError, IndexError):
            path.write_bytes(gzip.compress("\n".join(lines).encode(errors="surrogatepass")))
    else:
        whole = bytearray(kept.path.read_bytes())
        at = data.draw(st.integers(0, len(whole) - 1))
        whole[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
        path = kept.path.with_name("mutated.gz")
        path.write_bytes(whole)
    try:
        rows = read(path, kept.tables)
    except InvalidInputError as error:
        told = str(error)
        well = "mutated.gz', line " in told and len(told) < 5_000
        if not well:
            raise AssertionError(told) from error
        return
    for row in rows:
        row.encode()


FILES = given(data=st.data())


@FILES
@settings(COMMON, max_examples=250)
def test_a_damaged_file_is_read_or_refused(kept: Kept, data: st.DataObject) -> None:
    check_lines(kept, data)


@pytest.mark.proof
@FILES
@settings(COMMON, max_examples=5_000)
def test_so_are_thousands(kept: Kept, data: st.DataObject) -> None:
    check_lines(kept, data)


def check_values(kept: Kept, url: str, data: st.DataObject) -> None:
    """One value of one row is another one; what is imported all the same is there."""
    table = data.draw(st.sampled_from(sorted(set(EXPORTED_TABLES))))
    name = data.draw(st.sampled_from(sorted(kept.tables[table].model_fields)))
    value = data.draw(st.one_of(st.sampled_from(HOSTILE).map(loaded), st.integers(), st.text()))
    path = changed(kept.path, table, lambda row: row.update({name: value}))
    wipe(url)
    with TieredStore(url, index=text_index(), clock=Clock()) as store:
        try:
            coordinator(store).admin.import_tenant(path)
        except InvalidInputError:
            assert not tenant_rows(url)["memory.forgettings"]
        except TieredMemoryError as error:
            raise AssertionError(f"{table}.{name} = {value!r}") from error


def loaded(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


@FILES
@settings(COMMON, max_examples=12)
def test_a_value_that_is_another_one_is_imported_or_refused(
    kept: Kept, url: str, data: st.DataObject
) -> None:
    check_values(kept, url, data)


@pytest.mark.proof
@FILES
@settings(COMMON, max_examples=300)
def test_so_are_hundreds(kept: Kept, url: str, data: st.DataObject) -> None:
    check_values(kept, url, data)
