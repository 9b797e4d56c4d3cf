"""Running checks: one store, one rule, one way of calling, one verdict."""

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from langgraph.store.base import BaseStore, TTLConfig

from langmem_tiers.testing import (
    basics,
    batches,
    concurrency,
    filters,
    index,
    labels,
    listing,
    recency,
    scoring,
    search,
    ttl,
    values,
)
from langmem_tiers.testing.check import Check, OpenedStore, StoreFactory, checks_of
from langmem_tiers.testing.driver import Mode, StoreDriver

CHECKS = checks_of(
    (
        basics,
        values,
        labels,
        batches,
        search,
        filters,
        listing,
        scoring,
        index,
        recency,
        ttl,
        concurrency,
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """A verdict: whether the store kept the rule when called this way, and if not, why."""

    name: str
    mode: Mode
    passed: bool
    message: str


def check_names(
    *,
    index: bool = True,
    ttl: bool = True,
    distance_types: Collection[str] = ("cosine",),
) -> tuple[str, ...]:
    """Return the names of the checks that apply to a store with these capabilities."""
    wanted = (
        each
        for each in CHECKS.values()
        if claims(each, index=index, ttl=ttl, distance_types=distance_types)
    )
    return tuple(each.name for each in wanted)


def run_check(name: str, make_store: StoreFactory, mode: Mode = "batch") -> CheckResult:
    """Run one check on a fresh store and return the verdict.

    An error while the store opens or closes is raised, not a verdict. Starts an event loop, so
    it cannot be called inside one. An unknown name raises KeyError.

    >>> from contextlib import nullcontext
    >>> from langgraph.store.memory import InMemoryStore
    >>> def make_store(*, index, ttl):
    ...     return nullcontext(InMemoryStore(index=index))
    >>> run_check("search_limit_zero_is_an_empty_page", make_store).passed
    True
    """
    error = asyncio.run(_outcome(CHECKS[name], make_store, mode))
    message = "" if error is None else f"{type(error).__name__}: {error}"
    return CheckResult(name=name, mode=mode, passed=error is None, message=message)


def run_or_raise(each: Check, make_store: StoreFactory, mode: Mode) -> None:
    """Run a check and raise what its body raised."""
    __tracebackhide__ = True
    error = asyncio.run(_outcome(each, make_store, mode))
    if error is not None:
        raise error


def claims(each: Check, *, index: bool, ttl: bool, distance_types: Collection[str]) -> bool:
    """Return whether a store with these capabilities claims what the check needs."""
    if each.ttl is not None and not ttl:
        return False
    return each.index is None or (index and each.index.distance_type in distance_types)


async def _outcome(each: Check, make_store: StoreFactory, mode: Mode) -> BaseException | None:
    index_config = None if each.index is None else each.index.config()
    ttl_config = None if each.ttl is None else TTLConfig(**each.ttl)
    async with _entered(make_store(index=index_config, ttl=ttl_config)) as store:
        body = each.body(StoreDriver(store, mode))
        return (await asyncio.gather(body, return_exceptions=True))[0]


@asynccontextmanager
async def _entered(opened: OpenedStore) -> AsyncIterator[BaseStore]:
    async with AsyncExitStack() as stack:
        if isinstance(opened, AbstractAsyncContextManager):
            yield await stack.enter_async_context(opened)
        else:
            yield stack.enter_context(opened)
