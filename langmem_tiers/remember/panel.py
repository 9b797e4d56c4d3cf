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
from langmem_tiers.core.reading import ends_of, listed, stem, words
from langmem_tiers.remember.candidate import Candidate
from langmem_tiers.remember.gate import triviality
from langmem_tiers.remember.instructs import instructions_in
from langmem_tiers.remember.review import BEST, INJECTION, Reviewer, Reviewers

_PLAIN: Final = 6.5
"""What a text gets that says something: the panel refuses no plain fact, even where a reviewer of
a user's own, such as the specified `security`, gives it 5."""
_SIGN: Final = 0.75
"""What each sign of worth adds."""

_EXACT: Final = re.compile(r"\d|[A-Z]{2}|\w[._/]\w|`[^`]+`")
_NAMED: Final = re.compile(r"(?<=[a-z,;] )[A-Z][a-z]+")
_CAUSE: Final = re.compile(
    r"\b(?:because|since|due to|so that|therefore|reason|caused?|instead|in order to|weil|porque"
    r"|parce que)\b|因为|كي|потому",
    re.IGNORECASE,
)
_DECISION: Final = re.compile(
    r"\b(?:decided|chose|chosen|agreed|approved|switched|migrated|implemented|fixed|resolved"
    r"|released|adopted|entschieden)\b|决定",
    re.IGNORECASE,
)
_RULE: Final = re.compile(
    r"\b(?:always|never|must|should|every|each|whenever|prefers?|use|avoid|do not|don't|immer|nie"
    r"|siempre|nunca|toujours|jamais)\b|总是|每个|必须",
    re.IGNORECASE,
)
_STEPS: Final = re.compile(
    r"\b(?:first|then|next|finally|after|before|step|steps|when|if)\b|\d[.)] |->|→", re.IGNORECASE
)
_CODE: Final = re.compile(
    r"[(){}=<>;]|\b(?:def|class|import|return|select|error|exception)\b|--\w", re.IGNORECASE
)
_LASTING: Final = re.compile(
    r"\b(?:is|are|was|were|likes?|loves?|hates?|lives?|works?|owns?|allerg\w+|birthday|named|called"
    r"|called|means|costs|uses|runs|ist|sind|es|est|son)\b|是|喜欢|住",
    re.IGNORECASE,
)
_WHEN: Final = re.compile(
    r"\b(?:\d{4}|yesterday|today|tomorrow|(?:mon|tues|wednes|thurs|fri|satur|sun)days?|january"
    r"|february|march|april|may|june|july|august|september|october|november|december|last|next)\b",
    re.IGNORECASE,
)
_SLIGHT: Final = listed(
    "a an the is are was were be been do does did to of in on at by for with and or not it "
    "its this that these those what which who whom whose when where why how i me my we our "
    "you your he she they them his her their there can could should would will shall may "
    "might must have has had about any some as if from into than then so too very"
)


def _graded(candidate: Candidate, signs: Sequence[tuple[str, bool]]) -> tuple[float, str]:
    """A score that begins at what says something, and rises with each sign that is there."""
    kind = triviality(candidate.content)
    if kind is not None:
        return 0.0, f"trivial: {kind}"
    found = [name for name, there in signs if there]
    score = min(BEST, _PLAIN + _SIGN * len(found))
    return score, ", ".join(found) or "it says something"


def analyzer_storage(candidate: Candidate) -> tuple[float, str]:
    """How much it tells: exact values, names, reasons, decisions."""
    text = ends_of(candidate.content)
    return _graded(
        candidate,
        (
            ("exact values", bool(_EXACT.search(text))),
            ("names", bool(_NAMED.search(text))),
            ("a reason", bool(_CAUSE.search(text))),
            ("a decision", bool(_DECISION.search(text))),
        ),
    )


def patterns_storage(candidate: Candidate) -> tuple[float, str]:
    """How well it can be used again: rules, steps, code, causes."""
    text = ends_of(candidate.content)
    reusable = candidate.memory_type in ("pattern", "procedural", "reflexion", "skill", "learning")
    return _graded(
        candidate,
        (
            ("a rule", bool(_RULE.search(text))),
            ("steps or conditions", bool(_STEPS.search(text))),
            ("code or an error", bool(_CODE.search(text))),
            ("a type to be used again", reusable),
        ),
    )


def archaeologist_storage(candidate: Candidate) -> tuple[float, str]:
    """How long it will be worth knowing: lasting facts, decisions, dates, what was marked."""
    text = ends_of(candidate.content)
    marked = bool(candidate.tags) or (candidate.importance or 0.0) >= 0.5  # noqa: PLR2004 - half
    return _graded(
        candidate,
        (
            ("a lasting fact", bool(_LASTING.search(text))),
            ("a decision", bool(_DECISION.search(text))),
            ("a time", bool(_WHEN.search(text))),
            ("tags or importance", marked),
        ),
    )


def injection_storage(candidate: Candidate) -> tuple[float, str]:
    """Whether it tells something, or instructs its reader: 10 if nothing instructs, 0 if sure."""
    found = instructions_in(candidate.content, candidate.source)
    if not found:
        return BEST, "nothing instructs the reader"
    return BEST * (1 - found[0].chance), "; ".join(map(str, found))


def analyzer_relevance(content: str, query: str) -> tuple[float, str]:
    """The share of the query's words that the memory has."""
    asked = _telling(query)
    if not asked:
        return 0.0, "the query names nothing"
    found = asked & _telling(ends_of(content))
    return len(found) / len(asked), f"{len(found)} of {len(asked)} words of the query"


def patterns_relevance(content: str, query: str) -> tuple[float, str]:
    """How much of the query's wording stands in the memory: pairs of words, or their beginnings."""
    asked = [stem(one) for one in words(query)]
    told = [stem(one) for one in words(ends_of(content))]
    pairs, known = set(itertools.pairwise(asked)), set(itertools.pairwise(told))
    parts = {one[:5] for one in _telling(query)}
    near = len(parts & {one[:5] for one in told}) / len(parts) if parts else 0.0
    run = len(pairs & known) / len(pairs) if pairs else near
    return (run + near) / 2, f"{run:.0%} of its pairs of words, {near:.0%} of their beginnings"


def _telling(text: str) -> set[str]:
    return {stem(one) for one in words(text) if one not in _SLIGHT}


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
