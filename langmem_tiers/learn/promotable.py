"""What may be promoted, and what speaks for and against it."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from itertools import islice
from types import MappingProxyType
from typing import Any, Final, NamedTuple
from uuid import uuid4

from langmem_tiers.core.config import StoreOptions
from langmem_tiers.core.context import users_labels
from langmem_tiers.core.memory import Moment
from langmem_tiers.core.reading import LOOKED_AT, normalised
from langmem_tiers.core.values import content_of, trust_of
from langmem_tiers.learn.generalise import Generaliser, abstracted, leaks
from langmem_tiers.learn.promotion_rules import Evidence, PromotionPolicy
from langmem_tiers.learn.verdict import Occurrences, masked, tokens
from langmem_tiers.learn.verdict import judged as verdict_on
from langmem_tiers.postgres.flow import Ask, Call, Flow, apart, rows_of
from langmem_tiers.remember.transaction import Check


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
    def trust(self) -> float:
        """How far it is trusted, in 0…1."""
        return trust_of(self.value)

    @property
    def importance(self) -> float | None:
        """As it was told; None if nobody did."""
        told: Any = self.value.get("importance")
        return float(told) if _is_number(told) else None


NAMED: Final = 5
"""How many that are near are named of a memory."""


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


EVERYBODYS: Final = {"user_id": None, "everybody": True}
"""What is of any user of the tenant is looked at: its owner's way."""


class Promoting(NamedTuple):
    """What holds for all moves of one call."""

    tenant: str
    policy: PromotionPolicy
    generaliser: Generaliser | None
    """A model that says it for everybody; rules do if there is none."""
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


def candidates(how: Promoting, after: int, limit: int) -> Call:
    """The call that answers with the ids of memories that may have proven themselves."""
    params = {
        **how.seen,
        "tenant": how.tenant,
        "after": after,
        "accesses": how.policy.min_access_count,
        "before": how.moment.now - timedelta(days=how.policy.min_age_days),
        "now": how.moment.now,
        "alive_at": how.moment.alive_at,
        "memory_types": list(how.policy.memory_types),
        "importance": how.policy.min_importance,
        "limit": limit,
    }
    return Call("promotion_candidates", params)


def evidence(tenant: str, ids: Sequence[int]) -> Flow[list[Promotable]]:
    """What speaks for and against these memories."""
    rows = yield from rows_of("promotion_evidence", tenant=tenant, ids=list(ids))
    return [Promotable(*row) for row in rows]


def alike_of(source: Promotable, how: Promoting) -> Iterator[Mapping[str, Any]]:
    """Those of its neighbours in working memory that say the same and are trusted alike."""
    for one in _neighbours(source, how):
        if trust_of(one) == source.trust and _says_the_same(source, one, how):
            yield one


def near_of(source: Promotable, how: Promoting) -> tuple[Near, ...]:
    """The nearest that say something else, by their keys alone; nearest first."""
    return tuple(Near(one["key"], 1.0 - one["distance"]) for one in unlike(source, how))


def unlike(source: Promotable, how: Promoting) -> list[Mapping[str, Any]]:
    """The nearest in working memory that say it otherwise, or say the opposite; `NAMED` at most."""
    others = (one for one in _neighbours(source, how) if not _says_the_same(source, one, how))
    return list(islice(others, NAMED))


def _neighbours(source: Promotable, how: Promoting) -> Iterator[Mapping[str, Any]]:
    """What is near to a memory, of its type and not expired."""
    for one in source.near:
        alive = (
            one["expires_at"] is None
            or datetime.fromisoformat(one["expires_at"]) > how.moment.alive_at
        )
        if alive and one["memory_type"] == source.memory_type and near(one["distance"], how):
            yield one


def _says_the_same(source: Promotable, one: Mapping[str, Any], how: Promoting) -> bool:
    said = one["content"]
    if one["id"] in how.same.get(source.id, ()):
        return True
    return said is not None and same_text(said, content_of(source.value))


def same_text(one: str, other: str) -> bool:
    """Whether two texts are equal, but for case, white space and what ends a sentence."""
    return normalised(one) == normalised(other)


def near(distance: float, how: Promoting) -> bool:
    """Whether a cosine distance, whatever the metric of the store is, is small enough."""
    return 1.0 - distance >= how.policy.near_duplicate


def evidence_of(source: Promotable, alike: Sequence[Mapping[str, Any]]) -> Evidence:
    """A memory's own accesses; outcomes and projects of all that says the same and goes along."""
    own = [source.value.get("project_id"), *(one["project_id"] for one in alike)]
    return Evidence(
        access_count=source.access_count,
        success_count=source.success_count + sum(one["success_count"] for one in alike),
        failure_count=source.failure_count + sum(one["failure_count"] for one in alike),
        projects=frozenset(one for one in (*own, *source.projects) if isinstance(one, str)),
        recorded_at=source.created_at,
        importance=source.importance,
        days=source.days,
        sessions=source.sessions,
        outcomes=source.outcomes,
    )


