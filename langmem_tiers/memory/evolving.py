"""The verbs by which a coordinator evolves: interactions worth keeping, and skills that recur."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langmem_tiers.core.errors import InvalidTypeError
from langmem_tiers.core.memory import StoreResult
from langmem_tiers.learn.evolve import WORTH_REMEMBERING, Entities
from langmem_tiers.learn.skills import MIN_SUPPORT, Trace
from langmem_tiers.memory.base import Memory
from langmem_tiers.postgres.flow import Flow


def evolve(
    memory: Memory,
    interaction: Mapping[str, Any],
    success_metrics: Mapping[str, Any],
    *,
    threshold: float = WORTH_REMEMBERING,
    extract_entities: Entities | None = None,
) -> Flow[StoreResult]:
    """Remember an interaction as a learning of long_term, if it was worth it.

    Its importance is the mean of the factors that are known (docs/learning.md). The same
    interaction with the same metrics, as a retry gives it, is stored once.

    Args:
        interaction: At least one of `content`, `asked`, `said`, `done` and `outcome`, each a
            text or a list of texts; and `context`, `platform`, `entities`, `novel_pattern`
            and `relationship_deepening`, if known.
        success_metrics: What came of it: `engagement_rate`, `revenue_generated`, `success`,
            `sentiment`, …. All of them are stored.
        threshold: The importance from which on it is stored, from 0 to 1.
        extract_entities: Finds who and what its texts are about, where it has no `entities`; if
            not given, they are the @handles, #tags and runs of capitalised words.

    Returns:
        Whether it was stored, and why or why not.

    Raises:
        InvalidInputError: for an interaction that says nothing, or a metric that cannot be.
    """
    if extract_entities is not None and not callable(extract_entities):
        raise InvalidTypeError("extract_entities is a function of a text, or None")
    return memory.learning.evolve(
        interaction, success_metrics, memory.context, threshold, extract_entities
    )


def learn_skills(
    memory: Memory, trace: Trace | None = None, *, min_support: int = MIN_SUPPORT
) -> Flow[list[StoreResult]]:
    """Keep the trace of a run, and propose the skills that recur in the project's runs.

    The newest 500 traces are looked at. A proposed skill is a memory of working with its
    steps, its support and its success rate; it is promoted like any other, once it has proven
    itself. The same trace, as a retry gives it, counts once, and concurrent runs all count.
    One that is no longer marked as `proposed` is somebody's own and stays as it is.

    Args:
        trace: What a run called, and how it ended; None to look again at what is there.
        min_support: Runs that a sequence of calls has to succeed in.

    Returns:
        Each skill there is, `stored` if it is new or its evidence changed.

    Raises:
        InvalidInputError: for a trace that is none; nothing was stored.
    """
    return memory.learning.learn_skills(trace, memory.context, min_support)
