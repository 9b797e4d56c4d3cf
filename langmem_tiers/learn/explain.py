"""Why a memory stands where it stands: its evidence, its history, and what it came from."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from langmem_tiers.core.context import MemoryContext
from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.core.memory import Tier
from langmem_tiers.core.namespaces import decode
from langmem_tiers.core.reading import LINE, plain, shortened
from langmem_tiers.core.values import shown_beside
from langmem_tiers.learn.outcome import Interval, beta_interval
from langmem_tiers.learn.promote import Near, Promoting, assess, evidence
from langmem_tiers.learn.promotion_rules import Candidate, PromotionDecision
from langmem_tiers.postgres.flow import Call, Flow, Query, Row

CONFIDENCE = 0.95
_RISEN = ("promoted", "reinforced")


class Relative(NamedTuple):
    """A memory that another came from, or that came of it."""

    role: str
    """`source`; `successor`: it was promoted as that, or lives on in it; or `derived`: it was
    concluded from the memory."""
    namespace: tuple[str, ...]
    key: str
    tier: Tier
    state: str | None
    content: str
    """Empty of what is quarantined, and of what another project keeps."""


class Origin(NamedTuple):
    """A memory that another one came from, in the chain of what depends on what."""

    path: tuple[str, ...]
    """Keys from the memory that was asked for to this one, by the shortest way."""
    namespace: tuple[str, ...]
    tier: Tier
    state: str | None
    """`retracted` makes suspect all that came from it; `superseded` makes it outdated."""
    content: str
    """Empty of what is quarantined, and of what another project keeps."""
    replaced: bool = False
    """True if the memory that came of it, on this path, is the one that superseded it."""

    @property
    def key(self) -> str:
        """Its own."""
        return self.path[-1]


class MoveRecord(NamedTuple):
    """A move in a memory's life."""

    move: str
    kind: str
    """`promoted`, `reinforced`, `demoted`, `merged`, `risen`, `superseded`, `retracted`; or
    `reflected`: an attempt lives on in its lesson; or `derived`: it was concluded from another; or
    `quarantined`, `released`, `rejected`, `evicted`: what the gate, or somebody after it, did; or
    `deleted`: what it had been merged into was deleted; or `read`, as its session
    ended, by a model that summed it up."""
    at: datetime
    reasons: tuple[str, ...]
    undone_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What is known of a memory's worth, and how it came to stand where it stands."""

    key: str
    namespace: tuple[str, ...]
    tier: Tier
    state: str | None
    """None is current; `consolidated` lives on in what it was merged with, or was promoted, and is
    recalled in its own project as before; `demoted` failed there;
    `superseded` was true until `valid_to`; `retracted` never was; `suspect` came from what never
    was; `quarantined` is held back by the gate."""
    state_at: datetime | None
    """Since when that is known."""
    valid_from: datetime
    """When it began to be true: as told, else when it happened or was recorded, whichever is
    earlier."""
    valid_to: datetime | None
    recorded_at: datetime
    memory_type: str
    content: str
    access_count: int
    success_count: int
    failure_count: int
    projects: tuple[str, ...]
    success_interval: Interval
    """Where its true rate of success lies, with a confidence of 95 %, over a uniform prior."""
    decision: PromotionDecision | None
    """Whether the policy would promote it now; None outside working, and of what was promoted."""
    near: tuple[Near, ...]
    """What is near to it in working, in any project, and says something else: that is no evidence;
    empty where nothing is decided."""
    history: tuple[MoveRecord, ...]
    sources: tuple[Relative, ...]
    successors: tuple[Relative, ...]
    derived: tuple[Relative, ...]
    """What was concluded from it."""
    origins: tuple[Origin, ...]
    """What it came from, what that came from, and so on: the nearest first, each once."""

    @property
    def outdated_by(self) -> tuple[Origin, ...]:
        """Return its origins that are superseded, unless by one that it rests on instead."""
        return tuple(one for one in self.origins if one.state == "superseded" and not one.replaced)

    def __str__(self) -> str:
        """A paragraph of a line each: what it says, its evidence, its history, its relatives."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        since = "" if self.state_at is None else f" since {self.state_at:%Y-%m-%d}"
        rests = ", rests on what was superseded" if self.outdated_by else ""
        until = "" if self.valid_to is None else f" until {self.valid_to:%Y-%m-%d}"
        yield f"memory: {shortened(self.content, LINE)}"
        kind = plain(self.memory_type)
        yield f"stands: {self.tier} {kind}, {self.state or 'current'}{since}{rests}"
        yield f"true: from {self.valid_from:%Y-%m-%d}{until}, recorded {self.recorded_at:%Y-%m-%d}"
        yield f"evidence: {self._evidence()}"
        if self.decision is not None:
            yield f"policy: {self.decision.verdict}: {self.decision}"
        if self.near:
            yield f"near, not counted: {plain(', '.join(map(str, self.near)))}"
        for one in self.history:
            undone = " (rolled back)" if one.undone_at else ""
            yield f"{one.at:%Y-%m-%d} {one.kind}{undone}: {'; '.join(one.reasons)}"
        for origin in self.origins:
            if origin.state == "retracted" or origin in self.outdated_by:
                yield f"{origin.state}: {' → '.join(map(plain, reversed(origin.path)))}"
        for other in (*self.sources, *self.successors, *self.derived):
            said = f": {shortened(other.content, LINE)}" if other.content else ""
            stands = f"({other.tier}, {other.state or 'current'})"
            yield f"{other.role}: {plain(other.key)} {stands}{said}"

    def _evidence(self) -> str:
        low, high = self.success_interval
        tries = self.success_count + self.failure_count
        of_tries = f"{self.success_count} of {tries} runs succeeded, {low:.2f} to {high:.2f}"
        projects = ", ".join(map(plain, self.projects)) or "none"
        return f"{self.access_count} accesses, {of_tries}; projects: {projects}"


def explain(memory_id: int, how: Promoting, context: MemoryContext) -> Flow[Explanation]:
    """Read all that is known of a memory in that context, in two round trips.

    Raises:
        InvalidInputError: if it was removed meanwhile.
    """
    found = yield from evidence(how.tenant, [memory_id])
    params = {**context.whose, "id": memory_id}
    names = ("history_of", "relatives", "derivation")
    standing = Call("standing", {"tenant": how.tenant, "ids": [memory_id]})
    *answers, rows = yield Query((*(Call(name, params) for name in names), standing), commit=True)
    if not (found and rows):
        raise InvalidInputError("the memory was removed meanwhile: there is nothing to explain")
    history, relatives, edges = answers
    plan = assess(found[0], how)
    source = plan.candidate
    _, _, _, began, ended, recorded_at, *_ = rows[0]
    state, state_at = _state(source, rows[0], history)
    related = [_relative(row, context) for row in relatives]
    is_open = source.tier == Tier.WORKING and source.state is None and source.successor is None
    return Explanation(
        key=source.key,
        namespace=decode(how.tenant, source.namespace),
        tier=Tier(source.tier),
        state=state,
        state_at=state_at,
        valid_from=began,
        valid_to=ended,
        recorded_at=recorded_at,
        memory_type=source.memory_type,
        content=source.content,
        access_count=source.access_count,
        success_count=source.success_count,
        failure_count=source.failure_count,
        projects=tuple(plan.evidence.projects),
        success_interval=beta_interval(source.success_count, source.failure_count, CONFIDENCE),
        decision=plan.decision if is_open else None,
        near=plan.near if is_open else (),
        history=tuple(move_record(row) for row in history),
        sources=tuple(one for one in related if one.role == "source"),
        successors=tuple(one for one in related if one.role == "successor"),
        derived=tuple(one for one in related if one.role == "derived"),
        origins=tuple(_origins(source, edges, context)),
    )


def _state(
    source: Candidate, standing: Row, history: Sequence[Row]
) -> tuple[str | None, datetime | None]:
    """A memory's state, and since when that is known; what was promoted is told to be that."""
    _, state, state_at, *_ = standing
    if state is not None or source.successor is None or source.successor["state"] == "demoted":
        return state, state_at
    ats = [at for _, kind, at, _, undone in history if kind in _RISEN and undone is None]
    return "consolidated", max(ats, default=None)


