"""JSON Lines: one object a line, with `content` or `text`."""

from collections.abc import Iterator
from typing import Any

from langmem_tiers.core.checks import normalised_tags, share
from langmem_tiers.core.errors import InvalidInputError, short
from langmem_tiers.core.memory import Tier
from langmem_tiers.core.types import MemoryTypes
from langmem_tiers.importers.records import Said
from langmem_tiers.importers.source import Element


def recognises(value: object) -> bool:
    """Tell whether a value of the file is a memory as this format writes it."""
    return isinstance(value, dict) and any(
        isinstance(value.get(f), str) for f in ("content", "text")
    )


def said_in(element: Element, _stem: str, _tenant: str | None) -> Iterator[Said]:
    """The object; what the format does not name is kept under `metadata`."""
    yield Said(element.value, _facts)


def _facts(raw: dict[str, Any]) -> dict[str, Any]:
    rest = dict(raw)
    content, speaker = _take(rest, "content", "text"), _take(rest, "speaker")
    if not isinstance(content, str):
        raise InvalidInputError("there is no `content` or `text` that is text")
    if speaker is not None and not isinstance(speaker, str):
        raise InvalidInputError("`speaker` is not text")
    session = _name(rest, "session_id", "session") or None
    facts = {
        "content": content,
        "speaker": speaker or None,
        "occurred_at": _take(rest, "occurred_at", "timestamp", "date"),
        "tenant": _name(rest, "tenant"),
        "project": _name(rest, "project_id") or None,
        "session_id": session,
        "key": _key(rest, session),
        **_labels(rest),
    }
    if type(rest.get("turn")) is int:
        facts["turn"] = rest.pop("turn")
    return {**facts, "metadata": _metadata(rest)}


def _take(rest: dict[str, Any], *fields: str) -> object:
    """Remove and return the first field that is there; the others stay unless null."""
    for field in fields:
        if (found := rest.pop(field, None)) is not None:
            return found
    return None


def _name(rest: dict[str, Any], *fields: str) -> str | None:
    found = _take(rest, *fields)
    if found is None or isinstance(found, str):
        return found
    if isinstance(found, int) and not isinstance(found, bool):
        return str(found)
    raise InvalidInputError(f"`{fields[0]}` is neither text nor a whole number")


def _key(rest: dict[str, Any], session: str | None) -> str | None:
    """Take the record's key as it is, or its id, which may be unique in its session alone."""
    key = _name(rest, "key")
    found = _name(rest, "id") if key is None else key
    if found is not None and not found.strip():
        raise InvalidInputError("the key is blank; give one, or leave it out")
    return f"{session}:{found}" if key is None and found is not None and session else found


def _labels(rest: dict[str, Any]) -> dict[str, Any]:
    """What the memory is and where it belongs, as `store` checks it."""
    named, tier, tags = _name(rest, "memory_type"), _take(rest, "tier"), _take(rest, "tags")
    if tier is not None and tier not in tuple(Tier):
        raise InvalidInputError(f"`tier` is one of {', '.join(Tier)}, not {short(tier)}")
    if named is not None:
        tier = tier or MemoryTypes().get(named).tier
    return {
        "memory_type": named,
        "tier": tier,
        "tags": None if tags is None else normalised_tags(tags) or None,
        "importance": share(_take(rest, "importance"), "importance"),
    }


def _metadata(rest: dict[str, Any]) -> dict[str, Any] | None:
    """Lift what is already under `metadata`, unless a name would be lost by it."""
    inner = rest.get("metadata")
    others = {field: found for field, found in rest.items() if field != "metadata"}
    if isinstance(inner, dict) and not inner.keys() & others.keys():
        return {**inner, **others} or None
    return rest or None
