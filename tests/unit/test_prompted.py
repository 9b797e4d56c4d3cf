"""What a prompt intends, how much it matters, and when it is to be raised."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langmem_tiers.remind.prompted import intended_in
from langmem_tiers.remind.times import moment_in, time_in
from langmem_tiers.remind.triggers import At

MONDAY = datetime(2026, 3, 2, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    ("prompt", "priority"),
    [
        ("I need to renew the certificate", "medium"),
        ("URGENT: I need to renew the certificate", "high"),
        ("We need to rotate the keys asap", "high"),
        ("I need to call Bob!", "high"),
        ("todo [high] renew the certificate", "high"),
        ("Thanks! I need to look at the logs later.", "medium"),
        ("I need to tidy up when you get a chance", "low"),
        ("I plan to refactor this, no rush", "low"),
        ("This is not urgent, but I need to call Bob", "low"),
        ("Fix the footer later, low priority!", "low"),
    ],
)
def test_a_prompt_says_how_much_it_matters(prompt: str, priority: str) -> None:
    found = intended_in(prompt, MONDAY)
    assert found is not None
    assert found.priority == priority


@pytest.mark.parametrize(
    ("prompt", "said", "asked"),
    [
        ("TODO refactor the parser", True, True),
        ("We plan to check the logs", True, False),
        ("I'll fix it later", True, False),
        ("She needs to add an index", True, False),
        ("Can you remind me to check the logs?", False, False),
        ("When the release is out, please remind me to tell Anna", False, False),
        ("Remind me when Anna calls", False, False),
        ("Can you remind me when the meeting is?", False, False),
        ("Remind me what her name is", False, False),
        ("Days like these remind me of my childhood", False, False),
        ("It was a reminder to follow my passions", False, False),
        ("Don\N{RIGHT SINGLE QUOTATION MARK}t let me forget to call mum", False, False),
        ("Don't let me forget: the passport expires in June", False, False),
        ("Set a reminder for Friday to call Bob", False, False),
        ("And the cake was great too, don't forget the marshmallows", False, False),
        ("What do I need to do later?", False, False),
        ("I don't need to renew it", False, False),
        ("There's no need to reply", False, False),
        ("The server crashed at 5pm yesterday", False, False),
        ("The build failed due to a network error", False, False),
        ("I am going to school in Lisbon", False, False),
    ],
)
def test_keywords_intend_and_questions_and_denials_do_not(
    prompt: str, *, said: bool, asked: bool
) -> None:
    assert (intended_in(prompt, MONDAY) is not None) is said
    assert (intended_in(prompt, MONDAY, asked=True) is not None) is asked


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("tomorrow at 5pm", "2026-03-03T17:00"),
        ("in 2 hours", "2026-03-02T12:00"),
        ("in an hour", "2026-03-02T11:00"),
        ("by Friday", "2026-03-06T00:00"),
        ("on Monday", "2026-03-09T00:00"),
        ("today", "2026-03-02T00:00"),
        ("on 2 March", "2026-03-02T00:00"),
        ("on 3 May at 14:30", "2026-05-03T14:30"),
        ("on 1 February", "2027-02-01T00:00"),
        ("in June", "2026-06-01T00:00"),
        ("before 2026-12-24", "2026-12-24T00:00"),
        ("at 8:15", "2026-03-03T08:15"),
        ("at 12am tomorrow", "2026-03-03T00:00"),
        ("on the 15th", "2026-03-15T00:00"),
        ("by the 1st at 8:00", "2026-04-01T08:00"),
        ("by the end of the month", "2026-03-31T00:00"),
        ("on the last day of the year", "2026-12-31T00:00"),
    ],
)
def test_a_moment_is_read_from_now_on(text: str, moment: str) -> None:
    assert moment_in(f"I need to do it {text}.", MONDAY) == datetime.fromisoformat(
        f"{moment}+00:00"
    )


@pytest.mark.parametrize(
    "text",
    ["later", "last Friday", "since May", "in March", "version 1.2.3", "on 30 February",
     "on 2020-01-01", "at 25:99", "at 13pm", "today at 9:00", "in 0 minutes", "in 999999 weeks",
     "on the 3rd floor"],
)  # fmt: skip
def test_what_names_no_moment_to_come_names_none(text: str) -> None:
    assert moment_in(f"I need to do it {text}", MONDAY) is None


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("every Monday", "09T00:00 FREQ=WEEKLY;BYDAY=MO"),
        ("at 11:00 on Mondays", "02T11:00 FREQ=WEEKLY;BYDAY=MO"),
        ("every 2 weeks on Friday", "06T00:00 FREQ=WEEKLY;INTERVAL=2;BYDAY=FR"),
        ("every other day", "04T00:00 FREQ=DAILY;INTERVAL=2"),
        ("every weekday at 9am", "03T09:00 FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR"),
        ("weekly", "09T00:00 FREQ=WEEKLY"),
        ("hourly", "02T11:00 FREQ=HOURLY"),
        ("each month on the 20th", "20T00:00 FREQ=MONTHLY;BYMONTHDAY=20"),
        ("at the end of each month", "31T00:00 FREQ=MONTHLY;BYMONTHDAY=-1"),
        ("every year on 30 March", "30T00:00 FREQ=YEARLY"),
    ],
)
def test_what_recurs_is_a_rule_and_its_next_time(text: str, told: str) -> None:
    found = time_in(f"I need to do it {text}.", MONDAY)
    assert found is not None
    at = datetime.fromisoformat(f"2026-03-{told.split(maxsplit=1)[0]}+00:00")
    assert (found.moment, found.every) == (at, told.split()[1])


@pytest.mark.parametrize("text", ["the weekly report", "each of them", "every 30 minutes"])
def test_what_is_no_recurrence_is_none(text: str) -> None:
    friday = datetime(2026, 3, 6, tzinfo=UTC)
    assert time_in(f"I need to do {text} on Friday", MONDAY) == At(friday)


@given(
    st.text(max_size=60),
    st.datetimes(datetime(1971, 1, 1), datetime(2500, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001
)
def test_whatever_is_said_no_moment_is_past_nor_far_away(text: str, now: datetime) -> None:
    for frame in ("{}", "in {} days", "at {}:00", "on {} May", "next {}", "every {} days"):
        found = time_in(frame.format(text), now)
        assert found is None or found.moment is None or now.date() <= found.moment.date()


def test_a_trigger_is_a_tool_a_time_a_cue_or_the_start_of_a_session() -> None:
    def trigger(prompt: str) -> str:
        found = intended_in(prompt, MONDAY, tools=["deploy", "a+b"])
        return "" if found is None else str(found.trigger)

    assert trigger("I need to tell the team before you deploy tomorrow") == "before deploy()"
    assert trigger("I need to tell the team before the deployment") == "if session_starts"
    assert trigger("Tomorrow, when Anna is in, I need to ask") == "at 2026-03-03T00:00:00+00:00"
    asked = "when Anna mentions the budget"
    assert trigger(f"W{asked[1:]}, I need to ask for figures.") == f"cue: {asked}"
    assert trigger(f"Hello. I need to ask for the figures {asked}!") == f"cue: {asked}"
    assert trigger("I need to look at it when possible") == "if session_starts"
    assert trigger("I need to call Ben when " + "do not " * 4300) == "if session_starts"


@given(st.text(max_size=80))
def test_any_prompt_can_be_read_and_its_priority_does_not_depend_on_the_time(text: str) -> None:
    for prompt in (text, f"I need to {text}", f"todo when {text}, later"):
        now, then = (intended_in(prompt, MONDAY + timedelta(days=days)) for days in (0, 40))
        assert (now is None) == (then is None)
        if now is not None and then is not None:
            assert now.priority == then.priority
