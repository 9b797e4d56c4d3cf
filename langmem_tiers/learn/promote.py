"""Promotion: what has proven itself in a project becomes everybody's, one transaction a move.

What speaks for a memory is read and judged, what everybody is told of it is settled (a model may be
asked), and then it is moved, under the locks of all that it touches.
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
from langmem_tiers.core.context import users_labels
from langmem_tiers.core.errors import InvalidInputError, ModelError
from langmem_tiers.core.memory import Moment, Tier
from langmem_tiers.core.namespaces import Place, decode, scope
from langmem_tiers.core.reading import normalised
from langmem_tiers.core.types import REFLEXION
from langmem_tiers.core.values import content_of, provenance_of, trust_of
from langmem_tiers.core.vectors import PackedVector
from langmem_tiers.learn import general
from langmem_tiers.learn.promotion_rules import Evidence, PromotionDecision, PromotionPolicy, decide
from langmem_tiers.postgres.flow import Ask, Call, Flow, Query, Rows, apart, begun_anew, rows_of
from langmem_tiers.remember.new import FIELD, write_of
from langmem_tiers.remember.transaction import Check
from langmem_tiers.store.write import LOCK, Write, delete_expired_calls, embed, lock_call, put_calls

PAGE = 50
"""Candidates that are read at once."""
TRIES = 3
"""How often a move looks anew for what teaches the same, when that was not locked yet."""
LABELS = ("project_id", "agent_id", "session_id", "user_id")
"""Fields of a value that name where it came from."""
NAMED: Final = 5
"""How many that are near are named of a memory."""
NEEDS: Final = "needs general words"
"""Why what is worthy stays."""
EVERYBODYS: Final = {"user_id": None, "everybody": True}
"""What is of any user of the tenant is looked at: its owner's way."""
_CHANGED: Final = "what teaches the same changed meanwhile: promote again"


class Promotable(NamedTuple):
    """A memory that may be promoted, with what speaks for and against it.

    A row of promotion_evidence; the columns are in this order.
    """

    id: int
    namespace: str
    key: str
    value: dict[str, Any]
    tier: str
    state: str | None
    created_at: datetime
    updated_at: datetime
    access_count: int
    success_count: int
    failure_count: int
    projects: list[str]
    near: list[dict[str, Any]]
    successor: dict[str, Any] | None
    valid_from: datetime | None
    valid_to: datetime | None
    user_id: str | None
    days: int
    sessions: int
    outcomes: int
    """Known of runs that were shown it, whether they used it or not."""
    learned: list[str]
    """Projects that learned from the same failure."""

    @property
    def place(self) -> str:
        """Where what it is promoted to is: with its user's own, or with what is everybody's."""
        return "".join(f"{label}." for label in users_labels(self.user_id))

    @property
    def memory_type(self) -> str:
        """Its kind."""
        return str(self.value.get("memory_type") or "episodic")

    @property
    def content(self) -> str:
        """What it says."""
        return content_of(self.value)

    @property
    def trust(self) -> float:
        """How far it is trusted, in 0…1."""
        return trust_of(self.value)


class Near(NamedTuple):
    """A memory that is near to another, and not equal: the same, or the opposite.

    It is no evidence, and stays, until somebody judges.
    """

    key: str
    similarity: float
    """The cosine of the two."""

    def __str__(self) -> str:
        """Such as `k7 (0.93)`."""
        return f"{self.key} ({self.similarity:.2f})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Promotion:
    """What became of a memory that was to be promoted."""

    promoted: bool
    key: str
    """Of the memory in working."""
    successor: str | None = None
    """Of the memory in long_term that it lives on in."""
    reinforced: bool = False
    """Whether that one was there already, and was given this evidence."""
    move: str | None = None
    """What `rollback` takes."""
    sources: tuple[str, ...] = ()
    """Keys of all memories that live on in the successor by this move."""
    decision: PromotionDecision | None = None
    reason: str = "promoted"
    near: tuple[Near, ...] = ()
    """What is near in working memory, in any project, and says something else: it was not counted,
    and stays as it is."""

    def __str__(self) -> str:
        """What was decided, and why."""
        verb = "promoted" if self.promoted else "stays"
        why = f" ({self.decision})" if self.decision else ""
        beside = f"; near, and not the same: {', '.join(map(str, self.near))}" if self.near else ""
        return f"{self.key} {verb}: {self.reason}{why}{beside}"


