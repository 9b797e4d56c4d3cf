"""A recorded recall answered again at its moment, and what differs from then, and why.

The rows are those that were read then: whatever was written since does not matter. All else is
today's: the package, the weights, the model, the profile. Nothing is written, nothing counts as
read.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, NamedTuple

from langmem_tiers.core.context import MemoryContext
from langmem_tiers.core.errors import InvalidInputError, short
from langmem_tiers.core.memory import Moment, Recollection
from langmem_tiers.core.reading import LINE, plain, shortened
from langmem_tiers.core.vectors import PackedVector, VectorOptions, unpack
from langmem_tiers.postgres.flow import Flow, rows_of
from langmem_tiers.recall.answering import answer, sought_for
from langmem_tiers.recall.inquiry import Inquiry
from langmem_tiers.recall.ranking import PROFILES, Asked, Profile
from langmem_tiers.recall.recording import Ranked, Recorded, Recorder, ranked
from langmem_tiers.recall.vectors import Vectors
from langmem_tiers.store.flows import StoreFlows

_SAME: Final = 1e-9
"""How far two scores may be apart that are the same: what machines reckon differs by less."""
_SAME_NUMBER: Final = 2e-3
"""The same of two numbers of a vector, which are stored in half precision."""
_UNKNOWN: Final = "nothing that is recorded"


class Difference(NamedTuple):
    """A memory that is answered otherwise than then: not at all, elsewhere, or scored otherwise."""

    key: str
    namespace: tuple[str, ...]
    then: Ranked | None
    now: Ranked | None

    def __str__(self) -> str:
        """Which, and its place and score then and now."""
        return f"{plain(self.key)}: {_placed(self.then)} then, {_placed(self.now)} now"


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """A recorded recall beside what today's code makes of it."""

    turn: str
    """The turn or the run that it was for."""
    query: str
    at: datetime
    then: tuple[Ranked, ...]
    """What was answered, best first, with what the run went without."""
    now: tuple[Ranked, ...]
    """What is answered today."""
    differences: tuple[Difference, ...]
    changed: tuple[str, ...]
    """What it goes by that is not as it was, whether or not the answer is."""

    @property
    def equal(self) -> bool:
        """Whether the same memories are answered in the same order, with the same scores."""
        return not self.differences

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why the answers differ, as far as is known; nothing if they are equal."""
        return () if self.equal else self.changed or (_UNKNOWN,)

    def to_json(self) -> dict[str, Any]:
        """It as JSON can hold it, with what follows of it."""
        return {
            "turn": self.turn,
            "query": self.query,
            "at": self.at.isoformat(),
            "equal": self.equal,
            "then": [one._asdict() for one in self.then],
            "now": [one._asdict() for one in self.now],
            "differences": [_json(one) for one in self.differences],
            "reasons": list(self.reasons),
            "changed": list(self.changed),
        }

    def __str__(self) -> str:
        """What was asked when, whether the answer is the same, and if not what differs and why."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        asked = shortened(self.query, LINE) or "the newest"
        many = f"{len(self.then)} answered"
        yield f"{'equal' if self.equal else 'differs'}: {asked} ({self.at.isoformat()}, {many})"
        yield from (f"  {one}" for one in self.differences)
        if self.equal and self.changed:
            yield f"  changed since, to no effect: {plain('; '.join(self.changed))}"
        elif not self.equal:
            yield f"  because of: {plain('; '.join(self.reasons))}"


def _json(one: Difference) -> dict[str, Any]:
    then, now = (None if each is None else each._asdict() for each in (one.then, one.now))
    return {"key": one.key, "namespace": one.namespace, "then": then, "now": now}


def replay(
    turn: str,
    context: MemoryContext,
    recorder: Recorder,
    store: StoreFlows,
    profile: Profile | None = None,
) -> Flow[list[Replay]]:
    """Answer the recorded recalls of a turn again, in their order.

    Raises:
        InvalidInputError: if none is recorded that the context looks after, or one was ranked by a
            profile of the caller's own, and none is given.
    """
    rows = yield from rows_of("recorded", **context.whose, turn=turn, project=context.project_id)
    if not rows:
        raise InvalidInputError(
            f"no recall of {short(turn)} is recorded in tenant {context.tenant!r}: with "
            "CoordinatorSettings(recall_days=30) they are, for so many days, under the turn's id, "
            "the run_id, or the recall_id of what get_context answered"
        )
    recorded = [Recorded(*row) for row in rows]
    asks = [one.inquiry(recorder.floor, _profile_of(one, profile)) for one in recorded]
    vectors = Vectors()
    yield from vectors.add(
        (
            ask.query
            for one, ask in zip(recorded, asks, strict=True)
            if not one.asked["given_vector"] and one.asked["by_words"] is None
        ),
        store.options,
    )
    found = []
    for one, ask in zip(recorded, asks, strict=True):
        found.append((yield from _replayed(one, ask, vectors, recorder, store)))
    return found


