"""The embedded Postgres after any part of it is killed, stopped or lost, at any moment."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random

import psycopg
import pytest

from langmem_tiers import EmbeddedPostgres, TieredStore
from langmem_tiers.postgres import cluster
from langmem_tiers.postgres.cluster import Cluster, url_of, version_of
from tests.support.coded import coded
from tests.support.disks import own_directory
from tests.support.servers import kill, own_server, wait_until

WHAT = {"content": "Anna likes green tea."}


@pytest.fixture(scope="module")
def created(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a directory with a memory in it."""
    directory = tmp_path_factory.mktemp("created")
    with own_server(directory) as server, TieredStore(server.url) as store:
        store.setup()
        store.put(("acme",), "one", WHAT)
    return server.path


@pytest.fixture
def home(tmp_path: Path, created: Path) -> Iterator[Path]:
    """Give a copy, and kill the processes left in it."""
    directory = tmp_path / "memory"
    subprocess.run(["cp", "-a", created, directory], check=True)
    yield directory
    for pid in serving(directory):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def serving(directory: Path, program: str = "postgres") -> list[int]:
    found = []
    for one in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            named = (one / "comm").read_text().strip() == program
            if named and (one / "cwd").resolve() == directory / "data":
                found.append(int(one.name))
    return found


def postmaster_of(directory: Path) -> int:
    return int((directory / "data" / "postmaster.pid").read_text().splitlines()[0])


def log_of(directory: Path) -> str:
    return (directory / "data" / "server.log").read_text()


def noticed(directory: Path, known: int) -> bool:
    """Tell whether the server noticed one more death of a session than are known."""
    return log_of(directory).count("reinitializing") > known


def kill_a_session(url: str) -> None:
    with psycopg.connect(url) as connection:
        pid = connection.info.backend_pid
        os.kill(pid, signal.SIGKILL)


def remembers(store: TieredStore) -> bool:
    found = store.get(("acme",), "one")
    return found is not None and found.value == WHAT


def stops_and_has_kept_all(store: TieredStore, home: Path) -> None:
    store.close()
    wait_until(lambda: not serving(home))  # what was killed ends a moment later
    with TieredStore(f"embedded:{home}", index=None) as again:
        assert remembers(again)
    wait_until(lambda: not serving(home))


MOMENTS = (
    "",
    "was terminated by signal 9",
    "terminating any other active server processes",
    "reinitializing",
    "database system was interrupted",
    "automatic recovery in progress",
    "redo done",
)


@pytest.mark.slow
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_store_can_be_closed_whenever_a_session_of_its_server_was_killed(
    home: Path, moment: str
) -> None:
    store = TieredStore(f"embedded:{home}", index=None)
    store.put(("acme",), "two", WHAT)
    with EmbeddedPostgres(home) as server:
        kill_a_session(server.url)
    wait_until(lambda: moment in log_of(home))
    began = time.monotonic()
    stops_and_has_kept_all(store, home)
    assert time.monotonic() - began < 60


@pytest.mark.proof
def test_so_it_can_at_a_hundred_moments(home: Path) -> None:
    moments = Random(21)  # noqa: S311 - moments, not secrets
    for _ in range(100):
        store = TieredStore(f"embedded:{home}", index=None)
        assert remembers(store)
        with EmbeddedPostgres(home) as server:
            kill_a_session(server.url)
        until = time.monotonic() + moments.expovariate(10)
        while time.monotonic() < until:
            pass
        stops_and_has_kept_all(store, home)


def test_the_next_call_works_after_a_session_was_killed_and_stopping_is_not_needed(
    home: Path,
) -> None:
    with TieredStore(f"embedded:{home}", index=None) as store, EmbeddedPostgres(home) as server:
        before = postmaster_of(home)
        for _ in range(3):
            known = log_of(home).count("reinitializing")
            kill_a_session(server.url)
            assert remembers(store)
            wait_until(partial(noticed, home, known))
            assert remembers(store)
        assert postmaster_of(home) == before


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGSTOP], ids=["stopping", "hung"])
def test_a_server_that_lets_nobody_in_is_replaced_by_the_next_call(
    home: Path, monkeypatch: pytest.MonkeyPatch, sent: signal.Signals
) -> None:
    monkeypatch.setattr(cluster, "_SILENT_AT_START", 1)
    monkeypatch.setattr(cluster, "_IMMEDIATE", ("immediate", 1))
    server = EmbeddedPostgres(home)
    server.start()
    before = postmaster_of(home)
    with psycopg.connect(server.url):  # told to stop, it waits for this session
        os.kill(before, sent)
        if sent == signal.SIGTERM:
            wait_until(lambda: "received smart shutdown" in log_of(home))
        with TieredStore(f"embedded:{home}", index=None) as store:
            assert remembers(store)
    assert postmaster_of(home) != before
    server.stop()
    assert not serving(home)


