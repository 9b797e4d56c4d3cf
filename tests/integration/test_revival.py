"""An embedded server that is killed from outside: the stores that are open on it bring it back."""

from __future__ import annotations

import math
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest
from langgraph.store.base import GetOp, PutOp

from langmem_tiers import EmbeddedPostgres, TieredStore
from langmem_tiers.core.errors import OutcomeUnknownError
from langmem_tiers.store import flows
from tests.support.coded import coded
from tests.support.opening import Opened, opened_store, text_index
from tests.support.servers import blocked, kill, own_server, wait_until

NAMESPACE = ("acme", "revival")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedPostgres]:
    """A handle of this file's own; it is not started, so that only stores keep the server."""
    handle = own_server(tmp_path_factory.mktemp("revived"))
    with handle:
        pass
    yield handle
    handle.stop()


def store_on(server: EmbeddedPostgres, **options: Any) -> TieredStore:
    return TieredStore.embedded(server.path, index=text_index(), **options)


def postmaster(server: EmbeddedPostgres) -> str:
    try:
        lines = (server.path / "data" / "postmaster.pid").read_text().splitlines()
    except FileNotFoundError:
        return ""
    return lines[0] if lines else ""


@pytest.mark.slow
@pytest.mark.parametrize("opened", ["sync", "async"])
async def test_an_open_store_brings_its_killed_server_back_counts_its_reads_and_closes(
    server: EmbeddedPostgres, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flows, "FLUSH_SECONDS", math.inf)  # what is written may be lost
    before, reads = set(threading.enumerate()), 0
    async with opened_store(store_on(server), opened) as store:
        known = sum(one.accesses for one in await store.astats())
        await store.aput(NAMESPACE, opened, {"text": f"opened {opened}"})
        killed = postmaster(server)
        kill(server)
        while postmaster(server) == killed:
            item = await store.aget(NAMESPACE, opened)
            reads += 1
            assert item is not None
            assert item.value == {"text": f"opened {opened}"}
        assert await store.asearch(NAMESPACE, query="opened")
    assert postmaster(server) == ""
    if opened == "sync":
        left = set(threading.enumerate()) - before
        assert [one.name for one in left if not one.name.startswith("asyncio_")] == []
        with store_on(server) as again:
            assert sum(one.accesses for one in again.stats()) == known + reads


@pytest.mark.slow
def test_all_threads_of_all_stores_on_a_killed_server_go_on(server: EmbeddedPostgres) -> None:
    with store_on(server) as one, store_on(server) as other, ThreadPoolExecutor(8) as pool:
        one.put(NAMESPACE, "a", {"text": "was here before"})
        together = threading.Barrier(8)

        def read(number: int) -> bool:
            together.wait()
            return (one, other)[number % 2].get(NAMESPACE, "a") is not None

        killed = postmaster(server)
        kill(server)
        while postmaster(server) == killed:
            assert all(pool.map(read, range(8)))
        assert all(pool.map(read, range(8)))


OTHER_PROCESS = """
import sys
from langmem_tiers import TieredStore
with TieredStore.embedded(sys.argv[1], index=None) as store:
    for line in sys.stdin:
        item = store.get(("acme", "revival"), line.strip())
        print("found" if item else "lost", flush=True)
"""


@pytest.mark.slow
def test_two_processes_on_a_killed_server_both_go_on(server: EmbeddedPostgres) -> None:
    command = [sys.executable, "-W", "error", "-c", OTHER_PROCESS, str(server.path)]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with store_on(server) as store, subprocess.Popen(command, **pipes) as process:

        def found_elsewhere() -> str:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write("a\n")
            process.stdin.flush()
            return str(process.stdout.readline().strip())

        store.put(NAMESPACE, "a", {"text": "was here before"})
        assert found_elsewhere() == "found"
        kill(server)
        with ThreadPoolExecutor(1) as pool:
            elsewhere = pool.submit(found_elsewhere)
            assert store.get(NAMESPACE, "a") is not None
            assert elsewhere.result(timeout=60) == "found"
        process.communicate(timeout=60)
        assert process.returncode == 0


@pytest.mark.slow
def test_a_call_that_was_half_done_is_told_and_the_next_one_goes_through(
    server: EmbeddedPostgres,
) -> None:
    pool = {"min_size": 1, "max_size": 1}
    with store_on(server, pool_config=pool) as store, ThreadPoolExecutor(1) as threads:
        store.put(NAMESPACE, "a", {"text": "first"})
        own = store.runner._target.server
        assert own is not None
        url = own.url
        holder = psycopg.connect(url)
        holder.execute("LOCK TABLE memory.vectors")
        half = threads.submit(
            store.batch, [GetOp(NAMESPACE, "a"), PutOp(NAMESPACE, "a", {"text": "second"})]
        )
        wait_until(lambda: blocked(url))
        kill(server)
        with pytest.raises(OutcomeUnknownError):
            half.result(timeout=30)
        holder.close()
        item = store.get(NAMESPACE, "a")
        assert item is not None
        assert item.value == {"text": "first"}


@pytest.mark.slow
def test_what_was_removed_is_not_made_anew_and_what_was_stopped_stays_so(
    tmp_path: Path,
) -> None:
    server = own_server(tmp_path)
    with coded("embedded_server", match=r"start\(\)"):
        server.revive()
    with store_on(server) as store:
        store.put(NAMESPACE, "a", {"text": "x"})
        kill(server)
        shutil.rmtree(server.path)
        with coded("embedded_server", match="is gone"):
            store.get(NAMESPACE, "a")
        assert not server.path.exists()
