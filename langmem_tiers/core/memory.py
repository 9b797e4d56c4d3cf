"""The nouns: tiers, namespaces and handles, recollections, results and statistics."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Iterable, KeysView, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import UTC, date, datetime
from enum import StrEnum
from functools import lru_cache
from hashlib import sha256
from typing import Any, Final, NamedTuple

from langmem_tiers.core.checks import MAX_NAMESPACE_BYTES, utf8_bytes
from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.core.texts import LINE_LENGTH, printable_line, shorten_line


class Tier(StrEnum):
    """The stage of a memory's life. The namespace is identity; the tier is lifecycle."""

    SHORT_TERM = "short_term"
    """A session's: expires an hour after it was last read."""
    WORKING = "working"
    """A project's: where a plain `put` goes."""
    LONG_TERM = "long_term"
    """Proven, and shared across projects."""


TIERS: tuple[Tier, ...] = tuple(Tier)
"""All tiers in the order in which `get` looks."""


class Source(StrEnum):
    """The origin of a text; other names are allowed, and trusted as `unknown` is."""

    USER = "user"
    SYSTEM = "system"
    AGENT = "agent"
    TOOL = "tool"
    WEB = "web"
    UNKNOWN = "unknown"


PERSON_SOURCES: Final = (Source.USER, Source.SYSTEM)
"""The sources that are people: users and operators."""


QUARANTINED: Final = "quarantined"
"""The state of a memory that is stored and not recalled until somebody releases it."""

STATES: Final = frozenset(
    ("consolidated", "demoted", "superseded", "retracted", "suspect", QUARANTINED)
)
"""The states of a memory that is not current."""

TRUST_THRESHOLD: Final = 0.3
"""Below this trust a memory is quarantined: all sources are above it, what instructs its reader is
not."""


# Namespaces as the database keeps them: a tenant, and the labels after it as one text

