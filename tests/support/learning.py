"""Teams that learn: coordinators of several projects on one store, and lessons that prove true."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any

import psycopg
from langchain_openai import ChatOpenAI

from langmem_tiers import MemoryCoordinator, TieredStore
from langmem_tiers.core.memory import Recollection
from langmem_tiers.learning.promotion_policy import PromotionPolicy
from tests.support.coordinating import Caller, coordinator
from tests.support.opening import Clock, Opener, tables, text_index, tiered
from tests.support.wayward_chat import Wayward

BILLING, SHIPPING = "billing-service", "shipping-service"
LESSON: Mapping[str, Any] = {
    "task_id": "task-1",
    "original_approach": "Read the amount of an invoice by its key",
    "failure_reason": "KeyError: 'amount' in parse_invoice",
    "improved_approach": "Use dict.get with a default and check for it",
    "tags": ["parsing"],
    "failure": "KeyError: 'amount'",
    "tool": "python",
}
OTHER_LESSON: Mapping[str, Any] = {
    **LESSON,
    "original_approach": "Retried the request for labels at once",
    "failure_reason": "HTTP 429: too many requests",
    "improved_approach": "Wait as long as the answer says",
    "failure": "HTTPError: 429 Too Many Requests",
    "tool": "http",
}

EASY = PromotionPolicy(min_access_count=0, min_success_rate=0.0, min_age_days=0.0, min_projects=1)
"""A policy that one success in one project is enough for, a while after it was stored."""

_runs = count()


@dataclass(frozen=True, slots=True)
class Team:
    """Two projects of a tenant on one store."""

    billing: Caller
    shipping: Caller
    url: str
    clock: Clock

    @property
    def store(self) -> TieredStore:
        """The store that both remember in."""
        return self.billing.memory.tiered_store

    def member(self, tenant: str = "acme", **context: Any) -> Caller:
        """One more coordinator on the same store."""
        return Caller(coordinator(self.store, tenant, **context), self.billing.mode)

    async def learn(self, call: Caller, lesson: Mapping[str, Any] = LESSON, **given: Any) -> str:
        """Store a lesson; its key."""
        stored = await call("store_reflexion", **{**lesson, **given})
        return str(stored.key)

    async def proven(self, lesson: Mapping[str, Any] = LESSON, **given: Any) -> str:
        """A lesson of billing that everything speaks for; its key."""
        key = await self.learn(self.billing, lesson, **given)
        await tried(self.billing, key, successes=5)
        await tried(self.shipping, key, of=self.billing, successes=1)
        self.clock.advance(days=8)
        return key

    async def promoted(self, lesson: Mapping[str, Any] = LESSON, **given: Any) -> Any:
        """The promotion of such a lesson."""
        key = await self.proven(lesson, **given)
        promotion = await self.billing("promote_to_long_term", key)
        assert promotion.promoted, promotion
        return promotion

    async def rows(self, *leave_out: str) -> dict[str, list[tuple[Any, ...]]]:
        """Every stored row but those of some tables, accesses counted so far too."""
        await self.billing("stats")
        return {name: found for name, found in tables(self.url).items() if name not in leave_out}

    async def states(self) -> dict[str, str | None]:
        """The state of each memory by key."""
        with psycopg.connect(self.url) as conn:
            return dict(conn.execute("SELECT key, state FROM memory.memories").fetchall())

    async def context_keys(self, call: Caller, query: str = "KeyError parse invoice") -> list[str]:
        """The keys of what a recall finds, sorted."""
        return sorted(one.key for one in await call("get_context", query, limit=100))


@asynccontextmanager
async def team(open_store: Opener, url: str, **options: Any) -> AsyncIterator[Team]:
    """A team on a store of its own, opened and called in the opener's way."""
    options = {"index": text_index(), **options}
    async with open_store(url=url, **options) as driver:
        billing, shipping = (
            Caller(coordinator(tiered(driver), project_id=one), driver.mode)
            for one in (BILLING, SHIPPING)
        )
        yield Team(billing, shipping, url, open_store.clock)


async def tried(
    call: Caller,
    key: str,
    *,
    of: Caller | None = None,
    successes: int = 0,
    failures: int = 0,
    accesses: int | None = None,
) -> None:
    """Read a memory and say what came of it, each time in a run of its own.

    What is another project's is read there, and handed on.
    """
    reads = successes + failures if accesses is None else accesses
    one: Recollection | None = None
    for _ in range(max(reads, 1)):
        one = await (of or call)("get", key)
    assert one is not None
    for success in [True] * successes + [False] * failures:
        report = await call(
            "learning.record_outcome", [one], success, run_id=f"tried-{next(_runs)}"
        )
        assert report.credited == 1


