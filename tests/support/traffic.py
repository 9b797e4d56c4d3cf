"""Sixteen workers at the same ten keys: what each does, and what it may count on afterwards."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from langgraph.store.base import GetOp, Op, PutOp, SearchOp

from langmem_tiers import TieredStore
from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.core.memory import TIERS
from tests.support.opening import text_index

NAMESPACE = ("acme", "shared")
SHARED = [f"shared-{i}" for i in range(10)]
COUNTED = [f"counted-{i}" for i in range(10)]
SOON = 0.0005
"""Minutes after which a memory expires in the middle of the traffic (30 ms)."""


@dataclass
class Worker:
    """Random operations, reproducible by seed, and what was acknowledged of them."""

    name: str
    steps: int
    own: int = 0
    gets: Counter[str] = field(default_factory=Counter)
    conflicts: int = 0
    _number: int = 0

    @property
    def own_key(self) -> str:
        """The key that only this worker writes."""
        return f"own-{self.name}"

    def plan(self) -> Iterator[tuple[str, Any]]:
        """What to do, step by step: a verb and its argument."""
        rng = random.Random(self.name)  # noqa: S311 - seeded, not secret
        verbs = ["batch"] * 10 + ["move", "tier_put", "sweep"]
        for _ in range(self.steps):
            verb = rng.choice(verbs)
            if verb == "batch":
                yield verb, self._ops(rng)
            else:
                yield verb, (rng.choice(SHARED), rng.choice(TIERS))

    def acknowledge(self, verb: str, given: Any) -> None:
        """Note what a returned call promises."""
        if verb != "batch":
            return
        self.gets.update(op.key for op in given if isinstance(op, GetOp))
        for op in given:
            if isinstance(op, PutOp) and op.key == self.own_key and op.value is not None:
                self.own = op.value["number"]

    def run(self, store: TieredStore) -> Worker:
        """Do it all, blocking; any error but a tier conflict ends it."""
        for verb, given in self.plan():
            try:
                _call(store, "", verb, given)
            except InvalidInputError as error:
                if error.code != "tier_conflict":
                    raise
                self.conflicts += 1
            self.acknowledge(verb, given)
        return self

    async def arun(self, store: TieredStore) -> Worker:
        """Do it all, awaiting."""
        for verb, given in self.plan():
            try:
                await _call(store, "a", verb, given)
            except InvalidInputError as error:
                if error.code != "tier_conflict":
                    raise
                self.conflicts += 1
            self.acknowledge(verb, given)
        return self

    def _ops(self, rng: random.Random) -> list[Op]:
        def put() -> Op:
            value = {"text": f"{self.name} {rng.random()}"}
            return PutOp(NAMESPACE, rng.choice(SHARED), value, ttl=rng.choice([None, SOON, 1.0]))

        def get() -> Op:
            return GetOp(NAMESPACE, rng.choice(SHARED))

        makers: list[Callable[[], Op]] = [
            *(put, put, get, get),
            lambda: PutOp(NAMESPACE, rng.choice(SHARED), None),
            lambda: GetOp(NAMESPACE, rng.choice(COUNTED)),
            lambda: SearchOp(NAMESPACE, query=rng.choice([None, self.name]), limit=3),
        ]
        ops = [rng.choice(makers)() for _ in range(rng.choice([1, 1, 2, 5]))]
        if rng.random() < 0.3:
            self._number += 1
            value = {"text": f"{self.own_key} {self._number}", "number": self._number}
            ops.append(PutOp(NAMESPACE, self.own_key, value))
        return ops


def prepare(store: TieredStore) -> None:
    """Fill in the keys whose reads are counted."""
    store.batch([PutOp(NAMESPACE, key, {"text": key}) for key in COUNTED])


def run_process(url: str, names: list[str], steps: int) -> list[Worker]:
    """Several workers one after the other on a store of their own."""
    with TieredStore.from_conn_string(url, index=text_index()) as store:
        return [Worker(name, steps).run(store) for name in names]


def _call(store: TieredStore, form: str, verb: str, given: Any) -> Any:
    """Call a verb, or its async twin with the form "a"."""
    if verb == "batch":
        return getattr(store, f"{form}batch")(given)
    if verb == "move":
        return getattr(store, f"{form}move")(NAMESPACE, *given)
    if verb == "tier_put":
        put = getattr(store.tier(given[1]), f"{form}put")
        return put(NAMESPACE, given[0], {"text": "through a tier"})
    return getattr(store, f"{form}sweep_ttl")()
