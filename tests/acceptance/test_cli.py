"""The command line, as its users meet it: real files, a real database, exit codes."""

from __future__ import annotations

import json
import os
import pty
import re
import shlex
import signal
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psycopg
import pytest
from typer.testing import CliRunner

from langmem_tiers import MemoryContext, MemoryCoordinator, Tier, TieredStore, local_index
from langmem_tiers.cli.app import app
from langmem_tiers.core.memory import encode_namespace
from langmem_tiers.importers import Format
from langmem_tiers.store.write import lock_call
from tests.support.servers import blocked, wait_until

DIRECTIONS = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
SECONDS = 300
"""How long a process may take to end on a machine that is busy."""
GOOD = [
    {"content": "The API key rotates on Mondays.", "key": "k1", "speaker": "Ada", "session": "s1"},
    {"content": "Lunch is at [bold]noon[/bold].", "key": "k2", "speaker": "Ben", "session": "s2"},
]


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, list(arguments))


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def document(*arguments: str) -> Any:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def subprocess_of(
    *arguments: str, stdout: int = subprocess.PIPE, stderr: int = subprocess.PIPE
) -> subprocess.Popen[str]:
    # A shell that starts the tests in the background has their children ignore SIGINT.
    heeding = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    program = f"{heeding}\nfrom langmem_tiers.cli.app import app; app(prog_name='langmem-tiers')"
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.Popen(command, stdout=stdout, stderr=stderr, text=True)


