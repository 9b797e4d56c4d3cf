"""The verbs by which all of a tenant is carried from one database to another."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from langmem_tiers.carry.exporting import Exporting, ExportReport, export
from langmem_tiers.carry.importing import Importing, ImportReport, import_all
from langmem_tiers.core.checks import checked_flag, checked_path, label
from langmem_tiers.core.context import MemoryContext
from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.memory.base import Memory, model_of
from langmem_tiers.postgres.flow import Flow, unhurried
from langmem_tiers.recall.matching import OTHER
from langmem_tiers.remember.trust import TrustPolicy
from langmem_tiers.store.store import TieredStore


def export_tenant(memory: Memory, path: str | os.PathLike[str]) -> Flow[ExportReport]:
    """Write everything that the context's tenant has into one file, as of one moment.

    That is every row of every user, project and session: memories of all tiers with their vectors,
    counters, lineage and events, states, reminders, and what was forgotten. The file is JSON Lines
    compressed by gzip; it is written a part at a time, and is there once it is whole. Files of
    archives and checkpoints are not in it; docs/export.md says what is.

    Args:
        path: A new file. Nobody but its owner may read it.

    Raises:
        InvalidInputError: if the file is there already or cannot be written, or the context names a
            user, who may not read all of it.

    Example:
        ```python
        memory.export_tenant("acme.jsonl.gz")
        with TieredStore.embedded("./elsewhere") as other:
            MemoryCoordinator(other, context=memory.context).import_tenant("acme.jsonl.gz")
        ```
    """
    _check_wide(memory.context)
    target = checked_path(path, "a file to export to")
    store = memory.tiered_store
    return exporting(store, memory.context, target, model=_model_of(store))


def import_tenant(
    memory: Memory,
    path: str | os.PathLike[str],
    *,
    source: str | None = None,
    readmit: bool = False,
) -> Flow[ImportReport]:
    """Bring everything of an export back as it was: ids, times, vectors and counters.

    The context's tenant is the one that was exported, and has nothing here yet; the database was
    set up with the same index. The file is checked to its end before anything is written. Then it
    is written in batches: what is stopped, is finished by the same call. Ids are new ones if other
    tenants have any of them.

    Args:
        path: What `export_tenant` wrote.
        source: Who answers for the file: no memory is trusted more than this source is, and no
            archives, receipts or tombstones are taken from it. Without it, whoever calls answers
            for all that it says.
        readmit: Let back what was forgotten here; otherwise it is left out, and what quotes it
            loses that.

    Raises:
        ConfigurationError: if the store has not the rights of the database's owner.
        ConflictError: if somebody else imports the tenant meanwhile.
        InvalidInputError: if the file is not what was exported, the tenant has anything already, or
            the database was set up otherwise or has another version.
        LeaseLostError: while somebody consolidates the tenant.

    Example:
        ```python
        report = memory.import_tenant("acme.jsonl.gz")
        print(report.rows["memories"])
        ```
    """
    _check_wide(memory.context)
    store = memory.tiered_store
    return importing(
        store,
        memory.context,
        checked_path(path, "an export"),
        source=source,
        readmit=readmit,
        policy=memory.gate.policy.trust,
        model=_model_of(store),
    )


# The same, of a store that may have no index and so no coordinator.


@unhurried
def exporting(
    store: TieredStore,
    context: MemoryContext,
    path: Path,
    *,
    model: str | None = None,
    advance: Callable[[int], object] = lambda _: None,
) -> Flow[ExportReport]:
    """Export the context's tenant; `advance` hears of the rows that were written."""
    yield from store.flows.flush()  # what was read a moment ago counts
    how = Exporting(
        tenant=context.root, path=path, now=store.flows.now, model=model, advance=advance
    )
    return (yield from export(how))


@unhurried
def importing(
    store: TieredStore,
    context: MemoryContext,
    path: Path,
    *,
    source: str | None,
    readmit: bool,
    policy: TrustPolicy,
    model: str | None = None,
    advance: Callable[[int], object] = lambda _: None,
) -> Flow[ImportReport]:
    """Import into the context's tenant; `advance` hears of each row twice: checked, and written."""
    how = Importing(
        store=store,
        tenant=context.root,
        path=path,
        source=None if source is None else label(source, "source"),
        policy=policy,
        readmit=checked_flag(readmit, "readmit"),
        model=model,
        advance=advance,
    )
    return import_all(how)


def _model_of(store: TieredStore) -> str | None:
    """The embedding model of a store, if it comes from a wheel."""
    name = model_of(store)
    return None if name == OTHER else name


def _check_wide(context: MemoryContext) -> None:
    if context.user_id is not None:
        raise InvalidInputError(
            f"an export is of all of a tenant, and this context of the user {context.user_id!r} "
            "alone: use one that names no user"
        )
