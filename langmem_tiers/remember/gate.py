"""The gate: it decides whether a memory is stored, quarantined or refused, and says why.

It sees the text alone and what is handed in with it; callers bring known texts, detectors and
reviewers. The order: size, trivial texts, echoes and copies, secrets,
instructions and trust, the reviewers, then where it goes.

Trust, in 0…1, is the least of all that speaks about a memory, so it can only fall on the way:
whatever is derived, merged or summed up from a memory is trusted at most as that memory is. A
person who releases a memory from quarantine is the only way up.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache, partial
from typing import Annotated, Any, Final, NamedTuple, TypeAlias

from pydantic import PlainValidator

from langmem_tiers.core import checks
from langmem_tiers.core.checks import record, validated_by
from langmem_tiers.core.errors import short
from langmem_tiers.core.memory import (
    CONSENSUS,
    TIERS,
    TRUST_THRESHOLD,
    Destination,
    Place,
    ReviewResult,
    Source,
    Tier,
    encode_namespace,
)
from langmem_tiers.core.texts import RULE_CHARACTERS, head_and_tail, strip_invisible, words
from langmem_tiers.postgres.flow import Flow, map_off_loop
from langmem_tiers.remember.duplicates import find_copy, find_echo
from langmem_tiers.remember.injection import SPEAKING_SOURCES, Instruction, instructions_in
from langmem_tiers.remember.new_memory import (
    ContentPart,
    KnownText,
    NewMemory,
    parse_recalled,
    pasted_parts,
    size_of,
)
from langmem_tiers.remember.review import MAX_SCORE, Panel, Reviewers, injection_reason
from langmem_tiers.store.write import Capacity

MAX_CHARACTERS: Final = 1_000_000
"""Characters of one memory."""
_SENTENCE: Final = 3
"""Words from which a label may instruct."""


_GREETINGS: Final = frozenset(("hi", "hello", "hi there"))
"""Greetings that specifications call trivial: "Hi there" is amplihack's and the orchestrator's."""
_SHORT: Final = 2
"""Letters of a word that is too short to say anything, in scripts that are spelt."""
_FEW: Final = 2
"""Different letters of laughter and the like."""
_MANY: Final = 5
"""Letters of a word from which few different ones are noise: "Anna" and "Otto" are names."""
_SPELT: Final = "\u0e00"
"""The first character of scripts in which two signs may be a word."""

SOURCE_TRUST: Final[Mapping[str, float]] = {
    Source.USER: 1.0,
    Source.SYSTEM: 1.0,
    Source.AGENT: 0.8,
    Source.TOOL: 0.6,
    Source.WEB: 0.4,
    Source.UNKNOWN: 0.4,
}
"""The trust in each source: by who answers for a text, and how easily others could write it."""
OWN_EVIDENCE_TRUST: Final = 0.7
"""From this trust on (users, operators, agents), what is said again is kept as evidence of its own,
and ends what it contradicts; below it (tools, pages) it adds nothing, and ends nothing that is
trusted more."""
INSTRUCTING_TRUST: Final = 0.1
"""The most trust in a text with instructions."""


class Decision(StrEnum):
    """The decision on a candidate."""

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


def checked_trust(value: Any, what: str) -> float:
    """Check a trust in 0…1.

    Raises:
        InvalidInputError: for anything else.
    """
    return float(checks.checked_number(value, what, 0, 1, use="a trust from 0 to 1"))


def derived_trust(own: float, origins: Iterable[float] = ()) -> float:
    """Compute the trust in a memory from a source's trust and its origins' trust.

    It is the least of them, so the order in which memories are derived from each other does not
    matter, and none of them rises.

    Raises:
        InvalidInputError: for a trust that is no number in 0…1.
    """
    return min(
        [checked_trust(own, "trust"), *(checked_trust(origin, "trust") for origin in origins)]
    )


def _mapping_validator(
    such_as: str, check: Callable[[Any, str], object], allowed: Collection[str] | None = None
) -> PlainValidator:
    """Validate a mapping: its names, of those that are `allowed`, and its values."""

    def checked(mapping: object, what: str) -> Mapping[str, Any]:
        named = checks.checked_mapping(mapping, what, such_as)
        for name, value in named.items():
            checks.checked_instance(name, str, f"a name in {what}, {short(name)},")
            checks.checked_choice(name, allowed or (name,), f"a name in {what}")
            check(value, f"{what}[{short(name)}]")
        return named

    return validated_by(checked)


def _checked_decision(value: object, what: str) -> str:
    return checks.checked_choice(value, Decision, what)


def _checked_score(value: object, what: str) -> float:
    return checks.checked_number(value, what, 0, MAX_SCORE)


def _checked_count(value: object, what: str) -> int:
    return checks.checked_whole(value, what, 1, sys.maxsize)


@record
class TrustPolicy:
    """The trust in each source, and the thresholds of quarantine.

    Raises:
        InvalidInputError: for a trust or threshold outside of 0…1, or a threshold that what is
            released could not reach.
        InvalidTypeError: for what is no mapping of names.

    Example:
        ```python
        from langmem_tiers import TrustPolicy

        careful = TrustPolicy(sources={"partner": 0.5}, thresholds={"procedural": 0.7})
        assert careful.quarantines(0.6, "procedural")
        ```
    """

    sources: Annotated[Mapping[str, float], _mapping_validator("{'web': 0.4}", checked_trust)] = (
        field(default_factory=dict)
    )
    """Sources of one's own, and other values for those that are known."""
    threshold: Annotated[float, validated_by(checked_trust)] = TRUST_THRESHOLD
    thresholds: Annotated[
        Mapping[str, float], _mapping_validator("{'procedural': 0.7}", checked_trust)
    ] = field(default_factory=dict)
    """By memory type, in place of `threshold`."""

    def of_source(self, source: str) -> float:
        """Look up the trust in a source; an unknown one is trusted as `unknown` is."""
        trusts = {**SOURCE_TRUST, **self.sources}
        return trusts.get(source, trusts[Source.UNKNOWN])

    def below(self, memory_type: str) -> float:
        """Look up the threshold of a memory type."""
        return self.thresholds.get(memory_type, self.threshold)

    def quarantines(self, trust: float, memory_type: str) -> bool:
        """Tell whether a memory of this trust and type is held back."""
        return trust < self.below(memory_type)


