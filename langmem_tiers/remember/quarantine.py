"""List, release and reject quarantined memories."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import uuid4

from langmem_tiers.core import errors
from langmem_tiers.core.config import StoreOptions
from langmem_tiers.core.context import MemoryContext
from langmem_tiers.core.memory import (
    TIERS,
    Moment,
    Place,
    Tier,
    decode_namespace,
    outside_bounds,
    prefix_scope,
)
from langmem_tiers.core.texts import LINE_LENGTH, printable_line, shorten_line
from langmem_tiers.core.values import content_of, source_of, trust_of
from langmem_tiers.postgres.flow import Call, Flow, Query, Row
from langmem_tiers.remember.capacity import Located, record_gone_call
from langmem_tiers.remember.gate import TrustPolicy, released_trust
from langmem_tiers.store.write import LOCK, Write, delete_calls, lock_call


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarantined:
    """A memory that is stored and not recalled, and why. Times are UTC."""

    key: str
    namespace: tuple[str, ...]
    tier: Tier
    memory_type: str
    content: str
    reason: str
    """The gate's reason: `instructs: …`."""
    source: str
    trust: float
    """In 0…1."""
    created_at: datetime
    quarantined_at: datetime
    id: int
    """A number that orders memories stored at the same moment."""
    version: datetime
    """The time of its last write: another text under its key has another."""

    def __str__(self) -> str:
        """Show its key, source, trust, content and reason."""
        text = shorten_line(self.content, LINE_LENGTH)
        key, source = printable_line(self.key), printable_line(self.source)
        return f"{key} ({source}, {self.trust:g}): {text}; {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Released:
    """The result of releasing a quarantined memory."""

    key: str
    trust: float
    """In 0…1, from now on."""
    state: str | None
    """None is current; `suspect` came from what was retracted; `consolidated` lives on in another,
    which may be held itself, and `superseded` was true until another."""
    event: str


class Ruling(NamedTuple):
    """A person's decision on a quarantined memory."""

    kind: str
    """`released` or `rejected`."""
    reason: str


def list_quarantined(
    context: MemoryContext,
    moment: Moment,
    limit: int,
    *,
    after: Quarantined | None = None,
    own: bool = False,
) -> Flow[list[Quarantined]]:
    """List quarantined memories that a context manages, oldest first; after another one.

    With `own` it is what a recall there would see, were it released.
    """
    (rows,) = yield Query(
        (_quarantined_call(context, moment, limit, after=after, own=own),), commit=True
    )
    return [_quarantined_from_row(row, context.root) for row in rows]


def find_quarantined(context: MemoryContext, key: str, moment: Moment) -> Flow[Located]:
    """Find the quarantined memory of a key that a context manages.

    Raises:
        InvalidInputError (not_quarantined): if none has it.
        InvalidInputError: if several have.
    """
    (rows,) = yield Query((_quarantined_call(context, moment, 2, key=key),), commit=True)
    _check_found(rows, key)
    if len(rows) > 1:
        raise errors.InvalidInputError(
            f"several quarantined memories have the key {key!r}: use a coordinator whose context "
            "names the project and the session"
        )
    return Located(Place(context.root, rows[0][1]), key, rows[0][0])


def release_memory(
    memory: Located,
    reason: str,
    policy: TrustPolicy,
    options: StoreOptions,
    moment: Moment,
    *,
    version: datetime | None = None,
) -> Flow[Released]:
    """Let a memory be recalled, trusted just as much as its type needs.

    What lives on in another or was superseded does so again.

    Raises:
        InvalidInputError (not_quarantined): if it is not.
        ConflictError: if it was written since that version.
    """
    value = yield from _lock_quarantined(memory, options, version)
    trust = released_trust(trust_of(value), str(value.get("memory_type") or "episodic"), policy)
    event = str(uuid4())
    params = {
        "tenant": memory.place.tenant,
        "id": memory.id,
        "event": event,
        "trust": trust,
        "now": moment.now,
        "detail": json.dumps({"reasons": [reason], "trust": trust}),
    }
    doubt = Call("doubt", {"tenant": memory.place.tenant, "ids": [memory.id], "events": []})
    _, doubted = yield Query((Call("release", params), doubt), commit=True)
    state = next((row[2] for row in doubted if row[0] == memory.id), "suspect")
    return Released(key=memory.key, trust=trust, state=state, event=event)


