"""What is known already of texts that are to be stored: looked up for those that need it.

Only what repeats a recalled text, and what a source says that does not speak for itself, needs a
look at what is stored; all of one call together take one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from langmem_tiers.core.config import StoreOptions, lexical_text
from langmem_tiers.core.memory import TIERS, MemoryContext, Moment, Source, Tier
from langmem_tiers.core.namespaces import Place, elsewhere, encode
from langmem_tiers.core.types import MemoryTypes
from langmem_tiers.core.values import content_of
from langmem_tiers.postgres.flow import AT_ONCE, Call, Flow, Query, Row, apart, extent
from langmem_tiers.remember.candidate import Candidate, Known
from langmem_tiers.remember.echo import echo_of
from langmem_tiers.remember.gate import GatePolicy
from langmem_tiers.remember.new import NewMemory, recalled_texts, to_write
from langmem_tiers.store.write import Write

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
    leaving: Mapping[str, str | None] = {}
    """The keys that get another text by then, with it, or go: nothing that stays is repeated."""
    default_ttl: float | None = None


class Looked(NamedTuple):
    """What is known of a memory that is to be stored."""

    candidate: Candidate
    sources: Sources = ()
    """What it is derived from, as it repeats that."""
    repeats: Sources = ()
    """What it only repeats."""


def recalled_by(one: NewMemory, knowing: Knowing) -> tuple[Known, ...]:
    """What a memory may repeat: what was recalled, but for what is replaced or goes.

    What a person is recorded to have said repeats nothing: that they said it again is evidence. Nor
    does what has a key of its own, unless it comes with what was recalled: who names a key means
    that memory.
    """
    given = recalled_texts(one.recalled)
    if (one.source == Source.USER and one.speaker) or (one.key is not None and not given):
        return ()
    if not given and not knowing.leaving:
        return knowing.recalled
    several = (*given, *knowing.recalled)
    return tuple(known for known in several if not _replaced(one, known, knowing.leaving))


def looked_up(
    memories: Sequence[NewMemory],
    candidates: Sequence[Candidate],
    policy: GatePolicy,
    knowing: Knowing,
) -> Flow[list[Looked]]:
    """The candidates with what is known of each, and what they are derived from or repeat."""
    sought = yield from apart(
        lambda: _sought(memories, candidates, policy, knowing), _extent(candidates)
    )
    if sought.echoes or sought.copies:
        yield from _look_up(sought, memories, knowing)
    return [
        Looked(one, sought.sources.get(at, ()), sought.repeats.get(at, ()))
        for at, one in enumerate(sought.found)
    ]


def _extent(candidates: Sequence[Candidate]) -> int:
    """How much is to be read to know which of these repeat what was recalled."""
    found = 0
    for one in candidates:
        found += extent([one.content, [each.content for each in one.recalled]])
        if found > AT_ONCE:
            break
    return found


def _sought(
    memories: Sequence[NewMemory],
    candidates: Sequence[Candidate],
    policy: GatePolicy,
    knowing: Knowing,
) -> _Sought:
    """What is to be looked up of these."""
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
            sought.copies[at] = _write(one, knowing).place
    return sought


@dataclass(slots=True)
class _Sought:
    """What is to be looked up: echoes by their key, copies by their words; each by its place."""

    found: list[Candidate]
    echoes: dict[int, Known] = field(default_factory=dict)
    copies: dict[int, Place] = field(default_factory=dict)
    sources: dict[int, Sources] = field(default_factory=dict)
    repeats: dict[int, Sources] = field(default_factory=dict)


def _look_up(sought: _Sought, memories: Sequence[NewMemory], knowing: Knowing) -> Flow[None]:
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
        lasting, places = _lasting(row, memories[at], knowing), _places(row, knowing)
        if lasting is None:
            sought.sources[at] = places
        elif echo_of(sought.found[at].content, (lasting,)) is not None:
            sought.found[at] = replace(sought.found[at], recalled=(lasting,))
            sought.repeats[at] = places


def _lasting(row: Row, one: NewMemory, knowing: Knowing) -> Known | None:
    """What is repeated, if it is current and lasts as long as what is to be stored.

    A recall renews what expires, so it lasts as long as another of its life.
    """
    _, key, tier, value, ttl, ends, current = row
    wanted = _write(one, knowing)
    tier_ttl = knowing.options.tier_ttl.get(wanted.tier)
    life = wanted.ttl if wanted.ttl is not None else tier_ttl
    until = wanted.told.valid_to
    if (
        not current
        or TIERS.index(Tier(tier)) < TIERS.index(wanted.tier)
        or (ttl is not None and ttl < (math.inf if life is None else life))
        or (ends is not None and (until is None or ends < until))
    ):
        return None
    return Known(content=content_of(value), key=key)


def _places(row: Row, knowing: Knowing) -> Sources:
    return ((Place(knowing.context.root, row[0]), row[1]),)


def _repeated(sought: _Sought, knowing: Knowing) -> Call:
    places = [one.namespace for one in sought.echoes.values()]
    params = {
        "tenant": knowing.context.root,
        "namespaces": [None if one is None else encode(one).namespace for one in places],
        "keys": [one.key for one in sought.echoes.values()],
        **elsewhere(knowing.context.namespace(Tier.WORKING)),
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
        "texts": [lexical_text(sought.found[at].content) for at in sought.copies],
        "language": index.language if index else "simple",
        "alive_at": knowing.moment.alive_at,
    }
    return Call("copies", params)


def _replaced(one: NewMemory, known: Known, leaving: Mapping[str, str | None]) -> bool:
    """Whether what is known has the key of this memory, or its text is not to stay."""
    if known.key is None:
        return False
    return known.key == one.key or leaving.get(known.key, known.content) != known.content


def _write(one: NewMemory, knowing: Knowing) -> Write:
    """The write that would store a memory."""
    return to_write(
        replace(one, key=None),
        context=knowing.context,
        types=knowing.types,
        index=None,
        default_ttl=knowing.default_ttl,
    )
