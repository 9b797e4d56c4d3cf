"""Words are met by the words nearest to them, whatever else stands in the text."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langmem_tiers import LocalEmbeddings
from langmem_tiers.core.texts import distinct_words
from langmem_tiers.recall.matching import SearchFacts, word_similarities
from langmem_tiers.recall.question import read_question
from tests.unit.test_evidence import candidate

WORDS = LocalEmbeddings()
some_words = st.lists(
    st.sampled_from(["dog", "puppy", "tax", "law", "pot", "clay", "the", "of", "paint"]), min_size=1
)


def alike(question: str, *texts: str, speakers: tuple[str, ...] = ()) -> list[float]:
    asked = read_question(question, date(2026, 1, 1))
    scope = SearchFacts(speakers=speakers)
    return word_similarities([candidate(one) for one in texts], asked, scope, WORDS)


def test_another_word_for_the_same_is_nearer_than_one_for_something_else() -> None:
    near, far = alike("when does the puppy see a doctor?", "The vet looks at the dog.", "Tax law.")
    assert near > far > 0


def test_a_rare_word_counts_more_than_a_frequent_one() -> None:
    rare, frequent = alike("the pottery", "pottery", "the")
    assert rare > frequent


def test_a_name_says_nothing_of_what_is_asked() -> None:
    named = alike("what did ann paint", "a pot", speakers=("Ann",))
    assert named == alike("what did paint", "a pot")
    assert named != alike("what did ann paint", "a pot")


@given(asked=some_words, texts=st.lists(some_words, min_size=1, max_size=5))
def test_a_text_with_more_words_is_no_less_alike_and_others_do_not_matter(
    asked: list[str], texts: list[list[str]]
) -> None:
    every = WORDS.alike(asked, texts)
    longer = WORDS.alike(asked, [[*one, "paint"] for one in texts])

    assert all(0 <= one <= more + 1e-5 for one, more in zip(every, longer, strict=True))
    assert every == pytest.approx([WORDS.alike(asked, [one])[0] for one in texts], abs=1e-5)
    assert WORDS.alike(asked, [asked]) == pytest.approx([1], abs=1e-5)


def test_without_words_or_vectors_nothing_is_alike() -> None:
    question = read_question("What is it?", date(2026, 1, 1))
    assert word_similarities([candidate("It is a dog.")], question, SearchFacts(), None) == [0.0]
    assert WORDS.alike([], [["dog"]]) == [0.0]
    assert WORDS.alike(["dog"], [[], ["dog"]]) == pytest.approx([0.0, 1.0])
    assert alike("?", "a dog") == [0.0]


def test_the_words_of_a_text_are_letters_and_digits_in_lower_case() -> None:
    assert distinct_words("Don't tell Zoë: it's 5 o'clock, zoë!") == (
        "don't", "tell", "zoë", "it's", "5", "o'clock",
    )  # fmt: skip
