"""Proposing memories that rest on a superseded one: they may be wrong by now, or not."""

from __future__ import annotations

from collections.abc import Sequence

from langmem_tiers.consolidate import stored
from langmem_tiers.consolidate.steps import (
    Cycle,
    CycleStep,
    Finding,
    Proposal,
    StepCounts,
    StepDecision,
    counted,
)
from langmem_tiers.postgres.flow import Flow, rows_of

RESTS = "it came from what was superseded"
PROPOSED = f"{RESTS}: proposed"


class Outdated(CycleStep):
    """Proposes memories that came from one superseded since; it changes nothing itself."""

    name = "outdated"

    def select(self, cycle: Cycle, after: int, limit: int) -> Flow[list[int]]:
        """Find the memories that came from one superseded since the last cycle."""
        return stored.select(cycle, "select_outdated", after, limit, step=self.name)

    def propose(self, cycle: Cycle, ids: Sequence[int]) -> Flow[Proposal]:
        """Name each with the nearest superseded memory that it came from."""
        rows = yield from rows_of("outdated_origins", **cycle.params, ids=[*ids])
        findings = [
            Finding(
                namespace=namespace,
                key=key,
                target_namespace=origin_namespace,
                target_key=origin_key,
                reason=RESTS,
            )
            for namespace, key, origin_namespace, origin_key in rows
        ]
        return Proposal(decisions=[], kept=counted(PROPOSED for _ in findings), findings=findings)

    def apply(self, cycle: Cycle, decisions: Sequence[StepDecision]) -> Flow[StepCounts]:  # noqa: ARG002 - nothing is ever decided
        """Change nothing: somebody else retracts, supersedes, or keeps each memory."""
        yield from ()
        return StepCounts()

    def finish(self, cycle: Cycle) -> Flow[dict[str, int]]:
        """Note that everything has been seen."""
        return stored.note_seen(cycle, self.name)
