"""The panel: its members score, their mean decides, and each says why."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.core.memory import ReviewResult
from langmem_tiers.remember.new_memory import NewMemory
from langmem_tiers.remember.review import (
    INJECTION,
    Reviewer,
    Score,
    consensus,
    default_reviewers,
    injection_reason,
    most_relevant,
)

KEYWORDS = ("auth", "password", "token", "encryption", "vulnerability")

scores = st.dictionaries(
    st.text("abcdef", min_size=1, max_size=3),
    st.builds(Score, st.floats(0, 10), st.just("so it is")) | st.just("it failed") | st.none(),
    max_size=6,
)


def security(memory: NewMemory) -> tuple[float, str]:
    """The specification's example of a reviewer of one's own."""
    score = 5.0
    if any(one in memory.content.lower() for one in KEYWORDS):
        score += 3.0
    return score, "Security relevance score based on keywords"


def test_that_nothing_attacks_lifts_no_memory_over_the_threshold() -> None:
    names = ("analyzer", "patterns", "knowledge-archaeologist")
    result = consensus(
        {INJECTION: Score(10, "harmless"), **dict.fromkeys(names, Score(5, "so so"))}
    )

    assert (result.consensus_score, result.stores()) == (5.0, False)
    assert injection_reason(result) is None
    attack = consensus({INJECTION: Score(0, "it orders"), **dict.fromkeys(names, Score(9, "rich"))})
    assert (attack.consensus_score, injection_reason(attack)) == (9.0, "instructs: it orders")
    assert consensus({INJECTION: Score(7, "alone")}).consensus_score == 7.0


@given(scores)
def test_the_consensus_is_the_mean_of_those_who_answered(
    said: dict[str, Score | str | None],
) -> None:
    result = consensus(said)
    given_scores = [one.score for one in said.values() if isinstance(one, Score)]

    if given_scores:
        assert result.consensus_score == sum(given_scores) / len(given_scores)
    else:
        assert result.consensus_score is None
        assert not result.stores(0.0)
    assert set(result.failures) == {name for name, one in said.items() if isinstance(one, str)}
    assert set(result.agent_scores) == set(result.reasons)


def test_a_reviewer_that_fails_is_reported_and_the_others_decide() -> None:
    def broken(_: NewMemory) -> tuple[float, str]:
        raise KeyError("weights")

    reviewers = default_reviewers()
    reviewers.register(Reviewer(name="broken", storage=broken))
    reviewers.register(Reviewer(name="wild", storage=lambda _: (11.0, "more than the most")))
    reviewers.register(Reviewer(name="security", storage=security))
    result = reviewers.review_storage(NewMemory(content="The port is 80."))

    assert result.failures["broken"] == "KeyError: 'weights'"
    assert "from 0 to 10" in result.failures["wild"]
    assert result.agent_scores == {"security": 5.0}
    assert "broken failed (KeyError: 'weights')" in str(result)


def test_a_panel_refuses_two_of_a_name_and_members_that_review_nothing() -> None:
    reviewers = default_reviewers()
    with pytest.raises(InvalidInputError, match="registered already"):
        reviewers.register(Reviewer(name="analyzer", storage=security))
    with pytest.raises(InvalidInputError, match="reviews nothing"):
        Reviewer(name="idle")
    with pytest.raises(InvalidInputError, match="has a name"):
        Reviewer(name=" ", storage=security)
    with pytest.raises(InvalidInputError, match="no reviewer 'nobody'"):
        reviewers.remove("nobody")

    reviewers.register(Reviewer(name="analyzer", storage=security), replace=True)
    assert reviewers.review_storage(NewMemory(content="a token")).agent_scores["analyzer"] == 8.0
    reviewers.remove("analyzer")
    assert "analyzer" not in reviewers
    assert len(reviewers) == 3


@given(st.lists(st.none() | st.floats(0, 1), max_size=9), st.integers(0, 9))
def test_of_equally_relevant_memories_the_earlier_comes_first(
    given_scores: list[float | None], limit: int
) -> None:
    reviews = [ReviewResult(consensus_score=one) for one in given_scores]
    places = most_relevant(reviews, limit)

    assert len(places) == min(limit, len(reviews))
    ranked = [(-(-1.0 if (one := given_scores[at]) is None else one), at) for at in places]
    assert ranked == sorted(ranked)


def test_without_a_model_the_specified_reviewers_are_there_by_name_and_say_nothing() -> None:
    reviewers = default_reviewers()
    assert [one.name for one in reviewers] == [
        "analyzer",
        "patterns",
        "knowledge-archaeologist",
        "injection",
    ]
    assert reviewers.review_storage(NewMemory(content="so be it")) == ReviewResult(
        consensus_score=None
    )
    assert reviewers.review_relevance("so be it", "what?") == ReviewResult(consensus_score=None)
    assert not reviewers.score_recalls
