"""What must stand in a text for a pattern to match: a cheap look before a dear search."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

_SHORTEST: Final = 3
_OPTIONAL: Final = re.compile(r"[?*]|\{0")
_GROUP: Final = re.compile(r"\(\?[a-z]*(?:-[a-z]+)?:|\((?!\?)")
_CLASS: Final = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]")
_COUNT: Final = re.compile(r"[?*+]\??|\{\d+(?:,\d*)?\}\??")


class Anchored(NamedTuple):
    """A pattern, and pieces of which one stands in lower case in whatever it matches."""

    pattern: re.Pattern[str]
    pieces: tuple[str, ...] | None
    """None if nothing certain can be said."""

    def found(self, text: str, lowered: str) -> bool:
        """Whether the pattern matches somewhere in the text; `lowered` is the text in lower case."""
        if self.pieces is not None and not any(one in lowered for one in self.pieces):
            return False
        return self.pattern.search(text) is not None


def anchored(pattern: re.Pattern[str]) -> Anchored:
    """The pattern with its pieces."""
    pieces = _pieces(pattern.pattern)
    return Anchored(pattern, None if pieces is None else tuple(sorted(pieces)))


def _pieces(pattern: str) -> frozenset[str] | None:
    branches = list(_split(pattern))
    if len(branches) > 1:
        found = [_pieces(one) for one in branches]
        known = [one for one in found if one is not None]
        return frozenset().union(*known) if len(known) == len(found) else None
    candidates = list(_candidates(pattern))
    best = max(candidates, key=lambda some: (_least(some), -len(some)), default=None)
    return best if best and _least(best) >= _SHORTEST else None


def _least(pieces: frozenset[str]) -> int:
    """The length of the shortest, in bytes: two signs of Chinese are as rare as a word."""
    return min(len(one.encode()) for one in pieces)


def _split(pattern: str) -> Iterator[str]:
    """The branches of an alternation."""
    begin = 0
    for place, _ in _top_level(pattern, "|"):
        yield pattern[begin:place]
        begin = place + 1
    yield pattern[begin:]


def _candidates(pattern: str) -> Iterator[frozenset[str]]:
    """Runs of letters, and groups, without which the pattern does not match."""
    run = ""
    for begin, end in _top_level(pattern):
        piece, after = pattern[begin:end], pattern[end:]
        if len(piece) == 1 and (piece.isalnum() or piece in " -_") and not _COUNT.match(after):
            run += piece.lower()
            continue
        if run:
            yield frozenset({run})
        run = ""
        group = _GROUP.match(piece)
        if group and not _OPTIONAL.match(after):
            inner = _pieces(piece[group.end() : -1])
            if inner is not None:
                yield inner
    if run:
        yield frozenset({run})


def _top_level(pattern: str, only: str = "") -> Iterator[tuple[int, int]]:
    """Where each atom of a pattern begins and ends: a group or class is one."""
    place = 0
    while place < len(pattern):
        end = _end(pattern, place)
        if not only or pattern[place:end] == only:
            yield place, end
        place = end


def _end(pattern: str, place: int) -> int:
    if pattern[place] == "\\":
        return place + 2
    if pattern[place] == "[":
        found = _CLASS.match(pattern, place)
        return found.end() if found else len(pattern)
    if pattern[place] == "{" and (count := _COUNT.match(pattern, place)):
        return count.end()
    if pattern[place] != "(":
        return place + 1
    place += 1
    while place < len(pattern) and pattern[place] != ")":
        place = _end(pattern, place)
    return place + 1
