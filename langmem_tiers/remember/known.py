"""What is known already of texts that are to be stored: looked up for those that need it.

Only what repeats a recalled text, and what a source says that does not speak for itself, needs a
look at what is stored; all of one call together take one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from langmem_tiers.core.config import StoreOptions
from langmem_tiers.core.context import MemoryContext
from langmem_tiers.core.memory import TIERS, Moment, Source, Tier
from langmem_tiers.core.namespaces import Place, elsewhere, encode
from langmem_tiers.core.types import MemoryTypes
from langmem_tiers.core.values import content_of, lexical_text
from langmem_tiers.postgres.flow import Call, Flow, Query, Row
from langmem_tiers.remember.candidate import Candidate, Known, recalled_texts
from langmem_tiers.remember.echo import echo_of
from langmem_tiers.remember.gate import GatePolicy
from langmem_tiers.remember.new import NewMemory, to_write
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


@dataclass(slots=True)
class Looked:
    """A memory that is to be stored, and what is known of it."""

    memory: NewMemory
    candidate: Candidate
    echo: Known | None = None
    """What it repeats of what was recalled; its key is to be looked up."""
    place: Place | None = None
    """Where its words are sought, if whoever says them adds nothing by that."""
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


def sought(one: NewMemory, candidate: Candidate, policy: GatePolicy, knowing: Knowing) -> Looked:
    """What is to be looked up of a memory."""
    echo = echo_of(candidate.content, candidate.recalled) if policy.refuse_echoes else None
    if echo is not None and echo.key is None:
        looked = Looked(one, replace(candidate, recalled=(echo,)))
    else:
        looked = Looked(one, replace(candidate, recalled=()), echo)
    if policy.trust.of_source(one.source) < policy.keep_copies_from:
        looked.place = _write(one, knowing).place
    return looked


def look_up(several: Sequence[Looked], knowing: Knowing) -> Flow[None]:
    """Fill in what is stored of what is sought of these, in one round trip."""
    repeating = [(one, one.echo) for one in several if one.echo is not None]
    copied = [(one, one.place) for one in several if one.place is not None]
    if not repeating and not copied:
        return
    calls = (_repeated([echo for _, echo in repeating], knowing), _copies(copied, knowing))
    echoes, copies = yield Query(calls, commit=True)
    for number, key, value in copies:
        one = copied[number - 1][0]
        if key != one.memory.key:  # a memory may replace itself
            stored = (*one.candidate.stored, Known(content=content_of(value), key=key))
            one.candidate = replace(one.candidate, stored=stored)
    for number, *row in echoes:
        one = repeating[number - 1][0]
        lasting, place = _lasting(row, one.memory, knowing), Place(knowing.context.root, row[0])
        if lasting is None:
            one.sources = ((place, row[1]),)
        elif echo_of(one.candidate.content, (lasting,)) is not None:
            one.candidate = replace(one.candidate, recalled=(lasting,))
            one.repeats = ((place, row[1]),)


def _lasting(row: Row, one: NewMemory, knowing: Knowing) -> Known | None:
    """What is repeated, if it is current, and lasts and is told as far as what is to be stored.

    A recall renews what expires, so it lasts as long as another of its life.
    """
    _, key, tier, value, ttl, ends, current, personal = row
    wanted = _write(one, knowing)
    tier_ttl = knowing.options.tier_ttl.get(wanted.tier)
    life = wanted.ttl if wanted.ttl is not None else tier_ttl
    until = wanted.told.valid_to
    if (
        not current
        or (personal and knowing.options.user_of(wanted.place) is None)
        or TIERS.index(Tier(tier)) < TIERS.index(wanted.tier)
        or (ttl is not None and ttl < (math.inf if life is None else life))
        or (ends is not None and (until is None or ends < until))
    ):
        return None
    return Known(content=content_of(value), key=key)


def _repeated(echoes: Sequence[Known], knowing: Knowing) -> Call:
    places = [one.namespace for one in echoes]
    params = {
        **knowing.context.whose,
        "namespaces": [None if one is None else encode(one).namespace for one in places],
        "keys": [one.key for one in echoes],
        **elsewhere(knowing.context.namespace(Tier.WORKING)),
        "alive_at": knowing.moment.alive_at,
        "true_at": knowing.moment.now,
        "known_at": None,
        "as_of": None,
    }
    return Call("repeated", params)


def _copies(copied: Sequence[tuple[Looked, Place]], knowing: Knowing) -> Call:
    index = knowing.options.index
    params = {
        "tenant": knowing.context.root,
        "namespaces": [place.namespace for _, place in copied],
        "texts": [lexical_text(one.candidate.content) for one, _ in copied],
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
