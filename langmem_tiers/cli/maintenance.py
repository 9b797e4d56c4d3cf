"""Commands for exports, archives, forget_target, quarantine, the audit log and the walls."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, cast

import typer

from langmem_tiers.cli import terminal
from langmem_tiers.cli.terminal import DEFAULT_URL, Command, Json, Tenant, Url, User, flag, option
from langmem_tiers.cli.worker import open_checkpointer
from langmem_tiers.consolidation.policy import ArchivalPolicy
from langmem_tiers.core.context import MemoryContext
from langmem_tiers.core.errors import InvalidInputError

if TYPE_CHECKING:
    from langmem_tiers.consolidation.archive import ArchiveFile
    from langmem_tiers.forget.receipt import ForgetPlan, ForgetReceipt, Verification
    from langmem_tiers.store.store import TieredStore

_GZIP_MAGIC: Final = b"\x1f\x8b"
"""First bytes of a file that gzip compressed."""
_DEFAULT_POLICY: Final = ArchivalPolicy(url=".")


def export(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A new file, such as acme.jsonl.gz.")
    ],
    *,
    tenant: Tenant,
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Export all rows of a tenant to one file, as of one moment; import brings them back."""
    from langmem_tiers.transfer import transfer

    context = MemoryContext(tenant=tenant)
    with terminal.open_existing(url) as store:
        total = sum(store.run(transfer.count_rows(context.root)).values())
        with terminal.show_progress(f"Exporting {tenant}", total) as advance:
            report = store.run(transfer.export_all(store, context, file, advance=advance))
    terminal.show({**asdict(report), "path": str(report.path)}, report, as_json=as_json)


def is_export(path: Path) -> bool:
    """Return True if a file is compressed, as only exports are among importable files."""
    with suppress(OSError), path.open("rb") as file:
        return file.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC
    return False


def import_export(
    file: Path,
    open_store: Callable[[], AbstractContextManager[TieredStore]],
    *,
    tenant: str | None,
    source: str | None,
    readmit: bool,
    as_json: bool,
) -> None:
    """Import an export into the store that `open_store` opens."""
    from langmem_tiers.transfer.export_format import ExportReader
    from langmem_tiers.transfer.transfer import ImportJob, import_all

    reader = ExportReader(file)
    reader.close()
    context = MemoryContext(tenant=reader.header.tenant if tenant is None else tenant)
    with open_store() as store:
        title = f"Importing {context.root}"
        with terminal.show_progress(title, 2 * reader.header.total) as advance:
            importing = ImportJob(
                store=store,
                context=context,
                path=file,
                source=source,
                readmit=readmit,
                advance=advance,
            )
            report = store.run(import_all(importing))
        store.optimize()
    terminal.show(asdict(report), report, as_json=as_json)


