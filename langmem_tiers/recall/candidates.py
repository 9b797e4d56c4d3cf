"""What the recall statement answers: candidates with their evidence, and facts of the scope."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import itemgetter
from typing import Any, NamedTuple

from langmem_tiers.core.memory import Recollection, Tier
from langmem_tiers.core.namespaces import Replaced, decode
from langmem_tiers.core.values import content_of
from langmem_tiers.core.vectors import Distance
from langmem_tiers.postgres.flow import Row

_NAMED = re.compile(
    r"(?:[\[(][^\])\n]{1,40}[\])] ?)?([^\W\d_][\w.'\u2019-]{0,30}(?: [\w.'\u2019-]{1,30}){0,2}): \S"
)
"""A name of up to three words and a colon, behind when it was if that stands in brackets."""
_LARGEST = 1e9
"""What is stored as a larger number is no importance and no boost."""


class Candidate(NamedTuple):
    """A memory that may answer the question, with the evidence for it.

    A row of recall, recall_newest or find; the columns are in this order.
    """

    tenant: str
    namespace: str
    key: str
    value: dict[str, Any]
    created_at: datetime
    updated_at: datetime
    tier: str
    expires_at: datetime | None
    ttl_minutes: float | None
    id: int
    cosine: float | None
    """To the query, in -1…1; None for a memory without a vector."""
    around: float | None
    """The mean cosine of it and its neighbours: two turns before it to two after it. What has no
    turn, or was stored among what nobody said or asked, has none but itself, here and below."""
    own: float | None
    """BM25 of its own words."""
    window: float | None
    """BM25 of its words and those of its neighbours, without regard to their length."""
    before: float | None
    """BM25 of the turn before it."""
    words_around: int | None
    """Distinct words of all of them, stop words left out."""
    speaker: str | None
    occurred_at: datetime | None
    access_count: int
    success_count: int
    failure_count: int
    last_accessed_at: datetime | None
    strength: float
    outdated: bool = False
    """True if it came from a superseded memory."""
    replaced: Sequence[str] | None = None
    """The handle and the moment of the memory that it took the place of last."""

    @property
    def place(self) -> tuple[tuple[str, ...], str]:
        """Its namespace and key."""
        return decode(self.tenant, self.namespace), self.key

    @property
    def named(self) -> str | None:
        """Who said it: as was told, else as its text begins, such as `Ann: I am back`."""
        if self.speaker is not None:
            return self.speaker
        found = _NAMED.match(content_of(self.value))
        return found and found[1]

    @property
    def session(self) -> str | None:
        """The session it was said in."""
        found = self.value.get("session_id")
        return found if isinstance(found, str) else None

    @property
    def alone(self) -> bool:
        """Whether it is of no session, and nothing around it counts."""
        return self.session is None and self.around == self.cosine


_KEY, _VALUE, _COSINE = map(Candidate._fields.index, ("key", "value", "cosine"))
_NEAR = slice(_COSINE, _COSINE + 2)
"""Both cosines, which are distances in a row."""
_PLACE = itemgetter(*map(Candidate._fields.index, ("namespace", "key", "id")))


@dataclass(frozen=True, slots=True, kw_only=True)
class Searched:
    """What is true of everything that was searched."""

    memories: float = 0.0
    sought: float = 0.0
    """The idf of the query's words, names of speakers left out, added up."""
    known: float = 0.0
    """That of those that occur."""
    best_cosine: float = 0.0
    speakers: tuple[str, ...] = ()
    known_names: frozenset[str] = frozenset()
    """Those of the question's names that occur."""


def read_columns(rows: Sequence[Row], distance: Distance) -> list[Candidate]:
    """The candidates in these rows, in their order."""
    found = []
    for row in rows:
        if row[_KEY] is not None:
            near = list(row[_NEAR])
            for place, away in enumerate(near):
                near[place] = None if away is None else distance.cosine(away)
            # Recalls that earlier releases recorded do not have the last ones.
            found.append(Candidate(*row[: _NEAR.start], *near, *row[_NEAR.stop :]))
    return found


def read_rows(rows: Sequence[Row], distance: Distance) -> tuple[list[Candidate], Searched]:
    """The candidates, in the order of their keys, and the facts of what was searched.

    The row without a key tells of these.
    """
    found = read_columns(rows, distance)
    found.sort(key=_PLACE)
    facts: Mapping[str, Any] = next((row[_VALUE] for row in rows if row[_KEY] is None), {})
    return found, Searched(
        memories=facts.get("memories") or 0.0,
        sought=facts.get("sought") or 0.0,
        known=facts.get("known") or 0.0,
        best_cosine=max((one.cosine or 0.0 for one in found), default=0.0),
        speakers=tuple(facts.get("speakers") or ()),
        known_names=frozenset(facts.get("names") or ()),
    )


def recollection(one: Candidate, match: float, evidence: Mapping[str, float]) -> Recollection:
    """A candidate as what users see; what a value does not hold in the right form is left out."""
    value, was = one.value, one.replaced
    told = {name: read(value[name]) for name, read in _TOLD.items() if name in value}
    return Recollection(
        key=one.key,
        namespace=decode(one.tenant, one.namespace),
        tier=Tier(one.tier),
        memory_type=_text(value.get("memory_type")) or "episodic",
        content=content_of(value),
        value=value,
        created_at=one.created_at,
        updated_at=one.updated_at,
        occurred_at=one.occurred_at,
        match=match,
        evidence=evidence,
        speaker=one.speaker,
        access_count=one.access_count,
        success_count=one.success_count,
        failure_count=one.failure_count,
        last_accessed_at=one.last_accessed_at,
        strength=one.strength,
        outdated=one.outdated,
        replaces=None if was is None else Replaced(was[0], datetime.fromisoformat(was[1])),
        **told,
    )


def _text(found: object) -> str | None:
    return found if isinstance(found, str) else None


def _texts(found: object) -> tuple[str, ...]:
    return tuple(one for one in found if isinstance(one, str)) if isinstance(found, list) else ()


def _number(found: object) -> float | None:
    if isinstance(found, bool) or not isinstance(found, int | float):
        return None
    return float(found) if abs(found) < _LARGEST else None


_TOLD: Mapping[str, Callable[[object], Any]] = {
    "importance": _number,
    "boost": lambda found: _number(found) or 1.0,
    "tags": _texts,
    "entities": _texts,
    "agent_id": _text,
    "project_id": _text,
    "session_id": _text,
    "source_task": _text,
    "emotional_valence": _text,
    "platform_source": _text,
    "context": lambda found: found,
    "metadata": lambda found: found if isinstance(found, dict) else {},
    "success_metrics": lambda found: found if isinstance(found, dict) else {},
}
"""What a recollection takes from the value if it is there, and how each is read."""
