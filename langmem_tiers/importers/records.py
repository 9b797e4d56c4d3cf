"""Records of a file: a value to store, with its tenant, project and key."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, NamedTuple
from uuid import UUID, uuid5

from langmem_tiers.core.checks import checked_instance, utf8_bytes
from langmem_tiers.core.config import DEFAULT_BOUNDS
from langmem_tiers.core.errors import InvalidInputError, short
from langmem_tiers.core.memory import Tier
from langmem_tiers.core.values import encode_value

_KEY_NAMESPACE = UUID("6f0c7a52-3f0e-5b5c-9a55-2f1d1c7f4e10")
_BLANK_LABEL = "_"
_RESERVED_TENANT = "langgraph"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_TEXT = re.compile(r"\d{9,10}(\.\d+)?")
_SPOKEN_FORMATS = ("%I:%M %p on %d %B %Y", "%d %B %Y")
"""Formats with names of months: those of the process's locale, English if it set none."""


class Format(StrEnum):
    """File formats that can be imported."""

    LOCOMO = "locomo"
    LANGCHAIN = "langchain"
    OPENAI = "openai"
    CHATGPT = "chatgpt"
    JSONL = "jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """Memory of a tenant and, if the file names one, of a project.

    `value` holds `content` and `source` (the format's name) and, where the file has them,
    `speaker`, `occurred_at` (ISO 8601, UTC), `session_id`, `turn` (from 1 in its session),
    `memory_type`, `tier`, `tags`, `importance` and other fields of the format. Keys are unique in a
    project, those of long_term in their tenant. Reading a file again gives the same keys.
    """

    tenant: str
    project: str | None = None
    key: str
    value: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class BadRecord:
    """Part of the file that cannot be stored: the line it starts on (from 1), and the reason."""

    line: int | None
    reason: str


LineFinder = Callable[[tuple[str | int, ...]], int]
"""Function that returns the line of the value that a path leads to."""
FactsReader = Callable[[dict[str, Any]], Mapping[str, Any]]
"""Function that returns the fields of a record's value: `content` and others, also `tenant`,
`project` and `key` if the format has them. It raises `InvalidInputError` for an object of another
format."""


class RawRecord(NamedTuple):
    """Value that may become a record, with its place, its session and the date beside it."""

    value: object
    read_facts: FactsReader
    path: tuple[str | int, ...] = ()
    """Member names and array indexes that lead to the value."""
    session: str | None = None
    date: object = None


class RecordMaker:
    """Maker of one file's records: it chooses tenants, keeps keys unique and counts turns."""

    def __init__(self, form: Format, *, stem: str, tenant: str | None) -> None:
        """Without a `tenant`, take the one that the file names, or the file's `stem`."""
        self._form, self._stem, self._tenant = form, stem, tenant
        self._turns = Counter[tuple[str, str]]()
        self._repeats = Counter[UUID]()
        self._taken = set[UUID]()

    def make(self, raw: RawRecord, find_line: LineFinder) -> Record | BadRecord:
        """Return the record, or a bad record with the line and the fault."""
        try:
            return self._record(raw)
        except InvalidInputError as error:
            return BadRecord(line=find_line(raw.path), reason=str(error))

    def _record(self, raw: RawRecord) -> Record:
        if not isinstance(raw.value, dict):
            raise InvalidInputError("this is not a JSON object")
        facts = dict(raw.read_facts(raw.value))
        own_tenant, project, key = (facts.pop(name, None) for name in ("tenant", "project", "key"))
        check_tenant(own_tenant)
        tenant = self._tenant or own_tenant or to_tenant_label(self._stem)
        date = raw.date if facts.get("occurred_at") is None else facts["occurred_at"]
        facts["occurred_at"] = None if date is None else utc_date(date)
        facts = {"session_id": raw.session, "source": self._form.value, **facts}
        value = {name: fact for name, fact in facts.items() if fact is not None}
        if not value["content"].strip():
            raise InvalidInputError("the content is blank; a memory needs some text")
        check_storable(tenant=tenant, project=project, key=key, value=value)
        key = self._key(tenant, project, key, value)
        if session := value.get("session_id"):
            self._turns[tenant, session] += "turn" not in value
            value.setdefault("turn", self._turns[tenant, session])
        return Record(tenant=tenant, project=project, key=key, value=value)

    def _key(
        self, tenant: str, project: str | None, key: str | None, value: Mapping[str, Any]
    ) -> str:
        """Return the file's key, or one made of the value and its session.

        Keys of repeated values are numbered.
        """
        key_project = None if value.get("tier") == Tier.LONG_TERM else project
        if key is None:
            base = _digest({name: fact for name, fact in value.items() if name != "turn"})
            repeated = _digest(tenant, key_project, str(base))
            self._repeats[repeated] += 1
            times = self._repeats[repeated]
            key = str(base if times == 1 else uuid5(base, str(times)))
        digest = _digest(tenant, key_project, key)
        if digest in self._taken:
            raise InvalidInputError(
                f"the key {key!r} was used before for this tenant and project; "
                "give each record a key of its own, or none"
            )
        self._taken.add(digest)
        return key


def check_tenant(tenant: str | None) -> None:
    """Raise `InvalidInputError` for a tenant that cannot be the first label of a namespace."""
    if tenant is None:
        return
    utf8_bytes(checked_instance(tenant, str, "tenant"), "tenant")
    if to_tenant_label(tenant) == tenant:
        return
    raise InvalidInputError(
        f"the tenant {short(tenant)} cannot be used; "
        f"it must not be blank, hold a dot or a NUL, or be {_RESERVED_TENANT!r}"
    )


def to_tenant_label(text: str) -> str:
    """Return a text as the first label of a namespace; the reserved name gets a `_` before it."""
    slug = to_label(text)
    return f"_{slug}" if slug == _RESERVED_TENANT else slug


def to_label(text: str) -> str:
    """Return a text as a label of a namespace: dots become hyphens, blank text `_`."""
    return text.replace(".", "-") if text.strip() else _BLANK_LABEL


def check_storable(**facts: object) -> None:
    """Raise `InvalidInputError` for JSON that a store would refuse; its size is not checked."""
    encode_value(facts)
    DEFAULT_BOUNDS.check_depth(facts)


def _digest(*parts: object) -> UUID:
    return uuid5(_KEY_NAMESPACE, json.dumps(parts, sort_keys=True))


def utc_date(written: object) -> str:
    """Return a date as ISO 8601 in UTC; a date without a time zone counts as UTC.

    Dates are read as ISO 8601, seconds since 1970 or "1:56 pm on 8 May, 2023".
    Raises `InvalidInputError` for anything else.
    """
    try:
        return _parse_date(written).astimezone(UTC).isoformat()
    except (ValueError, OverflowError) as error:
        raise InvalidInputError(
            f"the date {written!r} cannot be read; write it as ISO 8601 "
            "(2023-05-08T13:56:00Z) or as seconds since 1970"
        ) from error


def _parse_date(written: object) -> datetime:
    if isinstance(written, int | float) and not isinstance(written, bool):
        return _EPOCH + timedelta(seconds=written)
    if not isinstance(written, str):
        raise InvalidInputError("a date is text or a number")
    text = written.strip()
    if _EPOCH_TEXT.fullmatch(text):
        return _EPOCH + timedelta(seconds=float(text))
    try:
        moment = datetime.fromisoformat(text.upper())
    except ValueError:
        moment = _parse_spoken_date(text.replace(",", ""))
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _parse_spoken_date(text: str) -> datetime:
    for form in _SPOKEN_FORMATS:
        with suppress(ValueError):
            return datetime.strptime(text, form).replace(tzinfo=UTC)
    raise ValueError
