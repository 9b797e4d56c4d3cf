"""What a prompt intends, by the keywords of the specification, and how much it matters."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langmem_tiers.reminders.keywords import find_intention


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
    found = find_intention(prompt)
    assert found is not None
    assert found.priority == priority


@pytest.mark.parametrize(
    ("prompt", "said"),
    [
        ("TODO refactor the parser", True),
        ("We plan to check the logs", True),
        ("I'll fix it later", True),
        ("She needs to add an index", True),
        ("Can you remind me to check the logs?", False),
        ("When the release is out, please remind me to tell Anna", False),
        ("Remind me when Anna calls", False),
        ("Can you remind me when the meeting is?", False),
        ("Remind me what her name is", False),
        ("Days like these remind me of my childhood", False),
        ("It was a reminder to follow my passions", False),
        ("Don\N{RIGHT SINGLE QUOTATION MARK}t let me forget to call mum", False),
        ("Don't let me forget: the passport expires in June", False),
        ("Set a reminder for Friday to call Bob", False),
        ("And the cake was great too, don't forget the marshmallows", False),
        ("What do I need to do later?", False),
        ("I don't need to renew it", False),
        ("There's no need to reply", False),
        ("The server crashed at 5pm yesterday", False),
        ("The build failed due to a network error", False),
        ("I am going to school in Lisbon", False),
    ],
)
def test_keywords_intend_and_questions_and_denials_do_not(prompt: str, *, said: bool) -> None:
    assert (find_intention(prompt) is not None) is said


@given(st.text(max_size=80))
def test_any_prompt_can_be_read_and_what_it_intends_are_words_of_its_own(text: str) -> None:
    for prompt in (text, f"I need to {text}", f"todo when {text}, later"):
        found = find_intention(prompt)
        assert found is None or set(found.content.split()) <= set(prompt.split())
