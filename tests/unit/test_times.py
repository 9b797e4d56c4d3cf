"""The times that a text names, as dateparser reads them, and what of that is sure."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langmem_tiers.core.errors import InvalidInputError, MissingExtraError
from langmem_tiers.reminders.keywords import NO_TIME, SEVERAL_TIMES, checked_languages, read_time

MONDAY = datetime(2026, 3, 2, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("tomorrow at 5pm", "2026-03-03T17:00"),
        ("tomorrow at 9:00", "2026-03-03T09:00"),
        ("tomorrow", "2026-03-03T00:00"),
        ("today", "2026-03-02T00:00"),
        ("the day after tomorrow", "2026-03-04T00:00"),
        ("in 2 hours", "2026-03-02T12:00"),
        ("in an hour", "2026-03-02T11:00"),
        ("in two days", "2026-03-04T00:00"),
        ("by Friday", "2026-03-06T00:00"),
        ("on Monday", "2026-03-09T00:00"),
        ("on 3 May at 14:30", "2026-05-03T14:30"),
        ("by 10 March", "2026-03-10T00:00"),
        ("on the 15th", "2026-03-15T00:00"),
        ("before 2026-12-24", "2026-12-24T00:00"),
        ("at 8:15", "2026-03-03T08:15"),
        ("tomorrow at 5pm CET", "2026-03-03T16:00"),
    ],
)
def test_a_time_is_read_from_now_on_and_a_day_begins_at_its_start(text: str, moment: str) -> None:
    found = read_time(f"I need to do it {text}.", MONDAY)
    assert found.reason is None
    assert found.at is not None
    assert found.at.moment == datetime.fromisoformat(f"{moment}+00:00")


@pytest.mark.parametrize(
    "text",
    [
        "later",
        "tomorrow at 9",
        "tomorrow at 3",
        "last Friday",
        "today at 9:00",
        "in June",
        "at the end of the month",
        "with a second opinion",
        "though it took 5 minutes",
        "for version 1.2.3",
        "as we may march on",
        "by the sat nav",
        "in room 1234",
    ],
)
def test_what_is_not_surely_read_is_said_to_be_without_a_time(text: str) -> None:
    assert read_time(f"We need to do it {text}", MONDAY) == (None, NO_TIME)


def test_of_several_times_none_is_taken() -> None:
    assert read_time("Call Ben tomorrow at 5pm or on 9 March", MONDAY) == (None, SEVERAL_TIMES)


def test_days_and_hours_are_those_of_the_zone_of_now() -> None:
    there = MONDAY.astimezone(ZoneInfo("America/New_York"))  # it is five there
    (nine, day) = (read_time(one, there).at for one in ("today at 9:00", "tomorrow"))
    assert str(nine) == "at 2026-03-02T09:00:00-05:00"
    assert str(day) == "at 2026-03-03T00:00:00-05:00"


@pytest.mark.parametrize(
    ("language", "text", "moment"),
    [
        ("de", "\N{LATIN SMALL LETTER U WITH DIAERESIS}bermorgen um 9:00", "2026-03-04T09:00"),
        ("es", "ma\N{LATIN SMALL LETTER N WITH TILDE}ana a las 9:00", "2026-03-03T09:00"),
        ("fr", "demain", "2026-03-03T00:00"),
    ],
)
def test_times_are_read_in_the_language_that_is_named(
    language: str, text: str, moment: str
) -> None:
    found = read_time(text, MONDAY, [language]).at
    assert found is not None
    assert found.moment == datetime.fromisoformat(f"{moment}+00:00")


def test_languages_that_are_unknown_or_none_are_refused() -> None:
    assert checked_languages(["de", "en"]) == ("de", "en")
    for wrong, why in (((), "languages is empty"), (["klingon"], "does not know")):
        with pytest.raises(InvalidInputError, match=why):
            checked_languages(wrong)


def test_without_the_extra_there_is_no_time_and_that_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in [one for one in sys.modules if one.partition(".")[0] == "dateparser"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "dateparser", None)
    at, why = read_time("tomorrow at 5pm", MONDAY)
    assert at is None
    assert "langmem-tiers[dates]" in str(why)
    with pytest.raises(MissingExtraError, match="dates"):
        checked_languages(["de"])


@given(st.text(max_size=60))
def test_whatever_is_said_no_time_is_past(text: str) -> None:
    for frame in ("{}", "in {} days", "at {}:00", "on {} May", "next {}"):
        found = read_time(frame.format(text), MONDAY).at
        assert found is None or found.moment is None or found.moment.date() >= MONDAY.date()