_ABOVE_ALL = "\U0010ffff" * (MAX_NAMESPACE_BYTES // 4 + 1)
"""Sorts above every namespace: the last code point, more often than one can hold it."""


class Place(NamedTuple):
    """An exact namespace."""

    tenant: str
    namespace: str


class Scope(NamedTuple):
    """All namespaces under a prefix; `tenant` is None for those of every tenant."""

    tenant: str | None
    low: str
    high: str

    @property
    def kind(self) -> str:
        """Name the width of the scope: everywhere, tenant, or prefix."""
        if self.tenant is None:
            return "everywhere"
        return "prefix" if self.low else "tenant"


def encode_namespace(labels: Sequence[str]) -> Place:
    """Turn labels into the stored form: ("acme", "a", "b") becomes ("acme", "a.b.").

    Raises:
        InvalidInputError: for an empty namespace, one over 400 bytes of UTF-8, or labels that
            are not valid Unicode.
    """
    if not labels:
        raise InvalidInputError("a namespace needs at least one label: the tenant")
    place = Place(labels[0], "".join([f"{label}." for label in labels[1:]]))
    size = utf8_bytes(place.tenant + place.namespace, "namespace")
    if size > MAX_NAMESPACE_BYTES:
        raise InvalidInputError(
            f"the namespace has {size} bytes; use shorter labels, {MAX_NAMESPACE_BYTES} at most"
        )
    return place


@lru_cache(maxsize=1024)
def decode_namespace(tenant: str, namespace: str) -> tuple[str, ...]:
    """Turn the stored form back into labels."""
    return (tenant, *namespace.split(".")[:-1])


def prefix_scope(prefix: Sequence[str]) -> Scope:
    """Bound the namespaces under a prefix of whole labels; the empty prefix is everything."""
    if not prefix:
        return Scope(None, "", _ABOVE_ALL)
    tenant, namespace = encode_namespace(prefix)
    # "/" follows "." in the C collation, so ["a.", "a/") holds exactly what begins with "a.".
    return Scope(tenant, namespace, namespace[:-1] + "/" if namespace else _ABOVE_ALL)


def outside_bounds(looked_after: Sequence[str]) -> dict[str, str]:
    """Build the parameters by which a statement excludes a prefix."""
    bounds = prefix_scope(looked_after)
    return {"project_low": bounds.low, "project_high": bounds.high}


HANDLE_LENGTH: Final = 6
"""Characters of a handle. Of 100,000 memories of a tenant about two share theirs with another."""
_FORM: Final = re.compile(rf"\[?([a-z0-9]{{{HANDLE_LENGTH}}})\]?", re.IGNORECASE)
_NO_SIGNS: Final = str.maketrans("+/", "xy")


def handle_of(namespace: Sequence[str], key: str) -> str:
    """Compute the handle of a memory: six characters of a hash of its namespace and key.

    It is the same wherever and whenever it is asked for. The function `handle` of the database
    computes the same.

    Example:
        ```python
        from langmem_tiers.core.memory import handle_of

        assert handle_of(("acme", "ann"), "4f1c") == handle_of(["acme", "ann"], "4f1c")
        ```
    """
    place = encode_namespace(namespace)
    digest = sha256(f"{place.tenant}.{place.namespace}\n{key}".encode()).digest()
    return b64encode(digest).decode()[:HANDLE_LENGTH].lower().translate(_NO_SIGNS)


def parse_handle(named: str) -> str:
    """Read a handle with or without its brackets; "" if the text is none."""
    match = _FORM.fullmatch(named.strip())
    return match[1].lower() if match else ""


def bracket_handle(handle: str) -> str:
    """Put a handle in brackets, as prompts show it."""
    return f"[{handle}]"


class ReplacedMemory(NamedTuple):
    """A memory that another one replaced."""

    handle: str
    at: datetime
    """When it happened, or was recorded."""


# What is found

_BEGINNING = datetime.min.replace(tzinfo=UTC)


class Moment(NamedTuple):
    """The time of a call, and whether memories that expired by then are hidden."""

    now: datetime
    omit_expired: bool = True

    @property
    def alive_at(self) -> datetime:
        """Memories that expire later than this are visible."""
        return self.now if self.omit_expired else _BEGINNING


USER_ROLES = frozenset({"user", "human"})
ASSISTANT_ROLES = frozenset({"assistant", "ai", "bot"})
ROLES = USER_ROLES | ASSISTANT_ROLES
"""Speakers that are roles: nobody is called by them."""


CONSENSUS: Final = 6.0
"""The reviewers' mean, in 0…10, from which a memory is stored, as specified."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewResult:
    """The result of a panel: the mean, and each member's score and reason."""

    consensus_score: float | None
    """The mean of those who answered, but for `injection`; None if nobody did."""
    agent_scores: Mapping[str, float] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)
    failures: Mapping[str, str] = field(default_factory=dict)
    """Members without a usable score, each with the problem."""

    def stores(self, threshold: float = CONSENSUS) -> bool:
        """Tell whether the mean is high enough; False if nobody answered."""
        return self.consensus_score is not None and self.consensus_score >= threshold

    def refuses(self, threshold: float = CONSENSUS) -> bool:
        """Tell whether the mean is too low; False if nobody answered."""
        return self.consensus_score is not None and self.consensus_score < threshold

    def __str__(self) -> str:
        """Show the mean and each score, the lowest first."""
        each = sorted(self.agent_scores.items(), key=lambda item: (item[1], item[0]))
        parts = [f"{name} {score:.1f} ({self.reasons[name]})" for name, score in each]
        parts += [f"{name} failed ({why})" for name, why in sorted(self.failures.items())]
        mean = "none" if self.consensus_score is None else f"{self.consensus_score:.1f}"
        return f"consensus {mean}: {'; '.join(parts) or 'nobody reviewed it'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recollection:
    """A memory that was recalled, and why.

    `match` says how well it answers the query, in 0…1, and `evidence` what that was made of;
    `score` is what the ranking profile made of it, the sum of the terms in `explanation`.
    Times are UTC. `occurred_at` is when it happened, `created_at` when it was recorded.
    """

    key: str
    namespace: tuple[str, ...]
    tier: Tier
    memory_type: str
    content: str
    value: Mapping[str, Any]
    """The whole stored value."""
    created_at: datetime
    updated_at: datetime
    occurred_at: datetime | None = None
    match: float = 0.0
    evidence: Mapping[str, float] = field(default_factory=dict)
    score: float = 0.0
    explanation: Mapping[str, float] = field(default_factory=dict)
    token_count: int = 0
    importance: float | None = None
    """In 0…1."""
    boost: float = 1.0
    """Factor of its match, capped at 1; reflexions carry 1.5."""
    tags: tuple[str, ...] = ()
    entities: tuple[str, ...] = ()
    speaker: str | None = None
    agent_id: str | None = None
    project_id: str | None = None
    session_id: str | None = None
    source_task: str | None = None
    emotional_valence: str | None = None
    platform_source: str | None = None
    context: Any = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    success_metrics: Mapping[str, Any] = field(default_factory=dict)
    access_count: int = 0
    success_count: int = 0
    failure_count: int = 0
    last_accessed_at: datetime | None = None
    strength: float = 0.0
    """Accesses, each counting half after 30 days, as of the last one or of the last cycle of
    consolidation, whichever is later."""
    outdated: bool = False
    """True if it came, directly or not, from a memory that has been superseded: it may be wrong by
    now. Nobody has judged that; `learning.explain` shows the chain."""
    replaces: ReplacedMemory | None = None
    """The memory that it took the place of last; None if it took none's."""
    review: ReviewResult | None = None
    """The reviewers' result on its relevance, in 0…1; None if nobody was asked."""

    @property
    def place(self) -> tuple[tuple[str, ...], str]:
        """Its namespace and key."""
        return self.namespace, self.key

    @property
    def when(self) -> datetime:
        """When it happened; if that is not known, when it was recorded."""
        return self.occurred_at or self.created_at

    @property
    def handle(self) -> str:
        """The short id by which a model is shown it, and which every verb takes for its key."""
        return handle_of(self.namespace, self.key)

    def __str__(self) -> str:
        """Show the beginning of its content, its tier and type, and its score by terms.

        Control characters are replaced, so it is safe to print. Terms are rounded to 0.01 each.
        """
        terms = "".join(
            f" {'−' if term < 0 else '+'} {abs(term):.2f} {printable_line(name)}"
            for name, term in self.explanation.items()
            if abs(term) >= _VISIBLE
        )
        made_of = terms.removeprefix(" + ").strip()
        score = f"score {_format_term(self.score)}" + (f" = {made_of}" if made_of else "")
        reviewed = "" if self.review is None else f"; {_describe_review(self.review)}"
        reviewed += "; rests on what was superseded" if self.outdated else ""
        what = f"{self.tier} {printable_line(self.memory_type)} {printable_line(self.key)}"
        return f"{shorten_line(self.content, LINE_LENGTH)} ({what}, {score}{reviewed})"


