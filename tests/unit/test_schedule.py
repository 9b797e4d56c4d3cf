"""When a cycle is due: a rule over what is remembered of the last one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langmem_tiers.consolidate.schedule import ConsolidationSchedule, due, until
from langmem_tiers.core.errors import ConfigurationError

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOURLY = ConsolidationSchedule(every=timedelta(hours=1))


def last(ago: timedelta) -> dict[str, Any]:
    """A report of a cycle that began so long ago."""
    return {"started_at": (NOW - ago).isoformat()}


def test_a_schedule_by_which_nothing_can_be_due_is_refused() -> None:
    wrong: Any
    for wrong in (
        {},
        *({"every": every} for every in (timedelta(0), timedelta(seconds=-1), 3600)),
        *({"every_turns": turns} for turns in (0, True, 1.5)),
    ):
        with pytest.raises(ConfigurationError):
            ConsolidationSchedule(**wrong)


def test_a_clock_that_was_set_back_makes_nothing_due() -> None:
    assert due(HOURLY, last(timedelta(hours=-2)), now=NOW) is None


def test_so_many_turns_since_the_last_cycle_make_one_due() -> None:
    schedule = ConsolidationSchedule(every_turns=20)
    for known in (None, last(timedelta(0))):
        assert due(schedule, known, now=NOW, turns=19) is None
        assert due(schedule, known, now=NOW, turns=20) == "20 turns since the last cycle"


def test_the_end_of_a_session_is_a_reason_only_where_it_is_asked_for() -> None:
    asked = ConsolidationSchedule(on_session_end=True)
    assert due(asked, last(timedelta(0)), now=NOW, session_ended=True) == "the session ended"
    assert due(asked, None, now=NOW) is None
    assert due(HOURLY, last(timedelta(0)), now=NOW, session_ended=True) is None


def test_whichever_comes_first_is_the_reason() -> None:
    both = ConsolidationSchedule(every=timedelta(hours=1), every_turns=5)
    assert due(both, last(timedelta(minutes=1)), now=NOW, turns=5) is not None
    assert due(both, last(timedelta(hours=1)), now=NOW, turns=1) == "the time has come"
    assert due(both, last(timedelta(minutes=1)), now=NOW, turns=1) is None


_spans = st.timedeltas(timedelta(microseconds=1), timedelta(days=400))
_agos = st.timedeltas(timedelta(0), timedelta(days=4000))


@given(every=_spans, ago=_agos)
def test_waiting_as_long_as_is_told_makes_it_due_and_not_earlier(
    every: timedelta, ago: timedelta
) -> None:
    schedule, known = ConsolidationSchedule(every=every), last(ago)
    left = until(every, known, NOW)
    assert left >= timedelta(0)
    assert due(schedule, known, now=NOW + left) is not None
    assert due(schedule, last(max(ago, every)), now=NOW) is not None  # one catches up
    assert due(schedule, last(timedelta(0)), now=NOW) is None
    assert due(schedule, None, now=NOW) == "the time has come"
    if left:
        early = NOW + left - timedelta(microseconds=1)
        assert due(schedule, known, now=early) is None