def reject_memory(
    memory: Located,
    reason: str,
    options: StoreOptions,
    moment: Moment,
    *,
    version: datetime | None = None,
) -> Flow[str]:
    """Delete a quarantined memory, and return the event that records the reason.

    Raises:
        InvalidInputError (not_quarantined): if it is not.
        ConflictError: if it was written since that version.
    """
    value = yield from _lock_quarantined(memory, options, version)
    detail = {"reasons": [reason], "source": source_of(value), "trust": trust_of(value)}
    gone = record_gone_call(memory.place.tenant, "rejected", [memory], [detail], moment.now)
    deletion = Write(place=memory.place, key=memory.key, value=None)
    yield Query((gone, *delete_calls([deletion], tuple(Tier))), commit=True)
    (event,) = gone.params["events"]
    return str(event)


def list_decisions(
    context: MemoryContext, since: Mapping[int, datetime]
) -> Flow[dict[int, Ruling]]:
    """List the first decision on each of these memories since its moment, by id.

    What another project or user keeps is left out.
    """
    params = {
        **context.scope_params,
        "ids": list(since),
        "since": list(since.values()),
        **outside_bounds(context.managed_prefix),
    }
    (rows,) = yield Query((Call("decisions", params),), commit=True)
    return {number: Ruling(kind, "; ".join(map(str, why or ()))) for number, kind, why in rows}


def _quarantined_call(
    context: MemoryContext,
    moment: Moment,
    limit: int,
    *,
    key: str | None = None,
    after: Quarantined | None = None,
    own: bool = False,
) -> Call:
    places = [prefix_scope(context.namespace(tier)) for tier in TIERS] if own else []
    params = {
        **context.scope_params,
        **outside_bounds(context.managed_prefix),
        "key": key,
        "tiers": [tier.value for tier in TIERS] if places else None,
        "lows": [place.low for place in places],
        "highs": [place.high for place in places],
        "since": after and after.created_at,
        "after": after and after.id,
        "limit": limit,
        "alive_at": moment.alive_at,
    }
    return Call("quarantined", params)


def _lock_quarantined(
    memory: Located, options: StoreOptions, version: datetime | None
) -> Flow[Any]:
    """Lock a quarantined memory, of a version if one is given, and read its value."""
    lock = lock_call([(*memory.place, memory.key), (memory.place.tenant, "", LOCK)], options)
    held = Call("held", {"tenant": memory.place.tenant, "id": memory.id})
    _, rows = yield Query((lock, held))
    _check_found(rows, memory.key)
    value, stands = rows[0]
    if version is not None and version != stands:
        raise errors.ConflictError(
            f"the memory {memory.key!r} was written again at {stands.isoformat()}, after it was "
            "listed: look at it again with admin.list_quarantined(); nothing was done"
        )
    return value


def _check_found(rows: Sequence[Row], key: str) -> None:
    if not rows:
        raise errors.InvalidInputError(
            f"{key!r} is not quarantined: admin.list_quarantined() names what is",
            code="not_quarantined",
        )


def _quarantined_from_row(row: Row, tenant: str) -> Quarantined:
    number, namespace, key, tier, value, created_at, since, reasons, version = row
    return Quarantined(
        key=key,
        namespace=decode_namespace(tenant, namespace),
        tier=Tier(tier),
        memory_type=str(value.get("memory_type") or "episodic"),
        content=content_of(value),
        reason="; ".join(map(str, reasons or ())),
        source=source_of(value),
        trust=trust_of(value),
        created_at=created_at,
        quarantined_at=since,
        id=number,
        version=version,
    )
