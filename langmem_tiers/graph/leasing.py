"""Holding the lease of a tenant for as long as its cycle takes; the twins differ by `await`."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime

from langmem_tiers.consolidate import lease
from langmem_tiers.core.errors import DatabaseError, LeaseLostError
from langmem_tiers.store.store import TieredStore

RENEWALS = 3
"""Times that a lease is renewed before it would end."""

_log = logging.getLogger(__name__)
_NOT_RENEWED = "the lease of %s could not be renewed: trying again in %g s"
_NOT_RELEASED = "the lease of %s could not be released: it ends by itself within %g s"


@dataclass(frozen=True, slots=True)
class Lease:
    """The lease of a tenant that a worker holds."""

    store: TieredStore
    tenant: str
    fence: int
    seconds: float

    def renew(self) -> None:
        """Hold it for longer.

        Raises:
            LeaseLostError: if somebody else holds it by now.
        """
        self._check(self.store.run(lease.renew(*self._terms)))

    async def arenew(self) -> None:
        """Hold it for longer; see `renew`."""
        self._check(await self.store.arun(lease.renew(*self._terms)))

    @property
    def _terms(self) -> tuple[str, int, datetime, float]:
        return self.tenant, self.fence, self.store.flows.now, self.seconds

    def _check(self, held: bool) -> None:  # noqa: FBT001 - what the statement answered
        if not held:
            raise LeaseLostError(
                f"the lease of {self.tenant!r} was taken over: its new holder goes on"
            )


@contextmanager
def leased(store: TieredStore, tenant: str, holder: str, seconds: float) -> Iterator[Lease | None]:
    """The lease of a tenant, renewed on a thread until the end; None if another worker has it."""
    fence = store.run(lease.acquire(tenant, holder, store.flows.now, seconds))
    if fence is None:
        yield None
        return
    mine, done = Lease(store, tenant, fence, seconds), threading.Event()
    keeping = threading.Thread(
        target=_keep, args=(mine, done), daemon=True, name="langmem-tiers-lease"
    )
    keeping.start()
    try:
        yield mine
    finally:
        done.set()
        keeping.join()
        with _ending(mine):
            store.run(lease.release(tenant, fence))


@asynccontextmanager
async def aleased(
    store: TieredStore, tenant: str, holder: str, seconds: float
) -> AsyncIterator[Lease | None]:
    """The lease of a tenant, renewed by a task until the end; see `leased`."""
    fence = await store.arun(lease.acquire(tenant, holder, store.flows.now, seconds))
    if fence is None:
        yield None
        return
    mine = Lease(store, tenant, fence, seconds)
    keeping = asyncio.create_task(_akeep(mine))
    try:
        yield mine
    finally:
        keeping.cancel()
        with suppress(asyncio.CancelledError):
            await keeping
        with _ending(mine):
            await store.arun(lease.release(tenant, fence))


def _keep(mine: Lease, done: threading.Event) -> None:
    """Renew until told that it is done; the cycle itself hears of a loss, at its next step."""
    pause = mine.seconds / RENEWALS
    while not done.wait(pause):
        try:
            mine.renew()
        except LeaseLostError:
            return
        except DatabaseError:
            _log.warning(_NOT_RENEWED, mine.tenant, pause, exc_info=True)


async def _akeep(mine: Lease) -> None:
    """Renew until cancelled; see `_keep`."""
    pause = mine.seconds / RENEWALS
    while True:
        await asyncio.sleep(pause)
        try:
            await mine.arenew()
        except LeaseLostError:
            return
        except DatabaseError:
            _log.warning(_NOT_RENEWED, mine.tenant, pause, exc_info=True)


@contextmanager
def _ending(mine: Lease) -> Iterator[None]:
    try:
        yield
    except DatabaseError:
        _log.warning(_NOT_RELEASED, mine.tenant, mine.seconds, exc_info=True)
