"""A session ends: what it noted becomes memories of its project, and the notes are cleared.

All of it is one transaction, so that whatever happens the notes are there, or what became of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

from langmem_tiers.consolidate.lease import check_guard
from langmem_tiers.consolidate.models import Summariser, Summary
from langmem_tiers.consolidate.session_rules import (
    WORKING,
    Home,
    Kept,
    homes,
    worth,
)
from langmem_tiers.consolidate.steps import (
    Cycle,
    counted,
    version,
)
from langmem_tiers.consolidate.stored import (
    Stored,
    StoredNow,
    move_id,
    read,
)
from langmem_tiers.core.errors import ConflictError
from langmem_tiers.core.memory import Tier
from langmem_tiers.core.namespaces import Place
from langmem_tiers.postgres.flow import Ask, Call, Flow, Rows, apart, begun_anew, rows_of
from langmem_tiers.remember.new import write_of
from langmem_tiers.remember.transaction import write_if
from langmem_tiers.store.write import LOCK, Write

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
        reasons = [f"  {number:>5,}  {why}" for why, number in sorted(self.reasons.items())]
        others = [
            f"  {number:>5,}  not kept: {why}" for why, number in sorted(self.not_kept.items())
        ]
        return "\n".join([head, *reasons, *others])


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
    rows = yield from rows_of(
        "session_memories",
        **ended.cycle.params,
        session=ended.session,
        projects=None if ended.projects is None else list(ended.projects),
        namespaces=list(ended.namespaces),
        user_id=ended.user_id,
    )
    stored = yield from read(ended.cycle, [number for number, gone, _ in rows if not gone])
    return stored, sum(gone and not was_read for _, gone, was_read in rows)


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
        found = yield from apart(
            partial(worth, home, summary, stated=ended.stated),
            sum(len(one.content) for one in home.notes),
        )
        keeps += found.keeps
        against += found.passed_over
    return Left(notes, keeps, against, rising, said, expired_unread)


def _said(ended: EndedSession) -> Flow[list[Stored]]:
    """What was said in a session beside its notes, for a model that reads it: each thing once."""
    if ended.summariser is None or not ended.session:
        return []
    rows = yield from rows_of(
        "session_said",
        **ended.cycle.params,
        session=ended.session,
        projects=None if ended.projects is None else list(ended.projects),
        user_id=ended.user_id,
    )
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
            check_guard(one, cycle.tenant)
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
    now = {one.id: one for one in (StoredNow(*row) for row in rows) if one.alive}
    return all(
        one.id in now
        and version(now[one.id].updated_at) == one.version
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
