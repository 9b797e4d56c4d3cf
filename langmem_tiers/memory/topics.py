"""What was intended for a topic, and whether that has come up."""

from __future__ import annotations

from typing import Final, NamedTuple

from langmem_tiers.core.reading import ends_of
from langmem_tiers.memory.base import Memory
from langmem_tiers.postgres.flow import Call, Flow, Query
from langmem_tiers.recall.floor import ABOUT
from langmem_tiers.recall.inquiry import POOL
from langmem_tiers.recall.recall import QUERY_CHARACTERS
from langmem_tiers.recall.vectors import Vectors
from langmem_tiers.remind.raising import Here
from langmem_tiers.remind.triggers import Topic

_ABOUT: Final = 0.33
"""The match from which on a text is about what is intended, of a model that is not ours: where 1 to
3 turns of LoCoMo are, 17 to 37 % of the questions match the turn that answers them so well, and 0
to 2.5 % another."""
_SHOWS: Final = 0.35
"""The cosine, as our own models see it, from which on a text is about what is intended
(docs/reminders.md)."""
_MAY_SHOW: Final = 0.25
"""That from which on a judge is asked."""


class _Waiting(NamedTuple):
    """What waits for its topic; a row of topics_near, the columns are in this order."""

    about: str
    distance: float | None


def topics_of(memory: Memory, query: str, here: Here, *, judged: bool) -> Flow[frozenset[str]]:
    """What was intended that a query is about."""
    text = ends_of(query, QUERY_CHARACTERS)
    if not memory.local:
        return (yield from _by_recall(memory, text, judged=judged))
    vectors = Vectors()
    yield from vectors.add([text], here.options)
    call = Call("topics_near", {**here.params, "query": vectors.get(text), "limit": POOL})
    (rows,) = yield Query((call,), commit=True)
    waiting = [_Waiting(*row) for row in rows]
    least, distance = _MAY_SHOW if judged else _SHOWS, memory.tiered_store.flows.distance
    return frozenset(
        one.about
        for one in waiting
        if one.distance is not None and distance.cosine(one.distance) >= least
    )


def _by_recall(memory: Memory, query: str, *, judged: bool) -> Flow[frozenset[str]]:
    """The same by their match, as nobody knows how near is near to another model."""
    found = yield from memory.flows.intended_near(query, memory.context)
    least = ABOUT if judged else _ABOUT
    return frozenset(Topic.of(one.content).about for one in found if one.match >= least)
