from __future__ import annotations

import gzip
import inspect
import json
import os
import subprocess
import sys
import timeit
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest

from langmem_tiers import MemoryContext
from langmem_tiers.tracing import traced, untraced
from tests.support.chat_server import serving

ROOT = Path(__file__).parents[2]
OFF = {name: "" for name in os.environ if name.startswith(("LANGSMITH_", "LANGCHAIN_"))}
BATCHES = {
    "use_multipart_endpoint": False,
    "size_limit": 100,
    "size_limit_bytes": 20_000_000,
    "scale_up_qsize_trigger": 1000,
    "scale_up_nthreads_limit": 1,
    "scale_down_nempty_trigger": 4,
}
RUNS = ["graph-invoke", "graph-ainvoke", "graph-astream", "agent-invoke", "agent-ainvoke"]


class Runs:
    """What was sent to LangSmith: each run by its id."""

    def __init__(self) -> None:
        self.by_id: dict[str, dict[str, Any]] = {}
        self.requests = 0

    def __call__(self, path: str, body: bytes, headers: dict[str, str]) -> Any:
        self.requests += 1
        if path.startswith("/info"):
            return {"batch_ingest_config": BATCHES}
        if body:
            text = gzip.decompress(body) if headers.get("content-encoding") == "gzip" else body
            sent = json.loads(text)
            for run in [*sent.get("post", []), *sent.get("patch", [])]:
                known = self.by_id.setdefault(run["id"], {})
                known |= {name: one for name, one in run.items() if one is not None}
        return {}

    def named(self, name: str, under: str | None = None) -> list[dict[str, Any]]:
        """The runs of a name, in order; `under` names the root of their trace."""
        found = [run for run in self.by_id.values() if run["name"] == name]
        roots = [run for run in found if under is None or self.path(run)[0] == under]
        return sorted(roots, key=lambda run: run["dotted_order"])

    def path(self, run: dict[str, Any]) -> list[str]:
        """The names from the root of its trace down to a run."""
        parent = run.get("parent_run_id")
        above = self.path(self.by_id[parent]) if parent else []
        return [*above, run["name"]]


class Done(NamedTuple):
    runs: Runs
    printed: str


