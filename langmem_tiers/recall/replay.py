"""Record a recall as JSON, and replay it at its moment to see what differs.

A replay uses the recorded rows and the recorded vector of the question: later writes do not matter.
All else is today's: the code, the weights, the profile. A replay writes nothing, and nothing counts
as read.
"""

from __future__ import annotations

import json
import logging
import math
import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple
from uuid import uuid4

from pydantic import TypeAdapter

from langmem_tiers.core.context import MemoryContext
from langmem_tiers.core.errors import DatabaseError, InvalidInputError, short
from langmem_tiers.core.memory import Moment, Recollection, Recollections
from langmem_tiers.core.texts import LINE_LENGTH, printable_line, shorten_line
from langmem_tiers.core.vectors import PackedVector
from langmem_tiers.postgres.flow import Call, Flow, Query, Row, off_loop, rows_of
from langmem_tiers.recall.matching import Candidate
from langmem_tiers.recall.ranking import DEFAULT_FLOOR, PROFILES, Floor, Profile
from langmem_tiers.recall.recall import (
    PreparedQuery,
    QueryVectors,
    RecallConfig,
    RecallQuery,
    RecallResult,
    prepare_query,
    rank_rows,
)
from langmem_tiers.store.flows import StoreFlows

_log = logging.getLogger(__name__)

_ROW: Final = 500
"""Characters of a row, about, by which the work of packing is judged."""
_LEVEL: Final = 1
"""Effort of zlib: 6 takes twice as long and saves a fifth (docs/replay.md)."""
_SAME: Final = 1e-9
"""Tolerance between equal scores: machines differ by less."""
_ID: Final = Candidate._fields.index("id")
_MOMENTS: Final = ("created_at", "updated_at", "expires_at", "occurred_at", "last_accessed_at")
_TIMES: Final = tuple(map(Candidate._fields.index, _MOMENTS))
_QUERIES: Final = TypeAdapter(RecallQuery)
_FLOORS: Final = TypeAdapter(Floor)


@dataclass(frozen=True, kw_only=True)
class RankedMemory:
    """Memory of an answer, as it was ranked."""

    key: str
    namespace: tuple[str, ...]
    rank: int
    """Place, from 1 on."""
    score: float
    match: float
    held_out: bool = False
    """True if the run went without it (see `get_context`)."""
    explanation: Mapping[str, float]
    """Terms of the score."""

    @property
    def place(self) -> tuple[tuple[str, ...], str]:
        """Return its namespace and key."""
        return self.namespace, self.key

    def __str__(self) -> str:
        """Return its rank and its score."""
        return f"{self.rank}. ({self.score:.4f})"

    def equals(self, other: RankedMemory) -> bool:
        """Tell whether another one has the same rank and, but for rounding, the same scores."""
        pairs = ((self.score, other.score), (self.match, other.match))
        same = all(math.isclose(*pair, rel_tol=_SAME, abs_tol=_SAME) for pair in pairs)
        return same and self.rank == other.rank


class RecordedRecall(NamedTuple):
    """Recorded recall: a row of the statement recorded, columns in this order."""

    turn: str
    at: datetime
    asked: Mapping[str, Any]
    seen: bytes
    answered: Sequence[Mapping[str, Any]]
    by: Mapping[str, Any]

    @property
    def ranked(self) -> list[RankedMemory]:
        """Return the recorded answer."""
        return [
            RankedMemory(**{**entry, "namespace": tuple(entry["namespace"]), "rank": place})
            for place, entry in enumerate(self.answered, 1)
        ]

    def unpack(self) -> tuple[PackedVector | None, list[Row]]:
        """Return the vector of the question, and the rows from Postgres."""
        snapshot = json.loads(zlib.decompress(self.seen))
        vector = snapshot["vector"]
        packed = None if vector is None else PackedVector(b64decode(vector))
        return packed, [_parse_row(row) for row in snapshot["rows"]]

    def query(self, own: Profile | None) -> RecallQuery:
        """Return the question with its arguments, and today's profile of that name.

        Raises:
            InvalidInputError: if it was ranked by a profile of the caller's own, and none is given.
        """
        asked, name = self.asked, self.by["profile"]
        profile = own if asked["own_profile"] else PROFILES.get(name, own)
        if profile is None:
            raise InvalidInputError(
                f"a recall of {short(self.turn)} was ranked by a profile of the caller's own, "
                f"{short(name)}: give it, as profile=…"
            )
        arguments = {
            field.name: asked[field.name] for field in fields(RecallQuery) if field.name in asked
        }
        floor = DEFAULT_FLOOR if asked["floor"] is None else _FLOORS.validate_python(asked["floor"])
        return RecallQuery(**{**arguments, "floor": floor, "profile": profile})


