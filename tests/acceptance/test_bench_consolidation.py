"""The benchmark of consolidation measures every part that it prints."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from benchmarks.consolidation import Size, run
from benchmarks.consolidation_report import bars, report

pytestmark = pytest.mark.slow

TINY = Size(
    many=(100, 200),
    each=100,
    cycles=1,
    one=(100,),
    beside=30,
    rounds=1,
    recalls=5,
    year=(60, 1),
)


def test_a_run_holds_every_part_and_prints_it(server_url: str, tmp_path: Path) -> None:
    with psycopg.connect(server_url, autocommit=True) as conn:
        before = conn.execute("SELECT datname FROM pg_database").fetchall()
        results = run(server_url, tmp_path, TINY)
        for (name,) in conn.execute("SELECT datname FROM pg_database").fetchall():
            if (name,) not in before:
                conn.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())
    assert [one.stored for one in results.many] == [100, 200]
    assert results.many[0].first.statements > results.many[0].idle.statements / 3 > 0
    assert results.recalls is not None
    assert len(results.recalls.alone) == len(results.recalls.beside) == 5
    assert results.recalls.cycles > 0
    assert results.years[0].name == "no model"
    assert any(share.all for share in results.years[0].proposals)
    assert all(one.measured is not None for one in bars(results))
    assert "Cycles of one tenant" in report(results).markdown()
