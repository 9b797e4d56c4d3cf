"""All rows that a scenario left, table by table."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

import psycopg

from benchmarks.recorded.adapter import MIGRATIONS
from benchmarks.recorded.plain import Plain

_TABLES = """
SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition
  AND n.nspname <> 'information_schema' AND n.nspname !~ '^pg_' AND c.relname <> %s
ORDER BY 1, 2
"""
_LONG = {"embedding"}
"""Columns of which a digest is enough."""


def rows(url: str, plain: Plain) -> list[str]:
    """A block for each table."""
    with psycopg.connect(url) as conn:
        names = conn.execute(_TABLES, [MIGRATIONS]).fetchall()
        return [_block(conn, f"{schema}.{name}", plain) for schema, name in names]


def _block(conn: psycopg.Connection[Any], table: str, plain: Plain) -> str:
    query = f'SELECT to_jsonb(t) FROM {table} t ORDER BY t::text COLLATE "C"'  # noqa: S608 - names of the catalogue
    found = [_line(row, plain) for (row,) in conn.execute(query.encode())]
    return "\n".join([f"# table {table}: {len(found)} rows", *found])


def _line(row: dict[str, Any], plain: Plain) -> str:
    short = {
        name: sha256(str(one).encode()).hexdigest()[:12] if name in _LONG and one else one
        for name, one in row.items()
        if one is not None
    }
    return json.dumps(plain(short), sort_keys=True, ensure_ascii=False)
