"""The reviewers that are specified, and the one against injection: what each asks a chat model.

What something is worth is for a model to judge, where one is named, or for reviewers of a user's
own. Without either nobody reviews.
"""

from __future__ import annotations

from typing import Final

from langmem_tiers.core.prompts import (
    ANALYZER_RELEVANCE,
    ANALYZER_STORAGE,
    ARCHAEOLOGIST_STORAGE,
    INJECTION_STORAGE,
    PATTERNS_RELEVANCE,
    PATTERNS_STORAGE,
)
from langmem_tiers.remember.review import INJECTION, Reviewer, Reviewers

ANALYZER: Final = Reviewer(
    name="analyzer",
    storage_question=ANALYZER_STORAGE,
    relevance_question=ANALYZER_RELEVANCE,
)
PATTERNS: Final = Reviewer(
    name="patterns",
    storage_question=PATTERNS_STORAGE,
    relevance_question=PATTERNS_RELEVANCE,
)
ARCHAEOLOGIST: Final = Reviewer(
    name="knowledge-archaeologist",
    storage_question=ARCHAEOLOGIST_STORAGE,
)
GUARD: Final = Reviewer(name=INJECTION, storage_question=INJECTION_STORAGE)


def default_reviewers() -> Reviewers:
    """A panel of the three that are specified, two of which score relevance, and `injection`."""
    return Reviewers((ANALYZER, PATTERNS, ARCHAEOLOGIST, GUARD))
