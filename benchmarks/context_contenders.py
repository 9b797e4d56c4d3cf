"""What is measured: `get_context`, its statement alone, and LangGraph's own store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Any

import psycopg
from langgraph.store.postgres import PostgresStore
from pgvector import HalfVector
from pgvector.psycopg import register_vector
from psycopg.conninfo import make_conninfo

from benchmarks.context_data import Question, Talks, context, tenant_name
from benchmarks.context_databases import Databases, options, peer_index
from benchmarks.listening import Overheard
from benchmarks.raw import LIMIT, Accesses
from langmem_tiers import MemoryCoordinator, TieredStore
from langmem_tiers.core.vectors import PackedVector
from langmem_tiers.postgres.flow import Call, Row
from langmem_tiers.postgres.sql import Statement, statements
from langmem_tiers.recall.matching import Candidate

CALIBRATED, MATCH = "calibrated", "match"
OURS, OURS_MATCH = f"get_context, {CALIBRATED}", f"get_context, {MATCH}"
RAW, PEER = "raw SQL", "PostgresStore.search"
PEER_FULL = "PostgresStore.search, set by hand"

Ask = Callable[[Question], Sequence[Any]]

_BY_HAND = (
    "-c hnsw.iterative_scan=relaxed_order -c hnsw.ef_search=600 "
    "-c hnsw.max_scan_tuples=1000000 -c hnsw.scan_mem_multiplier=8"
)
"""The fastest of a dozen settings that finds full pages in small namespaces."""

_ID = Candidate._fields.index("id")
"""The column of the statement that holds a memory's id."""
_TOLD = {"local": False, "timeout": "0", "actor": "", "role": None, "tenant": ""}
_OWN = Call("enter", {**_TOLD, "path": "pg_catalog, public, pg_temp"})
"""What the store's own connections are told."""


class Coordinators:
    """One for each tenant, on one store."""

    def __init__(self, store: TieredStore, tenants: int) -> None:
        self._of = {
            name: MemoryCoordinator(store, context=context(name))
            for name in map(tenant_name, range(tenants))
        }

    def ask(self, question: Question, *, profile: str) -> Sequence[Any]:
        """Recall ten memories."""
        memory = self._of[question.tenant]
        return memory.get_context(question.text, limit=LIMIT, profile=profile, min_match=0)


class RawRecall:
    """The package's own statement, in a script: a connection that is held, rows as they come.

    Its parameters are those that `get_context` sent, prepared beforehand. Ten of the rows count
    as read, gathered and written once a second.
    """

    def __init__(self, url: str, texts: Mapping[str, Statement], calls: Mapping[str, Call]) -> None:
        self._conn = psycopg.connect(url, autocommit=True, prepare_threshold=0)
        register_vector(self._conn)
        self._cursor = psycopg.RawCursor(self._conn)
        self._cursor.execute(texts["enter"].text, _values(_OWN, texts["enter"].names))
        self._count = texts["count_accesses"]
        self._asked = {
            question: (texts[call.name].text, _values(call, texts[call.name].names))
            for question, call in calls.items()
        }
        self._accesses = Accesses()

    def close(self) -> None:
        """Hang up."""
        self._conn.close()

    def ask(self, question: Question) -> Sequence[Any]:
        """Every candidate with its evidence, unranked."""
        text, values = self._asked[question.text]
        rows: list[Row] = self._cursor.execute(text, values, binary=True).fetchall()
        for row in rows[:LIMIT]:
            self._accesses.add(question.tenant, row[_ID])
        if due := self._accesses.take_due():
            given = dict(zip(("tenants", "ids", "counts"), due, strict=True))
            given["now"] = datetime.now(UTC)
            self._cursor.execute(self._count.text, [given[name] for name in self._count.names])
        return rows


@contextmanager
def opened(
    databases: Databases, talks: Talks, calls: Mapping[str, Call]
) -> Iterator[dict[str, Ask]]:
    """Each contender, as its documentation opens it."""
    with ExitStack() as stack:
        store = stack.enter_context(TieredStore.from_conn_string(databases.tiers, **options(talks)))
        ours = Coordinators(store, talks.tenants)
        raw = raw_recall(databases.tiers, store, calls)
        stack.callback(raw.close)
        contenders: dict[str, Ask] = {
            OURS: partial(ours.ask, profile=CALIBRATED),
            OURS_MATCH: partial(ours.ask, profile=MATCH),
            RAW: raw.ask,
        }
        if databases.peer is not None:
            by_hand = make_conninfo(databases.peer, options=_BY_HAND)
            for name, address in ((PEER, databases.peer), (PEER_FULL, by_hand)):
                peer = PostgresStore.from_conn_string(address, index=peer_index(talks))
                contenders[name] = partial(_search, stack.enter_context(peer))
        yield contenders


def raw_recall(url: str, store: TieredStore, calls: Mapping[str, Call]) -> RawRecall:
    """The script, with the statements that this store would run."""
    index = store.options.index
    return RawRecall(url, statements(store.options, index.vector if index else None), calls)


def overhear(databases: Databases, talks: Talks, questions: Iterable[Question]) -> dict[str, Call]:
    """What `get_context` sends for these questions, by their text."""
    with Overheard.from_conn_string(databases.tiers, **options(talks)) as store:
        ours = Coordinators(store, talks.tenants)
        calls = {}
        for question in questions:
            ours.ask(question, profile=MATCH)
            calls[question.text] = store.call
        return calls


def _search(store: PostgresStore, question: Question) -> Sequence[Any]:
    return store.search((question.tenant,), query=question.text, limit=LIMIT)


def _values(call: Call, names: Sequence[str]) -> list[Any]:
    given = (call.params[name] for name in names)
    return [
        HalfVector.from_binary(one.data) if isinstance(one, PackedVector) else one for one in given
    ]
