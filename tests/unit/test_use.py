"""What an answer took up of what it was shown."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from langmem_tiers.learning.outcome import unused_memories

SHOWN = {
    "port": "The staging database listens on port 6543 behind the bouncer",
    "retry": "Retry a serialization failure of the database three times at most",
}


def test_what_shares_two_words_of_its_own_with_the_answer_is_taken_up() -> None:
    asked = "How do I reach the staging database?"
    assert unused_memories(SHOWN, asked, "Connect to port 6543 through the bouncer.") == {"retry"}
    assert unused_memories(SHOWN, asked, 'psql({"port": 6543})') == {"retry"}


def test_an_answer_of_a_word_takes_up_what_has_that_word() -> None:
    assert unused_memories(SHOWN, "Which port of the staging database?", "6543.") == {"retry"}


def test_words_of_the_question_and_of_several_memories_say_nothing() -> None:
    asked = "How do I reach the staging database?"
    assert unused_memories(SHOWN, asked, "The staging database? I do not know.") == {
        "port",
        "retry",
    }


def test_of_what_has_no_word_of_its_own_nothing_can_be_said() -> None:
    shown = {1: "the port", 2: "the port"}
    assert unused_memories(shown, "", "no idea") == set()


TEXTS = st.text(max_size=80)


@given(st.dictionaries(st.integers(), TEXTS, max_size=4), TEXTS, TEXTS)
def test_what_is_repeated_word_for_word_is_taken_up_and_more_said_takes_up_no_less(
    shown: dict[int, str], question: str, answer: str
) -> None:
    assert unused_memories(shown, question, "\n".join(shown.values())) == set()
    left = unused_memories(shown, question, answer)
    assert unused_memories(shown, question, f"{answer}\n{question}") <= left
    assert left <= shown.keys()
