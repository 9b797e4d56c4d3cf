"""Reading memories: by key, by nearness, newest first, and their namespaces."""

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
"""Share of a long life that must have passed before a read writes a new expiry."""
_SHORT_LIFE_MINUTES = 10
"""Lives up to this long are extended by every read."""


class Found(NamedTuple):
    """A row of any statement that reads memories; the columns are in this order."""

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


_ID = Found._fields.index("id")


class Reading(NamedTuple):
    """What holds for every read of one call."""

    options: StoreOptions
    moment: Moment
    tiers: Sequence[Tier] = TIERS
    ann_tiers: Sequence[Tier] = ()
    """Those that have an HNSW index."""

    def sees(self, found: Found) -> bool:
        """Whether a row read by key is in these tiers and not expired."""
        alive = found.expires_at is None or found.expires_at > self.moment.alive_at
        return alive and found.tier in self.tiers

    @property
    def common(self) -> dict[str, Any]:
        """Parameters that most statements take."""
        return {
            "tiers": [tier.value for tier in self.tiers],
            "alive_at": self.moment.alive_at,
        }


class Get(NamedTuple):
    """Ask for one memory by key."""

    place: Place
    key: str
    refresh: bool = True

    @property
    def tenant(self) -> str:
        """Whose it is."""
        return self.place.tenant


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """Ask for a page of memories under a prefix, by nearness or newest first."""

    scope: Scope
    conditions: Sequence[Condition] = ()
    text: str | None = None
    limit: int = 10
    offset: int = 0
    refresh: bool = True

    @property
    def tenant(self) -> str | None:
        """Whose are sought; None for everybody's."""
        return self.scope.tenant


@dataclass(frozen=True, slots=True, kw_only=True)
class ListNamespaces:
    """Ask for namespaces; `matches` are (kind, labels as a text[] literal)."""

    tenant: str | None = None
    matches: Sequence[tuple[str, str]] = ()
    max_depth: int | None = None
    limit: int = 100
    offset: int = 0


Read = Get | Search | ListNamespaces


def read(
    reads: Sequence[Read],
    vectors: Mapping[str, PackedVector | None],
    *,
    reading: Reading,
    commit: bool,
) -> Flow[list[Any]]:
    """Answer reads in order: Found or None, lists of Found, lists of label lists.

    It takes one round trip unless a page comes back short. `vectors` are those of the queries.
    Without `commit` the transaction stays open, for the writes of the same batch.
    """
    gets = [one for one in reads if isinstance(one, Get)]
    others = {
        i: _call(one, vectors, reading) for i, one in enumerate(reads) if not isinstance(one, Get)
    }
    calls = [Lookup.call(list(dict.fromkeys(map(lookup, gets))))] if gets else []
    rows = yield from _query([*calls, *others.values()], commit=commit)
    answers = _got(reads, rows.pop(0) if gets else (), reading)
    for (i, call), answer in zip(others.items(), rows, strict=True):
        answers[i] = yield from _complete(reads[i], call, answer, reading.tiers, commit=commit)
    return answers


class Mortal(Protocol):
    """A row of a memory that may have a TTL."""

    @property
    def tenant(self) -> str:
        """The tenant's label."""

    @property
    def id(self) -> int:
        """The memory's own number."""

    @property
    def ttl_minutes(self) -> float | None:
        """How long it lives after a read; None for ever."""

    @property
    def expires_at(self) -> datetime | None:
        """When it expires, unless it is read before."""


def _is_due(found: Mortal, moment: Moment) -> bool:
    """Whether a read is to write a new expiry: a short life to the point, a long one rarely."""
    if found.ttl_minutes is None or found.expires_at is None:
        return False
    if found.ttl_minutes <= _SHORT_LIFE_MINUTES:
        return True
    life = timedelta(minutes=found.ttl_minutes)
    return moment.now + life - found.expires_at > life * _SLIDE_AFTER


def extend(read: Iterable[Mortal], moment: Moment) -> Flow[None]:
    """Begin the lives of what was just read again, in a transaction of its own.

    Losing this in a crash is accepted: its commit is not waited for.
    """
    known = {(row.tenant, row.id): row for row in read if _is_due(row, moment)}
    if due := sorted(known):
        params = {
            "tenants": [tenant for tenant, _ in due],
            "ids": [number for _, number in due],
            "now": moment.now,
        }
        yield Query((Call("extend", params),), commit=True)


