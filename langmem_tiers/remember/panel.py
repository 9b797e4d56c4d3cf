"""The reviewers that are built in, and their deterministic rules.

The rules grade; what says nothing is left to the trivial filter. So a plain fact in any language
starts above the threshold, and signs of lasting worth raise it.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import Final

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
from langmem_tiers.remember.gate import findings_in, triviality
from langmem_tiers.remember.review import BEST, INJECTION, Reviewer, Reviewers

_PLAIN: Final = 6.5
"""What a text gets that says something: the panel refuses no plain fact, even where a reviewer of
a user's own, such as the specified `security`, gives it 5."""
_SIGN: Final = 0.75
"""What each sign of worth adds."""

_EXACT: Final = re.compile(r"\d|[A-Z]{2}|\w[._/]\w|`[^`]+`")
_NAMED: Final = re.compile(r"(?<=[\w,;] )[A-Z][a-z]+")
_STEPS: Final = re.compile(r"(?:^|\s)(?:\d[.)]|[-*]) |->|→")
_CODE: Final = re.compile(r"[(){}=<>;`]|--\w")
_DATED: Final = re.compile(r"\b\d{4}\b|\d[:.]\d\d\b")
_BEGINNING: Final = 4
"""Letters by which words are taken for forms of each other; shorter ones tell little."""
_MUCH: Final = 12
"""Different words of a text that tells much."""


def _graded(candidate: Candidate, signs: Sequence[tuple[str, bool]]) -> tuple[float, str]:
    """A score that begins at what says something, and rises with each sign that is there."""
    kind = triviality(candidate.content)
    if kind is not None:
        return 0.0, f"trivial: {kind}"
    found = [name for name, there in signs if there]
    score = min(BEST, _PLAIN + _SIGN * len(found))
    return score, ", ".join(found) or "it says something"


def analyzer_storage(candidate: Candidate) -> tuple[float, str]:
    """How much it tells: exact values, names, many words."""
    text = ends_of(candidate.content)
    return _graded(
        candidate,
        (
            ("exact values", bool(_EXACT.search(text))),
            ("names", bool(_NAMED.search(text))),
            ("many words", len(set(words(text))) >= _MUCH),
        ),
    )


def patterns_storage(candidate: Candidate) -> tuple[float, str]:
    """How well it can be used again: by its type, by steps, by code."""
    text = ends_of(candidate.content)
    reusable = candidate.memory_type in ("pattern", "procedural", "reflexion", "skill", "learning")
    return _graded(
        candidate,
        (
            ("steps", bool(_STEPS.search(text))),
            ("code", bool(_CODE.search(text))),
            ("a type to be used again", reusable),
        ),
    )


def archaeologist_storage(candidate: Candidate) -> tuple[float, str]:
    """How long it will be worth knowing: names, dates, what was marked."""
    text = ends_of(candidate.content)
    marked = bool(candidate.tags) or (candidate.importance or 0.0) >= 0.5  # noqa: PLR2004 - half
    return _graded(
        candidate,
        (
            ("names", bool(_NAMED.search(text))),
            ("a time", bool(_DATED.search(text))),
            ("tags or importance", marked),
        ),
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
    storage=analyzer_storage,
    relevance=analyzer_relevance,
    storage_question=ANALYZER_STORAGE,
    relevance_question=ANALYZER_RELEVANCE,
)
PATTERNS: Final = Reviewer(
    name="patterns",
    storage=patterns_storage,
    relevance=patterns_relevance,
    storage_question=PATTERNS_STORAGE,
    relevance_question=PATTERNS_RELEVANCE,
)
ARCHAEOLOGIST: Final = Reviewer(
    name="knowledge-archaeologist",
    storage=archaeologist_storage,
    storage_question=ARCHAEOLOGIST_STORAGE,
)
GUARD: Final = Reviewer(
    name=INJECTION, storage=injection_storage, storage_question=INJECTION_STORAGE
)


def default_reviewers() -> Reviewers:
    """A panel of the three that are specified, two of which score relevance, and `injection`."""
    return Reviewers((ANALYZER, PATTERNS, ARCHAEOLOGIST, GUARD))
