"""`langmem-tiers worker`, as its users meet it: reports, signals, exit codes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import psycopg
import pytest
from langgraph.checkpoint.postgres import PostgresSaver
from typer.testing import CliRunner

from langmem_tiers import TieredStore
from langmem_tiers.cli.app import app
from langmem_tiers.core.errors import ModelError
from langmem_tiers.postgres.connection_config import checkpointer_pool
from tests.support.coordinating import coordinator
from tests.support.walls import WORKER, login

SECONDS = 120


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["worker", *arguments, "--lexical"])


@pytest.fixture
def url(database_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A database of two tenants, each with two memories that say the same."""
    monkeypatch.setenv("LANGMEM_TIERS_URL", database_url)
    with TieredStore.from_conn_string(database_url, index={}) as store:
        store.setup()
        for tenant, key in product(("acme", "beta"), ("one", "two")):
            coordinator(store, tenant).store("The lamp is red.", "semantic", key=key)
    return database_url


@pytest.fixture
def forever(url: str) -> Iterator[subprocess.Popen[str]]:
    """A worker that has done what is due and waits."""
    program = "from langmem_tiers.cli.app import app; app(prog_name='langmem-tiers')"
    command = [sys.executable, "-c", program, "worker", "--lexical", "--url", url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert next(line for line in process.stdout if line.startswith("beta: "))
        yield process
        process.kill()


@pytest.mark.usefixtures("url")
def test_what_is_due_is_run_once_and_reported() -> None:
    first = run("--once")
    assert first.exit_code == 0
    assert first.stdout.startswith("acme: ")
    assert "beta: " in first.stdout
    again = run("--once")
    assert (again.exit_code, again.stdout, again.stderr) == (0, "", "No tenant is due.\n")
    assert json.loads(run("--once", "--json").stdout) == {"cycles": [], "failed": {}}


def test_a_workers_login_consolidates_once_the_owner_has_made_the_checkpoints(url: str) -> None:
    tables = "checkpoints, checkpoint_blobs, checkpoint_writes, checkpoint_migrations"
    with (
        login(url, WORKER) as cron,
        psycopg.connect(url, autocommit=True) as conn,
        checkpointer_pool(url) as checkpoints,
    ):
        early = run("--once", "--url", cron)
        assert (early.exit_code, "tables of the checkpointer" in early.stderr) == (1, True)
        PostgresSaver(checkpoints).setup()
        conn.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {tables} TO {WORKER}".encode())
        again = run("--once", "--url", cron)
        assert (again.exit_code, again.stderr) == (0, "")
        assert again.stdout.startswith("acme: ")


@pytest.mark.usefixtures("url")
def test_programs_read_one_document() -> None:
    found = json.loads(run("--once", "--json").stdout)
    assert [one["tenant"] for one in found["cycles"]] == ["acme", "beta"]
    assert found["failed"] == {}
    assert set(found["cycles"][0]) >= {"cycle", "started_at", "finished_at", "moves", "lines"}


@pytest.mark.usefixtures("url")
def test_a_tenant_that_failed_is_told_in_one_line_and_by_the_exit_code(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def failing(*_: object) -> None:
        raise ModelError("the model has no answer: ask again")

    monkeypatch.setattr("langmem_tiers.consolidation.merge.Merge.apply", failing)
    result = run("--once")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.splitlines() == [
        f"the cycle of {tenant} broke off; the next pass goes on with it: "
        "the model has no answer: ask again"
        for tenant in ("acme", "beta")
    ]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_worker_at_once_and_releases_its_leases(
    forever: subprocess.Popen[str], url: str, number: signal.Signals
) -> None:
    forever.send_signal(number)
    assert forever.wait(SECONDS) == 0
    with psycopg.connect(url) as conn:
        held = conn.execute("SELECT count(*) FROM memory.leases WHERE isfinite(until)").fetchone()
    assert held == (0,)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--every", "6x"), "such as 6h"),
        (("--every", "0s"), "--every 0s would leave no time between two cycles: give 1s or more"),
        (("--json",), "it goes with --once"),
    ],
)
@pytest.mark.usefixtures("url")
def test_a_mistake_is_told_in_one_line(arguments: tuple[str, ...], said: str) -> None:
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    assert said in line


def test_a_database_without_tables_is_told(database_url: str) -> None:
    result = run("--once", "--url", database_url)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "langmem-tiers setup" in result.stderr
    with psycopg.connect(database_url) as conn:
        assert conn.execute("SELECT to_regclass('checkpoints')").fetchone() == (None,)


def test_an_embedded_database_is_not_made_where_there_is_none(tmp_path: Path) -> None:
    result = run("--once", "--url", f"embedded:{tmp_path}/none")
    assert result.exit_code == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_a_worker_runs_on_an_embedded_database(tmp_path: Path) -> None:
    with TieredStore.embedded(tmp_path / "own", index={}) as store:
        coordinator(store, "acme").store("The lamp is red.", "semantic", key="one")
    result = run("--once", "--url", f"embedded:{tmp_path}/own")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith("acme: ")


@pytest.mark.usefixtures("url")
def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "langgraph.checkpoint.postgres", None)
    result = run("--once")
    assert result.exit_code == 2
    assert 'pip install "langmem-tiers[worker]"' in result.stderr
