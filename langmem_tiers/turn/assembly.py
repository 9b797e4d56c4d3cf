"""Assemble a turn's context: ask each source in order, and fit the answers into one text."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache, partial
from itertools import dropwhile, groupby
from time import monotonic
from typing import Any, Final

from langmem_tiers.coordinator.recall import recall_query
from langmem_tiers.core import errors
from langmem_tiers.core.checks import checked_flag, utf8_bytes
from langmem_tiers.core.memory import Recollection
from langmem_tiers.core.prompts import RECALLED_HEAD
from langmem_tiers.core.texts import fold_case
from langmem_tiers.core.values import replace_unstorable
from langmem_tiers.postgres.flow import Flow
from langmem_tiers.recall.budget import TokenCounter, checked_count
from langmem_tiers.recall.recall import QueryVectors
from langmem_tiers.remember.gate import redact_private
from langmem_tiers.turn import trace
from langmem_tiers.turn.layout import Fragment, Layout, Section, Stage, fence_lines, write_fragment
from langmem_tiers.turn.memory_sources import Conversation
from langmem_tiers.turn.record import LONGEST_TASK, cut_middle, error_text
from langmem_tiers.turn.sources import FunctionSource, ask_sources, read_items
from langmem_tiers.turn.turn import (
    Turn,
    check_budget,
    checked_filters,
    current_record,
    locked_record,
    spend_event,
)

_UNLIMITED: Final = 10**9
_ANSWERED: Final = "what its source answered"
_GOING_ON: Final = (errors.DatabaseError, errors.ConfigurationError)
"""Errors that end a turn's context, whichever source raises them."""
_MISTAKES: Final = (errors.InvalidInputError, errors.BudgetExceededError, errors.EmbeddingError)
"""Errors of a turn built wrongly, if a source of ours raises them."""
_MOMENT: Final = 0.005
"""Last seconds in which no source is asked any more: waiting clocks may ring that early."""
_HEAD_AGAIN: Final = RECALLED_HEAD.partition("\n")[0]
"""Head of later fences, a tag alone: the first one explains itself."""
_ELSEWHERE: Final = "left out: the model sees it among the messages"
_THE_PROMPT: Final = "left out: it is the prompt itself"
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """Decision on a fragment: in or out, its cost, and the reason."""

    fragment: Fragment
    chosen: bool
    tokens: int
    reason: str

    def __repr__(self) -> str:
        """Return the fragment's name, whether it is in, and why."""
        which = self.fragment.key or self.fragment.source
        return f"Fitted({which}: {'in' if self.chosen else 'out'}, {self.reason})"

    def provenance(self) -> dict[str, Any]:
        """Return the fragment's provenance and the decision, as JSON for the trace."""
        own = {"chosen": self.chosen, "tokens": self.tokens, "reason": self.reason}
        return {**self.fragment.provenance(), **own}


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembled:
    """Context of a turn: one text, and the fragments that it was made of.

    `tokens` is what the counter says of the whole text; of an empty one it is 0, as nothing is put
    before a model.
    """

    text: str
    tokens: int
    sources: Mapping[str, int]
    """Tokens of each section that is shown, by source, in order."""
    fragments: tuple[Fragment, ...]
    """Fragments that are in, in the order in which they are shown."""
    decisions: tuple[Fitted, ...]
    """Decision on each fragment, in the order of the sections."""
    failed: Mapping[str, str] = field(default_factory=dict)
    """Error of each source that did not answer; it has no section."""
    by_words: str | None = None
    """Failure of the embedding model, if only words were searched; else None."""

    def __str__(self) -> str:
        return self.text

    @property
    def memories(self) -> list[Recollection]:
        """Return the memories that are in, which `learning.record_outcome` can credit."""
        return [fragment.memory for fragment in self.fragments if fragment.memory is not None]

    def reason(self, budget: int) -> str:
        """Return the result in one line for the trace."""
        left_out = sum(not decision.chosen for decision in self.decisions)
        tokens = f"{self.tokens:,} of {budget:,} tokens"
        summary = f"{len(self.fragments)} fragments in, {left_out} out; {tokens}"
        summary += f"; {', '.join(self.failed)} failed" if self.failed else ""
        summary += ": the budget is too small for any" if self.nothing_fits else ""
        return summary if self.by_words is None else f"{summary}; by words alone: {self.by_words}"

    @property
    def nothing_fits(self) -> bool:
        """Tell whether there was something to show, and no room for any of it."""
        return not self.fragments and any(
            decision.reason not in (_ELSEWHERE, _THE_PROMPT) for decision in self.decisions
        )


