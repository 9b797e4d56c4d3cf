"""Promote proven memories of a project to all projects, one transaction per move.

A promotion reads the evidence of a memory and makes a plan by the policy. It then settles the value
for all projects, for which it may ask a model, and moves the memory under the locks of all rows
that it touches.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from types import MappingProxyType
from typing import Any, Final, NamedTuple
from uuid import NAMESPACE_OID, uuid4, uuid5

from langmem_tiers.core.checks import is_number
from langmem_tiers.core.config import StoreOptions
from langmem_tiers.core.errors import InvalidInputError, ModelError
from langmem_tiers.core.memory import Moment, Place, Tier, decode_namespace, prefix_scope
from langmem_tiers.core.texts import normalise
from langmem_tiers.core.types import REFLEXION
from langmem_tiers.core.values import content_of, provenance_of, trust_of
from langmem_tiers.core.vectors import PackedVector
from langmem_tiers.learning import generalise, promotion_policy
from langmem_tiers.learning.promotion_policy import (
    PromotionCandidate,
    PromotionDecision,
    PromotionPolicy,
)
from langmem_tiers.postgres.flow import (
    Ask,
    Call,
    Flow,
    Query,
    Rows,
    off_loop,
    retried_on_conflict,
    rows_of,
)
from langmem_tiers.remember.commit import LockedCheck
from langmem_tiers.remember.new_memory import FIELD, write_of_value
from langmem_tiers.store.write import (
    LOCK,
    Write,
    delete_expired_calls,
    embed_writes,
    lock_call,
    put_calls,
)

PAGE = 50
"""The most candidates of one read."""
TRIES = 3
"""The most attempts of a move to lock the memory that it reinforces."""
LABEL_FIELDS = ("project_id", "agent_id", "session_id", "user_id")
"""Fields of a value that name its context."""
MOST_SIMILAR: Final = 5
"""The most similar memories that are named of a memory."""
NEEDS_WORDS: Final = "needs general words"
"""Reason why a worthy memory stays."""
ALL_USERS: Final = {"user_id": None, "everybody": True}
"""Parameters that cover the memories of all users of the tenant, for its owner."""
_CHANGED: Final = "what teaches the same changed meanwhile: promote again"


class NearMemory(NamedTuple):
    """A memory that is similar to another, and not equal: it may say the same, or the opposite.

    It is no evidence, and is not moved, until somebody judges.
    """

    key: str
    similarity: float
    """Cosine of the two."""

    def __str__(self) -> str:
        """Return a text such as `k7 (0.93)`."""
        return f"{self.key} ({self.similarity:.2f})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Promotion:
    """The result of the promotion of a memory."""

    promoted: bool
    key: str
    """Key of the memory in working."""
    successor: str | None = None
    """Key of the memory in long_term that it lives on in."""
    reinforced: bool = False
    """True if the successor existed already, and got this evidence."""
    move: str | None = None
    """Id of the move, for `learning.rollback`."""
    sources: tuple[str, ...] = ()
    """Keys of all memories that this move put into the successor."""
    decision: PromotionDecision | None = None
    reason: str = "promoted"
    near: tuple[NearMemory, ...] = ()
    """Similar memories in working, of any project, that say something else. They were not counted,
    and are unchanged."""

    def __str__(self) -> str:
        """Return the decision and its reasons."""
        verb = "promoted" if self.promoted else "stays"
        why = f" ({self.decision})" if self.decision else ""
        beside = f"; near, and not the same: {', '.join(map(str, self.near))}" if self.near else ""
        return f"{self.key} {verb}: {self.reason}{why}{beside}"


class PromotionJob(NamedTuple):
    """The options of all moves of one call."""

    tenant: str
    policy: PromotionPolicy
    generaliser: generalise.Generaliser | None
    """Rewrites a memory for all projects. Without it a memory is promoted unchanged, or stays."""
    options: StoreOptions
    moment: Moment
    """Beginning of the call, by which it judges."""
    clock: Callable[[], Moment]
    """Returns the current moment: a model may have taken long."""
    name_move: Callable[[int], str] = lambda _: str(uuid4())
    """Returns the id of the move of a memory, by the memory's id."""
    check: LockedCheck | None = None
    user_params: Mapping[str, object] = ALL_USERS
    """Parameters that say whose memories are considered."""
    judged_same: Mapping[int, Collection[int]] = MappingProxyType({})
    """Ids of the memories that somebody judged to say the same, by a memory's id."""


