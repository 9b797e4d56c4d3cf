"""The commands `audit show`, `audit head` and `audit verify`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, TypeAlias

import typer

from langmem_tiers.cli import rendering
from langmem_tiers.cli.options import (
    NOT_DONE,
    URL,
    Command,
    Commands,
    Json,
    Url,
    note,
    opened_to_read,
)
from langmem_tiers.core.context import MemoryContext

audit = typer.Typer(
    cls=Commands, no_args_is_help=True, help="The log of what was done to memories, by whom."
)
_Tenant: TypeAlias = Annotated[str, typer.Option(metavar="TENANT", help="Whose log.")]


@audit.command(cls=Command)
def show(
    *,
    tenant: _Tenant,
    key: Annotated[
        str | None, typer.Option(metavar="KEY", help="Only what was done to this key.")
    ] = None,
    limit: Annotated[int, typer.Option(metavar="N", help="How many entries at most.")] = 20,
    url: Url = URL,
    as_json: Json = False,
) -> None:
    """Show what was done, the latest first."""
    from langmem_tiers.memory.auditing import reading

    with opened_to_read(url, index=False) as store:
        found = store.run(reading(store, MemoryContext(tenant=tenant), key, limit))
    if as_json:
        rendering.print_json({"tenant": tenant, "entries": [asdict(one) for one in found]})
        return
    for one in found:
        rendering.console().print(rendering.plain(str(one)), soft_wrap=True)
    if not found:
        note(f"Nothing is logged of {tenant!r}.")


@audit.command(cls=Command)
def head(*, tenant: _Tenant, url: Url = URL, as_json: Json = False) -> None:
    """Print the last link of the chain: keep it elsewhere, for `verify --head`."""
    from langmem_tiers.audit.verify import head_of

    with opened_to_read(url, index=False) as store:
        found = store.run(head_of(MemoryContext(tenant=tenant).root))
    if as_json:
        rendering.print_json(asdict(found))
    else:
        rendering.console().print(str(found), soft_wrap=True)


@audit.command(cls=Command)
def verify(
    *,
    tenant: _Tenant,
    head: Annotated[
        str | None, typer.Option(metavar="HEAD", help="A head that the chain had.")
    ] = None,
    url: Url = URL,
    as_json: Json = False,
) -> None:
    """Follow the chain, and name the first row that was altered or dropped."""
    from langmem_tiers.audit.verify import verify
    from langmem_tiers.memory.auditing import checked_head

    root = MemoryContext(tenant=tenant).root
    known = checked_head(head, root)
    with opened_to_read(url, index=False) as store:
        found = store.run(verify(root, known))
    if as_json:
        rendering.print_json({"ok": bool(found), **asdict(found)})
    else:
        rendering.console().print(rendering.plain(str(found)), soft_wrap=True)
        note(f"head: {found.head}")
    if not found:
        raise typer.Exit(NOT_DONE)
