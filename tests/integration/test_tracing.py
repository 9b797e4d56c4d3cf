from __future__ import annotations

import inspect
import os
import subprocess
import sys
import timeit
from collections.abc import Iterator
from typing import NamedTuple

import psycopg
import pytest

from langmem_tiers import MemoryContext
from langmem_tiers.core.tracing import traced
from tests.support.chat_server import serving
from tests.support.langsmith_server import OFF, ROOT, Runs, run_program, traced_to, vectors

PROGRAM = "tests.support.traced_runs"
RUNS = ["graph-invoke", "graph-ainvoke", "graph-astream", "agent-invoke", "agent-ainvoke"]


class Done(NamedTuple):
    runs: Runs
    printed: str


@pytest.fixture(scope="module")
def done(server_url: str, template: str) -> Iterator[Done]:
    name = f"traced_{os.getpid()}"
    with psycopg.connect(server_url, autocommit=True) as conn:
        conn.execute(f"CREATE DATABASE {name} TEMPLATE {template}".encode())
    url = psycopg.conninfo.make_conninfo(server_url, dbname=name)
    runs = Runs()
    with serving(runs) as endpoint:
        printed = run_program(PROGRAM, url, **traced_to(endpoint))
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
    (batch,) = done.runs.named("get_context_batch")
    assert [one["type"] for one in batch["outputs"]["output"]] == ["Document"] * 2
    (failed,) = [run for run in done.runs.named("get_context") if run.get("error")]
    assert "limit is -1" in failed["error"]
    for run in [*done.runs.named("get_context"), *done.runs.named("store")]:
        whose = {"tenant": "acme", "project_id": "billing", "session_id": "chat-7"}
        assert run["extra"]["metadata"] | whose == run["extra"]["metadata"]
        assert "agent_id" not in run["extra"]["metadata"]


def test_remembering_is_a_tool_run_that_says_what_became_of_it(done: Done) -> None:
    (run,) = done.runs.named("store")

    assert run["run_type"] == "tool"
    assert run["inputs"]["content"] == "The vault is in the cellar"
    assert run["inputs"]["importance"] == 0
    assert "tier" not in run["inputs"]
    assert run["outputs"] | {"stored": True, "tier": "working"} == run["outputs"]


@pytest.mark.parametrize("root", RUNS)
def test_a_recall_hangs_below_what_it_was_called_in(done: Done, root: str) -> None:
    (run,) = done.runs.named("get_context", under=root)
    node = "recall" if root.startswith("graph") else "TieredMemoryMiddleware.wrap_model_call"

    path = done.runs.path(run)
    assert path[0] == root
    assert path[-1] == "get_context"
    assert any(node in name for name in path[:-1]) or "model" in path
    for kept in done.runs.named("store_many", under=root):
        assert "TieredMemoryMiddleware.after_agent" in done.runs.path(kept)
    assert len(done.runs.named("store_many", under=root)) == root.startswith("agent")


@pytest.mark.parametrize("name", ["alone", "alone-ainvoke"])
def test_a_retriever_is_one_retriever_run_with_documents(done: Done, name: str) -> None:
    (run,) = [run for run in done.runs.by_id.values() if done.runs.path(run)[0] == name]

    assert run["run_type"] == "retriever"
    (document,) = run["outputs"]["documents"]
    assert "vault" in document["page_content"]
    assert document["metadata"]["tier"] == "working"
    assert run["extra"]["metadata"]["ls_retriever_name"] == "tieredmemory"


def test_no_run_holds_a_vector_and_tracing_says_nothing_of_its_own(done: Done) -> None:
    assert done.printed == ""
    assert not any(vectors(run) for run in done.runs.by_id.values())


def test_with_tracing_off_langsmith_is_not_loaded_for_it() -> None:
    script = (
        "import sys\n"
        "from langmem_tiers import MemoryContext\n"
        "from langmem_tiers.core.tracing import traced\n"
        "class Asked:\n"
        "    context = MemoryContext(tenant='acme')\n"
        "    @traced('tool')\n"
        "    def ask(self): return 1\n"
        "before = set(sys.modules)\n"
        "assert Asked().ask() == 1\n"
        "print(sorted(set(sys.modules) - before))"
    )
    env = {**os.environ, **OFF, "LANGSMITH_TRACING": "false", "PYTHONPATH": os.fspath(ROOT)}
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
