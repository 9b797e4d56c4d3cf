"""The order in which the tests are run."""

from __future__ import annotations

from pathlib import Path

from tests.support.order import in_order


def test_a_run_begins_with_a_quick_file_and_the_slow_ones_follow() -> None:
    files = [Path("tests") / name for name in ("acceptance/a", "integration/b", "unit/c", "unit/d")]
    acceptance, integration, slow_unit, unit = files
    assert in_order(files, {integration, slow_unit}) == [unit, integration, slow_unit, acceptance]
    assert in_order(files[:2], {integration}) == [integration, acceptance]
    assert in_order([], set()) == []