class Promoting(NamedTuple):
    """What holds for all moves of one call."""

    tenant: str
    policy: PromotionPolicy
    generaliser: general.Generaliser | None
    """A model that says it for everybody; without one a memory goes as it stands, or stays."""
    options: StoreOptions
    moment: Moment
    """When the call began, by which it judges."""
    clock: Callable[[], Moment]
    """The moment anew: a model may have taken long."""
    named: Callable[[int], str] = lambda _: str(uuid4())
    """Names the move of a memory, by its id."""
    check: Check | None = None
    seen: Mapping[str, object] = EVERYBODYS
    """The parameters that say whose memories are looked at."""
    same: Mapping[int, Collection[int]] = MappingProxyType({})
    """Of a memory, by its id, those that somebody judged to say the same."""


# ---- what speaks for a memory ---------------------------------------------------------------


class Judged(NamedTuple):
    """A memory, and whether it is to be promoted."""

    source: Promotable
    alike: list[dict[str, Any]]
    """What is near to it, says the same and is trusted alike: it counts, and goes along."""
    unlike: list[dict[str, Any]]
    """The nearest that say it otherwise, or say the opposite; `NAMED` at most."""
    evidence: Evidence
    decision: PromotionDecision
    settled: str | None
    """Why there is nothing to decide."""

    @property
    def worthy(self) -> bool:
        """Whether it has proven itself."""
        return self.settled is None and self.decision.promote

    @property
    def near(self) -> tuple[Near, ...]:
        """What is near, and not counted."""
        return tuple(Near(one["key"], 1.0 - one["distance"]) for one in self.unlike)

    def stays(self, reason: str = "not proven yet") -> Promotion:
        """It is not promoted, for this reason, or as there is nothing to decide."""
        is_open = self.settled is None
        return Promotion(
            promoted=False,
            key=self.source.key,
            decision=self.decision if is_open else None,
            reason=self.settled or reason,
            near=self.near if is_open else (),
        )

    def labels(self, tenant: str) -> list[str]:
        """What its context and the projects that used it are called: nothing to tell others."""
        own = [self.source.value.get(name) for name in LABELS]
        projects = [*self.source.projects, *(one["project_id"] for one in self.alike)]
        return sorted({one for one in (*own, *projects, tenant) if isinstance(one, str) and one})


def candidates(how: Promoting, after: int, limit: int) -> Flow[list[int]]:
    """The ids of memories that may have proven themselves, above this one."""
    rows = yield from rows_of(
        "promotion_candidates",
        **how.seen,
        tenant=how.tenant,
        after=after,
        accesses=how.policy.min_access_count,
        before=how.moment.now - timedelta(days=how.policy.min_age_days),
        now=how.moment.now,
        alive_at=how.moment.alive_at,
        memory_types=list(how.policy.memory_types),
        importance=how.policy.min_importance,
        limit=limit,
    )
    return [row[0] for row in rows]


def evidence(tenant: str, ids: Sequence[int]) -> Flow[list[Promotable]]:
    """What speaks for and against these memories."""
    rows = yield from rows_of("promotion_evidence", tenant=tenant, ids=list(ids))
    return [Promotable(*row) for row in rows]


def judge(source: Promotable, how: Promoting, among: Collection[int] | None = None) -> Judged:
    """Whether a memory has proven itself, with what says the same, if that is among these."""
    near = [one for one in source.near if _counts(source, one, how)]
    judged, content = how.same.get(source.id, ()), source.content
    same = {
        one["id"]
        for one in near
        if one["id"] in judged
        or (one["content"] is not None and same_text(one["content"], content))
    }
    alike = [
        one
        for one in near
        if one["id"] in same
        and trust_of(one) == source.trust
        and (among is None or one["id"] in among)
    ]
    unlike = [one for one in near if one["id"] not in same][:NAMED]
    found = _evidence_of(source, alike)
    decision = decide(found, how.policy, how.moment.now)
    return Judged(source, alike, unlike, found, decision, _settled(source, how.moment.now))


def _counts(source: Promotable, one: Mapping[str, Any], how: Promoting) -> bool:
    """Whether what is near is near enough, of its type and not expired."""
    expires = one["expires_at"]
    alive = expires is None or datetime.fromisoformat(expires) > how.moment.alive_at
    return alive and one["memory_type"] == source.memory_type and _near(one["distance"], how)


def _near(distance: float, how: Promoting) -> bool:
    """Whether a cosine distance, whatever the metric of the store is, is small enough."""
    return 1.0 - distance >= how.policy.near_duplicate


