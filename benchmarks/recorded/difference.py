"""A unified diff of two records, section by section, which names the call that each hunk is in."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator

SECTION = "=== "
_CALL = "# "
_AROUND = 2
"""Lines that are shown before and after what differs."""
_HUNK = re.compile(r"@@ -(\d+)")


def difference(before: str, now: str, *, partly: bool = False) -> list[str]:
    """The lines of the diff; none if nothing differs. `partly` leaves out what is not there now."""
    old, new = _sections(before), _sections(now)
    old = {title: lines for title, lines in old.items() if not partly or title in new}
    titles = [*old, *(title for title in new if title not in old)]
    return [line for title in titles for line in _of(title, old.get(title), new.get(title))]


def _of(title: str, old: list[str] | None, new: list[str] | None) -> Iterator[str]:
    if old == new:
        return
    yield f"{SECTION}{title}"
    for line in difflib.unified_diff(old or [], new or [], "before", "now", lineterm="", n=_AROUND):
        yield f"{line} {_call(old or [], line)}" if line.startswith("@@") else line


def _call(lines: list[str], hunk: str) -> str:
    """The call, table or name that a hunk stands in."""
    found = _HUNK.match(hunk)
    at = int(found[1]) + _AROUND - 1 if found else 0
    above = (line for line in reversed(lines[:at]) if line.startswith(_CALL))
    return next(above, "").removeprefix(_CALL)[:100]


def _sections(text: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith(SECTION):
            lines = found.setdefault(line.removeprefix(SECTION), [])
        else:
            lines.append(line)
    return found
