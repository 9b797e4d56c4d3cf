"""From sections to one text within a budget of tokens, and why each fragment is in or out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Final, NamedTuple

from langmem_tiers.core.errors import BudgetExceededError, InvalidInputError
from langmem_tiers.core.memory import Recollection
from langmem_tiers.core.prompts import RECALLED_HEAD
from langmem_tiers.recall.budget import TokenCounter, choose, counted
from langmem_tiers.turn.fragment import Fragment, Section
from langmem_tiers.turn.layout import Layout, Stage, fence_of, written

_BETWEEN_SECTIONS: Final = "\n\n"
_HEAD_AGAIN: Final = RECALLED_HEAD.partition("\n")[0]
"""The fence is explained once; later ones begin with its tag alone."""
_ELSEWHERE: Final = "left out: the model sees it among the messages"
_THE_PROMPT: Final = "left out: it is the prompt itself"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """Whether a fragment is in, what it costs, and why."""

    fragment: Fragment
    chosen: bool
    tokens: int
    reason: str

    def __repr__(self) -> str:
        """Which fragment, whether it is in, and why."""
        which = self.fragment.key or self.fragment.source
        return f"Decided({which}: {'in' if self.chosen else 'out'}, {self.reason})"


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
    decisions: tuple[Decided, ...]
    """What is in and what is out, in the order of the sections."""

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
        return f"{told}: the budget is too small for any" if self.nothing_fits else told

    @property
    def nothing_fits(self) -> bool:
        """Whether there was something to show, and no room for any of it."""
        return not self.fragments and any(
            one.reason not in (_ELSEWHERE, _THE_PROMPT) for one in self.decisions
        )

    def detail(self) -> dict[str, Any]:
        """Each fragment, and why it is in or out, as JSON for the trace."""
        told = [
            {
                **one.fragment.provenance(),
                "chosen": one.chosen,
                "tokens": one.tokens,
                "reason": one.reason,
            }
            for one in self.decisions
        ]
        return {"tokens": self.tokens, "sections": dict(self.sources), "fragments": told}


class _Piece(NamedTuple):
    """A fragment at its place: the number of its stage, and its own in the section."""

    stage: int
    place: int


def assemble(
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
        self._sections = [tuple(_told(stage, section)) for stage, section in filled]
        self._gap = layout.gap
        self._counter = count_tokens
        self._query = query
        self._taken: list[_Piece] = []
        self._costs: dict[_Piece, int] = {}
        self._reasons: dict[_Piece, str] = {}
        self._repeated: dict[_Piece, _Piece] = {}

    def fill(self, budget: int, spent: int) -> None:
        """Take what fits by what each piece costs alone."""
        originals = self._originals()
        left = budget - sum(self._standing(one, budget, spent) for one in self._required())
        for rank in sorted({stage.rank for stage in self._stages}):
            members = [n for n, stage in enumerate(self._stages) if stage.rank == rank]
            pieces = [
                one
                for n in members
                for one in self._pieces(n)
                if one not in self._taken and not self._superfluous(one, originals.get(one))
            ]
            recalled = [one for one in pieces if self._fragment(one).memory is not None]
            left -= self._by_rank([one for one in pieces if one not in recalled], left)
            left -= self._by_use(recalled, left)

    def whole(self, budget: int) -> Assembled:
        """What was taken as a text that fits."""
        while (text := self._text()) and (tokens := self._count(text)) > budget:
            gone = self._taken.pop()
            self._reasons[gone] = (
                f"left out: the whole came to {tokens:,} tokens, and there are {budget:,}"
            )
        for one, original in self._repeated.items():
            if original not in self._taken:
                title = self._stages[original.stage].title
                self._reasons[one] = f"left out: {title} says the same, and that does not fit"
        shown = sorted(self._taken)
        return Assembled(
            text=text,
            tokens=self._count(text) if text else 0,
            sources={source: self._count(section) for source, section in self._shown()},
            fragments=tuple(map(self._fragment, shown)),
            decisions=tuple(self._decisions()),
        )

    def _required(self) -> list[_Piece]:
        """What stands in any case."""
        pieces = (one for n, _ in enumerate(self._stages) for one in self._pieces(n))
        return [one for one in pieces if self._fragment(one).least]

    def _standing(self, one: _Piece, budget: int, spent: int) -> int:
        """Take what stands in any case, cut if need be; what it costs.

        Together with all else that does, it fits as a whole; else there is no context.
        """
        self._taken.append(one)
        self._reasons[one] = f"stands in any case: {self._cost(one):,} tokens"
        whole = self._fragment(one)

        def fits(text: str) -> bool:
            self._put(one, replace(whole, text=text))
            return self._count(self._text()) <= budget

        if not fits(whole.text):
            self._put(one, whole.shortened(fits))
            self._reasons[one] = f"cut to {self._cost(one):,} tokens, to fit into {budget:,}"
        if (tokens := self._count(self._text())) > budget:
            raise (BudgetExceededError if spent else InvalidInputError)(
                f"the name and the rules of the source {whole.source!r} come to {tokens:,} tokens, "
                f"and there are {budget:,}: give the turn a larger budget, or fewer rules"
            )
        return self._cost(one) + self._frame(one.stage)

    def _put(self, one: _Piece, fragment: Fragment) -> None:
        """Let another fragment take its place."""
        section = self._sections[one.stage]
        self._sections[one.stage] = (*section[: one.place], fragment, *section[one.place + 1 :])
        self._costs.pop(one, None)

    def _by_rank(self, pieces: Sequence[_Piece], left: int) -> int:
        """Take pieces in the order of their ranks while they fit; what they cost."""
        spent: dict[int, int] = {}
        ordered = sorted(pieces, key=lambda one: (self._fragment(one).rank, one))
        for one in ordered:
            used = spent.get(one.stage, 0)
            room = int(left * self._stages[one.stage].share) - used
            room = min(room, left - sum(spent.values()))
            cost = self._cost(one) + (0 if used else self._frame(one.stage))
            if self._taken_if(one, cost, room):
                spent[one.stage] = used + cost
        return sum(spent.values())

    def _taken_if(self, one: _Piece, cost: int, room: int) -> bool:
        if cost > room:
            self._reasons[one] = (
                f"left out: {cost:,} tokens do not fit into the {max(room, 0):,} left"
            )
            return False
        self._taken.append(one)
        self._reasons[one] = f"fits: {self._cost(one):,} tokens"
        return True

    def _by_use(self, pieces: Sequence[_Piece], left: int) -> int:
        """Take the memories that are most useful together; what they cost."""
        stages = {one.stage for one in pieces}
        share = max((self._stages[n].share for n in stages), default=0.0)
        frames = sum(map(self._frame, sorted(stages)))
        room = int(left * share) - frames
        if room <= 0:
            for one in pieces:
                self._taken_if(one, self._cost(one) + frames, int(left * share))
            return 0
        by_place = {self._name(one): one for one in pieces}
        choice = choose(
            [self._memory(one) for one in pieces],
            room,
            self._count,
            query=self._query,
            render=lambda memory: self._written(by_place[memory.namespace, memory.key]) + "\n",
        )
        for decision in choice.decisions:
            one = by_place[decision.memory.namespace, decision.memory.key]
            self._costs[one] = decision.tokens
            self._reasons[one] = decision.reason
        chosen = [by_place[one.namespace, one.key] for one in choice.chosen]
        self._taken += chosen
        return choice.tokens + (frames if chosen else 0)

    def _originals(self) -> dict[_Piece, _Piece]:
        """Of each memory that says what stands before it, where that stands."""
        seen: dict[object, _Piece] = {}
        originals = {}
        for n, _ in enumerate(self._stages):
            for one in self._pieces(n):
                fragment = self._fragment(one)
                said: list[object] = [_said(fragment.text)]
                if fragment.memory is not None:
                    said.append(self._name(one))
                    original = next((seen[each] for each in said if each in seen), None)
                    if original is not None:
                        originals[one] = original
                for each in said:
                    seen.setdefault(each, one)
        return originals

    def _superfluous(self, one: _Piece, original: _Piece | None) -> bool:
        """Whether a piece says what the model reads anyway, or will read if there is room."""
        fragment = self._fragment(one)
        if fragment.seen or (original is not None and self._fragment(original).seen):
            self._reasons[one] = _ELSEWHERE
            return True
        if fragment.memory is not None and _said(fragment.text) == _said(self._query):
            self._reasons[one] = _THE_PROMPT
            return True
        if original is None:
            return False
        earlier = self._stages[original.stage].rank < self._stages[one.stage].rank
        if earlier and original not in self._taken:
            return False
        title = self._stages[original.stage].title
        self._reasons[one] = f"left out: it stands under {title} already"
        self._repeated[one] = original
        return True

    def _pieces(self, n: int) -> list[_Piece]:
        return [_Piece(n, place) for place, _ in enumerate(self._sections[n])]

    def _name(self, one: _Piece) -> tuple[tuple[str, ...], str]:
        memory = self._memory(one)
        return memory.namespace, memory.key

    def _memory(self, one: _Piece) -> Recollection:
        memory = self._fragment(one).memory
        if memory is None:
            raise AssertionError("only memories are chosen by how useful they are")
        return memory

    def _fragment(self, one: _Piece) -> Fragment:
        return self._sections[one.stage][one.place]

    def _cost(self, one: _Piece) -> int:
        if one not in self._costs:
            self._costs[one] = self._count(self._written(one) + "\n")
        return self._costs[one]

    def _frame(self, n: int) -> int:
        """What a section costs beside its fragments."""
        stage = self._stages[n]
        data = any(one.data for one in self._sections[n])
        head, tail = fence_of(stage)
        fence = f"{head}\n{tail}\n" if data else ""
        return self._count(f"{stage.title}{self._gap}{fence}{_BETWEEN_SECTIONS}")

    def _count(self, text: str) -> int:
        return counted(text, self._counter)

    def _written(self, one: _Piece) -> str:
        return written(self._fragment(one), self._stages[one.stage])

    def _of(self, n: int) -> list[_Piece]:
        return sorted(one for one in self._taken if one.stage == n)

    def _text(self) -> str:
        return _BETWEEN_SECTIONS.join(section for _, section in self._shown())

    def _shown(self) -> Iterator[tuple[str, str]]:
        """Each section that has something, by its source."""
        explained = False
        for n, stage in enumerate(self._stages):
            if pieces := self._of(n):
                yield stage.source, self._section(n, pieces, explained=explained)
                recalled = not stage.dialogue and any(self._fragment(one).data for one in pieces)
                explained = explained or recalled

    def _section(self, n: int, pieces: Sequence[_Piece], *, explained: bool) -> str:
        """A section as it is shown: its own words as they are, data between fences."""
        stage = self._stages[n]
        if [self._fragment(one) for one in pieces] == [_nothing(stage)]:
            return stage.empty
        runs = []
        whole, tail = fence_of(stage)
        for data, run in groupby(pieces, key=lambda one: self._fragment(one).data):
            text = stage.between.join(map(self._written, run))
            head = _HEAD_AGAIN if explained and not stage.dialogue else whole
            runs.append(f"{head}\n{text}\n{tail}" if data else text)
            explained = explained or data
        return f"{stage.title}{self._gap}" + "\n".join(runs)

    def _decisions(self) -> Iterator[Decided]:
        taken = set(self._taken)
        for n, section in enumerate(self._sections):
            for place, fragment in enumerate(section):
                one = _Piece(n, place)
                yield Decided(
                    fragment=fragment,
                    chosen=one in taken,
                    tokens=self._cost(one),
                    reason=self._reasons[one],
                )


def _said(text: str) -> str:
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