def same_text(one: str, other: str) -> bool:
    """Whether two texts are equal, but for case, white space and what ends a sentence."""
    return normalised(one) == normalised(other)


def _evidence_of(source: Promotable, alike: Sequence[Mapping[str, Any]]) -> Evidence:
    """A memory's own accesses; outcomes and projects of all that says the same and goes along."""
    own = source.value.get("project_id"), *(one["project_id"] for one in alike)
    importance: Any = source.value.get("importance")
    return Evidence(
        access_count=source.access_count,
        success_count=source.success_count + sum(one["success_count"] for one in alike),
        failure_count=source.failure_count + sum(one["failure_count"] for one in alike),
        projects=frozenset(one for one in (*own, *source.projects) if isinstance(one, str)),
        recorded_at=source.created_at,
        importance=float(importance) if is_number(importance) else None,
        days=source.days,
        sessions=source.sessions,
        outcomes=source.outcomes,
    )


def _settled(source: Promotable, now: datetime) -> str | None:
    """Why there is nothing to decide."""
    if (heir := source.successor) is not None:
        risen = "it was promoted as" if heir["risen"] else "it lives on as"
        since = ", which was demoted" if heir["state"] == "demoted" else " already"
        return f"{risen} {heir['key']}{since}"
    if source.tier != Tier.WORKING:
        return f"it is in {source.tier}: what is in working is promoted"
    if source.state is not None:
        return f"it is {source.state}"
    if source.valid_to is not None and source.valid_to <= now:
        return f"it was true until {source.valid_to.isoformat()}"
    if source.valid_from is not None and source.valid_from > now:
        return f"it is true from {source.valid_from.isoformat()}"
    return None


# ---- what everybody is told of it -----------------------------------------------------------

FAILURE = ("signature", "tool")
"""Fields of a value that say what failed: kept together, if nothing of them identifies."""
LISTS = ("tags", "entities")
"""Fields of a value that are lists of words: those that name nobody are kept."""
OPEN = ("emotional_valence", "success_metrics", "steps", "support", "success_rate")
"""Fields of a value that are kept as they are, or not at all if they name anybody."""
_ADVICE: Final = "improved_approach"


def told_to_all(
    judged: Judged, how: Promoting, words: str | None = None
) -> Flow[dict[str, Any] | str]:
    """A memory's value as everybody is told it, or why it stays: it needs general words.

    A person may have written them; else a model does, if one is named; else it goes as it stands,
    or not at all. What is a user's own goes to that user alone, and as it stands.

    Raises:
        ModelError: if the model gave nothing usable. The flow may catch it and go on.
    """
    source, labels = judged.source, judged.labels(how.tenant)
    around = yield from _around(source, labels, how)
    if words is None and how.generaliser is not None:
        call, acall = how.generaliser
        words = yield Ask(
            partial(call, source.content, labels), partial(acall, source.content, labels)
        )
        if words is None and source.user_id is None:
            return f"{NEEDS}: the model finds it to be about its project alone"
    if words is not None:
        # a lesson that somebody said in general words advises that, and quotes nothing
        advice = {_ADVICE: words} if _ADVICE in source.value else {}
        return {"content": words, **_fields(source, around, words), **advice}
    if source.user_id is None:
        much = len(source.content) + sum(map(len, around.said))
        why = yield from apart(partial(general.needs_words, source.value, around), much)
        projects = judged.evidence.projects
        if why is None and len(projects) < how.policy.min_projects:  # it was judged by its use
            why = f"only {', '.join(sorted(projects)) or 'one project'} knows it"
        if why is not None:
            return f"{NEEDS}: {why}"
    taught = {
        name: one for name in general.TAUGHT if isinstance(one := source.value.get(name), str)
    }
    return {"content": source.content, **_fields(source, around), **taught}


def _around(
    source: Promotable, labels: Sequence[str], how: Promoting
) -> Flow[general.Neighbourhood]:
    """What its words are compared with: what its project says and hears, and what others say."""
    alive = {"tenant": how.tenant, "alive_at": how.moment.alive_at}
    params = {"namespace": source.namespace, "id": source.id, "owner": source.user_id}
    calls = [Call("promotion_vocabulary", {**params, **alive})]
    if source.memory_type == REFLEXION:
        bounds = scope(decode(how.tenant, source.namespace))
        calls.append(Call("promotion_heard", {**alive, "low": bounds.low, "high": bounds.high}))
    rows, *heard = yield Query(tuple(calls), commit=True)
    own, others = ([text for mine, text in rows if mine is which] for which in (True, False))
    index = how.options.index
    read = partial(
        general.neighbourhood,
        source.content,
        labels,
        own,
        others,
        said=[text for said in heard for (text,) in said],
        language="" if index is None else index.language,
    )
    return (yield from apart(read, sum(map(len, (*own, *others)))))


