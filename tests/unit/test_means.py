"""What a message does, on messages that no weight was fitted on."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.data import Record, records
from benchmarks.fit_means import Judged, Message, bound, fit, vocabulary, wanted_of
from langmem_tiers.core import linear_model
from langmem_tiers.recall.message_intent import classify_message, memory_need, shipped_weights
from langmem_tiers.recall.question import TALKS


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
    return {one for event in life["events"] for one in wanted_of(event)}


def test_what_is_asked_for_later_is_not_taken_for_talk_and_much_else_is() -> None:
    told = [text for text, wanted in said() if wanted]
    others = [text for text, wanted in said() if not wanted]

    def talking(several: list[str]) -> float:
        return sum(classify_message(one).talk >= TALKS for one in several) / len(several)

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
    assert classify_message(text).talk >= TALKS


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
    assert classify_message(text).talk < TALKS


def test_what_anybody_could_answer_needs_no_memory_and_what_was_told_does() -> None:
    asked = "What was the name of the vet again?"

    for text in ("What's the square root of 64?", "Write a haiku about snow", "Thanks!"):
        assert memory_need(text) < memory_need(asked)
    assert memory_need("Wann kommt der Klempner morgen früh vorbei") == 0.0


def test_a_question_that_sounds_like_talk_does_not_surely_need_no_memory() -> None:
    surely = memory_need("Hi there, how are you today?")
    assert surely < memory_need("What is Ada doing as a volunteer?") < 0


def test_weights_are_read_as_they_are_written(tmp_path: Path) -> None:
    linear_model.write_weights(tmp_path, "message_intent", shipped_weights())
    linear_model.write_weights(tmp_path, "some", {"b": [0.5], "^ a b": [-1], ". b": [0.26]})

    assert linear_model.read_weights(tmp_path, "message_intent") == shipped_weights()
    assert linear_model.read_weights(tmp_path, "some") == {
        "b": (0.5,),
        "^ a b": (-1.0,),
        ". b": (0.3,),
    }
    assert (tmp_path / "some.words").read_text() == ".\t^ a\t\tb\n"


def test_a_fit_tells_its_messages_apart_and_its_bound_is_where_few_are_found_wrongly() -> None:
    several = [
        Message(str(n), f"{text} {more}", {"talk": talks})
        for talks, text in ((True, "thanks"), (False, "i live in rome"))
        for n, more in enumerate(("and so on", "really", "and so on"))
    ]
    known = vocabulary(several)
    found = fit(several, "talk", known)
    scores = [found.score(one) for one in several]
    judged = [Judged(one, score) for one, score in zip(several, scores, strict=True)]

    assert known == {"thanks", "i", "live", "in", "rome", "and", "so", "on"}
    assert min(scores[:3]) > max(scores[3:])
    assert sorted(scores[3:])[1] <= bound(judged, "talk") <= max(scores[3:])
