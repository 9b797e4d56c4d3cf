"""What the audit log has of a database, and whether it has all that was written."""

from __future__ import annotations

from typing import Any

import psycopg

UNLOGGED = """
    SELECT m.key FROM memory.memories m
    WHERE NOT coalesce((
        SELECT a.verb NOT IN ('delete', 'expire')
               AND a.value_hash = memory.audit_keyed(a.salt, m.value::text)
        FROM memory.audit a
        WHERE a.tenant = m.tenant AND a.memories = ARRAY[m.id] AND a.verb NOT IN ('read', 'forget')
        ORDER BY a.id DESC LIMIT 1
    ), false)"""


def unlogged(url: str) -> list[str]:
    """The keys of memories of which the last row of the log does not say what they say."""
    with psycopg.connect(url) as conn:
        return [row[0] for row in conn.execute(UNLOGGED).fetchall()]


def logged(url: str, keys: str) -> int:
    """How many writes of keys that begin so the log has."""
    of_keys = "verb IN ('write', 'overwrite') AND starts_with(told ->> 'key', %s)"
    ((found,),) = sql(url, f"SELECT count(*) FROM memory.audit WHERE {of_keys}", keys)  # noqa: S608
    return int(found)


def sql(url: str, statement: str, *params: Any) -> list[tuple[Any, ...]]:
    """What a statement answers, as whoever connects, committed."""
    with psycopg.connect(url, autocommit=True) as conn:
        cursor = conn.execute(statement.encode(), params or None)
        return cursor.fetchall() if cursor.description else []
