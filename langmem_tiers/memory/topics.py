"""What was intended for a topic, and whether that has come up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import mul
from typing import Final

from langmem_tiers.core.reading import ends_of
from langmem_tiers.memory.base import Memory
from langmem_tiers.postgres.flow import Embed, Flow
from langmem_tiers.recall.floor import ABOUT
from langmem_tiers.recall.recall import QUERY_CHARACTERS
from langmem_tiers.remember.intending import LEAD, sentences
from langmem_tiers.remind.cue import matches
from langmem_tiers.remind.prompted import cue_in
from langmem_tiers.remind.triggers import Topic

_ABOUT: Final = 0.33
"""The match from which on a text is about what is intended: where 1 to 3 turns of LoCoMo are, 17 to
37 % of the questions match the turn that answers them so well, and 0 to 2.5 % another."""
_SHOWS: Final = 0.35
"""How near a sentence is, as local embeddings see it, that shows a cue. So near are 0.9 % of the
questions of LoCoMo to turns that answer others; of the sentences that benchmarks/cues.py reads
99.6 % that show their cue, 86 % of their look-alikes and 0.2 % of others."""
_MAY_SHOW: Final = 0.25
"""How near it is for a judge to be asked."""


def topics_of(memory: Memory, query: str, *, judged: bool) -> Flow[frozenset[str]]:
    """What was intended that a query is about, or whose cue it shows."""
    found = yield from memory.flows.intended_near(query, memory.context)
    # A judge is asked from ABOUT on.
    about, shows = (ABOUT, _MAY_SHOW) if judged else (_ABOUT, _SHOWS)
    cues = {one.content: cue_in(one.content) for one in found}
    near = yield from _nearness(memory, query, [one for one in cues.values() if one])
    topics = set()
    for one in found:
        cue = cues[one.content]
        is_about = one.match >= about if cue not in near else near[cue] >= shows
        if is_about or (cue is not None and matches(cue, query)):
            topics.add(Topic.of(one.content).about)
    return frozenset(topics)


def _nearness(memory: Memory, query: str, cues: Sequence[str]) -> Flow[Mapping[str | None, float]]:
    """How near the nearest sentence of a query is to each cue; known of local embeddings alone."""
    said = sentences(ends_of(query, QUERY_CHARACTERS))
    if not (said and cues and memory.local):
        return {}
    clauses = [LEAD.sub("", one, count=1) for one in cues]
    vectors = yield Embed((*said, *clauses), "query")
    asked, named = vectors[: len(said)], vectors[len(said) :]
    near = (max(sum(map(mul, one, other)) for other in asked) for one in named)
    return dict(zip(cues, near, strict=True))