def _origins(source: Candidate, edges: Sequence[Row], context: MemoryContext) -> Iterator[Origin]:
    """All that a memory came from, nearest first."""
    of: dict[int, list[Row]] = {}
    for edge in edges:
        of.setdefault(edge[0], []).append(edge)
    known = {source.id}
    waiting: deque[tuple[int, tuple[str, ...], bool]] = deque([(source.id, (source.key,), False)])
    while waiting:
        one, path, replaced = waiting.popleft()
        for _, origin, namespace, key, tier, state, value, seen, by in of.get(one, ()):
            if seen and origin not in known:
                known.add(origin)
                waiting.append((origin, (*path, key), by or replaced))
                place = decode(context.root, namespace)
                said = said_beside(value, state, Tier(tier), place, context)
                yield Origin((*path, key), place, Tier(tier), state, said, by or replaced)


def move_record(row: Row) -> MoveRecord:
    """A move as `history` tells it: its name, kind, moment, detail, and when it was undone."""
    move, kind, at, detail, undone_at = row
    facts: Mapping[str, Any] = detail
    return MoveRecord(move, kind, at, tuple(facts.get("reasons", ())), undone_at)


def said_beside(
    value: Mapping[str, Any],
    state: str | None,
    tier: Tier,
    namespace: tuple[str, ...],
    context: MemoryContext,
) -> str:
    """What is shown of a memory beside another: nothing of what is quarantined, or not reached."""
    return shown_beside(value, state) if context.reaches(tier, namespace) else ""


def _relative(row: Row, context: MemoryContext) -> Relative:
    role, namespace, key, tier, state, value = row
    place = decode(context.root, namespace)
    said = said_beside(value, state, Tier(tier), place, context)
    return Relative(role, place, key, Tier(tier), state, said)