def _fields(
    source: Promotable, around: general.Neighbourhood, words: str | None = None
) -> dict[str, Any]:
    """What everybody is told of a value beside what it says; it may hold anything by any name.

    Of what is told in general words, tags are kept that these or other projects have as well.
    """
    value = source.value
    shared = {name: value[name] for name in ("importance", "boost") if is_number(value.get(name))}
    failure = {name: value[name] for name in FAILURE if name in value}
    if not general.identifying(" ".join(_texts(failure)), around.labels):
        shared |= failure
    for name in OPEN:
        if name in value and not any(
            any(general.names_in(text, around)) for text in _texts(value[name])
        ):
            shared[name] = value[name]
    for name in LISTS:
        given = value.get(name)
        listed = [one for one in given if isinstance(one, str)] if isinstance(given, list) else []
        if plain := [one for one in listed if general.is_plain(one, around, words)]:
            shared[name] = plain
    return shared


def _texts(given: object) -> Iterator[str]:
    """All texts in a value, and its names."""
    if isinstance(given, str):
        yield given
    elif isinstance(given, dict):
        yield from map(str, given)
        yield from (text for one in given.values() for text in _texts(one))
    elif isinstance(given, list):
        yield from (text for one in given for text in _texts(one))


# ---- the move -------------------------------------------------------------------------------


def promote_all(how: Promoting) -> Flow[list[Promotion]]:
    """Promote every memory of a tenant that the policy finds worthy; all that were judged.

    A memory of which a model says nothing usable stays, with the error as its reason. Where the
    database fails the call ends, and what was moved before stays moved: the events of a tenant
    tell what, and `explain` of each memory.
    """
    promotions: list[Promotion] = []
    after = 0
    while ids := (yield from candidates(how, after, PAGE)):
        after, moved = ids[-1], set[str]()
        for read in (yield from evidence(how.tenant, ids)):
            again = read.key in moved  # it may have gone along with one that said the same
            for source in (yield from evidence(how.tenant, [read.id])) if again else [read]:
                if again and source.successor is not None:
                    continue
                try:
                    one = yield from promote_one(source, how)
                except (ModelError, InvalidInputError) as error:
                    one = Promotion(promoted=False, key=source.key, reason=str(error))
                moved.update(one.sources)
                promotions.append(one)
    return promotions


def promote_one(source: Promotable, how: Promoting, words: str | None = None) -> Flow[Promotion]:
    """Promote a memory if it is worthy and for everybody; a model is asked before any lock."""
    judged = judge(source, how)
    if not judged.worthy:
        return judged.stays()
    told = yield from told_to_all(judged, how, words)
    if isinstance(told, str):
        return judged.stays(told)
    write = _successor(source, told, how)
    vectors = yield from embed([write], how.options)
    return (yield from _move(judged, write, vectors, how))


def _successor(source: Promotable, told: Mapping[str, Any], how: Promoting) -> Write:
    """The write of what everybody learns, true when its source is; the same has the same key."""
    times = {"valid_from": source.valid_from, "valid_to": source.valid_to}
    true = {name: at.isoformat() for name, at in times.items() if at is not None}
    metadata = {
        "source_project": source.value.get("project_id"),
        "original_id": source.key,
        "promotion_date": how.moment.now.isoformat(),
    }
    told = {**told, **provenance_of([source.value]), "memory_type": source.memory_type}
    parts: list[object] = ["promoted", how.tenant, source.memory_type, told["content"]]
    parts += [true] if true else []
    parts += [f"trust {source.trust:g}"] if source.trust < 1.0 else []
    return write_of(
        {**told, "metadata": metadata, **true},
        place=Place(how.tenant, source.place),
        key=str(uuid5(NAMESPACE_OID, json.dumps(parts))),
        index=how.options.index,
        tier=Tier.LONG_TERM,
    )


