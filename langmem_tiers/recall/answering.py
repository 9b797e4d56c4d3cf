"""What is made of the rows that a recall read: ranked, ordered again where somebody does, cut."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from langmem_tiers.core.config import IndexOptions
from langmem_tiers.core.memory import Moment, Recollection, Recollections
from langmem_tiers.core.vectors import Distance, PackedVector, unpack
from langmem_tiers.postgres.flow import Flow, Row
from langmem_tiers.recall import floor
from langmem_tiers.recall.budget import choose
from langmem_tiers.recall.candidates import Candidate, read_columns, read_rows, recollection
from langmem_tiers.recall.dedupe import deduplicate, likeness
from langmem_tiers.recall.inquiry import POOL, REVIEWED, Reader, RecallQuery, Shortlist, Vectors
from langmem_tiers.recall.matching import by_themselves, judge
from langmem_tiers.recall.means import needs
from langmem_tiers.recall.question import Question, read_question
from langmem_tiers.recall.ranking import PROFILES, Asked, rank


class Sought(NamedTuple):
    """A question as it was read, and its vector."""

    ask: RecallQuery
    question: Question
    vector: PackedVector | None
    by_words: str | None
    """What the model failed by that would have made one."""
    meant: float
    """What the vector says of whether memory helps, as the logarithm of odds."""


def sought_for(
    ask: RecallQuery, vectors: Vectors, moment: Moment, reader: Reader, index: IndexOptions | None
) -> Sought:
    """A question with its vector, as far as there is one."""
    vector = ask.embedding or vectors.get(ask.query)
    by_words = vectors.failed if vector is None and not ask.blank else None
    if by_words is not None:
        ask = replace(ask, floor=floor.Floor())
    meant = 0.0
    shape = None if index is None else index.vector
    if vector is not None and shape is not None and reader.weights.meaning:
        meant = floor.meant_by(unpack(vector, shape), reader.weights)
    return Sought(ask, read_question(ask.query, moment.now), vector, by_words, meant)


class Answer(NamedTuple):
    """The answer of a recall to a question, with all that it was chosen from."""

    sought: Sought
    rows: Sequence[Row]
    """What Postgres found, of which the candidates are made."""
    candidates: Sequence[Candidate]
    memories: Recollections


def answer(
    sought: Sequence[Sought],
    rows: Sequence[Sequence[Row]],
    reader: Reader,
    moment: Moment,
    distance: Distance,
) -> Flow[list[Answer]]:
    """What these rows answer to each question, which nothing else decides."""
    found = [
        _ranked(one, some, reader, moment, distance) for one, some in zip(sought, rows, strict=True)
    ]
    ranked = [memories for _, memories, _ in found]
    best = yield from _ordered_again([one.ask for one in sought], ranked, reader)
    answers = []
    for one, some, memories, each in zip(sought, rows, best, found, strict=True):
        candidates, _, chance = each
        kept = _cut(memories, one.ask, reader)
        shown = Recollections(kept, by_words=one.by_words, helps=chance)
        answers.append(Answer(one, some, candidates, shown))
    return answers


def _ranked(
    one: Sought, rows: Sequence[Row], reader: Reader, moment: Moment, distance: Distance
) -> tuple[Sequence[Candidate], list[Recollection], float]:
    """What was found, the memories among it in order, and the chance that any of them helps."""
    ask = one.ask
    if ask.blank:
        newest = _wanted(read_columns(rows, distance), ask)
        memories = [recollection(row, 0.0, {}) for row in newest]
        least = floor.Floor(intended=ask.floor.intended)  # none of them matches
        kept = floor.shown(memories, least, 1.0, reader.types, among=0, asked=ask.memory_types)
        return newest, kept, 1.0
    every, searched = read_rows(rows, distance)
    found = _wanted(every, ask)
    # No more are ranked than are asked for, where nothing orders them anew or leaves some out.
    ranks = ask.pool if ask.deduplicate or reader.reranker or ask.review else ask.limit
    scored_by = reader.types.scored
    reorders = scored_by or ask.floor or ask.profile is not PROFILES["match"]
    most = ask.pool if reorders else ranks
    alike = likeness(found, one.question, searched, reader.words)
    weighed = judge(found, one.question, searched, reader.weights, alike, most=most)
    if ask.floor:
        weighed = [each for each in weighed if floor.tells(each.candidate)]
    memories = [recollection(each.candidate, each.match, each.evidence) for each in weighed]
    for place, memory in enumerate(memories if scored_by else ()):
        if (kind := scored_by.get(memory.memory_type)) is not None:
            memories[place] = replace(memory, match=kind.match(memory, ask.query))
    asking = needs(ask.query)
    helping = floor.helps(
        one.question, found, searched, reader.weights, needs=asking, meant=one.meant
    )
    memories = floor.shown(
        memories,
        ask.floor,
        helping,
        reader.types,
        among=sum(map(floor.told, found)),
        asked=ask.memory_types,
        alone=by_themselves(weighed, but=scored_by),
    )
    asked = Asked(now=moment.now, project_id=ask.project_id, query=ask.query)
    return found, rank(memories, ask.profile, asked, ranks), helping


def _wanted(found: list[Candidate], ask: RecallQuery) -> list[Candidate]:
    return [one for one in found if one.key not in ask.exclude] if ask.exclude else found


def _ordered_again(
    asks: Sequence[RecallQuery], ranked: list[list[Recollection]], reader: Reader
) -> Flow[list[list[Recollection]]]:
    """Let the re-ranker order the best of each again, then the review that it names."""
    if reader.reranker is not None:
        ranked = yield from reader.reranker.order(
            [Shortlist(ask.query, best[:POOL]) for ask, best in zip(asks, ranked, strict=True)]
        )
    for name in sorted({ask.review for ask in asks if ask.review}):
        places = [i for i, ask in enumerate(asks) if ask.review == name]
        shortlists = [
            Shortlist(asks[i].query, ranked[i][: REVIEWED * asks[i].limit]) for i in places
        ]
        ordered = yield from reader.reviews[name].order(shortlists)
        for place, best in zip(places, ordered, strict=True):
            ranked[place] = best
    return ranked


def _cut(ranked: Sequence[Recollection], ask: RecallQuery, reader: Reader) -> list[Recollection]:
    """Cut to what was asked for: no repeats, not too many, within the budget.

    Into a budget go the most useful by score; of what somebody else ordered, as much as fits.
    """
    if ask.deduplicate:
        ranked = deduplicate(ranked, ask.similarity_threshold, reader.words)
    more, share = (0, 1.0) if ask.blank else ask.floor.further  # nothing matches a blank one
    least = share * max((one.match for one in ranked[: ask.limit]), default=0.0)
    beyond = ranked[ask.limit :]
    further = [one for one in beyond[:more] if one.match >= least]
    following = floor.said_next(ranked, ranked[: ask.limit], 0 if ask.blank else ask.floor.goes_on)
    following = [one for one in following if one in beyond]
    further = [*following, *(one for one in further if one not in following)][:more]
    kept = [
        replace(one, token_count=reader.count_tokens(one.content))
        for one in (*ranked[: ask.limit], *further)
    ]
    budget = ask.max_tokens
    if budget is None:
        return kept
    if not (ask.blank or reader.reranker or ask.review):
        return choose(kept, budget, reader.count_tokens, query=ask.query).chosen
    affordable = []
    for one in kept:
        if one.token_count <= budget:
            budget -= one.token_count
            affordable.append(one)
    return affordable
