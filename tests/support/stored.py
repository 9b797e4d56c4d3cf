"""Memories as steps of consolidation read them, without a database."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from langmem_tiers.consolidation.steps import StoredMemory

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def stored(number: int, content: str = "Reading mail", **given: Any) -> StoredMemory:
    """A memory, a minute after the one before it; what is no column of a row is in its value."""
    at = NOON + timedelta(minutes=number)
    fields = {
        "id": number,
        "namespace": "billing.chat.",
        "key": f"note{number}",
        "tier": "short_term",
        "state": None,
        "created_at": at,
        "updated_at": at,
        "session": "chat",
        "occurred_at": None,
        "valid_from": None,
        "valid_to": None,
        "access_count": 0,
        "home": "billing.",
    }
    own = {name: given.pop(name) for name in list(given) if name in fields}
    return StoredMemory(**{**fields, **own, "value": {"content": content, **given}})
