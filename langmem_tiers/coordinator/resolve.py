"""Resolution of keys: the memory that a key means in a context, or why there is none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import chain
from typing import NamedTuple, TypeVar

from langmem_tiers.consolidation.archive import ArchivedPlace, find_archived
from langmem_tiers.core.context import MemoryContext
from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.core.memory import Place, Tier, decode_namespace, parse_handle
from langmem_tiers.core.texts import LINE_LENGTH, shorten_line
from langmem_tiers.core.values import content_of
from langmem_tiers.forget.find import KeyMeaning
from langmem_tiers.postgres.flow import Call, Flow, Query
from langmem_tiers.recall.matching import Candidate

_STORE_FIRST = " to derive from: store it first, in a call of its own"


class MemoryLocation(NamedTuple):
    """Location of a memory: a row of the statement known_keys, with the columns in this order."""

    key: str
    tenant: str
    namespace: str
    tier: str

    @property
    def place(self) -> tuple[tuple[str, ...], str]:
        """Namespace and key."""
        return decode_namespace(self.tenant, self.namespace), self.key


S = TypeVar("S", Candidate, ArchivedPlace, KeyMeaning, MemoryLocation)


def pick_memory(candidates: Sequence[S], key: str, context: MemoryContext) -> S | None:
    """Return the memory of a key: the context's own, else the only one it reaches, else None.

    Memories of other projects are not reached.

    Raises:
        InvalidInputError: if several memories elsewhere in what it reaches have the key.
    """
    return pick_own_or_only(keep_reachable(candidates, context), key, context)


def pick_own_or_only(candidates: Sequence[S], key: str, context: MemoryContext) -> S | None:
    """Return the context's own of several memories of a key, else the only one, else None.

    Raises:
        InvalidInputError: if there are several, and none is the context's own.
    """
    if any(candidate.key != key for candidate in candidates):
        return _pick_by_handle(candidates, key)
    own = [candidate for candidate in candidates if _is_own(candidate, context)]
    if own or len(candidates) < 2:  # noqa: PLR2004 - one, or none
        return next(iter(own or candidates), None)
    places = ", ".join(map(str, sorted(candidate.place[0] for candidate in candidates)[:3]))
    raise InvalidInputError(
        f"several memories of the tenant have the key {key!r} ({places}, …): ask through a "
        "coordinator whose context names the project and the session"
    )


def _pick_by_handle(candidates: Sequence[S], handle: str) -> S:
    """Return the only memory that has a handle.

    Raises:
        InvalidInputError: if several have it.
    """
    first, *others = candidates
    if others:
        choices = "; ".join(map(_describe, candidates))
        raise InvalidInputError(
            f"{len(candidates)} memories have the handle {handle!r}: name one by its key: {choices}"
        )
    return first


def _describe(candidate: Candidate | ArchivedPlace | KeyMeaning | MemoryLocation) -> str:
    excerpt = (
        f" ({shorten_line(content_of(candidate.value), LINE_LENGTH)})"
        if isinstance(candidate, Candidate)
        else ""
    )
    return f"{candidate.key!r}{excerpt}"


def keep_reachable(candidates: Sequence[S], context: MemoryContext) -> list[S]:
    """Return the memories that the context reaches."""
    return [
        candidate
        for candidate in candidates
        if context.can_reach(candidate.tier, candidate.place[0])
    ]


def resolve_key(named: str, context: MemoryContext, alive_at: datetime) -> Flow[str]:
    """Return the key of the memory that a handle names; any other text is returned unchanged.

    Raises:
        InvalidInputError: if several memories have that handle.
    """
    if not (handle := parse_handle(named)):
        return named
    params = {**context.scope_params, "handles": [handle], "alive_at": alive_at}
    (rows,) = yield Query((Call("known_handles", params),), commit=True)
    reachable = keep_reachable([MemoryLocation(*row) for _, *row in rows], context)
    return _pick_by_handle(reachable, named).key if reachable else named


def locate_memories(
    keys: Sequence[str], context: MemoryContext, alive_at: datetime
) -> Flow[Mapping[str, tuple[Place, str]]]:
    """Return the place and the key of each of these memories.

    Raises:
        InvalidInputError: if the context reaches none of a key, or several elsewhere.
    """
    whose = {**context.scope_params, "alive_at": alive_at}
    handles = {handle: key for key in keys if (handle := parse_handle(key))}
    calls = [Call("known_keys", {**whose, "keys": keys})]
    if handles:
        calls.append(Call("known_handles", {**whose, "handles": [*handles]}))
    rows, *more = yield Query(tuple(calls), commit=True)
    locations: dict[str, list[MemoryLocation]] = {}
    for row in rows:
        locations.setdefault(row[0], []).append(MemoryLocation(*row))
    by_key = frozenset(locations)
    for handle, *row in chain.from_iterable(more):
        if (key := handles[handle]) not in by_key:
            locations.setdefault(key, []).append(MemoryLocation(*row))
    places = {}
    for key in keys:
        location = pick_memory(locations.get(key, []), key, context)
        if location is None:
            raise InvalidInputError((yield from explain_absence(key, context, _STORE_FIRST)))
        places[key] = Place(location.tenant, location.namespace), location.key
    return places


def explain_absence(key: str, context: MemoryContext, hint: str = "") -> Flow[str]:
    """Return the reason that a key has no memory here: it is archived, or there is none."""
    archived = keep_reachable((yield from find_archived(context, key)), context)
    for place in sorted(archived, key=lambda each: not _is_own(each, context)):
        return (
            f"the memory {key!r} is archived: bring it back with "
            f"admin.restore_archive({place.archive!r}), or `langmem-tiers restore`"
        )
    return f"there is no memory {key!r} in tenant {context.tenant!r}{hint}"


def _is_own(
    candidate: Candidate | ArchivedPlace | KeyMeaning | MemoryLocation, context: MemoryContext
) -> bool:
    """Return True if a recall in that context would look in its namespace."""
    prefix = context.namespace(Tier(candidate.tier))
    return candidate.place[0][: len(prefix)] == prefix
