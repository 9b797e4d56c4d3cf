"""Verbs of a tenant's administration: audit log, archives, export and import.

The flows below them take a store, which may have no index and so no coordinator.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from langmem_tiers.audit.chain import (
    AuditEntry,
    AuditHead,
    AuditVerification,
    read_entries,
    read_head,
    verify_chain,
)
from langmem_tiers.consolidation import archive as cold
from langmem_tiers.consolidation.archive import ArchiveFile, ArchiveReport, RestoreReport
from langmem_tiers.consolidation.policy import ArchivalPolicy
from langmem_tiers.consolidation.steps import Cycle
from langmem_tiers.coordinator.base import Memory, checked_memory_key, model_name
from langmem_tiers.coordinator.resolve import resolve_key
from langmem_tiers.core.checks import checked_flag, checked_instance, checked_path, checked_whole
from langmem_tiers.core.context import MemoryContext
from langmem_tiers.core.errors import InvalidInputError, InvalidTypeError, short
from langmem_tiers.postgres.flow import Flow, without_deadline
from langmem_tiers.recall.matching import OTHER
from langmem_tiers.store.store import TieredStore
from langmem_tiers.transfer import transfer
from langmem_tiers.transfer.transfer import ExportReport, ImportReport

if TYPE_CHECKING:
    from langmem_tiers.consolidation.archive_files import ArchiveFiles


_HEAD: Final = re.compile(r"(0|[1-9]\d{0,17}):([0-9a-f]{64})")


def audit(
    memory: Memory, *, key: str | None = None, limit: int = 100
) -> Flow[tuple[AuditEntry, ...]]:
    """Return the audit log of the tenant's memories, the latest entries first.

    Args:
        key: Only entries about memories of this key.
        limit: Most entries to return.

    Raises:
        InvalidInputError: for a key that none can be, or through a context that names a user.

    Example:
        ```python
        memory.store("The key rotates on Mondays.", memory_type="semantic", key="rotation")
        (written,) = memory.admin.audit(key="rotation")
        print(written.verb, written.role, written.at)
        ```
    """
    return read_log(memory.tiered_store, memory.context, key, limit)


def read_log(
    store: TieredStore, context: MemoryContext, key: str | None, limit: int
) -> Flow[tuple[AuditEntry, ...]]:
    """Return the audit log of a store that may have no index and so no coordinator."""
    tenant = tenant_of_log(context)
    store.options.bounds.check_limit(checked_whole(limit, "limit", 1, 2**31 - 1))
    named = None if key is None else checked_memory_key(key)
    return _entries(store, context, tenant, named, limit)


def _entries(
    store: TieredStore, context: MemoryContext, tenant: str, key: str | None, limit: int
) -> Flow[tuple[AuditEntry, ...]]:
    if key is not None:
        key = yield from resolve_key(key, context, store.flows.moment().alive_at)
    return (yield from read_entries(tenant, key, limit))


def audit_head(memory: Memory) -> Flow[AuditHead]:
    """Return the head of the tenant's chain; kept elsewhere, it proves what was logged until now.

    Raises:
        InvalidInputError: through a context that names a user.
    """
    return read_head(tenant_of_log(memory.context))


def verify_audit(memory: Memory, head: AuditHead | str | None = None) -> Flow[AuditVerification]:
    """Verify the chain of the tenant's log; the result is true if nothing was altered or dropped.

    It reads in batches, waits for nobody and keeps nobody waiting. docs/audit.md says what it
    cannot see.

    Args:
        head: An earlier head of the chain, or its text: the chain must still contain it.

    Raises:
        InvalidInputError: if that is no head, or another tenant's, or through a context that names
            a user.

    Example:
        ```python
        kept = memory.admin.audit_head()  # to be kept elsewhere
        memory.store("The key rotates on Mondays.", memory_type="semantic")
        assert memory.admin.verify_audit(kept)
        ```
    """
    tenant = tenant_of_log(memory.context)
    return verify_chain(tenant, parse_head(head, tenant))


def parse_head(value: object, tenant: str) -> AuditHead | None:
    """Return a head of this tenant's chain, from itself or its text; None for None."""
    if value is None:
        return None
    if isinstance(value, AuditHead) and value.tenant != tenant:
        raise InvalidInputError(f"the head is of the tenant {value.tenant!r}, not of {tenant!r}")
    match = _HEAD.fullmatch(str(value)) if isinstance(value, AuditHead | str) else None
    if match is None:
        raise InvalidInputError(
            f"a head is what admin.audit_head() answered, such as 12:9f86…, not {short(value)}"
        )
    return AuditHead(tenant, int(match[1]), match[2])


