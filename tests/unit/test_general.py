"""What goes to everybody as it stands, and what only in words that somebody wrote."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langmem_tiers.core.texts import RULE_CHARACTERS
from langmem_tiers.learning.generalise import make_vocabulary, names_nobody, reason_to_rewrite

LABELS = ["acme", "billing", "billing-service", "coder"]
OWN = ["We asked Marta before the release.", "The gateway of Northwind is slow."]
OTHERS = ["The billing of hours is done in Postgres.", "Dates are ISO dates."]
HEARD = ["Please never touch the ledger on a Friday, it breaks the books"]
ASKED = "close the books of last may"
GENERAL = "Use `secrets.compare_digest` for constant-time comparison"


def needs(value: dict[str, Any] | str, *, language: str = "english", **known: list[str]) -> Any:
    """Why a value needs general words, beside what is known."""
    value = {"content": value} if isinstance(value, str) else value
    told = {"own": OWN, "others": OTHERS, "said": HEARD, **known}
    around = make_vocabulary(
        str(value.get("content")),
        LABELS,
        told["own"],
        told["others"],
        utterances=told["said"],
        language=language,
    )
    return reason_to_rewrite(value, around)


@pytest.mark.parametrize(
    "said",
    [
        GENERAL,
        "I would rather read the log first. Then retry.",
        "Prefer Postgres to files",
        "Dates: always ISO",
        "- Sort first\n- Then cut\n2. Then print",
        "The billing of hours is rounded",
    ],
)
def test_what_identifies_nobody_goes_as_it_stands(said: str) -> None:
    assert needs(said) is None


@pytest.mark.parametrize(
    ("said", "named"),
    [
        ("Ask Linnea before a release", "Linnea"),
        ("Marta signs off each release", "Marta"),
        ("Invoices go to Northwind on Mondays", "Northwind, Mondays"),
        ("Retry-After is in seconds: see RFC", "After, RFC"),
        ("The host 10.0.0.12 is slow", "10.0.0.12"),
        ("In acme the queue is slow", "acme"),
        ("billing-service is slow", "billing-service"),
        ("password = 'hunter2'", "a secret"),
        ("A, then Bea, Cleo, Dora and Eve", "Bea, Cleo, Dora, …"),
        ("On voit Zoé et Émile", "Zoé, Émile"),
    ],
)
def test_what_names_somebody_needs_general_words(said: str, named: str) -> None:
    assert needs(said) == f"it names {named}"


def test_a_label_that_is_a_common_word_of_another_project_names_nobody() -> None:
    assert needs("Billing is slow", others=[]) == "it names Billing"
    assert needs("Billing is slow", others=["Billing is slow", "so is billing there"]) is None
    assert needs("billing is slow", others=["billing is slow!"]) == "it names billing"
    assert needs("billing-service is slow", others=["the billing-service"]) is not None


def test_what_a_speaker_said_goes_only_in_general_words() -> None:
    assert needs({"content": GENERAL, "speaker": "user"}) == "it was said in a conversation"


@pytest.mark.parametrize(
    ("lesson", "why"),
    [
        ({"improved_approach": "Never touch the ledger on a weekend"}, True),
        ({"improved_approach": "Touch the ledger late"}, False),
        ({"task_id": ASKED, "content": f"Lesson\nAsked: {ASKED}\n"}, True),
        ({"task_id": "task 7", "content": "Lesson\nAsked: task 7\n"}, False),
        ({"task_id": ASKED, "content": "Lesson from x"}, False),
    ],
)
def test_a_lesson_that_quotes_a_conversation_goes_only_in_general_words(
    lesson: dict[str, Any], *, why: bool
) -> None:
    value = {"content": "Lesson", **lesson, "memory_type": "reflexion"}
    assert needs(value) == ("it quotes a conversation" if why else None)
    assert needs({**value, "memory_type": "pattern"}) is None


def test_the_task_of_a_lesson_begins_a_sentence() -> None:
    assert needs("Lesson from Add up the sums\nTried: add") is None


def test_every_field_of_a_lesson_is_looked_at() -> None:
    value = {"content": "Lesson", "failure_reason": "it was for Northwind"}
    assert needs(value) == "it names Northwind"


def test_a_capital_says_nothing_where_a_language_capitalises_nouns() -> None:
    said = "Vor dem Deployen die Migrationen lesen"
    assert needs(said) is not None
    assert needs(said, language="pg_catalog.german") is None
    assert needs("in acme lesen", language="german") == "it names acme"


def test_what_is_too_long_to_be_looked_at_stays() -> None:
    assert "too long" in needs("a " * RULE_CHARACTERS)


def test_a_word_that_stands_alone_is_plain_if_its_capitals_are_known() -> None:
    around = make_vocabulary("", LABELS, OWN, OTHERS)
    words = ["parsing", "Postgres", "Northwind", "acme"]
    assert [names_nobody(one, around) for one in words] == [True, True, False, False]
    told = [names_nobody(one, around, "Parsing is slow") for one in (*words, "linnea")]
    assert told == [True, True, False, False, False]


@given(st.text(), st.lists(st.text(), max_size=3))
def test_any_text_can_be_judged(said: str, others: list[str]) -> None:
    assert needs(said, others=others) != ""
    assert needs(said, others=[said], said=[said]) is None or needs(said, others=[]) is not None
