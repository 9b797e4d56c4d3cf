"""From sections to one text within a budget of tokens, and why each fragment is in or out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import groupby
from typing import Any, Final

from langmem_tiers.core.errors import BudgetExceededError, InvalidInputError
from langmem_tiers.core.memory import Recollection
from langmem_tiers.core.prompts import RECALLED_HEAD
from langmem_tiers.recall.budget import TokenCounter, counted
from langmem_tiers.turn.layout import Fragment, Layout, Section, Stage, fence_of, written

_BETWEEN_SECTIONS: Final = "\n\n"
_HEAD_AGAIN: Final = RECALLED_HEAD.partition("\n")[0]
"""The fence is explained once; later ones begin with its tag alone."""
_ELSEWHERE: Final = "left out: the model sees it among the messages"
_THE_PROMPT: Final = "left out: it is the prompt itself"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """Whether a fragment is in, what it costs, and why."""

    fragment: Fragment
    chosen: bool
    tokens: int
    reason: str

    def __repr__(self) -> str:
        """Which fragment, whether it is in, and why."""
        which = self.fragment.key or self.fragment.source
        return f"Fitted({which}: {'in' if self.chosen else 'out'}, {self.reason})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembled:
    """What a turn is shown: one text, and what it was made of.

    `tokens` is what the counter says of the whole text; of an empty one it is 0, as nothing is put
    before a model.
    """

    text: str
    tokens: int
    sources: Mapping[str, int]
    """The tokens of each section that is shown, by source, in order."""
    fragments: tuple[Fragment, ...]
    """What is in, in the order in which it is shown."""
    decisions: tuple[Fitted, ...]
    """What is in and what is out, in the order of the sections."""
    failed: Mapping[str, str] = field(default_factory=dict)
    """What each source raised that did not answer; it has no section."""
    by_words: str | None = None
    """What the embedding model failed by, where words alone were sought; None if it did not."""

    def __str__(self) -> str:
        return self.text

    @property
    def memories(self) -> list[Recollection]:
        """The memories that are in, which `record_outcome` can credit."""
        return [one.memory for one in self.fragments if one.memory is not None]

    def reason(self, budget: int) -> str:
        """What it came to, in one line for the trace."""
        left_out = sum(not one.chosen for one in self.decisions)
        tokens = f"{self.tokens:,} of {budget:,} tokens"
        told = f"{len(self.fragments)} fragments in, {left_out} out; {tokens}"
        told += f"; {', '.join(self.failed)} failed" if self.failed else ""
        told += ": the budget is too small for any" if self.nothing_fits else ""
        return told if self.by_words is None else f"{told}; by words alone: {self.by_words}"

    @property
    def nothing_fits(self) -> bool:
        """Whether there was something to show, and no room for any of it."""
        return not self.fragments and any(
            one.reason not in (_ELSEWHERE, _THE_PROMPT) for one in self.decisions
        )

    def detail(self) -> dict[str, Any]:
        """Each fragment, and why it is in or out, as JSON for the trace."""
        names = ("chosen", "tokens", "reason")
        told = [
            {**one.fragment.provenance(), **{name: getattr(one, name) for name in names}}
            for one in self.decisions
        ]
        return {"tokens": self.tokens, "sections": dict(self.sources), "fragments": told}


def fit(
    filled: Sequence[tuple[Stage, Section]],
    *,
    layout: Layout,
    budget: int,
    count_tokens: TokenCounter,
    query: str = "",
    spent: int = 0,
) -> Assembled:
    """Put sections into one text that fits.

    A part that always stands, as a persona but for its backstory, gets room first, and is cut
    where it may be. Then stages get it by rank, each at most its share of what is left: fragments
    that are no memories by their own ranks, then memories, the best first. The best memory of all
    gets it before all but the first rank: so a larger budget does not lose it to what matters less.
    What is left in the end goes to what was left out, by rank, whatever the shares. Each piece is
    in whole, or out, and costs what the whole text grows by: of that `count_tokens` never finds
    more than `budget`, and nothing is out that it would find room for. What an earlier stage shows
    is left out of the later ones: the same memory, or one of the same words. So is a memory that
    says what `query`, the prompt, says. `spent` is what earlier contexts of the turn took.

    Raises:
        InvalidInputError: if the budget is negative or too small for what has to stand, or the
            counter returned no whole number of 0 or more.
        BudgetExceededError: if it is too small by what was spent.
    """
    if budget < 0:
        raise InvalidInputError(f"the budget is {budget} tokens: give 0 or more")
    fitting = _Fitting(filled, layout, count_tokens, query, budget)
    fitting.fill(spent)
    return fitting.whole()


def words(text: str) -> str:
    """A text, whatever its case and spaces."""
    return " ".join(text.split()).casefold()


@dataclass(slots=True, eq=False)
class _Piece:
    """A fragment of a stage, and what becomes of it."""

    stage: Stage
    fragment: Fragment
    taken: bool = False
    reason: str = ""
    original: _Piece | None = None
    """What says the same before it, of a memory."""
    needless: bool = False
    """Whether the model reads it anyway."""
    written: str = field(init=False)
    """As its stage writes it."""
    said: tuple[object, ...] = field(init=False)
    """What it is known by: its words, and as a memory its place."""

    def __post_init__(self) -> None:
        """Write it."""
        memory = self.fragment.memory
        self.says(self.fragment)
        place = () if memory is None else ((memory.namespace, memory.key),)
        self.said = (words(self.fragment.text), *place)

    def says(self, fragment: Fragment) -> None:
        """Say this much of it."""
        self.fragment, self.written = fragment, written(fragment, self.stage)

    @property
    def late(self) -> bool:
        """Tell whether it gets room after all else, as a memory that answers nothing."""
        return self.fragment.memory is not None and self.fragment.rank > 0

    @property
    def precedence(self) -> tuple[bool, float]:
        """Where it stands among those of its rank."""
        memory = self.fragment.memory
        return memory is not None, self.fragment.rank if memory is None else -memory.score

    def repeats(self, other: _Piece) -> bool:
        """Whether both say the same; of what is no memory, each stands for itself."""
        memories = self.fragment.memory is not None or other.fragment.memory is not None
        return memories and any(each in other.said for each in self.said)


class _Fitting:
    """Fragments, and what becomes of them while a context is fitted."""

    def __init__(
        self,
        filled: Sequence[tuple[Stage, Section]],
        layout: Layout,
        count_tokens: TokenCounter,
        query: str,
        budget: int,
    ) -> None:
        self._stages = [stage for stage, _ in filled]
        self._all = [
            _Piece(stage, one)
            for stage, section in filled
            for one in [*section] or ([_nothing(stage)] if stage.empty else [])
        ]
        self._gap = layout.gap
        self._count = cache(partial(counted, count_tokens=count_tokens))
        self._query = query
        self._budget = budget
        self._left = budget
        """The tokens that are left of it."""

    def fill(self, spent: int) -> None:
        """Take what fits, what matters most first."""
        self._find_originals()
        for one in self._all:
            if one.fragment.least:
                self._stand(one, spent)
        first = min((stage.rank for stage in self._stages), default=0)
        best = self._best()

        def turn(one: _Piece) -> tuple[bool, float]:
            return (False, first + 0.5) if one in best else (one.late, one.stage.rank)

        waiting = sorted(self._all, key=lambda one: (turn(one), one.precedence))
        for (late, _), several in groupby(waiting, turn):
            room = {stage.source: int(self._left * stage.share) for stage in self._stages}
            for one in () if late else several:
                source = one.stage.source
                room[source] -= self._take(one, self._left if one in best else room[source])
        for one in waiting:
            self._take(one, self._left)

    def whole(self) -> Assembled:
        """What was taken, as a text."""
        text = self._text()
        return Assembled(
            text=text,
            tokens=self._count(text) if text else 0,
            sources={source: self._count(section) for source, section in self._shown()},
            fragments=tuple(one.fragment for one in self._all if one.taken),
            decisions=tuple(
                Fitted(
                    fragment=one.fragment,
                    chosen=one.taken,
                    tokens=self._cost(one),
                    reason=one.reason,
                )
                for one in self._all
            ),
        )

    def _stand(self, one: _Piece, spent: int) -> None:
        """Take what stands in any case, cut if need be.

        Together with all else that does, it fits as a whole; else there is no context.
        """
        one.taken, one.reason = True, f"stands in any case: {self._cost(one):,} tokens"
        whole = one.fragment

        def fits(text: str) -> bool:
            one.says(replace(whole, text=text))
            return self._count(self._text()) <= self._budget

        if not fits(whole.text):
            one.says(whole.shortened(fits))
            one.reason = f"cut to {self._cost(one):,} tokens, to fit into {self._budget:,}"
        if (tokens := self._count(self._text())) > self._budget:
            raise (BudgetExceededError if spent else InvalidInputError)(
                f"what has to stand of the source {whole.source!r} comes to {tokens:,} tokens, and "
                f"there are {self._budget:,}: give the turn a larger budget, or let less stand; of "
                "a persona all but the backstory does"
            )
        self._left = self._budget - tokens

    def _best(self) -> list[_Piece]:
        """Find the best memory, and what says the same before it."""
        memories = [one for one in self._all if one.fragment.memory and not one.needless]
        best = min(memories, key=lambda one: one.precedence, default=None)
        return [] if best is None else [one for one in (best.original, best) if one is not None]

    def _take(self, one: _Piece, room: int) -> int:
        """Take a piece, if the text as a whole grows by no more than there is room for.

        Returns:
            The tokens that it took.
        """
        if one.taken or self._superfluous(one):
            return 0
        one.taken = True
        grown = self._count(self._text()) - (self._budget - self._left)
        one.taken = grown <= min(room, self._left)
        if one.taken:
            self._left -= grown
            one.reason = f"fits: {self._cost(one):,} tokens"
            return grown
        if one.original is not None:
            title = one.original.stage.title
            one.reason = f"left out: {title} says the same, and that does not fit"
        else:
            one.reason = f"left out: {grown:,} tokens do not fit into the {self._left:,} left"
        return 0

    def _find_originals(self) -> None:
        """Find of each memory what says the same before it, and what the model reads anyway."""
        seen: dict[object, _Piece] = {}
        for one in self._all:
            fragment = one.fragment
            if fragment.memory is not None:
                one.original = next((seen[each] for each in one.said if each in seen), None)
            if fragment.seen or (one.original is not None and one.original.fragment.seen):
                one.needless, one.reason = True, _ELSEWHERE
            elif fragment.repeats:
                one.needless, one.reason = True, f"left out: {fragment.repeats}"
            elif fragment.memory is not None and words(fragment.text) == words(self._query):
                one.needless, one.reason = True, _THE_PROMPT
            for each in one.said:
                seen.setdefault(each, one)

    def _superfluous(self, one: _Piece) -> bool:
        """Whether the model reads elsewhere what a piece says."""
        twins = (each for each in self._all if each.taken and one.repeats(each))
        if not one.needless and (twin := next(twins, None)) is not None:
            one.reason = f"left out: it stands under {twin.stage.title} already"
            return True
        return one.needless

    def _cost(self, one: _Piece) -> int:
        return self._count(one.written + "\n")

    def _text(self) -> str:
        return _BETWEEN_SECTIONS.join(section for _, section in self._shown())

    def _shown(self) -> Iterator[tuple[str, str]]:
        """Each section that has something, by its source: data between fences, its own words as is.

        The first fence of what was recalled explains itself.
        """
        explained = False
        taken = (one for one in self._all if one.taken)
        for source, several in groupby(taken, key=lambda one: one.stage.source):
            pieces = [*several]
            stage, runs = pieces[0].stage, []
            whole, tail = fence_of(stage)
            for data, run in groupby(pieces, key=lambda one: one.fragment.data):
                text = stage.between.join(one.written for one in run)
                head = _HEAD_AGAIN if explained and not stage.dialogue else whole
                runs.append(f"{head}\n{text}\n{tail}" if data else text)
                explained = explained or (data and not stage.dialogue)
            empty = [one.fragment for one in pieces] == [_nothing(stage)]
            yield source, stage.empty if empty else f"{stage.title}{self._gap}" + "\n".join(runs)


def _nothing(stage: Stage) -> Fragment:
    """What stands in the place of a section that says nothing."""
    return Fragment(
        text=stage.empty, source=stage.source, rationale="its source answered nothing", data=False
    )