def _query(calls: Sequence[Call], *, commit: bool) -> Flow[list[list[Row]]]:
    """Run calls in one round trip, searches by HNSW under settings that only they see.

    A statement is planned where it first runs: another that ran under them would keep the plan.
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


def lookup(one: Get) -> Lookup:
    """What reads one memory by key."""
    return Lookup(*one.place, one.key)


def _got(reads: Sequence[Read], rows: Sequence[Row], reading: Reading) -> list[Any]:
    """The answer of each get; None for other reads and for what is not visible."""
    found = {(row[0], row[1], row[2]): Found(*row) for row in rows}
    answers: list[Any] = []
    for one in reads:
        hit = found.get((*one.place, one.key)) if isinstance(one, Get) else None
        answers.append(hit if hit and reading.sees(hit) else None)
        if hit:  # who asks twice gets two values that do not change with each other
            found[hit[:3]] = hit._replace(value=deepcopy(hit.value))
    return answers


def _call(
    one: Search | ListNamespaces,
    vectors: Mapping[str, PackedVector | None],
    reading: Reading,
) -> Call:
    if isinstance(one, ListNamespaces):
        return _namespaces_call(one, reading)
    name, vector = "search_newest", vectors.get(one.text or "")
    if vector is not None:
        few = one.limit + one.offset <= EF_SEARCH // 2
        name = "search_exact"
        if few and any(tier in reading.ann_tiers for tier in reading.tiers):
            name = "search_ann"
        elif not one.offset and not (reading.options.index and reading.options.index.several):
            name = "search_single"
    return Call(statement_name(name, one, reading.tiers), search_params(one, vector, reading))


def statement_name(name: str, one: Search, tiers: Sequence[Tier] = TIERS) -> str:
    """The variant of a statement for that scope, with or without a filter, for all tiers or one."""
    filtered = "_filtered" if one.conditions else ""
    tier = "" if len(tiers) == len(TIERS) else f"_{tiers[0]}"
    return f"{name}{filtered}_{one.scope.kind}{tier}"


def search_params(one: Search, vector: PackedVector | None, reading: Reading) -> dict[str, Any]:
    """The parameters of every search statement."""
    wanted = one.limit + one.offset
    return {
        **reading.common,
        **(filter_params(one.conditions) if one.conditions else {}),
        "tenant": one.scope.tenant,
        "low": one.scope.low,
        "high": one.scope.high,
        "query": vector,
        "limit": one.limit,
        "offset": one.offset,
        "wanted": wanted,
        "candidates": EF_SEARCH,
        "exact_limit": reading.options.exact_limit,
    }


def _complete(
    one: Read, call: Call, rows: list[Row], tiers: Sequence[Tier], *, commit: bool
) -> Flow[list[Any]]:
    """Turn rows into answers; fill a short page from the exact search, then without vectors."""
    if not isinstance(one, Search):
        return [row[0] for row in rows]
    short = call.name.startswith("search_ann") and len(rows) < one.limit
    single = call.name.startswith("search_single")
    if short or (single and len({row[_ID] for row in rows}) < len(rows)):
        again = call._replace(name=statement_name("search_exact", one, tiers))
        (rows,) = yield Query((again,), commit=commit)
    if not call.name.startswith("search_newest") and len(rows) < one.limit:
        rest = {**call.params, "limit": one.limit - len(rows)}
        (more,) = yield Query(
            (Call(statement_name("search_unembedded", one), rest),), commit=commit
        )
        rows = rows + more
    return [Found(*row) for row in rows]


def _namespaces_call(one: ListNamespaces, reading: Reading) -> Call:
    params = {
        **reading.common,
        "tenant": one.tenant,
        "kinds": [kind for kind, _ in one.matches],
        "paths": [path for _, path in one.matches],
        "max_depth": one.max_depth,
        "limit": one.limit,
        "offset": one.offset,
    }
    return Call(f"list_namespaces_{'everywhere' if one.tenant is None else 'tenant'}", params)


def refreshed(reads: Sequence[Read], answers: Sequence[Any]) -> list[Found]:
    """What was just read, where a read is to extend its life."""
    found: list[Found] = []
    for one, answer in zip(reads, answers, strict=True):
        if answer and not isinstance(one, ListNamespaces) and one.refresh:
            found += answer if isinstance(one, Search) else (answer,)
    return found
