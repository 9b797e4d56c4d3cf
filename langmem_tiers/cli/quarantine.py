"""The command `quarantine`."""

from __future__ import annotations

from typing import Annotated

import typer

from langmem_tiers.cli.options import URL, Json, Url, note, opened_to_read
from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.core.memory import MemoryContext


def quarantine(
    *,
    tenant: Annotated[str, typer.Option(metavar="TENANT", help="Whose memories.")],
    release: Annotated[
        str | None, typer.Option(metavar="KEY", help="Let this memory be recalled.")
    ] = None,
    reject: Annotated[str | None, typer.Option(metavar="KEY", help="Delete this memory.")] = None,
    reason: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Why, for the memory's history.")
    ] = None,
    limit: Annotated[int, typer.Option(metavar="N", help="Memories listed at most.")] = 100,
    url: Url = URL,
    as_json: Json = False,
) -> None:
    """List what the gate holds back, oldest first; release or reject one of it."""
    from langmem_tiers.cli import rendering
    from langmem_tiers.memory.asking import checked_limit
    from langmem_tiers.remember import quarantine as held
    from langmem_tiers.remember.trust import TrustPolicy

    if release is not None and reject is not None:
        raise InvalidInputError("--release and --reject: do one of them")
    key = release or reject
    if key is not None and reason is None:
        raise InvalidInputError("say why: --reason 'it is our own guideline'")
    context = MemoryContext(tenant=tenant)
    with opened_to_read(url, index=False) as store:
        moment = store.flows.moment()
        if key is not None:
            told = (store.run(held.named(context, key, moment)), str(reason))
            if release is not None:
                store.run(held.release(*told, TrustPolicy(), store.options, moment))
            else:
                store.run(held.reject(*told, store.options, moment))
        found = store.run(held.quarantined(context, moment, checked_limit(limit)))
    if as_json:
        rendering.print_json(rendering.quarantined_document(tenant, found))
        return
    for one in found:
        rendering.console().print(rendering.plain(str(one)), soft_wrap=True)
    if not found:
        note(f"Nothing of {tenant!r} is quarantined.")
