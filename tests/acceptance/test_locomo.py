"""Long conversations from outside this repository, imported and searched as a user would."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from langmem_tiers import MemoryContext, MemoryCoordinator, Tier, TieredStore, local_index
from langmem_tiers.cli.app import app

pytestmark = pytest.mark.slow

QUESTION = "When did Caroline go to the LGBTQ support group?"


@pytest.fixture
def imported(locomo: Path, database_url: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    monkeypatch.setenv("LANGMEM_TIERS_URL", database_url)
    assert CliRunner().invoke(app, ["setup"]).exit_code == 0
    result = CliRunner().invoke(app, ["import", str(locomo), "--strict", "--json"])
    assert result.exit_code == 0, result.output
    document: dict[str, object] = json.loads(result.stdout)
    return document


def test_five_conversations_are_imported_and_found_by_the_command_line_and_a_coordinator(
    imported: dict[str, object], database_url: str
) -> None:
    assert (imported["memories"], len(imported["tenants"]), imported["bad"]) == (2960, 5, [])  # type: ignore[arg-type]
    result = CliRunner().invoke(app, ["search", "--tenant", "conv-26", QUESTION, "--json"])
    assert "D1:3" in [one["key"] for one in json.loads(result.stdout)["results"]]
    with TieredStore.from_conn_string(database_url, index=local_index()) as store:
        memory = MemoryCoordinator(store, context=MemoryContext(tenant="conv-26"))
        (turn,) = (one for one in memory.get_context(QUESTION) if one.key == "D1:3")
    assert (turn.tier, turn.namespace) == (Tier.WORKING, ("conv-26", "_"))
    assert (turn.memory_type, turn.speaker) == ("episodic", "Caroline")
    assert (turn.session_id, turn.platform_source) == ("session_1", "locomo")
