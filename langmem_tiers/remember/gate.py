"""The gate: whether something becomes a memory, is held back, or is refused, and why.

It looks at the text alone and at what is handed in with it; what is known already, detectors and
reviewers come from above. The order: size, trivial texts, echoes and copies, secrets,
instructions and trust, the reviewers, then where it goes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

from langmem_tiers.core import checks
from langmem_tiers.core.errors import InvalidInputError, InvalidTypeError, short
from langmem_tiers.core.memory import CONSENSUS, TIERS, Destination, ReviewResult, Source, Tier
from langmem_tiers.core.reading import LOOKED_AT, ends_of, visible, words
from langmem_tiers.postgres.flow import Flow, apart
from langmem_tiers.remember.echo import copy_of, echo_of
from langmem_tiers.remember.instructs import Finding, instructions_in
from langmem_tiers.remember.new import (
    Known,
    NewMemory,
    Part,
    checked_content,
    extent_of,
    pasted_in,
    recalled_texts,
)
from langmem_tiers.remember.review import BEST, Reviewers, instructing
from langmem_tiers.remember.review_models import Panel
from langmem_tiers.remember.trust import INSTRUCTS, SPOKEN_FOR, TrustPolicy, checked_trust
from langmem_tiers.store.write import Room

LONGEST: Final = 1_000_000
"""Characters of one memory."""
_SENTENCE: Final = 3
"""Words from which a label may instruct."""


_SPECIFIED: Final = frozenset(("hi", "hello", "hi there"))
"""What specifications name as trivial: "Hi there" is amplihack's and the orchestrator's example."""
_SHORT: Final = 2
"""Letters of a word that is too short to say anything, in scripts that are spelt."""
_FEW: Final = 2
"""Different letters of laughter and the like."""
_MANY: Final = 5
"""Letters of a word from which few different ones are noise: "Anna" and "Otto" are names."""
_SPELT: Final = "\u0e00"
"""From here on there are scripts in which two signs are a word."""


class Decision(StrEnum):
    """What becomes of a candidate."""

    ACCEPT = "accept"
    QUARANTINE = "quarantine"
    """Stored, not recalled until somebody releases it."""
    REJECT = "reject"
    """Not stored."""


class Private(NamedTuple):
    """Something private in a text: its kind, and where it stands. Its value is not repeated."""

    kind: str
    start: int
    end: int


Detector: TypeAlias = Callable[[str], Sequence[Private]]


@dataclass(frozen=True, slots=True, kw_only=True)
class GatePolicy:
    """How strict the gate is.

    Raises:
        InvalidInputError: for what cannot be meant; the message says what can.
    """

    trust: TrustPolicy = field(default_factory=TrustPolicy)
    longest: int = LONGEST
    """Characters; what is longer is refused."""
    consensus: float = CONSENSUS
    """The reviewers' mean from which on it is stored."""
    private: Mapping[str, Decision] = field(default_factory=dict)
    """What to do with each kind that a detector finds; what is not named is accepted and said."""
    refuse_trivial: bool = True
    refuse_echoes: bool = True
    keep_copies_from: float = SPOKEN_FOR
    """The trust in a source, in 0…1, from which on what it says again is kept as evidence of its
    own; what is trusted less is refused where it is stored already."""
    capacity: Mapping[str, int] = field(default_factory=dict)
    """By memory type: how many of it a place (a namespace) holds; the least worth make room."""
    tier_capacity: Mapping[str, int] = field(default_factory=dict)
    """By tier: how many memories of any type a place of it holds."""

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        checks.checked_kind(self.trust, TrustPolicy, "trust")
        checks.checked_flag(self.refuse_trivial, "refuse_trivial")
        checks.checked_flag(self.refuse_echoes, "refuse_echoes")
        if not checks.is_number(self.keep_copies_from):
            copies = short(self.keep_copies_from)
            raise InvalidTypeError(f"keep_copies_from is a trust from 0 to 1, not {copies}")
        checked_trust(self.keep_copies_from, "keep_copies_from")
        _check_most(self.longest, "longest")
        is_number = checks.is_number(self.consensus)
        if not is_number or not 0 <= self.consensus <= BEST:
            refused = InvalidInputError if is_number else InvalidTypeError
            raise refused(f"consensus is a number from 0 to 10, not {short(self.consensus)}")
        for kind, decision in checks.checked_mapping(self.private, "private", _PRIVATE).items():
            checks.checked_kind(kind, str, f"a kind in private, {short(kind)},")
            checks.checked_choice(decision, Decision, f"private[{short(kind)}]")
        for what, known in (("capacity", None), ("tier_capacity", TIERS)):
            for name, most in checks.checked_mapping(getattr(self, what), what, _BOUNDED).items():
                checks.checked_kind(name, str, f"a name in {what}, {short(name)},")
                checks.checked_choice(name, known or (name,), f"what {what} bounds")
                _check_most(most, f"{what}[{short(name)}]")


_PRIVATE, _BOUNDED = "{'email': Decision.REJECT}", "{'semantic': 100}"
"""What the mappings of a policy are like."""


