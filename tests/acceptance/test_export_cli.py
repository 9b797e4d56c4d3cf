"""`langmem-tiers export` and the `import` of an export, as their users meet them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from langmem_tiers import TieredStore
from langmem_tiers.cli.app import app
from tests.support.archives import one
from tests.support.servers import fresh_database

NOTES = [
    {"content": "The office closes at six.", "key": "hours"},
    {"content": "Ada takes tea.", "key": "tea"},
]


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, arguments)


@pytest.fixture
def urls(
    server_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[str, str]]:
    """A database with a tenant, and one without; both search by words alone."""
    monkeypatch.chdir(tmp_path)
    Path("team.jsonl").write_text("\n".join(map(json.dumps, NOTES)), encoding="utf-8")
    with fresh_database(server_url) as here, fresh_database(server_url) as there:
        for url in (here, there):
            with TieredStore.from_conn_string(url, index={}) as store:
                store.setup()
        assert run("import", "team.jsonl", "--lexical", "--url", here).exit_code == 0
        yield here, there


def test_all_of_a_tenant_goes_into_a_file_and_comes_back_elsewhere(urls: tuple[str, str]) -> None:
    here, there = urls
    said = run("export", "team.gz", "--tenant", "team", "--url", here)
    assert said.stdout.startswith("team: 2 of memories exported to team.gz (")
    told = run("export", "again.gz", "--tenant", "team", "--url", here, "--json")
    assert json.loads(told.stdout)["rows"]["memories"] == 2

    brought = run("import", "team.gz", "--lexical", "--url", there, "--json")
    document = json.loads(brought.stdout)
    assert (document["tenant"], document["rows"]["memories"], document["shift"]) == ("team", 2, 0)
    found = run("search", "tea", "--tenant", "team", "--lexical", "--url", there, "--json")
    assert [each["key"] for each in json.loads(found.stdout)["results"]] == ["tea"]

    again = run("import", "team.gz", "--lexical", "--url", there)
    assert (again.exit_code, "'team' has rows already" in again.stderr) == (2, True)


def test_who_answers_for_it_is_told_by_an_option_and_options_of_other_files_are_refused(
    urls: tuple[str, str],
) -> None:
    here, there = urls
    run("export", "team.gz", "--tenant", "team", "--url", here)
    refused = {
        ("--user", "ada"): "--user is for other files than an export",
        ("--format", "jsonl"): "--format is for other files than an export",
        ("--strict",): "--strict is for other files than an export",
        ("--tenant", "other"): "an export of the tenant 'team' and not of 'other'",
    }
    for options, said in refused.items():
        answer = run("import", "team.gz", *options, "--lexical", "--url", there)
        assert (answer.exit_code, said in answer.stderr) == (2, True), answer.stderr
    answer = run("import", "team.jsonl", "--source", "web", "--lexical", "--url", there)
    assert "this file is none" in answer.stderr

    brought = run("import", "team.gz", "--source", "web", "--lexical", "--url", there)
    assert brought.exit_code == 0, brought.stderr
    assert one(there, "SELECT DISTINCT value -> 'trust' FROM memory.memories") == 0.4


def test_what_is_no_export_or_cannot_be_written_is_told_in_a_line(urls: tuple[str, str]) -> None:
    here, there = urls
    Path("odd.gz").write_bytes(b"\x1f\x8bnot gzip at all")
    answer = run("import", "odd.gz", "--url", there)
    assert (answer.exit_code, "line 1: " in answer.stderr) == (2, True)
    assert len(answer.stderr.splitlines()) == 1
    answer = run("export", "none/team.gz", "--tenant", "team", "--url", here)
    assert (answer.exit_code, "none is no directory" in answer.stderr) == (2, True)
    answer = run("export", "team.gz", "--tenant", "team", "--url", "embedded:./nowhere")
    assert (answer.exit_code, "There are no memories" in answer.stderr) == (1, True)
