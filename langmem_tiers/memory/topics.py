"""What was intended for a topic, and whether that has come up."""

from __future__ import annotations

from typing import Final

from langmem_tiers.core.reading import ends_of
from langmem_tiers.core.types import PROSPECTIVE
from langmem_tiers.memory.base import Memory
from langmem_tiers.memory.flows import looked_up
from langmem_tiers.postgres.flow import Flow, only, rows_of
from langmem_tiers.recall.floor import ABOUT
from langmem_tiers.recall.inquiry import POOL, RecallQuery, Vectors, reach
from langmem_tiers.recall.ranking import PROFILES
from langmem_tiers.recall.recall import QUERY_CHARACTERS
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


def topics_of(memory: Memory, query: str, here: Here, *, judged: bool) -> Flow[frozenset[str]]:
    """What was intended that a query is about."""
    text = ends_of(query, QUERY_CHARACTERS)
    if not memory.local:
        near = RecallQuery(
            query=text,
            bounds=reach(memory.context),
            limit=POOL,
            memory_types=[PROSPECTIVE],
            profile=PROFILES["match"],
        )
        found = yield from only(looked_up(memory, [near]))
        least = ABOUT if judged else _ABOUT  # nobody knows how near is near to another model
        return frozenset(Topic.of(one.content).about for one in found if one.match >= least)
    vectors = Vectors()
    yield from vectors.add([text], here.options)
    waiting = yield from rows_of("topics_near", **here.params, query=vectors.get(text), limit=POOL)
    least, cosine = _MAY_SHOW if judged else _SHOWS, memory.tiered_store.flows.distance.cosine
    return frozenset(about for about, far in waiting if far is not None and cosine(far) >= least)
