"""docs/security.md names a test for each of its claims; all of them are there."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "security.md"
TESTS = Path(__file__).parents[1]


def test_each_claim_names_tests_that_are_there() -> None:
    page = PAGE.read_text(encoding="utf-8")
    _, _, enforced = page.partition("## What is enforced")
    rows = [line for line in enforced.splitlines() if line.startswith("|")][2:]
    missing = []
    for row in rows:
        named = re.findall(r"`([\w/]+\.py)::(\w+)`", row)
        missing += [] if named else [row]
        for file, test in named:
            defined = re.compile(rf"^(async )?def {test}\(", re.MULTILINE)
            if not defined.search((TESTS / file).read_text(encoding="utf-8")):
                missing.append(f"{file}::{test}")

    assert len(rows) > 20
    assert missing == []