class PromotionPlan(NamedTuple):
    """A decision on a memory, with its evidence and the memories that move with it."""

    candidate: PromotionCandidate
    duplicates: list[dict[str, Any]]
    """Similar memories that say the same with the same trust. They count, and move with it."""
    similar: list[dict[str, Any]]
    """The most similar memories that say it otherwise, or the opposite; at most `MOST_SIMILAR`."""
    evidence: PromotionCandidate
    """The memory with the outcomes and projects of its duplicates."""
    decision: PromotionDecision
    closed_reason: str | None
    """Reason why there is nothing to decide."""

    @property
    def worthy(self) -> bool:
        """Tell whether the memory has proven itself."""
        return self.closed_reason is None and self.decision.promote

    @property
    def near_miss(self) -> bool:
        """Tell whether the memory lacks just one criterion."""
        return self.closed_reason is None and len(self.decision.lacks) == 1

    @property
    def near(self) -> tuple[NearMemory, ...]:
        """Return the similar memories, which are not counted."""
        return tuple(NearMemory(other["key"], 1.0 - other["distance"]) for other in self.similar)

    def not_promoted(self, reason: str = "not proven yet") -> Promotion:
        """Return the result of no promotion, for this reason or as there is nothing to decide."""
        is_open = self.closed_reason is None
        return Promotion(
            promoted=False,
            key=self.candidate.key,
            decision=self.decision if is_open else None,
            reason=self.closed_reason or reason,
            near=self.near if is_open else (),
        )

    def labels(self, tenant: str) -> list[str]:
        """Return the names of its context and of the projects that used it, which are private."""
        own = [self.candidate.value.get(name) for name in LABEL_FIELDS]
        named = {name for name in (*own, *self.evidence.projects, tenant) if isinstance(name, str)}
        return sorted(named - {""})


# ---- promotion ---------------------------------------------------------------------------------


def promote_all(job: PromotionJob) -> Flow[list[Promotion]]:
    """Promote each memory of a tenant that the policy finds worthy. Return all that were judged.

    If the model gives no usable answer, the memory stays, with the error as its reason. If the
    database fails, the call ends and earlier moves stay: the events of the tenant list them, and so
    does `learning.explain` of each memory.
    """
    promotions: list[Promotion] = []
    after = 0
    while ids := (yield from find_candidates(job, after, PAGE)):
        after, moved = ids[-1], set[str]()
        for read in (yield from read_evidence(job.tenant, ids)):
            again = read.key in moved  # it may have moved as a duplicate
            for candidate in (yield from read_evidence(job.tenant, [read.id])) if again else [read]:
                if again and candidate.successor is not None:
                    continue
                try:
                    promotion = yield from promote_one(plan_promotion(candidate, job), job)
                except (ModelError, InvalidInputError) as error:
                    promotion = Promotion(promoted=False, key=candidate.key, reason=str(error))
                moved.update(promotion.sources)
                promotions.append(promotion)
    return promotions


def promote_one(
    plan: PromotionPlan, job: PromotionJob, words: str | None = None
) -> Flow[Promotion]:
    """Promote a memory if it is worthy and general. A model is asked before any lock."""
    if not plan.worthy:
        return plan.not_promoted()
    fields = yield from general_value(plan, job, words)
    if isinstance(fields, str):
        return plan.not_promoted(fields)
    write = _successor_write(plan.candidate, fields, job)
    vectors = yield from embed_writes([write], job.options)
    return (yield from _apply_move(plan, write, vectors, job))


# ---- evidence and plan -------------------------------------------------------------------------


def find_candidates(job: PromotionJob, after: int, limit: int) -> Flow[list[int]]:
    """Find the ids, above `after`, of memories that may have proven themselves."""
    rows = yield from rows_of(
        "promotion_candidates",
        **job.user_params,
        tenant=job.tenant,
        after=after,
        accesses=job.policy.min_access_count,
        before=job.moment.now - timedelta(days=job.policy.min_age_days),
        now=job.moment.now,
        alive_at=job.moment.alive_at,
        memory_types=list(job.policy.memory_types),
        importance=job.policy.min_importance,
        limit=limit,
    )
    return [row[0] for row in rows]


def read_evidence(tenant: str, ids: Sequence[int]) -> Flow[list[PromotionCandidate]]:
    """Read the evidence of these memories."""
    rows = yield from rows_of("promotion_evidence", tenant=tenant, ids=list(ids))
    return [PromotionCandidate(*row) for row in rows]


