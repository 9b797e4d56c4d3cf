"""The verbs by which the audit log is read, and by which it is proven."""

from __future__ import annotations

import re
from typing import Final

from langmem_tiers.audit.chain import AuditHead
from langmem_tiers.audit.verify import AuditEntry, AuditVerification, entries, head_of, verify
from langmem_tiers.core.checks import checked_whole
from langmem_tiers.core.context import MemoryContext
from langmem_tiers.core.errors import InvalidInputError, short
from langmem_tiers.memory.asking import memory_key
from langmem_tiers.memory.base import Memory
from langmem_tiers.memory.meant import key_of
from langmem_tiers.postgres.flow import Flow
from langmem_tiers.store.store import TieredStore

_HEAD: Final = re.compile(r"(0|[1-9]\d{0,17}):([0-9a-f]{64})")


def audit(
    memory: Memory, *, key: str | None = None, limit: int = 100
) -> Flow[tuple[AuditEntry, ...]]:
    """What was done to the tenant's memories, by whom and when, the latest first.

    Args:
        key: Only what was done to memories of this key.
        limit: How many entries at most.

    Raises:
        InvalidInputError: for a key that none can be, or through a context that names a user.

    Example:
        ```python
        memory.store("The key rotates on Mondays.", memory_type="semantic", key="rotation")
        (written,) = memory.audit(key="rotation")
        print(written.verb, written.role, written.at)
        ```
    """
    return reading(memory.tiered_store, memory.context, key, limit)


def reading(
    store: TieredStore, context: MemoryContext, key: str | None, limit: int
) -> Flow[tuple[AuditEntry, ...]]:
    """The same, of a store that may have no index and so no coordinator."""
    tenant = of_all(context)
    store.options.bounds.check_limit(checked_whole(limit, "limit", 1, 2**31 - 1))
    named = None if key is None else memory_key(key)
    return _entries(store, context, tenant, named, limit)


def _entries(
    store: TieredStore, context: MemoryContext, tenant: str, named: str | None, limit: int
) -> Flow[tuple[AuditEntry, ...]]:
    key = named and (yield from key_of(named, context, store.flows.moment().alive_at))
    return (yield from entries(tenant, key, limit))


def audit_head(memory: Memory) -> Flow[AuditHead]:
    """The last link of the tenant's chain; kept elsewhere, it proves what was logged until now.

    Raises:
        InvalidInputError: through a context that names a user.
    """
    return head_of(of_all(memory.context))


def verify_audit(memory: Memory, head: AuditHead | str | None = None) -> Flow[AuditVerification]:
    """Follow the chain of the tenant's log; the answer is true if nothing was altered or dropped.

    It reads in batches, waits for nobody and keeps nobody waiting. docs/audit.md says what it
    cannot see.

    Args:
        head: A head that the chain had, or what `str` makes of it: that must still be in it.

    Raises:
        InvalidInputError: if that is no head, or another tenant's, or through a context that names
            a user.

    Example:
        ```python
        kept = memory.audit_head()  # to be kept elsewhere
        memory.store("The key rotates on Mondays.", memory_type="semantic")
        assert memory.verify_audit(kept)
        ```
    """
    tenant = of_all(memory.context)
    return verify(tenant, checked_head(head, tenant))


def checked_head(given: object, tenant: str) -> AuditHead | None:
    """A head of this tenant's chain, or what it is as a text."""
    if given is None:
        return None
    if isinstance(given, AuditHead) and given.tenant != tenant:
        raise InvalidInputError(f"the head is of the tenant {given.tenant!r}, not of {tenant!r}")
    found = _HEAD.fullmatch(str(given)) if isinstance(given, AuditHead | str) else None
    if found is None:
        raise InvalidInputError(
            f"a head is what audit_head() answered, such as 12:9f86…, not {short(given)}"
        )
    return AuditHead(tenant, int(found[1]), found[2])


def of_all(context: MemoryContext) -> str:
    """The tenant whose log it is, if all of it may be read."""
    if context.user_id is not None:
        raise InvalidInputError(
            f"the log is all of the tenant's, and {context.user_id!r} one of its users: read it "
            "through a context that names none"
        )
    return context.root
