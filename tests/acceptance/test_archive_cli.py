"""`langmem-tiers archive` and `restore`, as their users meet them: real files, exit codes."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from langmem_tiers import TieredStore
from langmem_tiers.cli.app import app
from tests.support.archives import count, execute, files_in, fill, hashes
from tests.support.opening import empty, text_index
from tests.support.servers import fresh_database

NUMBER = 30
UNTOLD = ("--default-importance", "0.5")
ALL = ("--max-share", "1", *UNTOLD)


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
    with fresh_database(server_url) as url:
        with TieredStore.from_conn_string(url, index=text_index()) as store:
            store.setup()
        yield url


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


def test_an_archive_comes_back_bit_by_bit(url: str, cold: str) -> None:
    before, whose = hashes(url), ("--tenant", "acme")
    assert "Nothing of 'acme' is archived." in run("restore", *whose).stderr

    told = run("archive", *whose, "--to", cold, "--apply", *ALL).stdout.splitlines()
    name = told[1].strip()
    assert told[0] == f"{NUMBER} memories archived in 1 file"
    assert count(url, "memories") == 0
    listed = run("restore", *whose).stdout.splitlines()
    assert listed[0] == name
    assert listed[1].endswith(f", memories: {NUMBER}, remaining: {NUMBER}")
    (one,) = document("restore", *whose)["archives"]
    assert (one["archive"], one["memories"], one["remaining"]) == (name, NUMBER, NUMBER)

    assert run("restore", name, *whose).stdout == f"{name}: {NUMBER} memories restored\n"
    assert hashes(url) == before
    assert document("restore", one["url"], *whose) == {
        "tenant": "acme",
        "restored": [
            {"archive": one["url"], "restored": 0, "occupied": [], "expired": 0, "forgotten": []}
        ],
    }


@pytest.mark.parametrize(
    ("options", "memories"),
    [
        ((*ALL, "--older-than-days", "30000"), 0),
        ((*ALL, "--agent", "coder"), NUMBER // 2),
        ((*ALL, "--max-access-count", "1"), NUMBER // 3),
        ((*ALL, "--max-importance", "0.5"), 0),
        (("--max-share", "0.5", *UNTOLD), NUMBER // 2),
        (UNTOLD, NUMBER // 10),
        (("--max-share", "1"), 0),
    ],
)
@pytest.mark.usefixtures("url")
def test_options_narrow_what_is_archived(
    cold: str, options: tuple[str, ...], memories: int
) -> None:
    found = document("archive", "--tenant", "acme", "--to", cold, *options)
    assert found["memories"] == memories
    assert found["waiting"] == (0 if "1" in options else NUMBER - memories)


def test_mistakes_are_told_in_one_line(url: str, cold: str) -> None:
    whose = ("--tenant", "acme")
    (name,) = document("archive", *whose, "--to", cold, "--apply", *ALL)["archives"]
    (there,) = files_in(Path(cold))
    mistakes: dict[str, tuple[str, ...]] = {
        f"there is no archive 'x' of 'acme': there is {name}": ("restore", "x", *whose),
        "of 'other': nothing of it is archived": ("restore", name, "--tenant", "other"),
        "name none beside it": ("restore", name, "--all", *whose),
        "no place for archives": ("archive", *whose, "--to", "no://x"),
        "older_than_days": ("archive", *whose, "--to", cold, "--older-than-days", "-1"),
    }
    for said, command in mistakes.items():
        assert said in complaint(*command)
    there.write_bytes(there.read_bytes()[:-1])
    assert "SHA-256 differs" in complaint("restore", name, *whose)
    there.unlink()
    assert "is not there" in complaint("restore", "--all", *whose)
    assert count(url, "memories") == 0


def test_without_the_extra_one_line_names_it(
    url: str, cold: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.delitem(sys.modules, "langmem_tiers.consolidation.archive_files", raising=False)

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

    told = document("archive", *whose, "--to", cold, "--apply", *ALL, *place)
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