def assemble_context(
    turn: Turn,
    prompt: str,
    budget: int | None = None,
    filters: Mapping[str, Any] | None = None,
    *,
    messages: Sequence[Any] | None = None,
    tools: Sequence[Any] | None = None,
    show_messages: bool = True,
) -> Flow[Assembled]:
    """Ask every source in the layout's order, and put what fits into one text.

    Each source sees the answers of the earlier ones; sources without a stage of the layout are
    asked side by side. A source of the caller's own that raises loses its section, and a source
    that is too late is left out: `failed` of the answer says so.

    Args:
        prompt: What the turn is about.
        budget: Tokens at most; it never gets more than what is left of the turn's.
        filters: Options of `get_context` for every recall: `agent_id`, `tags`, `tiers`, ….
        messages: The conversation so far; the session's memories if not given.
        show_messages: False where the model is sent `messages` itself: they only inform.
        tools: What the agent can call, unless a source says so.

    Raises:
        BudgetExceededError: if the turn has spent what it may; nothing was asked.
        InvalidInputError: for a filter that no recall takes, or no room for a persona's rules.
    """
    record = current_record(turn)
    if isinstance(budget, trace.Budget):
        raise errors.InvalidTypeError(
            "budget is a whole number of tokens; a Budget is the turn's: "
            "MemoryOrchestrator(…, budget=Budget(…))"
        )
    wanted = trace.checked_allowance(budget, "budget")
    if not isinstance(prompt, str):
        raise errors.InvalidTypeError(f"prompt is a string, not {type(prompt).__name__}")
    utf8_bytes(prompt, "prompt")
    own = {} if filters is None else checked_filters(filters)
    check_budget(turn, "assemble a context", tokens=True)
    left = turn.get_budget_status().seconds_left
    metadata = {
        **asdict(turn.context),
        "turn": record.turn,
        "mode": turn.mode,
        "filters": {**turn.settings.default_filters, **own},
        "now": turn.now,
        "vectors": QueryVectors(),
        "messages": _checked_list(messages, "messages"),
        "tools": _checked_list(tools, "tools"),
        "show_messages": checked_flag(show_messages, "show_messages"),
        "budget": _token_limit(turn, wanted),
        "seconds": turn.settings.source_seconds,
        "deadline": None if left is None else monotonic() + left,
    }
    beginning = turn.memory.tiered_store.options.bounds.truncate_query(prompt)
    recall_query(turn.memory, beginning, **metadata["filters"])
    return _assemble(turn, prompt, wanted, metadata)


