"""How a turn's context is assembled: each source is asked in turn, and what fits is shown."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import dropwhile, groupby
from time import monotonic
from typing import Any

from langmem_tiers.core import errors
from langmem_tiers.core.checks import checked_flag
from langmem_tiers.core.namespaces import utf8_bytes
from langmem_tiers.core.values import storable
from langmem_tiers.postgres.flow import Flow
from langmem_tiers.recall.inquiry import Vectors
from langmem_tiers.remember.gate import keepable
from langmem_tiers.turn.fitting import Assembled, fit
from langmem_tiers.turn.layout import Fragment, Section, Stage
from langmem_tiers.turn.memories import Conversation
from langmem_tiers.turn.record import LONGEST_TASK, both_ends, told_error
from langmem_tiers.turn.sources import FunctionSource, answered, items_of
from langmem_tiers.turn.spending import Budget, limit
from langmem_tiers.turn.trace import shown
from langmem_tiers.turn.turn import Turn, changing, check, checked_filters, going_on, spend

_UNLIMITED = 10**9
_ANSWERED = "what its source answered"
_GOING_ON = (errors.DatabaseError, errors.ConfigurationError)
"""What ends a turn's context, whichever source raises it."""
_MOMENT = 0.005
"""The last seconds, in which nothing is asked any more: waiting clocks may ring that early."""
_log = logging.getLogger(__name__)


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

    Each source is told what the earlier ones answered; those that the layout has no stage for are
    asked side by side. A source of the caller's own that raises loses its section, and one that
    there is no time for is left out: `failed` of the answer says so.

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
    record = going_on(turn)
    if isinstance(budget, Budget):
        raise errors.InvalidTypeError(
            "budget is a whole number of tokens; a Budget is the turn's: "
            "MemoryOrchestrator(…, budget=Budget(…))"
        )
    wanted = limit(budget, "budget")
    if not isinstance(prompt, str):
        raise errors.InvalidTypeError(f"prompt is a string, not {type(prompt).__name__}")
    utf8_bytes(prompt, "prompt")
    own = {} if filters is None else checked_filters(filters)
    check(turn, "assemble a context", tokens=True)
    left = turn.get_budget_status().seconds_left
    told = {
        **asdict(turn.context),
        "turn": record.turn,
        "mode": turn.mode,
        "filters": {**turn.settings.default_filters, **own},
        "now": turn.now,
        "vectors": Vectors(),
        "messages": _checked_list(messages, "messages"),
        "tools": _checked_list(tools, "tools"),
        "show_messages": checked_flag(show_messages, "show_messages"),
        "budget": _room(turn, wanted),
        "seconds": turn.settings.source_seconds,
        "deadline": None if left is None else monotonic() + left,
    }
    said = turn.memory.tiered_store.options.bounds.beginning(prompt)
    turn.memory.asking.ask(said, turn.context, **told["filters"])
    return _assembled(turn, prompt, wanted, told)


def _assembled(
    turn: Turn, prompt: str, wanted: int | None, told: Mapping[str, Any]
) -> Flow[Assembled]:
    """Ask, fit, and keep in the record what is shown."""
    sections: dict[str, Section] = {}
    failed: dict[str, str] = {}
    for several in _rounds(turn):
        about = {**told, "sections": dict(sections)}
        sections |= yield from _asked(turn, several, prompt, about, failed)
    gate, stages = turn.memory.gate, turn.layout.stages
    with changing(turn) as record:  # another call may have spent or ended it meanwhile
        room = _room(turn, wanted)
        found = fit(
            [(one, sections[one.source]) for one in stages if one.source not in failed],
            layout=turn.layout,
            budget=room,
            count_tokens=turn.count_tokens,
            query=prompt,
            spent=0 if room == wanted else record.tokens,
        )
        broken = told["vectors"].failed
        by_words = None if broken is None else shown(broken, gate)
        found = replace(found, failed=failed, by_words=by_words)
        for name, why in failed.items():
            record.refuse(f"ask the source {name!r}", why, turn.now)
        kept = storable(keepable(prompt, gate.policy, gate.detectors))
        record.prompt = record.prompt or both_ends(kept)
        record.tokens += found.tokens
        record.show(found.fragments)
        detail = {"prompt": kept[:LONGEST_TASK], "budget": room, **found.detail()}
        spend(turn, "assembled", found.reason(room), **detail)
    if found.nothing_fits:
        _log.warning("a context is empty: %s", found.reason(room))
    return found


def _rounds(turn: Turn) -> list[list[Stage]]:
    """Return the stages in order; functions that the layout has no stage for go together."""

    def alone(stage: Stage) -> str | None:
        source = turn.sources[stage.source]
        beside = stage.source in turn.beside and isinstance(source, FunctionSource)
        return None if beside else stage.source

    return [[*several] for _, several in groupby(turn.layout.stages, alone)]


