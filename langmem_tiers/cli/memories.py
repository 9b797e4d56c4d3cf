"""What the commands `import`, `search` and `replay` do."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from langmem_tiers.core.context import ABSENT, MemoryContext, name_of_label
from langmem_tiers.core.errors import InvalidInputError, short
from langmem_tiers.core.settings import CoordinatorSettings
from langmem_tiers.core.values import batches
from langmem_tiers.importers import BadRecord, Record
from langmem_tiers.interop import BATCH, kept
from langmem_tiers.memory.base import MAX_LIMIT
from langmem_tiers.memory.coordinator import MemoryCoordinator
from langmem_tiers.postgres.flow import with_deadline_for
from langmem_tiers.recall.ranking import profile_of
from langmem_tiers.store.store import TieredStore

_TOLD = (
    *("content", "speaker", "occurred_at", "session_id", "turn"),
    *("memory_type", "tier", "tags", "importance"),
)
"""What of a record is an argument of `store` by the same name."""


@dataclass(slots=True, kw_only=True)
class TenantSpan:
    """How many memories a tenant got, and when the first and the last were said (ISO 8601)."""

    memories: int = 0
    first: str | None = None
    last: str | None = None


@dataclass(slots=True, kw_only=True)
class Imported:
    """What an import stored, by tenant, and what it could not."""

    tenants: dict[str, TenantSpan] = field(default_factory=dict)
    bad: list[BadRecord] = field(default_factory=list)

    @property
    def memories(self) -> int:
        """The memories stored, of all tenants."""
        return sum(span.memories for span in self.tenants.values())

    def add(self, item: Record | BadRecord) -> None:
        """Count one record."""
        if isinstance(item, BadRecord):
            self.bad.append(item)
            return
        span = self.tenants.setdefault(item.tenant, TenantSpan())
        span.memories += 1
        if (said_at := item.value.get("occurred_at")) is not None:
            span.first = min(span.first or said_at, said_at)
            span.last = max(span.last or said_at, said_at)


def import_records(
    store: TieredStore,
    items: Iterable[Record | BadRecord],
    *,
    user: str | None = None,
    readmit: bool = False,
    advance: Callable[[int], object] = lambda _: None,
) -> Imported:
    """Store records as memories, 200 at once, each tenant's in one transaction.

    A `MemoryCoordinator` for the record's tenant and project, and the `user`, recalls them.
    `advance` is called with the size of each batch. A record that the store refuses becomes a bad
    record; those beside it are kept. So does what was forgotten, unless it is to be readmitted.
    Doing it again changes nothing: keys come from the file.

    Raises:
        ConfigurationError: if the store has no index.
        DatabaseError: if the store fails; the batches before are kept.
    """
    imported = Imported()
    for batch in batches(items, lambda _: 1, min(BATCH, store.options.bounds.batch)):
        records = [item for item in batch if isinstance(item, Record)]
        refused = _refused(store, records, user, readmit=readmit)
        for item in batch:
            imported.add(refused.get(id(item), item))
        advance(len(batch))
    return imported


def _refused(
    store: TieredStore, records: list[Record], user: str | None, *, readmit: bool
) -> dict[int, BadRecord]:
    """Store records, each tenant's together; those that are refused, each by its `id`."""
    by_tenant: dict[str, dict[int, Record]] = {}
    for record in records:
        by_tenant.setdefault(record.tenant, {})[id(record)] = record
    bad = {}
    for tenant, theirs in by_tenant.items():
        memory = MemoryCoordinator(store, context=MemoryContext(tenant=tenant, user_id=user))
        arguments = {number: _arguments(record) for number, record in theirs.items()}
        storing = with_deadline_for(None, kept(memory, arguments, readmit=readmit))
        for number, why in store.run(storing).items():
            bad[number] = BadRecord(line=None, reason=f"key {short(theirs[number].key)}: {why}")
    return bad


def _arguments(record: Record) -> dict[str, Any]:
    """A record as `store_many` takes it; what `store` has no name for is metadata."""
    rest = dict(record.value)
    arguments = {name: rest.pop(name) for name in _TOLD if name in rest}
    if arguments.get("speaker") is None:
        arguments.pop("turn", None)  # what nobody said is no turn
    source, metadata = rest.pop("source", None), rest.pop("metadata", {})
    return {
        **arguments,
        "key": record.key,
        "project_id": record.project,
        "platform_source": source,
        "metadata": {**rest, **metadata},
    }


_TIMEOUT_MS = 60_000
"""What a search may take: who types one waits longer than an agent."""
_TENANTS_NAMED = 10


def asked_by(
    tenant: str | None,
    project: str | None,
    session: str | None,
    user: str | None,
    profile: str | None,
) -> MemoryContext:
    """Who asks, as a user names it, checked before anything is opened.

    Raises:
        InvalidInputError: for an empty name, or a ranking profile that does not exist.
    """
    if profile is not None:
        profile_of(profile)
    return MemoryContext(
        tenant=ABSENT if tenant is None else tenant,
        project_id=project,
        session_id=session,
        user_id=user,
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


def why_nothing(store: TieredStore, context: MemoryContext, *, held: bool) -> str:
    """Say why a search found nothing; if `held`, the nearest may have been held back."""
    if not store.list_namespaces(prefix=(context.root,), max_depth=1, limit=1):
        names = _listed(_tenants(store)) or "none yet"
        return f"There is no tenant {context.tenant!r}. Tenants here: {names}."
    if held:
        return "Nothing stored answers this; --min-match 0 shows the nearest."
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
    return [name for (label,) in labels if (name := name_of_label(label)) is not None]


def _listed(names: list[str]) -> str:
    more = ", …" if len(names) > _TENANTS_NAMED else ""
    return ", ".join(names[:_TENANTS_NAMED]) + more
