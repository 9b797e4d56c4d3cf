"""The conformance kit finds the defects that LangGraph's own stores have, and no others.

Run this file as a program to write the table of docs/conformance.md anew.
"""

import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
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
    conformance_table,
    run_check,
)

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
    """A store, how it is opened on a database, what it claims and what it is known to break."""

    opens: dict[Mode, Opens]
    defects: frozenset[str]
    ttl: bool = True
    distance_types: frozenset[str] = METRICS

    def claimed(self) -> tuple[str, ...]:
        return check_names(ttl=self.ttl, distance_types=self.distance_types)

    def unclaimed(self) -> frozenset[str]:
        return frozenset(check_names(distance_types=METRICS)) - frozenset(self.claimed())


def _open_in_memory(_url: str, index: Any, _ttl: TTLConfig | None) -> OpenedStore:
    return nullcontext(InMemoryStore(index=index))


@contextmanager
def _open_postgres(url: str, index: Any, ttl: TTLConfig | None) -> Iterator[BaseStore]:
    with PostgresStore.from_conn_string(url, index=index, ttl=ttl) as store:
        store.setup()
        _run(url, EMPTY)
        yield store


@asynccontextmanager
async def _open_async_postgres(
    url: str, index: Any, ttl: TTLConfig | None
) -> AsyncIterator[BaseStore]:
    async with AsyncPostgresStore.from_conn_string(url, index=index, ttl=ttl) as store:
        await store.setup()
        _run(url, EMPTY)
        yield store


@contextmanager
def _open_tiered(url: str, index: Any, ttl: TTLConfig | None) -> Iterator[BaseStore]:
    with TieredStore.from_conn_string(url, index=index, ttl=ttl) as store:
        store.setup()
        _run(url, EMPTY_TIERED)
        yield store


@asynccontextmanager
async def _open_tiered_async(
    url: str, index: Any, ttl: TTLConfig | None
) -> AsyncIterator[BaseStore]:
    async with TieredStore.from_conn_string(url, index=index, ttl=ttl) as store:
        await store.asetup()
        _run(url, EMPTY_TIERED)
        yield store


def _run(url: str, statement: LiteralString) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement)


