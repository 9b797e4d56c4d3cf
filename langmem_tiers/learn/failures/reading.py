"""What a text says failed: a traceback, a tool's message, a test's or a program's output."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from langmem_tiers.learn.failures.bodies import Said
from langmem_tiers.learn.failures.failing_line import failing_line
from langmem_tiers.learn.failures.unwrapping import (
    canonical,
    from_body,
    from_repr,
    unprefixed,
    unwrapped,
)

_LOOKED_AT: Final = 64_000
"""Characters looked at, at each end of a text: what fails says so first or last."""
_ANSI: Final = re.compile(r"\x1b\[[0-9;]{0,20}[A-Za-z]")
_STEPS: Final[tuple[Callable[[str], Said | None], ...]] = (
    *(unwrapped, from_repr, from_body, failing_line, unprefixed, canonical),
)


def read(text: str) -> Said:
    """What failed, by the class that stands nearest to the message, and the message."""
    text = _ANSI.sub("", _ends(text)).strip()
    error = None
    while said := _step(text):
        error = said.error or error
        text = said.message.strip()
    return Said(error, text)


def _ends(text: str) -> str:
    if len(text) <= 2 * _LOOKED_AT:
        return text
    return f"{text[:_LOOKED_AT]}\n{text[-_LOOKED_AT:]}"


def _step(text: str) -> Said | None:
    """One wrapping less, until no step finds one: what is written anew no step takes up again."""
    for step in _STEPS:
        said = step(text)
        if said and said.message != text:
            return said
    return None