def released_trust(trust: float, memory_type: str, policy: TrustPolicy) -> float:
    """Compute the trust in a released memory: just enough to be recalled."""
    return max(checked_trust(trust, "trust"), policy.below(memory_type))


@record
class GatePolicy:
    """The rules of the gate.

    Raises:
        InvalidInputError: for what cannot be meant; the message says what can.
    """

    trust: Annotated[
        TrustPolicy,
        validated_by(lambda value, name: checks.checked_instance(value, TrustPolicy, name)),
    ] = field(default_factory=TrustPolicy)
    longest: Annotated[int, validated_by(_checked_count)] = MAX_CHARACTERS
    """Characters; what is longer is refused."""
    consensus: Annotated[float, validated_by(_checked_score)] = CONSENSUS
    """The reviewers' mean from which a memory is stored."""
    private: Annotated[
        Mapping[str, Decision],
        _mapping_validator("{'email': Decision.REJECT}", _checked_decision),
    ] = field(default_factory=dict)
    """The decision on each kind of private data; other kinds are accepted and reported."""
    refuse_trivial: Annotated[bool, validated_by(checks.checked_flag)] = True
    refuse_echoes: Annotated[bool, validated_by(checks.checked_flag)] = True
    keep_copies_from: Annotated[float, validated_by(checked_trust)] = OWN_EVIDENCE_TRUST
    """The trust in a source, in 0…1, from which on what it says again is kept as evidence of its
    own; what is trusted less is refused where it is stored already."""
    capacity: Annotated[
        Mapping[str, int], _mapping_validator("{'semantic': 100}", _checked_count)
    ] = field(default_factory=dict)
    """By memory type: how many of it a place (a namespace) holds; the least worth make room."""
    tier_capacity: Annotated[
        Mapping[str, int], _mapping_validator("{'working': 100}", _checked_count, TIERS)
    ] = field(default_factory=dict)
    """By tier: how many memories of any type a place of it holds."""


DEFAULT_POLICY: Final = GatePolicy()


