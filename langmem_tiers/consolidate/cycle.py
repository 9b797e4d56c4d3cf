"""What a cycle is made of, in the order in which it happens."""

from __future__ import annotations

from collections.abc import Iterator

from langmem_tiers.consolidate.decay import Decay
from langmem_tiers.consolidate.expire import Expire
from langmem_tiers.consolidate.judge import Judge
from langmem_tiers.consolidate.merge import Merge
from langmem_tiers.consolidate.policy import ConsolidationPolicy
from langmem_tiers.consolidate.promotion import Demote, Promote
from langmem_tiers.consolidate.rise import Rise
from langmem_tiers.consolidate.steps import Step
from langmem_tiers.consolidate.supersede import Supersede
from langmem_tiers.learn.generalise import DETERMINISTIC, Generaliser


def steps(
    policy: ConsolidationPolicy,
    generaliser: Generaliser = DETERMINISTIC,
    judge: Judge | None = None,
    archive_step: Step | None = None,
    *,
    ended: frozenset[str] = frozenset(),
) -> tuple[Step, ...]:
    """The steps that a policy asks for.

    They are expire, rise, merge, supersede, demote, promote, decay and archive, in this order.
    `ended` are ids of sessions that have ended, all of which rises. Without a `judge` rules alone
    say what says the same and what contradicts. `archive_step` comes last, if the policy archives.
    """
    return tuple(_steps(policy, generaliser, judge, archive_step, ended))


def _steps(
    policy: ConsolidationPolicy,
    generaliser: Generaliser,
    judge: Judge | None,
    archive_step: Step | None,
    ended: frozenset[str],
) -> Iterator[Step]:
    if policy.expiry:
        yield Expire()
    if policy.rise is not None:
        yield Rise(policy.rise, ended)
    if policy.merge is not None:
        yield Merge(policy.merge, judge)
    if policy.supersede is not None:
        yield Supersede(policy.supersede, judge)
    if policy.promotion is not None:
        yield Demote(policy.promotion)
        yield Promote(policy.promotion, generaliser)
    if policy.decay:
        yield Decay()
    if policy.archive is not None and archive_step is not None:
        yield archive_step
