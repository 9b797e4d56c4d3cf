"""Recollections with only what a test cares for."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from langmem_tiers.core.memory import Recollection, Tier

NOW = datetime(2025, 6, 30, 12, tzinfo=UTC)

_PLAIN = Recollection(
    key="plain",
    namespace=("acme", "billing"),
    tier=Tier.WORKING,
    memory_type="fact",
    content="",
    value={},
    created_at=NOW,
    updated_at=NOW,
)


def recollection(key: str, content: str = "", **facts: Any) -> Recollection:
    """A working memory recorded now, but for what is given."""
    return replace(_PLAIN, key=key, content=content or f"memory {key}", **facts)
