"""What may be promoted, and what speaks for and against it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from itertools import islice
from types import MappingProxyType
from typing import Any, Final, NamedTuple
from uuid import uuid4

from langmem_tiers.core.config import StoreOptions
from langmem_tiers.core.context import users_labels
from langmem_tiers.core.memory import Moment
from langmem_tiers.core.namespaces import decode, scope
from langmem_tiers.core.reading import normalised
from langmem_tiers.core.types import REFLEXION
from langmem_tiers.core.values import content_of, trust_of
from langmem_tiers.learn.general import (
    TAUGHT,
    Neighbourhood,
    is_plain,
    names_in,
    needs_words,
    neighbourhood,
)
from langmem_tiers.learn.identifying import identifying
from langmem_tiers.learn.promotion_rules import Evidence, PromotionPolicy
from langmem_tiers.postgres.flow import Ask, Call, Flow, Query, apart, rows_of
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


class Generaliser(NamedTuple):
    """Says for everybody what was learned in one project; the names are private ones.

    What both return is checked by nobody else: it must not identify the project. None is of what is
    about its project alone, and stays there.
    """

    call: Callable[[str, Sequence[str]], str | None]
    acall: Callable[[str, Sequence[str]], Awaitable[str | None]]


class Promoting(NamedTuple):
    """What holds for all moves of one call."""

    tenant: str
    policy: PromotionPolicy
    generaliser: Generaliser | None
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
"""Fields of a value that say what failed: kept together, if nothing of them identifies."""
LISTS = ("tags", "entities")
"""Fields of a value that are lists of words: those that name nobody are kept."""
OPEN = ("emotional_valence", "success_metrics", "steps", "support", "success_rate")
"""Fields of a value that are kept as they are, or not at all if they name anybody."""
_ADVICE: Final = "improved_approach"


class Told(NamedTuple):
    """What everybody is told of a memory."""

    content: str
    """Its very text, or what a person or a model wrote."""
    fields: Mapping[str, Any]
    """What else of its value."""


def told_to_all(
    source: Promotable, labels: Sequence[str], how: Promoting, general: str | None = None
) -> Flow[Told | str]:
    """A memory as everybody is told it, or why it stays: it needs general words.

    A person may have written them; else a model does, if one is named; else it goes as it stands,
    or not at all. What is a user's own goes to that user alone, and as it stands.

    Raises:
        ModelError: if the model gave nothing usable. The flow may catch it and go on.
    """
    around = yield from _around(source, labels, how)
    said = general
    if said is None and how.generaliser is not None:
        about = content_of(source.value), list(labels)
        call, acall = how.generaliser
        said = yield Ask(partial(call, *about), partial(acall, *about))
        if said is None and source.user_id is None:
            return f"{NEEDS}: the model finds it to be about its project alone"
    if said is not None:
        return Told(said, {**_fields(source, around, said), **_advice(source, said)})
    if source.user_id is None:
        much = len(content_of(source.value)) + sum(map(len, around.said))
        why = yield from apart(partial(needs_words, source.value, around), much)
        if why is None:
            why = _known_too_little(source, how)
        if why is not None:
            return f"{NEEDS}: {why}"
    kept = {name: one for name in TAUGHT if isinstance(one := source.value.get(name), str)}
    return Told(content_of(source.value), {**_fields(source, around), **kept})


NEEDS: Final = "needs general words"
"""Why what is worthy stays."""


def _known_too_little(source: Promotable, how: Promoting) -> str | None:
    """What was promoted for its use alone may be known to one project: others are not guessed."""
    projects = evidence_of(source, list(alike_of(source, how))).projects
    if len(projects) >= how.policy.min_projects:
        return None
    return f"only {', '.join(sorted(projects)) or 'one project'} knows it"


def _around(source: Promotable, labels: Sequence[str], how: Promoting) -> Flow[Neighbourhood]:
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
        neighbourhood,
        content_of(source.value),
        labels,
        own,
        others,
        said=[text for said in heard for (text,) in said],
        language="" if index is None else index.language,
    )
    return (yield from apart(read, sum(map(len, (*own, *others)))))


def _fields(
    source: Promotable, around: Neighbourhood, general: str | None = None
) -> dict[str, Any]:
    """What everybody is told of a value beside what it says; it may hold anything by any name.

    Of what is told in general words, tags are kept that these or other projects have as well.
    """
    value, shared = source.value, dict[str, Any]()
    shared |= {name: value[name] for name in NUMBERS if _is_number(value.get(name))}
    failure = {name: value[name] for name in FAILURE if name in value}
    if not identifying(" ".join(_texts(failure)), around.labels):
        shared |= failure
    for name in OPEN:
        if name in value and not any(
            one for text in _texts(value[name]) for one in names_in(text, around)
        ):
            shared[name] = value[name]
    for name in LISTS:
        words = [one for one in _strings(value.get(name)) if is_plain(one, around, general)]
        if words:
            shared[name] = words
    return shared


def _advice(source: Promotable, said: str) -> dict[str, str]:
    """A lesson that somebody said in general words advises that, and quotes nothing."""
    return {_ADVICE: said} if _ADVICE in source.value else {}


def _texts(given: object) -> Iterator[str]:
    """All texts in a value, and its names."""
    if isinstance(given, str):
        yield given
    elif isinstance(given, dict):
        yield from map(str, given)
        yield from (text for one in given.values() for text in _texts(one))
    elif isinstance(given, list):
        yield from (text for one in given for text in _texts(one))


def _is_number(given: object) -> bool:
    return isinstance(given, int | float) and not isinstance(given, bool)


def _strings(given: object) -> list[str]:
    return [one for one in given if isinstance(one, str)] if isinstance(given, list) else []
