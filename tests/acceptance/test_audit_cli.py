"""`langmem-tiers audit`: what was done is shown, and whoever changed that is named."""

from __future__ import annotations

import json
from typing import Any

from typer.testing import CliRunner

from langmem_tiers import Audit, TieredStore
from langmem_tiers.cli.app import app
from tests.support.auditing import sql
from tests.support.opening import text_index


def audit(url: str, command: str, *arguments: str) -> Any:
    return CliRunner().invoke(app, ["audit", command, "--url", url, *arguments])


def test_the_log_is_shown_and_proven_and_a_change_is_named_with_exit_code_1(
    database_url: str,
) -> None:
    with TieredStore(database_url, index=text_index(), audit=Audit(actor="ben")) as store:
        store.setup()
        for text in ("tea", "coffee"):
            store.put(("acme", "notes"), "drink", {"text": text})
    of_acme = ("--tenant", "acme")
    shown = audit(database_url, "show", *of_acme, "--key", "drink").stdout.splitlines()
    assert [line.split()[2:4] for line in shown] == [
        ["overwrite", "acme/notes/drink,"],
        ["write", "acme/notes/drink,"],
    ]
    assert all(line.endswith(" as ben") for line in shown)
    entries = json.loads(audit(database_url, "show", *of_acme, "--json").stdout)["entries"]
    assert [one["verb"] for one in entries] == ["overwrite", "write"]
    nothing = audit(database_url, "show", "--tenant", "ada")
    assert (nothing.exit_code, nothing.stdout) == (0, "")

    head = audit(database_url, "head", *of_acme).stdout.strip()
    whole = audit(database_url, "verify", *of_acme, "--head", head)
    assert (whole.exit_code, whole.stdout) == (0, "all 2 rows of 'acme' are as they were written\n")
    assert audit(database_url, "verify", "--tenant", "acme", "--head", "1:x").exit_code == 2

    sql(database_url, "UPDATE memory.audit SET at = at - interval '1 day' WHERE verb = 'write'")
    broken = audit(database_url, "verify", *of_acme, "--json")
    document = json.loads(broken.stdout)
    assert (broken.exit_code, document["ok"]) == (1, False)
    assert document["fault"] == {"why": "altered", "row": entries[-1]["id"], "link": 1}
    assert "was altered" in audit(database_url, "verify", *of_acme).stdout
