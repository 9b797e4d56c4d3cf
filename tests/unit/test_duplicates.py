"""What says the same, what only looks like it, and what becomes of a crowd of them."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from langmem_tiers.consolidate.duplicates import Cluster, clusters, same, same_text
from langmem_tiers.consolidate.items import Item
from langmem_tiers.consolidate.policy import MergePolicy

DAY = datetime(2026, 3, 1, tzinfo=UTC)
POLICY = MergePolicy()


def item(number: int, content: str, **facts: Any) -> Item:
    return Item(number, DAY + timedelta(days=number), content)._replace(**facts)


def items(*texts: str) -> list[Item]:
    return [item(number, text) for number, text in enumerate(texts)]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The API key rotates on Mondays", "Remember that the API key rotates on Mondays."),
        ("The API key rotates on Mondays", "On Mondays, the API key rotates"),
        ("The API key rotates on Mondays", "THE API KEY ROTATES ON MONDAYS!"),
        ("The API key rotates on Mondays", "- the API key now rotates  on Mondays ..."),
        ("You must run the migrations first", "You have to run the migrations first"),
        ("The release needs two approvals", "The rollout needs 2 approvals"),
        ("Requests time out after 30 seconds", "Requests time out after 30s"),
        ("It holds 1,000 rows", "it holds 1000 rows"),
        ("Use the staging database", "Use the staging databse"),
        ("Bob's favourite colour is blue", "The favorite color of Bob is blue"),
        ("Bob's favourite colour is blue", "Blue is Bob's favourite colour"),
        ("Kafka and Redis are down", "Redis and Kafka are down"),
        ("Ticket A-1 blocks the launch", "The launch is blocked by ticket A-1"),
        ("Grafana sends the alerts to Ada", "The alerts are sent to Ada by Grafana"),
        ("Don't restart the worker", "Do not restart the worker"),
        ("Don\u2019t restart the worker", "please don't restart the worker"),
        ("猫が好き", "猫が好き。"),
    ],
)
def test_other_words_for_the_same_say_the_same(one: str, other: str) -> None:
    assert same_text(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The limit is 30 requests", "The limit is 300 requests"),
        ("The meeting is at 9:30", "The meeting is at 9:45"),
        ("Use Python 3.1", "Use Python 3.10"),
        ("The key rotates on Mondays", "The key rotates on Fridays"),
        ("The key rotates on Mondays", "The key rotates on Monday"),
        ("Restart the worker", "Don't restart the worker"),
        ("Bob likes tea", "Bob no longer likes tea"),
        ("Bob likes tea", "Bob liked tea"),
        ("Bob owes Alice", "Alice owes Bob"),
        ("The client waits for the server", "The server waits for the client"),
        ("Deploy from staging to production", "Deploy from production to staging"),
        ("Alice is Bob's manager", "Bob is Alice's manager"),
        ("Copy main other", "Copy other main"),
        ("Tea and milk cost 3 and 5", "Milk and tea cost 3 and 5"),
        ("Run lint before the tests", "Run lint after the tests"),
        ("Enable the cache", "Disable the cache"),
        ("Import the invoices", "Export the invoices"),
        ("Upload the files to the bucket", "Unload the files to the bucket"),
        ("We expect the header", "We except the header"),
        ("The server is in Paris", "The server is in Parma"),
        ("Martin owns the mailer", "Marten owns the mailer"),
        ("The mailer belongs to Ms Edward", "The mailer belongs to Ms Edwards"),
        ("Close ticket OPS-12", "Close ticket OPS-21"),
        ("Read user_id first", "Read user_ids first"),
        ("The winner is team A", "The winner is team"),
        ("Write it in C++", "Write it in C#"),
        ("The cache is on", "Is the cache on?"),
        ("The cache is on", "The cache is on only at night"),
        ("The error logs are kept", "The logs are kept"),
        ("猫が好き", "犬が好き"),
        ("???", "!!!"),
        ("", "something"),
    ],
)
def test_what_differs_in_a_thing_that_matters_is_not_the_same(one: str, other: str) -> None:
    assert not same_text(one, other)
    assert not clusters(items(one, other), {(0, 1): 0.999}, POLICY)


def test_what_repeats_lives_on_in_the_oldest() -> None:
    texts = items("Bob likes tea", "bob likes tea!", "Ada likes tea", "Note: Bob likes tea")
    assert clusters(texts, {}, POLICY) == [Cluster(0, (1, 3))]


def test_of_one_moment_the_lower_id_is_the_older() -> None:
    first, second = item(7, "Bob likes tea"), item(3, "Bob likes tea!", created_at=DAY)
    assert clusters([first._replace(created_at=DAY), second], {}, POLICY) == [Cluster(3, (7,))]


def test_two_slips_need_a_cosine_that_proposes_them() -> None:
    texts = items(
        "The nightly migration of the invoice archive needs sixteen gigabytes of memory",
        "The nightly mirgation of the invoice acrhive needs sixteen gigabytes of memory",
    )
    assert clusters(texts, {}, POLICY) == []
    assert clusters(texts, {(1, 0): 0.89}, POLICY) == []
    assert clusters(texts, {(1, 0): 0.9}, POLICY) == [Cluster(0, (1,))]


def test_what_was_no_longer_true_and_is_told_anew_is_not_merged_with_what_it_was() -> None:
    texts = items("Bob lives in Paris", "Bob moved to Rome", "Bob lives in Paris")
    assert clusters(texts, {(0, 2): 1.0}, POLICY) == []
    assert clusters([texts[0], texts[2]], {(0, 2): 1.0}, POLICY) == [Cluster(0, (2,))]


def test_the_same_on_another_day_has_happened_twice_but_a_fact_is_told_twice() -> None:
    one, other = (
        item(number, "Deployed the mailer", occurred_at=DAY + timedelta(days=number))
        for number in (0, 1)
    )
    assert not same(one, other)
    assert same(one, other._replace(occurred_at=DAY + timedelta(hours=1)))
    assert same(one._replace(memory_type="semantic"), other._replace(memory_type="semantic"))


def test_types_are_not_mixed_and_i_means_whoever_speaks() -> None:
    one, other = item(0, "I like tea", speaker="Ada"), item(1, "I like tea", speaker="Bob")
    assert not same(one, other)
    assert same(one, other._replace(speaker="Ada"))
    assert same(one._replace(content="Eve likes tea"), other._replace(content="Eve likes tea"))
    assert not same(one, one._replace(memory_type="reflexion"))


VOCABULARY = (
    "Bob Ada the likes owes tea not in on Monday 3 3.5 is and of 's by lives Rome Paris, blue"
    " release rollout database databse, moved to now."
)
TEXTS = st.lists(st.sampled_from(VOCABULARY.split()), max_size=7).map(" ".join)


@settings(derandomize=True, max_examples=300)
@given(TEXTS, TEXTS)
def test_to_say_the_same_is_mutual_and_case_never_matters(one: str, other: str) -> None:
    assert same_text(one, other) == same_text(other, one)
    assert same_text(one, f"  {one.upper()} ")


@settings(derandomize=True, max_examples=150)
@given(st.lists(TEXTS, max_size=9), st.randoms(use_true_random=False))
def test_clusters_know_no_order_never_chain_and_leave_nothing_to_merge(
    texts: list[str], drawn: random.Random
) -> None:
    memories = items(*texts)
    near = {(one, other): 0.95 for one in range(len(texts)) for other in range(one)}
    found = clusters(memories, near, POLICY)
    shuffled = memories[:]
    drawn.shuffle(shuffled)
    assert clusters(shuffled, near, POLICY) == found

    for one in found:
        assert all(same(memories[one.survivor], memories[other]) for other in one.others)
        assert one.survivor < min(one.others)
    gone = [other for one in found for other in one.others]
    assert len(gone) == len(set(gone))
    left = [one for one in memories if one.id not in gone]
    assert clusters(left, near, POLICY) == []
