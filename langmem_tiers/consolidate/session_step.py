"""The step of a cycle that ends sessions: those that it is told of, and those long idle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langmem_tiers.consolidate.lease import guard
from langmem_tiers.consolidate.models import Summariser
from langmem_tiers.consolidate.session_end import (
    ENDED,
    EndedSession,
    ReadVersion,
    keep,
    left_of,
    puts,
    reads,
    versions,
)
from langmem_tiers.consolidate.session_rules import Kept
from langmem_tiers.consolidate.steps import (
    Cycle,
    CycleStep,
    Proposal,
    StepCounts,
    StepDecision,
    counted,
    decision,
)
from langmem_tiers.consolidate.stored import CHANGED, Stored, read, select
from langmem_tiers.core.context import ABSENT, named_by, users_labels
from langmem_tiers.core.namespaces import Place, decode
from langmem_tiers.postgres.flow import Call, Flow, Query, begun_anew, rows_of
from langmem_tiers.store.write import keys_of


def ended_sessions(cycle: Cycle) -> Flow[list[str]]:
    """Where the sessions have their notes that ended: as a cycle was told, and those long idle."""
    if cycle.idle_since is None:
        return sorted(cycle.ended)
    rows = yield from rows_of("idle_sessions", tenant=cycle.tenant, since=cycle.idle_since)
    return sorted(cycle.ended.union(row[0] for row in rows))


class SessionEnd(CycleStep):
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
        params = {
            "namespaces": ended,
            "homes": [_home(*one) for one in zip(ended, users, strict=True)],
            "sessions": [session for session, _ in names],
            "projects": [project for _, project in names],
            "users": users,
        }
        found = (yield from select(cycle, "select_ended", after, limit, **params)) if ended else []
        if self._summariser is None or cycle.idle_since is None:
            return found
        unread = yield from self._unread(cycle, after, limit, params)
        return sorted({*found, *unread})[:limit]

    def _unread(
        self, cycle: Cycle, after: int, limit: int, ended: Mapping[str, Any]
    ) -> Flow[list[int]]:
        """What was said first of each session that the model has not read and that has ended."""
        since = {"since": cycle.idle_since}
        return select(cycle, "select_unread", after, limit, **ended, **since)

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
            decisions.append(decision(first, ENDED, detail=detail))
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
        done: list[str] = []
        left: list[str] = []
        for one in decisions:
            ends = yield from _ends(cycle, one)
            (done if ends else left).append(one["reason"] if ends else CHANGED)
        return StepCounts(done=counted(done), left=counted(left), moves=[])


@begun_anew
def _ends(cycle: Cycle, one: StepDecision) -> Flow[bool]:
    """End the session of a decision, in one transaction; whether it has ended then."""
    notes = [ReadVersion(*each) for each in one["detail"]["notes"]]
    said = [ReadVersion(*each) for each in one["detail"]["said"]]
    keeps = [Kept(*each) for each in one["detail"]["keeps"]]
    recorded = reads(cycle, [each.id for each in said])
    asked = (guard(cycle),)
    if (yield from keep(cycle, keeps, notes, said, recorded=recorded, asked=asked)):
        return True
    there = Call("stored_memories", {"tenant": cycle.tenant, "ids": [each.id for each in notes]})
    kept_before = Call("get_many", keys_of(puts(cycle, keeps)))
    left, stored = yield Query((there, kept_before), commit=True)
    return not left and len(stored) == len(keeps)


def _home(namespace: str, user_id: str | None) -> str:
    """Where the project of a session's namespace keeps what is the same user's."""
    labels = (namespace.partition(".")[0], *users_labels(user_id))
    return "".join(f"{one}." for one in labels)


def _names(tenant: str, namespace: str) -> tuple[str, str]:
    """The session and the project of a session's namespace; empty names for none."""
    _, project, session, *_ = (*decode(tenant, namespace), ABSENT, ABSENT)
    return named_by(session) or "", named_by(project) or ""
