"""A recall as it was: what was asked, seen and answered, and by what; as JSON, and read back."""

from __future__ import annotations

import json
import logging
import zlib
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from functools import cache, cached_property, partial
from hashlib import blake2b
from importlib.metadata import version
from typing import Any, Final, NamedTuple
from uuid import uuid4

from langmem_tiers.core.errors import DatabaseError
from langmem_tiers.core.memory import Moment, Recollection, Recollections, Tier
from langmem_tiers.core.vectors import PackedVector
from langmem_tiers.postgres.flow import Call, Flow, Query, Row, apart
from langmem_tiers.recall.answering import Answer, Sought
from langmem_tiers.recall.candidates import Candidate
from langmem_tiers.recall.floor import Floor
from langmem_tiers.recall.inquiry import Inquiry, Reader
from langmem_tiers.recall.ranking import PROFILES, Profile
from langmem_tiers.recall.reach import Reach
from langmem_tiers.store.filters import Condition

_log = logging.getLogger(__name__)

_ROW: Final = 500
"""Characters of a row, about: what there is to be packed."""
_LEVEL: Final = 1
"""How hard zlib tries: 6 takes twice as long and saves a fifth (docs/replay.md)."""
_ID: Final = Candidate._fields.index("id")
_TIMES: Final = tuple(
    map(
        Candidate._fields.index,
        ("created_at", "updated_at", "expires_at", "occurred_at", "last_accessed_at"),
    )
)
_AS_IT_IS: Final = (
    *("query", "limit", "agent_id", "project_id", "min_importance", "max_tokens"),
    *("deduplicate", "similarity_threshold", "needs", "review"),
)
"""What of an inquiry JSON holds as it is."""
_WHEN: Final = ("since", "as_of", "known_at")


class Seen(NamedTuple):
    """A question, the rows that Postgres found for it, what they answered, and what was shown."""

    sought: Sought
    rows: Sequence[Row]
    answer: Answer
    shown: Recollections


class Ranked(NamedTuple):
    """A memory of an answer, as it was ranked."""

    key: str
    namespace: tuple[str, ...]
    rank: int
    """Its place, from 1 on."""
    score: float
    match: float
    held_out: bool = False
    """Whether the run went without it (see `get_context`)."""
    explanation: Mapping[str, float] = {}
    """The terms of the score."""

    @property
    def place(self) -> tuple[tuple[str, ...], str]:
        """Its namespace and key."""
        return self.namespace, self.key


class Recorded(NamedTuple):
    """A recall that was recorded; a row of recorded, the columns are in this order."""

    turn: str
    at: datetime
    asked: Mapping[str, Any]
    seen: bytes
    answered: Sequence[Mapping[str, Any]]
    by: Mapping[str, Any]

    @property
    def own_profile(self) -> bool:
        """Whether it was ranked by a profile of the caller's own."""
        return bool(self.asked["own_profile"])

    @property
    def ranked(self) -> list[Ranked]:
        """What was answered."""
        return [
            Ranked(**{**one, "namespace": tuple(one["namespace"])}, rank=place)
            for place, one in enumerate(self.answered, 1)
        ]

    def opened(self) -> tuple[PackedVector | None, list[Row]]:
        """The vector of the question, and the rows that Postgres answered."""
        told = json.loads(zlib.decompress(self.seen))
        vector = told["vector"]
        packed = None if vector is None else PackedVector(b64decode(vector))
        return packed, [_row(one) for one in told["rows"]]

    def inquiry(self, floor: Floor, profile: Profile) -> Inquiry:
        """The question with all its arguments; `floor` holds where none was named."""
        asked = self.asked
        given, bounds = asked["floor"], asked["bounds"]
        when: dict[str, Any] = {name: _moment(asked[name]) for name in _WHEN}
        return Inquiry(
            **{name: asked[name] for name in _AS_IT_IS},
            **when,
            reach=Reach(
                bounds["tenant"], bounds["user_id"], frozenset(map(Tier, asked["tiers"])), bounds
            ),
            memory_types=asked["memory_types"],
            tags=asked["tags"],
            conditions=[Condition(tuple(path), *rest) for path, *rest in asked["conditions"]],
            exclude=frozenset(asked["exclude"]),
            floor=floor if given is None else Floor(*map(_tupled, given)),
            profile=profile,
        )


class Recorder:
    """Says by what a coordinator recalls, and records it where its settings want that."""

    def __init__(self, reader: Reader, *, model: str, floor: Floor, days: float | None) -> None:
        """Of this reader and model; `floor` holds where none is named."""
        self.reader = reader
        self.model = model
        self.floor = floor
        self.days = days

    def recording(self, turn: str | None, root: str | None = None) -> Recording | None:
        """What records a recall under a name, a new one if None; None if none is recorded."""
        return None if self.days is None else Recording(self, turn or str(uuid4()), root)

    def by(self, ask: Inquiry) -> dict[str, Any]:
        """By what a question is answered today, each part by a name or a digest."""
        reader = self.reader
        review = reader.reviews.get(ask.review or "")
        return {
            "package": _version(),
            "model": self.model,
            "weights": self._weights,
            "types": _digest([(one.name, one.personal, _named(one.score)) for one in reader.types]),
            "profile": ask.profile.name,
            "floor": str(tuple(self.floor)),
            "re-ranker": reader.reranker and reader.reranker.name,
            "review": review and review.name,
            "counter of tokens": None if ask.max_tokens is None else _named(reader.count_tokens),
        }

    @cached_property
    def _weights(self) -> str:
        return _digest(asdict(self.reader.weights))


