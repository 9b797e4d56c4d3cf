"""Choose from the ranked memories: drop those that repeat another, and fill a token budget.

A re-ranker or a review may reorder the best memories before that.

A set of memories is worth the relevance of its members, less what they repeat of each other, plus
the words of the query that it covers.
"""

from __future__ import annotations

import math
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from heapq import heappop, heapreplace
from numbers import Real
from operator import attrgetter
from typing import Final, NamedTuple

from langchain_core.documents import BaseDocumentCompressor, Document

from langmem_tiers.core.errors import InvalidInputError, InvalidTypeError, short
from langmem_tiers.core.memory import ASSISTANT_ROLES, Recollection, Source
from langmem_tiers.core.texts import exact_words, fold_case, shorten_line
from langmem_tiers.core.values import source_of
from langmem_tiers.postgres.flow import Flow, ask_model
from langmem_tiers.recall.matching import WordVectors

TokenCounter = Callable[[str], int]
"""Function that counts the tokens of a text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetDecision:
    """Decision on one memory: chosen or not, its cost in tokens, and the reason in plain words."""

    memory: Recollection
    chosen: bool
    tokens: int
    reason: str
    repeats: Recollection | None = None
    """Chosen memory nearest to this one, if this one adds nothing to those chosen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Chosen memories, best first, with one decision for each candidate in the same order."""

    chosen: list[Recollection]
    decisions: list[BudgetDecision]
    tokens: int
    """Sum of the costs of the chosen memories."""


def choose(
    ranked: Iterable[Recollection],
    max_tokens: int,
    count_tokens: TokenCounter,
    *,
    query: str = "",
    render: Callable[[Recollection], str] = attrgetter("content"),
) -> Choice:
    """Choose the most useful memories that fit into a budget of tokens.

    A set is useful for its scores, less what its memories repeat of each other, and for the
    words of the query that it covers.

    The sum of `count_tokens(render(memory))` over the chosen never exceeds `max_tokens`,
    whatever the counter. A counter may find more in a joined text than in its parts: leave room for
    what stands between memories, or render it with them. The order of the input does not matter.

    Raises:
        InvalidInputError: `max_tokens` is negative, or the counter returned no whole number
            of 0 or more.

    Example:
        ```python
        from langmem_tiers.recall.budget import choose

        choice = choose(memories, 800, lambda text: len(text) // 4 + 1)
        print(*(decision.reason for decision in choice.decisions), sep=" | ")
        ```
    """
    if max_tokens < 0:
        raise InvalidInputError(f"max_tokens is {max_tokens}; give 0 or more.")
    max_tokens = min(max_tokens, sys.maxsize)
    memories = sorted(ranked, key=lambda memory: (-memory.score, memory.namespace, memory.key))
    costs = [checked_count(render(memory), count_tokens) for memory in memories]
    worths = usefulness(memories, query)
    chosen = sorted(pack(worths, costs, max_tokens)) if max_tokens else []
    tokens = sum(costs[member] for member in chosen)
    so_far = combined_worth(worths[member] for member in chosen)

    def decided(member: int) -> BudgetDecision:
        memory, cost, repeats = memories[member], costs[member], None
        if member in chosen:
            reason = f"fits: {_token_phrase(cost)}"
        elif added_worth(worths[member], so_far) <= NEGLIGIBLE:
            nearest = min(chosen, key=lambda other: added_worth(worths[member], worths[other]))
            repeats = memories[nearest]
            reason = f"left out: repeats {repeats.key}"
        else:
            verb = "does" if cost == 1 else "do"
            left = f"the {max_tokens - tokens} left"
            reason = f"left out: {_token_phrase(cost)} {verb} not fit into {left}"
        return BudgetDecision(
            memory=memory, chosen=member in chosen, tokens=cost, reason=reason, repeats=repeats
        )

    return Choice(
        chosen=[memories[member] for member in chosen],
        decisions=[decided(member) for member in range(len(memories))],
        tokens=tokens,
    )


_MOST_TOKENS: Final = 2**63


def checked_count(text: str, count_tokens: TokenCounter) -> int:
    """Count the tokens of a text with the caller's counter.

    Raises:
        InvalidInputError: if the counter returned no whole number of 0 or more.
    """
    tokens: object = count_tokens(text)
    if isinstance(tokens, int) and not isinstance(tokens, bool) and 0 <= tokens <= _MOST_TOKENS:
        return tokens
    raise InvalidInputError(
        f"the token counter returned {short(tokens)} for {shorten_line(text, 40)!r}: it is to "
        "return "
        "a whole number of 0 or more"
    )


def _token_phrase(tokens: int) -> str:
    return "1 token" if tokens == 1 else f"{tokens:,} tokens"


LEAST_RELEVANCE = 1e-6
"""Relevance of even the worst ranked memory: it is taken where there is room."""
SHARPNESS = 3
"""Power to which a memory's share of the best score is raised. With 1, many short memories of
little relevance are preferred to a long one that answers (docs/recall.md: evidence inside 2,000
tokens 0.878 with 1, 0.884 in ranked order, more with 3)."""
COVERAGE = 0.1
"""Worth of all the query's words together, where the best memory is worth 1: words settle what
relevance leaves nearly open."""

Worths = Sequence[Mapping[int, float]]
"""Worth of each memory, by the groups that it takes part in.

