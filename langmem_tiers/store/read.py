"""Reads of memories by key, by nearness or newest first, and of namespaces."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple, Protocol

from langmem_tiers.core.config import EF_SEARCH, StoreOptions
from langmem_tiers.core.memory import TIERS, Moment, Place, Scope, Tier
from langmem_tiers.core.vectors import PackedVector
from langmem_tiers.postgres.flow import Call, Flow, Lookup, Query, Row
from langmem_tiers.store.filters import Condition, filter_params

_SLIDE_AFTER = 0.1
"""The share of a long life that must have passed before a read writes a new expiry."""
_SHORT_LIFE_MINUTES = 10
"""Every read extends lives up to this long."""


class ItemRow(NamedTuple):
    """A row of any statement that reads memories, with its columns in this order."""

    tenant: str
    namespace: str
    key: str
    value: dict[str, Any]
    created_at: datetime
    updated_at: datetime
    tier: str
    expires_at: datetime | None
    ttl_minutes: float | None
    id: int
    distance: float | None = None


_ID = ItemRow._fields.index("id")


class ReadScope(NamedTuple):
    """The options, moment and tiers that all reads of one call share."""

    options: StoreOptions
    moment: Moment
    tiers: Sequence[Tier] = TIERS
    ann_tiers: Sequence[Tier] = ()
    """The tiers that have an HNSW index."""

    def includes(self, row: ItemRow) -> bool:
        """Return True if a row is in these tiers and has not expired."""
        alive = row.expires_at is None or row.expires_at > self.moment.alive_at
        return alive and row.tier in self.tiers

    @property
    def common_params(self) -> dict[str, Any]:
        """The parameters that most statements take."""
        return {
            "tiers": [tier.value for tier in self.tiers],
            "alive_at": self.moment.alive_at,
        }


class GetRequest(NamedTuple):
    """A read of one memory by key."""

    place: Place
    key: str
    refresh: bool = True

    @property
    def tenant(self) -> str:
        """The tenant of the memory."""
        return self.place.tenant


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRequest:
    """A read of a page of memories under a prefix, by nearness or newest first."""

    scope: Scope
    conditions: Sequence[Condition] = ()
    text: str | None = None
    limit: int = 10
    offset: int = 0
    refresh: bool = True

    @property
    def tenant(self) -> str | None:
        """The tenant that is searched; None for all tenants."""
        return self.scope.tenant


@dataclass(frozen=True, slots=True, kw_only=True)
class ListRequest:
    """A read of namespaces; `matches` are (kind, labels as a text[] literal)."""

    tenant: str | None = None
    matches: Sequence[tuple[str, str]] = ()
    max_depth: int | None = None
    limit: int = 100
    offset: int = 0


ReadRequest = GetRequest | SearchRequest | ListRequest


def answer_reads(
    reads: Sequence[ReadRequest],
    vectors: Mapping[str, PackedVector | None],
    *,
    reading: ReadScope,
    commit: bool,
) -> Flow[list[Any]]:
    """Answer reads in order: a row or None, a list of rows, or a list of label lists.

    This takes one round trip, unless a page comes back short. `vectors` are those of the queries.
    Without `commit` the transaction stays open, for the writes of the same batch.
    """
    gets = [request for request in reads if isinstance(request, GetRequest)]
    others = {
        i: _read_call(request, vectors, reading)
        for i, request in enumerate(reads)
        if not isinstance(request, GetRequest)
    }
    calls = [Lookup.call(list(dict.fromkeys(map(lookup, gets))))] if gets else []
    rows = yield from _run_calls([*calls, *others.values()], commit=commit)
    answers = _answer_gets(reads, rows.pop(0) if gets else (), reading)
    for (i, call), answer in zip(others.items(), rows, strict=True):
        answers[i] = yield from _complete_answer(
            reads[i], call, answer, reading.tiers, commit=commit
        )
    return answers


class ExpiringRow(Protocol):
    """A row of a memory that may expire."""

    @property
    def tenant(self) -> str:
        """The tenant's label."""

    @property
    def id(self) -> int:
        """The number of the memory."""

    @property
    def ttl_minutes(self) -> float | None:
        """The minutes that it lives after a read; None for ever."""

    @property
    def expires_at(self) -> datetime | None:
        """The time at which it expires, unless it is read before."""


def _is_due(row: ExpiringRow, moment: Moment) -> bool:
    """Return True if a read must write a new expiry: always for a short life, else rarely."""
    if row.ttl_minutes is None or row.expires_at is None:
        return False
    if row.ttl_minutes <= _SHORT_LIFE_MINUTES:
        return True
    life = timedelta(minutes=row.ttl_minutes)
    return moment.now + life - row.expires_at > life * _SLIDE_AFTER


def extend_lives(read: Iterable[ExpiringRow], moment: Moment) -> Flow[None]:
    """Restart the lives of memories that were just read, in a transaction of its own.

    Nobody waits for the commit, so a crash may lose it. We accept that.
    """
    rows = {(row.tenant, row.id): row for row in read if _is_due(row, moment)}
    if due := sorted(rows):
        params = {
            "tenants": [tenant for tenant, _ in due],
            "ids": [number for _, number in due],
            "now": moment.now,
        }
        yield Query((Call("extend", params),), commit=True)


