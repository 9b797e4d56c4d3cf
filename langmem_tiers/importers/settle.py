"""From drafts to records: what can be stored, under which tenant, project and key."""

import json
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from uuid import UUID, uuid5

from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.core.memory import Tier
from langmem_tiers.importers.records import BadRecord, Draft, Drafts, Record

_MAX_DEPTH = 100
_KEYS = UUID("6f0c7a52-3f0e-5b5c-9a55-2f1d1c7f4e10")
_NO_LABEL = "_"
_RESERVED_TENANT = "langgraph"


def attempt(where: Callable[[], int], raw: object, build: Callable[[], Draft]) -> Draft | BadRecord:
    """Build a draft from raw JSON; what cannot be stored becomes a `BadRecord`."""
    try:
        check_storable(raw)
        return build()
    except InvalidInputError as error:
        return BadRecord(line=where(), reason=str(error))


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
