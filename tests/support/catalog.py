"""What a database holds, as Postgres' own catalogs describe it."""

from __future__ import annotations

from typing import Any

import psycopg

SCHEMAS = ["memory", "short_term", "working", "long_term"]

_QUERIES = {
    "schemas": """
        SELECT nspname::text FROM pg_namespace WHERE nspname = ANY (%(schemas)s)""",
    "columns": """
        SELECT n.nspname::text, c.relname::text, c.relkind::text, a.attnum, a.attname::text,
               format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attstorage::text,
               a.attcompression::text, l.collname::text, pg_get_expr(d.adbin, d.adrelid),
               c.reloptions
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        LEFT JOIN pg_attribute a
          ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
        LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
        LEFT JOIN pg_collation l ON l.oid = a.attcollation
        WHERE n.nspname = ANY (%(schemas)s) AND c.relkind IN ('r', 'p', 'S', 'v')""",
    "partitions": """
        SELECT c.oid::regclass::text, i.inhparent::regclass::text,
               pg_get_expr(c.relpartbound, c.oid), pg_get_partkeydef(i.inhparent)
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        JOIN pg_inherits i ON i.inhrelid = c.oid
        WHERE n.nspname = ANY (%(schemas)s) AND c.relkind = 'r'""",
    "indexes": """
        SELECT schemaname::text, tablename::text, indexname::text, indexdef
        FROM pg_indexes WHERE schemaname = ANY (%(schemas)s)""",
    "constraints": """
        SELECT conrelid::regclass::text, conname::text, pg_get_constraintdef(c.oid)
        FROM pg_constraint c JOIN pg_namespace n ON n.oid = c.connamespace
        WHERE n.nspname = ANY (%(schemas)s)""",
    "enums": """
        SELECT n.nspname::text, t.typname::text, e.enumlabel::text
        FROM pg_enum e JOIN pg_type t ON t.oid = e.enumtypid
        JOIN pg_namespace n ON n.oid = t.typnamespace WHERE n.nspname = ANY (%(schemas)s)""",
    "functions": """
        SELECT p.oid::regprocedure::text, pg_get_functiondef(p.oid)
        FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
        WHERE n.nspname = ANY (%(schemas)s)""",
    "policies": """
        SELECT schemaname::text, tablename::text, policyname::text, qual, with_check
        FROM pg_policies WHERE schemaname = ANY (%(schemas)s)""",
}


def catalog(url: str, prefix: str = "") -> dict[str, list[tuple[Any, ...]]]:
    """Everything in the store's schemas, in an order of its own."""
    params = {"schemas": [f"{prefix}{name}" for name in SCHEMAS]}
    with psycopg.connect(url) as conn:
        found = {
            name: conn.execute(query.encode(), params).fetchall()
            for name, query in _QUERIES.items()
        }
    return {name: sorted(rows, key=repr) for name, rows in found.items()}


def migrations_run(url: str) -> list[tuple[Any, ...]]:
    """The record of migrations, as it stands."""
    with psycopg.connect(url) as conn:
        query = "SELECT version, name, checksum, applied_at FROM memory.migrations ORDER BY 1"
        return conn.execute(query).fetchall()
