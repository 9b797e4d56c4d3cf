"""The benchmark of growth measures every call at every size and says how fast its time grows."""

from __future__ import annotations

import pytest

from benchmarks import growth
from benchmarks.recall_data import History, Memory
from tests.support.servers import fresh_database

pytestmark = pytest.mark.slow
SIZES = (40, 120)


def test_each_call_is_timed_at_each_size_and_has_an_exponent(
    server_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(growth, "_BLOCKS", 1)
    with fresh_database(server_url) as url:
        found = growth.run(url, SIZES)
    assert {"get_context", "search", growth.BY_HAND, growth.BM25} <= set(found.times)
    assert all(set(times) == set(SIZES) for times in found.times.values())
    table = growth.sheet(found, SIZES)
    exponents = [f"{found.exponent(n):.2f}" for n in found.times]
    assert [row[-1] for row in table.rows] == [*exponents, "", ""]
    assert [one.bound for one in growth.bars(found)] == [growth.WANTED] * (len(found.times) - 2)


def test_an_exponent_is_the_slope_of_both_logarithms() -> None:
    found = growth.Grown({"square": {10: 5.0, 100: 500.0}, "flat": {10: 3.0, 100: 3.0}})
    assert found.exponent("square") == pytest.approx(2)
    assert found.exponent("flat") == pytest.approx(0)


def test_a_tenant_larger_than_what_there_is_to_tell_is_told_it_again_under_other_keys() -> None:
    memory = Memory(
        key="a", content="I am back", speaker="Ann", session="s", turn=1, occurred_at=None
    )
    told = growth.told([History(name="h", memories=[memory], questions=[])])
    one, two = next(told), next(told)
    assert one.content == two.content
    assert len({one.key, two.key}) == len({one.session, two.session}) == 2