def archive(
    *,
    tenant: Tenant,
    to: Annotated[str, option("PLACE", "A directory, or a URL such as s3://bucket/path.")],
    older_than_days: Annotated[
        float, option("DAYS", "Only memories unchanged for more days than this.")
    ] = _DEFAULT_POLICY.older_than_days,
    max_access_count: Annotated[
        int, option("N", "Only memories read less often than this.")
    ] = _DEFAULT_POLICY.max_access_count,
    max_importance: Annotated[
        float, option("SHARE", "Only memories less important than this, from 0 to 1.")
    ] = _DEFAULT_POLICY.max_importance,
    default_importance: Annotated[
        float | None, option("SHARE", "Importance of memories without one; they stay if left out.")
    ] = None,
    max_share: Annotated[
        float, option("SHARE", "Largest share of the tenant's memories to move, from 0 to 1.")
    ] = _DEFAULT_POLICY.max_share,
    agent: Annotated[str | None, option("AGENT", "Only memories of this agent.")] = None,
    apply: Annotated[
        bool, flag("--apply", "Move the memories; without this they are only counted.")
    ] = False,
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Move old, unimportant and rarely read memories to files; restore brings them back."""
    from langmem_tiers.coordinator.admin import archive_memories

    policy = ArchivalPolicy(
        url=to,
        older_than_days=older_than_days,
        max_access_count=max_access_count,
        max_importance=max_importance,
        default_importance=default_importance,
        agent_id=agent,
        max_share=max_share,
    )
    context = MemoryContext(tenant=tenant)
    with terminal.open_existing(url) as store:
        report = store.run(archive_memories(store, context, policy, dry_run=True))
        if apply:
            with terminal.show_progress(f"Archiving {tenant}", report.memories) as advance:
                report = store.run(archive_memories(store, context, policy, advance=advance))
    names = (f"  {name}" for name in report.archives)
    terminal.show({"tenant": tenant, **asdict(report)}, report, *names, as_json=as_json)


def restore(
    archive: Annotated[
        str | None, typer.Argument(metavar="[ARCHIVE]", help="The name or URL of an archive.")
    ] = None,
    *,
    tenant: Tenant,
    everything: Annotated[bool, flag("--all", "Every archive of the tenant.")] = False,
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Restore archived memories as they were; without an archive, list the archives."""
    from langmem_tiers.consolidation.archive import list_archives
    from langmem_tiers.coordinator.admin import restore_memories

    if everything and archive is not None:
        raise InvalidInputError("--all is every memory of every archive: name none beside it")
    context = MemoryContext(tenant=tenant)
    with terminal.open_existing(url) as store:
        files = store.run(list_archives(context.root))
        if archive is None and not everything:
            _print_archives(tenant, files, as_json=as_json)
            return
        names = [archive] if archive else [file.archive for file in files if file.remaining]
        restored = []
        with terminal.show_progress("Restoring", len(names)) as advance:
            for name in names:
                report = store.run(restore_memories(store, context, name))
                restored.append({"archive": name, **asdict(report)})
                if not as_json:
                    terminal.print_text(f"{name}: {report}")
                advance(1)
    nothing = "" if names else _explain_no_archives(tenant, files)
    terminal.show({"tenant": tenant, "restored": restored}, as_json=as_json, if_empty=nothing)


def _print_archives(tenant: str, files: list[ArchiveFile], *, as_json: bool) -> None:
    """Print archives, oldest first; names and URLs have lines of their own, to copy."""
    lines = []
    for file in files:
        day = file.archived_at.date().isoformat()
        counts = f"  {day}, memories: {file.memories:,}, remaining: {file.remaining:,}"
        lines += [file.archive, counts, f"  {file.url}"]
    document = {"tenant": tenant, "archives": [asdict(file) for file in files]}
    terminal.show(document, *lines, as_json=as_json, if_empty=_explain_no_archives(tenant, files))


def _explain_no_archives(tenant: str, files: list[ArchiveFile]) -> str:
    if not files:
        return f"Nothing of {tenant!r} is archived."
    return (
        f"There is nothing to restore: what was archived of {tenant!r} is back, was deleted, or "
        "has expired."
    )


def forget(
    *,
    tenant: Tenant,
    key: Annotated[str | None, option("KEY", "Forget the memory of this key.")] = None,
    user: Annotated[
        str | None, option("USER", "Forget this user; with --key, the user whose memory it is.")
    ] = None,
    subject: Annotated[
        list[str] | None, option("NAME", "Forget this person or thing; repeat it for more names.")
    ] = None,
    everything: Annotated[bool, flag("--all", "Forget the whole tenant.")] = False,
    project: Annotated[
        str | None, option("PROJECT", "The project of the working memory that has the --key.")
    ] = None,
    checkpoints: Annotated[
        bool, flag("--checkpoints", "Delete its LangGraph threads in this database as well.")
    ] = False,
    plan: Annotated[bool, flag("--plan", "Show what would be erased, and change nothing.")] = False,
    yes: Annotated[bool, flag("--yes", "Do not ask for confirmation.")] = False,
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Erase memories for good, with all derived from them alone; see docs/forgetting.md."""
    from langmem_tiers.coordinator.forgetting import forget_target

    target: dict[str, str | list[str] | None] = {
        "key": key,
        "user": None if key is not None else user,
        "subject": subject or None,
        "tenant": tenant if everything else None,
    }
    if project is not None and key is None:
        raise InvalidInputError("--project says where a --key is: what else is forgotten is in all")
    own = user if key is not None else None
    context = MemoryContext(tenant=tenant, project_id=project, user_id=own)
    with terminal.open_existing(url) as store:
        planned = cast("ForgetPlan", store.run(forget_target(store, context, target, plan=True)))
        document: dict[str, Any] = {"tenant": tenant, "plan": asdict(planned)}
        if not as_json:
            terminal.print_text(planned)
        if plan:
            terminal.show(document, as_json=as_json)
            return
        _confirm_forget(yes=yes)
        with open_checkpointer(url) if checkpoints else nullcontext() as saver:
            receipt, verified = _forget_and_verify(
                store, context, target, saver, len(planned.erased)
            )
    document |= {"receipt": receipt.to_json(), "found": verified.found}
    terminal.show(document, *_receipt_lines(receipt), as_json=as_json)
    terminal.print_note(str(verified), None if verified else "red")
    if not verified:
        raise typer.Exit(terminal.NOT_DONE)


def _forget_and_verify(
    store: TieredStore,
    context: MemoryContext,
    target: dict[str, str | list[str] | None],
    saver: Any,
    total: int,
) -> tuple[ForgetReceipt, Verification]:
    """Forget the target; return the receipt, and whether anything is left."""
    from langmem_tiers.coordinator.forgetting import forget_target, verify_in_store

    if saver is not None:
        saver.setup()
    with terminal.show_progress(f"Forgetting in {context.tenant}", total) as advance:
        flow = forget_target(
            store, context, target, plan=False, checkpointer=saver, advance=advance
        )
        receipt = cast("ForgetReceipt", store.run(flow))
    return receipt, store.run(verify_in_store(store, MemoryContext(tenant=context.tenant), receipt))


def _receipt_lines(receipt: ForgetReceipt) -> list[str]:
    """Return the lines that print a receipt."""
    lines = [str(receipt)]
    lines += [f"  suspect: {len(receipt.rewritten):,} memories"] if receipt.rewritten else []
    lines += [f"  lost what they quoted: {receipt.scrubbed:,}"] if receipt.scrubbed else []
    lines += [f"  file removed: {file}" for file in receipt.files]
    lines += [f"  thread deleted: {thread}" for thread in receipt.threads]
    return lines + [f"  thread that stands: {thread}" for thread in receipt.named_threads]


def _confirm_forget(*, yes: bool) -> None:
    if yes:
        return
    if not sys.stdin.isatty():
        raise InvalidInputError(
            "nothing was forgotten: say --yes if it is meant, or --plan to look"
        )
    if not typer.confirm("This cannot be undone. Forget it?", err=True):
        terminal.print_note("Nothing was forgotten.")
        raise typer.Exit


def quarantine(
    *,
    tenant: Tenant,
    user: User = None,
    release: Annotated[
        str | None, option("KEY", "Release this memory: it can be recalled.")
    ] = None,
    reject: Annotated[str | None, option("KEY", "Delete this memory.")] = None,
    reason: Annotated[str | None, option("TEXT", "The reason, for the memory's history.")] = None,
    limit: Annotated[int, option("N", "Most memories to list.")] = 100,
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """List quarantined memories, oldest first; release or reject one of them."""
    from langmem_tiers.coordinator.base import checked_limit
    from langmem_tiers.remember import quarantine as held
    from langmem_tiers.remember.gate import TrustPolicy

    if release is not None and reject is not None:
        raise InvalidInputError("--release and --reject: do one of them")
    key = release or reject
    if key is not None and reason is None:
        raise InvalidInputError("say why: --reason 'it is our own guideline'")
    context = MemoryContext(tenant=tenant, user_id=user)
    with terminal.open_existing(url) as store:
        moment = store.flows.moment()
        if key is not None:
            decision = (store.run(held.find_quarantined(context, key, moment)), str(reason))
            if release is not None:
                store.run(held.release_memory(*decision, TrustPolicy(), store.options, moment))
            else:
                store.run(held.reject_memory(*decision, store.options, moment))
        quarantined = store.run(held.list_quarantined(context, moment, checked_limit(limit)))
    document = {"tenant": tenant, "quarantined": [asdict(memory) for memory in quarantined]}
    nothing = f"Nothing of {tenant!r} is quarantined."
    terminal.show(document, *quarantined, as_json=as_json, if_empty=nothing)


audit = typer.Typer(
    cls=terminal.Commands,
    no_args_is_help=True,
    help="The audit log: who did what to which memory.",
)


@audit.command("show", cls=Command)
def show_log(
    *,
    tenant: Tenant,
    key: Annotated[str | None, option("KEY", "Only entries of this key.")] = None,
    limit: Annotated[int, option("N", "Most entries to show.")] = 20,
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Show the entries, the latest first."""
    from langmem_tiers.coordinator.admin import read_log

    with terminal.open_existing(url) as store:
        entries = store.run(read_log(store, MemoryContext(tenant=tenant), key, limit))
    document = {"tenant": tenant, "entries": [asdict(entry) for entry in entries]}
    nothing = f"Nothing is logged of {tenant!r}."
    terminal.show(document, *entries, as_json=as_json, if_empty=nothing)


@audit.command(cls=Command)
def head(*, tenant: Tenant, url: Url = DEFAULT_URL, as_json: Json = False) -> None:
    """Print the head of the chain; keep it elsewhere, for `verify --head`."""
    from langmem_tiers.audit.chain import read_head

    with terminal.open_existing(url) as store:
        chain_head = store.run(read_head(MemoryContext(tenant=tenant).root))
    terminal.show(asdict(chain_head), chain_head, as_json=as_json)


@audit.command(cls=Command)
def verify(
    *,
    tenant: Tenant,
    head: Annotated[str | None, option("HEAD", "An earlier head of the chain.")] = None,
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Verify the chain, and name the first row that was altered or dropped."""
    from langmem_tiers.audit.chain import verify_chain
    from langmem_tiers.coordinator.admin import parse_head

    root = MemoryContext(tenant=tenant).root
    known_head = parse_head(head, root)
    with terminal.open_existing(url) as store:
        verification = store.run(verify_chain(root, known_head))
    terminal.show({"ok": bool(verification), **asdict(verification)}, verification, as_json=as_json)
    if not as_json:
        terminal.print_note(f"head: {verification.head}")
    if not verification:
        raise typer.Exit(terminal.NOT_DONE)


_EXPORTS_WHOLE: Final = "no export was broken off"
_REMOVE_ADVICE: Final = (
    "remove the file, which holds what a tenant has said: on that machine the tenant's next export "
    "or forget does; where the machine is gone with it, delete its row of exports"
)


def doctor(*, url: Url = DEFAULT_URL, as_json: Json = False) -> None:
    """Check whether Postgres walls tenants off from each other for the login of the URL."""
    from langmem_tiers.forget.unfinished_exports import list_unfinished
    from langmem_tiers.postgres.walls import examine_walls, make_check

    with terminal.open_existing(url) as store:
        report = store.run(examine_walls(store.options, store.runner.acting))
        parts = store.run(list_unfinished(None)) if store.runner.acting != "application" else []
    report = replace(
        report,
        checks=(*report.checks, make_check(_EXPORTS_WHOLE, list(map(str, parts)), _REMOVE_ADVICE)),
    )
    rows = [
        (check.check, "holds" if check.ok else "FAILS", check.found, check.advice)
        for check in report.checks
    ]
    terminal.show(
        {"ok": report.ok, **asdict(report)},
        terminal.make_table("what has to hold", "", "found", "what to do", rows=rows),
        f"Login: {report.login}; looked at as: {report.looked_at}",
        f"Backup: {report.backup}",
        as_json=as_json,
        ok=report.ok,
    )
