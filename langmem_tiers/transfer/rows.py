"""Check and change the rows of an export. Nothing here reads or writes.

The import refuses a row that a verb could not read later. The columns have the types of Postgres,
and the models that write triggers, states, receipts and details of events also check them.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime
from functools import partial
from types import GenericAlias
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeAlias

import pydantic
from pydantic import AfterValidator, Field, ValidationError

from langmem_tiers.agent_state import models as states
from langmem_tiers.agent_state.models import (
    DailySpend,
    EmotionalState,
    Goal,
    Message,
    Task,
    state_from_json,
)
from langmem_tiers.core.checks import check_key
from langmem_tiers.core.errors import InvalidInputError, TieredMemoryError, short
from langmem_tiers.core.exported_tables import ID_COLUMNS, PROOF_TABLES
from langmem_tiers.core.memory import QUARANTINED, STATES, decode_namespace, encode_namespace
from langmem_tiers.core.values import source_of, trust_of
from langmem_tiers.forget.passages import Passages
from langmem_tiers.forget.receipt import ForgetReceipt
from langmem_tiers.forget.text_places import EventRow, MemoryRow, Scrubber, StateRow
from langmem_tiers.remember.gate import TrustPolicy, derived_trust
from langmem_tiers.reminders.intentions import PRIORITIES, STORED_STATUSES
from langmem_tiers.reminders.triggers import trigger_from_json
from langmem_tiers.transfer.export_format import encode_json, python_value

MOST_ID: Final = 2**62
"""Ids are below this, so that a file cannot use up the sequence of ids: our own choice."""
OWNER_ONLY: Final = PROOF_TABLES | {"archives", "archived"}
"""Tables that are imported only if the importer answers for the file. Later calls read and remove
the files and threads that these rows name, and whoever knows the key can tell what was
forgotten."""
_IDS_IN_DETAIL: Final = {"events": ("sources", "again"), "forgettings": ("ids", "rewritten")}
"""Fields of the column `detail` that hold ids."""
_TURN: Final = "turn/"
"""Prefix of the names of a turn's events."""
_COMMITTED: Final = "committed"
_REMOVALS: Final = frozenset(("rejected", "evicted"))
_INFINITE: Final = ("infinity", "-infinity")
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?\+00:00")
_VECTOR: Final = re.compile(r"(?:vector|halfvec)\((\d+)\)")
_NUMBERS: Final = re.compile(r"\[[-+0-9.eE,]+\]")
_ID: Final = re.compile(r"[1-9][0-9]{0,17}")


# Types of columns


def _check_time(text: str) -> str:
    """Check that Python can parse a time. With any other of Postgres every recall would fail."""
    if _TIME.fullmatch(text) is None:
        raise ValueError
    datetime.fromisoformat(text)
    return text


def _check_vector(dims: int, text: str) -> str:
    if _NUMBERS.fullmatch(text) is None or text.count(",") + 1 != dims:
        raise ValueError
    return text


def _check_namespace(namespace: str, info: pydantic.ValidationInfo) -> str:
    if encode_namespace(decode_namespace(info.context, namespace)).namespace != namespace:
        raise InvalidInputError(f"this is no namespace: {short(namespace)}")
    return namespace


def _check_moment(text: str) -> str:
    if text not in _INFINITE and datetime.fromisoformat(text).tzinfo is None:
        raise InvalidInputError("a moment says its time zone")
    return text


def _choice(values: Iterable[str]) -> Any:
    return Annotated[str, Field(pattern=f"^({'|'.join(values)})$")]


def _integer(low: int, end: int) -> Any:
    return Annotated[int, Field(ge=low, lt=end)]


_Count: TypeAlias = Annotated[float, Field(ge=0, allow_inf_nan=False)]
_Moment: TypeAlias = Annotated[str, AfterValidator(_check_moment)]
_Time: TypeAlias = Annotated[str, AfterValidator(_check_time)]
_Tier: TypeAlias = Literal["short_term", "working", "long_term"]
_TYPES_BY_KIND: Final[Mapping[str, Any]] = {
    "jsonb": Any,
    "boolean": bool,
    "double precision": Annotated[float, Field(allow_inf_nan=False)]
    | Literal["NaN", "Infinity", "-Infinity"],
    "smallint": _integer(-(2**15), 2**15),
    "integer": _integer(-(2**31), 2**31),
    "bigint": _integer(-(2**63), 2**63),
    "timestamp with time zone": _Time,
    "tier": _Tier,
    "bytea": Annotated[str, Field(pattern=r"^\\x([0-9a-f]{2})*$")],
}
"""Types of columns by their type in the database. All other columns are texts."""
_TYPES_BY_NAME: Final[Mapping[str, Any]] = {
    "namespace": Annotated[str, AfterValidator(_check_namespace)],
    "owner": Annotated[str, AfterValidator(_check_namespace)],
    "key": Annotated[str, AfterValidator(check_key)],
    **dict.fromkeys(ID_COLUMNS, _integer(1, MOST_ID)),
}


