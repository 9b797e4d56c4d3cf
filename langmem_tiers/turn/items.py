"""What a turn is told to keep: as memories, what the gate lets pass of it, and where that goes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final, NamedTuple

from langmem_tiers.core.errors import InvalidTypeError
from langmem_tiers.core.memory import Destination, StoreResult
from langmem_tiers.memory.asking import new_memories
from langmem_tiers.remember.admit import Gate, Judged, passed
from langmem_tiers.remember.gate import Decision
from langmem_tiers.remember.new import NewMemory
from langmem_tiers.store.write import Write
from langmem_tiers.turn.record import LONGEST_BEGINNING, settled

PRIVATE: Final = "(private)"
"""What a trace shows in place of what the policy does not accept."""
_QUOTELESS: Final = frozenset(
    ("stored", "private", "too long", "trivial", "echo", "duplicate", "trust")
)
"""The gate's rules whose reasons repeat nothing of what they judge."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """Which memory types receive an item, each with the reason, and what makes room for it."""

    destinations: tuple[Destination, ...]
    """None if it is not to be kept."""
    evicted: tuple[str, ...] = ()
    """Keys of memories that are deleted when the turn is committed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Memorized(StoreResult):
    """What became of something that a turn memorizes; nothing is stored before the commit."""

    stored: bool = False
    pending: bool = False
    """Whether the commit will write it."""

    @property
    def keys(self) -> tuple[str, ...]:
        """The key that it will have in each memory type."""
        return tuple(one.key for one in self.destinations if one.key is not None)

    def __str__(self) -> str:
        """What becomes of it, where, and why."""
        if not self.pending:
            return f"not kept: {self.reason}"
        where = ", ".join(one.memory_type for one in self.destinations)
        return f"pending in {where} as {', '.join(self.keys)}: {self.reason}"

    @classmethod
    def of(cls, result: StoreResult) -> Memorized:
        """What the gate answered; pending if it let it pass."""
        told = {one.name: getattr(result, one.name) for one in fields(StoreResult)}
        return cls(**{**told, "stored": False}, pending=result.stored)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tracked:
    """What became of a tool call that a turn tracks: pending until the turn is committed."""

    tracked: bool
    key: str | None
    """The key that its episodic memory will have; None if it gets none."""
    reason: str
    quarantined: bool = False
    """Whether that memory will not be recalled until somebody releases it."""


class Screened(NamedTuple):
    """A tool call as the gate lets it pass."""

    kept: list[NewMemory]
    held: str | None
    """Why it is refused or held back."""
    begins: dict[str, str]
    """How what is refused or held back begins, for the trace."""


def as_memory(item: str | Mapping[str, Any], metadata: Mapping[str, Any] | None) -> NewMemory:
    """An item as a memory; it has no type where none was named."""
    (one,) = new_memories([item])
    named = isinstance(item, Mapping) and item.get("memory_type") is not None
    one = settled(one if named else replace(one, memory_type=None))
    if metadata is None:
        return one
    for given in (metadata, one.metadata):
        if not isinstance(given, Mapping):
            raise InvalidTypeError(f"metadata is a mapping, not {type(given).__name__}")
    return replace(one, metadata={**one.metadata, **metadata})


def of_a_tool(gate: Gate, call: NewMemory, whole: str) -> Screened:
    """A tool call as the gate lets it pass; `whole` is what was told of it before it was cut.

    It happened, so it may say little, or what is known, and nobody reviews it.
    """
    texts = (call.content, whole)
    found = [one for text in texts for detect in gate.detectors for one in detect(text)]
    screening = replace(
        gate,
        policy=replace(gate.policy, refuse_trivial=False, refuse_echoes=False),
        reviewers=None,
        detectors=(lambda _: found,),
        panel=None,
        afterwards=False,
    )
    verdict = discreet(Judged(call, screening.judge(call)), screening).verdict
    accepted = verdict.decision is Decision.ACCEPT
    return Screened(
        passed(call, verdict, screening),
        None if accepted else verdict.reason,
        {} if accepted else beginning(call, screening),
    )


def discreet(one: Judged, gate: Gate) -> Judged:
    """What the gate says, without a word of what holds private data that the policy refuses."""
    verdict, judged = one.verdict, gate.candidate(one.memory)
    labels = [tag.replace("-", " ") for tag in judged.tags]
    if not any(private(text, gate) for text in (judged.content, *judged.beside, *labels)):
        return one
    rule, reason, review = verdict.reason.partition(":")[0], verdict.reason, verdict.review
    if rule not in _QUOTELESS:
        kinds = ", ".join(each.kind for each in verdict.findings)
        reason = f"{rule}: {PRIVATE}" + (f" ({kinds})" if kinds else "")
    if review is not None:
        reasons, failures = dict.fromkeys(review.reasons, PRIVATE), review.failures
        review = replace(review, reasons=reasons, failures=dict.fromkeys(failures, PRIVATE))
    return one._replace(verdict=replace(verdict, reason=reason, review=review))


def shown(text: str, gate: Gate) -> str:
    """A text as a trace may show it."""
    return PRIVATE if private(text, gate) else text


def passed_on(one: Judged, gate: Gate) -> list[NewMemory]:
    """A memory as those that it becomes."""
    return passed(one.memory, one.verdict, gate)


def destinations(
    kept: Iterable[NewMemory], writes: Iterable[Write], reasons: Mapping[str, str]
) -> tuple[Destination, ...]:
    """Where the writes of a memory go, and why."""
    several = zip(kept, writes, strict=True)
    return tuple(
        Destination(one.memory_type or "", reasons.get(one.memory_type or "", ""), to.key, to.tier)
        for one, to in several
    )


def beginning(one: NewMemory, gate: Gate) -> dict[str, str]:
    """How something begins and who said it, for the trace; without what is private."""
    told = {"content": one.content, "speaker": one.speaker}
    return {
        name: " ".join(shown(text, gate).split())[:LONGEST_BEGINNING]
        for name, text in told.items()
        if text is not None
    }


def private(text: str, gate: Gate) -> bool:
    """Whether a text holds what the policy does not accept."""
    kinds = {found.kind for detect in gate.detectors for found in detect(text)}
    return any(gate.policy.private.get(kind) not in (None, Decision.ACCEPT) for kind in kinds)


def judgement(found: Memorized) -> dict[str, Any]:
    """What the gate said, as JSON for the trace."""
    told = {
        "destinations": [one.memory_type for one in found.destinations],
        "keys": list(found.keys),
        "evicted": list(found.evicted),
        "trust": found.trust,
        "quarantined": found.quarantined,
        "repeats": found.repeats,
        "score": found.score,
        "reviewers": {
            name: {"score": score, "reason": found.reasons.get(name)}
            for name, score in found.scores.items()
        },
        "failures": dict(found.failures),
        "private": list(found.private),
    }
    return {name: one for name, one in told.items() if one or isinstance(one, float)}
