"""A session ends: what it noted becomes memories of its project, and the notes are cleared.

All of it is one transaction, so that whatever happens the notes are there, or what became of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

from langmem_tiers.consolidate import lease, steps, stored
from langmem_tiers.consolidate.models import Summariser, Summary
from langmem_tiers.consolidate.session_rules import WORKING, Home, Kept, homes, worth
from langmem_tiers.consolidate.steps import Cycle, Proposal, StepCounts, StepDecision, counted
from langmem_tiers.consolidate.stored import Stored, move_id, read
from langmem_tiers.core.context import ABSENT, named_by, users_labels
from langmem_tiers.core.errors import ConflictError
from langmem_tiers.core.memory import Tier
from langmem_tiers.core.namespaces import Place, decode
from langmem_tiers.postgres.flow import Ask, Call, Flow, Query, Rows, apart, begun_anew, rows_of
from langmem_tiers.remember.new import write_of
from langmem_tiers.remember.transaction import write_if
from langmem_tiers.store.write import LOCK, Write, keys_of

ENDED = "its session ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionReport:
    """What became of a session that has ended."""

    session_id: str
    semantic: tuple[str, ...] = ()
    """Keys of what was lifted: it is known in other sessions."""
    episodic: tuple[str, ...] = ()
    """Keys of the digest: what happened. A long one has several parts."""
    cleared: int = 0
    """Memories of type `working` that were removed."""
    risen: int = 0
    """Memories of other types that moved from short_term to working."""
    moves: tuple[str, ...] = ()
    """What `rollback` takes, one for each that has risen."""
    reasons: Mapping[str, int] = field(default_factory=dict)
    """Why something was lifted, and how often."""
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
        reasons = [(number, why) for why, number in sorted(self.reasons.items())]
        others = [(number, f"not kept: {why}") for why, number in sorted(self.not_kept.items())]
        return "\n".join([head, *(f"  {one:>5,}  {why}" for one, why in (*reasons, *others))])


class EndedSession(NamedTuple):
    """A session that has ended, and how to go about it."""

    cycle: Cycle
    session: str
    projects: Sequence[str] | None
    """Those whose session it is, an empty name for none; None for all."""
    namespaces: Sequence[str]
    """Its own, as the database names them."""
    user_id: str | None
    """Who ends it: what is another user's stays."""
    summariser: Summariser | None = None
    stated: bool = False
    """Whether what the user stated is lifted too, as the specification's hook does."""

    @property
    def params(self) -> dict[str, Any]:
        """Whose session it is, as statements ask for it."""
        projects = None if self.projects is None else list(self.projects)
        whose = {"session": self.session, "projects": projects, "user_id": self.user_id}
        return {**self.cycle.params, **whose}


class ReadVersion(NamedTuple):
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
    said: list[Stored]
    """What else was said in it and a model read; it stays."""
    expired_unread: int
    """How many there are that expired before anybody read them."""


@begun_anew
def end_session(ended: EndedSession) -> Flow[SessionReport]:
    """Keep what is worth it, clear the notes and let the rest rise, in one transaction.

    Raises:
        ModelError: if the summariser gave nothing usable; nothing was changed.
        ConflictError: if the session went on meanwhile, ten times.
    """
    left = yield from left_of(ended)
    moves = [move_id(ended.cycle, "session_end", one.id) for one in left.rising]
    if left.notes or left.rising or left.said:
        stay = versions([*left.rising, *left.said])
        recorded = [_rise(ended, left.rising, moves)] if left.rising else []
        recorded += reads(ended.cycle, [one.id for one in left.said])
        notes = versions(left.notes)
        if not (yield from keep(ended.cycle, left.keeps, notes, stay, recorded=recorded)):
            raise ConflictError(f"the session {ended.session!r} went on meanwhile: end it again")
    return SessionReport(
        session_id=ended.session,
        semantic=tuple(one.key for one in left.keeps if one.reason is not None),
        episodic=tuple(one.key for one in left.keeps if one.reason is None),
        cleared=len(left.notes),
        risen=len(left.rising),
        moves=tuple(moves),
        reasons=counted(one.reason for one in left.keeps if one.reason is not None),
        not_kept=counted(left.passed_over),
        expired_unread=left.expired_unread,
    )


def notes_of(ended: EndedSession) -> Flow[list[Stored]]:
    """What a session has noted so far, in order; what never was so is left out."""
    found, _ = yield from _memories(ended)
    notes = [one for one in found if one.memory_type == WORKING]
    return [one for home in homes(ended.session, notes) for one in home.notes]