def _column_type(name: str, kind: str) -> Any:
    if kind.endswith("[]"):
        return GenericAlias(list, (_column_type(name, kind.removesuffix("[]")),))
    if (vector := _VECTOR.fullmatch(kind)) is not None:
        return Annotated[str, AfterValidator(partial(_check_vector, int(vector[1])))]
    return _TYPES_BY_NAME.get(name) or _TYPES_BY_KIND.get(kind, str)


# Values that verbs read


class _StoredFields(pydantic.BaseModel):
    """Fields that verbs read. Other fields are allowed."""

    model_config = pydantic.ConfigDict(extra="allow", strict=True, frozen=True, allow_inf_nan=False)


class _Counters(_StoredFields):
    """The counters of a memory in the detail of a move."""

    tenant: str | None = None
    id: int | None = None
    access_count: int | None = None
    success_count: int | None = None
    failure_count: int | None = None
    last_accessed_at: _Moment | None = None
    strength: float | None = None
    strength_at: _Moment | None = None


class _EventDetail(_StoredFields):
    """The detail of any event."""

    reasons: list[str] = []
    turn: str | None = None
    user_id: str | None = None
    project_id: str | None = None
    session_id: str | None = None


class _MemoryEventDetail(_EventDetail):
    """The detail of an event of a memory."""

    key: str | None = None
    namespace: str | None = None
    tier: _Tier | None = None
    sources: list[int] = []
    again: list[int] = []
    versions: dict[str, _Moment] | None = {}
    """Their versions at a promotion; None if it marked no source."""
    handed: _Counters = _Counters()
    had: _Counters | None = None
    updated_at: _Moment | None = None
    valid_to: _Moment | None = None
    expires_at: _Moment | None = None
    ttl_minutes: float | None = None
    trust: float | None = None


class _RemovalDetail(_MemoryEventDetail):
    """The detail of the event of a rejected or evicted memory."""

    key: str
    namespace: str


class _TurnMemory(_StoredFields):
    """A memory that a turn stored."""

    key: str
    namespace: str
    tier: _Tier
    held: str | None
    evicted: list[str]


class _CommitDetail(_EventDetail):
    """The detail of the event of a committed turn."""

    began: _Moment
    summary: dict[str, int]
    wanted: list[str]
    stored: list[_TurnMemory]
    refused: dict[str, str] = {}
    goals: list[dict[str, Any]]
    lessons: list[str]
    skills: list[str]


# Tables with stricter columns than their types