Places: TypeAlias = tuple[tuple[Place, str], ...]
"""Memories by their places and keys."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The gate's judgement of a candidate."""

    decision: Decision
    reason: str
    """The reason, a sentence that begins with the rule: `trivial: a greeting`."""
    trust: float = 1.0
    destination: Destination | None = None
    """The destination; None if it is refused."""
    review: ReviewResult | None = None
    score: float | None = None
    """The score, as in `StoreResult`."""
    repeats: str | None = None
    """The key of the memory that it repeats."""
    findings: tuple[Instruction, ...] = ()
    private: tuple[Private, ...] = ()
    sources: Places = ()
    """Memories that it repeats and is derived from, as they live less long."""
    repeated: Places = ()
    """The memory that it repeats, where it is refused for that."""

    @property
    def stored(self) -> bool:
        """Tell whether it becomes a memory, recalled or not."""
        return self.decision is not Decision.REJECT

    @property
    def reviewed(self) -> bool:
        """Tell whether somebody gave it a score."""
        return self.review is not None and self.review.consensus_score is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """The gate of one coordinator."""

    policy: GatePolicy = DEFAULT_POLICY
    reviewers: Reviewers | None = None
    """Reviewers whose functions score candidates; none if None."""
    detectors: Sequence[Detector] = ()
    panel: Panel | None = None
    """The panel of a chat model that scores candidates in their place."""

    def judge(self, memory: NewMemory, review: ReviewResult | None = None) -> Verdict:
        """Judge a candidate by its text, its source and known texts.

        With a `review`, which chat models gave, no function is asked for one; what none of them
        answered for passes.
        """
        policy, refuse = self.policy, partial(Verdict, decision=Decision.REJECT)
        copied = find_copy(memory.content, memory.stored) if memory.stored else None
        if (why := _refuse_text(memory, policy)) is not None:
            return refuse(reason=why)
        repeat = _refuse_repeat(memory, copied, policy) if memory.recalled or copied else None
        if repeat is not None:
            return repeat
        private, kept, why_private = _find_private(memory.content, policy, self.detectors)
        if kept is Decision.REJECT:
            return refuse(reason=why_private, private=private)
        findings, destination = find_instructions(memory), route(memory.memory_type)
        trust = judge_trust(memory, policy, findings)
        held = _hold_reason(trust, findings, destination.memory_type, policy) or why_private
        if review is None and self.reviewers is not None:
            review = self.reviewers.review_storage(memory)
            if review.consensus_score is None and review.failures:
                held = held or f"unreviewed: {review}"
        score = None if review is None else review.consensus_score
        held = held or ("" if review is None else injection_reason(review) or "")
        if review is not None and not held and review.refuses(policy.consensus):
            below = f"below {policy.consensus:g}: {review}"
            return refuse(reason=below, review=review, score=score)
        return Verdict(
            decision=Decision.QUARANTINE if held else Decision.ACCEPT,
            reason=held or "stored",
            trust=trust,
            destination=destination,
            review=review,
            score=policy.consensus if score is None else score,
            repeats=None if copied is None else copied.key,
            findings=findings,
            private=private,
        )

    def needs_models(self, memory: NewMemory) -> bool:
        """Tell whether models have a say: none is asked of what is refused or held without them."""
        return replace(self, reviewers=None).judge(memory).decision is Decision.ACCEPT

    def capacities(self, memory_type: str, tier: Tier) -> tuple[Capacity, ...]:
        """List the capacities of the place of such a memory."""
        of_type = self.policy.capacity.get(memory_type)
        of_tier = self.policy.tier_capacity.get(tier)
        own = () if of_type is None else (Capacity(of_type, memory_type=memory_type),)
        return own if of_tier is None else (*own, Capacity(of_tier, tier=tier))

    def cap_source_trust(self, memory: NewMemory) -> NewMemory:
        """Cap the trust of a memory at its source's."""
        trust = min(memory.trust, self.policy.trust.of_source(memory.source))
        return memory if trust == memory.trust else replace(memory, trust=trust)

    def screen_kept(self, memories: Sequence[NewMemory]) -> Flow[list[NewMemory]]:
        """Screen memories that are stored in any case: quarantine those that instruct their reader."""
        lenient = replace(self.policy, refuse_trivial=False, refuse_echoes=False)
        gate = replace(self, policy=lenient, reviewers=None)

        def screened(memory: NewMemory) -> NewMemory:
            verdict = gate.judge(replace(memory, recalled=()))
            return replace(
                memory,
                trust=min(memory.trust, verdict.trust),
                held=memory.held if verdict.decision is Decision.ACCEPT else verdict.reason,
                threshold=self.policy.trust.below(memory.memory_type or "episodic"),
            )

        return map_off_loop(screened, size_of(memories), memories)


def redact_private(text: str, policy: GatePolicy, detectors: Sequence[Detector]) -> str:
    """Redact a text beside memories if it holds private data that the policy refuses."""
    return "(private)" if _find_private(text, policy, detectors)[1] is Decision.REJECT else text


def judge_trust(
    memory: NewMemory,
    policy: GatePolicy = DEFAULT_POLICY,
    findings: Sequence[Instruction] | None = None,
) -> float:
    """Compute the trust in a candidate's text, in 0…1."""
    instructions = find_instructions(memory) if findings is None else findings
    most = INSTRUCTING_TRUST if instructions else memory.trust
    return min(policy.trust.of_source(memory.source), memory.trust, most)


