"""LangChain's detectors of personal data, and patterns of one's own, for the gate."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeAlias

from langchain.agents.middleware import PIIMatch, PIIMiddleware

from langmem_tiers.core.checks import checked_strings
from langmem_tiers.core.errors import InvalidInputError, InvalidTypeError, short
from langmem_tiers.remember.gate import Detector, Private

PIIDetector: TypeAlias = Callable[[str], list[PIIMatch]]

SECRETS: Final = {
    "private_key": r"-----BEGIN (?:[A-Z]+ )?PRIVATE KEY-----",
    "api_key": (
        r"\b(?:AKIA[0-9A-Z]{16}|gh[pousr]_[A-Za-z0-9]{36,}|sk-[A-Za-z0-9_-]{32,}"
        r"|xox[abprs]-[A-Za-z0-9-]{10,}|AIza[0-9A-Za-z_-]{35})\b"
    ),
}
"""Patterns that LangChain has no detector for: providers' keys, by their prefixes."""
_PIECE_LENGTH: Final = 4_000
"""Characters that are looked through at once for what is known; callers' own see all of a text."""
_OVERLAP: Final = 1_000
"""Characters that a piece has in common with the next one."""


def detectors(*kinds: str, **patterns: str | PIIDetector) -> tuple[Detector, ...]:
    """Make detectors for the gate: LangChain's by kind, and the caller's patterns or functions.

    Args:
        kinds: `email`, `credit_card`, `ip`, `mac_address`, `url`, or those of `SECRETS`.
        patterns: By kind, a regular expression, or a function as LangChain's detectors are.

    Raises:
        InvalidInputError: for a kind that is not known and has no pattern.

    Example:
        ```python
        from langmem_tiers.remember.private_data import detectors

        found = detectors("credit_card", "api_key", badge=r"B-[0-9]{4}")
        assert [one.kind for detect in found for one in detect("My badge is B-1234")] == ["badge"]
        ```
    """
    checked = checked_strings(kinds, "kinds")
    named: dict[str, str | PIIDetector | None] = {kind: SECRETS.get(kind) for kind in checked}
    return tuple(_detector(kind, detector) for kind, detector in {**named, **patterns}.items())


def _detector(kind: str, detector: str | PIIDetector | None) -> Detector:
    if detector is not None and not isinstance(detector, str) and not callable(detector):
        raise InvalidTypeError(f"{short(kind)} is a pattern or a function, not {short(detector)}")
    try:
        with warnings.catch_warnings(action="ignore"):  # re's, of what a pattern may mean one day
            find = PIIMiddleware(kind, detector=detector).detector
    except re.error as error:
        raise InvalidInputError(
            f"the pattern of {short(kind)} is no regular expression ({error}): {short(detector)}"
        ) from error
    except ValueError as error:
        raise InvalidInputError(
            f"no detector of {short(kind)}: use email, credit_card, ip, mac_address, url, "
            f"{', '.join(SECRETS)}, or give it a pattern"
        ) from error

    own = detector is not None and detector != SECRETS.get(kind)

    def detect(content: str) -> list[Private]:
        pieces = (
            [(0, content)] if own or len(content) <= _PIECE_LENGTH else _overlapping_pieces(content)
        )
        matches = [
            Private(kind, at + match["start"], at + match["end"])
            for at, piece in pieces
            for match in find(piece)
        ]
        return matches if len(pieces) == 1 else list(_without_overlaps(matches))

    return detect


def _overlapping_pieces(content: str) -> list[tuple[int, str]]:
    """Split a text into overlapping pieces, as detectors are slow on long texts."""
    places = range(0, max(1, len(content) - _OVERLAP), _PIECE_LENGTH - _OVERLAP)
    return [(at, content[at : at + _PIECE_LENGTH]) for at in places]


def _without_overlaps(matches: Iterable[Private]) -> Iterator[Private]:
    """Drop matches that lie within an earlier match."""
    end = 0
    for match in sorted(matches, key=lambda match: (match.start, -match.end)):
        if match.end > end:
            yield match
            end = match.end
