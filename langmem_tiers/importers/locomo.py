"""LoCoMo: a list of long conversations between two people, in dated sessions."""

import re
from functools import partial
from typing import Any

from langmem_tiers.core.errors import InvalidInputError
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

_SESSION = re.compile(r"session_(\d+)", re.ASCII)


def recognises(value: object) -> bool:
    """Tell whether a value of the file is a conversation with numbered sessions."""
    inner = value.get("conversation") if isinstance(value, dict) else None
    return isinstance(inner, dict) and bool(_sessions(inner))


def locomo(_stem: str, tenant: str | None) -> Read:
    """One draft a turn; each conversation is a tenant, named by its `sample_id`.

    Where one tenant is given for all of them, sessions and keys start with the `sample_id`,
    so that no conversation takes the place of another.
    """

    def read(number: int, unit: Unit) -> Drafts:
        if not recognises(unit.value):
            raise InvalidInputError("this is not a conversation with session_1, session_2, … lists")
        named = unit.value.get("sample_id")
        sample = named if isinstance(named, str) and named.strip() else None
        prefix = "" if sample and tenant is None else sample or f"conversation-{number}"
        return _conversation(unit, sample, prefix)

    return read


def _conversation(unit: Unit, tenant: str | None, prefix: str) -> Drafts:
    sessions = unit.value["conversation"]
    draft = partial(_draft, tenant=tenant, prefix=prefix)
    for name in _sessions(sessions):
        for turn, raw in enumerate(sessions[name], start=1):
            place = Place(
                where=partial(unit.where, ("conversation", name, turn - 1)),
                session=f"{prefix}-{name}" if prefix else name,
                turn=turn,
                date=sessions.get(f"{name}_date_time"),
            )
            yield attempt(place, raw, draft)


def _sessions(conversation: dict[str, Any]) -> list[str]:
    found = {name: _SESSION.fullmatch(name) for name in conversation}
    numbers = {
        name: int(match[1])
        for name, match in found.items()
        if match and isinstance(conversation[name], list)
    }
    return sorted(numbers, key=lambda name: numbers[name])


def _draft(raw: object, place: Place, *, tenant: str | None, prefix: str) -> Draft:
    if not isinstance(raw, dict):
        raise InvalidInputError("this turn is not an object")
    key = _text(raw, "dia_id")
    facts = {
        "content": _content(raw),
        "speaker": _text(raw, "speaker"),
        "image_caption": _text(raw, "blip_caption") if raw.get("blip_caption") else None,
    }
    key = f"{prefix}:{key}" if prefix else key
    return drafted(place, Format.LOCOMO, facts, tenant=tenant, key=key)


def _content(raw: dict[str, Any]) -> str:
    """Say what is said and, behind it, what the shared image shows."""
    said = raw.get("text")
    if not isinstance(said, str):
        raise InvalidInputError("this turn has no `text`")
    if not raw.get("blip_caption"):
        return said
    return f"{said} [image: {_text(raw, 'blip_caption')}]".lstrip()


def _text(raw: dict[str, Any], field: str) -> str:
    found = raw.get(field)
    if not isinstance(found, str) or not found.strip():
        raise InvalidInputError(f"this turn has no `{field}`")
    return found
