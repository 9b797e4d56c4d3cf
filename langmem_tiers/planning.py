"""Plans: what needs several transactions, or somebody's own code between them, driven both ways.

A plan is a generator that yields whole flows, each a transaction of its own, and `Ask`s for code
that is not ours, which no transaction waits for. The two drivers differ by `await` alone.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeAlias, TypeVar, cast

from langmem_tiers.flow import Ask, Flow
from langmem_tiers.store import TieredStore

T = TypeVar("T")
Plan: TypeAlias = Generator[Ask | Flow[Any], Any, T]


def run_plan(plan: Plan[T], store: TieredStore) -> T:
    """Drive a plan to its result, blocking."""
    answer: Any = None
    while True:
        try:
            step = plan.send(answer)
        except StopIteration as done:
            return cast("T", done.value)
        answer = step.call() if isinstance(step, Ask) else store.run(step)


async def arun_plan(plan: Plan[T], store: TieredStore) -> T:
    """Drive a plan to its result, awaiting."""
    answer: Any = None
    while True:
        try:
            step = plan.send(answer)
        except StopIteration as done:
            return cast("T", done.value)
        answer = await step.acall() if isinstance(step, Ask) else await store.arun(step)