def _replayed(
    recorded: Recorded, ask: Inquiry, known: Vectors, recorder: Recorder, store: StoreFlows
) -> Flow[Replay]:
    """One of them; its rows were read then, and how near they were to the question too."""
    vector, rows = recorded.opened()
    index, reader = store.options.index, recorder.reader
    shape = None if index is None else index.vector
    today = vector if recorded.asked["given_vector"] else known.get(ask.query, vector)
    if other_model := not _alike(vector, today, shape):
        vector = today
    vectors, moment = Vectors(), Moment(recorded.at)
    vectors.failed = recorded.asked["by_words"]
    sought = sought_for(replace(ask, embedding=vector), vectors, moment, reader, index)
    (answered,) = yield from answer([sought], [rows], reader, moment, store.distance)
    then, now = recorded.ranked, ranked(answered.memories)
    held = {one.place for one in then if one.held_out}
    now = [one._replace(held_out=one.place in held) for one in now]
    changed = [*_changed(recorded, recorder.by(ask))]
    if other_model and not any(one.startswith("model") for one in changed):
        changed.append("model: it makes another vector of the question")
    if terms := _other_terms(then, answered.memories, ask, moment.now):
        changed.append(f"profile: {ask.profile.name} has other terms ({', '.join(terms)})")
    return Replay(
        turn=recorded.turn,
        query=ask.query,
        at=recorded.at,
        then=tuple(then),
        now=tuple(now),
        differences=tuple(_differences(then, now)),
        changed=tuple(changed),
    )


def _profile_of(recorded: Recorded, given: Profile | None) -> Profile:
    """The profile of a recall as it is today."""
    name = recorded.by["profile"]
    if not recorded.own_profile and name in PROFILES:
        return PROFILES[name]
    if given is None:
        raise InvalidInputError(
            f"a recall of {short(recorded.turn)} was ranked by a profile of the caller's own, "
            f"{short(name)}: give it, as profile=…"
        )
    return given


def _alike(
    then: PackedVector | None, now: PackedVector | None, shape: VectorOptions | None
) -> bool:
    """Whether two vectors are the same, as far as the store keeps them."""
    if then is None or now is None or shape is None:
        return then == now
    if len(then.data) != len(now.data):
        return False
    pairs = zip(unpack(then, shape), unpack(now, shape), strict=True)
    return all(math.isclose(a, b, rel_tol=_SAME_NUMBER, abs_tol=_SAME_NUMBER) for a, b in pairs)


def _changed(recorded: Recorded, now: Mapping[str, Any]) -> Iterator[str]:
    """What a recall went by that is not as it was; a floor counts that was not asked for."""
    then, asked = recorded.by, set() if recorded.asked["floor"] is None else {"floor"}
    for name in sorted({*then, *now} - asked):
        was, is_ = then.get(name), now.get(name)
        if was != is_:
            yield f"{name}: {was or 'none'} → {is_ or 'none'}"


def _other_terms(
    then: Sequence[Ranked], now: Sequence[Recollection], ask: Inquiry, at: datetime
) -> list[str]:
    """The terms that the profile makes otherwise than then of the match that a memory had then."""
    if ask.blank:
        return []
    before = {one.place: one for one in then}
    asked = Asked(now=at, project_id=ask.project_id, query=ask.query)
    names = set()
    for memory in now:
        if (one := before.get((memory.namespace, memory.key))) is not None:
            made = ask.profile.terms(replace(memory, match=one.match), asked)
            terms = made if isinstance(made, Mapping) else {"profile": made}
            given = one.explanation
            names |= {name for name in terms if not _same(float(terms[name]), given.get(name))}
    return sorted(names)


def _differences(then: Sequence[Ranked], now: Sequence[Ranked]) -> Iterator[Difference]:
    before, today = ({one.place: one for one in several} for several in (then, now))
    for place in {**before, **today}:
        was, is_ = before.get(place), today.get(place)
        if was is None or is_ is None or not _is_same(was, is_):
            yield Difference(place[1], place[0], was, is_)


def _is_same(one: Ranked, other: Ranked) -> bool:
    same = _same(one.score, other.score) and _same(one.match, other.match)
    return same and one.rank == other.rank


def _same(one: float, other: float | None) -> bool:
    return other is not None and math.isclose(one, other, rel_tol=_SAME, abs_tol=_SAME)


def _placed(one: Ranked | None) -> str:
    return "not answered" if one is None else f"{one.rank}. ({one.score:.4f})"
