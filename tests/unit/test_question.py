"""What a question says about its answer: who, when, and which side of the talk."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langmem_tiers.recall.question import (
    DayRange,
    NamedDate,
    Question,
    days_from_nearest,
    name_words,
    read_question,
)

NOW = datetime(2023, 6, 14, 9, tzinfo=UTC)  # a Wednesday
DATES = st.dates(date(1990, 1, 1), date(2090, 12, 31))


def asked(text: str) -> Question:
    return read_question(text, NOW.date())


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("on 8 May 2023", NamedDate(2023, 5, 8)),
        ("on the 8th of May 2023", NamedDate(2023, 5, 8)),
        ("on May 8, 2023", NamedDate(2023, 5, 8)),
        ("on 2023-05-08", NamedDate(2023, 5, 8)),
        ("in May", NamedDate(None, 5, None)),
        ("during sept of 2022", NamedDate(2022, 9, None)),
        ("in 2021", NamedDate(2021, None, None)),
        ("on 3 June", NamedDate(None, 6, 3)),
        ("on 8 May 2023, in May, in 2023", NamedDate(2023, 5, 8)),  # and no further time
        ("today", DayRange(date(2023, 6, 14), date(2023, 6, 14))),
        ("last week", DayRange(date(2023, 6, 5), date(2023, 6, 11))),
        ("this week", DayRange(date(2023, 6, 12), date(2023, 6, 18))),
        ("last month", DayRange(date(2023, 5, 1), date(2023, 5, 31))),
        ("this month", DayRange(date(2023, 6, 1), date(2023, 6, 14))),
        ("last year", DayRange(date(2022, 1, 1), date(2022, 12, 31))),
        ("last Monday", DayRange(date(2023, 6, 12), date(2023, 6, 12))),
        ("on Wednesday", DayRange(date(2023, 6, 7), date(2023, 6, 7))),
        ("two days ago", DayRange(date(2023, 6, 12), date(2023, 6, 12))),
        ("a week ago", DayRange(date(2023, 6, 4), date(2023, 6, 10))),
        ("3 months ago", DayRange(date(2023, 3, 1), date(2023, 3, 31))),
    ],
)
def test_a_time_is_read_in_any_common_form_and_what_it_leaves_open_stays_open(
    text: str, found: NamedDate | DayRange
) -> None:
    assert asked(f"What did Caroline do {text}?").times == (found,)


def test_days_from_is_0_within_negative_before_and_positive_after() -> None:
    may, new_year = [NamedDate(2023, 5, None)], [NamedDate(None, 1, 1)]
    assert [days_from_nearest(may, date(2023, *day)) for day in ((5, 20), (4, 29), (6, 4))] == [
        0,
        -2,
        3,
    ]
    assert days_from_nearest(new_year, date(2022, 12, 30)) == -2  # the nearest such time
    assert (
        days_from_nearest([NamedDate(2020, None, None), NamedDate(2023, 5, 8)], date(2023, 5, 9))
        == 1
    )
    assert days_from_nearest([], date(2023, 5, 9)) is None
    (time,) = asked("What happened on 31 February 2023?").times
    assert days_from_nearest([time], date(2023, 2, 28)) is None


@given(first=DATES, length=st.integers(0, 400), when=DATES)
def test_days_from_days_is_the_distance_to_them(first: date, length: int, when: date) -> None:
    days = DayRange(first, first + timedelta(days=length))

    gap = days_from_nearest([days], when)

    assert gap is not None
    assert (gap == 0) == (days.first <= when <= days.last)
    assert days.first <= when - timedelta(days=gap) <= days.last


def test_whom_and_what_a_question_is_about_is_told_by_its_words() -> None:
    for text, told in {
        "Where does Ida keep the bees?": (False, False),
        "What did you recommend for my bread?": (True, False),
        "Remind me, please: which shoe was it?": (True, False),
        "What was your advice on sleep?": (True, False),
        "When did Caroline move?": (False, True),
        "How many weeks ago did I run?": (False, True),
    }.items():
        read = asked(text)
        assert (read.about_assistant, read.wants_time) == told, text
    assert asked("May I march on?").times == ()
    assert asked("Did Caroline and Mel meet on Monday in May?").names == {"caroline", "mel"}


def test_a_speaker_is_named_by_any_part_of_the_name_in_any_case() -> None:
    question = asked("what did grad b think of maria?")

    named = [one for one in ("Grad B", "Maria Lopez", "Ida") if question.words & name_words(one)]
    assert named == ["Grad B", "Maria Lopez"]
    assert name_words("user") == name_words("Assistant") == frozenset()
    assert name_words("The Chair") == {"chair"}
    assert name_words("Al Bo") == frozenset()
