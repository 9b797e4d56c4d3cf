"""What sentences claim, and which of two claims cannot hold beside the other."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from langmem_tiers.consolidate.claims import statements
from langmem_tiers.consolidate.contradictions import Contradiction, contradictions
from langmem_tiers.consolidate.items import Item

DAY = datetime(2026, 3, 1, tzinfo=UTC)


def items(*texts: str) -> list[Item]:
    return [
        Item(number, DAY + timedelta(days=number), text, "semantic")
        for number, text in enumerate(texts)
    ]


def ended(*texts: str) -> list[tuple[int, int]]:
    return [(one.older, one.newer) for one in contradictions(items(*texts))]


@pytest.mark.parametrize(
    ("text", "relation", "subject", "value"),
    [
        ("Ada's favourite colour is blue", "is", "ada 's favourite colour", "blue"),
        ("The API key rotates on Mondays", "when", "api key", "mondays"),
        ("Bob works at Initech", "employed", "bob", "initech"),
        ("Bob lives in Paris", "located", "bob", "paris"),
        ("The staging database runs Postgres 15", "runs", "staging database", "postgres 15"),
        ("Deploys happen on Tuesdays", "when", "deploys", "tuesdays"),
        ("timeout = 30s", "is", "timeout", "30 s"),
        ("The owner of the mailer is Ada", "owned", "mailer", "ada"),
        ("Ada owns the mailer", "owned", "mailer", "ada"),
        ("The mailer listens on port 8080", "port", "mailer", "8080"),
        ("Falcon was renamed to Hawk", "named", "falcon", "hawk"),
        ("As of May the limit is 5 MB", "is", "limit", "5 mb"),
    ],
)
def test_a_plain_sentence_claims_one_value(
    text: str, relation: str, subject: str, value: str
) -> None:
    (claim,) = (claim for one in statements(text) or () for claim in one.claims)
    said = [" ".join(word.form for word in words) for words in (claim.subject, claim.value)]
    assert [claim.relation, *said, claim.negated] == [relation, subject, value, False]


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("Ada's favourite colour is blue", "Ada's favourite colour is now green"),
        ("Ada's favourite colour is blue", "The favorite color of Ada is green"),
        ("The API key rotates on Mondays", "Since March, the API key rotates on Fridays"),
        ("Bob works at Initech", "Bob no longer works at Initech"),
        ("Bob works at Initech", "Bob left Initech"),
        ("Bob works at Initech", "Bob now works for Globex"),
        ("Bob lives in Paris", "Bob moved to Rome"),
        ("Bob lives in Paris", "Bob moved from Paris to Rome"),
        ("Bob lives in Paris", "Bob moved to Rome last month"),
        ("Our default branch is master", "Our default branch is main"),
        ("BOB LIVES IN PARIS", "Actually, Bob lives in Rome."),
        (
            "The staging database runs Postgres 15",
            "The staging database was upgraded to Postgres 16",
        ),
        ("Deploys happen on Tuesdays", "Deploys moved to Fridays"),
        ("The mailer is deployed on Tuesdays", "Deploys of the mailer happen on Fridays"),
        ("timeout = 30s", "timeout = 1 minute"),
        ("The timeout of the mailer is 30s", "The timeout of the mailer was raised to 60s"),
        ("The warm-up takes 5 minutes", "The warm-up was shortened to 3 minutes"),
        ("The team uses Kafka", "The team switched from Kafka to RabbitMQ"),
        ("The team uses Kafka", "The team does not use Kafka any more"),
        ("The cache is enabled", "The cache has been disabled"),
        ("The cache is enabled", "The cache is not enabled"),
        ("The project is called Falcon", "The project was renamed Hawk"),
        ("Ada owns the mailer", "The owner of the mailer is Bob"),
        ("Bob does not like tea", "Bob likes tea"),
        ("Bob's email is bob@initech.com", "Bob's email is now bob@globex.com"),
        ("The version of the mailer is 2.4.1", "The mailer's version is 2.4.2"),
        ("Bob likes tea", "Bob doesn't like tea anymore"),
        ("Ada has visited Rome", "Ada has never visited Rome"),
        ("Bob's manager is Ada", "Bob reports to Eve"),
    ],
)
def test_a_newer_claim_ends_an_older_one_that_cannot_hold_beside_it(older: str, newer: str) -> None:
    assert ended(older, newer) == [(0, 1)]


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("Bob likes tea", "Bob likes coffee"),
        ("Ada has visited Rome", "Ada has visited Paris"),
        ("The team uses Kafka", "The team uses Redis"),
        ("The mailer depends on Kafka", "The mailer depends on Redis"),
        ("In staging, the timeout is 30s", "In production, the timeout is 60s"),
        ("The timeout is 30s", "The timeout is 60s in production"),
        ("The timeout of the mailer is 30s", "The timeout of the crawler is 60s"),
        ("The timeout is 30s", "The timeout is 30 seconds for each request"),
        ("The timeout is 60s", "The timeout is 1 minute"),
        ("The timeout is 30s", "The timeout is configurable"),
        ("The upload limit is 30 MB", "The upload limit is 30 files"),
        ("Bob lives in Paris", "Bob lives in Paris, France"),
        ("Bob lives in Paris", "Does Bob live in Rome?"),
        ("Bob lives in Paris", "Bob might live in Rome"),
        ("Bob lives in Paris", "Bob is thinking about moving to Rome"),
        ("Bob lives in Paris", "Bob will move to Rome"),
        ("Bob lives in Paris", "If Bob lives in Rome, call him"),
        ("Bob lives in Paris", 'Ada said: "Bob lives in Rome"'),
        ("Bob lives in Paris", "According to Ada, Bob lives in Rome"),
        ("Bob lives in Paris", "Bob used to live in Rome"),
        ("Bob lives in Paris", "Bob lived in Rome"),
        ("Bob lives in Paris", "He lives in Rome"),
        ("Bob lives in Paris", "Bob no longer lives in Rome"),
        ("Bob lives in Paris", "Bob works in Rome"),
        ("Bob lives in Paris", "Bob moved to Google Meet"),
        ("Bob lives in a flat", "Bob lives in Paris"),
        ("Bob's dog is brown", "Bob's dog is big"),
        ("The API is fast", "The API is documented"),
        ("A dog is brown", "A dog is black"),
        ("Bob owns a car", "Ada owns a car"),
        ("The default branch is main", "The default branch is protected"),
        ("The manager of Bob is Ada", "The manager of Bob is on holiday"),
        ("Bob works at Initech", "Bob does not always work at Initech"),
        ("The server runs Linux 6", "The server runs Nginx 1.25"),
        ("Bob runs at 7:30", "Bob runs at 18:00"),
        ("The codename is Falcon", "The codename is Falcno"),
        ("Deploys happen on Tuesdays", "Deploys happen at 9:30"),
    ],
)
def test_what_may_hold_beside_it_ends_nothing(older: str, newer: str) -> None:
    assert ended(older, newer) == []


def test_each_value_is_ended_by_the_next_and_the_latest_stands() -> None:
    texts = ("Bob lives in Paris", "Bob moved to Rome", "Bob now lives in Oslo")
    assert ended(*texts) == [(0, 1), (1, 2)]
    assert ended("The cache is on", "The cache is off", "The cache is on") == [(0, 1), (1, 2)]


def test_what_is_true_later_is_newer_whenever_it_was_recorded() -> None:
    first, second = items("Bob lives in Paris", "Bob lives in Rome")
    late = first._replace(valid_from=DAY + timedelta(days=9))
    assert contradictions([late, second]) == [Contradiction(1, 0, "another value")]
    happened = first._replace(occurred_at=DAY + timedelta(days=5))
    assert contradictions([happened, second]) == [Contradiction(1, 0, "another value")]


def test_a_newer_memory_may_say_more_and_an_older_one_that_does_is_not_ended_as_a_whole() -> None:
    assert ended("Bob lives in Paris", "Bob lives in Rome. Bob works at Initech.") == [(0, 1)]
    assert ended("Bob lives in Paris. Bob works at Initech.", "Bob moved to Rome") == []


def test_i_means_whoever_speaks() -> None:
    first, second = items("I live in Paris", "I moved to Rome")
    assert contradictions([first, second])
    assert contradictions([first._replace(speaker="Ada"), second._replace(speaker="Ada")])
    assert not contradictions([first._replace(speaker="Ada"), second._replace(speaker="Bob")])


VOCABULARY = (
    "Bob Ada's the lives in Paris Rome moved from to favourite colour is blue green not no longer"
    " likes 30s 60s timeout was changed now. on Mondays Fridays, left"
)
TEXTS = st.lists(st.sampled_from(VOCABULARY.split()), max_size=8).map(" ".join) | st.sampled_from(
    ["Bob lives in Paris", "Bob moved to Rome", "the timeout is 30s", "the timeout is now 60s"]
)


@settings(derandomize=True, max_examples=200)
@given(st.lists(TEXTS, max_size=9), st.randoms(use_true_random=False))
def test_any_order_gives_the_same_and_nothing_is_ended_twice_or_by_an_older_one(
    texts: list[str], drawn: random.Random
) -> None:
    memories = items(*texts)
    found = contradictions(memories)
    shuffled = memories[:]
    drawn.shuffle(shuffled)
    assert contradictions(shuffled) == found
    assert all(one.older < one.newer for one in found)
    assert len({one.older for one in found}) == len(found)


def test_a_text_of_a_book_claims_nothing() -> None:
    plain = "The timeout of the mailer is 30s.\n"
    assert statements(plain * 2) is not None
    assert statements(plain * 1_000) is None


@settings(derandomize=True, max_examples=200)
@given(st.text(max_size=60))
def test_no_text_is_too_strange_to_be_read(text: str) -> None:
    assert ended(text, text) == []
