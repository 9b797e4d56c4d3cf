"""A session ends: what it noted becomes memories of its project, and the notes are cleared.

All of it is one transaction, so that whatever happens the notes are there, or what became of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

from langmem_tiers.consolidate.lease import check_guard, guard
from langmem_tiers.consolidate.policy import RisePolicy
from langmem_tiers.consolidate.rise import Note, rises
from langmem_tiers.consolidate.session_rules import (
    WORKING,
    Home,
    Kept,
    Summariser,
    Summary,
    homes,
    kept,
    passed_over,
)
from langmem_tiers.consolidate.steps import Applied, Cycle, Decision, Proposal
from langmem_tiers.consolidate.stored import (
    CHANGED,
    Held,
    Stored,
    Unnoted,
    counted,
    decision,
    move_id,
    read,
    version,
)
from langmem_tiers.core.errors import ConflictError
from langmem_tiers.core.memory import ABSENT, Tier, named_by
from langmem_tiers.core.namespaces import Place, decode
from langmem_tiers.postgres.flow import Ask, Call, Flow, Query, Rows, anew, apart
from langmem_tiers.remember.admission import apply
from langmem_tiers.remember.new import write_of
from langmem_tiers.store.write import LOCK, Write, Writing, embed, lock_writes

ENDED = "its session ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionReport:
    """What became of a session that has ended."""

    session_id: str
    semantic: tuple[str, ...] = ()
    """Keys of what is worth knowing in other sessions."""
    episodic: tuple[str, ...] = ()
    """Keys of the digest: what happened. A long one has several parts."""
    cleared: int = 0
    """Memories of type `working` that were removed."""
    risen: int = 0
    """Memories of other types that moved from short_term to working."""
    moves: tuple[str, ...] = ()
    """What `rollback` takes, one for each that has risen."""
    reasons: Mapping[str, int] = field(default_factory=dict)
    """Why something is worth knowing, and how often."""
    not_kept: Mapping[str, int] = field(default_factory=dict)
    """Why a note is in the digest alone, and how often."""
    expired_unread: int = 0
    """Memories of the session that had expired before anybody read them, as far as they are still
    to be removed."""

    def __str__(self) -> str:
        """What was kept, cleared and moved, in one line, and one for each reason."""
        head = (
            f"session {self.session_id}: {self.cleared} notes cleared, {len(self.semantic)} kept, "
            f"{len(self.episodic)} digest{'s' if len(self.episodic) != 1 else ''}, "
            f"{self.risen} moved to working"
            + (f", {self.expired_unread} expired unread" if self.expired_unread else "")
        )
        reasons = [f"  {number:>5,}  {why}" for why, number in sorted(self.reasons.items())]
        others = [
            f"  {number:>5,}  not kept: {why}" for why, number in sorted(self.not_kept.items())
        ]
        return "\n".join([head, *reasons, *others])


class Ending(NamedTuple):
    """A session that has ended, and how to go about it."""

    cycle: Cycle
    session: str
    projects: Sequence[str] | None
    """Those whose session it is, an empty name for none; None for all."""
    namespace: str
    """Its own, as the database names it."""
    policy: RisePolicy
    summariser: Summariser | None = None


class Version(NamedTuple):
    """A memory as it was read."""

    id: int
    namespace: str
    key: str
    version: str
    state: str | None


class Left(NamedTuple):
    """What a session left."""

    notes: list[Stored]
    """What is cleared."""
    keeps: list[Kept]
    passed_over: list[str]
    """Why each of the notes that are not kept is not."""
    rising: list[Stored]
    expired_unread: int


class Found(NamedTuple):
    """What is stored of a session."""

    memories: list[Stored]
    """Its notes, and what else of it is in short_term."""
    expired_unread: int
    """How many there are that expired before anybody read them."""


def end_session(ending: Ending) -> Flow[SessionReport]:
    """Keep what is worth it, clear the notes and let the rest rise, in one transaction.

    Raises:
        ModelError: if the summariser gave nothing usable; nothing was changed.
        ConflictError: if the session went on meanwhile, ten times.
    """
    return anew(lambda: _end(ending))


def _end(ending: Ending) -> Flow[SessionReport]:
    cycle, left = ending.cycle, (yield from _left(ending))
    moves = [move_id(cycle, SessionEnd.name, one.id, None) for one in left.rising]
    if left.notes or left.rising:
        notes = [_version(one) for one in left.notes]
        involved = [*notes, *map(_version, left.rising)]
        writes = _writes(cycle, left.keeps, notes)
        vectors = yield from embed(writes, cycle.options)
        (rows,) = yield from _hold(cycle, writes, involved)
        if not _as_read(rows, involved):
            yield Query((), commit=True)  # which lets go of the locks
            raise ConflictError(f"the session {ending.session!r} went on meanwhile: end it again")
        if left.rising:
            yield Query((_rise(ending, left.rising, moves),))
        writing = Writing(writes, vectors, cycle.moment)
        yield from apply(writing, options=cycle.options, locked=True)
    return SessionReport(
        session_id=ending.session,
        semantic=tuple(one.key for one in left.keeps if one.reason is not None),
        episodic=tuple(one.key for one in left.keeps if one.reason is None),
        cleared=len(left.notes),
        risen=len(left.rising),
        moves=tuple(moves),
        reasons=counted(one.reason for one in left.keeps if one.reason is not None),
        not_kept=counted(left.passed_over),
        expired_unread=left.expired_unread,
    )


def notes_of(ending: Ending) -> Flow[list[Stored]]:
    """What a session has noted so far, in order; what never was so is left out."""
    found = yield from _found(ending)
    notes = [one for one in found.memories if one.memory_type == WORKING]
    return [one for home in homes(ending.session, notes) for one in home.notes]


def _found(ending: Ending) -> Flow[Found]:
    """What is stored of a session."""
    params = {
        "tenant": ending.cycle.tenant,
        "session": ending.session,
        "projects": None if ending.projects is None else list(ending.projects),
        "namespace": ending.namespace,
        "alive_at": ending.cycle.moment.alive_at,
    }
    (rows,) = yield Query((Call("session_memories", params),), commit=True)
    stored = yield from read(ending.cycle, [number for number, gone, _ in rows if not gone])
    return Found(stored, sum(gone and not was_read for _, gone, was_read in rows))


def _left(ending: Ending) -> Flow[Left]:
    """What a session left, and what is to be kept of it; a summariser is asked here."""
    found, expired_unread = yield from _found(ending)
    notes = [one for one in found if one.memory_type == WORKING]
    rising = [one for one in found if one.memory_type != WORKING and one.state is None]
    keeps: list[Kept] = []
    against: list[str] = []
    awaiting = yield from _awaiting(ending.cycle.tenant, notes)
    for home in homes(ending.session, notes, awaiting):
        summary = yield from _summary(ending.summariser, home)
        keeping, passing = yield from apart(
            partial(_kept_of, home, ending.policy, summary),
            sum(len(one.content) for one in home.told()),
        )
        keeps += keeping
        against += passing
    return Left(notes, keeps, against, rising, expired_unread)


def _kept_of(
    home: Home, policy: RisePolicy, summary: Summary | None
) -> tuple[list[Kept], list[str]]:
    return kept(home, policy, summary), list(passed_over(home, policy))


def _awaiting(tenant: str, notes: Sequence[Stored]) -> Flow[frozenset[int]]:
    """Those of the notes that await a review by models."""
    params = {"tenant": tenant, "ids": [one.id for one in notes]}
    (rows,) = yield Query((Call("awaiting_reviews", params),), commit=True)
    return frozenset(row[0] for row in rows)


def _summary(summariser: Summariser | None, home: Home) -> Flow[Summary | None]:
    if summariser is None:
        return None
    told = home.told()
    found: Summary = yield Ask(lambda: summariser.call(told), lambda: summariser.acall(told))
    return found


class SessionEnd(Unnoted):
    """Ends the sessions of a cycle that have ended: their notes are cleared, what counts is kept.

    A decision is about a whole session and names its first note.
    """

    name = "session_end"

    def __init__(self, policy: RisePolicy, summariser: Summariser | None = None) -> None:
        """Hold what makes a note significant, and who sums up a session, if anybody does."""
        self._policy = policy
        self._summariser = summariser

    def select(self, cycle: Cycle, after: int, limit: int) -> Flow[list[int]]:
        """The first note of each session that has ended."""
        ended = [(one, *_names(cycle.tenant, one)) for one in sorted(cycle.ended)]
        if not ended:
            return []
        namespaces, sessions, projects = (list(column) for column in zip(*ended, strict=True))
        params = {
            "tenant": cycle.tenant,
            "namespaces": namespaces,
            "sessions": sessions,
            "projects": projects,
            "after": after,
            "alive_at": cycle.moment.alive_at,
            "limit": limit,
        }
        (rows,) = yield Query((Call("select_ended", params),), commit=True)
        return [row[0] for row in rows]

    def propose(self, cycle: Cycle, ids: Sequence[int]) -> Flow[Proposal]:
        """What is to be kept of each session; a model that sums it up is asked here."""
        decisions = []
        for first in (yield from read(cycle, ids)):
            left = yield from _left(self._ending(cycle, first))
            detail = {
                "notes": [list(_version(one)) for one in left.notes],
                "keeps": [list(one) for one in left.keeps],
            }
            decisions.append(Decision(**{**decision(first, ENDED), "detail": detail}))
        return Proposal(decisions=decisions, kept={})

    def _ending(self, cycle: Cycle, first: Stored) -> Ending:
        session, project = _names(cycle.tenant, first.namespace)
        told = first.value.get("project_id")
        return Ending(
            cycle=cycle,
            session=first.session or session,
            projects=[told if isinstance(told, str) else project],
            namespace=first.namespace,
            policy=self._policy,
            summariser=self._summariser,
        )

    def apply(self, cycle: Cycle, decisions: Sequence[Decision]) -> Flow[Applied]:
        """End them one by one, those that are as they were read."""
        done: list[str] = []
        left: list[str] = []
        for one in decisions:
            against = yield from anew(partial(_ended, cycle, one))
            (left if against else done).append(against or one["reason"])
        return Applied(done=counted(done), left=counted(left), moves=[])


def _ended(cycle: Cycle, one: Decision) -> Flow[str | None]:
    """End the session of a decision, in one transaction; why not, if it cannot be."""
    notes = [Version(*each) for each in one["detail"]["notes"]]
    keeps = [Kept(*each) for each in one["detail"]["keeps"]]
    writes = _writes(cycle, keeps, notes)
    vectors = yield from embed(writes, cycle.options)
    known = [each for each in writes if each.value is not None]
    params = {
        "tenants": [each.place.tenant for each in known],
        "namespaces": [each.place.namespace for each in known],
        "keys": [each.key for each in known],
    }
    further = (guard(cycle), Call("get_many", params))
    rows, guarded, stored = yield from _hold(cycle, writes, notes, further)
    check_guard(guarded, cycle.tenant)
    if not _as_read(rows, notes):
        yield Query((), commit=True)  # which lets go of the locks
        return None if not rows and len(stored) == len(known) else CHANGED
    writing = Writing(writes, vectors, cycle.moment)
    yield from apply(writing, options=cycle.options, locked=True)
    return None


def _hold(
    cycle: Cycle,
    writes: Sequence[Write],
    involved: Sequence[Version],
    further: Iterable[Call] = (),
) -> Flow[list[Rows]]:
    """Lock what is written and moved, and see how the memories are now."""
    keys = [(cycle.tenant, one.namespace, one.key) for one in involved]
    lock = lock_writes(writes, cycle.options, [(cycle.tenant, "", LOCK), *keys])
    ids = sorted(one.id for one in involved)
    held = {"tenant": cycle.tenant, "ids": ids, "alive_at": cycle.moment.alive_at}
    answers: list[Rows] = yield Query((lock, Call("hold_memories", held), *further))
    return answers[1:]


def _as_read(rows: Rows, involved: Sequence[Version]) -> bool:
    """Whether all are there as they were read."""
    now = {one.id: one for one in (Held(*row) for row in rows) if one.alive}
    return all(
        one.id in now
        and version(now[one.id].updated_at) == one.version
        and now[one.id].state == one.state
        for one in involved
    )


def _writes(cycle: Cycle, keeps: Iterable[Kept], notes: Iterable[Version]) -> list[Write]:
    """The puts of what is kept, and the deletions of the notes."""
    puts = [
        replace(
            write_of(
                one.value,
                place=Place(cycle.tenant, one.namespace),
                key=one.key,
                index=cycle.options.index,
                tier=Tier.WORKING,
            ),
            awaits_review=one.awaits_review,
        )
        for one in keeps
    ]
    gone = [
        Write(place=Place(cycle.tenant, one.namespace), key=one.key, value=None) for one in notes
    ]
    return [*puts, *gone]


def _rise(ending: Ending, rising: Sequence[Stored], moves: Sequence[str]) -> Call:
    reasons = [
        rises(Note(one.importance, one.access_count, session_ended=True), ending.policy)
        for one in rising
    ]
    params = {
        "tenant": ending.cycle.tenant,
        "ids": [one.id for one in rising],
        "events": list(moves),
        "reasons": reasons,
        "ttl": ending.cycle.options.tier_ttl.get(Tier.WORKING),
        "now": ending.cycle.moment.now,
    }
    return Call("record_rises", params)


def _version(one: Stored) -> Version:
    return Version(one.id, one.namespace, one.key, one.version, one.state)


def _names(tenant: str, namespace: str) -> tuple[str, str]:
    """The session and the project of a session's namespace; empty names for none."""
    _, project, session, *_ = (*decode(tenant, namespace), ABSENT, ABSENT)
    return named_by(session) or "", named_by(project) or ""
