"""What a message takes back: what of it is looked at, and how a judge is measured."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from benchmarks.acts import Count, by_model, by_words
from benchmarks.data import records
from langmem_tiers.core.errors import ModelError
from langmem_tiers.remember.acts import Act, Decider, Earlier, Reading, own_words

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


def truthful(*, wrong: str) -> Decider:
    """A judge that knows what the authors meant, but for one message, and one that it refuses."""
    known = {(one["message"], one["earlier"]): one for one in records("acts")}

    def call(text: str, earlier: Sequence[Earlier]) -> Reading:
        one = known[text, tuple(each.content for each in earlier)]
        if one["message"] == wrong:
            return Reading((Act("retract", 0),))
        if one["message"] == records("acts")[1]["message"]:
            raise ModelError("not a word")
        return Reading((Act(one["act"], one["target"]),) if one["act"] != "none" else ())

    return Decider(call, call)  # type: ignore[arg-type]


def test_a_judge_is_right_where_it_names_the_act_and_the_memory() -> None:
    several = [one for one in records("acts")[:60] if own_words(one["message"])]
    plain = next(one["message"] for one in several if one["act"] == "none" and one["earlier"])
    counts, failed = by_model(truthful(wrong=plain), several)
    there = {kind: sum(one["act"] == kind for one in several) for kind in counts}
    assert failed == 1
    missing = several[1]["act"]
    assert counts == {
        kind: Count(n - (kind == missing), n - (kind == missing), n - (kind == missing) + extra)
        for (kind, n), extra in zip(there.items(), (1, 0), strict=True)
    }


def test_classifiers_over_words_find_too_few_and_too_much_to_act_by() -> None:
    count = by_words("retract", "a")
    assert count.there == 90
    assert count.found < count.there / 4
