"""What is carried out of several proposals: no memory is decided on twice at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from langmem_tiers.consolidate.steps import Decision, Finding, Proposal, added

CONFLICT = "another decision of this cycle concerns it"


class Reviewed(NamedTuple):
    """What becomes of the memories that several proposals are about; each of them is in one."""

    standing: list[Decision]
    """What can be carried out together, in the order of ids."""
    again: list[int]
    """Ids of what is to be judged again when that is done, in order."""
    kept: dict[str, int]
    """How many stay as they are, by reason."""
    findings: list[Finding]
    """What nobody has judged."""


def reviewed(proposals: Sequence[Proposal], *, hands_over: bool) -> Reviewed:
    """Which decisions can stand together.

    Batches are judged apart, so two of them may decide on the same memory, of which the first
    stands, and one may keep what another decides on, which is then decided. Where a memory
    `hands_over` to its target, that one must not go elsewhere at the same time: what was to live
    on in it is judged again.
    """
    gone: set[int] = set()
    needed: set[int] = set()
    standing: list[Decision] = []
    fallen: set[int] = set()
    for one in sorted(_decisions(proposals), key=lambda one: (one["id"], one["target"] or 0)):
        source, target = one["id"], one["target"]
        if source in gone:
            continue
        if hands_over and (source in needed or target in gone):
            fallen.add(source)
            continue
        gone.add(source)
        needed.update(() if target is None else (target,))
        standing.append(one)
    again = fallen - gone
    findings = [found for one in proposals for found in one.get("findings", ())]
    return Reviewed(standing, sorted(again), added([one["kept"] for one in proposals]), findings)


def _decisions(proposals: Sequence[Proposal]) -> list[Decision]:
    return [one for proposal in proposals for one in proposal["decisions"]]