def _assemble(
    turn: Turn, prompt: str, wanted: int | None, metadata: Mapping[str, Any]
) -> Flow[Assembled]:
    """Ask the sources, fit their answers, and record what is shown."""
    sections: dict[str, Section] = {}
    failed: dict[str, str] = {}
    for _, stage_group in groupby(turn.layout.stages, partial(_group_key, turn)):
        about = {**metadata, "sections": dict(sections)}
        sections |= yield from _ask_stages(turn, [*stage_group], prompt, about, failed)
    gate, stages = turn.memory.gate, turn.layout.stages
    with locked_record(turn) as record:  # another call may have spent or ended it meanwhile
        room = _token_limit(turn, wanted)
        assembled = fit_sections(
            [(stage, sections[stage.source]) for stage in stages if stage.source not in failed],
            layout=turn.layout,
            budget=room,
            count_tokens=turn.count_tokens,
            query=prompt,
            spent=0 if room == wanted else record.tokens,
        )
        broken = metadata["vectors"].failed
        by_words = None if broken is None else trace.redact(broken, gate)
        assembled = replace(assembled, failed=failed, by_words=by_words)
        for name, why in failed.items():
            record.refuse(f"ask the source {name!r}", why, turn.now)
        kept = replace_unstorable(redact_private(prompt, gate.policy, gate.detectors))
        record.prompt = record.prompt or cut_middle(kept)
        record.tokens += assembled.tokens
        record.show(assembled.fragments)
        detail = {
            "prompt": kept[:LONGEST_TASK],
            "budget": room,
            "tokens": assembled.tokens,
            "sections": dict(assembled.sources),
            "fragments": [decision.provenance() for decision in assembled.decisions],
        }
        spend_event(turn, "assembled", assembled.reason(room), **detail)
    if assembled.nothing_fits:
        _log.warning("a context is empty: %s", assembled.reason(room))
    return assembled


def _group_key(turn: Turn, stage: Stage) -> str | None:
    """Return the key that groups stages: functions without a place in the layout share one."""
    beside = stage.source in turn.beside
    together = beside and isinstance(turn.sources[stage.source], FunctionSource)
    return None if together else stage.source


def _ask_stages(
    turn: Turn,
    stages: Sequence[Stage],
    prompt: str,
    metadata: Mapping[str, Any],
    failed: dict[str, str],
) -> Flow[dict[str, Section]]:
    """Ask the sources of these stages, with the answers of the earlier ones.

    Each answers a text, a `Section`, items, or None for nothing. A user's own source, and a model
    that one of ours asks, can raise anything: `failed` gets the error, and also each source that is
    too late. A refusal of Postgres, a turn that cannot work and a wrong argument of one of ours are
    raised, with a note that names the source.
    """
    seconds = turn.budget.seconds or 0
    spent = f"TimeoutError: the turn's {seconds:g} seconds were spent before it answered"
    left = None if metadata["deadline"] is None else metadata["deadline"] - monotonic()
    sections = {stage.source: Section() for stage in stages}
    if _is_time_spent(metadata):
        late = [stage.source for stage in stages if _may_wait(turn.sources[stage.source], metadata)]
        failed |= dict.fromkeys(late, spent)
        stages = [stage for stage in stages if stage.source not in late]
    limit = min(
        (seconds_left for seconds_left in (metadata["seconds"], left) if seconds_left is not None),
        default=None,
    )
    asked = [
        (
            turn.sources[stage.source],
            {**metadata, "seconds": limit, "options": stage.options, "title": stage.title},
        )
        for stage in stages
    ]
    answers = (yield from ask_sources(asked, prompt, turn.memory)) if asked else []
    for stage, (answer, error) in zip(stages, answers, strict=True):
        try:
            sections[stage.source] = _to_section(answer, stage, error)
        except Exception as wrong:  # a user's source, and a model, can raise anything
            source = stage.source
            if _ends_context(wrong, ours=source not in turn.own_sources):
                wrong.add_note(f"raised by the source {source!r} of the turn")
                raise
            over = isinstance(wrong, TimeoutError) and _is_time_spent(metadata)
            why = spent if over else trace.redact(error_text(wrong), turn.memory.gate)
            failed[source] = cut_middle(why, LONGEST_TASK)
            _log.warning("the source %r of a turn failed: %s", source, failed[source])
            _log.debug("the source %r of a turn failed", source, exc_info=wrong)
    return sections


