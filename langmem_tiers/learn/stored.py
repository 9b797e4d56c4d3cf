"""Which of a few keys are stored already."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langmem_tiers.core.memory import TIERS, MemoryContext, Moment, Tier
from langmem_tiers.core.namespaces import encode
from langmem_tiers.postgres.flow import Call, Flow, Query


def stored_values(
    keys: Sequence[str],
    context: MemoryContext,
    moment: Moment,
    tiers: Sequence[Tier] = TIERS,
) -> Flow[Mapping[str, Mapping[str, Any]]]:
    """The values of the context's own memories with these keys, if they live, by key."""
    if not keys:
        return {}
    places = [(encode(context.namespace(tier)), key) for tier in tiers for key in keys]
    params = {
        "tenants": [place.tenant for place, _ in places],
        "namespaces": [place.namespace for place, _ in places],
        "keys": [key for _, key in places],
    }
    (rows,) = yield Query((Call("get_many", params),), commit=True)
    return {
        key: value
        for _, _, key, value, _, _, _, expires_at, _, _ in rows
        if expires_at is None or expires_at > moment.alive_at
    }
