"""Each statement has a name of its own: if two shared one, only one would ever be sent."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from benchmarks import sent_sql
from langmem_tiers.postgres import sql


def test_no_two_statements_have_one_name() -> None:
    files = set(Path(sql.__file__).parent.glob("*.sql")) - {sent_sql.FILE}
    texts = (path.read_text() for path in files)
    told = re.compile(r"^-- name: (\S+)", re.MULTILINE)
    names = Counter(name for text in texts for name in told.findall(text))
    assert [name for name, number in names.items() if number > 1] == []
