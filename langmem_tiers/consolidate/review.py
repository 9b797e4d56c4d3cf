"""What is carried out of several proposals: no memory is decided on twice at once."""

from __future__ import annotations

from collections.abc import Sequence

from langmem_tiers.consolidate.steps import Decision, Proposal

CONFLICT = "another decision of this cycle concerns it"


def reviewed(
    proposals: Sequence[Proposal], *, hands_over: bool
) -> tuple[list[Decision], list[Decision]]:
    """Those decisions that can stand together, and those that cannot, each in the order of ids.

    Batches are judged apart, so two of them may decide on the same memory, of which the first
    stands; said twice alike, it is said once. Where a memory `hands_over` to its target, that one
    must not go elsewhere in the same cycle.
    """
    found = {(one["id"], one["target"] or 0): one for one in reversed(_all(proposals))}
    gone: set[int] = set()
    needed: set[int] = set()
    standing: list[Decision] = []
    fallen: list[Decision] = []
    for _, one in sorted(found.items()):
        target = one["target"]
        clashes = hands_over and (one["id"] in needed or target in gone)
        if one["id"] in gone or clashes:
            fallen.append(one)
            continue
        gone.add(one["id"])
        needed.update(() if target is None else (target,))
        standing.append(one)
    return standing, fallen


def _all(proposals: Sequence[Proposal]) -> list[Decision]:
    return [one for proposal in proposals for one in proposal["decisions"]]
