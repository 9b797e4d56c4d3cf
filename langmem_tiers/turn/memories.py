"""The memories that a turn is shown: what answers its prompt, and what does in its circumstances.

A follow-up question says half of what it means, and the conversation has the other half: what
earlier stages say is asked for as well. What is found thereby adds at most half of the best answer
to the prompt alone: what answers that less than half as well never comes before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, NamedTuple

from langmem_tiers.core.memory import Recollection
from langmem_tiers.core.options import RECALL_OPTIONS
from langmem_tiers.memory.coordinator import MemoryCoordinator
from langmem_tiers.postgres.flow import Flow, unit
from langmem_tiers.recall.candidates import Candidate
from langmem_tiers.recall.recall import Inquiry
from langmem_tiers.remember.gate import triviality
from langmem_tiers.store.read import embed_texts
from langmem_tiers.turn.layout import Fragment, Section

WEIGHT: Final = 0.5
"""How much of its score in the circumstances a memory is given at most: our own choice."""
MOST_WORDS: Final = 8
"""Words of an earlier stage that are asked for; the time grows with them: our own choice."""
_TELLING: Final = re.compile(r"\w{4,}|\w*[A-Z0-9]{2,}\w*")
"""Words that say what is talked about: no short ones, but for abbreviations and numbers."""
MOST_INFORMED: Final = 10
"""Memories that an earlier stage's words call up at most."""
LEAST_MATCH: Final = 0.1
"""What a memory's match, a chance to be evidence, is at least with the cut-off: our own choice."""
LEAST_INFORMED_MATCH: Final = 0.2
"""Likewise where an earlier stage's words alone call it up: above what shares no word with them."""
_LAST: Final = 2
"""Messages of a conversation that are."""
_LISTED: Final = re.compile(r"^- (.+?)(?: \(\d+% done\))?$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class MemorySource:
    """Recalls memories, in one round trip, by its stage's options and the turn's filters.

    Options are those of `get_context`; `query` stands for the prompt, and an empty one asks for the
    newest, which then do not count as accessed; `other_than` names the memory types that are left
    out, `informed_by` the earlier stages whose words it asks for as well; `own` asks for what the
    agent remembered itself, where one is named.
    """

    name: str
    known_options: ClassVar = (*RECALL_OPTIONS, "query", "other_than", "informed_by", "own")

    def flow(
        self, prompt: str, metadata: Mapping[str, Any], memory: MemoryCoordinator
    ) -> Flow[Section]:
        """The memories that matter for a prompt, best first."""
        options = dict(metadata["options"])
        said = memory.tiered_store.options.bounds.beginning(prompt)
        query, stages = options.pop("query", said), options.pop("informed_by", ())
        types = _types(options, metadata["filters"], memory)
        if types == []:
            return Section()
        if options.pop("own", False) and metadata["agent_id"] is not None:
            options["agent_id"] = metadata["agent_id"]
        asked = {**options, **metadata["filters"], "memory_types": types}
        ask = memory.asking.ask(query, memory.context, **asked)
        alone = ask.blank or ask.max_tokens is not None
        told = [] if alone else circumstances(metadata["sections"], stages)
        found = yield from unit(_recalled(ask, told, metadata["vectors"], memory))
        return Section(tuple(Fragment.of_memory(one, self.name) for one in found))


def _recalled(
    ask: Inquiry,
    told: Sequence[Circumstance],
    vectors: dict[str, Any],
    memory: MemoryCoordinator,
) -> Flow[list[Recollection]]:
    """Recall, in its circumstances too; a turn embeds each text once."""
    store = memory.tiered_store
    few = min(ask.limit, MOST_INFORMED)
    asks = [ask, *(replace(ask, query=one.query, embedding=None, limit=few) for one in told)]
    ready = yield from _embedded(asks, vectors, memory)
    if ask.blank:
        (found,) = yield from memory.flows.recall(ready, lambda _: True)  # shown, whatever is asked
        return found
    rows: dict[tuple[tuple[str, ...], str], Candidate] = {}

    def noted(row: Candidate) -> bool:
        rows[row.place] = row
        return True  # it counts as accessed once, below, if it is among the best

    direct, *informed = yield from memory.flows.recall(ready, noted)
    if ask.cutoff:
        direct = [] if triviality(ask.query) else matching(direct, LEAST_MATCH)
        informed = [matching(each, LEAST_INFORMED_MATCH) for each in informed]
    by_stage = zip([one.stage for one in told], informed, strict=True)
    found = together(direct, dict(by_stage), ask.limit)
    read = [rows[one.namespace, one.key] for one in found]
    yield from store.flows.mark(read, store.flows.moment())
    return found


def _embedded(
    asks: Sequence[Inquiry], vectors: dict[str, Any], memory: MemoryCoordinator
) -> Flow[list[Inquiry]]:
    """The questions with their vectors; those that are not known yet are added."""
    unready = (one.query for one in asks if one.embedding is None and one.query.strip())
    if fresh := [text for text in unready if text not in vectors]:
        vectors |= yield from embed_texts(fresh, memory.tiered_store.options)
    return [replace(one, embedding=one.embedding or vectors.get(one.query)) for one in asks]


def _types(
    options: dict[str, Any], filters: Mapping[str, Any], memory: MemoryCoordinator
) -> list[str] | None:
    """The memory types that a stage may recall, as far as the filters let it."""
    left_out = options.pop("other_than", None)
    own = options.pop("memory_types", None)
    if own is None and left_out is not None:
        own = [one.name for one in memory.types if one.name not in left_out]
    wanted = filters.get("memory_types")
    if own is None or wanted is None:
        found = own if wanted is None else wanted
        return None if found is None else list(found)
    return [one for one in own if one in wanted]


class Circumstance(NamedTuple):
    """What an earlier stage said, as a question."""

    stage: str
    query: str


def circumstances(sections: Mapping[str, Section], stages: Iterable[str]) -> list[Circumstance]:
    """What these stages said, as far as they said anything."""
    told = [(name, _told(name, sections.get(name, Section()))) for name in stages]
    return [Circumstance(name, said) for name, said in told if said]


def matching(found: Iterable[Recollection], least: float) -> list[Recollection]:
    """Those that match so well at least."""
    return [one for one in found if one.match >= least]


def together(
    direct: Sequence[Recollection],
    informed: Mapping[str, Sequence[Recollection]],
    limit: int,
) -> list[Recollection]:
    """What answers the prompt, and what does in its circumstances, best first.

    The explanation of a memory says what which stage added; of several the one that adds most does.
    """
    best = max((one.score for one in direct), default=None)
    found = {(one.namespace, one.key): one for one in direct}
    added: dict[tuple[tuple[str, ...], str], tuple[float, str]] = {}
    for stage, several in informed.items():
        for one in several:
            place = (one.namespace, one.key)
            more = WEIGHT * (one.score if best is None else min(best, one.score))
            added[place] = max(added.get(place, (0.0, "")), (more, stage))
            found.setdefault(place, replace(one, match=0.0, score=0.0, explanation={}))
    for place, (more, stage) in added.items():
        one, terms = found[place], {stage: more} if more else {}
        found[place] = replace(
            one, score=one.score + more, explanation={**one.explanation, **terms}
        )
    return sorted(found.values(), key=lambda one: -one.score)[:limit]


def _told(stage: str, section: Section) -> str:
    """What a stage said, in a few words: the end of a conversation, the beginning of a list."""
    if stage == "conversation":
        said = [one.text for one in section if one.fields.get("speaker")] or [str(section)]
        return " ".join(_telling(one, MOST_WORDS // _LAST) for one in said[-_LAST:]).strip()
    text = str(section)
    listed = _LISTED.findall(text) or [text]
    return _telling(" ".join(listed), MOST_WORDS)


def _telling(text: str, most: int) -> str:
    return " ".join(_TELLING.findall(text)[:most])
