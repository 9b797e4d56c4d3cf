"""The module of each name, as docs/names.md says."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "names.md"
_ROW = re.compile(r"^\| `(langmem_tiers[\w.]*)` \| (`.+`) \|$", re.MULTILINE)


@cache
def places() -> dict[str, str]:
    """The module of each name that users are promised."""
    rows = _ROW.findall(PAGE.read_text(encoding="utf-8"))
    return {name: module for module, names in rows for name in re.findall(r"`(\w+)`", names)}