def _memories(ended: EndedSession) -> Flow[tuple[list[Stored], int]]:
    """The notes of a session and what else of it is in short_term; and what expired unread."""
    own = list(ended.namespaces)
    rows = yield from rows_of("session_memories", **ended.params, namespaces=own)
    found = yield from read(ended.cycle, [number for number, gone, _ in rows if not gone])
    return found, sum(gone and not was_read for _, gone, was_read in rows)


def left_of(ended: EndedSession) -> Flow[Left]:
    """What a session left, and what is to be kept of it; a summariser is asked here."""
    memories, expired_unread = yield from _memories(ended)
    notes = [one for one in memories if one.memory_type == WORKING]
    rising = [one for one in memories if one.memory_type != WORKING and one.state is None]
    keeps: list[Kept] = []
    against: list[str] = []
    ids = [one.id for one in notes]
    rows = yield from rows_of("recalled_again", tenant=ended.cycle.tenant, ids=ids)
    said = yield from _said(ended)
    for home in homes(ended.session, notes, frozenset(row[0] for row in rows), said):
        summary = yield from _summary(ended.summariser, home)
        lifted, others = yield from apart(
            partial(worth, home, summary, stated=ended.stated),
            sum(len(one.content) for one in home.notes),
        )
        keeps += lifted
        against += others
    return Left(notes, keeps, against, rising, said, expired_unread)


def _said(ended: EndedSession) -> Flow[list[Stored]]:
    """What was said in a session beside its notes, for a model that reads it: each thing once."""
    if ended.summariser is None or not ended.session:
        return []
    rows = yield from rows_of("session_said", **ended.params)
    return (yield from read(ended.cycle, [row[0] for row in rows]))


def _summary(summariser: Summariser | None, home: Home) -> Flow[Summary | None]:
    if summariser is None:
        return None
    notes = home.told
    found: Summary = yield Ask(lambda: summariser.call(notes), lambda: summariser.acall(notes))
    return found


def keep(
    cycle: Cycle,
    keeps: Sequence[Kept],
    notes: Sequence[ReadVersion],
    stay: Sequence[ReadVersion] = (),
    *,
    recorded: Sequence[Call] = (),
    asked: Sequence[Call] = (),
) -> Flow[bool]:
    """Store what is kept and clear the notes, in one transaction, if all is as it was read.

    What rises and what was read of what is to `stay` is `recorded` with it. A guard that is `asked`
    says whether the cycle may write.
    """
    involved = [*notes, *stay]
    gone = [
        Write(place=Place(cycle.tenant, one.namespace), key=one.key, value=None) for one in notes
    ]
    held = {**cycle.params, "ids": sorted(one.id for one in involved)}

    def stands(answers: list[Rows]) -> bool:
        rows, before, *guarded = answers
        for one in guarded:
            lease.check_guard(one, cycle.tenant)
        return _as_read(rows, involved) and not before

    applied = yield from write_if(
        [*puts(cycle, keeps), *gone],
        options=cycle.options,
        moment=cycle.moment,
        keys=[(cycle.tenant, "", LOCK), *((cycle.tenant, *one[1:3]) for one in involved)],
        calls=(Call("hold_memories", held), Call("read_before", held), *asked),
        stands=stands,
        further=lambda _: recorded,
    )
    return applied is not None


def _as_read(rows: Rows, involved: Sequence[ReadVersion]) -> bool:
    """Whether all are there as they were read."""
    now = {one.id: one for one in (stored.StoredNow(*row) for row in rows) if one.alive}
    return all(
        one.id in now
        and steps.version(now[one.id].updated_at) == one.version
        and now[one.id].state == one.state
        for one in involved
    )


def puts(cycle: Cycle, keeps: Sequence[Kept]) -> list[Write]:
    """The puts of what is kept."""
    return [
        replace(
            write_of(
                one.value,
                place=Place(cycle.tenant, one.namespace),
                key=one.key,
                index=cycle.options.index,
                tier=Tier.WORKING,
            ),
            sources=tuple((Place(cycle.tenant, at), key) for at, key in one.sources),
        )
        for one in keeps
    ]


def _rise(ended: EndedSession, rising: Sequence[Stored], moves: Sequence[str]) -> Call:
    params = {
        **ended.cycle.params,
        "ids": [one.id for one in rising],
        "events": list(moves),
        "reasons": [ENDED for _ in rising],
        "ttl": ended.cycle.options.tier_ttl.get(Tier.WORKING),
    }
    return Call("record_rises", params)


def reads(cycle: Cycle, ids: Sequence[int]) -> list[Call]:
    """That a model has read these."""
    events = [move_id(cycle, "read", one) for one in ids]
    params = {**cycle.params, "ids": ids, "events": events, "reason": ENDED}
    return [Call("record_reads", params)] if ids else []


