"""Imports of records, and coordinators for `search` and `replay`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from langmem_tiers.coordinator.base import MAX_LIMIT
from langmem_tiers.coordinator.coordinator import MemoryCoordinator
from langmem_tiers.core.context import ABSENT, MemoryContext, name_of_label
from langmem_tiers.core.errors import InvalidInputError, short
from langmem_tiers.core.settings import CoordinatorSettings
from langmem_tiers.core.values import batches
from langmem_tiers.importers import BadRecord, Record
from langmem_tiers.interop import BATCH, store_imported
from langmem_tiers.postgres.flow import with_deadline_for
from langmem_tiers.recall.ranking import resolve_profile
from langmem_tiers.store.store import TieredStore

_STORE_ARGUMENTS = (
    *("content", "speaker", "occurred_at", "session_id", "turn"),
    *("memory_type", "tier", "tags", "importance"),
)
"""Fields of a record that `store` takes as arguments of the same name."""


@dataclass(slots=True, kw_only=True)
class TenantSpan:
    """Count of the memories that a tenant got, with their first and last date (ISO 8601)."""

    memories: int = 0
    first: str | None = None
    last: str | None = None


@dataclass(slots=True, kw_only=True)
class ImportSummary:
    """Memories that an import stored, by tenant, and records that it refused."""

    tenants: dict[str, TenantSpan] = field(default_factory=dict)
    bad: list[BadRecord] = field(default_factory=list)

    @property
    def memories(self) -> int:
        """Count of the memories stored, of all tenants."""
        return sum(span.memories for span in self.tenants.values())

    def add(self, item: Record | BadRecord) -> None:
        """Count one record."""
        if isinstance(item, BadRecord):
            self.bad.append(item)
            return
        span = self.tenants.setdefault(item.tenant, TenantSpan())
        span.memories += 1
        if (occurred_at := item.value.get("occurred_at")) is not None:
            span.first = min(span.first or occurred_at, occurred_at)
            span.last = max(span.last or occurred_at, occurred_at)


def import_records(
    store: TieredStore,
    items: Iterable[Record | BadRecord],
    *,
    user: str | None = None,
    readmit: bool = False,
    advance: Callable[[int], object] = lambda _: None,
) -> ImportSummary:
    """Store records as memories, 200 at once, each tenant's in one transaction.

    A `MemoryCoordinator` for the record's tenant and project, and the `user`, recalls them.
    `advance` is called with the size of each batch. A record that the store refuses becomes a bad
    record; those beside it are stored. So does a forgotten one, unless `readmit` is true.
    Importing again changes nothing: keys come from the file.

    Raises:
        ConfigurationError: if the store has no index.
        DatabaseError: if the store fails; the batches before are kept.
    """
    imported = ImportSummary()
    for batch in batches(items, lambda _: 1, min(BATCH, store.options.bounds.batch)):
        records = [item for item in batch if isinstance(item, Record)]
        refused = _store_records(store, records, user, readmit=readmit)
        for item in batch:
            imported.add(refused.get(id(item), item))
        advance(len(batch))
    return imported


def _store_records(
    store: TieredStore, records: list[Record], user: str | None, *, readmit: bool
) -> dict[int, BadRecord]:
    """Store the records of each tenant together; return the bad ones by the records' `id`."""
    by_tenant: dict[str, dict[int, Record]] = {}
    for record in records:
        by_tenant.setdefault(record.tenant, {})[id(record)] = record
    bad = {}
    for tenant, by_id in by_tenant.items():
        memory = MemoryCoordinator(store, context=MemoryContext(tenant=tenant, user_id=user))
        arguments = {number: _store_arguments(record) for number, record in by_id.items()}
        storing = with_deadline_for(None, store_imported(memory, arguments, readmit=readmit))
        for number, why in store.run(storing).items():
            bad[number] = BadRecord(line=None, reason=f"key {short(by_id[number].key)}: {why}")
    return bad


def _store_arguments(record: Record) -> dict[str, Any]:
    """Return the arguments of `store_many`; fields that `store` does not know become metadata."""
    rest = dict(record.value)
    arguments = {name: rest.pop(name) for name in _STORE_ARGUMENTS if name in rest}
    if arguments.get("speaker") is None:
        arguments.pop("turn", None)  # a record without a speaker is no turn
    source, metadata = rest.pop("source", None), rest.pop("metadata", {})
    return {
        **arguments,
        "key": record.key,
        "project_id": record.project,
        "platform_source": source,
        "metadata": {**rest, **metadata},
    }


_TIMEOUT_MS = 60_000
"""Longest search in milliseconds: a person waits longer than an agent."""
_MAX_TENANTS_NAMED = 10


def build_context(
    tenant: str | None,
    project: str | None,
    session: str | None,
    user: str | None,
    profile: str | None,
) -> MemoryContext:
    """Return the context that the options name, checked before a store is opened.

    Raises:
        InvalidInputError: for an empty name, or a ranking profile that does not exist.
    """
    if profile is not None:
        resolve_profile(profile)
    return MemoryContext(
        tenant=ABSENT if tenant is None else tenant,
        project_id=project,
        session_id=session,
        user_id=user,
    )


def open_memory(
    store: TieredStore, context: MemoryContext, *, has_tenant: bool
) -> MemoryCoordinator:
    """Return a coordinator for the context's tenant, or for the only one if it has none.

    Raises:
        InvalidInputError: if no tenant is named and there is none, or more than one.
    """
    return MemoryCoordinator(
        store,
        context=context if has_tenant else replace(context, tenant=_only_tenant(store)),
        settings=CoordinatorSettings(query_timeout_ms=_TIMEOUT_MS, max_context_items=MAX_LIMIT),
    )


def explain_no_results(store: TieredStore, context: MemoryContext, *, has_floor: bool) -> str:
    """Say why a search found nothing; with a floor, near memories may have been left out."""
    if not store.list_namespaces(prefix=(context.root,), max_depth=1, limit=1):
        names = _join_names(_tenant_names(store)) or "none yet"
        return f"There is no tenant {context.tenant!r}. Tenants here: {names}."
    if has_floor:
        return "Nothing stored answers this; --min-match 0 shows the nearest."
    return "Nothing was found."


def _only_tenant(store: TieredStore) -> str:
    names = _tenant_names(store)
    if not names:
        raise InvalidInputError("nothing is stored here yet: run `langmem-tiers import` first")
    if len(names) > 1:
        raise InvalidInputError(f"name a tenant with --tenant; there are {_join_names(names)}")
    return names[0]


def _tenant_names(store: TieredStore) -> list[str]:
    """Return the first tenants, as a `MemoryContext` names them; one more than is listed."""
    labels = store.list_namespaces(max_depth=1, limit=_MAX_TENANTS_NAMED + 1)
    return [name for (label,) in labels if (name := name_of_label(label)) is not None]


def _join_names(names: list[str]) -> str:
    more = ", …" if len(names) > _MAX_TENANTS_NAMED else ""
    return ", ".join(names[:_MAX_TENANTS_NAMED]) + more