def _check_most(most: object, what: str) -> None:
    if type(most) is not int or most < 1:
        refused = InvalidInputError if type(most) is int else InvalidTypeError
        raise refused(f"{what} is a whole number from 1 on, not {short(most)}")


DEFAULT_POLICY: Final = GatePolicy()


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the gate says of a candidate."""

    decision: Decision
    reason: str
    """Why, in a sentence; it begins with the rule: `trivial: a greeting`."""
    trust: float = 1.0
    destination: Destination | None = None
    """Where it goes; None if it is refused."""
    review: ReviewResult | None = None
    score: float | None = None
    """As told in `StoreResult`."""
    repeats: str | None = None
    """The key of the memory that it repeats."""
    findings: tuple[Finding, ...] = ()
    private: tuple[Private, ...] = ()

    @property
    def stored(self) -> bool:
        """Whether it becomes a memory, recalled or not."""
        return self.decision is not Decision.REJECT

    @property
    def reviewed(self) -> bool:
        """Whether somebody gave it a score."""
        return self.review is not None and self.review.consensus_score is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """What judges the memories of one coordinator."""

    policy: GatePolicy = DEFAULT_POLICY
    reviewers: Reviewers | None = None
    """Whose functions score what is to be stored; nobody's if None."""
    detectors: Sequence[Detector] = ()
    panel: Panel | None = None
    """Chat models that score it in their place, before it is stored."""

    def candidate(self, one: NewMemory, *, recalled: Sequence[Known] = ()) -> NewMemory:
        """A memory as the gate and the reviewers look at it, beside what it may repeat."""
        content, source = checked_content(one.content), one.source or Source.UNKNOWN
        return replace(one, content=content, source=source, recalled=recalled)

    def of(self, one: NewMemory, review: ReviewResult | None = None) -> Verdict:
        """What becomes of a memory, by its text, its source and what is known already.

        With a `review`, which chat models gave, no function is asked for one; what none of them
        answered for passes.
        """
        copied = copy_of(one.content, one.stored)
        if refused := _unread(one, self.policy) or _known(one, copied, self.policy):
            return refused
        found = _found_by(self.detectors, one.content)
        private, why = _private(found, self.policy)
        if private is Decision.REJECT:
            return Verdict(decision=private, reason=why, private=found)
        own = self.reviewers.review_storage(one) if self.reviewers and review is None else None
        review = own or review
        findings = findings_in(one)
        trust = _trust(one, findings, self.policy)
        destination = route(one.memory_type)
        held = _held(trust, findings, destination.memory_type, self.policy) or why
        if not held and own is not None and own.consensus_score is None and own.failures:
            held = f"unreviewed: {own}"
        held = held or ("" if review is None else instructing(review) or "")
        score = None if review is None else review.consensus_score
        if not held and review is not None and review.refuses(self.policy.consensus):
            below = f"below {self.policy.consensus:g}: {review}"
            return Verdict(decision=Decision.REJECT, reason=below, review=review, score=score)
        return Verdict(
            decision=Decision.QUARANTINE if held else Decision.ACCEPT,
            reason=held or "stored",
            trust=trust,
            destination=destination,
            review=review,
            score=self.policy.consensus if score is None else score,
            repeats=None if copied is None else copied.key,
            findings=findings,
            private=found,
        )

    def asks(self, candidate: NewMemory) -> bool:
        """Whether models have a say: none is asked of what is refused or held without them."""
        return replace(self, reviewers=None).of(candidate).decision is Decision.ACCEPT

    def rooms(self, memory_type: str, tier: Tier) -> tuple[Room, ...]:
        """How many memories the place of such a memory holds."""
        of_type = self.policy.capacity.get(memory_type)
        of_tier = self.policy.tier_capacity.get(tier)
        own = () if of_type is None else (Room(of_type, memory_type=memory_type),)
        return own if of_tier is None else (*own, Room(of_tier, tier=tier))

    def trusting(self, one: NewMemory) -> NewMemory:
        """A memory that is trusted no further than its source, for what is not judged."""
        return replace(one, trust=min(one.trust, self.policy.trust.of_source(one.source)))

    def screening(self, memories: Sequence[NewMemory]) -> Flow[list[NewMemory]]:
        """Memories that are kept whatever they say, and held back if they instruct their reader."""
        lenient = replace(self.policy, refuse_trivial=False, refuse_echoes=False)
        gate = replace(self, policy=lenient, reviewers=None)

        def screened(one: NewMemory) -> NewMemory:
            verdict = gate.of(gate.candidate(one))
            return replace(
                one,
                trust=min(one.trust, verdict.trust),
                held=one.held if verdict.decision is Decision.ACCEPT else verdict.reason,
                threshold=self.policy.trust.below(one.memory_type or "episodic"),
            )

        return apart(lambda: [*map(screened, memories)], extent_of(memories))


def keepable(text: str, policy: GatePolicy, detectors: Sequence[Detector]) -> str:
    """A text that is no memory as it may be kept; one with private data that is refused may not."""
    decided, _ = _private(_found_by(detectors, text), policy)
    return "(private)" if decided is Decision.REJECT else text


