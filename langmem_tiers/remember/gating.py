"""The gate at work: what becomes of memories that are to be stored, and what is answered of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from langmem_tiers.core.errors import InvalidTypeError
from langmem_tiers.core.memory import (
    ReviewResult,
    Source,
    StoreResult,
    Tier,
)
from langmem_tiers.core.namespaces import Place, check_key
from langmem_tiers.postgres.flow import Ask, Flow, apart, extent
from langmem_tiers.remember.candidate import Candidate, Known
from langmem_tiers.remember.gate import (
    DEFAULT_POLICY,
    Decision,
    Detector,
    GatePolicy,
    Verdict,
    judge,
    needs_review,
)
from langmem_tiers.remember.known import Knowing, Looked, look_up, recalled_by, sought
from langmem_tiers.remember.new import (
    NewMemory,
    checked_content,
    extent_of,
    label,
    normalised_tags,
)
from langmem_tiers.remember.review import Panel, Reviewers
from langmem_tiers.remember.transaction import Applied
from langmem_tiers.store.write import Room, Write

SAME_KEY = "replaces: what was stored under the same key in this call is not quarantined"
"""Why something held is not stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """What judges the memories of one coordinator."""

    policy: GatePolicy = DEFAULT_POLICY
    reviewers: Reviewers | None = None
    """Whose functions score what is to be stored; nobody's if None."""
    detectors: Sequence[Detector] = ()
    panel: Panel | None = None
    """Chat models that score it in their place, before it is stored."""

    def candidate(self, one: NewMemory, *, recalled: Sequence[Known] = ()) -> Candidate:
        """A memory as the gate and the reviewers look at it."""
        return Candidate(
            content=checked_content(one.content),
            memory_type=_type_name(one.memory_type),
            parts=tuple(one.parts),
            source=label(one.source, "source") or Source.UNKNOWN,
            trust=one.trust,
            tags=tuple(normalised_tags(one.tags)),
            importance=one.importance,
            beside=tuple(each for each in (one.speaker, one.context) if isinstance(each, str)),
            recalled=tuple(recalled),
        )

    def rooms(self, memory_type: str, tier: Tier) -> tuple[Room, ...]:
        """How many memories the place of such a memory holds."""
        of_type = self.policy.capacity.get(memory_type)
        of_tier = self.policy.tier_capacity.get(tier)
        own = () if of_type is None else (Room(of_type, memory_type=memory_type),)
        return own if of_tier is None else (*own, Room(of_tier, tier=tier))

    def trusting(self, one: NewMemory) -> NewMemory:
        """A memory that is trusted no further than its source, for what is not judged."""
        return replace(one, trust=min(one.trust, self.policy.trust.of_source(one.source)))

    def screened(self, one: NewMemory) -> NewMemory:
        """A memory that is kept whatever it says, and held back if it instructs its reader."""
        lenient = replace(self.policy, refuse_trivial=False, refuse_echoes=False)
        verdict = judge(self.candidate(one), policy=lenient, detectors=self.detectors)
        accepted = verdict.decision is Decision.ACCEPT
        return replace(
            one,
            trust=min(one.trust, verdict.trust),
            held=one.held if accepted else verdict.reason,
            threshold=self.policy.trust.below(one.memory_type or "episodic"),
        )

    def screening(self, memories: Sequence[NewMemory]) -> Flow[list[NewMemory]]:
        """Memories that are kept, each `screened`."""
        return apart(
            lambda: [self.screened(one) for one in memories],
            extent_of(memories),
        )

    def of(self, candidate: Candidate, review: ReviewResult | None = None) -> Verdict:
        """What becomes of a candidate."""
        return judge(
            candidate,
            policy=self.policy,
            reviewers=self.reviewers,
            review=review,
            detectors=self.detectors,
        )


def checked_detectors(given: object) -> tuple[Detector, ...]:
    """Functions that find private data.

    Raises:
        InvalidTypeError: for anything else.
    """
    if isinstance(given, str | Mapping) or not isinstance(given, Iterable):
        raise InvalidTypeError("detectors is a list of functions: detectors('credit_card')")
    found = tuple(given)
    if not all(callable(one) for one in found):
        raise InvalidTypeError("a detector is a function of a text: detectors('credit_card')")
    return found


class Judged(NamedTuple):
    """A memory, derived from what it repeats, and what the gate says of it."""

    memory: NewMemory
    verdict: Verdict
    repeats: tuple[tuple[Place, str], ...] = ()
    """The memory that it repeats, where it is refused for that."""


def passed(one: NewMemory, verdict: Verdict, gate: Gate) -> NewMemory | None:
    """A memory as it is stored; None if it is refused.

    It says how far it is trusted and why it is quarantined, so that its write does so too.
    """
    if verdict.destination is None:
        return None
    held = verdict.reason if verdict.decision is Decision.QUARANTINE else None
    return replace(
        one,
        memory_type=verdict.destination.memory_type,
        recalled=(),
        trust=verdict.trust,
        held=held,
        threshold=gate.policy.trust.below(verdict.destination.memory_type),
    )


