"""Evolution: what an interaction is worth, and what is remembered of it."""

from __future__ import annotations

from typing import Any

import pytest

from langmem_tiers.core.errors import InvalidInputError, InvalidTypeError
from langmem_tiers.learning.evolution import (
    WORTH_REMEMBERING,
    entities_of,
    evolve,
    importance_of,
    summary_of,
    valence_of,
)

INTERACTION = {"asked": "How do I ship it?", "said": "Tag it.", "context": "a chat"}


def test_a_metric_that_cannot_be_is_refused_by_its_name_even_where_another_decides() -> None:
    wrong: dict[str, Any]
    for wrong, error in (
        ({"engagement_rate": float("nan")}, InvalidInputError),
        ({"engagement_rate": -0.1}, InvalidInputError),
        ({"revenue_generated": float("inf")}, InvalidInputError),
        ({"revenue_generated": 10**5000}, InvalidInputError),
        ({"engagement_rate": "0.1"}, InvalidTypeError),
        ({"revenue_generated": True}, InvalidTypeError),
    ):
        for read in (importance_of, evolve):
            with pytest.raises(error, match=rf"{next(iter(wrong))}.* leave it out"):
                read(INTERACTION, wrong)
    for wrong, error in (
        ({"sentiment": "happy"}, InvalidInputError),
        ({"sentiment": 1.1}, InvalidInputError),
        ({"sentiment": [0.5]}, InvalidTypeError),
        ({"success": "yes"}, InvalidTypeError),
        ({"success": False, "user_satisfaction": 92}, InvalidInputError),
        ({"sentiment": 0.5, "total_revenue": -1}, InvalidInputError),
    ):
        with pytest.raises(error, match=list(wrong)[-1]):
            valence_of(wrong)
    for wrong["threshold"] in (-0.1, 1.1, float("nan"), "0.7", None, True):
        with pytest.raises(InvalidInputError, match="threshold is a"):
            evolve(INTERACTION, {}, threshold=wrong["threshold"])


def test_the_most_direct_metric_decides_the_valence() -> None:
    several: list[tuple[dict[str, Any], str]] = [
        ({}, "neutral"),
        ({"sentiment": "negative", "success": True, "revenue_generated": 5}, "negative"),
        ({"sentiment": 0.04, "success": True}, "neutral"),
        ({"sentiment": 0.05}, "positive"),
        ({"sentiment": -0.05}, "negative"),
        ({"sentiment": None, "success": False, "satisfaction_score": 1.0}, "negative"),
        ({"success": True, "satisfaction_score": 0.0}, "positive"),
        ({"satisfaction_score": 0.2, "revenue_generated": 5}, "negative"),
        ({"user_satisfaction": 0.5, "satisfaction_score": 0.9}, "neutral"),
        ({"engagement_rate": 0.07}, "positive"),
        ({"engagement_rate": 0.069}, "neutral"),
        ({"total_revenue": 1}, "positive"),
    ]
    for metrics, valence in several:
        assert valence_of(metrics) == valence


def test_a_summary_tells_what_was_asked_said_and_done_and_what_came_of_it() -> None:
    interaction = {
        "outcome": "All green.",
        "done": ["ran the tests", "pushed"],
        "said": " ",
        "asked": "Please\n  ship it.",
        "mood": 3,
    }
    assert summary_of(interaction) == (
        "Asked: Please ship it.\nDone: ran the tests; pushed\nOutcome: All green."
    )


def test_a_long_part_is_shortened_to_whole_sentences_and_says_so() -> None:
    sentence = "This is one of a number of sentences."
    summary = summary_of({"said": " ".join([sentence] * 40)})
    assert summary.endswith("sentences. …")
    assert summary.removeprefix("Said: ").removesuffix(" …").split(". ")[0] == sentence[:-1]


