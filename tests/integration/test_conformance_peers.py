"""The conformance kit finds the defects that docs/conformance.md says stores have, and no others.

Run this file as a program to write its table anew, with the marks that it has.
"""

import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, LiteralString

import psycopg
import pytest
from langgraph.store.base import BaseStore, TTLConfig
from langgraph.store.memory import InMemoryStore
from langgraph.store.postgres import AsyncPostgresStore, PostgresStore

from benchmarks.databases import create
from langmem_tiers.store.store import TieredStore
from langmem_tiers.testing import (
    BaseStoreConformance,
    Mode,
    OpenedStore,
    StoreFactory,
    check_names,
    run_check,
)
from langmem_tiers.testing.kit import StoreCheck
from langmem_tiers.testing.run import CHECKS

pytestmark = pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")

DOCS = Path(__file__).parents[2] / "docs" / "conformance.md"
TABLE_START, TABLE_END = "<!-- table -->", "<!-- end of table -->"
EMPTY = "TRUNCATE store CASCADE"
EMPTY_TIERED = "DELETE FROM memory.vectors; DELETE FROM memory.usage; DELETE FROM memory.memories"
METRICS = frozenset({"cosine", "l2", "inner_product"})
MODES = BaseStoreConformance.modes

Verdicts = dict[tuple[str, Mode], Future[set[str]]]
Opens = Callable[[str, Any, TTLConfig | None], OpenedStore]


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """A store, how it is opened on a database, and what it claims."""

    opens: dict[Mode, Opens]
    ttl: bool = True
    distance_types: frozenset[str] = METRICS

    def claimed(self) -> tuple[str, ...]:
        return check_names(ttl=self.ttl, distance_types=self.distance_types)


def _open_in_memory(_url: str, index: Any, _ttl: TTLConfig | None) -> OpenedStore:
    return nullcontext(InMemoryStore(index=index))


def _blocking(kind: Any, empty: LiteralString) -> Opens:
    @contextmanager
    def opens(url: str, index: Any, ttl: TTLConfig | None) -> Iterator[BaseStore]:
        with kind.from_conn_string(url, index=index, ttl=ttl) as store:
            store.setup()
            _run(url, empty)
            yield store

    return opens


def _awaited(kind: Any, empty: LiteralString) -> Opens:
    @asynccontextmanager
    async def opens(url: str, index: Any, ttl: TTLConfig | None) -> AsyncIterator[BaseStore]:
        async with kind.from_conn_string(url, index=index, ttl=ttl) as store:
            await (store.asetup() if kind is TieredStore else store.setup())
            _run(url, empty)
            yield store

    return opens


def _run(url: str, statement: LiteralString) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement)


PEERS = {
    "TieredStore": Peer(
        opens={
            "batch": _blocking(TieredStore, EMPTY_TIERED),
            "abatch": _awaited(TieredStore, EMPTY_TIERED),
        }
    ),
    "InMemoryStore": Peer(
        opens=dict.fromkeys(MODES, _open_in_memory),
        ttl=False,
        distance_types=frozenset({"cosine"}),
    ),
    "PostgresStore": Peer(opens=dict.fromkeys(MODES, _blocking(PostgresStore, EMPTY))),
    "AsyncPostgresStore": Peer(opens=dict.fromkeys(MODES, _awaited(AsyncPostgresStore, EMPTY))),
}


def _known_defects() -> dict[str, frozenset[str]]:
    """What the documented table marks as broken."""
    marked = {}
    for line in DOCS.read_text("utf-8").splitlines():
        if "<br>`" in line:
            name, marks = line.partition("<br>`")[2].strip("| ").split("` | ")
            marked[name] = marks.split(" | ")
    return {
        store: frozenset(name for name, marks in marked.items() if marks[column] == "✗")
        for column, store in enumerate(PEERS)
    }


def _failed_checks(peer: Peer, url: str, mode: Mode) -> set[str]:
    make_store = _factory(peer.opens[mode], url)
    results = (run_check(name, make_store, mode) for name in peer.claimed())
    return {result.name for result in results if not result.passed}


def _factory(opens: Opens, url: str) -> StoreFactory:
    def make_store(*, index: Any, ttl: TTLConfig | None) -> OpenedStore:
        return opens(url, index, ttl)

    return make_store