NUMBERS = ("importance", "boost")
"""Fields of a value that are kept if they are numbers."""
FAILURE = ("signature", "tool")
"""Fields of a value that say what failed: kept together, if they name nobody."""
LISTS = ("tags", "entities")
"""Fields of a value that are lists of words: those that name nobody are kept."""
OPEN = ("emotional_valence", "success_metrics", "steps", "support", "success_rate")
"""Fields of a value that are kept as they are, or not at all if they name anybody."""
TOLD = ("original_approach", "failure_reason", "improved_approach")
"""Fields of a value that are kept in general words."""


class Told(NamedTuple):
    """What everybody is told of a memory: its text in general words, and what else is left out."""

    content: str
    names: Sequence[str]
    """Of projects, agents, sessions and the tenant."""
    private: Sequence[str] = ()
    """Words that identify somebody."""


def said_for_all(
    source: Promotable, names: Sequence[str], how: Promoting, general: str | None = None
) -> Flow[Told | None]:
    """A memory in general words; None of one that is about its project alone.

    A person may have said it; else a model does, if one is named, else rules do. The names are
    private ones. What is a user's own stays that user's: of it nobody asks.

    Raises:
        ModelError: if the model gave nothing usable. The flow may catch it and go on.
    """
    content = content_of(source.value)
    asked = how.policy.max_bound < 1 and source.user_id is None
    ruling = (yield from _ruling(source, names, how)) if asked else Ruling((), (), bound=False)
    if general is not None:
        return Told(general, names, ruling.private)
    if how.generaliser is not None:
        about = content, [*names, *ruling.sure]
        call, acall = how.generaliser
        answer = yield Ask(partial(call, *about), partial(acall, *about))
        if answer is not None or asked:
            return None if answer is None else Told(answer, names, ruling.private)
    if ruling.bound:
        return None
    left = masked(content, ruling.private)
    said_so = yield from apart(partial(abstracted, left, names), len(content))
    return Told(said_so, names, ruling.private)


class Ruling(NamedTuple):
    """What of a memory is not told to other projects."""

    private: Sequence[str]
    """Words that identify somebody, in its text and beside it."""
    sure: Sequence[str]
    bound: bool
    """Whether it is about its project alone, or too long to be looked at as a whole."""


def _ruling(source: Promotable, names: Sequence[str], how: Promoting) -> Flow[Ruling]:
    params = {"namespace": source.namespace, "id": source.id, "owner": source.user_id}
    alive = {"tenant": how.tenant, "alive_at": how.moment.alive_at}
    rows = yield from rows_of("promotion_vocabulary", **params, **alive)
    ruled = partial(_ruled, source, names, how, rows)
    return (yield from apart(ruled, sum(len(row[1]) for row in rows)))


def _ruled(
    source: Promotable, names: Sequence[str], how: Promoting, rows: Sequence[tuple[bool, str]]
) -> Ruling:
    content = content_of(source.value)
    own, others = ([said for mine, said in rows if mine is which] for which in (True, False))
    known = Occurrences.of(own, others)
    verdict = verdict_on(content, names, known)
    beside = " ; ".join(text for name in (*LISTS, *OPEN) for text in _texts(source.value.get(name)))
    private = {*verdict.private, *verdict_on(beside, names, known).identifying}
    bound = verdict.stays(how.policy.max_bound) or len(content) > LOOKED_AT
    if _learned_twice(source, how):
        bound = False
        private = {one for one in private if one.lower() not in known.others}
    return Ruling(sorted(private), verdict.sure, bound)


def _learned_twice(source: Promotable, how: Promoting) -> bool:
    """Whether two projects learned it, each by itself.

    Then it is about neither alone, and what both say is no one's own.
    """
    alike = (one["project_id"] for one in alike_of(source, how))
    return len({*source.learned, source.value.get("project_id"), *alike} - {None}) > 1


def _texts(given: object) -> Iterator[str]:
    """All texts in a value."""
    if isinstance(given, str):
        yield given
    elif isinstance(given, list | dict):
        for one in given.values() if isinstance(given, dict) else given:
            yield from _texts(one)


def shared_fields(given: Mapping[str, Any], told: Told) -> dict[str, Any]:
    """What everybody is told of a value beside its text; it may hold anything under any name."""
    value, names = masked(given, told.private), told.names
    shared = {name: value[name] for name in NUMBERS if _is_number(value.get(name))}
    failure = {name: value[name] for name in FAILURE if name in value}
    same = all(given[name] == one for name, one in failure.items())
    if same and not leaks(_written(list(failure.values())), names):
        shared |= failure
    for name in OPEN:
        if name in value and not leaks(_written(value[name]), names):
            shared[name] = value[name]
    for name in TOLD:
        if isinstance(value.get(name), str):
            shared[name] = abstracted(value[name], names)
    for name in LISTS:
        if words := [one for one in _strings(given.get(name)) if _names_nobody(one, told)]:
            shared[name] = words
    return shared


def _names_nobody(word: str, told: Told) -> bool:
    private = {one.casefold() for one in told.private}
    said = {one.text.casefold() for one in tokens(word)}
    return private.isdisjoint(said) and not leaks(word, told.names)


def _written(given: object) -> str:
    """As JSON, with every letter as it is: an escaped name would not be known."""
    return json.dumps(given, ensure_ascii=False)


def _is_number(given: object) -> bool:
    return isinstance(given, int | float) and not isinstance(given, bool)


def _strings(given: object) -> list[str]:
    return [one for one in given if isinstance(one, str)] if isinstance(given, list) else []
