"""From sections to one text within a budget of tokens, and why each fragment is in or out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import chain, groupby
from typing import Any, Final

from langmem_tiers.core.errors import BudgetExceededError, InvalidInputError
from langmem_tiers.core.memory import Recollection
from langmem_tiers.core.prompts import RECALLED_HEAD
from langmem_tiers.recall.budget import TokenCounter, choose, counted
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

    Stages get room by rank. Within a rank, fragments that are no memories come first, by their own
    ranks; memories share the rest by how useful they are together (`recall.budget.choose`). What
    does not fit is left out whole. The count of the text never exceeds `budget`, whatever the
    counter: it is what is counted in the end, and pieces go, the last one taken first, until it
    fits. What stands in any case, as a persona's name and rules do, gets room before all, and is
    cut where it may be. What an earlier stage shows is left out of the later ones: the same memory,
    or one of the same words. So is a memory that says what `query`, the prompt, says. `spent` is
    what earlier contexts of the turn took.

    Raises:
        InvalidInputError: if the budget is negative or too small for what has to stand, or the
            counter returned no whole number of 0 or more.
        BudgetExceededError: if it is too small by what was spent.
    """
    if budget < 0:
        raise InvalidInputError(f"the budget is {budget} tokens: give 0 or more")
    fitting = _Fitting(filled, layout, count_tokens, query)
    fitting.fill(budget, spent)
    return fitting.whole(budget)


@dataclass(slots=True, eq=False)
class _Piece:
    """A fragment of a stage, and what becomes of it."""

    stage: Stage
    fragment: Fragment
    taken: bool = False
    reason: str = ""
    original: _Piece | None = None
    """What says the same before it."""
    repeats: bool = False
    """Whether it is left out as its original says the same."""

    @property
    def written(self) -> str:
        """As its stage writes it."""
        return written(self.fragment, self.stage)

    @property
    def said(self) -> list[object]:
        """What it is known by: its words, and as a memory its place."""
        memory, words = self.fragment.memory, _words(self.fragment.text)
        return [words] if memory is None else [words, _place(memory)]


