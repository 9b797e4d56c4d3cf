"""Records: what can be stored, under which tenant, project and key, and the steps to it."""

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias
from uuid import UUID, uuid5

from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.core.memory import Tier
from langmem_tiers.importers.text import utc_date

_MAX_DEPTH = 100
_KEYS = UUID("6f0c7a52-3f0e-5b5c-9a55-2f1d1c7f4e10")
_NO_LABEL = "_"
_RESERVED_TENANT = "langgraph"


class Format(StrEnum):
    """The file formats that can be imported."""

    LOCOMO = "locomo"
    LANGCHAIN = "langchain"
    OPENAI = "openai"
    CHATGPT = "chatgpt"
    JSONL = "jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One memory of a tenant and, if the file names it, a project of theirs.

    `value` holds `content` and `source` (the format's name) and, where the file has them,
    `speaker`, `occurred_at` (ISO 8601, UTC), `session_id`, `turn` (from 1 in its session),
    `memory_type`, `tier`, `tags`, `importance` and what else the format knows. Keys are unique in
    a project, those of long_term in their tenant, and reading a file again gives the same ones.
    """

    tenant: str
    project: str | None = None
    key: str
    value: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class BadRecord:
    """A part of the file that cannot be stored: the line it starts on (from 1), and why."""

    line: int | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where something was said: its line, its session and turn, and the date beside it."""

    where: Callable[[], int]
    session: str | None
    turn: int | None
    date: object = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A record as its format tells it; tenant and key are settled later."""

    value: dict[str, Any]
    where: Callable[[], int]
    project: str | None = None
    tenant: str | None = None
    key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """One top-level JSON value of a file; `where` finds the line of a value inside it.

    The path given to `where` is the member names and array indexes that lead to that value.
    """

    value: Any
    where: Callable[[tuple[str | int, ...]], int]


Units: TypeAlias = Iterator[Unit | BadRecord]
Drafts: TypeAlias = Iterator[Draft | BadRecord]
Read: TypeAlias = Callable[[int, Unit], Drafts]
"""Reads one value of a file, with its number from 1."""


def read_each(units: Units, read: Read) -> Drafts:
    """What is read of each value; one that is nothing of its format is a bad record."""
    for number, unit in enumerate(units, start=1):
        if isinstance(unit, BadRecord):
            yield unit
            continue
        try:
            yield from read(number, unit)
        except InvalidInputError as error:
            yield BadRecord(line=unit.where(()), reason=str(error))


def attempt(place: Place, raw: object, build: Callable[[Any, Place], Draft]) -> Draft | BadRecord:
    """Build a draft from raw JSON; what cannot be stored becomes a `BadRecord`."""
    try:
        check_storable(raw)
        return build(raw, place)
    except InvalidInputError as error:
        return BadRecord(line=place.where(), reason=str(error))


def drafted(place: Place, form: Format, facts: Mapping[str, Any], **named: Any) -> Draft:
    """The draft of what was said there: the facts that are known, and when it was."""
    date = place.date if facts.get("occurred_at") is None else facts["occurred_at"]
    told = {
        **facts,
        "occurred_at": None if date is None else utc_date(date),
        "session_id": place.session,
        "turn": place.turn,
        "source": form.value,
    }
    value = {name: fact for name, fact in told.items() if fact is not None}
    return Draft(value=value, where=place.where, **named)


def settle(drafts: Drafts, *, stem: str, tenant: str | None) -> Iterator[Record | BadRecord]:
    """Give each draft its tenant and key; a key used twice is a bad record."""
    keys = _Keys()
    for draft in drafts:
        if isinstance(draft, BadRecord):
            yield draft
            continue
        try:
            check_tenant(draft.tenant)
            yield _record(draft, keys, tenant or draft.tenant or tenant_label(stem))
        except InvalidInputError as error:
            yield BadRecord(line=draft.where(), reason=str(error))


def check_tenant(tenant: str | None) -> None:
    """Raise `InvalidInputError` for a tenant that cannot be the first label of a namespace."""
    if tenant is None or (tenant_label(tenant) == tenant and "\0" not in tenant):
        return
    raise InvalidInputError(
        f"the tenant {tenant!r} cannot be used; "
        f"it must not be blank, hold a dot or a NUL, or be {_RESERVED_TENANT!r}"
    )


def tenant_label(text: str) -> str:
    """Return a text as the first label of a namespace, where one name is reserved."""
    slug = label(text)
    return f"_{slug}" if slug == _RESERVED_TENANT else slug


def label(text: str) -> str:
    """Return a text as a label of a namespace: dots become hyphens, blank text `_`."""
    return text.replace(".", "-") if text.strip() else _NO_LABEL


def check_storable(value: object) -> None:
    """Raise `InvalidInputError` for JSON that Postgres would refuse, however deep it is."""
    waiting = [(value, 0)]
    while waiting:
        part, depth = waiting.pop()
        if depth > _MAX_DEPTH:
            raise InvalidInputError(f"this is nested more than {_MAX_DEPTH} deep; flatten it")
        if isinstance(part, Mapping):
            waiting += [(each, depth + 1) for pair in part.items() for each in pair]
        elif isinstance(part, list):
            waiting += [(each, depth + 1) for each in part]
        else:
            _check_scalar(part)


def _check_scalar(value: object) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidInputError("a number is too large to be stored")
    if not isinstance(value, str):
        return
    if "\0" in value:
        raise InvalidInputError("the text holds a NUL character; remove it")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InvalidInputError("the text holds half a surrogate pair; remove it") from error


def _record(draft: Draft, keys: "_Keys", tenant: str) -> Record:
    if not draft.value["content"].strip():
        raise InvalidInputError("the content is blank; a memory needs some text")
    check_storable([tenant, draft.project, draft.key, draft.value])
    shared = draft.value.get("tier") == Tier.LONG_TERM
    within = None if shared else draft.project
    key = keys.generate(tenant, within, draft.value) if draft.key is None else draft.key
    keys.take(tenant, within, key)
    return Record(tenant=tenant, project=draft.project, key=key, value=draft.value)


class _Keys:
    """Keys that are unique in one file, and the same each time it is read."""

    def __init__(self) -> None:
        self._repeats: dict[UUID, int] = {}
        self._taken: set[UUID] = set()

    def generate(self, tenant: str, project: str | None, value: Mapping[str, Any]) -> str:
        """Hash what is said, in which session; what is said again there is numbered."""
        said = {name: fact for name, fact in value.items() if name != "turn"}
        base = _digest(said)
        counted = _digest(tenant, project, str(base))
        self._repeats[counted] = times = self._repeats.get(counted, 0) + 1
        return str(base if times == 1 else uuid5(base, str(times)))

    def take(self, tenant: str, project: str | None, key: str) -> None:
        digest = _digest(tenant, project, key)
        if digest in self._taken:
            raise InvalidInputError(
                f"the key {key!r} was used before for this tenant and project; "
                "give each record a key of its own, or none"
            )
        self._taken.add(digest)


def _digest(*parts: object) -> UUID:
    return uuid5(_KEYS, json.dumps(parts, sort_keys=True))