class RecallRecorder(NamedTuple):
    """Record the recalls of one turn, for so many days."""

    days: float
    turn: str
    root: str | None

    def first(self, queries: Sequence[RecallQuery]) -> list[Call]:
        """Return the calls to make before anything is read."""
        return [Call("times_forgotten", {"tenant": query.tenant}) for query in queries[:1]]

    def keep(
        self,
        recalls: Sequence[tuple[RecallResult, Recollections]],
        before: Sequence[Sequence[Row]],
        moment: Moment,
    ) -> Flow[None]:
        """Record recalls and what was shown, unless something is forgotten meanwhile.

        The answer is known by then, and stands if Postgres refuses: the log says so.
        """
        if not recalls:
            return
        ((forgotten,),) = before[0]
        size = _ROW * sum(len(result.rows) for result, _ in recalls)
        calls = yield from off_loop(
            lambda: [self._call(*each, forgotten, moment) for each in recalls], size
        )
        share = Call("share_recalls", {"tenant": recalls[0][0].prepared.query.tenant})
        try:
            _, *kept = yield Query((share, *calls), commit=True)
        except DatabaseError as error:
            _log.warning("a recall is answered and not recorded: %s", error)
            return
        for (_, shown), rows in zip(recalls, kept, strict=True):
            shown.recall_id = self.turn if rows else None

    def _call(
        self, result: RecallResult, shown: Recollections, forgotten: int, moment: Moment
    ) -> Call:
        query = result.prepared.query
        held = {each.place for each in result.memories} - {each.place for each in shown}
        params = {
            "tenant": query.tenant,
            "turn": self.turn,
            "recall": str(uuid4()),
            "root": self.root,
            "user_id": query.bounds["user_id"],
            "project": query.project_id,
            "now": moment.now,
            "expires_at": moment.now + timedelta(days=self.days),
            "ids": sorted({row[_ID] for row in result.rows if row[_ID] is not None}),
            "asked": json.dumps(_query_as_json(result.prepared)),
            "seen": _pack_seen(result.prepared.vector, result.rows),
            "answered": json.dumps(
                [asdict(each) for each in _rank_memories(result.memories, held)]
            ),
            "by": json.dumps({"profile": query.profile.name}),
            "forgotten": forgotten,
        }
        return Call("record_recall", params)


def _rank_memories(
    memories: Sequence[Recollection], held: set[tuple[tuple[str, ...], str]]
) -> list[RankedMemory]:
    """Return the memories of an answer as ranked; those in `held` are held out."""
    return [
        RankedMemory(
            key=memory.key,
            namespace=memory.namespace,
            rank=place,
            score=memory.score,
            match=memory.match,
            held_out=memory.place in held,
            explanation=dict(memory.explanation),
        )
        for place, memory in enumerate(memories, 1)
    ]


def unpack_seen_rows(seen: bytes) -> list[dict[str, Any]]:
    """Return the recorded rows as mappings: memories, and facts about what was searched."""
    snapshot = json.loads(zlib.decompress(seen))
    return [dict(zip(Candidate._fields, row, strict=False)) for row in snapshot["rows"]]


def _query_as_json(prepared: PreparedQuery) -> dict[str, Any]:
    """Return the question as JSON; the default floor is stored as None, and replayed as today's."""
    query, otherwise = prepared.query, {"embedding", "profile"}
    return {
        **_QUERIES.dump_python(query, mode="json", exclude=otherwise, warnings=False),
        "floor": None if query.floor == DEFAULT_FLOOR else list(query.floor),
        "own_profile": PROFILES.get(query.profile.name) is not query.profile,
        "by_words": prepared.by_words,
    }


