"""What an interaction says, read and checked.

It is a mapping that says at least one of `content` (the whole of it), `asked`, `said`, `done` and
`outcome`, each a text or a list of texts. It may also say `context` (a text or a mapping),
`platform`, `entities`, `novel_pattern` and `relationship_deepening`. What else it holds is of no
account, and None is the same as leaving a field out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langmem_tiers.core.errors import InvalidTypeError, short

PARTS = {
    "content": "",
    "asked": "Asked: ",
    "said": "Said: ",
    "done": "Done: ",
    "outcome": "Outcome: ",
}
"""The parts that are told, and how each begins in a summary."""


def parts_of(interaction: Mapping[str, Any]) -> dict[str, str]:
    """The texts of an interaction by part, without the blank ones."""
    said = mapping_of(interaction, "interaction")
    parts = {name: text_of(said, name) for name in PARTS}
    return {name: text for name, text in parts.items() if text}


def text_of(said: Mapping[str, Any], name: str) -> str:
    """A field as one text; empty if it says nothing."""
    return "; ".join(texts_of(said.get(name), name))


def texts_of(given: object, name: str) -> list[str]:
    """A text or a list of texts as a list, without the blank ones."""
    texts = [given] if isinstance(given, str) else [] if given is None else given
    if not isinstance(texts, Sequence) or not all(isinstance(text, str) for text in texts):
        raise InvalidTypeError(f"{name} is a text or a list of texts, not {short(given)}")
    return [text.strip() for text in texts if text.strip()]


def context_of(interaction: Mapping[str, Any]) -> str | dict[str, Any]:
    """Its circumstances, as text or a mapping."""
    given = mapping_of(interaction, "interaction").get("context")
    return dict(given) if isinstance(given, Mapping) else text_of(interaction, "context")


def mapping_of(given: object, name: str) -> Mapping[str, Any]:
    """What is a mapping.

    Raises:
        InvalidTypeError: if it is none.
    """
    if not isinstance(given, Mapping):
        raise InvalidTypeError(f"{name} is a mapping, not {type(given).__name__}")
    return given
