"""JSON Lines: one object a line, with `content` or `text`."""

from collections import Counter
from functools import partial
from typing import Any

from langmem_tiers.core.errors import InvalidInputError, short
from langmem_tiers.core.memory import Tier
from langmem_tiers.core.types import MemoryTypes
from langmem_tiers.importers.records import (
    Draft,
    Drafts,
    Format,
    Place,
    Read,
    Unit,
    attempt,
    drafted,
)
from langmem_tiers.remember.new import normalised_tags, share

_Turns = Counter[tuple[str | None, str]]


def recognises(value: object) -> bool:
    """Tell whether a value of the file is a memory as this format writes it."""
    return isinstance(value, dict) and any(
        isinstance(value.get(f), str) for f in ("content", "text")
    )


def jsonl(_stem: str, _tenant: str | None) -> Read:
    """One draft an object; what the format does not name is kept under `metadata`."""
    draft = partial(_draft, turns=Counter())

    def read(_number: int, unit: Unit) -> Drafts:
        place = Place(where=partial(unit.where, ()), session=None, turn=None)
        yield attempt(place, unit.value, draft)

    return read


def _draft(raw: object, place: Place, turns: _Turns) -> Draft:
    if not isinstance(raw, dict):
        raise InvalidInputError("this is not a JSON object with `content` or `text`")
    rest = dict(raw)
    content = _take(rest, "content", "text")
    if not isinstance(content, str):
        raise InvalidInputError("there is no `content` or `text` that is text")
    tenant = _name(rest, "tenant")
    project = _name(rest, "project_id") or None
    session = _name(rest, "session_id", "session") or None
    key = _key(rest, session)
    facts = {"content": content} | _facts(rest) | _labels(rest)
    told = Place(where=place.where, session=session, turn=_turn(rest, tenant, session, turns))
    facts["metadata"] = _metadata(rest)
    return drafted(told, Format.JSONL, facts, project=project, tenant=tenant, key=key)


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


def _facts(rest: dict[str, Any]) -> dict[str, Any]:
    speaker = _take(rest, "speaker")
    if speaker is not None and not isinstance(speaker, str):
        raise InvalidInputError("`speaker` is not text")
    return {
        "speaker": speaker or None,
        "occurred_at": _take(rest, "occurred_at", "timestamp", "date"),
    }


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


def _turn(
    rest: dict[str, Any], tenant: str | None, session: str | None, turns: _Turns
) -> int | None:
    """Take the record's own turn, else its place among those of its session."""
    own = rest.get("turn")
    if isinstance(own, int) and not isinstance(own, bool):
        del rest["turn"]
        return own
    if session is None:
        return None
    turns[tenant, session] += 1
    return turns[tenant, session]


def _metadata(rest: dict[str, Any]) -> dict[str, Any] | None:
    """Lift what is already under `metadata`, unless a name would be lost by it."""
    inner = rest.get("metadata")
    others = {field: found for field, found in rest.items() if field != "metadata"}
    if isinstance(inner, dict) and not inner.keys() & others.keys():
        return {**inner, **others} or None
    return rest or None