def tenant_of_log(context: MemoryContext) -> str:
    """Return the tenant of a context that may read all of its log."""
    if context.user_id is not None:
        raise InvalidInputError(
            f"the log is all of the tenant's, and {context.user_id!r} one of its users: read it "
            "through a context that names none"
        )
    return context.root


def archive(memory: Memory, policy: ArchivalPolicy, *, dry_run: bool = True) -> Flow[ArchiveReport]:
    """Move the tenant's old, unimportant and rarely read memories to Parquet files.

    They are only counted, unless `dry_run` is False. Each file is read back and compared before
    anything is removed. An archived memory is neither recalled nor found by key. The database keeps
    a row with the name of its archive.

    Memories that are not current stay. So do those with a lineage (promoted, merged or derived
    memories, and their sources), as questions about the past and `rollback` need them, the notes of
    a session until it is cleared, and open intentions.

    Raises:
        FileError (archive): if a file cannot be written, or not be read back; the memories in the
            files before it are archived.
        ConfigurationError: for a URL that fsspec does not know.
        ConflictError (lease_lost): if a worker is consolidating the tenant.
        MissingExtraError: without the `archive` extra.

    Example:
        ```python
        from langmem_tiers import ArchivalPolicy

        print(memory.admin.archive(ArchivalPolicy(url="./archive")))  # what it would move
        report = memory.admin.archive(ArchivalPolicy(url="./archive"), dry_run=False)
        ```
    """
    return archive_memories(memory.tiered_store, memory.context, policy, dry_run=dry_run)


def restore_archive(memory: Memory, archive: str) -> Flow[RestoreReport]:
    """Restore memories from an archive, as they were; restoring again changes nothing.

    A memory whose key lives again stays in the archive, and one that was deleted or has expired
    meanwhile does not come back.

    Args:
        archive: Its name or its URL, as `archives` lists them.

    Raises:
        FileError (archive): if the file is missing, damaged, or not what was written; nothing was
            restored.
        InvalidInputError: if the tenant has no such archive.
        MissingExtraError: without the `archive` extra.
    """
    return restore_memories(memory.tiered_store, memory.context, archive)


def archives(memory: Memory) -> Flow[list[ArchiveFile]]:
    """Return the tenant's archives, oldest first."""
    return cold.list_archives(memory.context.root)


# Flows of a store that may have no index and so no coordinator


@without_deadline
def archive_memories(
    store: TieredStore,
    context: MemoryContext,
    policy: ArchivalPolicy,
    *,
    dry_run: bool = False,
    advance: Callable[[int], object] = lambda _: None,
) -> Flow[ArchiveReport]:
    """Archive the memories that the policy selects; call `advance` with the size of each batch.

    A cycle is named after its day, so that an interrupted one is repeated under the same names.
    """
    checked_instance(policy, ArchivalPolicy, "policy")
    checked_flag(dry_run, "dry_run")
    files = archive_files()
    files.check(policy.url)
    yield from store.flows.flush()  # recent reads count
    moment = store.flows.moment()
    cycle = Cycle(
        tenant=context.root, cycle=f"{moment.now:%Y-%m-%d}", moment=moment, options=store.options
    )
    step = cold.Archive(policy, files)
    return (yield from cold.archive_all(step, cycle, dry_run=dry_run, advance=advance))


