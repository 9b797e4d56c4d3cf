"""The lease of a tenant: its holder, its end, and the last cycle."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from langmem_tiers.core.errors import ConflictError
from langmem_tiers.postgres.flow import Flow, rows_of

MISSED = timedelta(minutes=10)
"""Time after its beginning at which nobody waits for an unfinished cycle any more: our own
choice."""


def thread_name(tenant: str) -> str:
    """Return the name of the thread that has the checkpoints of a tenant's cycles."""
    return f"consolidation:{tenant}"


def acquire_lease(tenant: str, holder: str, now: datetime, seconds: float) -> Flow[int | None]:
    """Take the lease from now on, if nobody else holds it; return its fence, else None.

    A fence is higher than those of all holders before. A holder that asks again before its lease
    has ended keeps its fence.
    """
    rows = yield from rows_of(
        "acquire_lease", tenant=tenant, holder=holder, now=now, seconds=seconds
    )
    return rows[0][0] if rows else None


def renew_lease(tenant: str, fence: int, now: datetime, seconds: float) -> Flow[bool]:
    """Extend the lease; return False if it was released or somebody else holds it."""
    rows = yield from rows_of("renew_lease", tenant=tenant, fence=fence, now=now, seconds=seconds)
    return bool(rows)


def release_lease(tenant: str, fence: int) -> Flow[bool]:
    """Release the lease; return False if somebody else holds it."""
    rows = yield from rows_of("release_lease", tenant=tenant, fence=fence)
    return bool(rows)


def is_leased(tenant: str, now: datetime) -> Flow[bool]:
    """Return True if anybody holds the lease."""
    rows = yield from rows_of("is_leased", tenant=tenant, now=now)
    return bool(rows[0][0])


def list_tenants() -> Flow[list[str]]:
    """Return the tenants that have memories, in order."""
    rows = yield from rows_of("tenants")
    return [row[0] for row in rows]


def last_cycle_start(tenant: str) -> Flow[datetime | None]:
    """Return the beginning of the tenant's last finished cycle; None if there was none."""
    rows = yield from rows_of("last_cycle", tenant=tenant)
    return rows[0][0] if rows else None


def claim_cycle(tenant: str, now: datetime, every: timedelta) -> Flow[bool]:
    """Return True if a cycle that is due by time may begin; only one of several callers gets it.

    A cycle that has begun is missed if it has not ended after `MISSED`.
    """
    rows = yield from rows_of("claim_cycle", tenant=tenant, now=now, since=now - min(every, MISSED))
    return bool(rows)


def check_guard(rows: Sequence[Sequence[Any]], tenant: str) -> None:
    """Check the answer of `Cycle.guard`.

    Raises:
        ConflictError (lease_lost): if somebody else consolidates the tenant.
    """
    if rows and not rows[0][0]:
        raise ConflictError(
            f"somebody else consolidates {tenant!r} by now: this cycle changes nothing more. Begin "
            "another one when theirs has ended",
            code="lease_lost",
        )
