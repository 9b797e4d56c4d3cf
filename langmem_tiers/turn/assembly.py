"""The verb by which a turn's context is assembled: sources are asked, and what fits is shown."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from langmem_tiers.core.errors import InvalidTypeError, short
from langmem_tiers.core.namespaces import utf8_bytes
from langmem_tiers.core.values import storable
from langmem_tiers.postgres.flow import Flow
from langmem_tiers.remember.gate import keepable
from langmem_tiers.turn.asking import filled
from langmem_tiers.turn.calls import both_ends
from langmem_tiers.turn.fitting import Assembled, assemble
from langmem_tiers.turn.record import LONGEST_TASK
from langmem_tiers.turn.spending import checked_tokens
from langmem_tiers.turn.turn import Turn, changing, check, checked_filters, going_on, spend

_UNLIMITED = 10**9
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

    Each source is told what the earlier ones answered.

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
    going_on(turn)
    wanted = checked_tokens(budget)
    if not isinstance(prompt, str):
        raise InvalidTypeError(f"prompt is a string, not {type(prompt).__name__}")
    utf8_bytes(prompt, "prompt")
    check(turn, "assemble a context", tokens=True)
    told = {
        **asdict(turn.context),
        "mode": turn.mode,
        "filters": {**turn.settings.default_filters, **checked_filters(filters or {})},
        "now": turn.now,
        "vectors": {},
        "messages": _checked_list(messages, "messages"),
        "tools": _checked_list(tools, "tools"),
        "show_messages": show_messages,
        "budget": _room(turn, wanted),
    }
    said = turn.memory.tiered_store.options.bounds.beginning(prompt)
    turn.memory.asking.ask(said, turn.context, **told["filters"])
    return _assembled(turn, prompt, wanted, told)


def _assembled(
    turn: Turn, prompt: str, wanted: int | None, told: Mapping[str, Any]
) -> Flow[Assembled]:
    sections = yield from filled(turn.layout, turn.sources, prompt, told, turn.memory)
    gate = turn.memory.gate
    with changing(turn) as record:  # another call may have spent or ended it meanwhile
        room = _room(turn, wanted)
        found = assemble(
            sections,
            layout=turn.layout,
            budget=room,
            count_tokens=turn.count_tokens,
            query=prompt,
            spent=0 if room == wanted else record.tokens,
        )
        kept = storable(keepable(prompt, gate.policy, gate.detectors))
        record.prompt = record.prompt or both_ends(kept)
        record.tokens += found.tokens
        record.show(found.fragments)
        detail = {"prompt": kept[:LONGEST_TASK], "budget": room, **found.detail()}
        spend(turn, "assembled", found.reason(room), **detail)
    if found.nothing_fits:
        _log.warning("a context is empty: %s", found.reason(room))
    return found


def _room(turn: Turn, wanted: int | None) -> int:
    """The tokens that a context may have: as many as are wanted, and as are left."""
    left = turn.get_budget_status().tokens_left
    return min(one for one in (wanted, left, _UNLIMITED) if one is not None)


def _checked_list(given: Sequence[Any] | None, what: str) -> Sequence[Any] | None:
    """Several things, or None; a text or a mapping is one."""
    one = isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable)
    if given is not None and one:
        raise InvalidTypeError(f"{what} is a list or None, not {short(given)}")
    return given