def test_a_server_that_does_not_hear_that_it_shall_stop_is_killed(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "_SILENT_AT_STOP", 1)
    monkeypatch.setattr(cluster, "_IMMEDIATE", ("immediate", 1))
    store = TieredStore(f"embedded:{home}", index=None)
    assert remembers(store)
    os.kill(postmaster_of(home), signal.SIGSTOP)
    stops_and_has_kept_all(store, home)


def test_sessions_that_outlive_their_server_and_hang_are_killed_by_the_next_start(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "_REMNANT_SECONDS", 1)
    server = EmbeddedPostgres(home)
    server.start()
    with psycopg.connect(server.url) as connection:
        os.kill(connection.info.backend_pid, signal.SIGSTOP)
        kill(server)
        server.start()
        server.stop()
    assert not serving(home)


def test_a_server_whose_socket_was_removed_is_replaced(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "_REMNANT_SECONDS", 1)
    store = TieredStore(f"embedded:{home}", index=None)
    assert remembers(store)
    (home / "data" / ".s.PGSQL.5432").unlink()
    with TieredStore(f"embedded:{home}", index=None) as other:
        assert remembers(other)
        assert remembers(store)
    stops_and_has_kept_all(store, home)


def test_a_lock_file_that_names_the_server_of_another_directory_is_no_obstacle(
    home: Path, tmp_path: Path, created: Path
) -> None:
    subprocess.run(["cp", "-a", created, tmp_path / "another"], check=True)
    with EmbeddedPostgres(tmp_path / "another") as other:
        with EmbeddedPostgres(home):
            lines = (home / "data" / "postmaster.pid").read_text().splitlines()
        lines[0] = str(postmaster_of(other.path))
        (home / "data" / "postmaster.pid").write_text("\n".join(lines) + "\n")
        with EmbeddedPostgres(home), psycopg.connect(other.url) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_server_of_another_program_whose_socket_is_elsewhere_is_refused_and_lives(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "_REMNANT_SECONDS", 1)
    programs = Cluster(home / "data", version_of(home / "data"))
    with own_directory(None) as elsewhere:  # a socket's path is short
        elsewhere.chmod(0o777)
        options = f"-c listen_addresses= -c unix_socket_directories={elsewhere}"
        programs._pg_ctl("start", 60, "-l", "foreign.log", "-o", options)
        with psycopg.connect(url_of(elsewhere)) as connection:
            for opts in ("whole", "gone"):
                if opts == "gone":
                    (home / "data" / "postmaster.opts").unlink()
                with coded("embedded_server", match="Another program runs a Postgres"):
                    EmbeddedPostgres(home).start()
                assert connection.execute("SELECT 1").fetchone() == (1,)
        programs._pg_ctl("stop", 60, "-m", "fast")
    with TieredStore(f"embedded:{home}", index=None) as store:
        assert remembers(store)


def test_a_full_queue_of_a_server_is_waited_for(tmp_path: Path) -> None:
    with contextlib.ExitStack() as opened:
        server = opened.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        server.bind(str(tmp_path / ".s.PGSQL.5432"))
        server.listen(0)
        while True:
            client = opened.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            client.settimeout(0)
            try:
                client.connect(str(tmp_path / ".s.PGSQL.5432"))
            except BlockingIOError:
                break
        began = time.monotonic()
        assert cluster.ask_server(tmp_path, 0.3) is cluster.ServerAnswer.SILENT
        assert time.monotonic() - began >= 0.3


def test_where_processes_are_not_seen_only_a_postgres_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "_PROCESSES", tmp_path / "none")
    shutil.copy(shutil.which("sleep") or "", tmp_path / "postgres")
    with (
        subprocess.Popen(["sleep", "60"]) as other,
        subprocess.Popen([tmp_path / "postgres", "60"]) as postgres,
    ):
        wait_until(lambda: cluster._is_postgres(postgres.pid))
        for one in (other, postgres):
            cluster.kill_all(tmp_path, one.pid)
        assert postgres.wait(30) == -signal.SIGKILL
        assert other.poll() is None
        other.kill()


STARTS = """
import sys
from langmem_tiers.postgres.embedded import EmbeddedPostgres
EmbeddedPostgres(sys.argv[1]).start()
"""


def test_a_process_that_is_killed_while_it_starts_or_stops_the_server_is_no_obstacle(
    home: Path,
) -> None:
    moments: list[Callable[[], bool]] = [
        lambda: bool(serving(home, "pg_ctl")),
        lambda: bool(serving(home)),
        (home / "data" / ".s.PGSQL.5432").exists,
        lambda: "received fast shutdown" in log_of(home),
    ]
    for moment in moments:
        process = subprocess.Popen([sys.executable, "-c", STARTS, home])
        wait_until(moment)
        process.kill()
        process.wait()
        with TieredStore(f"embedded:{home}", index=None) as store:
            assert remembers(store)
        assert not serving(home)
