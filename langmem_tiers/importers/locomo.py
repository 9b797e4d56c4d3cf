"""LoCoMo: a list of long conversations between two people, in dated sessions."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.importers.dates import utc_date
from langmem_tiers.importers.records import BadRecord, Draft, Drafts, Format, Unit, Units
from langmem_tiers.importers.settle import attempt

_SESSION = re.compile(r"session_(\d+)", re.ASCII)


def recognises(value: object) -> bool:
    """Tell whether a value of the file is a conversation with numbered sessions."""
    inner = value.get("conversation") if isinstance(value, dict) else None
    return isinstance(inner, dict) and bool(_sessions(inner))


def read(units: Units, *, stem: str, tenant: str | None) -> Drafts:
    """Yield one draft a turn; each conversation is a tenant, named by its `sample_id`.

    Where one tenant is given for all of them, sessions and keys start with the `sample_id`,
    so that no conversation takes the place of another.
    """
    del stem
    for number, unit in enumerate(units, start=1):
        if isinstance(unit, BadRecord):
            yield unit
        elif recognises(unit.value):
            yield from _conversation(unit, number, tenant)
        else:
            reason = "this is not a conversation with session_1, session_2, … lists"
            yield BadRecord(line=unit.where(()), reason=reason)


def _conversation(unit: Unit, number: int, tenant: str | None) -> Drafts:
    named = unit.value.get("sample_id")
    sample = named if isinstance(named, str) and named.strip() else None
    prefix = "" if sample and tenant is None else sample or f"conversation-{number}"
    sessions = unit.value["conversation"]
    for name in _sessions(sessions):
        for turn, raw in enumerate(sessions[name], start=1):
            where = partial(unit.where, ("conversation", name, turn - 1))
            place = _Place(
                where=where, tenant=sample, prefix=prefix, session=name, turn=turn,
                date=sessions.get(f"{name}_date_time"),
            )  # fmt: skip
            yield attempt(where, raw, partial(_draft, raw, place))


def _sessions(conversation: dict[str, Any]) -> list[str]:
    found = {name: _SESSION.fullmatch(name) for name in conversation}
    numbers = {
        name: int(match[1])
        for name, match in found.items()
        if match and isinstance(conversation[name], list)
    }
    return sorted(numbers, key=lambda name: numbers[name])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """Where a turn was said, and when."""

    where: Callable[[], int]
    tenant: str | None
    prefix: str
    session: str
    turn: int
    date: object


def _draft(raw: object, place: _Place) -> Draft:
    if not isinstance(raw, dict):
        raise InvalidInputError("this turn is not an object")
    session = f"{place.prefix}-{place.session}" if place.prefix else place.session
    key = _text(raw, "dia_id")
    value = {
        "content": _content(raw),
        "speaker": _text(raw, "speaker"),
        "session_id": session,
        "turn": place.turn,
        "source": Format.LOCOMO.value,
    }
    if place.date is not None:
        value["occurred_at"] = utc_date(place.date)
    if raw.get("blip_caption"):
        value["image_caption"] = _text(raw, "blip_caption")
    return Draft(
        value=value,
        where=place.where,
        tenant=place.tenant,
        key=f"{place.prefix}:{key}" if place.prefix else key,
    )


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
