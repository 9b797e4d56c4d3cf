"""What a message takes back: what of it is looked at, and how a judge is measured."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from benchmarks.acts import Count, by_model
from benchmarks.data import Record, records
from langmem_tiers.core.errors import ModelError
from langmem_tiers.remember.acts import Act, Decider, Earlier, Reading, own_words
from langmem_tiers.remember.targets import Near, Suspected, read, shipped, tells_more

BEGAN, HOUR = datetime(2026, 3, 1, tzinfo=UTC), timedelta(hours=1)
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


def told(one: Record) -> tuple[str, ...]:
    return tuple(turn["user"] for turn in one["turns"])


def truthful(*, wrong: str) -> Decider:
    """A judge that knows what the authors meant, but for one message, and one that it refuses."""
    known = {(one["message"], told(one)): one for one in records("acts")}

    def call(text: str, earlier: Sequence[Earlier]) -> Reading:
        one = known[text, tuple(each.content for each in earlier)]
        if one["message"] == wrong:
            return Reading((Act("retract", 0),))
        if one["message"] == records("acts")[1]["message"]:
            raise ModelError("not a word")
        return Reading(tuple(Act(one["act"], place) for place in one["targets"]))

    return Decider(call, call)  # type: ignore[arg-type]


def test_a_judge_is_right_where_it_names_the_act_and_the_memory() -> None:
    several = [one for one in records("acts")[:60] if own_words(one["message"])]
    plain = next(one["message"] for one in several if one["act"] == "none" and one["turns"])
    counts, failed = by_model(truthful(wrong=plain), several)
    there = {kind: sum(one["act"] == kind for one in several) for kind in counts}
    assert failed == 1
    missing = several[1]["act"]
    assert counts == {
        kind: Count(n - (kind == missing), n - (kind == missing), n - (kind == missing) + extra)
        for (kind, n), extra in zip(there.items(), (1, 0), strict=True)
    }


def test_what_an_act_is_about_is_told_by_what_is_near_and_shared_and_by_time() -> None:
    earlier = [
        Earlier("I keep bees on the roof of the school.", BEGAN, here=False, session="a"),
        Earlier("We fly to Iceland in August.", BEGAN + HOUR, here=False, session="b"),
        Earlier("Dinner was good.", BEGAN + 2 * HOUR, here=False, session="c"),
    ]
    near, far = Near(0.6, 0.7), Near(0.05, 0.05)
    flight = "Forget the flight to Iceland, we are not flying after all."
    bees = "I was joking about the bees on the roof of the school."

    def meant(said: str, *nearness: Near) -> Reading:
        return read(said, Suspected("retract", 0.9), earlier, nearness, "minilm")

    assert meant(flight, far, near, far) == Reading((Act("retract", 1),), tells_more=False)
    assert meant(bees, near, far, far) == Reading((Act("retract", 0),), tells_more=False)
    here = [one._replace(here=True, session="now") for one in earlier[:2]]
    that = read("Forget that.", Suspected("retract", 0.95), here, [far, far], "minilm")
    assert that.acts == (Act("retract", 1),)  # what was told last
    unsure = read(flight, Suspected("retract", 0.001), earlier, [far, near, far], "minilm")
    assert unsure == read(flight, Suspected("retract", 0.9), [], [], "minilm") == Reading()
    assert {*shipped()["models"]} == {"local", "minilm", "multilingual", "other"}


def test_a_message_that_tells_something_beside_what_it_takes_back_tells_more() -> None:
    assert tells_more("Forget the boat, I was joking. My sister Ida lives in Oslo.")
    assert not tells_more("Forget what I said about the boat, I was only joking.")
