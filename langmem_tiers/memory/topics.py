"""What was intended for a topic, and whether that has come up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import mul
from typing import Final, NamedTuple

from langmem_tiers.core.reading import ends_of
from langmem_tiers.memory.base import Memory
from langmem_tiers.postgres.flow import Call, Embed, Flow, Query
from langmem_tiers.recall.floor import ABOUT
from langmem_tiers.recall.inquiry import POOL
from langmem_tiers.recall.recall import QUERY_CHARACTERS
from langmem_tiers.recall.vectors import Vectors
from langmem_tiers.remember.intending import LEAD, sentences
from langmem_tiers.remind.cue import matches
from langmem_tiers.remind.prompted import cue_in
from langmem_tiers.remind.raising import Here
from langmem_tiers.remind.triggers import Topic

_ABOUT: Final = 0.33
"""The match from which on a text is about what is intended, of a model that is not ours: where 1 to
3 turns of LoCoMo are, 17 to 37 % of the questions match the turn that answers them so well, and 0
to 2.5 % another."""
_SHOWS: Final = 0.35
"""The cosine, as our own models see it, from which on a sentence shows a cue, and a text is about
what is intended (docs/reminders.md)."""
_MAY_SHOW: Final = 0.25
"""That from which on a judge is asked."""


class _Waiting(NamedTuple):
    """What waits for its topic; a row of topics_near, the columns are in this order."""

    about: str
    cue: str | None
    distance: float | None


def topics_of(memory: Memory, query: str, here: Here, *, judged: bool) -> Flow[frozenset[str]]:
    """What was intended that a query is about, or whose cue it shows."""
    text = ends_of(query, QUERY_CHARACTERS)
    if not memory.local:
        return (yield from _by_recall(memory, text, judged=judged))
    vectors = Vectors()
    yield from vectors.add([text], here.options)
    call = Call("topics_near", {**here.params, "query": vectors.get(text), "limit": POOL})
    (rows,) = yield Query((call,), commit=True)
    waiting = [_Waiting(*row) for row in rows]
    near = yield from _nearness(text, sorted({one.cue for one in waiting if one.cue}))
    least, distance = _MAY_SHOW if judged else _SHOWS, memory.tiered_store.flows.distance
    topics = set()
    for one in waiting:
        own = 0.0 if one.distance is None else distance.cosine(one.distance)
        shown = one.cue is not None and matches(one.cue, text)
        if shown or (own if one.cue is None else near.get(one.cue, 0.0)) >= least:
            topics.add(one.about)
    return frozenset(topics)


def _by_recall(memory: Memory, query: str, *, judged: bool) -> Flow[frozenset[str]]:
    """The same by their match, as nobody knows how near is near to another model."""
    found = yield from memory.flows.intended_near(query, memory.context)
    least = ABOUT if judged else _ABOUT
    topics = set()
    for one in found:
        cue = cue_in(one.content)
        if one.match >= least or (cue is not None and matches(cue, query)):
            topics.add(Topic.of(one.content).about)
    return frozenset(topics)


def _nearness(query: str, cues: Sequence[str]) -> Flow[Mapping[str, float]]:
    """How near the nearest sentence of a query is to each cue."""
    said = sentences(query)
    if not (said and cues):
        return {}
    vectors = yield Embed((*said, *(LEAD.sub("", one, count=1) for one in cues)), "query")
    asked, named = vectors[: len(said)], vectors[len(said) :]
    near = (max(sum(map(mul, one, other)) for other in asked) for one in named)
    return dict(zip(cues, near, strict=True))
