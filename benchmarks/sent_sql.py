"""Writes the SQL as it is sent: `python -m benchmarks.sent_sql`, or `make sql`.

The files of the package say each statement once, with what its forms share in places that are
filled in as it is loaded. `generated.sql`, beside them, says each form in full.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from pathlib import Path

from langmem_tiers.core.config import StoreOptions
from langmem_tiers.core.memory import TIERS
from langmem_tiers.core.vectors import VectorOptions
from langmem_tiers.postgres import sql

FILE = Path(sql.__file__).with_name("generated.sql")
_HEAD = """\
-- The statements as they are sent. Written by `make sql`; change the other files, and run it again.
--
-- As a store sends them that has no schema_prefix and vectors of 384 dimensions, compared by their
-- cosine. $1, $2, … are the parameters, named below each statement's name. What a walled role sends
-- in another way stands below it, as a difference. A search in one tier sends one of the three legs
-- alone, under the name of the search and the tier.
"""
_ONE_TIER = tuple(f"_{tier}" for tier in TIERS)


def generated() -> str:
    """Return the text of the file."""
    return "\n".join([_HEAD, *_entries()])


def _entries() -> Iterator[str]:
    options, vector = StoreOptions(schema_prefix=""), VectorOptions(dims=384)
    walled = sql.statements(options, vector, walled=True)
    for name, one in sorted(sql.statements(options, vector).items()):
        if name.endswith(_ONE_TIER):
            continue
        yield _entry(f"name: {name}", one)
        if walled[name].text != one.text:
            yield from _differing(name, one.text.decode(), walled[name].text.decode())


def _entry(head: str, one: sql.Statement) -> str:
    names = ", ".join(f"${place} {name}" for place, name in enumerate(one.names, 1))
    told = f"-- {head}\n" + (f"-- {names}\n" if names else "")
    return f"{told}{one.text.decode()};\n"


def _differing(name: str, sent: str, walled: str) -> Iterator[str]:
    """Yield what a walled role sends in its place, as comments."""
    yield f"-- walled: {name}"
    lines = difflib.unified_diff(sent.splitlines(), walled.splitlines(), n=0, lineterm="")
    yield from (f"-- {line}" for line in lines if line.rstrip() not in {"---", "+++"})
    yield ""


if __name__ == "__main__":
    FILE.write_text(generated(), encoding="utf-8")
