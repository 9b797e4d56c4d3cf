"""Sentences, words and signs are read, to the character, as they were when weights were fitted."""

from __future__ import annotations

from weakref import ref

from langmem_tiers.core.texts import distinct_words, exact_words, split_sentences, tokens

TEXT = (
    "Don't tell Zoë: it\u2019s 5 o'clock… now! Mail ann@example.org, see https://a.example/b?c=1.\n\n"
    "It costs $3.50 (C++ > C#)?  猫が好き。犬も好き。 -5°C; re-use x_y [ok]"
)


def test_sentences_end_with_a_mark_before_white_space_or_with_the_line() -> None:
    assert split_sentences(TEXT) == [
        "Don't tell Zoë: it\u2019s 5 o'clock… now!",
        "Mail ann@example.org, see https://a.example/b?c=1.",
        "It costs $3.50 (C++ > C#)?",
        "猫が好き。犬も好き。",
        "-5°C; re-use x_y [ok]",
    ]


def test_words_that_have_vectors_are_letters_and_digits_each_once() -> None:
    assert " ".join(distinct_words(TEXT)) == (
        "don't tell zoë it\u2019s 5 o'clock now mail ann example org see https a b c 1 it costs 3 "
        "50 猫が好き 犬も好き re use x y ok"
    )
    assert distinct_words("a" * 999 + " b c") == ("a" * 999,)


def test_of_a_long_text_no_more_is_kept_than_is_read() -> None:
    class Text(str):
        """A text that can be asked whether it is still there."""

        __slots__ = ("__weakref__",)

    text = Text("a b " * 100_000)
    there = ref(text)
    distinct_words(text)
    del text
    assert there() is None


def test_tokens_are_words_and_signs_as_they_stand_or_the_kind_of_what_is_of_one() -> None:
    assert " ".join(tokens(TEXT)) == (
        "Don t tell Zoë : it s 0 o clock now ! Mail 0 see 0 It costs 0 C > C # ? "
        "猫 が 好 き 犬 も 好 き 0 C re use x_y [ ok ]"
    )


def test_words_that_are_compared_keep_the_signs_that_say_something_else() -> None:
    assert " ".join(exact_words(TEXT)) == (
        "don't tell zoë it\u2019s 5 o'clock now mail ann@example.org see https://a.example/b?c=1 "
        "it costs $3.50 c++ > c# 猫 が 好 き 。 犬 も 好 き 。 -5°c re-use x_y ok"
    )
