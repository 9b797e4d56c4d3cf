"""The verbs by which people look at what the gate held back."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from langmem_tiers.core.checks import checked_flag, parsed_moment
from langmem_tiers.core.errors import InvalidTypeError, NotQuarantinedError
from langmem_tiers.core.namespaces import Place
from langmem_tiers.memory import flows
from langmem_tiers.memory.asking import checked_limit, memory_key
from langmem_tiers.memory.base import Memory
from langmem_tiers.postgres.flow import Flow
from langmem_tiers.remember import quarantine
from langmem_tiers.remember.new import checked_text
from langmem_tiers.remember.quarantine import Quarantined, Released, Ruling
from langmem_tiers.remember.room import Located


def list_quarantined(
    memory: Memory, *, limit: int = 100, after: Quarantined | None = None, own: bool = False
) -> Flow[list[Quarantined]]:
    """What of the project is stored and not recalled, oldest first, and why.

    It is what the context's project keeps, and what is everybody's in the tenant; of a context
    that names no project, all of the tenant. So are `release`, `reject` and `decisions`.

    Args:
        limit: Memories at most, 0 to 1,000.
        after: The last one of the page before; the oldest come first if not given.
        own: Only what a recall in this context would see, if it were released.

    Example:
        ```python
        for one in memory.list_quarantined():
            print(one.source, one.content, one.reason)
        ```
    """
    if after is not None and not isinstance(after, Quarantined):
        raise InvalidTypeError(
            f"after is the last memory of the page before, not {type(after).__name__}"
        )
    return quarantine.quarantined(
        memory.context,
        memory.tiered_store.flows.moment(),
        checked_limit(limit),
        after=after,
        own=checked_flag(own, "own"),
    )


def release(
    memory: Memory, key: str, *, reason: str, version: datetime | None = None
) -> Flow[Released]:
    """Let a quarantined memory be recalled, trusted just as much as its type needs.

    Nothing else raises the trust in a memory. What was derived from it, or what it lives on in,
    stays quarantined until it is released itself.

    Args:
        key: Of the memory.
        reason: Why, for its history.
        version: The `version` of it that was looked at; any, if not given.

    Raises:
        NotQuarantinedError: if there is no such memory, or it is not quarantined.
        InvalidInputError: if several beside the context's own have the key.
        ConflictError: if it was written since that version; nothing was done.
    """
    why = checked_text(reason, "reason")
    one = yield from _meant(memory, key)
    policy = memory.gate.policy.trust
    options, moment = memory.tiered_store.options, memory.tiered_store.flows.moment()
    return (yield from quarantine.release(one, why, policy, options, moment, version=version))


def reject(memory: Memory, key: str, *, reason: str, version: datetime | None = None) -> Flow[str]:
    """Delete a quarantined memory; the event that says why, which `history` shows.

    Args:
        key: Of the memory.
        reason: Why, for its history.
        version: The `version` of it that was looked at; any, if not given.

    Raises:
        NotQuarantinedError: if there is no such memory, or it is not quarantined.
        InvalidInputError: if several beside the context's own have the key.
        ConflictError: if it was written since that version; nothing was done.
    """
    why = checked_text(reason, "reason")
    one = yield from _meant(memory, key)
    options, moment = memory.tiered_store.options, memory.tiered_store.flows.moment()
    return (yield from quarantine.reject(one, why, options, moment, version=version))


def decisions(memory: Memory, since: Mapping[int, datetime]) -> Flow[dict[int, Ruling]]:
    """What somebody decided first of what was quarantined, each since that moment, by `id`.

    What nobody has decided is left out.

    Args:
        since: For each `id`, from when on: its `quarantined_at`, as a rule.

    Raises:
        InvalidInputError: for anything but ids and moments with a time zone.

    Example:
        ```python
        held = memory.list_quarantined()
        decided = memory.decisions({one.id: one.quarantined_at for one in held})
        ```
    """
    ids: object = since  # of any type, whatever it says
    if not isinstance(ids, Mapping) or not all(type(number) is int for number in ids):
        raise InvalidTypeError("decisions wants {one.id: one.quarantined_at, …}")
    moments = {each: parsed_moment(at, "since") for each, at in since.items()}
    return quarantine.decisions(memory.context, moments)


def _meant(memory: Memory, key: str) -> Flow[Located]:
    context = memory.context
    one = yield from flows.known(
        memory, memory_key(key), NotQuarantinedError, everywhere=context.project_id is None
    )
    return Located(Place(one.tenant, one.namespace), one.key, one.id)
