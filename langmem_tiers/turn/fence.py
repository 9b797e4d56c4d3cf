"""What was recalled, as data inside a prompt: fenced, labelled, and unable to end its fence."""

from __future__ import annotations

import re
from typing import Final

from langmem_tiers import prompts
from langmem_tiers.memory import Recollection
from langmem_tiers.prompts import RECALLED_ONE, UNKNOWN_SPEAKER

_TAGS: Final = {
    tag
    for text in vars(prompts).values()
    if isinstance(text, str)
    for tag in re.findall(r"<(\w+)", text)
}
"""What our prompts put around data."""
_FENCE: Final = re.compile(rf"<(?=\s*/?\s*(?:{'|'.join(sorted(_TAGS))})\b)", re.IGNORECASE)
_NOT_IN_A_LABEL: Final = re.compile(r'[\s<>"&\x00-\x1f\x7f]+')
_LINES: Final = re.compile(r"\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")
_INDENT: Final = "\n    "


def quoted(text: str) -> str:
    """Text as data: what could begin or end a fence is written `&lt;`, all else verbatim."""
    return _FENCE.sub("&lt;", text)


def labelled(text: str) -> str:
    """Text as a label of a fence: what could end it, or the line, is a space."""
    return _NOT_IN_A_LABEL.sub(" ", text).strip()


def indented(text: str) -> str:
    """Text as one entry of a list: its further lines are indented, so that none begins another."""
    return _LINES.sub(_INDENT, text)


def fields_of(one: Recollection) -> dict[str, str]:
    """What a layout can say of a memory beside its content."""
    when = one.occurred_at or one.created_at
    speaker = one.speaker or UNKNOWN_SPEAKER
    return {
        "tier": one.tier.value,
        "memory_type": labelled(one.memory_type),
        "date": str(when.date()),
        "when": when.isoformat(),
        "speaker": labelled(speaker),
        "role": labelled(speaker).upper(),
        "relevance": f"{one.score:.2f}",
    }


def shown(one: Recollection) -> str:
    """A memory as a model reads it: its tier, type, day and speaker, and what it says."""
    return RECALLED_ONE.format_map({**fields_of(one), "content": quoted(one.content)})