def test_what_is_of_the_wrong_type_or_says_nothing_is_refused_by_its_name() -> None:
    several: list[tuple[Any, Any, str]] = [
        ({"asked": 3}, {}, "asked"),
        ({"said": {"role": "user"}}, {}, "said"),
        ({"done": ["a", None]}, {}, "done"),
        ({"done": {"a", "b"}}, {}, "done"),
        ({**INTERACTION, "entities": [1]}, {}, "entities"),
        ({**INTERACTION, "context": 3}, {}, "context"),
        ({**INTERACTION, "platform": 3}, {}, "platform"),
        ({**INTERACTION, "novel_pattern": "no"}, {}, "novel_pattern"),
        (["asked"], {}, "interaction"),
        (INTERACTION, None, "success_metrics"),
    ]
    for interaction, metrics, what in several:
        with pytest.raises(InvalidTypeError, match=what):
            evolve(interaction, metrics)
    nothing: dict[str, Any]
    for nothing in ({}, {"asked": "  ", "said": []}, {"context": "a chat"}):
        with pytest.raises(InvalidInputError, match="content, asked, said, done, outcome"):
            evolve(nothing, {"engagement_rate": 0.1})


@pytest.mark.parametrize(
    ("content", "entities"),
    [
        (
            "Had a great talk with @techfan123 on Ethiopian AI startups. They like fintech.",
            ("@techfan123", "Ethiopian AI"),
        ),
        ("They met Marie Curie at the Bank of America.", ("Marie Curie", "Bank", "America")),
        ("Deployed Grafana on Tuesday. Fixed Postgres.", ("Grafana", "Tuesday", "Postgres")),
        ("PostgreSQL is fast. Speed matters. So do GPT-4 and C++.", ("PostgreSQL", "GPT-4", "C++")),
        ("Redis was slow. We replaced Redis.", ("Redis",)),
        ("Don't ask. I'm Fred Smith\u2019s friend.", ("Fred Smith",)),
        ('he said "I like it. Really" to Tom', ("Tom",)),
        ("mail bob@Foo.com or see https://Foo.com/Bar#Baz", ()),
        ("see #launch and #Launch, @ann.lee.", ("#launch", "@ann.lee")),
        ("WHY DOES THIS NEVER EVER WORK FOR ME", ()),
        ("The Grafana board is up, says Alice, de facto Bob de jure.", ("Grafana", "Alice", "Bob")),
        ("nothing of note", ()),
        ("Анна видела Ивана в Zürich", ("Ивана", "Zürich")),
    ],
)
def test_entities_are_the_names_in_a_text_in_order(content: str, entities: tuple[str, ...]) -> None:
    assert entities_of({"content": content}) == entities


def test_entities_are_found_by_a_function_of_ones_own() -> None:
    said = {"said": "Anna called", "outcome": "a deal"}
    evolved = evolve(said, {}, extract_entities=lambda text: [text.split()[0], "deal"])
    assert evolved.fields["entities"] == ["Anna", "deal"]
    with pytest.raises(InvalidTypeError, match="entities"):
        evolve(said, {}, extract_entities=lambda _: [3])  # type: ignore[list-item]


def test_entities_of_its_own_win_over_those_in_the_text() -> None:
    said = {"said": "thanks to @ann"}
    assert entities_of({**said, "entities": ["EAT", "posting", "eat"]}) == ("EAT", "posting")
    assert entities_of({**said, "entities": []}) == ()
    assert entities_of({**said, "entities": None}) == ("@ann",)


def test_an_importance_of_just_the_threshold_is_worth_it() -> None:
    # In binary, the mean of 0.45, 0.85 and 0.80 is a hair below 0.70.
    marks = {"novel_pattern": True, "relationship_deepening": True}
    evolved = evolve({**INTERACTION, **marks}, {"engagement_rate": 0.045})
    assert evolved.importance.value == WORTH_REMEMBERING
    assert evolved.worth


@pytest.mark.parametrize(
    ("metrics", "valence"),
    [
        # The four examples of the agent-memory specification.
        (
            {"user_satisfaction": 0.92, "conversation_length": 8, "follow_up_engagement": True},
            "positive",
        ),
        (
            {"data_points": 120, "confidence_level": 0.87, "improvement_potential": 0.40},
            "neutral",
        ),
        (
            {
                "views": 500000,
                "engagement_rate": 0.089,
                "revenue_generated": 245.50,
                "brand_partnerships": 3,
            },
            "positive",
        ),
        (
            {"contracts_signed": 4, "total_revenue": 2800.00, "satisfaction_score": 0.91},
            "positive",
        ),
    ],
)
def test_the_specified_examples_have_their_specified_valence(
    metrics: dict[str, Any], valence: str
) -> None:
    assert valence_of(metrics) == valence
