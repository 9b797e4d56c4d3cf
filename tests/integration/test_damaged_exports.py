"""An export with a damaged value is refused, or every verb reads what was imported of it."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from langmem_tiers import TieredStore
from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.core.exported_tables import EXPORTED_TABLES
from langmem_tiers.postgres.flow import rows_of
from langmem_tiers.transfer.rows import Tables, check_row, make_tables
from tests.support.carrying import changed, lines_of, tenant_rows, wipe, write_lines
from tests.support.coordinating import coordinator
from tests.support.damage import Damage, damages, read_all, various
from tests.support.opening import Clock, empty, text_index

ROUNDS: Final = 6
"""The number of imports, each with a damaged value in every kind of row."""


class Kept(NamedTuple):
    """An export of a tenant that has everything, and the columns of its tables."""

    path: Path
    tables: Tables


@pytest.fixture(scope="module")
def kept(shared_url: str, tmp_path_factory: pytest.TempPathFactory) -> Kept:
    """Give the export that tests damage."""
    empty(shared_url)
    path = tmp_path_factory.mktemp("export") / "acme.gz"
    with TieredStore(shared_url, index=text_index(), clock=Clock()) as store:
        various(store, shared_url, path.with_name("cold"))
        coordinator(store).admin.export_tenant(path)
        columns = store.run(rows_of("carried_columns", names=list(EXPORTED_TABLES)))
    return Kept(path, make_tables(columns))


@pytest.fixture
def empty_store(shared_url: str, kept: Kept) -> Iterator[TieredStore]:
    """Give a store on a database without the tenant."""
    assert kept.path.exists()
    wipe(shared_url)
    with TieredStore(shared_url, index=text_index(), clock=Clock()) as store:
        yield store


def passes(kept: Kept, one: Damage) -> bool:
    """Tell whether a damaged row is taken for a row."""
    table, row = json.loads(one.text)
    try:
        check_row(table, row, kept.tables[table], "acme")
    except InvalidInputError:
        return False
    return True


def test_undamaged_every_verb_reads_it(empty_store: TieredStore, kept: Kept) -> None:
    coordinator(empty_store).admin.import_tenant(kept.path)
    read_all(empty_store, kept.path.with_name("again.gz"))


@pytest.mark.slow
def test_what_is_imported_though_it_is_damaged_every_verb_reads(
    empty_store: TieredStore, shared_url: str, kept: Kept
) -> None:
    """Damage one row of each kind in each of these files, at random."""
    taken: dict[int, list[Damage]] = defaultdict(list)
    for one in damages(kept.path):
        if passes(kept, one):
            taken[one.line].append(one)
    rng = random.Random(33)  # noqa: S311 - seeded, not secret
    for number in range(ROUNDS):
        lines = lines_of(kept.path)
        some = [rng.choice(each) for each in taken.values()]
        for one in some:
            lines[one.line - 1] = one.text
        path = write_lines(kept.path.with_name(f"damaged-{number}.gz"), lines)
        wipe(shared_url)
        try:
            coordinator(empty_store).admin.import_tenant(path)
        except InvalidInputError as error:
            assert ", line " in str(error)  # noqa: PT017 - the import may pass as well
            continue
        read_all(empty_store, kept.path.with_name("again.gz"))


TRIGGER: Final = {"kind": "zzz", "cue": "bees"}
DAMAGED: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "a trigger of no kind": ("intentions", {"trigger": TRIGGER}),
    "a trigger of another kind": ("intentions", {"trigger": {"kind": "time", "at": None}}),
    "a trigger that is no object": ("intentions", {"trigger": 7}),
    "a kind of intentions": ("intentions", {"kind": "zzz"}),
    "a status": ("intentions", {"status": "zzz"}),
    "a priority": ("intentions", {"priority": 9}),
    "a state of a memory": ("memories", {"state": "zzz"}),
    "a time to live": ("memories", {"ttl_minutes": "NaN"}),
    "a kind of states": ("states", {"kind": "zzz"}),
    "a state": ("states", {"value": {"content": 7}}),
    "a value of a state": ("states", {"value": 7}),
    "a detail": ("events", {"detail": "zzz"}),
    "reasons": ("events", {"detail": {"reasons": 7}}),
    "sources": ("events", {"event": "move", "kind": "merged", "detail": {"sources": "zzz"}}),
    "an ending": ("events", {"event": "turn/1/1", "kind": "committed", "detail": {}}),
    "a receipt": ("forgettings", {"detail": {"ids": "zzz"}}),
    "a checksum": ("archives", {"checksum": "zzz"}),
    "counts of words": ("tenant_sizes", {"counts": [1.0]}),
    "a tier": ("tenant_sizes", {"crowded": ["a."], "tiers": ["zzz"]}),
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_what_no_verb_could_read_is_refused_with_its_line_and_nothing_is_written(
    empty_store: TieredStore, shared_url: str, kept: Kept, damage: str
) -> None:
    table, columns = DAMAGED[damage]
    path = changed(kept.path, table, lambda row: row.update(columns))
    with pytest.raises(InvalidInputError, match=rf"line \d+: .*{table}"):
        coordinator(empty_store).admin.import_tenant(path)
    assert not any(tenant_rows(shared_url).values())


def test_a_promotion_that_marked_nothing_is_imported_and_every_verb_reads_it(
    empty_store: TieredStore, kept: Kept
) -> None:
    move = {"event": "move", "kind": "reinforced", "detail": {"sources": [], "versions": None}}
    path = changed(kept.path, "events", lambda row: row.update(move))
    coordinator(empty_store).admin.import_tenant(path)
    read_all(empty_store, kept.path.with_name("again.gz"))