def plan_promotion(
    candidate: PromotionCandidate, job: PromotionJob, among: Collection[int] | None = None
) -> PromotionPlan:
    """Decide whether a memory has proven itself with its duplicates. `among` limits these, by id.

    Duplicates have equal texts, regardless of case, white space and the end of a sentence, or were
    judged the same by somebody. Their outcomes and projects count, their accesses do not.
    """
    text, same = normalise(candidate.content), job.judged_same.get(candidate.id, ())
    duplicates: list[dict[str, Any]] = []
    similar: list[dict[str, Any]] = []
    for near in candidate.near:
        expires = near["expires_at"]
        alive = expires is None or datetime.fromisoformat(expires) > job.moment.alive_at
        of_type = near["memory_type"] == candidate.memory_type
        if not (alive and of_type and 1.0 - near["distance"] >= job.policy.near_duplicate):
            continue
        content = near["content"]
        if near["id"] not in same and (content is None or normalise(content) != text):
            similar.append(near)
        elif trust_of(near) == candidate.trust and (among is None or near["id"] in among):
            duplicates.append(near)
    own = candidate.value.get("project_id"), *(near["project_id"] for near in duplicates)
    counted = candidate._replace(
        success_count=candidate.success_count + sum(near["success_count"] for near in duplicates),
        failure_count=candidate.failure_count + sum(near["failure_count"] for near in duplicates),
        projects=sorted({name for name in (*own, *candidate.projects) if isinstance(name, str)}),
    )
    now = job.moment.now
    decision = promotion_policy.decide(counted, job.policy, now)
    return PromotionPlan(
        candidate,
        duplicates,
        similar[:MOST_SIMILAR],
        counted,
        decision,
        _reason_to_stay(candidate, now),
    )


def _reason_to_stay(candidate: PromotionCandidate, now: datetime) -> str | None:
    """Return the reason why there is nothing to decide."""
    if (heir := candidate.successor) is not None:
        risen = "it was promoted as" if heir["risen"] else "it lives on as"
        since = ", which was demoted" if heir["state"] == "demoted" else " already"
        return f"{risen} {heir['key']}{since}"
    if candidate.tier != Tier.WORKING:
        return f"it is in {candidate.tier}: what is in working is promoted"
    if candidate.state is not None:
        return f"it is {candidate.state}"
    if candidate.valid_to is not None and candidate.valid_to <= now:
        return f"it was true until {candidate.valid_to.isoformat()}"
    if candidate.valid_from is not None and candidate.valid_from > now:
        return f"it is true from {candidate.valid_from.isoformat()}"
    return None


# ---- the value for all projects -------------------------------------------------------------

FAILURE_FIELDS = ("signature", "tool")
"""Fields of a value that describe the failure. Both are kept unless one identifies somebody."""
LIST_FIELDS = ("tags", "entities")
"""Fields of a value that are lists of words. Words that name nobody are kept."""
KEPT_WHOLE = ("emotional_valence", "success_metrics", "steps", "support", "success_rate")
"""Fields of a value that are kept unchanged, or left out if they name anybody."""
_ADVICE: Final = "improved_approach"


def general_value(
    plan: PromotionPlan, job: PromotionJob, words: str | None = None
) -> Flow[dict[str, Any] | str]:
    """Return a memory's value for all projects, or the reason why it stays: it needs general words.

    A person may have written the words; else a model writes them, if one is given; else the memory
    is promoted unchanged, or stays. A user's own memory is promoted unchanged, for that user alone.

    Raises:
        ModelError: if the model gives no usable answer. The caller may catch it and go on.
    """
    candidate, labels, value = plan.candidate, plan.labels(job.tenant), plan.candidate.value
    vocabulary = yield from _read_vocabulary(candidate, labels, job)
    if words is None and job.generaliser is not None:
        call, acall = job.generaliser
        words = yield Ask(
            partial(call, candidate.content, labels), partial(acall, candidate.content, labels)
        )
        if words is None and candidate.user_id is None:
            return f"{NEEDS_WORDS}: the model finds it to be about its project alone"
    if words is not None:
        # the general words replace the advice of a lesson, and its quotations
        advice = {_ADVICE: words} if _ADVICE in value else {}
        return {"content": words, **_shared_fields(value, vocabulary, words), **advice}
    if candidate.user_id is None:
        much = len(candidate.content) + sum(map(len, vocabulary.utterances))
        why = yield from off_loop(partial(generalise.reason_to_rewrite, value, vocabulary), much)
        projects = plan.evidence.projects
        if why is None and len(projects) < job.policy.min_projects:  # judged by its use
            why = f"only {', '.join(projects) or 'one project'} knows it"
        if why is not None:
            return f"{NEEDS_WORDS}: {why}"
    taught = {
        name: text for name in generalise.LESSON_FIELDS if isinstance(text := value.get(name), str)
    }
    return {"content": candidate.content, **_shared_fields(value, vocabulary), **taught}