def trust_in(one: NewMemory, policy: GatePolicy = DEFAULT_POLICY) -> float:
    """How far a text is trusted, in 0…1, whatever else becomes of it."""
    return _trust(one, findings_in(one), policy)


def _trust(one: NewMemory, findings: Sequence[Finding], policy: GatePolicy) -> float:
    own = min(policy.trust.of_source(one.source), one.trust)
    return min(own, INSTRUCTS) if findings else own


def findings_in(one: NewMemory) -> tuple[Finding, ...]:
    """What instructs the reader, the surest first: in what it says, or in what stands beside it."""
    beside = [*one.beside, *(tag.replace("-", " ") for tag in one.tags)]
    told = [each for each in beside if len(each.split()) >= _SENTENCE]
    parts = (*(one.parts or (Part(one.content), *pasted_in(one))), Part("\n".join(told)))
    found = (
        finding
        for part in parts
        if part.text
        for finding in instructions_in(part.text, part.source or one.source)
    )
    return tuple(sorted(found, key=lambda finding: -finding.sure))


def _unread(one: NewMemory, policy: GatePolicy) -> Verdict | None:
    """The refusal of what says nothing, or too much."""
    length = len(one.content)
    if length > policy.longest:
        why = f"too long: {length:,} characters, and {policy.longest:,} are kept: store its parts "
        return Verdict(decision=Decision.REJECT, reason=f"{why}or a summary")
    kind = triviality(one.content) if policy.refuse_trivial else None
    return None if kind is None else Verdict(decision=Decision.REJECT, reason=f"trivial: {kind}")


def _known(one: NewMemory, copied: Known | None, policy: GatePolicy) -> Verdict | None:
    """The refusal of what was recalled or is stored already."""
    echo = echo_of(one.content, recalled_texts(one.recalled)) if policy.refuse_echoes else None
    if echo is not None:
        named = "" if echo.key is None else f" ({echo.key})"
        why = f"echo: it repeats what was recalled{named}, which is no new evidence"
        return Verdict(decision=Decision.REJECT, reason=why, repeats=echo.key)
    if copied is not None and policy.trust.of_source(one.source) < policy.keep_copies_from:
        why = f"duplicate: it is stored already, and a {one.source} that says it again adds nothing"
        return Verdict(decision=Decision.REJECT, reason=why, repeats=copied.key)
    return None


def _found_by(detectors: Sequence[Detector], content: str) -> tuple[Private, ...]:
    """What detectors find in a text.

    Raises:
        InvalidTypeError: if one returns anything else.
    """
    what = "what a detector returns"
    several = (checks.checked_list(detect(content), what, _FOUND) for detect in detectors)
    return tuple(checks.checked_kind(one, Private, what) for found in several for one in found)


_FOUND: Final = "Private(kind, start, end)"


def _private(found: Sequence[Private], policy: GatePolicy) -> tuple[Decision, str]:
    """What is decided for private data, and why; the strictest decision holds."""
    for decision in (Decision.REJECT, Decision.QUARANTINE):
        if kinds := {one.kind for one in found if policy.private.get(one.kind) == decision}:
            return decision, f"private: it holds {', '.join(sorted(kinds))}; store it without"
    return Decision.ACCEPT, ""


def _held(trust: float, findings: Sequence[Finding], memory_type: str, policy: GatePolicy) -> str:
    """Why it is not to be recalled; nothing if it may be."""
    if not policy.trust.quarantines(trust, memory_type):
        return ""
    if findings:
        return f"instructs: {findings[0]}"
    return (
        f"trust: {trust:g} is below {policy.trust.below(memory_type):g}, what memories of type "
        f"{memory_type!r} need"
    )


@lru_cache(maxsize=256)
def triviality(content: str) -> str | None:
    """What kind of nothing a text says, such as "a greeting"; None if it may say something.

    What is short is not trivial for that: "Paris", "42" and "No sugar" are answers. Nor is what
    people say out of courtesy: "Thanks a lot" is stored.
    """
    if len(content) > LOOKED_AT:
        ends = ends_of(content)  # what is between them says no more, if it is in no other letters
        return triviality(ends) if set(content) <= set(ends) else None
    said = words(content)
    if not said or not any(map(str.isalnum, content)):
        return "nothing but signs" if visible(content).strip() else "empty"
    if " ".join(said) in _SPECIFIED:
        return "a greeting"
    return _noise(said[0]) if len(set(said)) == 1 else None


def _noise(word: str) -> str | None:
    """What kind of noise one word is, said once or over and over."""
    if any(map(str.isdigit, word)):
        return None
    if len(word) <= _SHORT and word.isalpha() and max(word) < _SPELT:
        return "a word of two letters or fewer"
    return "noise" if len(word) >= _MANY and len(set(word)) <= _FEW else None


def route(memory_type: str | None) -> Destination:
    """Where a text goes: to the type that is named, whatever it says; else it is `episodic`."""
    if memory_type is not None:
        return Destination(memory_type, "its type was named")
    return Destination("episodic", "nothing says otherwise")
