"""Reviewers as re-rankers: they score recalled memories for relevance, and the best come first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice

from langmem_tiers.core.memory import Recollection, ReviewResult
from langmem_tiers.recall.rerank import Reranker, Shortlist
from langmem_tiers.remember.review import Panel, Reviewers, backed, most_relevant


def reviews_of(reviewers: Reviewers, panel: Panel | None) -> Mapping[str, Reranker]:
    """The reviews that a coordinator can be asked for: `rules`, and with a panel also `model`."""
    rules = by_rules(reviewers)
    return (
        {"rules": rules} if panel is None else {"rules": rules, "model": by_model(reviewers, panel)}
    )


def by_rules(reviewers: Reviewers) -> Reranker:
    """The members' rules score each memory."""

    def call(shortlists: Sequence[Shortlist]) -> list[list[Recollection]]:
        return _ordered(shortlists, [_ruled(reviewers, pair) for pair in _pairs(shortlists)])

    async def acall(shortlists: Sequence[Shortlist]) -> list[list[Recollection]]:
        return call(shortlists)

    return Reranker(call, acall)


def by_model(reviewers: Reviewers, panel: Panel) -> Reranker:
    """The panel scores each memory, and where none of it answered the members' rules do."""

    def call(shortlists: Sequence[Shortlist]) -> list[list[Recollection]]:
        pairs = _pairs(shortlists)
        return _ordered(shortlists, _backed(reviewers, pairs, panel.relevance(pairs)))

    async def acall(shortlists: Sequence[Shortlist]) -> list[list[Recollection]]:
        pairs = _pairs(shortlists)
        return _ordered(shortlists, _backed(reviewers, pairs, await panel.arelevance(pairs)))

    return Reranker(call, acall)


def _pairs(shortlists: Sequence[Shortlist]) -> list[tuple[str, str]]:
    return [(one.content, query) for query, best in shortlists for one in best]


def _ruled(reviewers: Reviewers, pair: tuple[str, str]) -> ReviewResult:
    content, query = pair
    return reviewers.review_relevance(content, query)


def _backed(
    reviewers: Reviewers, pairs: Sequence[tuple[str, str]], said: Sequence[ReviewResult]
) -> list[ReviewResult]:
    return [
        backed(one, partial(_ruled, reviewers, pair)) for pair, one in zip(pairs, said, strict=True)
    ]


def _ordered(
    shortlists: Sequence[Shortlist], reviews: Sequence[ReviewResult]
) -> list[list[Recollection]]:
    given = iter(reviews)
    ordered = []
    for _, best in shortlists:
        own = list(islice(given, len(best)))
        ordered.append([_said(best[at], own[at]) for at in most_relevant(own, len(own))])
    return ordered


def _said(memory: Recollection, review: ReviewResult) -> Recollection:
    if review.consensus_score is None:
        return replace(memory, review=review)
    evidence = {**memory.evidence, "relevance": review.consensus_score}
    return replace(memory, review=review, evidence=evidence)
