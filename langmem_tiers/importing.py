"""A file's records, put into a store in batches that are kept or refused one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice

from langgraph.store.base import BaseStore, PutOp

from langmem_tiers.errors import InvalidInputError
from langmem_tiers.importers import BadRecord, Record

BATCH = 200
"""Records a transaction: what is lost, and put again, when an import is interrupted."""


@dataclass(slots=True, kw_only=True)
class TenantSpan:
    """How many memories a tenant got, and when the first and the last were said (ISO 8601)."""

    memories: int = 0
    first: str | None = None
    last: str | None = None

    def add(self, occurred_at: str | None) -> None:
        """Count one memory."""
        self.memories += 1
        if occurred_at is not None:
            self.first = min(self.first or occurred_at, occurred_at)
            self.last = max(self.last or occurred_at, occurred_at)


@dataclass(slots=True, kw_only=True)
class Imported:
    """What an import put into the store, by tenant, and what it could not."""

    tenants: dict[str, TenantSpan] = field(default_factory=dict)
    bad: list[BadRecord] = field(default_factory=list)

    @property
    def memories(self) -> int:
        """The memories put, of all tenants."""
        return sum(span.memories for span in self.tenants.values())

    def add(self, item: Record | BadRecord) -> None:
        """Count one record."""
        if isinstance(item, BadRecord):
            self.bad.append(item)
        else:
            span = self.tenants.setdefault(item.tenant, TenantSpan())
            span.add(item.value.get("occurred_at"))


def import_records(
    store: BaseStore,
    items: Iterable[Record | BadRecord],
    *,
    advance: Callable[[int], object] | None = None,
) -> Imported:
    """Put records into a store, 200 a transaction; `advance` is called with each one's size.

    A record that the store refuses becomes a bad record; those beside it are kept. Doing it
    again changes nothing: keys come from the file.

    Raises:
        DatabaseError: if the store fails; the batches before are kept.
    """
    imported = Imported()
    for batch in _batches(items):
        records = [item for item in batch if isinstance(item, Record)]
        refused = {id(record): bad for record, bad in _put(store, records)}
        for item in batch:
            imported.add(refused.get(id(item), item))
        if advance is not None:
            advance(len(batch))
    return imported


def _put(store: BaseStore, records: list[Record]) -> Iterator[tuple[Record, BadRecord]]:
    """Put all records or, if the store refuses, each one by itself; yield those it refuses."""
    try:
        store.batch([PutOp((one.tenant, *one.namespace), one.key, one.value) for one in records])
    except InvalidInputError as error:
        if len(records) == 1:
            reason = f"key {records[0].key!r:.80}: {error}"
            yield records[0], BadRecord(line=None, reason=reason)
            return
        for one in records:
            yield from _put(store, [one])


def _batches(items: Iterable[Record | BadRecord]) -> Iterator[list[Record | BadRecord]]:
    rest = iter(items)
    while batch := list(islice(rest, BATCH)):
        yield batch
