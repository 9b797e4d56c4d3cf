"""The command `export`, and what `import` does with an export."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from langmem_tiers.cli import rendering
from langmem_tiers.cli.options import URL, Json, Url, opened_to_read
from langmem_tiers.core.context import MemoryContext

if TYPE_CHECKING:
    from langmem_tiers.store.store import TieredStore

_MAGIC: Final = b"\x1f\x8b"
"""What a file begins with that gzip has compressed."""


def export(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A new file, such as acme.jsonl.gz.")
    ],
    *,
    tenant: Annotated[str, typer.Option(metavar="TENANT", help="Whose memories.")],
    url: Url = URL,
    as_json: Json = False,
) -> None:
    """Write everything of a tenant into one file, as of one moment; import brings it back."""
    from langmem_tiers.carry.exporting import counted
    from langmem_tiers.memory.carrying import exporting

    context = MemoryContext(tenant=tenant)
    with opened_to_read(url, index=False) as store:  # words may be of any language
        total = sum(store.run(counted(context.root)).values())
        with rendering.progress(f"Exporting {tenant}", total) as advance:
            report = store.run(exporting(store, context, file, advance=advance))
    if as_json:
        rendering.print_json({**asdict(report), "path": str(report.path)})
    else:
        rendering.console().print(rendering.plain(str(report)), soft_wrap=True)


def is_export(path: Path) -> bool:
    """Whether a file is compressed as exports are; other files that can be imported are not."""
    with suppress(OSError), path.open("rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC
    return False


def import_export(
    file: Path,
    where: Callable[[], AbstractContextManager[TieredStore]],
    *,
    tenant: str | None,
    source: str | None,
    readmit: bool,
    as_json: bool,
) -> None:
    """Bring all of an export back, into the store that `where` opens."""
    from langmem_tiers.carry.file import Reader
    from langmem_tiers.memory.carrying import importing
    from langmem_tiers.remember.trust import TrustPolicy

    reader = Reader(file)
    reader.close()
    context = MemoryContext(tenant=reader.header.tenant if tenant is None else tenant)
    with where() as store:
        title = f"Importing {context.root}"
        with rendering.progress(title, 2 * reader.header.total) as advance:
            flow = importing(
                store,
                context,
                file,
                source=source,
                readmit=readmit,
                policy=TrustPolicy(),
                advance=advance,
            )
            report = store.run(flow)
        store.optimize()
    if as_json:
        rendering.print_json(asdict(report))
    else:
        rendering.console().print(rendering.plain(str(report)), soft_wrap=True)