class Recollections(list[Recollection]):
    """Recalled memories, best first: a list that prints well."""

    def __init__(
        self,
        memories: Iterable[Recollection] = (),
        *,
        by_words: str | None = None,
        helps: float = 1.0,
        recall_id: str | None = None,
    ) -> None:
        """Hold what was found."""
        super().__init__(memories)
        self.recall_id = recall_id
        """The id for `admin.replay`, if the recall was recorded; else None."""
        self.helps = helps
        """The chance, in 0…1, that memory helps with what was asked at all."""
        self.by_words = by_words
        """The failure of the embedding model, if words alone were searched; else None."""

    def __str__(self) -> str:
        """Show one line a memory."""
        lines = list(map(str, self)) or ["No memories."]
        lines_before = (
            [] if self.by_words is None else [f"By words alone: {printable_line(self.by_words)}"]
        )
        return "\n".join([*lines, *lines_before])


_VISIBLE = 0.005
"""Terms below this are 0.00 in print, and are left out of lines."""


def _describe_review(review: ReviewResult) -> str:
    """Describe the reviewers' mean, each score with its reason, and the failures."""
    parts = [
        f"{printable_line(name)} {_format_term(score)}: "
        f"{shorten_line(review.reasons[name], LINE_LENGTH)}"
        for name, score in review.agent_scores.items()
    ]
    parts += [
        f"{printable_line(name)} failed: {shorten_line(why, LINE_LENGTH)}"
        for name, why in review.failures.items()
    ]
    mean = review.consensus_score
    return f"relevance {'–' if mean is None else _format_term(mean)}, {', '.join(parts)}"


def _format_term(term: float) -> str:
    return f"{term:z.2f}".replace("-", "−")


