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
from langmem_tiers.consolidate.session import SessionEnd
from langmem_tiers.consolidate.session_rules import Summariser
from langmem_tiers.consolidate.steps import Step
from langmem_tiers.consolidate.supersede import Supersede
from langmem_tiers.learn.generalise import DETERMINISTIC, Generaliser


def steps(
    policy: ConsolidationPolicy,
    generaliser: Generaliser = DETERMINISTIC,
    judge: Judge | None = None,
    archive_step: Step | None = None,
    summariser: Summariser | None = None,
) -> tuple[Step, ...]:
    """The steps that a policy asks for.

    They are session_end, rise, expire, merge, supersede, demote, promote, decay and archive, in
    this order. Without a `judge`, what says the same and what contradicts is proposed only.
    `archive_step` is done if the policy archives; a `summariser` sums up what sessions noted.
    """
    return tuple(_steps(policy, generaliser, judge, archive_step, summariser))


def _steps(
    policy: ConsolidationPolicy,
    generaliser: Generaliser,
    judge: Judge | None,
    archive_step: Step | None,
    summariser: Summariser | None,
) -> Iterator[Step]:
    if policy.rise is not None:
        yield SessionEnd(policy.rise, summariser)
        yield Rise(policy.rise)
    if policy.expiry:
        yield Expire()
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
