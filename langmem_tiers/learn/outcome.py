"""What was put before a run, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from langmem_tiers.core.memory import MemoryContext, Recollection
from langmem_tiers.core.namespaces import elsewhere, encode
from langmem_tiers.core.stats import MemoryStats
from langmem_tiers.learn.evidence import Uplift
from langmem_tiers.postgres.flow import Call, Flow, Query


class Run(NamedTuple):
    """One attempt that memories are recalled for; credited once, however often it is retried."""

    id: str
    root: str | None = None
    """The whole run that the attempt belongs to, as LangGraph and LangSmith name it."""


class Exposure(NamedTuple):
    """A memory that was recalled for a run, in its place; held out, it was not shown."""

    namespace: tuple[str, ...]
    key: str
    held_out: bool = False


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


def expose(
    tenant: str, run: Run, project: str | None, exposures: Sequence[Exposure], now: datetime
) -> Flow[None]:
    """Note what was put before a run."""
    if not exposures:
        return
    params = {
        "tenant": tenant,
        "run": run.id,
        "root": run.root,
        "project": project,
        "namespaces": [encode(one.namespace).namespace for one in exposures],
        "keys": [one.key for one in exposures],
        "held_out": [one.held_out for one in exposures],
        "now": now,
    }
    yield Query((Call("expose", params),), commit=True)


def settle(
    run: str, context: MemoryContext, *, success: bool, now: datetime
) -> Flow[OutcomeReport]:
    """Credit what was shown to a run, or to any attempt of it, and is not credited yet.

    It is what was shown to a run of the context's project, and what that keeps; all of it, if the
    context names none.
    """
    params = {**_whose(run, context), "succeeded": success, "now": now}
    _, (row,) = yield Query((Call("lock_run", params), Call("settle", params)), commit=True)
    return OutcomeReport(success=success, credited=row[0], held_out=row[1])


def settle_shown(
    run: str,
    context: MemoryContext,
    shown: Sequence[Recollection],
    *,
    success: bool,
    now: datetime,
) -> Flow[OutcomeReport]:
    """Credit these memories with what came of a run, whether or not it was noted before."""
    params = {
        **_whose(run, context),
        "namespaces": [encode(one.namespace).namespace for one in shown],
        "keys": [one.key for one in shown],
        "succeeded": success,
        "now": now,
    }
    _, (row,) = yield Query((Call("lock_run", params), Call("settle_shown", params)), commit=True)
    return OutcomeReport(success=success, credited=row[0], held_out=row[1])


def _whose(run: str, context: MemoryContext) -> dict[str, Any]:
    names = {"tenant": context.root, "run": run, "project": context.project_id}
    return {**names, **elsewhere(context.looks_after)}
