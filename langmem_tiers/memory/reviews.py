"""The verbs by which models, and people, review what was stored before them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from datetime import datetime

from langmem_tiers.core.checks import checked_flag
from langmem_tiers.core.errors import ConfigurationError, InvalidTypeError, NotQuarantinedError
from langmem_tiers.core.namespaces import Place
from langmem_tiers.memory.asking import MAX_LIMIT, checked_limit, memory_key
from langmem_tiers.memory.base import LEFT, Memory
from langmem_tiers.postgres.flow import Flow, unhurried
from langmem_tiers.remember import quarantine
from langmem_tiers.remember.new import checked_text, parsed_moment
from langmem_tiers.remember.quarantine import Quarantined, Released, Ruling
from langmem_tiers.remember.review_models import Reviewing, ReviewReport
from langmem_tiers.remember.review_models import review_waiting as reviewed
from langmem_tiers.remember.room import Located

_log = logging.getLogger(__name__)


def review_waiting(memory: Memory, *, limit: int = 100) -> Flow[ReviewReport]:
    """Have models review what of the tenant still awaits it, the longest first.

    What is personal is reviewed for its user, through a coordinator whose context names the user.

    With `review_storage="background"` it is what a crash, a model that failed or a closed
    store left over. A worker or a cron can call it. What somebody else reviews at the same
    time may cost tokens twice, and counts once.

    Args:
        limit: Memories at most, 0 to 1,000.

    Raises:
        ConfigurationError: if the coordinator has no `review_model`.
    """
    return reviewing(memory, limit)


def finish_reviews(memory: Memory, timeout: float | None = None) -> bool:
    """Wait for reviews in the background, and tell whether all are done.

    Any coordinator of this caller may have begun them.

    Args:
        timeout: Seconds at most; as long as they take if not given, which is a minute for
            eight memories at most.

    Raises:
        asyncio.InvalidStateError: on the loop that the store was opened on, which it would
            block.
    """
    if memory.tiered_store.on_own_loop:
        raise asyncio.InvalidStateError("it would block the loop: await afinish_reviews()")
    return memory.under_way.finish(memory.context.caller, timeout)


async def afinish_reviews(memory: Memory, timeout: float | None = None) -> bool:  # noqa: ASYNC109 - of its twin
    """Wait for reviews in the background, and tell whether all are done.

    Any coordinator of this caller may have begun them.

    Args:
        timeout: Seconds at most; as long as they take if not given, which is a minute for
            eight memories at most.

    Raises:
        asyncio.InvalidStateError: on the loop that the store was opened on, which it would
            block.
    """
    return await asyncio.to_thread(memory.under_way.finish, memory.context.caller, timeout)


@unhurried
def reviewing(memory: Memory, limit: int, keys: Iterable[str] | None = None) -> Flow[ReviewReport]:
    """Have models review what awaits it, of these keys if they are given."""
    if memory.later is None:
        raise ConfigurationError("no model is there to review: give a review_model")
    how = Reviewing(
        memory.context, memory.later, memory.flows.gate.policy, memory.tiered_store.options
    )
    named = None if keys is None else list(keys)
    return reviewed(how, memory.tiered_store.flows.moment, checked_limit(limit), named)


def begin_reviews(memory: Memory, keys: Iterable[str]) -> None:
    """Have models review what of these memories awaits it, in the background.

    `store` does so by itself where `review_storage` is `background`; elsewhere, and for what
    awaits nothing, nothing is done.
    """
    todo = list(keys)
    if not memory.flows.gate.afterwards:
        return
    for start in range(0, len(todo), MAX_LIMIT):
        some = todo[start : start + MAX_LIMIT]
        try:
            review = memory.tiered_store.aside(reviewing(memory, len(some), some))
            memory.under_way.add(memory.context.caller, review)
        except ConfigurationError as closed:
            _log.warning(LEFT, closed)
            return


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
    policy = memory.flows.gate.policy.trust
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
    one = yield from memory.flows.known(
        memory_key(key), context, NotQuarantinedError, everywhere=context.project_id is None
    )
    return Located(Place(one.tenant, one.namespace), one.key, one.id)
