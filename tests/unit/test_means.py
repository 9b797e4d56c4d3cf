"""What a message does, on messages that no weight was fitted on."""

from __future__ import annotations

import pytest

from benchmarks.data import Record, records
from benchmarks.fit_means import Judged, Message, fit, scored, threshold, vocabulary
from langmem_tiers.recall.question import TALKS
from langmem_tiers.remember.means import INTENDS, Means, means, read, shipped, written


def said(kind: str | None = None) -> list[tuple[str, bool]]:
    """What is told in the lives, and whether a later question asks for it."""
    return [
        (event["say"], any(one.casefold() in event["say"].casefold() for one in asked(life)))
        for life in records("life")
        if kind in (None, life["kind"])
        for event in life["events"]
        if "say" in event
    ]


def asked(life: Record) -> set[str]:
    return {
        one for event in life["events"] for one in (*event.get("shown", ()), *event.get("any", ()))
    }


def test_what_is_asked_for_later_is_not_taken_for_talk_and_much_else_is() -> None:
    told = [text for text, wanted in said() if wanted]
    others = [text for text, wanted in said() if not wanted]

    def talking(several: list[str]) -> float:
        return sum(means(one).talk >= TALKS for one in several) / len(several)

    assert len(told) > 200
    assert talking(told) < 0.01
    assert talking(others) > 0.1


@pytest.mark.parametrize(
    "text",
    [
        "",
        "🙏",
        "Thanks, that was very helpful!",
        "Good morning, how are you?",
        "What's the capital of Peru?",
    ],
)
def test_what_tells_nothing_talks(text: str) -> None:
    assert means(text).talk >= TALKS
    assert means(text).intends < INTENDS


@pytest.mark.parametrize(
    "text",
    [
        "Thanks, that was very helpful! My daughter Mette starts school on the 4th of August.",
        "Wow. I am allergic to peanuts",
        "Meine Schwester ist gegen Erdnüsse allergisch.",
        "Meine Tochter heißt Mette!",
        "Postgres 17!",
    ],
)
def test_a_message_that_tells_something_beside_its_thanks_does_not_talk(text: str) -> None:
    assert means(text).talk < TALKS


def test_who_asks_to_be_reminded_intends_and_who_asks_what_they_said_does_not() -> None:
    assert means("Hi! Please remind me to water the plants on Friday.").intends >= INTENDS
    for text in (
        "Remind me what my sister's name is",
        "These photos are a reminder to follow my passions.",
    ):
        assert means(text).intends < INTENDS


def test_weights_are_read_as_they_are_written() -> None:
    assert dict(read(written(shipped()).splitlines())) == shipped()
    assert dict(read(["^a b.\t0.5\t-1"])) == {"^a b.": Means(0.5, -1)}


def test_a_fit_tells_its_messages_apart_and_is_as_sure_as_it_is_right() -> None:
    several = [
        Message("one", label, text)
        for label, text in (
            ("t", "thanks a lot"),
            ("t", "thanks"),
            ("f", "i live in rome"),
            ("f", "i live here"),
        )
    ]
    known = vocabulary(several)
    weights = fit(several, "talk", known)
    assert known == {"thanks", "i", "live"}
    scores = [scored(weights, one.text, known) for one in several]
    assert min(scores[:2]) > max(scores[2:])
    judged = [
        Judged("one", score, one.label == "t", "")
        for score, one in zip(scores, several, strict=True)
    ]
    assert threshold(judged, of=True) == min(scores[:2])
    assert threshold(judged, of=False) == max(scores[2:])