@pytest.fixture(scope="session")
def verdicts(server_url: str) -> Iterator[Verdicts]:
    """Run every store in every mode, each on a database of its own, several at a time."""
    with ThreadPoolExecutor(max_workers=8) as threads:
        yield {
            (name, mode): threads.submit(
                _failed_checks, peer, create(server_url, f"{name}_{mode}".lower()), mode
            )
            for name, peer in PEERS.items()
            for mode in MODES
        }


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", PEERS)
def test_the_kit_finds_exactly_the_known_defects(name: str, mode: Mode, verdicts: Verdicts) -> None:
    found, known = verdicts[name, mode].result(), _known_defects()[name]
    assert sorted(found - known) == [], "new defects"
    assert sorted(known - found) == [], "defects that are gone"


def test_a_failed_check_says_what_it_found() -> None:
    result = run_check("true_is_not_one", _factory(_open_in_memory, ""), "abatch")
    assert not result.passed
    found = "filter {'$eq': True}: found ['one', 't'], wanted ['t']"
    assert result.message == f"AssertionError: {found}"


def test_every_check_has_a_claim_and_a_name_of_its_own() -> None:
    table = _table()
    names = check_names(distance_types=METRICS)
    assert len(set(names)) == len(names)
    assert all(f"<br>`{name}`" in table for name in names)
    assert "| <br>" not in table


def test_tests_of_what_a_store_does_not_claim_are_not_collected() -> None:
    class Plain(BaseStoreConformance):
        supports_index = False
        supports_ttl = False

    tests = {name for name in dir(Plain) if name.startswith("test_") and getattr(Plain, name)}
    assert tests == {f"test_{name}" for name in check_names(index=False, ttl=False)}


def test_the_documented_class_runs_under_pytest(tmp_path: Path) -> None:
    snippet = DOCS.read_text("utf-8").partition("```python\n")[2].partition("```")[0]
    (tmp_path / "test_snippet.py").write_text(snippet, "utf-8")
    options = ["-q", "--tb=no", "-p", "no:cacheprovider", "-k", "namespace", str(tmp_path)]
    ran = _python("-m", "pytest", *options, f"--rootdir={tmp_path}")
    known, names = _known_defects()["InMemoryStore"], PEERS["InMemoryStore"].claimed()
    tried = [name in known for name in names if "namespace" in name]
    failed, passed = (len(MODES) * tried.count(verdict) for verdict in (True, False))
    assert f"{failed} failed, {passed} passed" in ran.stdout, ran.stdout + ran.stderr


def test_importing_the_package_does_not_import_pytest() -> None:
    ran = _python("-c", "import sys, langmem_tiers; assert 'pytest' not in sys.modules")
    assert ran.returncode == 0, ran.stderr


def _python(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=DOCS.parents[1], capture_output=True, text=True, check=False)


def _table() -> str:
    """One row a check and one column a store: ✓ kept, ✗ broken, – not claimed."""
    defects, every = _known_defects(), set(check_names(distance_types=METRICS))
    unclaimed = {name: every.difference(peer.claimed()) for name, peer in PEERS.items()}
    lines = [_line("area", "rule", *defects), _line(*("---",) * (len(defects) + 2))]
    for each in CHECKS.values():
        marks = [_mark(each, defects[store], unclaimed[store]) for store in defects]
        lines.append(_line(each.area, f"{each.claim}<br>`{each.name}`", *marks))
    claimed = {store: len(CHECKS) - len(unclaimed[store]) for store in defects}
    kept = [f"{number - len(defects[store])} of {number}" for store, number in claimed.items()]
    return "\n".join([*lines, _line("", "**kept**", *kept)])


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _mark(each: StoreCheck, defects: Collection[str], unclaimed: Collection[str]) -> str:
    if each.name in unclaimed:
        return "–"
    return "✗" if each.name in defects else "✓"


def _with_table(text: str) -> str:
    before, _, rest = text.partition(TABLE_START)
    after = rest.partition(TABLE_END)[2]
    return f"{before}{TABLE_START}\n{_table()}\n{TABLE_END}{after}"


def test_the_documented_table_is_up_to_date() -> None:
    text = DOCS.read_text("utf-8")
    assert text == _with_table(text), f"run: python {Path(__file__).name}"


if __name__ == "__main__":
    DOCS.write_text(_with_table(DOCS.read_text("utf-8")), "utf-8")
