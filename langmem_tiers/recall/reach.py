"""Where a recall looks, and when what it finds is to be true and known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple

from langmem_tiers.core.context import MemoryContext
from langmem_tiers.core.memory import TIERS, Tier
from langmem_tiers.core.namespaces import Scope, scope


class Reach(NamedTuple):
    """Where a recall looks: under the prefix that a context has in each of these tiers."""

    tenant: str
    user_id: str | None
    tiers: frozenset[Tier]
    bounds: Mapping[str, str | None]
    """The parameters that say so, and who looks; a tier that is not asked has no room between its
    bounds."""


@lru_cache(maxsize=1024)
def reach(context: MemoryContext, tiers: Sequence[Tier] = TIERS) -> Reach:
    """Where a recall in that context looks."""
    prefixes = {tier: scope(context.namespace(tier)) for tier in tiers}
    return below(prefixes, context.root, context.user_id)


def below(prefixes: Mapping[Tier, Scope], tenant: str, user_id: str | None) -> Reach:
    """Where a recall looks that has these prefixes in a tenant."""
    bounds = {"tenant": tenant, "user_id": user_id}
    for tier in TIERS:
        prefix = prefixes.get(tier, Scope(None, "", ""))
        bounds |= {f"{tier}_low": prefix.low, f"{tier}_high": prefix.high}
    return Reach(tenant, user_id, frozenset(prefixes), bounds)


def visibility(
    now: datetime, as_of: datetime | None = None, known_at: datetime | None = None
) -> dict[str, datetime | None]:
    """The parameters of `{visible}`: when a memory is to be true, and to be known."""
    return {"true_at": as_of or now, "as_of": as_of, "known_at": known_at}
