"""The plan of one of our own statements, with the very parameters that a call sends."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import psycopg
import pytest
from psycopg import sql
from psycopg.adapt import PyFormat, Transformer

from benchmarks.listening import Statements
from langmem_tiers import TieredStore
from langmem_tiers.core.vectors import PackedVector
from langmem_tiers.postgres.flow import Call
from langmem_tiers.postgres.session import Database
from langmem_tiers.postgres.sql import Statement
from tests.support.opening import text_index
from tests.support.servers import fresh_database

Mode = Literal["force_custom_plan", "force_generic_plan"]
MODES: tuple[Mode, ...] = ("force_custom_plan", "force_generic_plan")
_EXECUTE = sql.SQL("EXECUTE ")


def calls_of(store: TieredStore, use: Callable[[], object]) -> list[Call]:
    """Use the store and answer the statements that it ran.

    Not those that count earlier reads: they go out in the background once a second has passed.
    """
    with Statements().of(store) as found:
        use()
    return [call for sent in found.sent if not _counts(sent) for call in sent]


def _counts(sent: Sequence[Call]) -> bool:
    return any(call.name == "count_accesses" for call in sent)


def named(calls: Sequence[Call], name: str) -> Call:
    """The call of one name, or of its variant for this scope."""
    exact = [call for call in calls if call.name == name]
    (found,) = exact or [call for call in calls if call.name.startswith(f"{name}_")]
    return found


@contextmanager
def loaded(
    server_url: str, fill: str, *tables: str, analysed: bool = True, **options: Any
) -> Iterator[TieredStore]:
    """A store of sixteen dimensions on rows that a script makes, without HNSW.

    It is analysed once; if not, `tables` are those that are never analysed by themselves either.
    """
    with (
        fresh_database(server_url) as url,
        TieredStore.from_conn_string(url, index=text_index(16), **options) as store,
    ):
        store.setup()
        with psycopg.connect(url, autocommit=True) as conn:
            for table in tables:
                conn.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = off)".encode())
            conn.execute(fill.encode())
            if analysed:
                conn.execute("VACUUM ANALYZE")
        yield store


def loaded_store(fill: str, *tables: str, **options: Any) -> Any:
    """A module's fixture of such a store with good statistics, and of one that has none."""

    @pytest.fixture(scope="module", params=[True, False], ids=["analysed", "never analysed"])
    def store(request: pytest.FixtureRequest, server_url: str) -> Iterator[TieredStore]:
        with loaded(server_url, fill, *tables, analysed=request.param, **options) as opened:
            yield opened

    return store


def plan(
    store: TieredStore,
    call: Call,
    mode: Mode,
    *,
    settings: Sequence[Call] = (),
    replace: tuple[str, str] = ("", ""),
) -> dict[str, Any]:
    """Run a prepared statement under EXPLAIN ANALYZE and answer the root of its plan.

    `settings` are run before, in the same transaction, and what names the tenant where the store
    is walled; nothing is kept of what is written.
    """
    database = store.runner._database
    assert database is not None
    statements = database.statements
    with database.pool.connection() as conn, conn.transaction(force_rollback=True):
        conn.execute(f"SET LOCAL plan_cache_mode = {mode}".encode())
        _run_before(conn, database, (*settings, *_names_tenant(database, call)))
        statement = statements[call.name]
        replaced = statement._replace(
            text=statement.text.replace(replace[0].encode(), replace[1].encode())
        )
        conn.execute(_prepared(conn, replaced, call, "probe"))
        found = _explained(conn, "probe", statement, call)
        conn.execute("DEALLOCATE ALL")
    return found


def kept_plan(store: TieredStore, call: Call) -> dict[str, Any]:
    """The same for the plan that the store's only connection made when it first ran this.

    Only for what reads: a rollback would make the driver forget what it has prepared.
    """
    database = store.runner._database
    assert database is not None
    statement = database.statements[call.name]
    with database.pool.connection() as conn, conn.transaction():
        _run_before(conn, database, _names_tenant(database, call))
        query = "SELECT name FROM pg_prepared_statements WHERE statement = %s"
        row = conn.execute(query, [statement.text.decode()], prepare=False).fetchone()
        assert row is not None, f"{call.name} was never run here"
        return _explained(conn, row[0], statement, call)


