"""What repeats a recalled memory is no new evidence, however it is framed and however often."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.gate_corpus import held_out, tuned
from langmem_tiers.prompts import RECALLED_ONE
from langmem_tiers.remember.candidate import Candidate, Known
from langmem_tiers.remember.echo import copy_of, echo_of
from langmem_tiers.remember.gate import Decision, judge

PORT = Known(content="The deployment port is 80.", key="port")
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


def known(*texts: str) -> list[Known]:
    return [Known(content=one, key=str(number)) for number, one in enumerate(texts)]


def test_recalling_and_remembering_again_a_thousand_times_adds_no_support() -> None:
    memories = {"port": PORT.content}
    text = PORT.content
    for turn in range(1_000):
        recalled = tuple(Known(content=one, key=key) for key, one in memories.items())
        text = FRAMES[turn % len(FRAMES)].format(text) if turn % 50 else PORT.content
        verdict = judge(Candidate(content=text, source="agent", recalled=recalled))
        if verdict.stored:
            memories[str(turn)] = text
        assert verdict.decision is Decision.REJECT
        assert verdict.repeats == "port"
        text = PORT.content

    assert memories == {"port": PORT.content}


@given(facts, st.sampled_from(FRAMES))
def test_every_framing_of_what_was_recalled_is_an_echo(fact: str, frame: str) -> None:
    assert echo_of(frame.format(fact), known(fact)) is not None


@given(facts, facts)
def test_a_fact_is_an_echo_of_itself_alone(one: str, other: str) -> None:
    echo = echo_of(one, known(other))

    assert (echo is not None) == (one == other)


def test_a_memory_in_its_fence_is_an_echo() -> None:
    fenced = RECALLED_ONE.format(
        tier="working", memory_type="semantic", date="2026-05-01", speaker="Ada",
        content=PORT.content,
    )  # fmt: skip

    assert echo_of(fenced, [PORT]) is not None


def test_a_digest_of_several_recalled_memories_is_an_echo() -> None:
    recalled = known("The port is 80.", "Anna likes green tea.")

    assert echo_of("The port is 80. Anna likes green tea.", recalled) is not None
    assert echo_of("The port is 80. Anna likes coffee.", recalled) is None


@pytest.mark.parametrize(
    ("recalled", "text"),
    [
        ("The deployment port is 80.", "The deployment port is 443."),
        ("The deployment port is 80.", "The deployment port is not 80."),
        ("The deployment port is not 80.", "The deployment port is 80."),
        ("It is not true that the port is 80.", "The port is 80."),
        ("Anna likes green tea.", "Ben likes green tea."),
        ("Ben owes Ada 20 euros.", "Ada owes Ben 20 euros."),
        ("Never deploy unless Ben agrees.", "Deploy."),
        ("我喜欢绿茶。", "我喜欢红茶。"),
    ],
)
def test_one_new_word_or_another_order_is_something_new(recalled: str, text: str) -> None:
    assert echo_of(text, known(recalled)) is None


def test_nothing_is_an_echo_of_nothing() -> None:
    assert echo_of("The port is 80.", []) is None
    assert copy_of("The port is 80.", []) is None


def test_both_halves_of_the_corpus_are_told_apart() -> None:
    for half in (tuned(), held_out()):
        for one in (*half.attacks, *half.benign):
            if one.recalled:
                echo = echo_of(one.text, known(*one.recalled)) is not None
                assert echo == (one.kind == "echo"), one.text