def _ends_context(error: Exception, *, ours: bool) -> bool:
    """Tell whether an error of a source ends the context; a failing model may recover.

    LangGraph's own exceptions, by which it interrupts a graph, end it too: a source may ask a
    person.
    """
    mistaken = isinstance(error, _MISTAKES) and not errors.has_code(error, "model_failed")
    graph = sys.modules.get("langgraph.errors")
    stops = graph is not None and isinstance(error, graph.GraphBubbleUp)
    return (ours and mistaken) or stops or isinstance(error, _GOING_ON)


def _is_time_spent(metadata: Mapping[str, Any]) -> bool:
    """Tell whether the turn's seconds are spent."""
    return metadata["deadline"] is not None and metadata["deadline"] - monotonic() < _MOMENT


def _may_wait(source: Any, metadata: Mapping[str, Any]) -> bool:
    """Tell whether a source may take time."""
    if isinstance(source, FunctionSource):
        return source.waits
    return not (isinstance(source, Conversation) and metadata["messages"] is not None)


def _to_section(answer: Any, stage: Stage, error: Exception | None) -> Section:
    """Make a section of an answer; a text is one fragment of data, without the stage's title."""
    if error is not None:
        raise error
    if answer is None:
        return Section()
    if isinstance(answer, Section):
        return answer
    if isinstance(answer, str):
        title, _, rest = _strip_blank_lines(answer).partition("\n")
        text = _strip_blank_lines(rest if title.strip() == stage.title.strip() else answer)
        fragment = Fragment(text=text, source=stage.source, rationale=_ANSWERED, formatted=True)
        return Section((fragment,) if text else ())
    if isinstance(answer, Mapping) and "items" in answer:
        return Section(tuple(read_items(answer, stage.source, _ANSWERED)))
    raise errors.InvalidTypeError(
        f"the source {stage.source!r} answers a text, a Section or None, not "
        f"{type(answer).__name__}"
    )


def _strip_blank_lines(text: str) -> str:
    """Strip empty lines before a text and spaces after it; its first line stays indented."""
    lines = replace_unstorable(text).rstrip().splitlines()
    kept_lines = dropwhile(lambda line: not line.strip(), lines)
    return "\n".join(kept_lines)


def _token_limit(turn: Turn, wanted: int | None) -> int:
    """Return the tokens that a context may have: those wanted, but no more than are left."""
    left = turn.get_budget_status().tokens_left
    return min(tokens for tokens in (wanted, left, _UNLIMITED) if tokens is not None)


def _checked_list(value: Sequence[Any] | None, what: str) -> Sequence[Any] | None:
    """Return a list of things, or None; refuse a text or a mapping."""
    single = isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable)
    if value is not None and single:
        raise errors.InvalidTypeError(f"{what} is a list or None, not {errors.short(value)}")
    return value


# Fitting


def fit_sections(
    filled: Sequence[tuple[Stage, Section]],
    *,
    layout: Layout,
    budget: int,
    count_tokens: TokenCounter,
    query: str = "",
    spent: int = 0,
) -> Assembled:
    """Put sections into one text that fits.

    A part that always stands, as a persona but for its backstory, gets room first, and is cut where
    it may be. Then stages get room by rank, each at most its share of what is left: fragments that
    are no memories by their own ranks, then memories, the best first. The best memory of all comes
    right after the first rank: a larger budget then does not lose it to less important text. Room
    that is left in the end goes to fragments that were left out, by rank, whatever the shares. Each
    fragment is in whole, or out, and costs what the whole text grows by: `count_tokens` never finds
    more than `budget` in the text, and no fragment is out that it would find room for. A memory
    that an earlier stage shows, or whose words it shows, is left out of later ones, and so is a
    memory that repeats `query`, the prompt. `spent` is what earlier contexts of the turn took.

    Raises:
        InvalidInputError: if the budget is negative or too small for what has to stand, or the
            counter returned no whole number of 0 or more.
        BudgetExceededError: if it is too small by what was spent.
    """
    if budget < 0:
        raise errors.InvalidInputError(f"the budget is {budget} tokens: give 0 or more")
    page = _Page(filled, layout.gap, count_tokens, budget)
    page.find_repeats(query)
    for piece in page.pieces:
        if piece.fragment.least:
            page.take_required(piece, spent)
    page.fill([stage for stage, _ in filled])
    text = page.text()
    return Assembled(
        text=text,
        tokens=page.count(text) if text else 0,
        sources={source: page.count(section) for source, section in page.sections()},
        fragments=tuple(piece.fragment for piece in page.pieces if piece.taken),
        decisions=tuple(
            Fitted(
                fragment=piece.fragment,
                chosen=piece.taken,
                tokens=page.cost(piece),
                reason=piece.reason,
            )
            for piece in page.pieces
        ),
    )