class _Fitting:
    """Fragments, and what becomes of them while a context is fitted."""

    def __init__(
        self,
        filled: Sequence[tuple[Stage, Section]],
        layout: Layout,
        count_tokens: TokenCounter,
        query: str,
    ) -> None:
        self._stages = [stage for stage, _ in filled]
        self._sections = {
            stage.source: [_Piece(stage, one) for one in _told(stage, section)]
            for stage, section in filled
        }
        self._all = list(chain.from_iterable(self._sections.values()))
        self._gap = layout.gap
        self._count = cache(partial(counted, count_tokens=count_tokens))
        self._query = query
        self._taken: list[_Piece] = []
        """What is taken, in the order in which it was."""

    def fill(self, budget: int, spent: int) -> None:
        """Take what fits by what each piece costs alone."""
        self._find_originals()
        required = [one for one in self._all if one.fragment.least]
        left = budget - sum(self._standing(one, budget, spent) for one in required)
        for rank in sorted({stage.rank for stage in self._stages}):
            members = (one for one in self._all if one.stage.rank == rank and not one.taken)
            pieces = [one for one in members if not self._superfluous(one)]
            left -= self._by_rank([one for one in pieces if one.fragment.memory is None], left)
            left -= self._by_use([one for one in pieces if one.fragment.memory is not None], left)

    def whole(self, budget: int) -> Assembled:
        """What was taken as a text that fits."""
        while (text := self._text()) and (tokens := self._count(text)) > budget:
            gone = self._taken.pop()
            gone.taken = False
            gone.reason = f"left out: the whole came to {tokens:,} tokens, and there are {budget:,}"
        for one in self._all:
            if one.repeats and one.original is not None and not one.original.taken:
                title = one.original.stage.title
                one.reason = f"left out: {title} says the same, and that does not fit"
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

    def _take(self, one: _Piece, reason: str) -> None:
        one.taken, one.reason = True, reason
        self._taken.append(one)

    def _standing(self, one: _Piece, budget: int, spent: int) -> int:
        """Take what stands in any case, cut if need be; what it costs.

        Together with all else that does, it fits as a whole; else there is no context.
        """
        self._take(one, f"stands in any case: {self._cost(one):,} tokens")
        whole = one.fragment

        def fits(text: str) -> bool:
            one.fragment = replace(whole, text=text)
            return self._count(self._text()) <= budget

        if not fits(whole.text):
            one.fragment = whole.shortened(fits)
            one.reason = f"cut to {self._cost(one):,} tokens, to fit into {budget:,}"
        if (tokens := self._count(self._text())) > budget:
            raise (BudgetExceededError if spent else InvalidInputError)(
                f"the name and the rules of the source {whole.source!r} come to {tokens:,} tokens, "
                f"and there are {budget:,}: give the turn a larger budget, or fewer rules"
            )
        return self._cost(one) + self._frame(one.stage)

    def _by_rank(self, pieces: Sequence[_Piece], left: int) -> int:
        """Take pieces in the order of their ranks while they fit; what they cost."""
        spent: dict[str, int] = {}
        for one in sorted(pieces, key=lambda one: one.fragment.rank):
            used = spent.get(one.stage.source, 0)
            room = min(int(left * one.stage.share) - used, left - sum(spent.values()))
            cost = self._cost(one) + (0 if used else self._frame(one.stage))
            if cost <= room:
                self._take(one, f"fits: {self._cost(one):,} tokens")
                spent[one.stage.source] = used + cost
            else:
                one.reason = _no_room(cost, room)
        return sum(spent.values())

    def _by_use(self, pieces: Sequence[_Piece], left: int) -> int:
        """Take the memories that are most useful together; what they cost."""
        stages = [stage for stage in self._stages if any(one.stage is stage for one in pieces)]
        share = int(left * max((stage.share for stage in stages), default=0.0))
        frames = sum(map(self._frame, stages))
        if frames >= share:
            for one in pieces:
                one.reason = _no_room(self._cost(one) + frames, share)
            return 0
        memories = [one.fragment.memory for one in pieces if one.fragment.memory is not None]
        by_place = dict(zip(map(_place, memories), pieces, strict=True))
        choice = choose(
            memories,
            share - frames,
            self._count,
            query=self._query,
            render=lambda memory: by_place[_place(memory)].written + "\n",
        )
        for decision in choice.decisions:
            one = by_place[_place(decision.memory)]
            one.reason = decision.reason
            if decision.chosen:
                self._take(one, decision.reason)
        return choice.tokens + (frames if choice.chosen else 0)

    def _find_originals(self) -> None:
        """Find of each memory that says what stands before it, where that stands."""
        seen: dict[object, _Piece] = {}
        for one in self._all:
            said = one.said
            if one.fragment.memory is not None:
                one.original = next((seen[each] for each in said if each in seen), None)
            for each in said:
                seen.setdefault(each, one)

    def _superfluous(self, one: _Piece) -> bool:
        """Whether a piece says what the model reads anyway, or will read if there is room."""
        fragment, original = one.fragment, one.original
        if fragment.seen or (original is not None and original.fragment.seen):
            one.reason = _ELSEWHERE
            return True
        if fragment.memory is not None and _words(fragment.text) == _words(self._query):
            one.reason = _THE_PROMPT
            return True
        if original is None or (original.stage.rank < one.stage.rank and not original.taken):
            return False
        one.repeats, one.reason = True, f"left out: it stands under {original.stage.title} already"
        return True

    def _cost(self, one: _Piece) -> int:
        return self._count(one.written + "\n")

    def _frame(self, stage: Stage) -> int:
        """What a section costs beside its fragments."""
        head, tail = fence_of(stage)
        data = any(one.fragment.data for one in self._sections[stage.source])
        fence = f"{head}\n{tail}\n" if data else ""
        return self._count(f"{stage.title}{self._gap}{fence}{_BETWEEN_SECTIONS}")

    def _text(self) -> str:
        return _BETWEEN_SECTIONS.join(section for _, section in self._shown())

    def _shown(self) -> Iterator[tuple[str, str]]:
        """Each section that has something, by its source."""
        explained = False
        for stage in self._stages:
            if pieces := [one for one in self._sections[stage.source] if one.taken]:
                yield stage.source, self._section(stage, pieces, explained=explained)
                recalled = not stage.dialogue and any(one.fragment.data for one in pieces)
                explained = explained or recalled

    def _section(self, stage: Stage, pieces: Sequence[_Piece], *, explained: bool) -> str:
        """A section as it is shown: its own words as they are, data between fences."""
        if [one.fragment for one in pieces] == [_nothing(stage)]:
            return stage.empty
        runs = []
        whole, tail = fence_of(stage)
        for data, run in groupby(pieces, key=lambda one: one.fragment.data):
            text = stage.between.join(one.written for one in run)
            head = _HEAD_AGAIN if explained and not stage.dialogue else whole
            runs.append(f"{head}\n{text}\n{tail}" if data else text)
            explained = explained or data
        return f"{stage.title}{self._gap}" + "\n".join(runs)


def _no_room(cost: int, room: int) -> str:
    return f"left out: {cost:,} tokens do not fit into the {max(room, 0):,} left"


def _place(memory: Recollection) -> tuple[tuple[str, ...], str]:
    return memory.namespace, memory.key


def _words(text: str) -> str:
    """A text, whatever its case and spaces."""
    return " ".join(text.split()).casefold()


def _told(stage: Stage, section: Section) -> Iterator[Fragment]:
    """What a section says; if nothing, what its stage says instead."""
    if len(section):
        yield from section
    elif stage.empty:
        yield _nothing(stage)


def _nothing(stage: Stage) -> Fragment:
    return Fragment(
        text=stage.empty, source=stage.source, rationale="its source answered nothing", data=False
    )
