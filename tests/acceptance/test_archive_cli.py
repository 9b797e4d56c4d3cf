"""`langmem-tiers archive` and `restore`, as their users meet them: real files, exit codes."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from typer.testing import CliRunner

from langmem_tiers import TieredStore
from langmem_tiers.cli.app import app
from tests.support.archives import count, execute, files_in, fill, hashes
from tests.support.opening import empty, text_index

NUMBER = 30
ALL = ("--max-share", "1")


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, list(arguments))


def document(*arguments: str) -> Any:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def complaint(*arguments: str) -> str:
    """The one line that a failing command says."""
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (2, ""), result.output
    (line,) = result.stderr.splitlines()
    return str(line)


@pytest.fixture(scope="module")
def module_url(server_url: str) -> Iterator[str]:
    name = f"archives_{os.getpid()}"
    with psycopg.connect(server_url, autocommit=True) as conn:
        conn.execute(f"CREATE DATABASE {name}".encode())
    url = psycopg.conninfo.make_conninfo(server_url, dbname=name)
    with TieredStore.from_conn_string(url, index=text_index()) as store:
        store.setup()
    yield url
    with psycopg.connect(server_url, autocommit=True) as conn:
        conn.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@pytest.fixture
def url(module_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A database of old memories, whose vectors the command line has no embeddings for."""
    empty(module_url)
    fill(module_url, NUMBER)
    execute(module_url, "UPDATE memory.memories SET expires_at = NULL")
    monkeypatch.setenv("LANGMEM_TIERS_URL", module_url)
    return module_url


@pytest.fixture
def cold(tmp_path: Path) -> str:
    return str(tmp_path / "cold")


def archived(cold: str) -> str:
    (name,) = document("archive", "--tenant", "acme", "--to", cold, *ALL)["archives"]
    return str(name)


def test_an_archive_comes_back_bit_by_bit(url: str, cold: str) -> None:
    before = hashes(url)

    name = archived(cold)

    assert count(url, "memories") == 0
    listed = document("restore", "--tenant", "acme")
    (one,) = listed["archives"]
    assert (one["archive"], one["memories"], one["remaining"]) == (name, NUMBER, NUMBER)
    assert document("restore", name, "--tenant", "acme") == {
        "tenant": "acme",
        "restored": [{"archive": name, "restored": NUMBER, "occupied": [], "expired": 0}],
    }
    assert hashes(url) == before
    again = document("restore", one["url"], "--tenant", "acme")
    assert again["restored"][0]["restored"] == 0


def test_options_narrow_what_is_archived(url: str, cold: str) -> None:
    mine = ("archive", "--tenant", "acme", "--to", cold, "--dry-run", *ALL)

    assert document(*mine, "--older-than-days", "30000")["memories"] == 0
    assert document(*mine, "--agent", "coder")["memories"] == NUMBER // 2
    assert document(*mine, "--max-access-count", "1")["memories"] == NUMBER // 3
    assert document(*mine, "--max-importance", "0.5")["memories"] == 0
    assert document(*mine[:-2])["memories"] == NUMBER // 10
    assert document(*mine[:-2])["waiting"] == NUMBER - NUMBER // 10
    assert document(*mine, "--max-share", "0.5")["memories"] == NUMBER // 2
    assert document("archive", "--tenant", "no", "--to", cold, "--dry-run")["memories"] == 0
    assert url


def test_for_people_there_are_lines_and_a_table(url: str, cold: str) -> None:
    assert "Nothing of 'acme' is archived." in run("restore", "--tenant", "acme").stderr
    told = run("archive", "--tenant", "acme", "--to", cold, *ALL)
    name = told.stdout.splitlines()[1].strip()
    assert told.stdout.splitlines()[0] == f"{NUMBER} memories archived in 1 file"
    listed = run("restore", "--tenant", "acme").stdout.splitlines()
    assert listed[0] == name
    assert listed[1].endswith(f", memories: {NUMBER}, remaining: {NUMBER}")
    back = run("restore", name, "--tenant", "acme")
    assert back.stdout == f"{name}: {NUMBER} memories restored\n"
    assert url


def test_mistakes_are_told_in_one_line(url: str, cold: str) -> None:
    name = archived(cold)
    there = files_in(Path(cold))[0]

    assert f"there is no archive 'x' of 'acme': there is {name}" in complaint(
        "restore", "x", "--tenant", "acme"
    )
    assert "of 'other': nothing of it is archived" in complaint(
        "restore", name, "--tenant", "other"
    )
    assert "holds no memory of the key 'no'" in complaint(
        "restore", name, "--tenant", "acme", "--key", "no"
    )
    assert "name none beside it" in complaint("restore", name, "--all", "--tenant", "acme")
    assert "name the archive" in complaint("restore", "--key", "a", "--tenant", "acme")
    assert "no place for archives" in complaint("archive", "--tenant", "acme", "--to", "no://x")
    assert "older_than_days" in complaint(
        "archive", "--tenant", "acme", "--to", cold, "--older-than-days", "-1"
    )
    there.write_bytes(there.read_bytes()[:-1])
    assert "SHA-256 differs" in complaint("restore", name, "--tenant", "acme")
    there.unlink()
    assert "is not there" in complaint("restore", "--all", "--tenant", "acme")
    assert count(url, "memories") == 0


def test_without_the_extra_one_line_names_it(
    url: str, cold: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.delitem(sys.modules, "langmem_tiers.consolidate.files", raising=False)

    assert 'pip install "langmem-tiers[archive]"' in complaint(
        "archive", "--tenant", "acme", "--to", cold
    )
    assert count(url, "memories") == NUMBER


def test_memories_in_any_language_are_archived_and_come_back(tmp_path: Path, cold: str) -> None:
    home = tmp_path / "data"
    whose, place = ("--tenant", "acme"), ("--url", f"embedded:{home}")
    long_ago = datetime.now(UTC) - timedelta(days=1_000)
    with TieredStore.embedded(home, index={"language": "german"}, clock=lambda: long_ago) as store:
        store.put(("acme", "billing"), "a", {"text": "Die Schlüssel wechseln montags"})

    told = document("archive", *whose, "--to", cold, *ALL, *place)
    back = document("restore", "--all", *whose, *place)

    assert (told["memories"], [one["restored"] for one in back["restored"]]) == (1, [1])
    assert document("restore", *whose, *place)["archives"][0]["remaining"] == 0


def test_no_embedded_database_is_made_to_archive_nothing(tmp_path: Path) -> None:
    place = f"embedded:{tmp_path / 'none'}"

    for command in (
        ("archive", "--tenant", "acme", "--to", str(tmp_path), "--url", place),
        ("restore", "--all", "--tenant", "acme", "--url", place),
    ):
        result = run(*command)
        assert result.exit_code == 1
        assert "There are no memories" in result.stderr
    assert not (tmp_path / "none").exists()