def versions(several: Sequence[Stored]) -> list[ReadVersion]:
    """These, as they were read."""
    return [ReadVersion(one.id, one.namespace, one.key, one.version, one.state) for one in several]


def ended_sessions(cycle: Cycle) -> Flow[list[str]]:
    """Where the sessions have their notes that ended: as a cycle was told, and those long idle."""
    if cycle.idle_since is None:
        return sorted(cycle.ended)
    rows = yield from rows_of("idle_sessions", tenant=cycle.tenant, since=cycle.idle_since)
    return sorted(cycle.ended.union(row[0] for row in rows))


class SessionEnd(steps.CycleStep):
    """Ends the sessions of a cycle that have ended: their notes are cleared, what counts is kept.

    A decision is about a whole session and names its first note.
    """

    name = "session_end"

    def __init__(self, summariser: Summariser | None = None) -> None:
        """Hold who sums up a session, if anybody does."""
        self._summariser = summariser

    def select(self, cycle: Cycle, after: int, limit: int) -> Flow[list[int]]:
        """The first note of each session that has ended."""
        ended = yield from ended_sessions(cycle)
        names = [_names(cycle.tenant, one) for one in ended]
        users = [cycle.options.user_of(Place(cycle.tenant, one)) for one in ended]
        params: dict[str, Any] = {
            "namespaces": ended,
            "homes": [_home(*one) for one in zip(ended, users, strict=True)],
            "sessions": [session for session, _ in names],
            "projects": [project for _, project in names],
            "users": users,
        }
        found = (
            (yield from stored.select(cycle, "select_ended", after, limit, **params))
            if ended
            else []
        )
        if self._summariser is None or cycle.idle_since is None:
            return found
        params["since"] = cycle.idle_since
        unread = yield from stored.select(cycle, "select_unread", after, limit, **params)
        return sorted({*found, *unread})[:limit]

    def propose(self, cycle: Cycle, ids: Sequence[int]) -> Flow[Proposal]:
        """What is to be kept of each session; a model that sums it up is asked here."""
        decisions = []
        for first in (yield from read(cycle, ids)):
            left = yield from left_of(self._ended(cycle, first))
            detail = {
                "notes": [list(one) for one in versions(left.notes)],
                "said": [list(one) for one in versions(left.said)],
                "keeps": [list(one) for one in left.keeps],
            }
            decisions.append(steps.decision(first, ENDED, detail=detail))
        return Proposal(decisions=decisions, kept={})

    def _ended(self, cycle: Cycle, first: Stored) -> EndedSession:
        session, project = _names(cycle.tenant, first.namespace)
        told = first.value.get("project_id")
        return EndedSession(
            cycle=cycle,
            session=first.session or session,
            projects=[told if isinstance(told, str) else project],
            namespaces=[first.namespace] if (first.session or "") == session else [],
            user_id=first.user_id,
            summariser=self._summariser,
        )

    def apply(self, cycle: Cycle, decisions: Sequence[StepDecision]) -> Flow[StepCounts]:
        """End them one by one, those that are as they were read."""
        left = {}
        for one in decisions:
            if not (yield from _ends(cycle, one)):
                left[one["id"]] = stored.CHANGED
        return steps.carried_out(decisions, left)


@begun_anew
def _ends(cycle: Cycle, one: StepDecision) -> Flow[bool]:
    """End the session of a decision, in one transaction; whether it has ended then."""
    notes = [ReadVersion(*each) for each in one["detail"]["notes"]]
    said = [ReadVersion(*each) for each in one["detail"]["said"]]
    keeps = [Kept(*each) for each in one["detail"]["keeps"]]
    recorded = reads(cycle, [each.id for each in said])
    asked = (lease.guard(cycle),)
    if (yield from keep(cycle, keeps, notes, said, recorded=recorded, asked=asked)):
        return True
    there = Call("stored_memories", {"tenant": cycle.tenant, "ids": [each.id for each in notes]})
    kept_before = Call("get_many", keys_of(puts(cycle, keeps)))
    left, kept = yield Query((there, kept_before), commit=True)
    return not left and len(kept) == len(keeps)


def _home(namespace: str, user_id: str | None) -> str:
    """Where the project of a session's namespace keeps what is the same user's."""
    labels = (namespace.partition(".")[0], *users_labels(user_id))
    return "".join(f"{one}." for one in labels)


def _names(tenant: str, namespace: str) -> tuple[str, str]:
    """The session and the project of a session's namespace; empty names for none."""
    _, project, session, *_ = (*decode(tenant, namespace), ABSENT, ABSENT)
    return named_by(session) or "", named_by(project) or ""