def _asked(
    turn: Turn,
    stages: Sequence[Stage],
    prompt: str,
    told: Mapping[str, Any],
    failed: dict[str, str],
) -> Flow[dict[str, Section]]:
    """Ask the sources of these stages, told what the earlier ones answered.

    Each answers a text, a `Section`, items, or None for nothing. A user's own source, and a model
    that one of ours asks, can raise anything: `failed` tells it, and also what there is no time
    for. A refusal of Postgres, a turn that cannot work and a wrong argument of one of ours are
    raised, with a note that names the source.
    """
    deadline = told["deadline"]
    left = None if deadline is None else deadline - monotonic()
    found = {one.source: Section() for one in stages}
    if _is_over(told):
        late = [one.source for one in stages if _waits(turn.sources[one.source], told)]
        failed |= dict.fromkeys(late, _spent(turn))
        stages = [one for one in stages if one.source not in late]
        if not stages:
            return found
    seconds = min((one for one in (told["seconds"], left) if one is not None), default=None)
    asked = [
        (
            turn.sources[one.source],
            {**told, "seconds": seconds, "options": one.options, "title": one.title},
        )
        for one in stages
    ]
    answers = yield from answered(asked, prompt, turn.memory)
    for stage, (answer, error) in zip(stages, answers, strict=True):
        try:
            found[stage.source] = _section_of(answer, stage, error)
        except Exception as wrong:  # a user's source, and a model, can raise anything
            source = stage.source
            mistaken = source not in turn.own_sources and _is_mistake(wrong)
            if mistaken or isinstance(wrong, (*_GOING_ON, *_signals())):
                wrong.add_note(f"raised by the source {source!r} of the turn")
                raise
            over = isinstance(wrong, TimeoutError) and _is_over(told)
            why = _spent(turn) if over else shown(told_error(wrong), turn.memory.gate)
            failed[source] = both_ends(why, LONGEST_TASK)
            _log.warning("the source %r of a turn failed: %s", source, failed[source])
            _log.debug("the source %r of a turn failed", source, exc_info=wrong)
    return found


def _is_mistake(error: Exception) -> bool:
    """Tell whether an error says that a turn is built wrongly; a failing model may recover."""
    wrong = isinstance(
        error, errors.InvalidInputError | errors.BudgetExceededError | errors.EmbeddingError
    )
    return wrong and not isinstance(error, errors.EmbeddingFailedError)


def _is_over(told: Mapping[str, Any]) -> bool:
    """Tell whether the turn's seconds are spent."""
    return told["deadline"] is not None and told["deadline"] - monotonic() < _MOMENT


def _waits(source: Any, told: Mapping[str, Any]) -> bool:
    """Tell whether a source may take time."""
    if isinstance(source, FunctionSource):
        return source.waits
    return not (isinstance(source, Conversation) and told["messages"] is not None)


def _spent(turn: Turn) -> str:
    return f"TimeoutError: the turn's {turn.budget.seconds:g} seconds were spent before it answered"


def _signals() -> tuple[type[Exception], ...]:
    """What LangGraph, where it runs the turn, raises to stop: a source may ask a person."""
    known = sys.modules.get("langgraph.errors")
    return () if known is None else (known.GraphBubbleUp,)


def _section_of(answer: Any, stage: Stage, error: Exception | None) -> Section:
    """Make a section of an answer; a text is data and stays, but for the stage's own title."""
    if error is not None:
        raise error
    if answer is None:
        return Section()
    if isinstance(answer, Section):
        return answer
    if isinstance(answer, str):
        title, _, rest = _unframed(answer).partition("\n")
        text = _unframed(rest if title.strip() == stage.title.strip() else answer)
        told = Fragment(text=text, source=stage.source, rationale=_ANSWERED, formatted=True)
        return Section((told,) if text else ())
    if isinstance(answer, Mapping) and "items" in answer:
        return Section(tuple(items_of(answer, stage.source, _ANSWERED)))
    raise errors.InvalidTypeError(
        f"the source {stage.source!r} answers a text, a Section or None, not "
        f"{type(answer).__name__}"
    )


def _unframed(text: str) -> str:
    """Strip empty lines before a text and spaces after it; its first line stays indented."""
    lines = storable(text).rstrip().splitlines()
    said = dropwhile(lambda line: not line.strip(), lines)
    return "\n".join(said)


def _room(turn: Turn, wanted: int | None) -> int:
    """The tokens that a context may have: as many as are wanted, and as are left."""
    left = turn.get_budget_status().tokens_left
    return min(one for one in (wanted, left, _UNLIMITED) if one is not None)


def _checked_list(given: Sequence[Any] | None, what: str) -> Sequence[Any] | None:
    """Several things, or None; a text or a mapping is one."""
    one = isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable)
    if given is not None and one:
        raise errors.InvalidTypeError(f"{what} is a list or None, not {errors.short(given)}")
    return given