def _pack_seen(vector: PackedVector | None, rows: Sequence[Row]) -> bytes:
    snapshot = {"vector": None if vector is None else b64encode(vector.data).decode(), "rows": rows}
    return zlib.compress(json.dumps(snapshot, default=datetime.isoformat).encode(), _LEVEL)


def _parse_row(values: Sequence[Any]) -> Row:
    row = list(values)
    for place in _TIMES:
        row[place] = row[place] and datetime.fromisoformat(row[place])
    return tuple(row)


# Replaying


@dataclass(frozen=True)
class Difference:
    """Memory whose answer changed: missing, in another place, or scored otherwise."""

    key: str
    namespace: tuple[str, ...]
    then: RankedMemory | None
    now: RankedMemory | None

    def __str__(self) -> str:
        """Return its key, and its place and score then and now."""
        then, now = self.then or "not answered", self.now or "not answered"
        return f"{printable_line(self.key)}: {then} then, {now} now"


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """Recorded recall beside today's answer."""

    turn: str
    """Turn or run that it was for."""
    query: str
    at: datetime
    then: tuple[RankedMemory, ...]
    """Recorded answer, best first, with memories that the run went without."""
    now: tuple[RankedMemory, ...]
    """Answer of today."""
    differences: tuple[Difference, ...]

    @property
    def equal(self) -> bool:
        """Tell whether the same memories are answered in the same order, with the same scores."""
        return not self.differences

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON can hold it."""
        return {**asdict(self), "at": self.at.isoformat(), "equal": self.equal}

    def __str__(self) -> str:
        """Return the question, its moment, whether the answer is the same, and what differs."""
        asked = shorten_line(self.query, LINE_LENGTH) or "the newest"
        summary = f"{asked} ({self.at.isoformat()}, {len(self.then)} answered)"
        differing = (f"  {difference}" for difference in self.differences)
        return "\n".join([f"{'equal' if self.equal else 'differs'}: {summary}", *differing])


def replay_turn(
    turn: str,
    context: MemoryContext,
    config: RecallConfig,
    store: StoreFlows,
    profile: Profile | None = None,
) -> Flow[list[Replay]]:
    """Replay the recorded recalls of a turn, in their order, on the rows that were read then.

    Raises:
        InvalidInputError: if none is recorded that the context looks after, or one was ranked by a
            profile of the caller's own, and none is given.
    """
    rows = yield from rows_of(
        "recorded", **context.scope_params, turn=turn, project=context.project_id
    )
    if not rows:
        raise InvalidInputError(
            f"no recall of {short(turn)} is recorded in tenant {context.tenant!r}: with "
            "CoordinatorSettings(recall_days=30) they are, for so many days, under the turn's id, "
            "the run_id, or the recall_id of what get_context answered"
        )
    recorded = [RecordedRecall(*row) for row in rows]
    replays = []
    for record, query in [(record, record.query(profile)) for record in recorded]:
        vector, seen = record.unpack()
        moment, vectors = Moment(record.at), QueryVectors()
        vectors.failed = record.asked["by_words"]
        index = store.options.index
        prepared = prepare_query(replace(query, embedding=vector), vectors, moment, config, index)
        (again,) = yield from rank_rows([prepared], [seen], config, store.distance)
        replays.append(compare_recalls(record, query.query, again.memories))
    return replays


def compare_recalls(recorded: RecordedRecall, query: str, answered: Recollections) -> Replay:
    """Compare today's answer to a recorded recall with the recorded one."""
    then = recorded.ranked
    now = _rank_memories(answered, {memory.place for memory in then if memory.held_out})
    return Replay(
        turn=recorded.turn,
        query=query,
        at=recorded.at,
        then=tuple(then),
        now=tuple(now),
        differences=tuple(_find_differences(then, now)),
    )


def _find_differences(
    then: Sequence[RankedMemory], now: Sequence[RankedMemory]
) -> Iterator[Difference]:
    before, today = ({memory.place: memory for memory in memories} for memories in (then, now))
    for place in {**before, **today}:
        was, is_ = before.get(place), today.get(place)
        if was is None or is_ is None or not was.equals(is_):
            yield Difference(place[1], place[0], was, is_)
