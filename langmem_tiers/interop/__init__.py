"""What langchain-postgres knows, in tiers, and tiers as langchain-postgres knows them.

`open_tier` opens a tier for reading as a `PGVectorStore`, `import_chat_history` remembers what
`PostgresChatMessageHistory` wrote. Only the first needs the `langchain-postgres` extra.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from langmem_tiers.core.memory import Tier
from langmem_tiers.interop.chat_history import (
    ImportedHistory,
    aimport_chat_history,
    import_chat_history,
)
from langmem_tiers.store.store import TieredStore

if TYPE_CHECKING:
    from langmem_tiers.interop.vector_store import TierVectorStore

__all__ = [
    "ImportedHistory",
    "aimport_chat_history",
    "aopen_tier",
    "import_chat_history",
    "open_tier",
]


def open_tier(
    store: TieredStore,
    tier: Tier | str,
    *,
    tenant: str,
    user_id: str | None = None,
    k: int = 4,
    fetch_k: int = 20,
    lambda_mult: float = 0.5,
) -> TierVectorStore:
    """Open one tenant's memories of a tier for reading, as langchain-postgres' `PGVectorStore`.

    Every way of searching it sees what a recall would show of what the tenant has stored there
    with a vector: what is current and has not expired, at the moment of asking. The walls around
    the tenant and its users stand in the database, not in a filter. What is read is not counted as
    accessed and does not live longer for it. It is of use while the store is open, and keeps
    connections of its own: use it with `with`, or close it.

    A document's id is the memory's key, its metadata the rest of the value and `namespace`,
    `tier`, `created_at` and `updated_at` (UTC). An item indexed under several paths is one
    document for each of them.

    Args:
        store: A store with vectors.
        tier: `short_term`, `working` or `long_term`.
        tenant: Whose memories, by the name that `MemoryContext` takes.
        user_id: The user whose own are shown beside what is shared; nobody's if not given.
        k: Documents a search returns, if it does not say.
        fetch_k: Candidates of a search by maximal marginal relevance.
        lambda_mult: From 0 (most diverse) to 1 (most similar), for such a search.

    Raises:
        MissingExtraError: if langchain-postgres is not installed.
        ConfigurationError: if the store's index has no vectors.
        NotSetUpError: if the database was not set up by this version.

    Example:
        ```python
        with open_tier(store, "working", tenant="acme", k=3) as documents:
            documents.similarity_search("When do keys change?")
            documents.as_retriever().invoke("When do keys change?")
        ```
    """
    from langmem_tiers.interop.vector_store import opened

    opening = opened(store, tier, tenant, user_id, k=k, fetch_k=fetch_k, lambda_mult=lambda_mult)
    return store.run(opening)


async def aopen_tier(
    store: TieredStore,
    tier: Tier | str,
    *,
    tenant: str,
    user_id: str | None = None,
    k: int = 4,
    fetch_k: int = 20,
    lambda_mult: float = 0.5,
) -> TierVectorStore:
    """Open a tier for reading; see `open_tier`. Use it with `async with`, or `aclose` it."""
    from langmem_tiers.interop.vector_store import opened

    opening = opened(store, tier, tenant, user_id, k=k, fetch_k=fetch_k, lambda_mult=lambda_mult)
    return await store.arun(opening)