In each group a set is worth as much as its worthiest member. So another memory never makes a set
worse, and adds less the more is there already.
"""


def usefulness(memories: Sequence[Recollection], query: str = "") -> Worths:
    """Weigh each memory by group; the best single score counts 1.

    A memory's score is spread evenly over its words and its runs of three words: text that another
    memory repeats counts once. Each word of the query that occurs counts by its rarity among the
    memories.
    """
    feature_sets = [text_features(memory.content) for memory in memories]
    saying: dict[Feature, list[int]] = defaultdict(list)
    for member, own_features in enumerate(feature_sets):
        for feature in own_features:
            saying[feature].append(member)
    # Features of the same memories form one group: hundreds of features become a few groups.
    groups = sorted(Counter(map(tuple, saying.values())).items())
    asked = [saying[word] for word in sorted(set(exact_words(query))) if word in saying]
    rarity = math.fsum(1 / len(members) for members in asked)
    best = max((memory.score for memory in memories), default=0.0)
    relevances = [
        (max(memory.score, 0.0) / best) ** SHARPNESS if best > 0 else 0.0 for memory in memories
    ]
    shares = [
        max(relevance, LEAST_RELEVANCE) / len(own_features)
        for relevance, own_features in zip(relevances, feature_sets, strict=True)
    ]
    worths: list[dict[int, float]] = [{} for _ in memories]
    for group, (members, size) in enumerate(groups):
        for member in members:
            worths[member][group] = size * shares[member]
    for group, having in enumerate(asked, start=len(groups)):
        for member in having:
            worths[member][group] = COVERAGE / len(having) / rarity
    return worths


def combined_worth(worths: Iterable[Mapping[int, float]]) -> dict[int, float]:
    """Combine the worths of several memories: the greatest in each group."""
    together: dict[int, float] = {}
    for worth_by_group in worths:
        for group, worth in worth_by_group.items():
            together[group] = max(worth, together.get(group, 0.0))
    return together


def added_worth(worth_by_group: Mapping[int, float], so_far: Mapping[int, float]) -> float:
    """Sum what a memory adds, over all groups, to the worth of others."""
    return sum(max(worth - so_far.get(group, 0.0), 0.0) for group, worth in worth_by_group.items())


NEGLIGIBLE = 1e-9
"""Largest gain that is mere rounding."""


def pack(worths: Worths, costs: Sequence[int], room: int) -> list[int]:
    """Choose the worthiest members that cost no more than the room together.

    Members are added by their gain per cost. A second try begins with the single worthiest member
    and wins if it is worth more: short memories of little relevance then take no place from one
    that answers.
    """
    fitting = [member for member, cost in enumerate(costs) if cost <= room]
    if not fitting:
        return []

    def worth(chosen: Iterable[int]) -> float:
        return round(math.fsum(combined_worth(worths[member] for member in chosen).values()), 9)

    best = max(fitting, key=lambda member: sum(worths[member].values()))
    return max((_greedy(worths, costs, room, first) for first in ([], [best])), key=worth)


def _greedy(worths: Worths, costs: Sequence[int], room: int, first: Sequence[int]) -> list[int]:
    """Add the members with the highest gain per cost, until none fits or gains anything.

    A gain can only fall as the set grows. So a member that still leads the heap after its gain is
    recomputed is the best.
    """
    chosen, so_far = list(first), combined_worth(worths[member] for member in first)
    room -= sum(costs[member] for member in first)
    heap = [(-math.inf, member, -1) for member in range(len(costs)) if member not in first]
    while heap:
        _, member, reckoned_at = heap[0]
        cost, more = costs[member], added_worth(worths[member], so_far)
        if cost > room or more <= NEGLIGIBLE:
            heappop(heap)
        elif reckoned_at < len(chosen):
            heapreplace(heap, (-more / cost if cost else -math.inf, member, len(chosen)))
        else:
            heappop(heap)
            so_far = combined_worth((so_far, worths[member]))
            chosen.append(member)
            room -= cost
    return chosen


# Near-duplicates

SIMILARITY_THRESHOLD = 0.85
"""Similarity from which on two texts count as the same, as specified for recall."""

SHORT_WORDS = 6
"""Longest text, in words, that has too few shingles to be compared by them alone."""


Feature = str | tuple[str, ...]

SHINGLE = 3
"""Words in a shingle: enough to tell "not before noon" from "noon, not before"."""

_APOSTROPHE = re.compile("['\u2019]")


def shingles(ordered: list[str]) -> frozenset[Feature]:
    """Return each run of three words; a shorter text is one run."""
    if len(ordered) < SHINGLE:
        return frozenset([tuple(ordered)])
    return frozenset(zip(ordered, ordered[1:], ordered[2:], strict=False))


def text_features(text: str) -> frozenset[Feature]:
    """Return the words and the shingles of a text: shingles keep the order, who owes whom."""
    ordered = exact_words(text)
    return shingles(ordered) | frozenset(ordered)


class ComparedText:
    """Text to compare with others that were read with the same `numbers`."""

    def __init__(self, text: str, numbers: dict[Feature, int]) -> None:
        self.plain = fold_case(text)
        self.words = exact_words(text)
        self.is_short = len(self.words) <= SHORT_WORDS
        self._numbers = numbers
        self.shingles = self._set(shingles(self.words))

    @cached_property
    def features(self) -> int:
        """Return single words and shingles, as bits."""
        return self._set(shingles(self.words) | set(self.words))

    def _set(self, feature_set: Collection[Feature]) -> int:
        """Return features as the bits of an integer: it compares many times faster than a set."""
        numbers = self._numbers
        positions = [numbers.setdefault(feature, len(numbers)) for feature in feature_set]
        bits = bytearray(len(numbers) // 8 + 1)
        for position in positions:
            bits[position >> 3] |= 1 << (position & 7)
        return int.from_bytes(bits, "little")


def deduplicate(
    ranked: Sequence[Recollection],
    similarity_threshold: float = SIMILARITY_THRESHOLD,
    vocabulary: WordVectors | None = None,
) -> list[Recollection]:
    """Drop each memory whose text is similar to one that is ranked above it.

    If one speaker said the same words again, the memory of the last day stands in the first place:
    the current state must not look older than what was said in between. With a `vocabulary`, an
    assistant's echo of a person ("You live in Lisbon" to "I live in Lisbon") is a repetition as
    well, and the person's memory stands in its place.

    The threshold is in 0…1, see `similarity`: at 1 only texts with the same shingles repeat each
    other, at 0 all do.
    """
    kept: list[Recollection] = []
    texts: list[ComparedText] = []
    numbers: dict[Feature, int] = {}
    for memory in ranked:
        text = ComparedText(memory.content, numbers)
        echoed = None if vocabulary is None else _find_echo(memory, text, kept, texts, vocabulary)
        if echoed is None and all(similarity(text, each) < similarity_threshold for each in texts):
            kept.append(memory)
            texts.append(text)
            continue
        if echoed is not None and _speaker_side(memory) == Source.USER:
            kept[echoed], texts[echoed] = memory, text
        for place, (other, standing) in enumerate(zip(texts, kept, strict=True)):
            if text.plain == other.plain and _is_said_later(memory, standing):
                kept[place] = memory
    return kept


def _find_echo(
    memory: Recollection,
    text: ComparedText,
    kept: Sequence[Recollection],
    texts: Sequence[ComparedText],
    vocabulary: WordVectors,
) -> int | None:
    """Find the place of the memory that echoes this one, or that this one echoes."""
    side = _speaker_side(memory)
    if side is None:
        return None
    for place, (other, standing) in enumerate(zip(texts, kept, strict=True)):
        if len(text.words) != len(other.words) or _speaker_side(standing) in (None, side):
            continue
        if (pairs := _differing_words(text.words, other.words)) and vocabulary.interchangeable(
            pairs
        ):
            return place
    return None


def _differing_words(here: Sequence[str], there: Sequence[str]) -> list[tuple[str, str]]:
    """Return the words in which texts of equal length differ; none if a word has more parts."""
    differing = list[tuple[str, str]]()
    for word, other in zip(here, there, strict=True):
        parts, others = _APOSTROPHE.split(word), _APOSTROPHE.split(other)
        if len(parts) != len(others):
            return []
        differing += [pair for pair in zip(parts, others, strict=True) if pair[0] != pair[1]]
    return differing if all(each.isalpha() for pair in differing for each in pair) else []


def _speaker_side(memory: Recollection) -> str | None:
    """Return who speaks in a memory: a person, an assistant, or None."""
    speaker = (memory.speaker or "").lower()
    if speaker in ASSISTANT_ROLES:
        return Source.AGENT
    source = source_of(memory.value)
    return source if source == Source.USER or (not speaker and source == Source.AGENT) else None


def _is_said_later(memory: Recollection, other: Recollection) -> bool:
    """Tell whether the same speaker said it at a later time."""
    by, before = ((each.speaker, each.value.get("source")) for each in (memory, other))
    return by == before and memory.when > other.when


def similarity(text: ComparedText, other: ComparedText) -> float:
    """Compare the words of two texts, in 0…1.

    The result is 1 if they differ in case and white space at most, else the Jaccard similarity of
    their runs of three words. If either has six words or fewer, single words count too: one other
    word would leave hardly a run the same.
    """
    if text.plain == other.plain:
        return 1.0
    if text.is_short or other.is_short:
        return _jaccard(text.features, other.features)
    return _jaccard(text.shingles, other.shingles)


def _jaccard(bits: int, other: int) -> float:
    return (bits & other).bit_count() / (bits | other).bit_count()


def checked_tokens(tokens: object, what: str = "max_tokens") -> int | None:
    """Return a budget of tokens: 0 or more, or None for no budget."""
    if tokens is None:
        return None
    if isinstance(tokens, bool) or not isinstance(tokens, int):
        raise InvalidTypeError(f"{what} is a whole number, not {type(tokens).__name__}")
    if tokens < 0:
        raise InvalidInputError(f"{what} is {short(tokens)}: use 0 or more, or None for no budget")
    return tokens


# Re-rankers

_PLACE = "langmem_tiers_place"


class Shortlist(NamedTuple):
    """Best memories for one query, in the order of the ranking."""

    query: str
    best: Sequence[Recollection]


class Reranker(NamedTuple):
    """Reorder the best memories, by code or by a model of the caller's.

    Both functions take the shortlists of several queries at once, and return the memories that
    remain of each.
    """

    call: Callable[[Sequence[Shortlist]], Sequence[Sequence[Recollection]]]
    acall: Callable[[Sequence[Shortlist]], Awaitable[Sequence[Sequence[Recollection]]]]
    name: str

    def order(self, shortlists: Sequence[Shortlist]) -> Flow[list[list[Recollection]]]:
        """Reorder each shortlist; one without a query or a memory stays as it is."""
        asked = {
            i: shortlist
            for i, shortlist in enumerate(shortlists)
            if shortlist.query.strip() and shortlist.best
        }
        ordered = [list(shortlist.best) for shortlist in shortlists]
        if asked:
            best = list(asked.values())
            chosen = yield from ask_model(self, best)
            for place, memories in zip(asked, chosen, strict=True):
                ordered[place] = list(memories)
        return ordered


def reranker_for(compressor: BaseDocumentCompressor) -> Reranker:
    """Make a re-ranker of a compressor; memories that the compressor drops are dropped.

    The order is the compressor's. Its `relevance_score`, if it gives one in the metadata, is
    added to each memory's evidence as `reranker`; score and explanation stay the profile's.
    """

    def call(shortlists: Sequence[Shortlist]) -> list[list[Recollection]]:
        return [
            _memories_of(compressor.compress_documents(_to_documents(best), query), best)
            for query, best in shortlists
        ]

    async def acall(shortlists: Sequence[Shortlist]) -> list[list[Recollection]]:
        return [
            _memories_of(await compressor.acompress_documents(_to_documents(best), query), best)
            for query, best in shortlists
        ]

    return Reranker(call, acall, type(compressor).__name__)


def _to_documents(memories: Sequence[Recollection]) -> list[Document]:
    return [
        Document(
            page_content=memory.content,
            id=memory.key,
            metadata={
                _PLACE: i,
                "key": memory.key,
                "score": memory.score,
                "tier": memory.tier.value,
            },
        )
        for i, memory in enumerate(memories)
    ]


def _memories_of(documents: Sequence[Document], best: Sequence[Recollection]) -> list[Recollection]:
    """Return the memories of these documents, each once, with its last document's score."""
    chosen: dict[int, Recollection] = {}
    for document in documents:
        place, score = map(document.metadata.get, (_PLACE, "relevance_score"))
        if not isinstance(place, int) or not 0 <= place < len(best):
            raise InvalidInputError(
                "the re-ranker returned a document it was not given: a compressor for memories "
                "selects and orders, and keeps each document's metadata"
            )
        chosen[place] = memory = best[place]
        if isinstance(score, Real):
            evidence = {**memory.evidence, "reranker": float(score)}
            chosen[place] = replace(memory, evidence=evidence)
    return list(chosen.values())
