"""One tier of a store, as a store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypeVar

from langgraph.store.base import NOT_PROVIDED, BaseStore, NotProvided, Op, Result, TTLConfig

from langmem_tiers.core.memory import Tier
from langmem_tiers.postgres.flow import Flow
from langmem_tiers.postgres.runner import Runner
from langmem_tiers.store.flows import StoreFlows
from langmem_tiers.store.ops import NEVER

T = TypeVar("T")


class TierView(BaseStore):
    """One tier of a `TieredStore`, as a LangGraph store of its own.

    It reads and deletes in that tier alone, and puts new memories there. A put for a memory
    that lives in another tier raises TierConflictError.
    """

    supports_ttl = True

    def __init__(
        self,
        tier: Tier,
        *,
        flows: StoreFlows,
        runner: Runner,
        ttl: Callable[[], TTLConfig | None],
    ) -> None:
        """Made by `TieredStore.tier`."""
        super().__init__()
        self.name = tier
        self._flows = flows
        self._runner = runner
        self._ttl = ttl

    @property
    def ttl_config(self) -> TTLConfig | None:  # type: ignore[override]  # LangGraph assigns it
        """The store's TTL mapping."""
        return self._ttl()

    @property
    def flows(self) -> StoreFlows:
        """What the store does, as flows, for those who drive several as one."""
        return self._flows

    def run(self, flow: Flow[T]) -> T:
        """Run a flow in a unit of work of its own."""
        return self._runner.run(flow)

    async def arun(self, flow: Flow[T]) -> T:
        """Run a flow in a unit of work of its own."""
        return await self._runner.arun(flow)

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Run operations in this tier; see `TieredStore.batch`."""
        return self._runner.run(self._flows.batch(ops, self.name))

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Run operations in this tier; see `TieredStore.batch`."""
        return await self._runner.arun(self._flows.batch(ops, self.name))

    def put(
        self,
        namespace: tuple[str, ...],
        key: str,
        value: Mapping[str, Any],
        index: Literal[False] | list[str] | None = None,
        *,
        ttl: float | NotProvided | None = NOT_PROVIDED,
    ) -> None:
        """Put into this tier. Without a `ttl` (minutes) the tier's own applies; None is never."""
        super().put(namespace, key, value, index, ttl=self._life(ttl))

    async def aput(
        self,
        namespace: tuple[str, ...],
        key: str,
        value: Mapping[str, Any],
        index: Literal[False] | list[str] | None = None,
        *,
        ttl: float | NotProvided | None = NOT_PROVIDED,
    ) -> None:
        """Put into this tier; see `put`."""
        await super().aput(namespace, key, value, index, ttl=self._life(ttl))

    @staticmethod
    def _life(ttl: float | NotProvided | None) -> float | NotProvided:
        return NEVER if ttl is None else ttl
