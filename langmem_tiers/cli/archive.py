"""The commands `archive` and `restore`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from langmem_tiers.cli import rendering
from langmem_tiers.cli.options import URL, Json, Url, note, opened_to_read
from langmem_tiers.consolidate.policy import ArchivalPolicy
from langmem_tiers.core.context import MemoryContext
from langmem_tiers.core.errors import InvalidInputError

if TYPE_CHECKING:
    from langmem_tiers.consolidate.restore import ArchiveFile, RestoreReport

_Tenant: TypeAlias = Annotated[str, typer.Option(metavar="TENANT", help="Whose memories.")]


def archive(
    *,
    tenant: _Tenant,
    to: Annotated[
        str, typer.Option(metavar="PLACE", help="A directory, or s3://bucket/path and the like.")
    ],
    older_than_days: Annotated[
        float,
        typer.Option(metavar="DAYS", help="Days since its last change, to exceed."),
    ] = ArchivalPolicy(url=".").older_than_days,
    max_access_count: Annotated[
        int, typer.Option(metavar="N", help="Read less often than this.")
    ] = ArchivalPolicy(url=".").max_access_count,
    max_importance: Annotated[
        float, typer.Option(metavar="SHARE", help="Less important than this, of 0 to 1.")
    ] = ArchivalPolicy(url=".").max_importance,
    max_share: Annotated[
        float, typer.Option(metavar="SHARE", help="Of the tenant's memories, no more, of 0 to 1.")
    ] = ArchivalPolicy(url=".").max_share,
    agent: Annotated[
        str | None, typer.Option(metavar="AGENT", help="Only what this agent remembered.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Count, and leave all where it is.")
    ] = False,
    url: Url = URL,
    as_json: Json = False,
) -> None:
    """Move what is old, hardly read and unimportant to files, from where restore gets it back."""
    from langmem_tiers.memory.cold_storage import archiving

    policy = ArchivalPolicy(
        url=to,
        older_than_days=older_than_days,
        max_access_count=max_access_count,
        max_importance=max_importance,
        agent_id=agent,
        max_share=max_share,
    )
    context = MemoryContext(tenant=tenant)
    with opened_to_read(url, index=False) as store:  # words may be of any language
        report = store.run(archiving(store, context, policy, dry_run=True))
        if not dry_run:
            with rendering.progress(f"Archiving {tenant}", report.memories) as advance:
                report = store.run(archiving(store, context, policy, advance=advance))
    if as_json:
        rendering.print_json({"tenant": tenant, **asdict(report)})
        return
    out = rendering.console()
    out.print(str(report))
    for name in report.archives:
        out.print(f"  {name}", soft_wrap=True)


def restore(
    archive: Annotated[
        str | None, typer.Argument(metavar="[ARCHIVE]", help="An archive by its name or URL.")
    ] = None,
    *,
    tenant: _Tenant,
    everything: Annotated[bool, typer.Option("--all", help="Every archive of the tenant.")] = False,
    key: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY", help="Only the memory of this key; can be given again."),
    ] = None,
    url: Url = URL,
    as_json: Json = False,
) -> None:
    """Bring archived memories back as they were; without an archive, list what there is."""
    from langmem_tiers.consolidate.restore import archives
    from langmem_tiers.memory.cold_storage import restoring

    if everything and (archive is not None or key):
        raise InvalidInputError("--all is every memory of every archive: name none beside it")
    if key and archive is None:
        raise InvalidInputError("name the archive that the key is in; without one, they are listed")
    context = MemoryContext(tenant=tenant)
    with opened_to_read(url, index=False) as store:  # words may be of any language
        known = store.run(archives(context.root))
        if archive is None and not everything:
            _list(tenant, known, as_json=as_json)
            return
        names = [archive] if archive else [one.archive for one in known if one.remaining]
        reports: dict[str, RestoreReport] = {}
        with rendering.progress("Restoring", len(names)) as advance:
            for name in names:
                report = store.run(restoring(store, context, name, key or None))
                reports[name] = report
                if not as_json:
                    line = f"{rendering.plain(name)}: {report}"
                    rendering.console().print(line, soft_wrap=True)
                advance(1)
    if as_json:
        restored = [{"archive": name, **asdict(one)} for name, one in reports.items()]
        rendering.print_json({"tenant": tenant, "restored": restored})
    elif not names:
        note(_nothing(tenant, known))


def _list(tenant: str, known: list[ArchiveFile], *, as_json: bool) -> None:
    if as_json:
        rendering.print_json({"tenant": tenant, "archives": [asdict(one) for one in known]})
    elif known:
        for line in rendering.archives_lines(known):
            rendering.console().print(line, soft_wrap=True)
    else:
        note(_nothing(tenant, known))


def _nothing(tenant: str, known: list[ArchiveFile]) -> str:
    if not known:
        return f"Nothing of {tenant!r} is archived."
    return (
        f"There is nothing to restore: what was archived of {tenant!r} is back, was deleted, or "
        "has expired."
    )