def _read_vocabulary(
    candidate: PromotionCandidate, labels: Sequence[str], job: PromotionJob
) -> Flow[generalise.Vocabulary]:
    """Read the words to compare with: memories and conversations of its project, and others'."""
    alive = {"tenant": job.tenant, "alive_at": job.moment.alive_at}
    params = {"namespace": candidate.namespace, "id": candidate.id, "owner": candidate.user_id}
    calls = [Call("promotion_vocabulary", {**params, **alive})]
    if candidate.memory_type == REFLEXION:
        bounds = prefix_scope(decode_namespace(job.tenant, candidate.namespace))
        calls.append(Call("promotion_heard", {**alive, "low": bounds.low, "high": bounds.high}))
    rows, *heard = yield Query(tuple(calls), commit=True)
    own, others = ([text for mine, text in rows if mine is which] for which in (True, False))
    index = job.options.index
    read = partial(
        generalise.make_vocabulary,
        candidate.content,
        labels,
        own,
        others,
        utterances=[text for texts in heard for (text,) in texts],
        language="" if index is None else index.language,
    )
    return (yield from off_loop(read, sum(map(len, (*own, *others)))))


def _shared_fields(
    value: Mapping[str, Any], vocabulary: generalise.Vocabulary, words: str | None = None
) -> dict[str, Any]:
    """Return the fields to share beside the content. A value may hold anything by any name.

    Beside general `words`, a tag is kept if these words or other projects have its words too.
    """
    shared = {name: value[name] for name in ("importance", "boost") if is_number(value.get(name))}
    failure = {name: value[name] for name in FAILURE_FIELDS if name in value}
    if not generalise.find_identifying(" ".join(_texts_in(failure)), vocabulary.labels):
        shared |= failure
    for name in (name for name in KEPT_WHOLE if name in value):
        if not any(any(generalise.find_names(text, vocabulary)) for text in _texts_in(value[name])):
            shared[name] = value[name]
    for name in (name for name in LIST_FIELDS if isinstance(value.get(name), list)):
        listed = [word for word in value[name] if isinstance(word, str)]
        if plain := [word for word in listed if generalise.names_nobody(word, vocabulary, words)]:
            shared[name] = plain
    return shared


def _texts_in(value: object) -> Iterator[str]:
    """Yield all texts in a value, with the names of its fields."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from map(str, value)
        yield from (text for item in value.values() for text in _texts_in(item))
    elif isinstance(value, list):
        yield from (text for item in value for text in _texts_in(item))


# ---- the move -------------------------------------------------------------------------------


def _successor_write(
    candidate: PromotionCandidate, fields: Mapping[str, Any], job: PromotionJob
) -> Write:
    """Make the write of the successor, with its source's valid time. Equal ones have one key."""
    times = {"valid_from": candidate.valid_from, "valid_to": candidate.valid_to}
    true = {name: at.isoformat() for name, at in times.items() if at is not None}
    metadata = {
        "source_project": candidate.value.get("project_id"),
        "original_id": candidate.key,
        "promotion_date": job.moment.now.isoformat(),
    }
    fields = {**fields, **provenance_of([candidate.value]), "memory_type": candidate.memory_type}
    parts: list[object] = ["promoted", job.tenant, candidate.memory_type, fields["content"]]
    parts += [true] if true else []
    parts += [f"trust {candidate.trust:g}"] if candidate.trust < 1.0 else []
    return write_of_value(
        {**fields, "metadata": metadata, **true},
        place=Place(job.tenant, candidate.place),
        key=str(uuid5(NAMESPACE_OID, json.dumps(parts))),
        index=job.options.index,
        tier=Tier.LONG_TERM,
    )


