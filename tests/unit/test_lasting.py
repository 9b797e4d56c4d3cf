"""What a user tells that lasts is told from what does not, by its words alone."""

from __future__ import annotations

import pytest

from langmem_tiers.consolidate.lasting import ASKED, NOTHING, REQUESTED, SUPPOSED, not_lasting

LASTING = """\
I prefer dark roast in the morning.
I can't stand long meetings.
I'm left-handed and I'm a teacher.
We have three kids.
My name is Carla and I work for a bakery.
I don't eat meat.
We use Postgres 16.
Hi, I'm a student from Porto.
Never share my address.
From now on use the metric system.
Don't use emojis in commit messages.
We must use UTC everywhere.
Only Carla approves refunds.
Every pull request needs a review.
Nobody may push to main.
Backups are kept for thirty days.
Releases happen on the first Monday of the month.
Ben is my brother.
The invoice template lives in the finance folder.
Great, that works. Port is 8080.
"""
PASSING = {
    ASKED: """\
Could you look at this?
Is Anna in Lisbon
Which one is cheaper?
""",
    REQUESTED: """\
Let us try again.
I'd like a table of the results.
I need to sort a list
Send me the figures.
Write a function that returns a list.
I want to learn Spanish.
We must upgrade the server.
You should add a retry.
""",
    SUPPOSED: """\
Someone told me the office moves.
I think Tom is the owner.
Apparently the server is in Frankfurt.
Perhaps Redis is faster.
""",
    NOTHING: """\
The build is broken.
I'm looking at the logs.
He is angry.
I have a question about invoices.
We went to the park yesterday.
It works now.
Reading mail
""",
}


@pytest.mark.parametrize("text", LASTING.splitlines())
def test_facts_rules_and_preferences_last(text: str) -> None:
    assert not_lasting(text) is None


@pytest.mark.parametrize(
    ("text", "why"), [(one, why) for why, some in PASSING.items() for one in some.splitlines()]
)
def test_what_is_asked_wished_supposed_or_momentary_does_not(text: str, why: str) -> None:
    assert not_lasting(text) == why


def test_what_says_nothing_says_so() -> None:
    assert not_lasting("Hello!") == "it is a greeting"