_OF_A_ROW: Final = pydantic.ConfigDict(extra="forbid", strict=True)
_FIELDS: Final[Mapping[str, Mapping[str, tuple[Any, str]]]] = {
    "memories": {
        "value": (dict[str, Any], "object"),
        "state": (_choice(STATES) | None, "state"),
        "ttl_minutes": (_Count | None, "number from 0 on"),
    },
    "intentions": {
        "priority": (_integer(0, len(PRIORITIES)), "priority"),
        "status": (
            _choice(each for statuses in STORED_STATUSES.values() for each in statuses),
            "status",
        ),
    },
    "archives": {
        "url": (Annotated[str, Field(pattern=r"\S")], "URL"),
        "checksum": (Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")], "SHA-256"),
    },
    "tenant_sizes": {
        "memories": (_Count, "number from 0 on"),
        "words": (list[str], "list of words"),
        "counts": (list[_Count], "list of numbers from 0 on"),
        "crowded": (list[str], "list of places"),
        "tiers": (list[_Tier], "list of tiers"),
    },
}
"""Columns that are stricter than their type in the database, each with its meaning."""


def _check_event(row: Mapping[str, Any]) -> None:
    model: type[_StoredFields] = _RemovalDetail if row["kind"] in _REMOVALS else _MemoryEventDetail
    if row["event"].startswith(_TURN):
        model = _CommitDetail if row["kind"] == _COMMITTED else _EventDetail
    try:
        model.model_validate(row["detail"])
    except ValidationError as error:
        where, wrong = _first_problem(error)
        raise InvalidInputError(f"detail {where}: {wrong['msg']}") from error


def _check_intention(row: Mapping[str, Any]) -> None:
    _check_equal(row["kind"], trigger_from_json(row["trigger"]).kind)


def _check_state(row: Mapping[str, Any]) -> None:
    """Check that the name of a state fits its value."""
    kind, name, value = row["kind"], row["name"], row["value"]
    if kind == states.TASK:
        _check_equal(name, state_from_json(Task, value).task_id)
    elif kind == states.GOAL:
        _check_equal(name, state_from_json(Goal, value).goal_id)
    elif kind == states.SPEND:
        _check_equal(name, state_from_json(DailySpend, value).date.isoformat())
    elif kind == states.EMOTION:
        state_from_json(EmotionalState, value)
        _check_equal(name, "")
    elif kind == "message" and isinstance(value, dict):
        state_from_json(Message, {**value, "message_id": name, "at": row["at"]})
    elif kind != states.TRANSACTION or not isinstance(value, dict):
        raise InvalidInputError(f"{short(kind)} is no kind of state, or its value no object")


def _check_forgetting(row: Mapping[str, Any]) -> None:
    receipt = ForgetReceipt.of_json(row["detail"])
    _check_equal(row["receipt"], receipt.receipt)
    _check_equal(row["tenant"], receipt.tenant)


def _check_sizes(row: Mapping[str, Any]) -> None:
    if [len(row["words"]), len(row["crowded"])] != [len(row["counts"]), len(row["tiers"])]:
        raise InvalidInputError("words have counts, and crowded places tiers")


def _check_equal(value: str, expected: str) -> None:
    if value != expected:
        raise InvalidInputError(f"{short(value)} is not {short(expected)}")


_CHECKS: Final[Mapping[str, Callable[[Mapping[str, Any]], None]]] = {
    "events": _check_event,
    "intentions": _check_intention,
    "states": _check_state,
    "forgettings": _check_forgetting,
    "tenant_sizes": _check_sizes,
}
Tables: TypeAlias = Mapping[str, type[pydantic.BaseModel]]


def make_tables(rows: Iterable[tuple[str, str, str, bool]]) -> Tables:
    """Make the model of each table's rows, from rows of the statement `carried_columns`."""
    columns: dict[str, dict[str, Any]] = defaultdict(dict)
    for table, name, kind, needed in rows:
        is_one = _column_type(name, kind)
        column = (is_one if needed else is_one | None, kind)
        type_, meaning = _FIELDS.get(table, {}).get(name, column)
        columns[table][name] = (type_, Field(description=meaning))
    return {
        table: pydantic.create_model(table, __config__=_OF_A_ROW, **fields)
        for table, fields in columns.items()
    }


def check_row(
    table: str, row: Mapping[str, Any], model: type[pydantic.BaseModel], tenant: str
) -> None:
    """Check that a row fits the table and tenant, and that every verb can read it.

    Raises:
        InvalidInputError: if it does not.
    """
    if row.get("tenant", tenant) != tenant:
        raise InvalidInputError(f"a row of {table} is of another tenant, {short(row['tenant'])}")
    try:
        read = python_value(row)
        model.model_validate(read, context=tenant)
        if table in _CHECKS:
            _CHECKS[table](read)
    except UnicodeEncodeError as error:
        raise InvalidInputError("a text is no valid Unicode: it has a lone surrogate") from error
    except ValidationError as error:
        raise InvalidInputError(_describe_problem(table, row, model, error)) from error
    except TieredMemoryError as error:
        raise InvalidInputError(f"a row of {table} that no verb reads: {error}") from error


def _describe_problem(
    table: str, row: Mapping[str, Any], model: type[pydantic.BaseModel], error: ValidationError
) -> str:
    """Say why a row does not fit the table."""
    where, wrong = _first_problem(error)
    cause = wrong.get("ctx", {}).get("error")
    if isinstance(cause, TieredMemoryError):
        return f"a row of {table} that no verb reads: {where}: {cause}"
    name = str(wrong["loc"][0])
    if wrong["type"] in ("missing", "extra_forbidden"):
        return f"a row of {table} has other columns ({short(name)})"
    if row[name] is None:
        return f"{table}.{name} is missing"
    kind = model.model_fields[name].description
    return f"{table}.{name} is no {kind}: {short(encode_json(row[name])[:400])}"


def _first_problem(error: ValidationError) -> tuple[str, Any]:
    """Return the place of the first problem, and its details."""
    wrong = error.errors(include_url=False, include_input=False)[0]
    return short(".".join(map(str, wrong["loc"]))), wrong


# Changes to a row


def change_ids(table: str, row: dict[str, Any], change: Callable[[int], int]) -> None:
    """Change every id in the columns and the JSON of a row."""
    for name in ID_COLUMNS & row.keys():
        value = row[name]
        row[name] = (
            [change(each) for each in value] if isinstance(value, list) else value and change(value)
        )
    detail = row.get("detail")
    if isinstance(detail, dict):
        _change_ids_in_detail(table, detail, change)


def _change_ids_in_detail(table: str, detail: dict[str, Any], change: Callable[[int], int]) -> None:
    for name in _IDS_IN_DETAIL.get(table, ()):
        if isinstance(detail.get(name), list):
            detail[name] = [change(item) if _is_id(item) else item for item in detail[name]]
    if table != "events":
        return
    versions = detail.get("versions")
    if isinstance(versions, dict):
        detail["versions"] = {
            str(change(int(id_text))) if _ID.fullmatch(id_text) else id_text: at
            for id_text, at in versions.items()
        }
    for name in ("handed", "had"):
        counters = detail.get(name)
        if isinstance(counters, dict) and _is_id(counters.get("id")):
            counters["id"] = change(counters["id"])


def _is_id(value: object) -> bool:
    return type(value) is int and 0 < value < MOST_ID


def read_ids(table: str, rows: Iterable[dict[str, Any]]) -> set[int]:
    """Return all ids in rows of a table."""
    ids = set[int]()

    def keep(id_: int) -> int:
        ids.add(id_)
        return id_

    for row in rows:
        change_ids(table, row, keep)
    return ids


def make_memory_row(row: Mapping[str, Any]) -> MemoryRow:
    """Make the row that forgetting reads of a memory."""
    columns = {name: row[name] for name in MemoryRow._fields if name in row}
    return MemoryRow(**columns | {"value": python_value(row["value"])})


def make_scrubber(gone: Collection[MemoryRow]) -> Scrubber:
    """Make a scrubber that removes from other rows the memories that were forgotten here."""
    texts = (text for memory in gone for text in memory.texts)
    passages = Passages(texts, {memory.key for memory in gone})
    return Scrubber(erased=frozenset(memory.id for memory in gone), passages=passages)


def scrub_row(scrubber: Scrubber, table: str, row: dict[str, Any]) -> dict[str, Any] | None:
    """Return a row without forgotten content; None if the whole row is to be left out."""
    if table == "events":
        event = EventRow(row["event"], row["kind"], row["id"], row["target"], row["detail"])
        kept = scrubber.without(event)
        return None if kept is None else {**row, **kept._asdict()}
    if not scrubber.erased.isdisjoint({row.get("id"), row.get("source")}):
        return None
    if table == "states":
        told_state = StateRow(row["owner"], row["kind"], row["name"], row["value"])
        return None if scrubber.is_state_gone(told_state) else row
    if table == "intentions":
        return {**row, "needs": [id_ for id_ in row["needs"] if id_ not in scrubber.erased]}
    if table == "memories":
        return {**row, "value": scrubber.unquoted(row["value"])}
    return row


class HeldMemory(NamedTuple):
    """A memory that is quarantined because of its low trust."""

    namespace: str
    key: str
    reason: str
    trust: float


def reduce_trust(row: dict[str, Any], source: str, policy: TrustPolicy) -> HeldMemory | None:
    """Cap a memory's trust by the source of the file; return the memory if it is quarantined then.

    The source of the file replaces the memory's own source if it is trusted less.
    """
    value = row["value"]
    plain = python_value(value)
    had = trust_of(plain)
    most = policy.of_source(source)
    trust = derived_trust(most, [had])
    named = {"source": source} if most < policy.of_source(source_of(plain)) else {}
    row["value"] = {**value, **named, **({"trust": trust} if trust < had else {})}
    kind = str(plain.get("memory_type") or "episodic")
    if row["state"] == QUARANTINED or not policy.quarantines(trust, kind):
        return None
    reason = f"trust: {trust:g} is below {policy.below(kind):g}, as {source} answers for its export"
    return HeldMemory(row["namespace"], row["key"], reason, trust)
