"""LoCoMo: a list of long conversations between two people, in dated sessions."""

import re
from collections.abc import Iterator
from functools import partial
from typing import Any

from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.importers.records import Said
from langmem_tiers.importers.source import Element

_SESSION = re.compile(r"session_(\d+)", re.ASCII)


def recognises(value: object) -> bool:
    """Tell whether a value of the file is a conversation with numbered sessions."""
    inner = value.get("conversation") if isinstance(value, dict) else None
    return isinstance(inner, dict) and bool(_sessions(inner))


def said_in(element: Element, _stem: str, tenant: str | None) -> Iterator[Said]:
    """Every turn; each conversation is a tenant, named by its `sample_id`.

    Where one tenant is given for all of them, sessions and keys start with the `sample_id`,
    so that no conversation takes the place of another.
    """
    if not recognises(element.value):
        raise InvalidInputError("this is not a conversation with session_1, session_2, … lists")
    named = element.value.get("sample_id")
    sample = named if isinstance(named, str) and named.strip() else None
    prefix = "" if sample and tenant is None else sample or f"conversation-{element.number}"
    sessions = element.value["conversation"]
    for name in _sessions(sessions):
        for index, raw in enumerate(sessions[name]):
            yield Said(
                raw,
                partial(_facts, tenant=sample, prefix=prefix),
                partial(element.where, ("conversation", name, index)),
                session=f"{prefix}-{name}" if prefix else name,
                date=sessions.get(f"{name}_date_time"),
            )


def _sessions(conversation: dict[str, Any]) -> list[str]:
    found = {name: _SESSION.fullmatch(name) for name in conversation}
    numbers = {
        name: int(match[1])
        for name, match in found.items()
        if match and isinstance(conversation[name], list)
    }
    return sorted(numbers, key=lambda name: numbers[name])


def _facts(raw: dict[str, Any], tenant: str | None, prefix: str) -> dict[str, Any]:
    key, said = _text(raw, "dia_id"), raw.get("text")
    if not isinstance(said, str):
        raise InvalidInputError("this turn has no `text`")
    caption = _text(raw, "blip_caption") if raw.get("blip_caption") else None
    return {
        "content": said if caption is None else f"{said} [image: {caption}]".lstrip(),
        "speaker": _text(raw, "speaker"),
        "image_caption": caption,
        "tenant": tenant,
        "key": f"{prefix}:{key}" if prefix else key,
    }


def _text(raw: dict[str, Any], field: str) -> str:
    found = raw.get(field)
    if not isinstance(found, str) or not found.strip():
        raise InvalidInputError(f"this turn has no `{field}`")
    return found
