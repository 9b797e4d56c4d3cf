"""The reviewers that are built in, and their deterministic rules.

What something is worth is for a model to judge, where one is named, or for reviewers of a user's
own: without them the three that are specified give everything the same. What instructs its reader
is told by a rule that is fitted.
"""

from __future__ import annotations

import itertools
from typing import Final

from langmem_tiers.core.errors import ConfigurationError
from langmem_tiers.core.prompts import (
    ANALYZER_RELEVANCE,
    ANALYZER_STORAGE,
    ARCHAEOLOGIST_STORAGE,
    INJECTION_STORAGE,
    PATTERNS_RELEVANCE,
    PATTERNS_STORAGE,
)
from langmem_tiers.core.reading import ends_of, stem, words
from langmem_tiers.remember.candidate import Candidate
from langmem_tiers.remember.gate import findings_in
from langmem_tiers.remember.review import BEST, INJECTION, Reviewer, Reviewers

UNGRADED: Final = 6.5
"""What a rule gives that does not judge: above the specified threshold, and near enough to it that
a reviewer of a user's own is heard, while the specified `security` refuses nothing by its 5."""
_BEGINNING: Final = 4
"""Letters by which words are taken for forms of each other; shorter ones tell little."""


def ungraded(_: Candidate) -> tuple[float, str]:
    """Worth is not to be seen by rules: what says nothing was refused before."""
    return UNGRADED, "not graded: name a review_model, or register a reviewer of your own"


def check_reachable(reviewers: Reviewers, consensus: float) -> None:
    """Refuse a threshold that nothing reaches, as all who count grade nothing.

    Raises:
        ConfigurationError: for one.
    """
    rules = {one.storage for one in reviewers if one.name != INJECTION}
    if rules == {ungraded} and consensus > UNGRADED:
        raise ConfigurationError(
            f"nothing reaches a consensus of {consensus:g}: without a model the reviewers give "
            f"{UNGRADED:g} to whatever they see. Give a review_model and review_storage='before', "
            "or reviewers of your own"
        )


def injection_storage(candidate: Candidate) -> tuple[float, str]:
    """Whether it tells something, or instructs its reader: 10 if nothing instructs, 0 if sure."""
    found = findings_in(candidate)
    if not found:
        return BEST, "nothing instructs the reader"
    return BEST * (1 - found[0].sure), "; ".join(map(str, found))


def analyzer_relevance(content: str, query: str) -> tuple[float, str]:
    """The share of the query's words that the memory has; long ones tell more, and count so."""
    asked = {stem(one) for one in words(query)}
    if not asked:
        return 0.0, "the query names nothing"
    found = asked & {stem(one) for one in words(ends_of(content))}
    share = sum(map(len, found)) / sum(map(len, asked))
    return share, f"{len(found)} of {len(asked)} words of the query"


def patterns_relevance(content: str, query: str) -> tuple[float, str]:
    """How much of the query's wording stands in the memory: pairs of words, or their beginnings."""
    asked = [stem(one) for one in words(query)]
    told = [stem(one) for one in words(ends_of(content))]
    pairs, known = set(itertools.pairwise(asked)), set(itertools.pairwise(told))
    parts = {one[:_BEGINNING] for one in asked if len(one) >= _BEGINNING}
    near = len(parts & {one[:_BEGINNING] for one in told}) / len(parts) if parts else 0.0
    run = len(pairs & known) / len(pairs) if pairs else near
    return (run + near) / 2, f"{run:.0%} of its pairs of words, {near:.0%} of their beginnings"


ANALYZER: Final = Reviewer(
    name="analyzer",
    storage=ungraded,
    relevance=analyzer_relevance,
    storage_question=ANALYZER_STORAGE,
    relevance_question=ANALYZER_RELEVANCE,
)
PATTERNS: Final = Reviewer(
    name="patterns",
    storage=ungraded,
    relevance=patterns_relevance,
    storage_question=PATTERNS_STORAGE,
    relevance_question=PATTERNS_RELEVANCE,
)
ARCHAEOLOGIST: Final = Reviewer(
    name="knowledge-archaeologist",
    storage=ungraded,
    storage_question=ARCHAEOLOGIST_STORAGE,
)
GUARD: Final = Reviewer(
    name=INJECTION, storage=injection_storage, storage_question=INJECTION_STORAGE
)


def default_reviewers() -> Reviewers:
    """A panel of the three that are specified, two of which score relevance, and `injection`."""
    return Reviewers((ANALYZER, PATTERNS, ARCHAEOLOGIST, GUARD))
