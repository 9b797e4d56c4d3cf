"""What a search from the command line needs beside its query: whose memories, and why none."""

from __future__ import annotations

from dataclasses import replace

from langmem_tiers.core.context import ABSENT, MemoryContext, named_by
from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.core.settings import CoordinatorSettings
from langmem_tiers.memory.asking import MAX_LIMIT
from langmem_tiers.memory.coordinator import MemoryCoordinator
from langmem_tiers.recall.ranking import profile_named
from langmem_tiers.store.store import TieredStore

_TIMEOUT_MS = 60_000
"""What a search may take: who types one waits longer than an agent."""
_TENANTS_NAMED = 10


def asked_by(
    tenant: str | None, project: str | None, session: str | None, profile: str | None
) -> MemoryContext:
    """Who asks, as a user names it, checked before anything is opened.

    Raises:
        InvalidInputError: for an empty name, or a ranking profile that does not exist.
    """
    if profile is not None:
        profile_named(profile)
    return MemoryContext(
        tenant=ABSENT if tenant is None else tenant, project_id=project, session_id=session
    )


def memory_of(store: TieredStore, asker: MemoryContext, *, named: bool) -> MemoryCoordinator:
    """The memory of the tenant that is named, or of the only one there is.

    Raises:
        InvalidInputError: if no tenant is named and there is none, or more than one.
    """
    return MemoryCoordinator(
        store,
        context=asker if named else replace(asker, tenant=_only_tenant(store)),
        settings=CoordinatorSettings(query_timeout_ms=_TIMEOUT_MS, max_context_items=MAX_LIMIT),
    )


def why_nothing(store: TieredStore, context: MemoryContext, *, cutoff: bool) -> str:
    """Say why a search found nothing; with `cutoff`, the nearest may have been held back."""
    if not store.list_namespaces(prefix=(context.root,), max_depth=1, limit=1):
        names = _listed(_tenants(store)) or "none yet"
        return f"There is no tenant {context.tenant!r}. Tenants here: {names}."
    if cutoff:
        return "Nothing stored answers this; --no-cutoff shows the nearest."
    return "Nothing was found."


def _only_tenant(store: TieredStore) -> str:
    names = _tenants(store)
    if not names:
        raise InvalidInputError("nothing is stored here yet: run `langmem-tiers import` first")
    if len(names) > 1:
        raise InvalidInputError(f"name a tenant with --tenant; there are {_listed(names)}")
    return names[0]


def _tenants(store: TieredStore) -> list[str]:
    """The first tenants, by the names that a `MemoryContext` takes; one more than is listed."""
    labels = store.list_namespaces(max_depth=1, limit=_TENANTS_NAMED + 1)
    return [name for (label,) in labels if (name := named_by(label)) is not None]


def _listed(names: list[str]) -> str:
    more = ", …" if len(names) > _TENANTS_NAMED else ""
    return ", ".join(names[:_TENANTS_NAMED]) + more
