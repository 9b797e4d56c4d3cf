"""How much there is: in a tenant, in a tier, on disk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from langmem_tiers.core.memory import Tier


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryStats:
    """What a tenant has stored, without what has expired."""

    total_count: int
    by_type: Mapping[str, int]
    by_tier: Mapping[Tier, int]
    accesses: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TierStats:
    """What one tier holds. Sizes are in bytes and include indexes."""

    tier: Tier
    memories: int
    vectors: int
    tenants: int
    accesses: int
    expiring: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RelationSize:
    """The size on disk of one table or index, in bytes."""

    relation: str
    kind: str
    bytes: int
