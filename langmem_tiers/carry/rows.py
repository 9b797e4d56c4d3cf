"""What a row of an export has to be, and what becomes of it on its way: rules alone."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Final, NamedTuple

from langmem_tiers.carry.file import as_json, as_read, number_in
from langmem_tiers.carry.models import check_read
from langmem_tiers.core.carried import IDS, KEPT
from langmem_tiers.core.errors import InvalidInputError, short
from langmem_tiers.core.memory import QUARANTINED, TIERS
from langmem_tiers.core.namespaces import check_key, decode, encode
from langmem_tiers.core.values import source_of, trust_of
from langmem_tiers.forget.passages import Passages
from langmem_tiers.forget.places import Event, Known, State
from langmem_tiers.forget.scrub import Scrubber
from langmem_tiers.remember.trust import TrustPolicy, derived_trust

MOST_ID: Final = 2**62
"""Ids are below it, so that a file cannot use the sequence of them up: our own choice."""
_RANGES: Final = {
    "smallint": 2**15,
    "integer": 2**31,
    "bigint": 2**63,
}
_FLOATS: Final = frozenset(("NaN", "Infinity", "-Infinity"))
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?\+00:00")
_VECTOR: Final = re.compile(r"(?P<type>vector|halfvec)\((?P<dims>\d+)\)")
_NUMBERS: Final = re.compile(r"\[[-+0-9.eE,]+\]")
_BYTES: Final = re.compile(r"\\x(?:[0-9a-f]{2})*")
_ID: Final = re.compile(r"[1-9][0-9]{0,17}")
OWN: Final = KEPT | {"archives", "archived"}
"""The tables that are taken only from a file that whoever imports it answers for: later calls read
and remove files and threads that they name, and the key tells what is forgotten to who knows it."""
_LISTED: Final = {"events": ("sources", "again"), "forgettings": ("ids", "rewritten")}
"""Where ids stand in the column `detail`."""


class Column(NamedTuple):
    """A column of a table; a row of carried_columns after the table's name."""

    name: str
    type: str
    needed: bool


Tables = Mapping[str, Mapping[str, Column]]


def tables_of(rows: Iterable[tuple[str, str, str, bool]]) -> Tables:
    """The columns of each table, by name."""
    found: dict[str, dict[str, Column]] = defaultdict(dict)
    for table, name, kind, needed in rows:
        found[table][name] = Column(name, kind, needed)
    return found


def check_row(
    table: str, row: Mapping[str, Any], columns: Mapping[str, Column], tenant: str
) -> None:
    """Check that a row can be one of this table and tenant, and that every verb can read it.

    Raises:
        InvalidInputError: if it cannot.
    """
    if row.keys() != columns.keys():
        odd = short(sorted(row.keys() ^ columns.keys()))
        raise InvalidInputError(f"a row of {table} has other columns ({odd})")
    if row["tenant"] != tenant:
        raise InvalidInputError(f"a row of {table} is of another tenant, {short(row['tenant'])}")
    try:
        as_json(row)
    except UnicodeEncodeError as error:
        raise InvalidInputError("a text is no valid Unicode: it has a lone surrogate") from error
    for one in columns.values():
        _check_value(table, row[one.name], one)
    if "namespace" in row:
        _check_place(row["namespace"], tenant)
    if "key" in row:
        check_key(row["key"])
    check_read(table, row)


def _check_value(table: str, value: object, column: Column) -> None:
    if value is None and column.needed:
        raise InvalidInputError(f"{table}.{column.name} is missing")
    if value is not None and not _fits(value, column):
        shown = short(as_json(value)[:400])
        raise InvalidInputError(f"{table}.{column.name} is no {column.type}: {shown}")


def _check_place(namespace: str, tenant: str) -> None:
    if encode(decode(tenant, namespace)).namespace != namespace:
        raise InvalidInputError(f"this is no namespace: {short(namespace)}")


def _fits(value: Any, column: Column) -> bool:
    if column.type.endswith("[]"):
        each = column._replace(type=column.type[:-2])
        return isinstance(value, list) and all(_fits(one, each) for one in value)
    if column.name in IDS:
        return _is_id(value)
    if (most := _RANGES.get(column.type)) is not None:
        return type(value) is int and -most <= value < most
    return _KINDS.get(column.type, partial(_is_text, column.type))(value)


def _is_id(value: object) -> bool:
    return type(value) is int and 0 < value < MOST_ID


def _is_text(kind: str, value: Any) -> bool:
    """Whether it can be of a type whose values are written as texts."""
    if not isinstance(value, str) or number_in(value) is not None:
        return False
    if (vector := _VECTOR.fullmatch(kind)) is not None:
        return _NUMBERS.fullmatch(value) is not None and value.count(",") + 1 == int(vector["dims"])
    return kind not in _TEXTS or _TEXTS[kind](value)