@without_deadline
def restore_memories(
    store: TieredStore, context: MemoryContext, archive: str
) -> Flow[RestoreReport]:
    """Restore memories from an archive of the context's tenant."""
    if not isinstance(archive, str):
        hint = ": pass its .archive" if isinstance(archive, ArchiveFile) else ""
        raise InvalidTypeError(
            f"an archive is named by a string, not {type(archive).__name__}{hint}"
        )
    restore_context = cold.RestoreContext(context, archive_files(), store.options, store.flows.now)
    return cold.restore_archive(restore_context, archive)


def archive_files() -> ArchiveFiles:
    """Return access to files of archives; it needs the extra `archive`."""
    from langmem_tiers.consolidation.archive_files import ArchiveFiles

    return ArchiveFiles()


def export_tenant(memory: Memory, path: str | os.PathLike[str]) -> Flow[ExportReport]:
    """Export all rows of the context's tenant to one file, as of one moment.

    That is every row of every user, project and session: memories of all tiers with their vectors,
    counters, lineage and events, states, reminders, and tombstones. The file is JSON Lines
    compressed by gzip; it is written a part at a time, and is there once it is whole. Files of
    archives and checkpoints are not in it; docs/export.md says what is.

    Args:
        path: A new file. Nobody but its owner may read it.

    Raises:
        InvalidInputError: if the file is there already or cannot be written, or the context names a
            user, who may not read all of it.

    Example:
        ```python
        memory.admin.export_tenant("acme.jsonl.gz")
        with TieredStore.embedded("./elsewhere") as other:
            MemoryCoordinator(other, context=memory.context).admin.import_tenant("acme.jsonl.gz")
        ```
    """
    _check_no_user(memory.context)
    target, store = checked_path(path, "a file to export to"), memory.tiered_store
    return transfer.export_all(store, memory.context, target, model=_wheel_model(store))


def import_tenant(
    memory: Memory,
    path: str | os.PathLike[str],
    *,
    source: str | None = None,
    readmit: bool = False,
) -> Flow[ImportReport]:
    """Import an export as it was: ids, times, vectors and counters.

    The context's tenant is the exported one, and has no rows here yet; the database was set up with
    the same index. The file is checked to its end before anything is written. Then it is written in
    batches; the same call finishes an interrupted import. Ids are new ones if other tenants have
    any of them.

    Args:
        path: A file of `export_tenant`.
        source: The source that vouches for the file: no memory is trusted more than this source,
            and archives, receipts and tombstones of the file are ignored. Without it, the caller
            vouches for the whole file.
        readmit: Import texts that were forgotten here; otherwise they are left out, and memories
            that quote them lose the quote.

    Raises:
        ConfigurationError: if the store has not the rights of the database's owner.
        ConflictError: if somebody else imports the tenant meanwhile.
        InvalidInputError: if the file is not what was exported, the tenant has anything already, or
            the database was set up otherwise or has another version.
        ConflictError (lease_lost): while somebody consolidates the tenant.

    Example:
        ```python
        report = memory.admin.import_tenant("acme.jsonl.gz")
        print(report.rows["memories"])
        ```
    """
    _check_no_user(memory.context)
    store = memory.tiered_store
    importing = transfer.ImportJob(
        store=store,
        context=memory.context,
        path=checked_path(path, "an export"),
        source=source,
        readmit=readmit,
        policy=memory.gate.policy.trust,
        model=_wheel_model(store),
    )
    return transfer.import_all(importing)


def _wheel_model(store: TieredStore) -> str | None:
    """Return the embedding model of a store, if it comes from a wheel."""
    name = model_name(store)
    return None if name == OTHER else name


def _check_no_user(context: MemoryContext) -> None:
    if context.user_id is not None:
        raise InvalidInputError(
            f"an export is of all of a tenant, and this context of the user {context.user_id!r} "
            "alone: use one that names no user"
        )
