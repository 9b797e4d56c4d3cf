"""What repeats a recalled memory is no new evidence, however often it is said."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.gate_corpus import ECHO_HALVES, Half, held_out, tuned
from langmem_tiers.core.prompts import (
    RECALLED_DOUBTED,
    RECALLED_NOTE,
    RECALLED_ONE,
    RECALLED_REPLACES,
    RECALLED_SAID,
)
from langmem_tiers.remember.duplicates import find_copy, find_echo
from langmem_tiers.remember.new_memory import KnownText

PORT = KnownText(content="The deployment port is 80.", key="port")
FRAMES = (
    "{}",
    "As I recall, {}",
    "According to my memory: {}",
    "The user mentioned that {}",
    "It is known that {}",
    "Recalled memory: {}",
    "- {}",
    "I remember that {}",
)

names = st.sampled_from(["Anna", "Ben", "Ines", "the mailer", "the gateway"])
verbs = st.sampled_from(["likes", "owns", "restarts", "moved to", "depends on"])
things = st.sampled_from(["green tea", "port 80", "Lisbon", "the ledger", "a red car"])
facts = st.builds("{} {} {} since May.".format, names, verbs, things)


def known(*texts: str) -> list[KnownText]:
    return [KnownText(content=one, key=str(number)) for number, one in enumerate(texts)]


@given(st.text())
def test_any_text_is_an_echo_and_a_copy_of_itself(text: str) -> None:
    assert find_echo(text, known(text)) is not None
    assert find_echo(text, known("The port is 80.", text)) is not None
    assert find_copy(text, known(text)) is not None


@given(
    st.text(st.characters(min_codepoint=32, max_codepoint=126, exclude_characters="<")),
    st.sampled_from(["\n", "  ", " \t"]),
)
def test_case_blanks_and_marks_around_words_tell_nothing(text: str, blanks: str) -> None:
    again = blanks.join(("", "X", *text.upper().split(), ""))

    assert find_echo(f'"{again}"!', known(f"x {text}")) is not None


@given(facts, st.sampled_from(FRAMES))
def test_a_few_words_before_what_was_recalled_make_nothing_new_of_it(fact: str, frame: str) -> None:
    assert find_echo(frame.format(fact), known(fact)) is not None


@given(facts, facts)
def test_a_fact_is_an_echo_of_itself_alone(one: str, other: str) -> None:
    assert (find_echo(one, known(other)) is not None) == (one == other)


def test_a_memory_in_its_fence_is_an_echo() -> None:
    origin = RECALLED_DOUBTED.format(source="tool")
    told = {"handle": "[a3f9k2] ", "origin": origin, "content": PORT.content}
    replaces = RECALLED_REPLACES.format(handle="[77c0xe]", date="3 Jan 2025")
    lines = (
        RECALLED_ONE.format_map({"date": "2026-05-01", "by": " Ada", **told}),
        RECALLED_SAID.format(date="1 May", by=", Ada", replaces=replaces, **told),
        RECALLED_NOTE.format_map({**told, "origin": ""}),
    )

    for fenced in lines:
        assert find_echo(fenced, [PORT]) is not None


@pytest.mark.parametrize(
    "text",
    [
        "The port is 80. Anna likes green tea.",
        "Anna likes green tea; the port is 80.",
        "As I recall, the port is 80 and Anna likes green tea.",
        "我喜欢绿茶。",
        "ANNA LIKES GREEN TEA",
    ],
)
def test_whole_sentences_of_what_was_recalled_are_echoes(text: str) -> None:
    recalled = known("The port is 80.", "Anna likes green tea. 我喜欢绿茶。")

    assert find_echo(text, recalled) is not None
    assert find_echo(f"{text} Anna likes coffee.", recalled) is None


@pytest.mark.parametrize(
    ("recalled", "text"),
    [
        ("The deployment port is 80.", "The deployment port is 443."),
        ("The deployment port is 80.", "The deployment port is not 80."),
        ("The deployment port is not 80.", "The deployment port is 80."),
        ("The port is 80.", "It is not true that the port is 80."),
        ("The port is 80.", "Nobody believes that the port is 80."),
        ("The port is 80.", "The port is 80 at night."),
        ("The offset is 5.", "The offset is -5."),
        ("The load is 5 %.", "The load is 5."),
        ("Anna likes C.", "Anna likes C++."),
        ("Ben owes Ada 20 euros.", "Ada owes Ben 20 euros."),
        ("Never deploy unless Ben agrees.", "Deploy."),
        ("Ada paints and Ben sings.", "Ada sings."),
        ("Most users pay by card.", "All users pay by card."),
        ("我喜欢绿茶。", "我喜欢红茶。"),
    ],
)
def test_one_new_word_or_another_order_is_something_new(recalled: str, text: str) -> None:
    assert find_echo(text, known(recalled)) is None


@pytest.mark.parametrize("half", [*ECHO_HALVES, tuned, held_out])
def test_nothing_new_is_refused(half: Callable[[], Half]) -> None:
    refused = [one.text for one in half().benign if find_echo(one.text, known(*one.recalled))]

    assert refused == []


@pytest.mark.slow
@pytest.mark.parametrize("piece", ["a ", "The port is 80. ", "<a ", "中", '<a b="'])
def test_what_a_long_text_repeats_is_found_in_linear_time(piece: str) -> None:
    def seconds(length: int) -> float:
        text = piece * (length // len(piece))
        began = time.thread_time()
        assert find_echo(text + " b", known(text + " a a a a c")) is None
        assert find_echo(text, known(text)) is not None
        return time.thread_time() - began

    assert min(seconds(80_000) for _ in range(3)) < 8 * max(seconds(20_000), 0.02)