def _is_float(value: Any) -> bool:
    if (number := number_in(value)) is not None:
        return abs(float(number)) < float("inf")
    return value in _FLOATS if isinstance(value, str) else type(value) is int


def _is_time(text: str) -> bool:
    """Whether Python reads it: one that it does not, which Postgres has, ends every recall."""
    try:
        return _TIME.fullmatch(text) is not None and bool(datetime.fromisoformat(text))
    except ValueError:
        return False


_KINDS: Final[Mapping[str, Callable[[Any], bool]]] = {
    "jsonb": lambda _: True,
    "boolean": lambda value: isinstance(value, bool),
    "double precision": _is_float,
}
_TEXTS: Final[Mapping[str, Callable[[str], bool]]] = {
    "timestamp with time zone": _is_time,
    "tier": lambda text: text in TIERS,
    "bytea": lambda text: _BYTES.fullmatch(text) is not None,
}


def each_id(table: str, row: dict[str, Any], change: Callable[[int], int]) -> None:
    """Change every id of a row, in its columns and in its JSON."""
    for name in IDS & row.keys():
        one = row[name]
        row[name] = [change(each) for each in one] if isinstance(one, list) else one and change(one)
    detail = row.get("detail")
    if isinstance(detail, dict):
        _each_in_detail(table, detail, change)


def _each_in_detail(table: str, detail: dict[str, Any], change: Callable[[int], int]) -> None:
    for name in _LISTED.get(table, ()):
        if isinstance(detail.get(name), list):
            detail[name] = [change(one) if _is_id(one) else one for one in detail[name]]
    versions = detail.get("versions")
    if table == "events" and isinstance(versions, dict):
        detail["versions"] = {
            str(change(int(one))) if _ID.fullmatch(one) else one: at for one, at in versions.items()
        }
    for name in ("handed", "had"):
        counters = detail.get(name)
        if table == "events" and isinstance(counters, dict) and _is_id(counters.get("id")):
            counters["id"] = change(counters["id"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Gone:
    """Memories of a file that were forgotten where they are to come, and what they say."""

    tenant: str
    ids: frozenset[int]
    texts: tuple[str, ...]
    keys: frozenset[str]

    @property
    def scrubber(self) -> Scrubber:
        """What judges the other rows by them."""
        passages = Passages(self.texts, self.keys)
        return Scrubber(erased=self.ids, passages=passages)


def known_of(row: Mapping[str, Any]) -> Known:
    """A memory as forgetting looks at it."""
    named = ("id", "tier", "namespace", "key", "value", "state", "user_id", "session", "speaker")
    told = {name: row[name] for name in named}
    return Known(**told | {"value": as_read(row["value"])})


def without(
    gone: Gone, scrubber: Scrubber, table: str, row: dict[str, Any]
) -> dict[str, Any] | None:
    """A row without what was forgotten; None if it goes."""
    if table == "events":
        told = Event(row["event"], row["kind"], row["id"], row["target"], row["detail"])
        kept = scrubber.event(told)
        return None if kept is None else {**row, **kept._asdict()}
    if not gone.ids.isdisjoint({row.get("id"), row.get("source")}):
        return None
    if table == "states":
        told_state = State(row["owner"], row["kind"], row["name"], row["value"])
        return None if scrubber.state(told_state) else row
    if table == "intentions":
        return {**row, "needs": [one for one in row["needs"] if one not in gone.ids]}
    if table == "memories":
        return {**row, "value": scrubber.unquoted(row["value"])}
    return row


class Lowered(NamedTuple):
    """A memory that is held back, as it is trusted too little."""

    namespace: str
    key: str
    reason: str
    trust: float


def lowered(row: dict[str, Any], source: str, policy: TrustPolicy) -> Lowered | None:
    """Trust a memory no further than who answers for the file; what is to be held back then.

    It comes from them as well, where they are trusted less than whom it names itself.
    """
    value = row["value"]
    plain = as_read(value)
    had = trust_of(plain)
    most = policy.of_source(source)
    trust = derived_trust(most, [had])
    named = {"source": source} if most < policy.of_source(source_of(plain)) else {}
    row["value"] = {**value, **named, **({"trust": trust} if trust < had else {})}
    kind = str(plain.get("memory_type") or "episodic")
    if row["state"] == QUARANTINED or not policy.quarantines(trust, kind):
        return None
    reason = f"trust: {trust:g} is below {policy.below(kind):g}, as {source} answers for its export"
    return Lowered(row["namespace"], row["key"], reason, trust)


def ids_of(table: str, rows: Iterable[dict[str, Any]]) -> Collection[int]:
    """Every id of some rows."""
    found = set[int]()

    def keep(one: int) -> int:
        found.add(one)
        return one

    for row in rows:
        each_id(table, row, keep)
    return found
