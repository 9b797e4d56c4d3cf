"""The command `doctor`."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Final

import typer

from langmem_tiers.cli import rendering
from langmem_tiers.cli.options import NOT_DONE, URL, Json, Url, opened_to_read

_WHOLE: Final = "no export was broken off"
_REMOVE: Final = (
    "remove the file, which holds what a tenant has said: on that machine the tenant's next export "
    "or forget does; where the machine is gone with it, delete its row of exports"
)


def doctor(*, url: Url = URL, as_json: Json = False) -> None:
    """See whether Postgres walls tenants from each other, for whom the URL logs in."""
    from langmem_tiers.forget.parts import left
    from langmem_tiers.postgres.doctor import examine, lacking

    with opened_to_read(url, index=False) as store:
        found = store.run(examine(store.options, store.runner.acting))
        parts = store.run(left(None)) if store.runner.acting != "application" else []
    found = replace(found, checks=(*found.checks, lacking(_WHOLE, list(map(str, parts)), _REMOVE)))
    if as_json:
        rendering.print_json({"ok": found.ok, **asdict(found)})
    else:
        out = rendering.console()
        out.print(rendering.checks_table(found.checks))
        out.print(f"Login: {rendering.plain(found.login)}; looked at as: {found.looked_at}")
        out.print(f"Backup: {rendering.plain(found.backup)}")
    if not found.ok:
        raise typer.Exit(NOT_DONE)