TIERED_DEFECTS: frozenset[str] = frozenset()
IN_MEMORY_DEFECTS = frozenset(
    {
        "created_at_survives_an_update",
        "results_of_get_are_copies",
        "results_of_search_are_copies",
        "values_put_are_copied",
        "nul_characters_are_refused",
        "lone_surrogates_are_refused",
        "nan_and_infinity_are_refused",
        "values_outside_json_are_refused",
        "keys_with_nul_or_surrogates_are_refused",
        "raw_operations_refuse_bad_labels",
        "raw_put_refuses_the_empty_namespace",
        "reads_see_the_state_before_the_writes",
        "a_bad_operation_keeps_nothing_of_its_batch",
        "a_prefix_may_be_a_list",
        "negative_pages_are_refused",
        "true_is_not_one",
        "a_null_filter_matches_only_null",
        "comparing_other_kinds_matches_nothing",
        "texts_compare_as_texts",
        "operators_work_inside_nested_filters",
        "negative_namespace_pages_are_refused",
        "emptied_namespaces_are_not_listed",
        "namespaces_merely_read_are_not_listed",
        "pages_cover_items_with_and_without_vectors_once",
        "an_index_that_is_no_list_is_refused",
        "equal_texts_in_one_batch_are_all_indexed",
        "equal_texts_in_one_item_are_indexed",
        "blank_texts_never_score_nan",
        "an_unindexed_update_forgets_the_vector",
        "an_update_without_the_field_forgets_the_vector",
        "a_shrunk_list_forgets_the_rest",
        "other_fields_in_an_update_replace_the_old_ones",
        "the_last_put_of_a_batch_is_the_one_embedded",
    }
)
POSTGRES_DEFECTS = frozenset(
    {
        "floats_survive",
        "nul_characters_are_refused",
        "lone_surrogates_are_refused",
        "nan_and_infinity_are_refused",
        "keys_with_nul_or_surrogates_are_refused",
        "raw_put_refuses_the_empty_namespace",
        "unknown_operations_are_refused",
        "a_bad_operation_keeps_nothing_of_its_batch",
        "negative_pages_are_refused",
        "pages_cover_each_item_once",
        "items_equal_in_time_have_one_order",
        "not_equal_includes_items_without_the_key",
        "numbers_compare_as_numbers",
        "operators_of_one_key_are_anded",
        "comparing_other_kinds_matches_nothing",
        "infinity_and_nan_are_bounds_without_error",
        "a_nested_filter_matches_a_subset",
        "operators_work_inside_nested_filters",
        "namespaces_sort_label_by_label",
        "max_depth_zero_is_the_empty_namespace",
        "negative_namespace_pages_are_refused",
        "unknown_match_types_are_refused",
        "pages_under_a_query_lose_nothing",
        "ties_under_a_query_lose_nothing",
        "items_without_a_vector_come_last",
        "pages_cover_items_with_and_without_vectors_once",
        "many_vectors_of_one_item_crowd_out_nobody",
        "an_index_that_is_no_list_is_refused",
        "blank_texts_never_score_nan",
        "a_plain_function_may_embed_and_mix_int_with_float",
        "an_unindexed_update_forgets_the_vector",
        "an_update_without_the_field_forgets_the_vector",
        "a_shrunk_list_forgets_the_rest",
        "other_fields_in_an_update_replace_the_old_ones",
        "the_last_put_of_a_batch_is_the_one_embedded",
        "a_fraction_of_a_minute_is_a_lifetime",
        "reading_extends_the_lifetime",
        "refresh_on_read_may_be_off",
        "only_the_page_is_refreshed",
    }
)
PEERS = {
    "TieredStore": Peer(
        opens={"batch": _open_tiered, "abatch": _open_tiered_async}, defects=TIERED_DEFECTS
    ),
    "InMemoryStore": Peer(
        opens=dict.fromkeys(MODES, _open_in_memory),
        ttl=False,
        distance_types=frozenset({"cosine"}),
        defects=IN_MEMORY_DEFECTS,
    ),
    "PostgresStore": Peer(opens=dict.fromkeys(MODES, _open_postgres), defects=POSTGRES_DEFECTS),
    "AsyncPostgresStore": Peer(
        opens=dict.fromkeys(MODES, _open_async_postgres),
        defects=POSTGRES_DEFECTS | {"keys_are_coerced_to_text"},
    ),
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
                _failed_checks, peer, _new_database(server_url, name, mode), mode
            )
            for name, peer in PEERS.items()
            for mode in MODES
        }


def _new_database(server_url: str, name: str, mode: Mode) -> str:
    return create(server_url, f"{name}_{mode}".lower())


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", PEERS)
def test_the_kit_finds_exactly_the_known_defects(name: str, mode: Mode, verdicts: Verdicts) -> None:
    found, known = verdicts[name, mode].result(), PEERS[name].defects
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
    options = ["-q", "--tb=no", "-p", "no:cacheprovider", "-k", "namespace"]
    command = [sys.executable, "-m", "pytest", *options, "."]
    path = os.pathsep.join([str(DOCS.parents[1]), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONPATH": path}
    ran = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    peer = PEERS["InMemoryStore"]
    tried = [name in peer.defects for name in peer.claimed() if "namespace" in name]
    failed, passed = (len(MODES) * tried.count(verdict) for verdict in (True, False))
    assert f"{failed} failed, {passed} passed" in ran.stdout, ran.stdout + ran.stderr


def test_importing_the_package_does_not_import_pytest() -> None:
    code = "import sys, langmem_tiers; assert 'pytest' not in sys.modules"
    path = str(DOCS.parents[1])
    subprocess.run([sys.executable, "-c", code], cwd=path, check=True)


def _table() -> str:
    defects = {name: peer.defects for name, peer in PEERS.items()}
    unclaimed = {name: peer.unclaimed() for name, peer in PEERS.items()}
    return conformance_table(defects, unclaimed)


def _with_table(text: str) -> str:
    before, _, rest = text.partition(TABLE_START)
    after = rest.partition(TABLE_END)[2]
    return f"{before}{TABLE_START}\n{_table()}\n{TABLE_END}{after}"


def test_the_documented_table_is_up_to_date() -> None:
    text = DOCS.read_text("utf-8")
    assert text == _with_table(text), f"run: python {Path(__file__).name}"


if __name__ == "__main__":
    DOCS.write_text(_with_table(DOCS.read_text("utf-8")), "utf-8")
