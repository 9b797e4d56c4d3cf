"""Namespaces of a coordinator, for verbs that few agents call themselves.

They are `memory.reminders`, `memory.learning`, `memory.truth` and `memory.admin`.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from langmem_tiers.coordinator import (
    admin,
    forgetting,
    learning,
    outcomes,
    promotion,
    recall,
    reminders,
    sessions,
    truth,
)
from langmem_tiers.coordinator.base import Memory
from langmem_tiers.core.tracing import RunType
from langmem_tiers.postgres.flow import Flow, both

T = TypeVar("T")
P = ParamSpec("P")


class Namespace:
    """Group of a coordinator's verbs."""

    def __init__(self, memory: Memory) -> None:
        """Let the verbs act on this memory."""
        self.memory, self.context, self.runner = memory, memory.context, memory.runner

    def __repr__(self) -> str:
        """Return the coordinator and the name of the attribute."""
        return f"{self.memory!r}.{self.called}"

    @property
    def called(self) -> str:
        """Name of its attribute of a coordinator."""
        return type(self).__name__.lower()


def _both(
    verb: Callable[Concatenate[Memory, P], Flow[T]], run_type: RunType | None = None
) -> tuple[
    Callable[Concatenate[Namespace, P], T],
    Callable[Concatenate[Namespace, P], Coroutine[Any, Any, T]],
]:
    """Return the blocking and the awaited method of a verb in a namespace; see `both`."""

    @wraps(verb)
    def flow(self: Namespace, /, *args: P.args, **options: P.kwargs) -> Flow[T]:
        return verb(self.memory, *args, **options)

    return both(flow, run_type)


class Reminders(Namespace):
    """Verbs of reminders: intentions that are raised when they are due; see docs/reminders.md."""

    add, aadd = _both(reminders.add, "tool")
    due, adue = _both(reminders.due, "tool")
    list, alist = _both(reminders.list_)
    acknowledge, aacknowledge = _both(reminders.acknowledge, "tool")
    snooze, asnooze = _both(reminders.snooze, "tool")
    complete, acomplete = _both(reminders.complete, "tool")
    cancel, acancel = _both(reminders.cancel, "tool")


class Learning(Namespace):
    """Verbs of lessons, outcomes and promotions; see docs/learning.md."""

    reflect, areflect = _both(learning.reflect, "tool")
    finish_reflections, afinish_reflections = _both(learning.finish_reflections)
    get_lessons, aget_lessons = _both(learning.get_lessons, "retriever")
    allow, aallow = _both(learning.allow, "tool")
    record_exposure, arecord_exposure = _both(outcomes.record_exposure, "tool")
    record_outcome, arecord_outcome = _both(outcomes.record_outcome, "tool")
    evolve, aevolve = _both(learning.evolve, "tool")
    learn_skills, alearn_skills = _both(learning.learn_skills, "tool")
    promote, apromote = _both(promotion.promote, "tool")
    demote, ademote = _both(promotion.demote, "tool")
    rollback, arollback = _both(promotion.rollback, "tool")
    explain, aexplain = _both(promotion.explain)


class Truth(Namespace):
    """Verbs that supersede, retract and restore memories, and show histories; see docs/truth.md."""

    supersede, asupersede = _both(truth.supersede, "tool")
    retract, aretract = _both(truth.retract, "tool")
    restore, arestore = _both(truth.restore, "tool")
    history, ahistory = _both(truth.history)
    revise, arevise = _both(truth.revise, "tool")


class Admin(Namespace):
    """Verbs of administration: audit, export, archive, quarantine, ends of sessions."""

    replay, areplay = _both(recall.replay)
    audit, aaudit = _both(admin.audit)
    audit_head, aaudit_head = _both(admin.audit_head)
    verify_audit, averify_audit = _both(admin.verify_audit)
    export_tenant, aexport_tenant = _both(admin.export_tenant)
    import_tenant, aimport_tenant = _both(admin.import_tenant)
    archive, aarchive = _both(admin.archive, "tool")
    restore_archive, arestore_archive = _both(admin.restore_archive, "tool")
    archives, aarchives = _both(admin.archives)
    list_quarantined, alist_quarantined = _both(sessions.list_quarantined)
    release, arelease = _both(sessions.release, "tool")
    reject, areject = _both(sessions.reject, "tool")
    decisions, adecisions = _both(sessions.decisions)
    verify_forgotten, averify_forgotten = _both(forgetting.verify_forgotten)
    consolidate_session, aconsolidate_session = _both(sessions.consolidate_session, "tool")
    session_notes, asession_notes = _both(sessions.session_notes)