def recollection_fields(memory: Recollection) -> dict[str, Any]:
    """Convert all fields but `value` to JSON; times in ISO 8601, labels as a list."""
    return {
        each.name: as_json(getattr(memory, each.name))
        for each in fields(memory)
        if each.name != "value"
    }


def as_json(value: Any, otherwise: Callable[[Any], str] = str) -> Any:
    """Convert a value to readable JSON; `otherwise` names values of unknown types."""
    match value:
        case str() | int() | float() | None:
            return str(value) if isinstance(value, str) else value  # of an enum its value
        case date():
            return value.isoformat()
        case Mapping():
            return {str(name): as_json(each, otherwise) for name, each in value.items()}
        case set() | frozenset():
            return sorted((as_json(each, otherwise) for each in value), key=str)
        case list() | tuple() | KeysView() if not hasattr(value, "_asdict"):
            return [as_json(each, otherwise) for each in value]
    return _record_as_json(value, otherwise)


def _record_as_json(value: Any, otherwise: Callable[[Any], str]) -> Any:
    if hasattr(value, "_asdict"):  # a row; one that has words of its own is told by them
        has_words = "__str__" in vars(type(value))
        return str(value) if has_words else as_json(value._asdict(), otherwise)
    if isinstance(value, Recollection):
        return recollection_fields(value)
    if is_dataclass(value) and type(value).__module__.startswith("langmem_tiers."):
        return {each.name: as_json(getattr(value, each.name), otherwise) for each in fields(value)}
    return otherwise(value)


class Destination(NamedTuple):
    """One memory type that something goes to, and why; what was stored has a key and a tier."""

    memory_type: str
    reason: str
    key: str | None = None
    tier: Tier | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreResult:
    """The result of storing a memory."""

    stored: bool
    key: str | None = None
    """The memory's key; the first one's, if it went to several types."""
    tier: Tier | None = None
    score: float | None = None
    """The reviewers' consensus in 0…10; of what was not `reviewed` the threshold itself, and None
    of what was refused before anybody could review it."""
    reviewed: bool = False
    """True if a reviewer gave it a score."""
    reason: str = "stored"
    """The gate's reason, a sentence that begins with the rule: `trivial: a greeting`."""
    evicted: tuple[str, ...] = ()
    """Keys of memories that made room for it."""
    quarantined: bool = False
    """True if it is stored and not recalled until somebody releases it."""
    trust: float = 1.0
    """In 0…1: as far as its source, and no further than what it is derived from."""
    scores: Mapping[str, float] = field(default_factory=dict)
    """Each reviewer's score, in 0…10."""
    reasons: Mapping[str, str] = field(default_factory=dict)
    """Each reviewer's reason."""
    failures: Mapping[str, str] = field(default_factory=dict)
    """Reviewers who gave no usable score, and what was wrong."""
    destinations: tuple[Destination, ...] = ()
    """The memory types that it went to, the best first; none if it was refused."""
    repeats: str | None = None
    """The key of the memory that it repeats."""
    private: tuple[str, ...] = ()
    """The kinds of private data that detectors found in it."""

    def __str__(self) -> str:
        """Describe the outcome, the tier and the reason."""
        score = "" if self.score is None else f" ({self.score:.1f} of 10{self._unsaid()})"
        if not self.stored:
            return f"not stored: {self.reason}"
        where = self.tier.value if self.tier is not None else "memory"
        if self.quarantined:
            return f"quarantined in {where} as {self.key}: {self.reason}"
        return f"stored in {where} as {self.key}{score}"

    def _unsaid(self) -> str:
        """Explain a score that nobody gave."""
        return "" if self.reviewed else ", the threshold: nobody reviewed it"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryStats:
    """Counts of a tenant's memories, without the expired ones."""

    total_count: int
    by_type: Mapping[str, int]
    by_tier: Mapping[Tier, int]
    accesses: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TierStats:
    """Counts of one tier. Sizes are in bytes and include indexes."""

    tier: Tier
    memories: int
    vectors: int
    tenants: int
    accesses: int
    expiring: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RelationSize:
    """The size on disk of one table or index, in bytes."""

    relation: str
    kind: str
    bytes: int
