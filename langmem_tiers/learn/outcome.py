"""What was put before a run or held out of it, and what came of it.

A memory is held out so that its effect can be told from its company's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import blake2b
from typing import Any, NamedTuple

from langmem_tiers.core.context import MemoryContext
from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.core.memory import MemoryStats, Recollection
from langmem_tiers.core.namespaces import decode, elsewhere, encode
from langmem_tiers.learn.evidence import HoldoutCounts, Uplift, uplifts
from langmem_tiers.postgres.flow import Call, Flow, Query
from langmem_tiers.recall.candidates import Candidate

_BITS = 64


class Run(NamedTuple):
    """One attempt that memories are recalled for; credited once, however often it is retried."""

    id: str
    root: str | None = None
    """The whole run that the attempt belongs to, as LangGraph and LangSmith name it."""


class Showing(NamedTuple):
    """For which run memories are recalled, and which share of them it goes without."""

    run: Run
    holdout: float = 0.0

    def hides(self, one: Recollection | Candidate) -> bool:
        """Whether the run goes without a memory."""
        labels = one.namespace if isinstance(one, Recollection) else one.place[0]
        return held_out(self.run.id, "\0".join((*labels, one.key)), self.holdout)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeReport:
    """What an outcome was credited to."""

    success: bool
    credited: int
    """Memories that were shown to the run and are credited with the outcome, each once. It is 0
    where the run was credited before, which makes a retry harmless; and where nothing was recalled
    for a run of that name, so a misspelt `run_id` is seen here and raises no error."""
    held_out: int = 0
    """Memories that were held out of it: the comparison."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningStats(MemoryStats):
    """What a tenant has stored, and what it has learned of it."""

    uplift: Mapping[tuple[tuple[str, ...], str], Uplift] = field(default_factory=dict)
    """By namespace and key of each memory that was ever held out: how much higher the success of
    runs is with it than without, with intervals that hold for all of them together at 95 %."""


def noted(
    found: Sequence[Recollection],
    tenant: str,
    project: str | None,
    showing: Showing | None,
    now: datetime,
) -> Flow[list[Recollection]]:
    """Note what is put before a run, and what is held out of it; what is to be shown."""
    if showing is None or not found:
        return list(found)
    held = [showing.hides(one) for one in found]
    params = {
        "tenant": tenant,
        "run": showing.run.id,
        "root": showing.run.root,
        "project": project,
        "namespaces": [encode(one.namespace).namespace for one in found],
        "keys": [one.key for one in found],
        "held_out": held,
        "now": now,
    }
    yield Query((Call("expose", params),), commit=True)
    return [one for one, out in zip(found, held, strict=True) if not out]


def settle(
    run: str,
    context: MemoryContext,
    *,
    success: bool,
    now: datetime,
    shown: Sequence[Recollection] | None = None,
) -> Flow[OutcomeReport]:
    """Credit what was shown to a run, or to any attempt of it, and is not credited yet.

    It is what was shown to a run of the context's project, and what that keeps; all of it, if the
    context names none. Or it is the memories given, whether or not they were noted before.
    """
    params: dict[str, Any] = {
        "tenant": context.root,
        "run": run,
        "project": context.project_id,
        **elsewhere(context.looks_after),
        "succeeded": success,
        "now": now,
    }
    if shown is not None:
        params["namespaces"] = [encode(one.namespace).namespace for one in shown]
        params["keys"] = [one.key for one in shown]
    credit = Call("settle" if shown is None else "settle_shown", params)
    _, (row,) = yield Query((Call("lock_run", params), credit), commit=True)
    return OutcomeReport(success=success, credited=row[0], held_out=row[1])


def held_out(run: str, place: str, share: float) -> bool:
    """Whether a run goes without a memory that it would have been given.

    `place` says which memory: its namespace and key as one text. Of the pairs of a run and a
    memory, `share` of them, in 0…1, are held out, each independently of all others, and always
    the same: a recall that is repeated within a run shows the same memories. What is held out at
    one share is held out at every larger one.

    Raises:
        InvalidInputError: The share is not in 0…1.
    """
    if not 0 <= share <= 1:
        raise InvalidInputError(f"The share held out is {share}: give a number in 0…1.")
    first, second = (name.encode("utf-8", "surrogatepass") for name in (run, place))
    named = len(first).to_bytes(8, "big") + first + second  # so that no two pairs are one text
    digest = blake2b(named, digest_size=_BITS // 8, person=b"hold-out").digest()
    return int.from_bytes(digest, "big") < share * (1 << _BITS)


def uplift_of(tenant: str) -> Flow[Mapping[tuple[tuple[str, ...], str], Uplift]]:
    """What each memory of a tenant that was ever held out does to runs."""
    (rows,) = yield Query((Call("holdout_counts", {"tenant": tenant}),), commit=True)
    return uplifts({(decode(tenant, row[0]), str(row[1])): HoldoutCounts(*row[2:]) for row in rows})