class Recording(NamedTuple):
    """Records recalls of one turn."""

    recorder: Recorder
    turn: str
    root: str | None

    def first(self, asks: Sequence[Inquiry]) -> list[Call]:
        """What is asked before anything is read."""
        return [Call("times_forgotten", {"tenant": ask.reach.tenant}) for ask in asks[:1]]

    def keep(
        self, several: Sequence[Seen], before: Sequence[Sequence[Row]], moment: Moment
    ) -> Flow[None]:
        """Keep recalls as they were, unless something is forgotten meanwhile.

        The answer is known by then, and stands if Postgres refuses: the log says so.
        """
        if not several:
            return
        ((forgotten,),) = before[0]
        size = _ROW * sum(len(one.rows) for one in several)
        calls = yield from apart(partial(self._calls, several, forgotten, moment), size)
        share = Call("share_recalls", {"tenant": several[0].sought.ask.reach.tenant})
        try:
            _, *kept = yield Query((share, *calls), commit=True)
        except DatabaseError as error:
            _log.warning("a recall is answered and not recorded: %s", error)
            return
        for one, rows in zip(several, kept, strict=True):
            one.shown.recall_id = self.turn if rows else None

    def _calls(self, several: Sequence[Seen], forgotten: int, moment: Moment) -> list[Call]:
        return [self._call(one, forgotten, moment) for one in several]

    def _call(self, one: Seen, forgotten: int, moment: Moment) -> Call:
        ask, floor = one.sought.ask, self.recorder.floor
        shown = {(each.namespace, each.key) for each in one.shown}
        days = self.recorder.days or 0.0
        params = {
            "tenant": ask.reach.tenant,
            "turn": self.turn,
            "recall": str(uuid4()),
            "root": self.root,
            "user_id": ask.reach.user_id,
            "project": ask.project_id,
            "now": moment.now,
            "expires_at": moment.now + timedelta(days=days),
            "ids": sorted({row[_ID] for row in one.rows if row[_ID] is not None}),
            "asked": json.dumps(_asked(one.sought, floor)),
            "seen": _packed(one.sought.vector, one.rows),
            "answered": json.dumps([_told(each, shown) for each in one.answer.memories]),
            "by": json.dumps(self.recorder.by(ask)),
            "forgotten": forgotten,
        }
        return Call("record_recall", params)


def ranked(memories: Sequence[Recollection]) -> list[Ranked]:
    """An answer, as a recorded one is read."""
    return [
        Ranked(
            one.key, one.namespace, place, one.score, one.match, explanation=dict(one.explanation)
        )
        for place, one in enumerate(memories, 1)
    ]


def seen_in(seen: bytes) -> list[dict[str, Any]]:
    """What was seen, each by its names: memories, and what is true of all that was searched."""
    told = json.loads(zlib.decompress(seen))
    return [dict(zip(Candidate._fields, row, strict=False)) for row in told["rows"]]


def _asked(sought: Sought, floor: Floor) -> dict[str, Any]:
    ask = sought.ask
    return {
        **{name: getattr(ask, name) for name in _AS_IT_IS},
        **{name: _iso(getattr(ask, name)) for name in _WHEN},
        "tiers": sorted(ask.reach.tiers),
        "bounds": dict(ask.reach.bounds),
        "memory_types": None if ask.memory_types is None else list(ask.memory_types),
        "tags": list(ask.tags),
        "conditions": [list(one) for one in ask.conditions],
        "exclude": sorted(ask.exclude),
        "floor": None if ask.floor == floor else list(ask.floor),
        "own_profile": PROFILES.get(ask.profile.name) is not ask.profile,
        "given_vector": ask.embedding is not None,
        "by_words": sought.by_words,
    }


def _packed(vector: PackedVector | None, rows: Sequence[Row]) -> bytes:
    told = {"vector": None if vector is None else b64encode(vector.data).decode(), "rows": rows}
    return zlib.compress(json.dumps(told, default=datetime.isoformat).encode(), _LEVEL)


def _row(told: Sequence[Any]) -> Row:
    row = list(told)
    for place in _TIMES:
        row[place] = _moment(row[place])
    return tuple(row)


def _told(one: Recollection, shown: set[tuple[tuple[str, ...], str]]) -> dict[str, Any]:
    return {
        "key": one.key,
        "namespace": list(one.namespace),
        "score": one.score,
        "match": one.match,
        "held_out": (one.namespace, one.key) not in shown,
        "explanation": dict(one.explanation),
    }


def _iso(when: datetime | None) -> str | None:
    return None if when is None else when.isoformat()


def _moment(told: str | None) -> datetime | None:
    return None if told is None else datetime.fromisoformat(told)


def _tupled(one: Any) -> Any:
    return tuple(one) if isinstance(one, list) else one


def _named(given: object) -> str | None:
    return None if given is None else str(getattr(given, "__qualname__", type(given).__name__))


def _digest(given: object) -> str:
    return blake2b(json.dumps(given, sort_keys=True).encode(), digest_size=8).hexdigest()


@cache
def _version() -> str:
    return version("langmem-tiers")
