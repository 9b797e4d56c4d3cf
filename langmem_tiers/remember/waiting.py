"""What awaits a review by models, and what becomes of it: they come after it was stored.

Until then a memory stands as the rules left it. A model may quarantine what they let pass, with
all that came of it by then, and release what was held for want of a review alone. Nothing is done
to what changed meanwhile.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple
from uuid import uuid4

from langmem_tiers.core.config import StoreOptions
from langmem_tiers.core.memory import QUARANTINED, Moment, ReviewResult
from langmem_tiers.core.values import content_of, source_of, trust_of
from langmem_tiers.postgres.flow import Call, Flow, Query
from langmem_tiers.remember.candidate import Candidate
from langmem_tiers.remember.gate import GatePolicy
from langmem_tiers.remember.review import Panel, instructing, reviewed
from langmem_tiers.store.write import LOCK, lock_call

AT_ONCE: Final = 8
"""Memories that a panel is asked of at a time: of four members, that is 32 requests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewReport:
    """What models said of what awaited them, by the keys of the memories."""

    kept: tuple[str, ...] = ()
    """What stays in recall."""
    released: tuple[str, ...] = ()
    """What was held for want of a review, and is recalled from now on."""
    quarantined: tuple[str, ...] = ()
    """What is not recalled until somebody releases it."""
    unanswered: tuple[str, ...] = ()
    """What no model answered for: it stands as it was, and awaits a review still."""
    changed: tuple[str, ...] = ()
    """What was changed, looked at or reviewed by somebody else meanwhile: it is left alone."""

    def __str__(self) -> str:
        """How many of each, but for what there is none of."""
        counts = {name: len(getattr(self, name)) for name in self.__slots__}
        told = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)
        return told or "nothing awaited a review"


class Waiting(NamedTuple):
    """A memory that awaits a review; a row of waiting_reviews, the columns are in this order."""

    id: int
    namespace: str
    key: str
    value: Mapping[str, Any]
    state: str | None
    version: datetime

    @property
    def memory_type(self) -> str:
        """Its type, `episodic` if it says none."""
        return str(self.value.get("memory_type") or "episodic")

    @property
    def candidate(self) -> Candidate:
        """What reviewers see of it."""
        return Candidate(
            content=content_of(self.value),
            memory_type=self.memory_type,
            source=source_of(self.value),
            tags=tuple(self.value.get("tags") or ()),
            importance=self.value.get("importance"),
        )


class Reviewing(NamedTuple):
    """What holds for the reviews of a tenant."""

    tenant: str
    panel: Panel
    policy: GatePolicy
    options: StoreOptions


class Conclusion(NamedTuple):
    """What follows from a review."""

    becomes: str | None
    """The state that the memory has then."""
    reason: str


def review_waiting(
    how: Reviewing, moments: Callable[[], Moment], limit: int, keys: Sequence[str] | None = None
) -> Flow[ReviewReport]:
    """Ask the panel about what awaits it, or about these keys of that; each by itself is kept."""
    now = moments()
    params = {"tenant": how.tenant, "limit": limit, "alive_at": now.alive_at}
    if keys is None:
        tidy = Call("forget_reviews", {"tenant": how.tenant})
        calls: tuple[Call, ...] = (tidy, Call("waiting_reviews", params))
    else:
        calls = (Call("waiting_reviews_of", {**params, "keys": list(dict.fromkeys(keys))}),)
    *_, rows = yield Query(calls, commit=True)
    waiting = [Waiting(*row) for row in rows]
    found: dict[str, list[str]] = {}
    for start in range(0, len(waiting), AT_ONCE):
        some = waiting[start : start + AT_ONCE]
        reviews = yield from reviewed(how.panel, [one.candidate for one in some])
        for one, review in zip(some, reviews, strict=True):
            became = yield from _concluded(one, review, how, moments().now)
            found.setdefault(became, []).append(one.key)
    return ReviewReport(**{name: tuple(each) for name, each in found.items()})


def conclusion(one: Waiting, review: ReviewResult, policy: GatePolicy) -> Conclusion:
    """What follows from what a panel said, if any of it answered."""
    held = instructing(review)
    if held is None and review.refuses(policy.consensus):
        held = f"below {policy.consensus:g}: {review}"
    trust, below = trust_of(one.value), policy.trust.below(one.memory_type)
    if held is None and trust < below:
        held = (
            f"trust: {trust:g} is below {below:g}, what memories of type {one.memory_type!r} need"
        )
    as_it_is = None if one.state == QUARANTINED else one.state
    return Conclusion(as_it_is if held is None else QUARANTINED, held or str(review))


def _concluded(one: Waiting, review: ReviewResult, how: Reviewing, now: datetime) -> Flow[str]:
    """Do what follows from a review; which part of the report it belongs to."""
    named = {"tenant": how.tenant, "id": one.id, "version": one.version}
    if review.consensus_score is None:
        detail = json.dumps({"reasons": [f"unreviewed: {review}"], **_told(review)})
        yield Query((Call("note_unanswered", {**named, "detail": detail}),), commit=True)
        return "unanswered"
    becomes, reason = conclusion(one, review, how.policy)
    move = str(uuid4())
    params = {
        **named,
        "state": one.state,
        "becomes": becomes,
        "event": str(uuid4()),
        "detail": json.dumps({"reasons": [str(review)], **_told(review)}),
        "move": move,
        "moved": json.dumps({"reasons": [reason], "trust": trust_of(one.value)}),
        "now": now,
    }
    lock = lock_call([(how.tenant, one.namespace, one.key), (how.tenant, "", LOCK)], how.options)
    doubt = Call("doubt", {"tenant": how.tenant, "ids": [one.id], "events": []})
    why = f"derived: it came from {one.key}, which is quarantined"
    below = Call("hold_below", {"tenant": how.tenant, "move": move, "why": why, "now": now})
    calls = (lock, Call("conclude_review", params), below, doubt)
    _, said, *_ = yield Query(calls, commit=True)
    if not said:
        return "changed"
    if becomes == QUARANTINED:
        return "quarantined"
    return "released" if one.state == QUARANTINED else "kept"


def _told(review: ReviewResult) -> dict[str, object]:
    """A review as part of an event."""
    return {
        "score": review.consensus_score,
        "scores": dict(review.agent_scores),
        "failures": dict(review.failures),
    }