@pytest.fixture
def unset(database_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A database that the environment names, as it is made."""
    monkeypatch.setenv("LANGMEM_TIERS_URL", database_url)
    return database_url


@pytest.fixture
def url(unset: str) -> str:
    """One that is set up."""
    assert run("setup").exit_code == 0
    return unset


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    return written(tmp_path / "notes.jsonl", GOOD)


@pytest.fixture
def acme(url: str, notes: Path) -> str:
    """A database with the notes, of the tenant acme."""
    assert run("import", str(notes), "--tenant", "acme").exit_code == 0
    return url


def written(path: Path, records: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def test_help_names_every_command_and_format_shows_no_value_for_a_flag_and_fits_80_columns() -> (
    None
):
    helped = run("--help").stdout
    assert all(name in helped for name in ("setup", "import", "search", "stats", "worker"))
    assert all(name in run("import", "--help").stdout for name in Format)
    for command in ((), ("setup",), ("import",), ("search",), ("stats",)):
        helped = CliRunner().invoke(app, [*command, "--help"], env={"COLUMNS": "80"}).stdout
        assert not any(shown in helped for shown in ("<bool>", "BOOLEAN", "…"))
        assert max(len(line) for line in helped.splitlines()) == 80


def test_the_modules_do_what_the_command_does() -> None:
    assert run("--version").stdout == f"langmem-tiers {version('langmem-tiers')}\n"
    asked = ["stats", "--url", "embedded:"]
    command = [str(Path(sys.executable).with_name("langmem-tiers")), *asked]
    installed = subprocess.run(command, capture_output=True, text=True, check=False)
    started = python("-m", "langmem_tiers.cli", *asked)

    assert (started.stdout, started.stderr) == (installed.stdout, installed.stderr)
    assert started.returncode == installed.returncode == 2


def test_without_its_extra_the_command_line_says_what_to_install() -> None:
    absent = "import sys; sys.modules['typer'] = None"
    done = python("-c", f"{absent}\nfrom langmem_tiers.cli.__main__ import main; main()")

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.endswith('needs Typer and Rich: pip install "langmem-tiers[cli]"\n')


def test_an_import_counts_what_a_coordinator_stores_and_adds_nothing_when_repeated(
    url: str, notes: Path
) -> None:
    told = {"tags": ["coffee-posts"], "importance": 0.9, "metadata": {"clicks": 12}}
    dated: list[dict[str, Any]] = [
        GOOD[0] | {"date": "2026-05-04", "project_id": "ops", "mood": "calm"},
        GOOD[1]
        | {"date": "2026-05-06", "memory_type": "pattern", "tier": "long_term"}
        | {**told, "tags": ["Coffee Posts"]},
    ]
    span = {"first": "2026-05-04T00:00:00+00:00", "last": "2026-05-06T00:00:00+00:00"}
    for _ in range(2):
        assert document("import", str(written(notes, dated)), "--tenant", "acme") == {
            "memories": 2,
            "tenants": {"acme": {"memories": 2, **span}},
            "bad": [],
        }

    with TieredStore.from_conn_string(url, index=local_index()) as store:
        assert sum(tier.memories for tier in store.stats()) == len(GOOD)
        memory = MemoryCoordinator(store, context=MemoryContext(tenant="acme", project_id="ops"))
        found, typed = memory.get("k1"), memory.get("k2")
    assert found is not None
    assert (found.tier, found.namespace) == (Tier.WORKING, ("acme", "ops"))
    assert found.value == {
        "content": "The API key rotates on Mondays.",
        "memory_type": "episodic",
        "project_id": "ops",
        "session_id": "s1",
        "speaker": "Ada",
        "turn": 1,
        "occurred_at": span["first"],
        "platform_source": "jsonl",
        "metadata": {"mood": "calm"},
    }
    assert typed is not None
    assert (typed.tier, typed.memory_type) == (Tier.LONG_TERM, "pattern")
    assert {**typed.value, **told} == typed.value


def test_on_a_terminal_a_bar_shows_count_and_rate(url: str, notes: Path) -> None:
    terminal, screen = pty.openpty()
    importing = subprocess_of("import", str(notes), "--url", url, "--json", stderr=screen)
    printed, _ = importing.communicate(timeout=SECONDS)
    os.close(screen)
    shown = os.read(terminal, 100_000).decode()
    os.close(terminal)

    assert json.loads(printed)["memories"] == 2
    assert "Importing notes.jsonl (jsonl)" in shown
    assert "2/2" in shown


@pytest.mark.usefixtures("url")
def test_bad_records_are_named_by_line_and_the_rest_is_imported(tmp_path: Path) -> None:
    mixed = written(tmp_path / "mixed.jsonl", [*GOOD, {"speaker": "Ada"}])
    many = written(tmp_path / "bad.jsonl", [*GOOD, *({"speaker": "Ada"} for _ in range(25))])

    result, told = run("import", str(mixed)), run("import", str(many)).stderr

    assert result.exit_code == 0
    assert "Memories imported: 2" in result.stdout
    assert "1 record could not be imported" in result.stderr
    assert "line 3: there is no `content`" in result.stderr
    assert run("import", str(mixed), "--strict").exit_code == 1
    assert told.count("line ") == 20  # only so many are told in detail
    assert "25 records" in told
    assert "5 more" in told


def test_a_refused_record_takes_no_record_of_any_tenant_with_it(url: str, tmp_path: Path) -> None:
    records = [
        {"content": f"Note {i}.", "key": str(i), "tenant": f"t{i % 3}", "speaker": "Ada"}
        for i in range(9)
    ]
    records[4] |= {"speaker": "A" * 401}
    records.append({"content": "too long a key", "key": "k" * 2000})

    imported = document("import", str(written(tmp_path / "tenants.jsonl", records)))

    by_tenant = {name: one["memories"] for name, one in imported["tenants"].items()}
    assert by_tenant == {"t0": 3, "t1": 2, "t2": 3}
    told = " ".join(bad["reason"] for bad in imported["bad"])
    assert "key '4': speaker" in told
    assert "the key has 2000 bytes" in told
    counted = document("stats", "--url", url)["tiers"]
    assert sum(one["memories"] for one in counted) == 8


@pytest.mark.usefixtures("acme")
def test_search_shows_the_whole_text_as_it_is_and_why_it_was_found() -> None:
    asked = ("search", "--tenant", "acme", "--limit", "1", "--profile", "aurora", "noon")
    shown, (best,) = run(*asked).stdout, document(*asked)["results"]

    assert "Ben  k2" in shown
    assert "Lunch is at [bold]noon[/bold]." in shown
    assert re.search(r"working +match 0\.\d\d", shown)
    assert re.search(r"episodic +recency 0\.20", shown)
    assert "k1" not in shown
    assert best["score"] == pytest.approx(sum(best["explanation"].values()))
    assert best["explanation"].keys() == {"match", "recency", "access"}
    assert best["evidence"]["own"] > 0
    assert (best["tier"], best["memory_type"], best["speaker"]) == ("working", "episodic", "Ben")


@pytest.mark.usefixtures("url")
def test_a_memory_can_neither_steer_a_terminal_nor_reorder_what_it_shows(tmp_path: Path) -> None:
    name = f"k{DIRECTIONS}\x1b]0;title\x07"
    text = f"alert {DIRECTIONS} \x1b[31m \x9b \x7f Zoë"
    record = {"content": text, "key": name, "speaker": DIRECTIONS}
    run("import", str(written(tmp_path / "reorder.jsonl", [record])), "--tenant", "acme")
    asked = ("search", "--tenant", "acme", "alert")
    shown, printed = run(*asked).stdout, run(*asked, "--json").stdout

    assert "alert" in shown
    assert "\N{REPLACEMENT CHARACTER}" in shown
    assert not set(f"{DIRECTIONS}\x1b\x07") & set(shown)
    (found,) = json.loads(printed)["results"]
    assert (found["value"]["content"], found["key"]) == (text, name)
    assert not set(f"{DIRECTIONS}\x1b\x9b\x7f") & set(printed)
    assert "Zoë" in printed


def test_search_looks_in_one_project_and_in_one_session(url: str, tmp_path: Path) -> None:
    records = [GOOD[0] | {"project_id": "p.1"}, GOOD[1]]
    run("import", str(written(tmp_path / "projects.jsonl", records)), "--tenant", "acme")
    with TieredStore.from_conn_string(url, index=local_index()) as store:
        for session in ("s1", "s2"):
            context = MemoryContext(tenant="acme", session_id=session)
            MemoryCoordinator(store, context=context).store(f"Mondays in room {session}", "working")

    for where, keys in (
        ([], ["Lunch is at [bold]noon[/bold]."]),
        (["--project", "p.1"], ["The API key rotates on Mondays."]),
        (["--session", "s2"], ["Lunch is at [bold]noon[/bold].", "Mondays in room s2"]),
    ):
        found = document("search", "--min-match", "0", *where, "Mondays")["results"]
        assert sorted(one["content"] for one in found) == keys


@pytest.mark.usefixtures("url")
def test_what_is_imported_for_a_user_is_searched_by_that_user_alone(notes: Path) -> None:
    run("import", str(notes), "--tenant", "acme", "--user", "ada")
    for user, known in (("ada", 2), ("ben", 0), (None, 0)):
        named = [] if user is None else ["--user", user]
        found = document("search", "--min-match", "0", *named, "Mondays")
        assert (found["user_id"], len(found["results"])) == (user, known)


def test_a_tenant_is_asked_for_by_naming_those_there_are_unless_there_is_one_alone(
    url: str,
) -> None:
    told = []
    with TieredStore.from_conn_string(url, index=local_index()) as store:
        for name in ("", "t 0.%2E", *(f"t {number}" for number in range(10, 20))):
            if name:
                MemoryCoordinator(store, context=MemoryContext(tenant=name)).store("A key rotates.")
            result = run("search", "Which key rotates?")
            told.append((result.exit_code, result.stderr.rpartition("there are ")[2]))

    assert told[0][0] == 2
    assert "nothing is stored here yet" in told[0][1]
    assert told[1] == (0, "")
    assert told[2] == (2, "t 0.%2E, t 10\n")
    assert told[11] == (2, f"t 0.%2E, {', '.join(f't {number}' for number in range(10, 19))}, …\n")
    nobody = run("search", "--tenant", "nobody", "key")
    assert (nobody.exit_code, nobody.stdout) == (0, "")
    assert nobody.stderr.startswith("There is no tenant 'nobody'. Tenants here: t 0.%2E, t 10, ")


@pytest.mark.usefixtures("acme")
def test_a_query_that_nothing_answers_gets_one_line_and_the_nearest_where_asked_for() -> None:
    asked = ("search", "--tenant", "acme", "What is the capital of Mongolia?")
    nothing = run(*asked)

    assert (nothing.exit_code, nothing.stdout) == (0, "")
    assert nothing.stderr == "Nothing stored answers this; --min-match 0 shows the nearest.\n"
    assert document(*asked)["results"] == []
    assert len(document(*asked, "--min-match", "0")["results"]) == 2


@pytest.mark.usefixtures("unset")
def test_a_database_is_set_up_first_and_words_alone_are_searched_without_embeddings(
    notes: Path,
) -> None:
    early = run("import", str(notes))
    assert early.exit_code == 2
    assert "langmem-tiers setup" in early.stderr
    assert document("setup", "--lexical")["vector_dims"] is None
    run("import", str(notes), "--tenant", "acme", "--lexical")
    asked = ("search", "--tenant", "acme", "--lexical")

    (found,) = document(*asked, "rotate")["results"]
    assert (found["key"], "dense" in found["evidence"]) == ("k1", False)
    assert document(*asked, "zebra")["results"] == []
    assert run(*asked, "zebra", "--min-match", "0").stderr == "Nothing was found.\n"


@pytest.mark.usefixtures("unset")
def test_the_model_is_named_by_an_option_or_the_environment(
    notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert document("setup", "--model", "multilingual")["vector_dims"] == 512
    refused = run("import", str(notes), "--tenant", "acme", "--model", "minilm")
    assert "halfvec of 384" in refused.stderr
    assert "512 dimensions" in run("import", str(notes), "--tenant", "acme").stderr
    monkeypatch.setenv("LANGMEM_TIERS_MODEL", "multilingual")
    run("import", str(notes), "--tenant", "acme")

    found = document("search", "--tenant", "acme", "Wann essen wir zu Mittag?")["results"]
    assert found[0]["key"] == "k2"
    assert "local, minilm, multilingual, not 'klingon'" in run("setup", "--model", "klingon").stderr


@pytest.mark.usefixtures("acme")
def test_stats_counts_one_tenant_and_measures_every_table() -> None:
    assert document("setup") == {"ready": True, "vector_dims": 256}

    counted = document("stats", "--tenant", "acme", "--sizes")

    by_tier = {one["tier"]: one["memories"] for one in counted["tiers"]}
    assert by_tier == {"short_term": 0, "working": 2, "long_term": 0}
    assert counted["bytes"] == sum(one["bytes"] for one in counted["sizes"])
    assert "working.memories" in run("stats", "--sizes").stdout


def test_an_error_is_one_line_and_exit_code_2() -> None:
    for arguments, message in (
        ("import nowhere.json", "does not exist"),
        ("import . --format jsonl", "is a directory"),
        ("import nowhere.json --format xml", "--format is one of locomo"),
        ("search x --tenant ''", "tenant is empty"),
        ("search x --tenant acme --project ''", "project_id is empty"),
        ("search x --tenant acme --profile best", "no ranking profile 'best'"),
        ("search ' ' --tenant acme", "a query is needed"),
        ("stats --url embedded:", "names no directory"),
        (f"stats --url embedded:{'x' * 300}", "cannot use"),
        ("stats --url postgresql://127.0.0.1:1/none", "does not answer"),
    ):
        result = run(*shlex.split(arguments))
        assert (result.exit_code, result.stdout) == (2, "")
        assert message in result.stderr
        assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("there", [False, True])
def test_reading_what_does_not_exist_says_what_to_do_and_creates_nothing(
    tmp_path: Path, *, there: bool
) -> None:
    path = tmp_path / "typo"
    if there:
        path.mkdir()
    for command in ("search x --tenant acme", "stats --json"):
        result = run(*command.split(), "--url", f"embedded:{path}")
        assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (1, "", 1)
        assert f"no memories in {path}" in result.stderr
        assert "langmem-tiers import" in result.stderr
    assert [each for each in tmp_path.rglob("*") if each != path] == []
    assert path.exists() == there


@pytest.mark.parametrize("command", [["--help"], ["stats", "--json"]], ids=" ".join)
@pytest.mark.usefixtures("url")
def test_output_that_cannot_be_written_is_told_in_one_line_unless_its_reader_left(
    command: list[str],
) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    sinks = {writing: ""}
    if Path("/dev/full").exists():  # Linux alone has it
        full = os.open("/dev/full", os.O_WRONLY)
        sinks[full] = "The output cannot be written (No space left on device)"
    for sink, told in sinks.items():
        printing = subprocess_of(*command, stdout=sink)
        os.close(sink)
        _, complaints = printing.communicate(timeout=SECONDS)
        assert (printing.returncode, complaints.count("\n")) == (1, bool(told))
        assert complaints.startswith(told)


def test_an_interrupted_import_exits_with_130_and_keeps_what_was_written(
    url: str, tmp_path: Path
) -> None:
    many = [{"content": f"Note {i} is short.", "key": str(i)} for i in range(1_000)]
    path = written(tmp_path / "many.jsonl", many)
    with TieredStore.from_conn_string(url) as store, psycopg.connect(url) as another:
        place = encode_namespace(MemoryContext(tenant="acme").namespace(Tier.WORKING))
        lock = lock_call([(*place, "700")], store.options).params
        another.execute("SELECT pg_advisory_xact_lock(%s, %s)", (lock["lock"], lock["buckets"][0]))
        importing = subprocess_of("import", str(path), "--url", url, "--tenant", "acme")
        wait_until(lambda: blocked(url) or importing.poll() is not None, SECONDS)
        importing.send_signal(signal.SIGINT)
        _, complaints = importing.communicate(timeout=SECONDS)
        kept = sum(tier.memories for tier in store.stats("acme"))

    assert (importing.returncode, complaints.count("\n")) == (130, 1), complaints
    assert complaints.startswith("Interrupted.")
    assert 0 < kept < len(many)
    assert kept % 200 == 0
