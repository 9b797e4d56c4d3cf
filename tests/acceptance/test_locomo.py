"""Long conversations from outside this repository, imported and searched as a user would."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from langmem_tiers.cli import app

pytestmark = pytest.mark.slow


@pytest.fixture
def imported(locomo: Path, database_url: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    monkeypatch.setenv("LANGMEM_TIERS_URL", database_url)
    assert CliRunner().invoke(app, ["setup"]).exit_code == 0
    result = CliRunner().invoke(app, ["import", str(locomo), "--strict", "--json"])
    assert result.exit_code == 0, result.output
    document: dict[str, object] = json.loads(result.stdout)
    return document


def test_five_conversations_are_imported_and_a_question_finds_its_turn(
    imported: dict[str, object],
) -> None:
    question = "When did Caroline go to the LGBTQ support group?"

    result = CliRunner().invoke(app, ["search", "--tenant", "conv-26", question, "--json"])

    assert imported["memories"] == 2960
    assert len(imported["tenants"]) == 5  # type: ignore[arg-type]
    assert "D1:3" in [one["key"] for one in json.loads(result.stdout)["results"]]
