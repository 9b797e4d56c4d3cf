"""`langmem-tiers forget`, as its users meet it: real files, a real database, exit codes."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.postgres import PostgresSaver
from typer.testing import CliRunner

from langmem_tiers import TieredStore
from langmem_tiers.cli.app import app
from tests.support.archives import count
from tests.support.archives import one as query
from tests.support.coordinating import coordinator
from tests.support.forgetting import KEY, SAID, converse, everywhere, traces
from tests.support.opening import empty, text_index
from tests.support.servers import fresh_database

WHOSE = ("--tenant", "acme")


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["forget", *arguments])


@pytest.fixture(scope="module")
def module_url(server_url: str) -> Iterator[str]:
    with fresh_database(server_url) as url:
        with TieredStore.from_conn_string(url, index=text_index()) as store:
            store.setup()
        yield url


@pytest.fixture
def url(module_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    empty(module_url)
    with TieredStore.from_conn_string(module_url, index=text_index()) as store:
        everywhere(store, module_url, tmp_path / "cold")
    monkeypatch.setenv("LANGMEM_TIERS_URL", module_url)
    return module_url


def test_the_plan_is_shown_first_and_what_is_forgotten_then_is_told(
    url: str, tmp_path: Path
) -> None:
    with PostgresSaver.from_conn_string(url) as saver:
        saver.setup()
        converse(saver, "chat-7", SAID)
    with TieredStore.from_conn_string(url, index=text_index()) as store:
        own = coordinator(store, project_id="billing")
        own.store("All is well.", "semantic", key="well", derived_from=[KEY, "meadow"])
    before = traces(url, tmp_path / "cold")
    one = ("--key", KEY, "--project", "billing", *WHOSE)

    planned = run(*one, "--plan")
    assert planned.exit_code == 0, planned.output
    assert [word in planned.stdout for word in (KEY, "goes", "suspect", "chat-7")] == [True] * 4
    refused = run(*one)
    assert (refused.exit_code, refused.stderr.splitlines()[-1]) == (
        2,
        "nothing was forgotten: say --yes if it is meant, or --plan to look",
    )
    assert traces(url, tmp_path / "cold") == before

    done = run(*one, "--yes", "--checkpoints")
    assert done.exit_code == 0, done.output
    assert "thread deleted" in done.stdout
    assert done.stderr.startswith("nothing of ")
    left = "SELECT array_agg(key) FROM memory.memories WHERE key IN ('both', 'meadow', 'well')"
    assert set(query(url, left)) == {"meadow", "well"}
    assert traces(url, tmp_path / "cold") == []


@pytest.mark.usefixtures("url")
def test_programs_are_told_as_json() -> None:
    planned = json.loads(run("--subject", "Xylofant Maier", *WHOSE, "--plan", "--json").stdout)
    done = json.loads(run("--subject", "Xylofant Maier", *WHOSE, "--yes", "--json").stdout)
    assert done["plan"] == planned["plan"]
    assert done["receipt"]["counts"] == planned["plan"]["counts"]
    assert done["found"] == []


def test_mistakes_are_told_in_one_line(url: str) -> None:
    mistakes: dict[str, tuple[str, ...]] = {
        "exactly one of key, user, subject and tenant, not nothing": (),
        "not user and subject": ("--user", "ada", "--subject", "Ada"),
        "there is no memory 'nobody'": ("--key", "nobody"),
        "--project says where": ("--user", "ada", "--project", "p"),
    }
    rows = count(url, "memories")
    for said, command in mistakes.items():
        result = run(*command, *WHOSE, "--yes")
        (line,) = result.stderr.splitlines()
        assert (result.exit_code, said in line) == (2, True), result.output
    assert count(url, "memories") == rows


@pytest.mark.parametrize(("answer", "left"), [("n", 1), ("y", 0)])
def test_who_sits_at_a_terminal_is_asked(url: str, answer: str, left: int) -> None:
    empty(url)
    with TieredStore.from_conn_string(url, index=text_index()) as store:
        coordinator(store).store("Only this.", key="only")
    master, slave = pty.openpty()
    command = [sys.executable, "-m", "langmem_tiers.cli", "forget", "--all", *WHOSE]
    os.write(master, f"{answer}\n".encode())
    done = subprocess.run(command, stdin=slave, capture_output=True, text=True, check=False)
    os.close(slave)
    os.close(master)
    assert done.returncode == 0, done.stderr
    assert "This cannot be undone" in done.stderr
    assert count(url, "memories") == left
