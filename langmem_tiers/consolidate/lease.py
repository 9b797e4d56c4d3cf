"""The lease of a tenant: who consolidates it, and until when; and when it was done last."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from langmem_tiers.core.errors import ConflictError
from langmem_tiers.postgres.flow import Flow, rows_of

MISSED = timedelta(minutes=10)
"""How long after it began a cycle that has not ended is no longer waited for: our own choice."""


def thread_name(tenant: str) -> str:
    """The name of the thread in which a tenant's cycles are checkpointed."""
    return f"consolidation:{tenant}"


def acquire_lease(tenant: str, holder: str, now: datetime, seconds: float) -> Flow[int | None]:
    """Hold the lease from now on, if nobody else does; its fence, else None.

    A fence is higher than those of all holders before. A holder that asks again before its lease
    has ended keeps its fence.
    """
    rows = yield from rows_of(
        "acquire_lease", tenant=tenant, holder=holder, now=now, seconds=seconds
    )
    return rows[0][0] if rows else None


def renew_lease(tenant: str, fence: int, now: datetime, seconds: float) -> Flow[bool]:
    """Hold the lease for longer; False if it was released or somebody else holds it."""
    rows = yield from rows_of("renew_lease", tenant=tenant, fence=fence, now=now, seconds=seconds)
    return bool(rows)


def release_lease(tenant: str, fence: int) -> Flow[bool]:
    """Let the lease go; False if somebody else holds it."""
    rows = yield from rows_of("release_lease", tenant=tenant, fence=fence)
    return bool(rows)


def is_leased(tenant: str, now: datetime) -> Flow[bool]:
    """Whether anybody holds the lease."""
    rows = yield from rows_of("is_leased", tenant=tenant, now=now)
    return bool(rows[0][0])


def list_tenants() -> Flow[list[str]]:
    """Every tenant that has memories, in order."""
    rows = yield from rows_of("tenants")
    return [row[0] for row in rows]


def last_cycle_start(tenant: str) -> Flow[datetime | None]:
    """When the last cycle of a tenant that ended had begun; None if there was none."""
    rows = yield from rows_of("last_cycle", tenant=tenant)
    return rows[0][0] if rows else None


def claim_cycle(tenant: str, now: datetime, every: timedelta) -> Flow[bool]:
    """Whether a cycle that is due by time may begin; of several runs that ask one is told so.

    One that began is missed if it has not ended after `MISSED`.
    """
    rows = yield from rows_of("claim_cycle", tenant=tenant, now=now, since=now - min(every, MISSED))
    return bool(rows)


def check_guard(rows: Sequence[Sequence[Any]], tenant: str) -> None:
    """Look at what `Cycle.guard` answered.

    Raises:
        ConflictError (lease_lost): if somebody else consolidates the tenant.
    """
    if rows and not rows[0][0]:
        raise ConflictError(
            f"somebody else consolidates {tenant!r} by now: this cycle changes nothing more. Begin "
            "another one when theirs has ended",
            code="lease_lost",
        )
