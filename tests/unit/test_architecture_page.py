"""What ARCHITECTURE.md names is there."""

from __future__ import annotations

import re
from pathlib import Path

PROJECT = Path(__file__).parents[2]
PACKAGE = PROJECT / "langmem_tiers"
PAGE = (PROJECT / "ARCHITECTURE.md").read_text(encoding="utf-8")


def there(name: str) -> bool:
    return any(list(folder.glob(name)) for folder in (PACKAGE, PROJECT))


def test_the_files_and_folders_that_it_names_are_there() -> None:
    named = re.findall(r"`([a-z_*/]+(?:/|\.py|\.sql|\.toml))`", PAGE)
    assert len(named) > 30
    assert [one for one in named if not there(one)] == []
    drawn = re.search(r"```\n(.*?)```", PAGE, re.DOTALL)
    assert drawn
    assert {*re.findall(r"(\w+)/ ", drawn[1])} == {
        one.name for one in PACKAGE.iterdir() if (one / "__init__.py").is_file()
    }


def test_it_is_read_in_a_few_minutes() -> None:
    assert len(PAGE.split()) <= 1500


def test_the_functions_that_it_names_are_in_their_files() -> None:
    rows = re.findall(r"\| `([a-z_/]+\.py)`, `([\w.]+)`", PAGE)
    assert len(rows) > 8
    for path, name in rows:
        text = (PACKAGE / path).read_text(encoding="utf-8")
        assert re.search(rf"\b(?:def|class) {name.rpartition('.')[2]}\b", text), (path, name)
    statements = re.findall(r"\| `postgres/sql/queries.sql`, `(\w+)`", PAGE)
    text = (PACKAGE / "postgres/sql/queries.sql").read_text(encoding="utf-8")
    assert all(f"-- name: {one}\n" in text for one in statements)