@retried_on_conflict
def _apply_move(
    plan: PromotionPlan, write: Write, vectors: Mapping[str, PackedVector | None], job: PromotionJob
) -> Flow[Promotion]:
    """Move a memory under the locks of all rows that it touches, unless they changed meanwhile."""
    job = job._replace(moment=job.clock())  # while a model was asked, memories may have expired
    candidate, now = plan.candidate, job.moment.now
    along = {each["id"]: datetime.fromisoformat(each["updated_at"]) for each in plan.duplicates}
    versions = {candidate.id: candidate.updated_at, **along}
    params = {
        "tenant": job.tenant,
        "sources": list(versions),
        "key": write.key,
        "place": candidate.place,
        "field": FIELD,
        "query": next(iter(vectors.values()), None),
        "valid_from": candidate.valid_from,
        "valid_to": candidate.valid_to,
        "now": now,
        "alive_at": job.moment.alive_at,
    }
    again = Call("promotion_evidence", {"tenant": job.tenant, "ids": [candidate.id]})
    calls = [Call("promotion_sources", params), Call("promotion_targets", params), again]
    if job.check is not None:
        calls.append(job.check.looks(job.moment))
    places = [
        (candidate.namespace, candidate.key),
        *((each["namespace"], each["key"]) for each in plan.duplicates),
    ]
    locked = write.key
    for _ in range(TRIES):
        own = ("", LOCK), (candidate.place, write.key), (candidate.place, locked), *places
        lock = lock_call([(job.tenant, *each) for each in own], job.options)
        _, sources, targets, rows, *looked = yield Query((lock, *calls))
        if job.check is not None:
            job.check.judges(looked[0])
        target, against = _find_target(targets, candidate, write, job.policy)
        if target not in {None, write.key, locked}:
            locked = target
            yield Query((), commit=True)  # release the locks, to take all in one order
            continue
        kept = [
            id_
            for id_, tier, state, updated_at in sources
            if (tier, state, updated_at) == (Tier.WORKING, None, versions[id_])
        ]
        if candidate.id not in kept:
            against = "it changed meanwhile: promote again"
        else:  # there may be new outcomes
            plan = plan_promotion(PromotionCandidate(*rows[0]), job, among=kept)
            against = against if plan.decision.promote else "it is not proven any more"
        if against is None:
            return (yield from _record_move(plan, target, write, vectors, job))
        yield Query((), commit=True)
        return plan.not_promoted(against)
    return plan.not_promoted(_CHANGED)


def _find_target(
    rows: Rows, candidate: PromotionCandidate, write: Write, policy: PromotionPolicy
) -> tuple[str | None, str | None]:
    """Return the key of the memory to reinforce, and the reason why that is impossible, if any.

    It is the memory with the successor's key, else the nearest with its text. A memory of another
    trust is left alone: a promotion neither raises nor lowers trust.
    """
    text = normalise(content_of(json.loads(write.value or "{}")))
    for key, tier, state, distance, memory_type, trust, value in rows:
        if distance is not None and not (
            memory_type == candidate.memory_type
            and trust_of({"trust": trust}) == candidate.trust
            and 1.0 - distance >= policy.near_duplicate
            and normalise(content_of(value)) == text
        ):
            continue
        if tier != Tier.LONG_TERM:
            return key, f"the same lesson, {key}, stands in {tier}: move it to long_term"
        return key, None if state is None else f"the same lesson, {key}, was {state}"
    return None, None


def _record_move(
    plan: PromotionPlan,
    target: str | None,
    write: Write,
    vectors: Mapping[str, PackedVector | None],
    job: PromotionJob,
) -> Flow[Promotion]:
    """Write the successor, or reinforce the target."""
    candidate, now, reinforced = plan.candidate, job.moment.now, target is not None
    puts: list[Call] = []
    if not reinforced:
        if job.moment.omit_expired:  # an expired memory is not revived
            puts += delete_expired_calls([write], now)
        puts += put_calls([write], vectors, job.options, now, Tier.LONG_TERM)
    record: dict[str, Any] = {
        "tenant": job.tenant,
        "sources": [candidate.id, *(each["id"] for each in plan.duplicates)],
        "event": job.name_move(candidate.id),
        "now": now,
        "detail": json.dumps({"reasons": list(map(str, plan.decision.reasons))}),
        "place": candidate.place,
        "key": target or write.key,
        "kind": "reinforced" if reinforced else "promoted",
    }
    *_, recorded = yield Query((*puts, Call("record_promotion", record)), commit=True)
    if not recorded:
        return plan.not_promoted(_CHANGED)
    return Promotion(
        promoted=True,
        key=candidate.key,
        successor=record["key"],
        reinforced=reinforced,
        move=record["event"],
        sources=(candidate.key, *(each["key"] for each in plan.duplicates)),
        decision=plan.decision,
        reason="the same lesson was there and is reinforced" if reinforced else "promoted",
        near=plan.near,
    )