def find_instructions(memory: NewMemory) -> tuple[Instruction, ...]:
    """Find instructions in a candidate or the texts beside it, the surest first."""
    pasted = pasted_parts(memory)
    if memory.source in SPEAKING_SOURCES and not (memory.parts or pasted):
        return ()  # all of it is somebody's own word
    parts = memory.parts or (ContentPart(memory.content), *pasted)
    beside = [*memory.beside, *(tag.replace("-", " ") for tag in memory.tags)]
    sentences = [each for each in beside if len(each.split()) >= _SENTENCE]
    instructions: list[Instruction] = []
    for part in (*parts, ContentPart("\n".join(sentences))):
        if part.text:
            instructions += instructions_in(part.text, part.source or memory.source)
    return tuple(sorted(instructions, key=lambda finding: -finding.sure))


def _refuse_text(memory: NewMemory, policy: GatePolicy) -> str | None:
    """Name the reason to refuse a trivial or too long text; None without one."""
    if (length := len(memory.content)) > policy.longest:
        return (
            f"too long: {length:,} characters, and {policy.longest:,} are kept: store its parts or "
            "a summary"
        )
    kind = triviality(memory.content) if policy.refuse_trivial else None
    return None if kind is None else f"trivial: {kind}"


def _refuse_repeat(
    memory: NewMemory, copied: KnownText | None, policy: GatePolicy
) -> Verdict | None:
    """Refuse a text that was recalled or is stored already; None if it is new."""
    recalled = parse_recalled(memory.recalled) if policy.refuse_echoes and memory.recalled else ()
    if (echo := find_echo(memory.content, recalled)) is not None:
        named = "" if echo.key is None else f" ({echo.key})"
        return Verdict(
            decision=Decision.REJECT,
            reason=f"echo: it repeats what was recalled{named}, which is no new evidence",
            repeats=echo.key,
            repeated=((encode_namespace(echo.namespace), echo.key),)
            if echo.namespace and echo.key
            else (),
        )
    if copied is not None and policy.trust.of_source(memory.source) < policy.keep_copies_from:
        why = f"duplicate: it is stored already, and a {memory.source} that says it again adds nothing"
        return Verdict(decision=Decision.REJECT, reason=why, repeats=copied.key)
    return None


def _find_private(
    content: str, policy: GatePolicy, detectors: Sequence[Detector]
) -> tuple[tuple[Private, ...], Decision, str]:
    """Find private data in a text, with the strictest decision on it and the reason.

    Raises:
        InvalidTypeError: if a detector returns anything else.
    """
    matches: list[Private] = []
    what = "what a detector returns"
    for detect in detectors:
        results = checks.checked_list(detect(content), what, "Private(kind, start, end)")
        matches += [checks.checked_instance(result, Private, what) for result in results]
    if matches:
        for decision in (Decision.REJECT, Decision.QUARANTINE):
            if kinds := {
                match.kind for match in matches if policy.private.get(match.kind) == decision
            }:
                why = f"private: it holds {', '.join(sorted(kinds))}; store it without"
                return tuple(matches), decision, why
    return tuple(matches), Decision.ACCEPT, ""


def _hold_reason(
    trust: float, findings: Sequence[Instruction], memory_type: str, policy: GatePolicy
) -> str:
    """Name the reason for quarantine; "" without one."""
    needed = policy.trust.below(memory_type)
    if trust >= needed:
        return ""
    if findings:
        return f"instructs: {findings[0]}"
    return f"trust: {trust:g} is below {needed:g}, what memories of type {memory_type!r} need"


@lru_cache(maxsize=256)
def triviality(content: str) -> str | None:
    """Name the kind of a trivial text, such as "a greeting"; None if it may say something.

    What is short is not trivial for that: "Paris", "42" and "No sugar" are answers. Nor is what
    people say out of courtesy: "Thanks a lot" is stored.
    """
    if len(content) > RULE_CHARACTERS:
        ends = head_and_tail(
            content
        )  # what is between them says no more, if it is in no other letters
        return triviality(ends) if set(content) <= set(ends) else None
    spoken = words(content)
    if not spoken or not any(map(str.isalnum, content)):
        return "nothing but signs" if strip_invisible(content).strip() else "empty"
    if " ".join(spoken) in _GREETINGS:
        return "a greeting"
    return _noise_kind(spoken[0]) if len(set(spoken)) == 1 else None


def _noise_kind(word: str) -> str | None:
    """Name the kind of noise that one word is; None if it is none."""
    if any(map(str.isdigit, word)):
        return None
    if len(word) <= _SHORT and word.isalpha() and max(word) < _SPELT:
        return "a word of two letters or fewer"
    return "noise" if len(word) >= _MANY and len(set(word)) <= _FEW else None


def route(memory_type: str | None) -> Destination:
    """Choose the memory type: the caller's, else `episodic`."""
    if memory_type is not None:
        return Destination(memory_type, "its type was named")
    return Destination("episodic", "nothing says otherwise")
