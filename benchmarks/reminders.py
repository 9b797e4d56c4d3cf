"""What raising takes among many intentions: `python -m benchmarks.reminders`.

One tenant has 10,000 or 100,000 pending intentions, a quarter of each kind, and nothing is due, so
that each look goes through all that could be. One client.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Annotated

import psycopg
import typer
from rich.console import Console
from rich.table import Table

from benchmarks.context_databases import server
from benchmarks.databases import create
from benchmarks.timing import Effort, one_client
from langmem_tiers import MemoryContext, MemoryCoordinator, TieredStore
from langmem_tiers.testing import TrigramEmbeddings

NUMBERS = (10_000, 100_000)
EFFORT = Effort(blocks=5, seconds=0.5)
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)

_FILL = """
INSERT INTO memory.memories (tenant, tier, namespace, key, value, created_at, updated_at)
SELECT 'acme', 'working', 'office.', 'k' || n,
       jsonb_build_object('content', 'To do ' || n, 'memory_type', 'prospective'), now(), now()
FROM generate_series(1, {number}) n;
INSERT INTO memory.intentions (tenant, id, priority, kind, trigger, due_at, words, name, needs,
                               status)
SELECT 'acme', m.id, m.id % 3, k.kind,
       CASE k.kind WHEN 'time' THEN '{{"kind": "time", "at": "2027-01-01T00:00:00+00:00"}}'
       WHEN 'cue' THEN jsonb_build_object('kind', 'cue', 'cue', 'when Anna mentions topic' || m.id)
       WHEN 'tool' THEN jsonb_build_object('kind', 'tool', 'tool', k.name, 'args', '{{}}'::jsonb)
       ELSE jsonb_build_object('kind', 'state', 'predicate', k.name) END,
       CASE k.kind WHEN 'time' THEN timestamptz '2027-01-01' ELSE timestamptz '2026-01-01' END,
       CASE k.kind WHEN 'cue' THEN ARRAY['anna', 'topic' || m.id] END,
       CASE k.kind WHEN 'cue' THEN 'topic' || m.id WHEN 'time' THEN NULL ELSE k.name END,
       '{{}}', 'pending'
FROM memory.memories m,
     LATERAL (SELECT (ARRAY['time', 'cue', 'tool', 'state'])[m.id % 4 + 1] AS kind,
                     'name' || m.id % 1000 AS name) k;
"""
QUERY = "Anna asked whether the garden party needs a permit from the city."
LOOKS: Mapping[str, Callable[[MemoryCoordinator], object]] = {
    "remind()": lambda memory: memory.remind(),
    "remind(query)": lambda memory: memory.remind(QUERY),
    "remind(tool=…)": lambda memory: memory.remind(tool="deploy", kinds=["tool"]),
    "remind(state=…)": lambda memory: memory.remind(state=0, predicates={"full": bool}),
    "intentions(limit=10)": lambda memory: memory.intentions(limit=10),
}


def main(
    *, url: Annotated[str, typer.Option(help="A server to use instead of an embedded one.")] = ""
) -> None:
    """Measure looks for what is due."""
    table = Table("look", *(f"{number:,}: p50 ms" for number in NUMBERS))
    with server(url, "1GB") as found:
        columns = [_measured(found, number) for number in NUMBERS]
    for look in LOOKS:
        table.add_row(look, *(f"{column[look]:.2f}" for column in columns))
    Console(width=100).print(table)


def _measured(found: str, number: int) -> dict[str, float]:
    database, embeddings = create(found, f"reminders_{number}"), TrigramEmbeddings()
    index = {"dims": embeddings.dims, "embed": embeddings}
    with TieredStore.from_conn_string(database, index=index, clock=lambda: NOON) as store:
        store.setup()
        with psycopg.connect(database, autocommit=True) as conn:
            conn.execute(_FILL.format(number=number).encode())
            conn.execute("VACUUM ANALYZE")
        context = MemoryContext(tenant="acme", project_id="office")
        memory = MemoryCoordinator(store, context=context)
        timings = one_client(LOOKS, lambda count: [memory] * count, EFFORT, warm=50)
        return {name: timing.milliseconds for name, timing in timings.items()}


if __name__ == "__main__":
    typer.run(main)
