"""The command line, as its users meet it: real files, a real database, exit codes."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from langmem_tiers import TieredStore, local_index
from langmem_tiers.cli import app
from langmem_tiers.importers import Format

GOOD = [
    {"content": "The API key rotates on Mondays.", "key": "k1", "speaker": "Ada", "session": "s1"},
    {"content": "Lunch is at [bold]noon[/bold].", "key": "k2", "speaker": "Ben", "session": "s2"},
]


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, list(arguments))


def document(*arguments: str) -> Any:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def subprocess_of(*arguments: str, stderr: int = subprocess.PIPE) -> subprocess.Popen[str]:
    program = "from langmem_tiers.cli import app; app(prog_name='langmem-tiers')"
    return subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
    )


@pytest.fixture
def url(database_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("LANGMEM_TIERS_URL", database_url)
    assert run("setup").exit_code == 0
    return database_url


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    return written(tmp_path / "notes.jsonl", GOOD)


def written(path: Path, records: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def test_help_names_every_command_and_every_format() -> None:
    helped = run("--help").stdout
    formats = run("import", "--help").stdout

    assert all(name in helped for name in ("setup", "import", "search", "stats", "demo"))
    assert all(name in formats for name in Format)


def test_the_version_is_that_of_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.metadata.version", lambda _name: "9.8.7")

    assert run("--version").stdout == "langmem-tiers 9.8.7\n"


def test_setup_says_how_the_database_can_be_searched(url: str) -> None:
    assert url
    assert document("setup") == {"ready": True, "vector_dims": 256}


def test_an_import_counts_the_memories_of_each_tenant(url: str, notes: Path) -> None:
    dated = written(notes, [GOOD[0] | {"date": "2026-05-04"}, GOOD[1] | {"date": "2026-05-06"}])

    assert url
    assert document("import", str(dated), "--tenant", "acme") == {
        "memories": 2,
        "tenants": {
            "acme": {
                "memories": 2,
                "first": "2026-05-04T00:00:00+00:00",
                "last": "2026-05-06T00:00:00+00:00",
            }
        },
        "bad": [],
    }


def test_importing_a_file_again_adds_nothing(url: str, notes: Path) -> None:
    for _ in range(2):
        assert run("import", str(notes)).exit_code == 0

    with TieredStore.from_conn_string(url, index=local_index()) as store:
        assert sum(tier.memories for tier in store.stats()) == len(GOOD)


def test_on_a_terminal_a_bar_shows_count_and_rate(url: str, notes: Path) -> None:
    terminal, screen = pty.openpty()
    importing = subprocess_of("import", str(notes), "--url", url, "--json", stderr=screen)
    printed, _ = importing.communicate(timeout=60)
    os.close(screen)
    shown = os.read(terminal, 100_000).decode()
    os.close(terminal)

    assert json.loads(printed)["memories"] == 2
    assert "Importing notes.jsonl (jsonl)" in shown
    assert "2/2" in shown


def test_bad_records_are_named_by_line_and_the_rest_is_imported(url: str, tmp_path: Path) -> None:
    assert url
    mixed = written(tmp_path / "mixed.jsonl", [*GOOD, {"speaker": "Ada"}])

    result = run("import", str(mixed))

    assert result.exit_code == 0
    assert "Memories imported: 2" in result.stdout
    assert "line 3: there is no `content`" in result.stderr
    assert run("import", str(mixed), "--strict").exit_code == 1


def test_a_record_that_the_store_refuses_does_not_take_others_with_it(
    url: str, tmp_path: Path
) -> None:
    assert url
    refused = {"content": "too long a key", "key": "k" * 2000}

    imported = document("import", str(written(tmp_path / "long.jsonl", [refused, *GOOD])))

    assert imported["memories"] == 2
    (bad,) = imported["bad"]
    assert "the key has 2000 bytes" in bad["reason"]


def test_only_twenty_bad_records_are_told_in_detail(url: str, tmp_path: Path) -> None:
    assert url
    many = written(tmp_path / "bad.jsonl", [*GOOD, *({"speaker": "Ada"} for _ in range(25))])

    result = run("import", str(many))

    assert result.stderr.count("line ") == 20
    assert "25 records" in result.stderr
    assert "5 more" in result.stderr


def test_search_shows_the_whole_text_as_it_is_and_why_it_was_found(url: str, notes: Path) -> None:
    assert url
    run("import", str(notes), "--tenant", "acme")

    shown = run("search", "--tenant", "acme", "--limit", "1", "noon").stdout

    assert "Lunch is at [bold]noon[/bold]." in shown
    assert "working  k2  Ben" in shown
    assert "words 70%" in shown
    assert "k1" not in shown


def test_a_memory_cannot_steer_the_terminal(url: str, tmp_path: Path) -> None:
    assert url
    record = {"content": "red \x1b[31malert", "key": "\x1b]0;title\x07"}
    run("import", str(written(tmp_path / "escape.jsonl", [record])), "--tenant", "acme")

    shown = run("search", "--tenant", "acme", "alert").stdout

    assert "alert" in shown
    assert not set("\x1b\x07") & set(shown)


def test_search_looks_below_the_namespace_alone(url: str, notes: Path) -> None:
    assert url
    run("import", str(notes), "--tenant", "acme")

    found = document("search", "--tenant", "acme", "--namespace", "_.s1", "noon")

    assert [one["key"] for one in found["results"]] == ["k1"]


def test_a_search_that_finds_nothing_names_the_tenants_there_are(url: str, notes: Path) -> None:
    assert url
    run("import", str(notes), "--tenant", "acme")

    result = run("search", "--tenant", "acme2", "noon")

    assert (result.exit_code, result.stdout) == (0, "")
    assert "Tenants here: acme." in result.stderr


def test_words_alone_are_searched_without_embeddings(
    database_url: str, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANGMEM_TIERS_URL", database_url)
    assert document("setup", "--lexical")["vector_dims"] is None
    run("import", str(notes), "--tenant", "acme", "--lexical")

    (found,) = document("search", "--tenant", "acme", "--lexical", "rotate")["results"]

    assert (found["key"], found["score"], found["why"]) == ("k1", 1.0, "words 100%")


def test_stats_counts_one_tenant_and_measures_every_table(url: str, notes: Path) -> None:
    assert url
    run("import", str(notes), "--tenant", "acme")

    counted = document("stats", "--tenant", "acme", "--sizes")

    by_tier = {one["tier"]: one["memories"] for one in counted["tiers"]}
    assert by_tier == {"short_term": 0, "working": 2, "long_term": 0}
    assert counted["bytes"] == sum(one["bytes"] for one in counted["sizes"])
    assert "working.memories" in run("stats", "--sizes").stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["import", "nowhere.json"], "does not exist"),
        (["import", ".", "--format", "jsonl"], "is a directory"),
        (["import", "nowhere.json", "--format", "xml"], "there is no format 'xml'"),
        (["search", "x", "--tenant", "a.b"], "one label without dots"),
        (["stats", "--url", "embedded:"], "names no directory"),
        (["stats", "--url", "postgresql://127.0.0.1:1/none"], "does not answer"),
    ],
)
def test_an_error_is_one_line_and_exit_code_2(arguments: list[str], message: str) -> None:
    result = run(*arguments)

    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_database_without_tables_is_told_to_be_set_up(
    database_url: str, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANGMEM_TIERS_URL", database_url)

    result = run("import", str(notes))

    assert result.exit_code == 2
    assert "langmem-tiers setup" in result.stderr


def test_an_embedded_database_needs_no_setup(
    tmp_path: Path, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LANGMEM_TIERS_URL", raising=False)

    assert run("import", str(notes), "--tenant", "acme").exit_code == 0
    (found,) = document("search", "--tenant", "acme", "--limit", "1", "rotation")["results"]

    assert found["key"] == "k1"
    assert (tmp_path / ".memory").is_dir()


def test_an_interrupted_import_exits_with_130_and_keeps_what_was_written(
    url: str, tmp_path: Path
) -> None:
    many = [{"content": f"This is note number {i}. " * 50, "key": str(i)} for i in range(4_000)]
    path = written(tmp_path / "many.jsonl", many)
    importing = subprocess_of("import", str(path), "--url", url, "--tenant", "acme")
    with TieredStore.from_conn_string(url) as store:
        while not store.search(("acme",), limit=1):
            assert importing.poll() is None
        os.kill(importing.pid, signal.SIGINT)
        _, complaints = importing.communicate(timeout=30)
        kept = sum(tier.memories for tier in store.stats("acme"))

    assert importing.returncode == 130
    assert complaints.startswith("Interrupted.")
    assert 0 < kept < len(many)
    assert kept % 200 == 0
