"""The command `doctor`."""

from __future__ import annotations

from dataclasses import asdict

import typer

from langmem_tiers.cli import rendering
from langmem_tiers.cli.options import NOT_DONE, URL, Json, Url, opened_to_read


def doctor(*, url: Url = URL, as_json: Json = False) -> None:
    """See whether Postgres walls tenants from each other, for whom the URL logs in."""
    from langmem_tiers.postgres.doctor import examine

    with opened_to_read(url, index=False) as store:
        found = store.run(examine(store.options, store.runner.acting))
    if as_json:
        rendering.print_json({"ok": found.ok, **asdict(found)})
    else:
        out = rendering.console()
        out.print(rendering.checks_table(found.checks))
        out.print(f"Login: {rendering.plain(found.login)}; looked at as: {found.looked_at}")
        out.print(f"Backup: {rendering.plain(found.backup)}")
    if not found.ok:
        raise typer.Exit(NOT_DONE)
