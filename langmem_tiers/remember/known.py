"""What is known already of texts that are to be stored: looked up for those that need it.

Only what repeats a recalled text, and what a source says that does not speak for itself, needs a
look at what is stored; all of one call together take one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from langmem_tiers.config import StoreOptions
from langmem_tiers.flow import Call, Flow, Query, Row
from langmem_tiers.memory import TIERS, MemoryContext, Moment, Tier
from langmem_tiers.namespaces import Place, encode
from langmem_tiers.remember.candidate import Candidate, Known
from langmem_tiers.remember.echo import bare, echo_of
from langmem_tiers.remember.gate import GatePolicy
from langmem_tiers.remember.memories import NewMemory, recalled_texts, to_write
from langmem_tiers.types import MemoryTypes
from langmem_tiers.values import content_of

Sources = tuple[tuple[Place, str], ...]
"""What a memory is derived from."""


class Knowing(NamedTuple):
    """What is needed to look up what is known."""

    context: MemoryContext
    types: MemoryTypes
    options: StoreOptions
    moment: Moment
    recalled: tuple[Known, ...] = ()
    """What was recalled lately, the latest first."""


def recalled_by(one: NewMemory, knowing: Knowing) -> tuple[Known, ...]:
    """What a memory may repeat: what was recalled, but for the memory that it replaces."""
    given = recalled_texts(one.recalled)
    if one.key is None and not given:
        return knowing.recalled
    return tuple(known for known in (*given, *knowing.recalled) if not _replaced(one, known))


def looked_up(
    memories: Sequence[NewMemory],
    candidates: Sequence[Candidate],
    policy: GatePolicy,
    knowing: Knowing,
) -> Flow[tuple[list[Candidate], list[Sources]]]:
    """The candidates with what is known of each, and what they are derived from thereby."""
    sought = _Sought([replace(one, recalled=()) for one in candidates])
    for at, (one, candidate) in enumerate(zip(memories, candidates, strict=True)):
        echo = None
        if policy.refuse_echoes and candidate.recalled:
            echo = echo_of(candidate.content, candidate.recalled)
        if echo is not None and echo.known.key is None:
            sought.found[at] = replace(candidate, recalled=(echo.known,))
        elif echo is not None:
            sought.echoes[at] = echo.known
        if policy.trust.of_source(one.source) < policy.keep_copies_from:
            sought.copies[at] = _place(one, knowing)
    sources: dict[int, Sources] = {}
    if sought.echoes or sought.copies:
        yield from _look_up(sought, memories, sources, knowing)
    return sought.found, [sources.get(at, ()) for at in range(len(memories))]


@dataclass(slots=True)
class _Sought:
    """What is to be looked up: echoes by their key, copies by their words; each by its place."""

    found: list[Candidate]
    echoes: dict[int, Known] = field(default_factory=dict)
    copies: dict[int, Place] = field(default_factory=dict)


def _look_up(
    sought: _Sought,
    memories: Sequence[NewMemory],
    sources: dict[int, Sources],
    knowing: Knowing,
) -> Flow[None]:
    """Fill in what is stored of what is sought, in one round trip."""
    calls = (_repeated(sought, knowing), _copies(sought, knowing))
    echoes, copies = yield Query(calls, commit=True)
    at_copy, at_echo = list(sought.copies), list(sought.echoes)
    for number, key, value in copies:
        at = at_copy[number - 1]
        if key != memories[at].key:  # a memory may replace itself
            one, known = sought.found[at], Known(content=content_of(value), key=key)
            sought.found[at] = replace(one, stored=(*one.stored, known))
    for number, *row in echoes:
        at = at_echo[number - 1]
        lasting = _lasting(row, memories[at], knowing)
        if lasting is None:
            sources[at] = ((Place(knowing.context.root, row[0]), row[1]),)
        elif echo_of(sought.found[at].content, (lasting,)) is not None:
            sought.found[at] = replace(sought.found[at], recalled=(lasting,))


def _lasting(row: Row, one: NewMemory, knowing: Knowing) -> Known | None:
    """What is repeated, if it is current and lasts as long as what is to be stored."""
    _, key, tier, value, current = row
    wanted = one.tier or knowing.types.get(one.memory_type or "episodic").tier
    if not current or TIERS.index(Tier(tier)) < TIERS.index(wanted):
        return None
    return Known(content=content_of(value), key=key)


def _repeated(sought: _Sought, knowing: Knowing) -> Call:
    places = [one.namespace for one in sought.echoes.values()]
    params = {
        "tenant": knowing.context.root,
        "namespaces": [None if one is None else encode(one).namespace for one in places],
        "keys": [one.key for one in sought.echoes.values()],
        "alive_at": knowing.moment.alive_at,
        "true_at": knowing.moment.now,
        "known_at": None,
        "as_of": None,
    }
    return Call("repeated", params)


def _copies(sought: _Sought, knowing: Knowing) -> Call:
    index = knowing.options.index
    params = {
        "tenant": knowing.context.root,
        "namespaces": [place.namespace for place in sought.copies.values()],
        "texts": [bare(sought.found[at].content) for at in sought.copies],
        "language": index.language if index else "simple",
        "alive_at": knowing.moment.alive_at,
    }
    return Call("copies", params)


def _replaced(one: NewMemory, known: Known) -> bool:
    return one.key is not None and known.key == one.key


def _place(one: NewMemory, knowing: Knowing) -> Place:
    """Where a memory would be stored."""
    return to_write(
        replace(one, key=None),
        context=knowing.context,
        types=knowing.types,
        index=None,
        default_ttl=None,
    ).place