def works(memory: MemoryCoordinator, *keys: str, success: bool = True) -> None:
    """Say, blocking, what came of a run that was given these memories."""
    found = [memory.get(key) for key in keys]
    report = memory.learning.record_outcome(
        [one for one in found if one is not None], success=success
    )
    assert report.credited == len(keys)


def model_of(server: Wayward) -> ChatOpenAI:
    """A chat model that answers as the server does."""
    return ChatOpenAI(model="local", base_url=server.url, api_key=lambda: "none", max_retries=0)


_DANGLING: Mapping[str, str] = {
    "lineage without its memories": """
        SELECT l.tenant, l.id, l.source FROM memory.lineage l
        LEFT JOIN memory.memories m ON m.tenant = l.tenant AND m.id = l.id
        LEFT JOIN memory.memories s ON s.tenant = l.tenant AND s.id = l.source
        WHERE m.id IS NULL OR s.id IS NULL""",
    "sources of several memories": """
        SELECT tenant, source FROM memory.lineage WHERE NOT derived
        GROUP BY tenant, source HAVING count(*) > 1""",
    "consolidated, or not, against their lineage": """
        SELECT m.tenant, m.key, m.state FROM memory.memories m
        LEFT JOIN memory.lineage l
          ON l.tenant = m.tenant AND l.source = m.id AND NOT l.derived
        LEFT JOIN memory.memories s ON s.tenant = l.tenant AND s.id = l.id
        WHERE coalesce(m.state, '') NOT IN ('retracted', 'suspect')
          AND NOT EXISTS (
              SELECT FROM memory.events e WHERE e.tenant = m.tenant AND e.id = m.id
                AND e.kind = 'deleted' AND e.undone_at IS NULL)
          AND (m.state IS NOT DISTINCT FROM 'consolidated')
           <> (s.id IS NOT NULL AND s.state IS DISTINCT FROM 'demoted')""",
    "exposures without their memory": """
        SELECT e.tenant, e.run, e.id FROM memory.exposures e
        LEFT JOIN memory.memories m ON m.tenant = e.tenant AND m.id = e.id WHERE m.id IS NULL""",
    "counters without their memory": """
        SELECT u.tenant, u.id FROM memory.usage u
        LEFT JOIN memory.memories m ON m.tenant = u.tenant AND m.id = u.id WHERE m.id IS NULL""",
    "credits that no exposure explains": """
        SELECT m.tenant, m.key, u.success_count, u.failure_count, x.*
        FROM memory.memories m
        LEFT JOIN memory.usage u ON u.tenant = m.tenant AND u.id = m.id
        CROSS JOIN LATERAL (
            SELECT count(*) FILTER (WHERE e.succeeded) AS successes,
                   count(*) FILTER (WHERE NOT e.succeeded) AS failures
            FROM memory.exposures e
            WHERE e.tenant = m.tenant AND e.id = m.id AND NOT e.held_out
              AND e.used IS NOT FALSE
        ) x
        WHERE m.tier <> 'long_term'
          AND NOT EXISTS (SELECT FROM memory.events v WHERE v.tenant = m.tenant AND v.target = m.id)
          AND (coalesce(u.success_count, 0), coalesce(u.failure_count, 0))
           <> (x.successes, x.failures)""",
    "memories that one outcome credits twice": """
        SELECT tenant, settled_by, id FROM memory.exposures
        WHERE succeeded IS NOT NULL AND NOT held_out
        GROUP BY tenant, settled_by, id HAVING count(*) > 1""",
    "memories handed twice": """
        SELECT e.tenant, e.target, s
        FROM memory.events e, jsonb_array_elements(e.detail -> 'sources') s
        WHERE e.kind IN ('promoted', 'reinforced') AND e.undone_at IS NULL
          AND NOT e.detail -> 'again' @> s
        GROUP BY e.tenant, e.target, s HAVING count(*) > 1""",
}


def broken(url: str) -> dict[str, list[tuple[Any, ...]]]:
    """Rows that break a rule of learning, by rule."""
    with psycopg.connect(url) as conn:
        found = {rule: conn.execute(query.encode()).fetchall() for rule, query in _DANGLING.items()}
    return {rule: rows for rule, rows in found.items() if rows}