def judged(memories: Sequence[NewMemory], gate: Gate, knowing: Knowing) -> Flow[list[Judged]]:
    """What becomes of memories that are to be stored.

    Raises:
        InvalidInputError: for content that is no text, or is empty.
    """
    new = {check_key(one.key): one.content for one in memories if one.key is not None}
    knowing = knowing._replace(leaving={**new, **knowing.leaving})
    long = extent_of(memories)
    recalled = [recalled_by(one, knowing) for one in memories]

    def seek() -> list[Looked]:
        found = []
        for one, may_repeat in zip(memories, recalled, strict=True):
            candidate = gate.candidate(one, recalled=may_repeat)
            found.append(sought(one, candidate, gate.policy, knowing))
        return found

    compared = extent([known.content for some in recalled for known in some])
    found = yield from apart(seek, long + compared)
    yield from look_up(found, knowing)
    reviews = yield from _reviews([one.candidate for one in found], gate, long)
    verdicts = yield from apart(
        lambda: [gate.of(one.candidate, reviews.get(at)) for at, one in enumerate(found)], long
    )
    return [
        Judged(
            replace(one.memory, echoes=[(place.namespace, key) for place, key in one.sources]),
            verdict,
            one.repeats,
        )
        for one, verdict in zip(found, verdicts, strict=True)
    ]


def _reviews(
    candidates: Sequence[Candidate], gate: Gate, long: int
) -> Flow[Mapping[int, ReviewResult]]:
    """What chat models say of those that they are asked about, by place; all at once."""
    panel = gate.panel
    if panel is None:
        return {}
    needed = yield from apart(
        lambda: [needs_review(one, gate.policy, gate.detectors) for one in candidates],
        long,
    )
    asked = [at for at, one in enumerate(needed) if one]
    if not asked:
        return {}
    several = [candidates[at] for at in asked]
    said = yield Ask(lambda: panel.call(several), lambda: panel.acall(several))
    return dict(zip(asked, said, strict=True))


def without_held_twins(writes: Sequence[Write]) -> list[Write]:
    """The writes of a call, without what is held where something else takes the same key."""
    open_keys = {(one.place, one.key) for one in writes if not one.held}
    return [one for one in writes if not one.held or (one.place, one.key) not in open_keys]


def admitted_as(verdict: Verdict, one: Write | None, applied: Applied) -> StoreResult:
    """What is answered to whoever wanted something stored, once what passed is written."""
    if one is None or verdict.destination is None:
        return result_of(verdict)
    done = applied.done.get((one.place, one.key))
    if done is None or (one.held and not done.held):
        reason = applied.refused.get((one.place, one.key), SAME_KEY)
        return result_of(verdict, stored=False, quarantined=False, reason=reason)
    return result_of(
        verdict,
        key=done.key,
        tier=done.tier,
        trust=done.trust,
        quarantined=done.held is not None,
        evicted=tuple(each.memory.key for each in applied.evicted if each.by == done.key),
        reason=done.held or verdict.reason,
        destinations=(verdict.destination._replace(key=done.key, tier=done.tier),),
    )


def _type_name(given: object) -> str | None:
    if given is not None and not isinstance(given, str):
        raise InvalidTypeError(f"memory_type is a name, not {type(given).__name__}")
    return given


def unjudged_as(one: Write, applied: Applied) -> StoreResult:
    """What is answered of a memory that nobody judged, once it is written."""
    refused = applied.refused.get((one.place, one.key))
    if refused is not None:
        return StoreResult(stored=False, key=one.key, reason=refused, trust=one.trust)
    done = applied.done.get((one.place, one.key), one)
    return StoreResult(
        stored=True,
        key=one.key,
        tier=one.tier,
        trust=done.trust,
        quarantined=done.held is not None,
        reason=done.held or "stored",
    )


def result_of(verdict: Verdict, **told: object) -> StoreResult:
    """What is answered of a verdict."""
    review = verdict.review
    told_of_review: dict[str, object] = {}
    if review is not None:
        told_of_review = {
            "scores": review.agent_scores,
            "reasons": review.reasons,
            "failures": review.failures,
        }
    result = StoreResult(
        stored=verdict.stored,
        score=verdict.score,
        reviewed=verdict.reviewed,
        reason=verdict.reason,
        quarantined=verdict.decision is Decision.QUARANTINE,
        trust=verdict.trust,
        repeats=verdict.repeats,
        private=tuple(sorted({one.kind for one in verdict.private})),
        **told_of_review,  # type: ignore[arg-type]
    )
    return replace(result, **told)  # type: ignore[arg-type]
