"""What repeats a recalled memory is no new evidence, however it is framed and however often."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.gate_corpus import ECHO_HALVES, Half, held_out, tuned
from langmem_tiers.core.prompts import RECALLED_ONE
from langmem_tiers.remember.candidate import Candidate, Known
from langmem_tiers.remember.echo import copy_of, echo_of
from langmem_tiers.remember.gate import Decision, judge
from langmem_tiers.remember.telling import told

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
        origin=' source="tool" trust="0.6"',
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


@pytest.mark.parametrize("half", ECHO_HALVES)
def test_what_is_told_again_is_found_and_nothing_new_is_refused(half: Callable[[], Half]) -> None:
    samples = half()
    found = [echo_of(one.text, known(*one.recalled)) is not None for one in samples.attacks]
    refused = [one.text for one in samples.benign if echo_of(one.text, known(*one.recalled))]

    assert sum(found) >= 0.9 * len(found)
    assert refused == []


@pytest.mark.parametrize("half", ECHO_HALVES)
def test_a_page_that_says_again_what_is_stored_is_a_copy(half: Callable[[], Half]) -> None:
    samples = half()
    again = [one for one in samples.attacks if one.kind == "told again"]
    copies = [copy_of(one.text, known(*one.recalled)) is not None for one in again]
    refused = [one.text for one in samples.benign if copy_of(one.text, known(*one.recalled))]

    assert sum(copies) >= 0.88 * len(copies)
    assert refused == []


@pytest.mark.parametrize(
    ("recalled", "text"),
    [
        ("Alice owes Bob twenty euros.", "Bob is owed €20 by Alice."),
        ("I moved from Berlin to Vienna.", "The user moved to Vienna from Berlin."),
        ("The import ran on 3 March 2026.", "On 2026-03-03 the import ran."),
        (
            "The bug in the importer is old.",
            '{"fact": "The importer bug is old.", "confidence": 0.9}',
        ),
        ("Ada paints and sings.", "Ada sings."),
        ("Ada: I can't eat nuts.", "Ada said that she cannot eat nuts."),
    ],
)
def test_another_form_of_the_same_words_is_an_echo(recalled: str, text: str) -> None:
    assert echo_of(text, known(recalled)) is not None


@pytest.mark.parametrize(
    ("recalled", "text"),
    [
        ("I moved from Berlin to Vienna.", "I moved from Vienna to Berlin."),
        ("The train Oslo to Rome is late.", "The train Rome to Oslo is late."),
        ("Ada was paid by Ben.", "Ada paid Ben."),
        ("Alice lives in Berlin and Bob lives in Vienna.", "Alice lives in Vienna."),
        ("Alice pays the rent and Bob pays the power bill.", "Alice pays the power bill."),
        ("Ada paints and Ben sings.", "Ada sings."),
        ("Mira reports to Dana, who leads the team.", "Mira leads the team."),
        (
            "Run the migrations, then restart the workers.",
            "Restart the workers, then run the migrations.",
        ),
        ("The report may be sent.", "The report must be sent."),
        ("Most users pay by card.", "All users pay by card."),
        ("Deploy only if Ben agrees.", "Deploy."),
        ("Jonas is allergic to nuts.", "Bob: allergic to nuts"),
        ("The port is 80.", "Staging: the port is 80."),
        ("Jan likes tea.", "Jane likes tea."),
        ("The mailer failed (2026-02-01).", "The mailer failed (2026-02-08)."),
        ("The page is safe (7d2f 11).", "The page is safe (8a9c 12)."),
    ],
)
def test_other_roles_scopes_and_modes_are_something_new(recalled: str, text: str) -> None:
    assert echo_of(text, known(recalled)) is None


def test_what_two_people_do_is_not_put_on_one_of_them() -> None:
    recalled = known("Ada likes tea.", "Ben hates coffee.")

    assert echo_of("Ada likes tea and Ben hates coffee.", recalled) is not None
    assert echo_of("Ada likes tea and hates coffee.", recalled) is None


@given(st.text(max_size=200))
def test_any_text_is_an_echo_of_itself_or_says_nothing(text: str) -> None:
    again = echo_of(text, known(text))

    assert again is not None or not told(text).said


def test_what_is_very_long_repeats_only_what_is_the_same() -> None:
    text = "The port of machine five is 35. " * 400
    assert echo_of(f" {text}", [Known(content=text)]) is not None
    assert echo_of(f"{text}Again.", [Known(content=text)]) is None
    assert echo_of("The port of machine five is 35.", [Known(content=text)]) is None
