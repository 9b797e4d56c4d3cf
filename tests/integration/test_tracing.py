from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from langmem_tiers import TieredStore
from tests.support.chat_server import serving
from tests.support.langsmith_server import Runs, run_program, traced_to, vectors
from tests.support.opening import text_index
from tests.support.servers import fresh_database

PROGRAM = "tests.support.traced_runs"
VERBS = (
    *("reminders.add", "reminders.due", "start_task", "assemble_context", "memorize", "commit"),
    *("on_user_prompt_submit", "on_session_stop"),
)
RUNS = ["graph-invoke", "graph-ainvoke", "graph-astream", "agent-invoke", "agent-ainvoke"]


class Done(NamedTuple):
    runs: Runs
    printed: str

    def of_acme(self, name: str) -> list[dict[str, Any]]:
        found = self.runs.named(name)
        return [one for one in found if one["extra"]["metadata"].get("tenant") == "acme"]


@pytest.fixture(scope="module")
def done(server_url: str) -> Iterator[Done]:
    with fresh_database(server_url) as url:
        with TieredStore(url, index=text_index()) as store:
            store.setup()
        runs = Runs()
        with serving(runs) as endpoint:
            printed = run_program(PROGRAM, url, **traced_to(endpoint))
        yield Done(runs, printed)


def test_a_recall_is_a_retriever_run_whose_output_is_documents(done: Done) -> None:
    run = next(run for run in done.of_acme("get_context") if "parent_run_id" not in run)

    assert run["run_type"] == "retriever"
    assert run["inputs"]["query"] == "Where is the vault?"
    (document,) = run["outputs"]["output"]
    assert document["type"] == "Document"
    assert document["page_content"] == "The vault is in the cellar"
    metadata = document["metadata"]
    assert (metadata["tier"], metadata["namespace"]) == ("working", ["acme", "billing"])
    assert {"score", "match", "explanation", "key"} <= metadata.keys()
    (batch,) = done.runs.named("get_context_batch")
    assert [one["type"] for one in batch["outputs"]["output"]] == ["Document"] * 2
    (failed,) = [run for run in done.runs.named("get_context") if run.get("error")]
    assert "limit is a whole number from 0" in failed["error"]


def test_every_other_verb_is_a_tool_run_that_says_whose_memory_it_is(done: Done) -> None:
    (run,) = done.of_acme("store")

    assert run["inputs"]["content"] == "The vault is in the cellar"
    assert run["inputs"]["importance"] == 0
    assert "tier" not in run["inputs"]
    assert run["outputs"] | {"stored": True, "tier": "working"} == run["outputs"]
    whose = {"tenant": "acme", "project_id": "billing", "session_id": "chat-7"}
    assert run["extra"]["metadata"] | whose == run["extra"]["metadata"]
    assert "agent_id" not in run["extra"]["metadata"]
    for name in VERBS:
        runs = done.runs.named(name)
        assert {one["run_type"] for one in runs} == {"tool"}
        assert "globex" in {one["extra"]["metadata"]["tenant"] for one in runs}


@pytest.mark.parametrize("root", RUNS)
def test_a_recall_hangs_below_what_it_was_called_in(done: Done, root: str) -> None:
    (run,) = done.runs.named("get_context", under=root)
    node = "recall" if root.startswith("graph") else "TieredMemoryMiddleware.wrap_model_call"

    path = done.runs.path(run)
    assert path[0] == root
    assert path[-1] == "get_context"
    assert any(node in name for name in path[:-1]) or "model" in path
    kept = [done.runs.path(one) for one in done.runs.named("store_many", under=root)]
    said = [one for one in kept if any("wrap_model_call" in name for name in one)]
    answered = [one for one in kept if "TieredMemoryMiddleware.after_agent" in one]
    assert [len(said), len(answered), len(kept)] == ([1, 1, 2] if "agent" in root else [0, 0, 0])


def test_each_recall_of_a_turn_is_a_retriever_run_below_its_assembly(done: Done) -> None:
    runs = sorted(done.runs.by_id.values(), key=lambda run: run["dotted_order"])
    found = [run for run in runs if done.runs.path(run)[:-1] == ["assemble_context"]]
    assert {(run["run_type"], run["extra"]["metadata"]["tenant"]) for run in found} == {
        ("retriever", "globex")
    }
    names = ["recall working", "recall episodic", "recall semantic"]
    assert [run["name"] for run in found] == ["recall conversation", *names, *names]
    semantic = found[-1]
    assert semantic["inputs"]["query"] == "Where is the vault?"
    assert semantic["inputs"]["informed_by"]["conversation and episodic"].startswith("Globex")
    documents = semantic["outputs"]["output"]
    assert {one["type"] for one in documents} == {"Document"}
    assert "The vault is in the attic" in {one["page_content"] for one in documents}


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
