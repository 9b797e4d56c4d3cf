"""Records: what can be stored, under which tenant, project and key, and how one is made."""

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

_KEYS = UUID("6f0c7a52-3f0e-5b5c-9a55-2f1d1c7f4e10")
_NO_LABEL = "_"
_RESERVED_TENANT = "langgraph"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_TEXT = re.compile(r"\d{9,10}(\.\d+)?")
_SPOKEN = ("%I:%M %p on %d %B %Y", "%d %B %Y")
"""Read with the names of months that the process's locale has; English unless it set one."""


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


Where = Callable[[tuple[str | int, ...]], int]
"""The line of the value that a path leads to."""
Facts = Callable[[dict[str, Any]], Mapping[str, Any]]
"""Reads what an object says: `content`, and what else a record's value holds; also `tenant`,
`project` and `key` where the format has them. Raises `InvalidInputError` for what is no such
thing."""


class Said(NamedTuple):
    """Where an element says something, in which session, and the date beside it."""

    raw: object
    facts: Facts
    path: tuple[str | int, ...] = ()
    """The member names and array indexes that lead to it."""
    session: str | None = None
    date: object = None


class RecordMaker:
    """Makes the records of one file: tenants are settled, keys are unique, turns are counted."""

    def __init__(self, form: Format, *, stem: str, tenant: str | None) -> None:
        """Where no tenant is given, it is the file's own, or its `stem`."""
        self._form, self._stem, self._tenant = form, stem, tenant
        self._turns = Counter[tuple[str, str]]()
        self._repeats = Counter[UUID]()
        self._taken = set[UUID]()

    def make(self, part: Said, where: Where) -> Record | BadRecord:
        """The record of what is said, or what is wrong with it, and on which line."""
        try:
            return self._record(part)
        except InvalidInputError as error:
            return BadRecord(line=where(part.path), reason=str(error))

    def _record(self, part: Said) -> Record:
        if not isinstance(part.raw, dict):
            raise InvalidInputError("this is not a JSON object")
        facts = dict(part.facts(part.raw))
        own, project, key = (facts.pop(name, None) for name in ("tenant", "project", "key"))
        check_tenant(own)
        tenant = self._tenant or own or tenant_label(self._stem)
        date = part.date if facts.get("occurred_at") is None else facts["occurred_at"]
        facts["occurred_at"] = None if date is None else utc_date(date)
        facts = {"session_id": part.session, "source": self._form.value, **facts}
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
        """The key that is given, or one made of what is said, in which session.

        What is said again there is numbered.
        """
        within = None if value.get("tier") == Tier.LONG_TERM else project
        if key is None:
            base = _digest({name: fact for name, fact in value.items() if name != "turn"})
            counted = _digest(tenant, within, str(base))
            self._repeats[counted] += 1
            times = self._repeats[counted]
            key = str(base if times == 1 else uuid5(base, str(times)))
        digest = _digest(tenant, within, key)
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
    if tenant_label(tenant) == tenant:
        return
    raise InvalidInputError(
        f"the tenant {short(tenant)} cannot be used; "
        f"it must not be blank, hold a dot or a NUL, or be {_RESERVED_TENANT!r}"
    )


def tenant_label(text: str) -> str:
    """Return a text as the first label of a namespace, where one name is reserved."""
    slug = label(text)
    return f"_{slug}" if slug == _RESERVED_TENANT else slug


def label(text: str) -> str:
    """Return a text as a label of a namespace: dots become hyphens, blank text `_`."""
    return text.replace(".", "-") if text.strip() else _NO_LABEL


def check_storable(**facts: object) -> None:
    """Raise `InvalidInputError` for JSON that a store would refuse, but for its size."""
    encode_value(facts)
    DEFAULT_BOUNDS.check_depth(facts)


def _digest(*parts: object) -> UUID:
    return uuid5(_KEYS, json.dumps(parts, sort_keys=True))


def utc_date(written: object) -> str:
    """Return a date as ISO 8601 in UTC; one without a time zone is taken to be in UTC.

    Read are ISO 8601, seconds since 1970 and "1:56 pm on 8 May, 2023".
    Raises `InvalidInputError` for anything else.
    """
    try:
        return _moment(written).astimezone(UTC).isoformat()
    except (ValueError, OverflowError) as error:
        raise InvalidInputError(
            f"the date {written!r} cannot be read; write it as ISO 8601 "
            "(2023-05-08T13:56:00Z) or as seconds since 1970"
        ) from error


def _moment(written: object) -> datetime:
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
        moment = _spoken(text.replace(",", ""))
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _spoken(text: str) -> datetime:
    for form in _SPOKEN:
        with suppress(ValueError):
            return datetime.strptime(text, form).replace(tzinfo=UTC)
    raise ValueError