def _run_calls(calls: Sequence[Call], *, commit: bool) -> Flow[list[list[Row]]]:
    """Run calls in one round trip, with settings of their own for searches by HNSW.

    A statement is planned when it first runs. Another statement that ran under these settings
    would keep a plan made for them.
    """
    ann = [call.name.startswith("search_ann") for call in calls]
    alone = commit and all(ann)
    framed: list[Call] = []
    places: list[int] = []
    for call, by_hnsw in zip(calls, ann, strict=True):
        framed += [Call("ann_settings", {"ef_search": str(EF_SEARCH)})] if by_hnsw else []
        places.append(len(framed))
        framed.append(call)
        framed += [Call("usual_settings", {})] if by_hnsw and not alone else []
    rows = yield Query(tuple(framed), commit=commit)
    return [rows[place] for place in places]


def lookup(get: GetRequest) -> Lookup:
    """Make the effect that reads one memory by key."""
    return Lookup(*get.place, get.key)


def _answer_gets(
    reads: Sequence[ReadRequest], rows: Sequence[Row], reading: ReadScope
) -> list[Any]:
    """Return the row of each get; None for other reads and for memories that are not visible."""
    rows_by_key = {(row[0], row[1], row[2]): ItemRow(*row) for row in rows}
    answers: list[Any] = []
    for request in reads:
        hit = (
            rows_by_key.get((*request.place, request.key))
            if isinstance(request, GetRequest)
            else None
        )
        answers.append(hit if hit and reading.includes(hit) else None)
        if hit:  # a second get of the same key has its own value to change
            rows_by_key[hit[:3]] = hit._replace(value=deepcopy(hit.value))
    return answers


def _read_call(
    request: SearchRequest | ListRequest,
    vectors: Mapping[str, PackedVector | None],
    reading: ReadScope,
) -> Call:
    if isinstance(request, ListRequest):
        return _namespaces_call(request, reading)
    name, vector = "search_newest", vectors.get(request.text or "")
    if vector is not None:
        few = request.limit + request.offset <= EF_SEARCH // 2
        name = "search_exact"
        if few and any(tier in reading.ann_tiers for tier in reading.tiers):
            name = "search_ann"
        elif not request.offset and not (
            reading.options.index and reading.options.index.has_many_vectors
        ):
            name = "search_single"
    return Call(
        statement_name(name, request, reading.tiers), search_params(request, vector, reading)
    )


def statement_name(name: str, search: SearchRequest, tiers: Sequence[Tier] = TIERS) -> str:
    """Return the name of a statement's variant, by scope, filter and tiers (all or one)."""
    filtered = "_filtered" if search.conditions else ""
    tier = "" if len(tiers) == len(TIERS) else f"_{tiers[0]}"
    return f"{name}{filtered}_{search.scope.kind}{tier}"


def search_params(
    search: SearchRequest, vector: PackedVector | None, reading: ReadScope
) -> dict[str, Any]:
    """Return the parameters of any search statement."""
    wanted = search.limit + search.offset
    return {
        **reading.common_params,
        **(filter_params(search.conditions) if search.conditions else {}),
        "tenant": search.scope.tenant,
        "low": search.scope.low,
        "high": search.scope.high,
        "query": vector,
        "limit": search.limit,
        "offset": search.offset,
        "wanted": wanted,
        "candidates": EF_SEARCH,
        "exact_limit": reading.options.exact_limit,
    }


def _complete_answer(
    request: ReadRequest, call: Call, rows: list[Row], tiers: Sequence[Tier], *, commit: bool
) -> Flow[list[Any]]:
    """Turn rows into an answer; fill a short page by exact search, then without vectors."""
    if not isinstance(request, SearchRequest):
        return [row[0] for row in rows]
    short = call.name.startswith("search_ann") and len(rows) < request.limit
    single = call.name.startswith("search_single")
    if short or (single and len({row[_ID] for row in rows}) < len(rows)):
        again = call._replace(name=statement_name("search_exact", request, tiers))
        (rows,) = yield Query((again,), commit=commit)
    if not call.name.startswith("search_newest") and len(rows) < request.limit:
        rest = {**call.params, "limit": request.limit - len(rows)}
        (more,) = yield Query(
            (Call(statement_name("search_unembedded", request), rest),), commit=commit
        )
        rows = rows + more
    return [ItemRow(*row) for row in rows]


def _namespaces_call(request: ListRequest, reading: ReadScope) -> Call:
    params = {
        **reading.common_params,
        "tenant": request.tenant,
        "kinds": [kind for kind, _ in request.matches],
        "paths": [path for _, path in request.matches],
        "max_depth": request.max_depth,
        "limit": request.limit,
        "offset": request.offset,
    }
    return Call(f"list_namespaces_{'everywhere' if request.tenant is None else 'tenant'}", params)


def rows_to_refresh(reads: Sequence[ReadRequest], answers: Sequence[Any]) -> list[ItemRow]:
    """Return the rows whose lives a read extends."""
    rows: list[ItemRow] = []
    for request, answer in zip(reads, answers, strict=True):
        if answer and not isinstance(request, ListRequest) and request.refresh:
            rows += answer if isinstance(request, SearchRequest) else (answer,)
    return rows
