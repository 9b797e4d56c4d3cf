"""Databases full of odd memories, and what of them must come back from an archive."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg

from langmem_tiers import ArchivalPolicy
from tests.support.opening import DIMS

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
OLD = NOW - timedelta(days=200)
CONTENT = ("memories", "vectors", "usage")
"""The tables whose rows leave for a file."""

_FILL = """
WITH made AS (
    INSERT INTO memory.memories
        (tenant, tier, namespace, key, value, lexemes, created_at, updated_at, expires_at,
         ttl_minutes, session, turn, speaker, occurred_at, state, signature, tool, valid_from,
         valid_to, state_at)
    SELECT %(tenant)s,
           (ARRAY['short_term', 'working', 'long_term'])[1 + n %% 3]::memory.tier,
           (ARRAY['', 'billing.', 'billing.chat-7.', '_.'])[1 + n %% 4],
           'key ' || n || (ARRAY['', ' "quoted"', ' ünïcode 🗝', E' tab\\tand\\nline'])[1 + n %% 4],
           jsonb_build_object(
               'content', repeat('kiwi ' || n || E' \\\\ " \\u00e9 🥝 ', 1 + n %% 5),
               'n', n, 'big', '123456789012345678901234567890.125'::numeric, 'tiny', 1e-9,
               'none', NULL, 'nested', jsonb_build_array(n, jsonb_build_object('', '[]'::jsonb)),
               'agent_id', (ARRAY['coder', 'critic'])[1 + n %% 2]),
           CASE WHEN n %% 5 > 0
                THEN to_tsvector('english', 'it''s kiwi number ' || n || ' \\ ''x'' a:b')
                     || array_to_tsvector(ARRAY[chr(1) || %(tenant)s]) END,
           %(old)s::timestamptz + n * interval '1 microsecond',
           %(old)s::timestamptz + n * interval '7 microseconds',
           (ARRAY[NULL, 'infinity', '2031-05-04 03:02:01.000009+00',
                  '9999-12-31 23:59:59.999999+00']::timestamptz[])[1 + n %% 4],
           (ARRAY[NULL, 0.1, 43200])[1 + n %% 3],
           (ARRAY[NULL, 'chat-7'])[1 + n %% 2], CASE WHEN n %% 2 = 1 THEN n END,
           (ARRAY[NULL, 'Ada', 'Bën'])[1 + n %% 3],
           (ARRAY[NULL, '0044-03-15 10:00:00+00 BC', '1969-12-31 23:59:59.999999+00', '-infinity']
               ::timestamptz[])[1 + n %% 4],
           NULL, (ARRAY[NULL, 'sig ' || n])[1 + n %% 2], (ARRAY[NULL, 'pytest'])[1 + n %% 2],
           CASE WHEN n %% 6 = 0 THEN %(old)s::timestamptz END,
           CASE WHEN n %% 7 = 0 THEN %(old)s::timestamptz + interval '3 days' END,
           CASE WHEN n %% 7 = 0 THEN %(old)s::timestamptz + interval '4 days 1 microsecond' END
    FROM generate_series(1, %(number)s) AS n
    RETURNING tenant, tier, namespace, id, turn, (value ->> 'n')::int AS n
), vectors AS (
    INSERT INTO memory.vectors (tenant, tier, namespace, id, field, embedding)
    SELECT m.tenant, m.tier, m.namespace, m.id, f.field, (
               SELECT array_agg(CASE (m.n + d) %% 50 WHEN 0 THEN -0.0 WHEN 1 THEN 6e-8
                                ELSE sin(m.n * 64 + d + length(f.field)) END::real ORDER BY d)
               FROM generate_series(1, %(dims)s) AS d)::vector
    FROM made m, unnest(ARRAY['text', 'tags.0', 'ünï']) WITH ORDINALITY AS f (field, k)
    WHERE f.k <= m.n %% 4
)
INSERT INTO memory.usage
    (tenant, id, access_count, success_count, failure_count, last_accessed_at, strength,
     strength_at)
SELECT m.tenant, m.id, m.n %% 3, least(m.n %% 11, m.n %% 4), m.n %% 4,
       CASE WHEN m.n %% 2 = 0 THEN %(old)s::timestamptz + interval '1 day' END,
       (m.n %% 3) * 0.1 / 3, CASE WHEN m.n %% 4 = 0 THEN %(old)s::timestamptz END
FROM made m WHERE m.n %% 3 > 0
"""


def fill(url: str, number: int, tenant: str = "acme") -> None:
    """Store memories whose columns hold whatever they can; all of them may be archived."""
    params = {"tenant": tenant, "number": number, "old": OLD, "dims": DIMS}
    with psycopg.connect(url) as conn:
        conn.execute(_FILL.encode(), params)


def hashes(url: str) -> dict[str, str]:
    """A hash of every row of each table of memories, bit by bit, ids included."""
    found = {}
    with psycopg.connect(url) as conn:
        conn.execute("SET timezone = 'UTC'")
        for name in CONTENT:
            binary = ", halfvec_send(embedding)::text" if name == "vectors" else ""
            query = f"SELECT t::text{binary} FROM memory.{name} t ORDER BY 1"  # noqa: S608 - names of ours
            rows = conn.execute(query.encode()).fetchall()
            digest = hashlib.sha256("\n".join(map(repr, rows)).encode()).hexdigest()
            found[name] = f"{len(rows)} rows, {digest}"
    return found


def count(url: str, table: str) -> int:
    """The number of rows of a table."""
    return int(one(url, f"SELECT count(*) FROM memory.{table}"))  # noqa: S608 - names of ours


def one(url: str, query: str, *params: Any) -> Any:
    """The first column of the first row that a query answers."""
    with psycopg.connect(url) as conn:
        row = conn.execute(query.encode(), params).fetchone()
    assert row is not None
    return row[0]


def execute(url: str, query: str, *params: Any) -> None:
    """Change what is stored."""
    with psycopg.connect(url) as conn:
        conn.execute(query.encode(), params)


def policy(directory: Path | str, **options: Any) -> ArchivalPolicy:
    """A policy that archives into a directory, all that it means."""
    return ArchivalPolicy(
        **{"url": str(directory), "max_share": 1, "default_importance": 0.5, **options}
    )


def files_in(directory: Path) -> list[Path]:
    """Every file below a directory."""
    return sorted(path for path in directory.rglob("*") if path.is_file())


def remember(url: str, key: str, **columns: Any) -> None:
    """Store one old memory, with these columns instead of the usual ones."""
    row = {
        "tenant": "acme",
        "tier": "working",
        "namespace": "_.",
        "key": key,
        "value": json.dumps({"content": key}),
        "created_at": OLD,
        "updated_at": OLD,
        **columns,
    }
    names = ", ".join(row)
    places = ", ".join(["%s"] * len(row))
    execute(url, f"INSERT INTO memory.memories ({names}) VALUES ({places})", *row.values())  # noqa: S608


def keys(url: str) -> list[str]:
    """The keys of all memories, in order."""
    with psycopg.connect(url) as conn:
        rows = conn.execute("SELECT key FROM memory.memories ORDER BY key").fetchall()
    return [row[0] for row in rows]
