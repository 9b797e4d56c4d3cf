"""What a prompt intends, how much it matters, and when it is to be raised."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langmem_tiers.consolidate.significance import category, decision_type
from langmem_tiers.remind.moments import moment_in
from langmem_tiers.remind.prompted import intended_in, priority_of

MONDAY = datetime(2026, 3, 2, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    ("prompt", "priority"),
    [
        ("I need to renew the certificate", "medium"),
        ("URGENT: I need to renew the certificate", "high"),
        ("We need to rotate the keys asap", "high"),
        ("I need to call Bob immediately", "high"),
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


INTENDED = """\
I'll fix it later
I plan to check the logs
Can you remind me to check the logs?
We'll deal with the cache invalidation later
TODO refactor the parser
to-do: add pagination
I have to send the invoice by Friday
don't let me forget to call mum tomorrow
Remember to back up the database before the migration
Let's revisit the schema next week
I should write tests for this at some point
Make a note to rotate the logs on the 15th
I want to clean this up eventually
We must upgrade Postgres before June
Please remind me to drink water every hour
I'll need to ask legal about the license
Next sprint we plan to split the monolith
We're planning to move to Frankfurt in August
Follow up with the vendor in two weeks
Ping me on Thursday about the contract
The report is due on 15 March
Deadline for the grant is 2026-04-01
Fix this later!
After lunch I need to restart the server
once the release is out, we need to update the changelog
if the tests fail, I need to roll back
need to add an index on created_at asap
I am going to write the release notes tonight
Could you remind me about the dentist at 4pm?
Don't forget: passport expires in May, renew it
I will have to redo the figures
Later today I plan to review the PR
"""
NOT_INTENDED = """\
Hello there
What do I need to do later?
The API key rotates on Mondays.
Who needs to sign this? Nobody knows.
I don't need to renew the certificate.
We are not going to move.
Two days later it broke again.
What is the capital of France?
Please summarise this document for me
The server crashed at 5pm yesterday
I like green tea
Write a function that sorts a list
How do I need to configure nginx?
Do we need to worry about this?
She called me later that evening
It turned out later that the cache was stale
Explain why you need to normalise vectors
We decided to use Redis
Can you fix the failing test?
The due diligence report is on the drive
I was going to ask but forgot
Bob works in Berlin
The later chapters are better
Is it due to the timeout?
The error is due to a missing semicolon
The build failed due to a network error
Tests are green
Plans to expand were cancelled
There's no need to reply
Thanks, that works
Translate 'I need to go' to German
What does 'todo' mean?
My sister is going to school in Lisbon
The meeting was moved to Friday
API responses include a todo field
"""


@pytest.mark.parametrize("prompt", INTENDED.splitlines())
def test_what_is_to_be_done_another_time_is_intended(prompt: str) -> None:
    assert intended_in(prompt, MONDAY) is not None


@pytest.mark.parametrize("prompt", NOT_INTENDED.splitlines())
def test_what_is_asked_denied_told_or_quoted_is_not_intended(prompt: str) -> None:
    assert intended_in(prompt, MONDAY) is None


def test_what_names_no_occasion_waits_for_a_session_to_start() -> None:
    found = intended_in("TODO: check the logs", MONDAY)
    assert found is not None
    assert str(found.trigger) == "if session_starts"


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("tomorrow at 5pm", "2026-03-03T17:00"),
        ("the day after tomorrow", "2026-03-04T09:00"),
        ("tomorrow morning", "2026-03-03T09:00"),
        ("tonight", "2026-03-02T20:00"),
        ("in 2 hours", "2026-03-02T12:00"),
        ("in half an hour", "2026-03-02T10:30"),
        ("in a few days", "2026-03-05T10:00"),
        ("by Friday", "2026-03-06T09:00"),
        ("on Monday", "2026-03-09T09:00"),
        ("next week", "2026-03-09T09:00"),
        ("next month", "2026-04-01T09:00"),
        ("on 3 May at 14:30", "2026-05-03T14:30"),
        ("on 1 February", "2027-02-01T09:00"),
        ("in June", "2026-06-01T09:00"),
        ("before 2026-12-24", "2026-12-24T09:00"),
        ("at 8:15", "2026-03-03T08:15"),
        ("at noon", "2026-03-02T12:00"),
        ("at 12am tomorrow", "2026-03-03T00:00"),
        ("by the end of the day", "2026-03-02T17:00"),
    ],
)
def test_a_moment_is_read_from_now_on(text: str, moment: str) -> None:
    assert moment_in(f"I need to do it {text}.", MONDAY) == datetime.fromisoformat(
        f"{moment}+00:00"
    )


@pytest.mark.parametrize(
    "text",
    ["later", "last Friday", "since May", "in March", "version 1.2.3", "on 30 February",
     "on 2020-01-01", "at 25:99", "at 13pm", "today at 9:00", "in 0 minutes", "in 999999 weeks"],
)  # fmt: skip
def test_what_names_no_moment_to_come_names_none(text: str) -> None:
    assert moment_in(f"I need to do it {text}", MONDAY) is None


@given(
    st.text(max_size=60),
    st.datetimes(datetime(1971, 1, 1), datetime(2500, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001
)
def test_whatever_is_said_no_moment_is_past_nor_far_away(text: str, now: datetime) -> None:
    for framed in (text, f"in {text} days", f"at {text}:00", f"on {text} May", f"next {text}"):
        found = moment_in(framed, now)
        assert found is None or now < found


def test_a_trigger_is_a_tool_a_time_or_a_cue() -> None:
    def trigger(prompt: str) -> str:
        found = intended_in(prompt, MONDAY, tools=["deploy", "a+b"])
        return "" if found is None else str(found.trigger)

    assert trigger("I need to tell the team before you deploy tomorrow") == "before deploy()"
    assert trigger("I need to tell the team before the deployment") == "if session_starts"
    assert trigger("Tomorrow, when Anna is in, I need to ask") == "at 2026-03-03T09:00:00+00:00"
    asked = "when Anna mentions the budget"
    assert trigger(f"W{asked[1:]}, I need to ask for figures.") == f"cue: {asked}"
    assert trigger(f"Hello. I need to ask for the figures {asked}!") == f"cue: {asked}"
    assert trigger("I need to look at it when possible") == "if session_starts"


@given(st.text(max_size=80))
def test_any_prompt_can_be_read_and_its_priority_does_not_depend_on_the_time(text: str) -> None:
    for prompt in (text, f"I need to {text}", f"todo when {text}, later"):
        now, then = (intended_in(prompt, MONDAY + timedelta(days=days)) for days in (0, 40))
        assert (now is None) == (then is None)
        if now is not None and then is not None:
            assert now.priority == then.priority
        priority_of(prompt)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("We decided to use Redis for sessions.", "decision"),
        ("Let's go with Postgres.", "decision"),
        ("Anna fixed the flaky test by pinning the clock.", "resolution"),
        ("The nightly backup failed again.", "failure"),
        ("Version 2 was released on Monday.", "milestone"),
        ("We have not decided yet.", None),
        ("Has it been fixed?", None),
        ("If it fails we are lost; it would have failed.", None),
        ("We need to get it released.", None),
        ("The port is 80.", None),
    ],
)
def test_a_significant_event_is_told_as_one_that_happened(text: str, kind: str | None) -> None:
    assert decision_type(text) == kind


def test_a_concept_is_a_preference_a_rule_or_a_fact() -> None:
    told = ("Anna likes green tea.", "Never deploy on Fridays.", "The port is 8443.")
    assert [category(one) for one in told] == ["preference", "rule", "fact"]


def test_what_is_too_long_is_no_cue() -> None:
    found = intended_in(
        "I need to call Ben when " + "do not " * 4300, datetime(2026, 3, 2, tzinfo=UTC)
    )
    assert found is not None
    assert str(found.trigger) == "if session_starts"