@dataclass(slots=True, eq=False)
class _PagePiece:
    """Fragment of a stage, and the decision on it so far."""

    stage: Stage
    fragment: Fragment
    taken: bool = False
    reason: str = ""
    original: _PagePiece | None = None
    """Earlier piece with the same content, for a memory."""
    needless: bool = False
    """True if the model reads it anyway."""
    written: str = field(init=False)
    """Text as its stage writes it."""
    identities: tuple[object, ...] = field(init=False)
    """Identities: its words, and for a memory its place."""

    def __post_init__(self) -> None:
        """Write the fragment."""
        memory = self.fragment.memory
        self.set_fragment(self.fragment)
        self.identities = (
            fold_case(self.fragment.text),
            *(() if memory is None else (memory.place,)),
        )

    def set_fragment(self, fragment: Fragment) -> None:
        """Replace the fragment, and write it."""
        self.fragment, self.written = fragment, write_fragment(fragment, self.stage)

    @property
    def precedence(self) -> tuple[bool, float]:
        """Return its order within its rank."""
        memory = self.fragment.memory
        return memory is not None, self.fragment.rank if memory is None else -memory.score


class _Page:
    """Fragments, and the decisions on them, while a context is fitted."""

    def __init__(
        self,
        filled: Sequence[tuple[Stage, Section]],
        gap: str,
        count_tokens: TokenCounter,
        budget: int,
    ) -> None:
        self.pieces = [
            _PagePiece(stage, fragment)
            for stage, section in filled
            for fragment in [*section] or ([_empty_fragment(stage)] if stage.empty else [])
        ]
        self.count = cache(partial(checked_count, count_tokens=count_tokens))
        self._gap, self._budget = gap, budget
        self._left = budget
        """Tokens left of the budget."""

    def find_repeats(self, query: str) -> None:
        """Find each memory's earlier repetition, and the fragments that the model reads anyway."""
        seen: dict[object, _PagePiece] = {}
        for piece in self.pieces:
            fragment, memory = piece.fragment, piece.fragment.memory
            if memory is not None:
                piece.original = next(
                    (seen[each] for each in piece.identities if each in seen), None
                )
            if fragment.seen or (piece.original is not None and piece.original.fragment.seen):
                piece.reason = _ELSEWHERE
            elif fragment.repeats:
                piece.reason = f"left out: {fragment.repeats}"
            elif memory is not None and fold_case(fragment.text) == fold_case(query):
                piece.reason = _THE_PROMPT
            piece.needless = bool(piece.reason)
            for each in piece.identities:
                seen.setdefault(each, piece)

    def take_required(self, piece: _PagePiece, spent: int) -> None:
        """Take a piece that always stands, cut if need be.

        All such pieces together have to fit; else there is no context.
        """
        piece.taken, piece.reason = True, f"stands in any case: {self.cost(piece):,} tokens"
        whole = piece.fragment

        def fits(text: str) -> bool:
            piece.set_fragment(replace(whole, text=text))
            return self.count(self.text()) <= self._budget

        if not fits(whole.text):
            piece.set_fragment(whole.shortened(fits))
            piece.reason = f"cut to {self.cost(piece):,} tokens, to fit into {self._budget:,}"
        if (tokens := self.count(self.text())) > self._budget:
            raise (errors.BudgetExceededError if spent else errors.InvalidInputError)(
                f"what has to stand of the source {whole.source!r} comes to {tokens:,} tokens, and "
                f"there are {self._budget:,}: give the turn a larger budget, or let less stand; of "
                "a persona all but the backstory does"
            )
        self._left = self._budget - tokens

    def fill(self, stages: Sequence[Stage]) -> None:
        """Take what fits, by rank; memories that answer nothing get room last."""
        memories = [piece for piece in self.pieces if piece.fragment.memory and not piece.needless]
        first = min((stage.rank for stage in stages), default=0)
        best = min(memories, key=lambda piece: piece.precedence, default=None)

        def is_best(piece: _PagePiece) -> bool:  # or its earlier repetition
            return best is not None and piece in (best, best.original)

        def turn(piece: _PagePiece) -> tuple[bool, float]:
            late = piece.fragment.memory is not None and piece.fragment.rank > 0
            return (False, first + 0.5) if is_best(piece) else (late, piece.stage.rank)

        waiting = sorted(self.pieces, key=lambda piece: (turn(piece), piece.precedence))
        for (late, _), pieces in groupby(waiting, turn):
            room = {stage.source: int(self._left * stage.share) for stage in stages}
            for piece in () if late else pieces:
                source = piece.stage.source
                room[source] -= self._take(piece, self._left if is_best(piece) else room[source])
        for piece in waiting:
            self._take(piece, self._left)

    def _take(self, piece: _PagePiece, room: int) -> int:
        """Take a piece if the whole text grows by no more than the room.

        Only memories are left out as repetitions.

        Returns:
            The tokens that it took.
        """
        if piece.taken or piece.needless:
            return 0
        for each in self.pieces:
            memories = piece.fragment.memory is not None or each.fragment.memory is not None
            if (
                each.taken
                and memories
                and any(name in each.identities for name in piece.identities)
            ):
                piece.reason = f"left out: it stands under {each.stage.title} already"
                return 0
        piece.taken = True
        grown = self.count(self.text()) - (self._budget - self._left)
        piece.taken = grown <= min(room, self._left)
        if piece.taken:
            self._left -= grown
            piece.reason = f"fits: {self.cost(piece):,} tokens"
            return grown
        piece.reason = (
            f"left out: {grown:,} tokens do not fit into the {self._left:,} left"
            if piece.original is None
            else f"left out: {piece.original.stage.title} says the same, and that does not fit"
        )
        return 0

    def cost(self, piece: _PagePiece) -> int:
        """Return the tokens of a piece by itself."""
        return self.count(piece.written + "\n")

    def text(self) -> str:
        """Return the pieces taken as one text."""
        return "\n\n".join(section for _, section in self.sections())

    def sections(self) -> Iterator[tuple[str, str]]:
        """Yield each section that has something, by source: data stands between fences.

        The first fence of recalled memories explains itself.
        """
        explained = False
        taken = (piece for piece in self.pieces if piece.taken)
        for source, source_pieces in groupby(taken, key=lambda piece: piece.stage.source):
            pieces = [*source_pieces]
            stage, runs = pieces[0].stage, []
            whole, tail = fence_lines(stage)
            for data, run in groupby(pieces, key=lambda piece: piece.fragment.data):
                text = stage.between.join(piece.written for piece in run)
                head = _HEAD_AGAIN if explained and not stage.dialogue else whole
                runs.append(f"{head}\n{text}\n{tail}" if data else text)
                explained = explained or (data and not stage.dialogue)
            empty = [piece.fragment for piece in pieces] == [_empty_fragment(stage)]
            yield source, stage.empty if empty else f"{stage.title}{self._gap}" + "\n".join(runs)


def _empty_fragment(stage: Stage) -> Fragment:
    """Return the fragment that stands in place of an empty section."""
    return Fragment(
        text=stage.empty, source=stage.source, rationale="its source answered nothing", data=False
    )