def _names_tenant(database: Database, call: Call) -> list[Call]:
    sent = database.wall.statements_for((call,), database.statements)
    return [one.call for one in sent if one.place is None]


def _run_before(conn: psycopg.Connection[Any], database: Database, calls: Sequence[Call]) -> None:
    for call in calls:
        statement = database.statements[call.name]
        conn.execute(_prepared(conn, statement, call, "before"), prepare=False)
        head = _EXECUTE + sql.SQL("before")
        conn.execute(_execute(head, statement, call), prepare=False)
        conn.execute("DEALLOCATE before", prepare=False)


def _explained(
    conn: psycopg.Connection[Any], name: str, statement: Statement, call: Call
) -> dict[str, Any]:
    head = sql.SQL("EXPLAIN (ANALYZE, FORMAT JSON) ") + _EXECUTE + sql.Identifier(name)
    row = conn.execute(_execute(head, statement, call), prepare=False).fetchone()
    assert row is not None
    found: dict[str, Any] = row[0][0]["Plan"]
    return found


def nodes(root: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Every node of a plan, from the top."""
    yield root
    for child in root.get("Plans", []):
        yield from nodes(child)


def scans(root: dict[str, Any]) -> list[dict[str, Any]]:
    """The nodes that read a table or an index, and were run at all."""
    return [
        node
        for node in nodes(root)
        if node["Actual Loops"] and ("Relation Name" in node or "Index Name" in node)
    ]


def indexes(root: dict[str, Any]) -> set[str]:
    """Names of the indexes that were read."""
    return {node["Index Name"] for node in scans(root) if "Index Name" in node}


def sequential(root: dict[str, Any]) -> list[str]:
    """Tables that were read from end to end."""
    return [
        f"{node.get('Schema', '')}{node['Relation Name']}"
        for node in scans(root)
        if node["Node Type"] == "Seq Scan"
    ]


def rows_read(
    root: dict[str, Any], counts: Callable[[dict[str, Any]], bool] = lambda _: True
) -> float:
    """Rows that scans have visited, kept or not; of those scans that count."""
    total: float = sum(
        node["Actual Loops"]
        * (
            node["Actual Rows"]
            + node.get("Rows Removed by Filter", 0)
            + node.get("Rows Removed by Index Recheck", 0)
        )
        for node in scans(root)
        if node["Node Type"] != "Bitmap Index Scan" and counts(node)
    )
    return total


def _values(statement: Statement, call: Call) -> list[Any]:
    return [call.params[name] for name in statement.names]


def _prepared(conn: psycopg.Connection[Any], statement: Statement, call: Call, name: str) -> bytes:
    values = _values(statement, call)
    adapting = Transformer(conn)
    adapting.dump_sequence(values, [PyFormat.AUTO] * len(values))
    types = ", ".join(_type_name(conn, oid) for oid in adapting.types or ())
    declared = f" ({types})" if types else ""
    return f"PREPARE {name}{declared} AS ".encode() + statement.text


def _execute(head: sql.Composable, statement: Statement, call: Call) -> sql.Composed:
    values = [_literal(value) for value in _values(statement, call)]
    arguments = sql.SQL(" ({})").format(sql.SQL(", ").join(values)) if values else sql.SQL("")
    return head + arguments


def _type_name(conn: psycopg.Connection[Any], oid: int) -> str:
    if oid == 0:
        return "unknown"
    row = conn.execute("SELECT format_type(%s::oid, NULL)", [oid]).fetchone()
    assert row is not None
    return str(row[0])


def _literal(value: Any) -> sql.Composable:
    if isinstance(value, PackedVector):
        return sql.Literal(_text(value))
    if isinstance(value, list) and value and isinstance(value[0], PackedVector):
        return sql.SQL("{}::halfvec[]").format(sql.Literal([_text(one) for one in value]))
    return sql.Literal(value)


def _text(vector: PackedVector) -> str:
    count = (len(vector.data) - 4) // 2
    return str(list(struct.unpack(f">HH{count}e", vector.data)[2:]))
