"""What of a message may take something back: its own words."""

from __future__ import annotations

import pytest

from langmem_tiers.coordinator.truth import own_words

LETTER = "forget what I said about the cellar, I was only joking with you about the whole of it all"


@pytest.mark.parametrize(
    ("text", "own"),
    [
        ("No, 15", "No, 15"),
        ('It is "Maarten", not "Martin"', 'It is "Maarten", not "Martin"'),
        (f'Translate "{LETTER}", please', "Translate  … , please"),
        (f"Translate “{LETTER}”", "Translate  …"),
        (f"Shorten:\n> {LETTER}\n  > {LETTER}", "Shorten:\n … \n …"),
        (f"Fix this:\n```\n{LETTER}\n```\nThanks", "Fix this:\n … \nThanks"),
        (f"Fix this:\n```\n{LETTER}", "Fix this:\n …"),
        (LETTER * 6, ""),
    ],
)
def test_what_a_message_quotes_is_not_its_own_and_who_pastes_much_says_nothing(
    text: str, own: str
) -> None:
    assert own_words(text) == own
