"""What the wall between tenants costs: `python -m benchmarks.walls`.

One database is asked by its owner and by a login of the application in turn, the same questions in
the same order. It holds many tenants of a thousand memories and one of ten times as many.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from random import Random
from typing import Annotated

import psycopg
import typer
from psycopg.conninfo import make_conninfo

from benchmarks.databases import environment
from benchmarks.tables import Json, Markdown, Quick, Report, Sheet, facts, ratio_bar
from langmem_tiers import EmbeddedPostgres, MemoryContext, MemoryCoordinator, TieredStore
from langmem_tiers.testing import TrigramEmbeddings

_DIMS = 256
_WORDS = 3_000
_WITHIN = 1.1
"""What a recall may take, times as long as without the wall."""

_FILL = """
INSERT INTO memory.memories (tenant, tier, namespace, key, value, lexemes, created_at, updated_at,
                             session, turn, speaker)
SELECT 'tenant' || t, 'working', 'p.', 'k' || i,
       jsonb_build_object('content', s.text, 'memory_type', 'episodic', 'project_id', 'p'),
       to_tsvector('english', s.text) || array_to_tsvector(ARRAY[chr(1) || 'tenant' || t]),
       now() - i * interval '1 minute', now() - i * interval '1 minute',
       's' || i / 20, i %% 20, CASE WHEN i %% 2 = 0 THEN 'Ada' ELSE 'Ben' END
FROM generate_series(0, %(tenants)s::int) t,
     generate_series(1, CASE WHEN t = 0 THEN 10 ELSE 1 END * %(memories)s::int) i,
     LATERAL (SELECT string_agg('word' || floor(power(random(), 3) * 3000)::int, ' ') AS text
              FROM generate_series(1, 12) WHERE i > 0 AND t >= 0) s
"""
_VECTORS = """
INSERT INTO memory.vectors (tenant, tier, namespace, id, field, embedding)
SELECT m.tenant, m.tier, m.namespace, m.id, '$',
       (SELECT array_agg(random() - 0.5) FROM generate_series(1, 256) WHERE m.id > 0)::halfvec
FROM memory.memories m
"""

Use = Callable[[TieredStore, str], object]


def asking(tenant: str) -> Use:
    """A recall of a tenant's."""

    def ask(store: TieredStore, query: str) -> object:
        context = MemoryContext(tenant=tenant, project_id="p")
        return MemoryCoordinator(store, context=context).get_context(query)

    return ask


USES: Mapping[str, Use] = {
    "get_context of 1,000": asking("tenant7"),
    "get_context of 10,000": asking("tenant0"),
    "search of 1,000": lambda store, query: store.search(("tenant7",), query=query),
    "get": lambda store, _: store.get(("tenant7", "p"), "k5"),
    "put": lambda store, query: store.put(("tenant7", "p"), "again", {"content": query}),
}


def alternating(stores: Mapping[str, TieredStore], use: Use, rounds: int) -> dict[str, float]:
    """Milliseconds, median, of each store."""
    draw, times = Random(1), {name: list[float]() for name in stores}
    for number in range(rounds + 5):
        query = " ".join(f"word{int(draw.random() ** 3 * _WORDS)}" for _ in range(5))
        order = list(stores)[:: 1 if number % 2 else -1]
        for name in order:
            began = time.perf_counter()
            use(stores[name], query)
            times[name].append((time.perf_counter() - began) * 1000)
    return {name: statistics.median(found[5:]) for name, found in times.items()}


def measured(
    tenants: int, memories: int, rounds: int
) -> tuple[Report, dict[str, dict[str, float]]]:
    """Fill a database and ask it from both sides."""
    began, index = time.monotonic(), {"dims": _DIMS, "embed": TrigramEmbeddings(_DIMS)}
    with (
        tempfile.TemporaryDirectory() as directory,
        EmbeddedPostgres(f"{directory}/data") as server,
        TieredStore(server.url, index=index) as owner,
    ):
        owner.setup()
        with psycopg.connect(server.url, autocommit=True) as conn:
            conn.execute("CREATE ROLE web LOGIN IN ROLE langmem_application")
            conn.execute(_FILL, {"tenants": tenants, "memories": memories})
            conn.execute(_VECTORS)
            conn.execute("VACUUM ANALYZE")
        owner.optimize()
        with TieredStore(make_conninfo(server.url, user="web"), index=index) as application:
            stores = {"owner": owner, "application": application}
            found = {what: alternating(stores, use, rounds) for what, use in USES.items()}
        foot = facts(environment(server.url), time.monotonic() - began)
    rows = [
        (what, *(f"{one[name]:.2f}" for name in stores), f"{one['application'] / one['owner']:.2f}")
        for what, one in found.items()
    ]
    columns = ("milliseconds, median", "owner", "application", "times")
    bars = [
        ratio_bar(f"{what}, behind the wall", "<=", _WITHIN, one["application"] / one["owner"])
        for what, one in found.items()
        if what.startswith("get_context")
    ]
    return Report([Sheet("The wall between tenants", columns, rows)], bars, foot), found


def main(
    *,
    quick: Quick = False,
    rounds: Annotated[int, typer.Option(help="Questions to each side.")] = 200,
    json_file: Json = None,
    markdown: Markdown = False,
) -> None:
    """Measure both sides in turn, and print what the wall costs."""
    report, found = measured(10, 100, 5) if quick else measured(60, 1_000, rounds)
    report.write(markdown=markdown, json_file=json_file, figures=found)


if __name__ == "__main__":
    typer.run(main)