def run_with(url: str, **env: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.traced_runs", url],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        cwd=ROOT,
        env={**os.environ, **OFF, "PYTHONPATH": os.fspath(ROOT), **env},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def done(server_url: str, template: str) -> Iterator[Done]:
    name = f"traced_{os.getpid()}"
    with psycopg.connect(server_url, autocommit=True) as conn:
        conn.execute(f"CREATE DATABASE {name} TEMPLATE {template}".encode())
    url = psycopg.conninfo.make_conninfo(server_url, dbname=name)
    runs = Runs()
    with serving(runs) as endpoint:
        env = {
            "LANGSMITH_TRACING": "true",
            "LANGSMITH_ENDPOINT": endpoint,
            "LANGSMITH_API_KEY": "none",
            "LANGSMITH_PROJECT": "tests",
        }
        printed = run_with(url, **env)
    yield Done(runs, printed)
    with psycopg.connect(server_url, autocommit=True) as conn:
        conn.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


def test_a_recall_is_a_retriever_run_whose_output_is_documents(done: Done) -> None:
    run = next(run for run in done.runs.named("get_context") if "parent_run_id" not in run)

    assert run["run_type"] == "retriever"
    assert run["inputs"]["query"] == "Where is the vault?"
    (document,) = run["outputs"]["output"]
    assert document["type"] == "Document"
    assert document["page_content"] == "The vault is in the cellar"
    metadata = document["metadata"]
    assert metadata["tier"] == "working"
    assert metadata["namespace"] == ["acme", "billing"]
    assert {"score", "match", "explanation", "key"} <= metadata.keys()


def test_a_run_says_whose_memory_it_was(done: Done) -> None:
    for run in [*done.runs.named("get_context"), *done.runs.named("store")]:
        metadata = run["extra"]["metadata"]
        assert metadata["tenant"] == "acme"
        assert metadata["project_id"] == "billing"
        assert metadata["session_id"] == "chat-7"
        assert "agent_id" not in metadata


def test_remembering_is_a_tool_run_that_says_what_became_of_it(done: Done) -> None:
    (run,) = done.runs.named("store")

    assert run["run_type"] == "tool"
    assert run["inputs"]["content"] == "The vault is in the cellar"
    assert run["inputs"]["importance"] == 0
    assert "tier" not in run["inputs"]
    assert run["outputs"] | {"stored": True, "tier": "working"} == run["outputs"]


def test_a_recall_for_many_queries_is_one_run_with_all_their_documents(done: Done) -> None:
    (run,) = done.runs.named("get_context_batch")

    assert [one["type"] for one in run["outputs"]["output"]] == ["Document"] * 2


def test_a_recall_that_fails_is_a_run_with_its_error(done: Done) -> None:
    failed = [run for run in done.runs.named("get_context") if run.get("error")]

    assert len(failed) == 1
    assert "limit is -1" in failed[0]["error"]


@pytest.mark.parametrize("root", RUNS)
def test_a_recall_hangs_below_what_it_was_called_in(done: Done, root: str) -> None:
    (run,) = done.runs.named("get_context", under=root)
    node = "recall" if root.startswith("graph") else "TieredMemoryMiddleware.wrap_model_call"

    path = done.runs.path(run)
    assert path[0] == root
    assert path[-1] == "get_context"
    assert any(node in name for name in path[:-1]) or "model" in path


@pytest.mark.parametrize("root", [root for root in RUNS if root.startswith("agent")])
def test_remembering_hangs_below_what_it_was_called_in(done: Done, root: str) -> None:
    (run,) = done.runs.named("store_many", under=root)

    assert "TieredMemoryMiddleware.after_agent" in done.runs.path(run)


@pytest.mark.parametrize("name", ["alone", "alone-ainvoke"])
def test_a_retriever_is_one_retriever_run_with_documents(done: Done, name: str) -> None:
    (run,) = [run for run in done.runs.by_id.values() if done.runs.path(run)[0] == name]

    assert run["run_type"] == "retriever"
    (document,) = run["outputs"]["documents"]
    assert "vault" in document["page_content"]
    assert document["metadata"]["tier"] == "working"
    assert run["extra"]["metadata"]["ls_retriever_name"] == "tieredmemory"


def test_no_run_holds_a_vector(done: Done) -> None:
    assert not any(vectors(run) for run in done.runs.by_id.values())


def test_tracing_says_nothing_of_its_own(done: Done) -> None:
    assert done.printed == ""


def test_nothing_is_sent_with_tracing_off(url: str) -> None:
    runs = Runs()
    with serving(runs) as endpoint:
        run_with(url, LANGSMITH_TRACING="false", LANGSMITH_ENDPOINT=endpoint)

    assert runs.requests == 0


def test_with_tracing_off_langsmith_is_not_loaded_for_it() -> None:
    script = (
        "import sys\n"
        "from langmem_tiers import MemoryContext\n"
        "from langmem_tiers.tracing import traced, untraced\n"
        "class Asked:\n"
        "    context = MemoryContext(tenant='acme')\n"
        "    @traced('tool')\n"
        "    def ask(self): return 1\n"
        "before = set(sys.modules)\n"
        "with untraced(): assert Asked().ask() == 1\n"
        "print(sorted(set(sys.modules) - before))"
    )
    env = {**os.environ, **OFF, "PYTHONPATH": os.fspath(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, env=env
    )

    assert done.stdout == "[]\n"


class Verbs:
    """Two verbs, as a coordinator has them."""

    context = MemoryContext(tenant="acme")

    @traced("retriever")
    def ask(self, query: str, *, limit: int = 5) -> list[str]:
        """Ask."""
        return [query] * limit

    @traced("retriever")
    async def aask(self, query: str, *, limit: int = 5) -> list[str]:
        """Ask."""
        return [query] * limit


async def test_a_traced_verb_keeps_its_name_its_signature_and_its_answers() -> None:
    assert Verbs.ask.__name__ == "ask"
    assert Verbs.ask.__doc__ == "Ask."
    assert list(inspect.signature(Verbs.ask).parameters) == ["self", "query", "limit"]
    assert inspect.iscoroutinefunction(Verbs.aask)
    assert not inspect.iscoroutinefunction(Verbs.ask)
    assert Verbs().ask("x", limit=2) == await Verbs().aask("x", limit=2) == ["x", "x"]


def test_with_tracing_off_a_verb_costs_microseconds(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in OFF:
        monkeypatch.delenv(name)
    verbs = Verbs()
    seconds = min(timeit.repeat(lambda: verbs.ask("x"), number=1000, repeat=5)) / 1000

    assert seconds < 100e-6


def test_untraced_can_be_left_and_entered_again() -> None:
    with untraced(), untraced():
        assert Verbs().ask("x", limit=1) == ["x"]


def vectors(found: Any) -> bool:
    """Whether there is a list of many numbers somewhere within."""
    if isinstance(found, dict):
        return any(map(vectors, found.values()))
    if isinstance(found, list):
        numbers = [one for one in found if isinstance(one, float)]
        return len(numbers) > 8 or any(map(vectors, found))
    return False