@begun_anew
def _move(
    judged: Judged, write: Write, vectors: Mapping[str, PackedVector | None], how: Promoting
) -> Flow[Promotion]:
    """The move itself, under the locks of all that it touches, if nothing changed meanwhile."""
    how = how._replace(moment=how.clock())  # a model was asked: some may have expired by now
    source = judged.source
    along = {one["id"]: datetime.fromisoformat(one["updated_at"]) for one in judged.alike}
    versions = {source.id: source.updated_at, **along}
    params = {
        "tenant": how.tenant,
        "sources": list(versions),
        "key": write.key,
        "place": source.place,
        "field": FIELD,
        "query": next(iter(vectors.values()), None),
        "valid_from": source.valid_from,
        "valid_to": source.valid_to,
        "now": how.moment.now,
        "alive_at": how.moment.alive_at,
    }
    evidence = Call("promotion_evidence", {"tenant": how.tenant, "ids": [source.id]})
    calls = [Call("promotion_sources", params), Call("promotion_targets", params), evidence]
    if how.check is not None:
        calls.append(how.check.looks(how.moment))
    places = [(one["namespace"], one["key"]) for one in (source._asdict(), *judged.alike)]
    locked = write.key
    for _ in range(TRIES):
        own = ("", LOCK), (source.place, write.key), (source.place, locked), *places
        lock = lock_call([(how.tenant, *one) for one in own], how.options)
        _, sources, targets, rows, *looked = yield Query((lock, *calls))
        if how.check is not None:
            how.check.judges(looked[0])
        target, against = _target(targets, source, write, how)
        if target in {None, write.key, locked}:
            kept = [
                id_
                for id_, tier, state, updated_at in sources
                if (tier, state, updated_at) == (Tier.WORKING, None, versions[id_])
            ]
            if source.id not in kept:
                against = "it changed meanwhile: promote again"
            else:  # outcomes may have come meanwhile
                judged = judge(Promotable(*rows[0]), how, among=kept)
                against = against if judged.decision.promote else "it is not proven any more"
            if against is None:
                return (yield from _recorded(judged, target, write, vectors, how))
            yield Query((), commit=True)
            return judged.stays(against)
        locked = target
        yield Query((), commit=True)  # which lets go of the locks: they are taken in one order
    return judged.stays(_CHANGED)


def _target(
    found: Rows, source: Promotable, write: Write, how: Promoting
) -> tuple[str | None, str | None]:
    """The key of what teaches the same, and why nothing can live on in that.

    It is what has the key of the successor, else the nearest that has its text. What is trusted
    otherwise is left alone: a promotion raises no trust, and lowers none.
    """
    content = content_of(json.loads(write.value or "{}"))
    for key, tier, state, distance, memory_type, trust, value in found:
        alike = memory_type == source.memory_type and trust_of({"trust": trust}) == source.trust
        same = alike and _near(distance or 0.0, how) and same_text(content_of(value), content)
        if distance is None or same:
            if tier != Tier.LONG_TERM:
                return key, f"the same lesson, {key}, stands in {tier}: move it to long_term"
            return key, None if state is None else f"the same lesson, {key}, was {state}"
    return None, None


def _recorded(
    judged: Judged,
    target: str | None,
    write: Write,
    vectors: Mapping[str, PackedVector | None],
    how: Promoting,
) -> Flow[Promotion]:
    """Write the successor, or reinforce the target."""
    source, now = judged.source, how.moment.now
    puts: list[Call] = []
    if target is None:
        if how.moment.omit_expired:  # one that has expired is not revived
            puts += delete_expired_calls([write], now)
        puts += put_calls([write], vectors, how.options, now, Tier.LONG_TERM)
    record: dict[str, Any] = {
        "tenant": how.tenant,
        "sources": [source.id, *(one["id"] for one in judged.alike)],
        "event": how.named(source.id),
        "now": now,
        "detail": json.dumps({"reasons": list(map(str, judged.decision.reasons))}),
        "place": source.place,
        "key": write.key if target is None else target,
        "kind": "promoted" if target is None else "reinforced",
    }
    *_, recorded = yield Query((*puts, Call("record_promotion", record)), commit=True)
    if not recorded:
        return judged.stays(_CHANGED)
    return Promotion(
        promoted=True,
        key=source.key,
        successor=record["key"],
        reinforced=target is not None,
        move=record["event"],
        sources=(source.key, *(one["key"] for one in judged.alike)),
        decision=judged.decision,
        reason="promoted" if target is None else "the same lesson was there and is reinforced",
        near=judged.near,
    )
