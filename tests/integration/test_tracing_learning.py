from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import psycopg
import pytest
from langchain_core.language_models import GenericFakeChatModel
from langchain_openai import ChatOpenAI
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from pydantic import SecretStr

from langmem_tiers import Tier
from langmem_tiers.core.tracing import _inputs
from tests.support.chat_server import serving
from tests.support.graphs import BROKEN, TASK
from tests.support.langsmith_server import Runs, run_program, traced_to, vectors
from tests.support.opening import Clock
from tests.support.traced_learning import EASY, KEY, Teacher

PROGRAM = "tests.support.traced_learning"
GRAPHS = ["graph-invoke", "graph-ainvoke"]
ALONE = ["blocking", "awaiting"]
NODES = [
    ("reflect_on", "reflexion", "learning.reflect"),
    ("judge", "outcome", "learning.record_outcome"),
    ("raise", "promotion", "learning.demote"),
    ("raise", "promotion", "learning.promote"),
    ("gain", "evolution", "learning.evolve"),
    ("practise", "skills", "learning.learn_skills"),
]
TOOLS = {
    "store_pattern",
    "store_reflexion",
    "learning.reflect",
    "learning.record_exposure",
    "learning.record_outcome",
    "promote_to_long_term",
    "learning.promote",
    "learning.demote",
    "learning.rollback",
    "learning.evolve",
    "learning.learn_skills",
}
REASONS = ["accesses 1 > 0 yes", "success 1.00 > 0.50 yes", "age 8.00 > 7 days yes"]


class Done(NamedTuple):
    runs: Runs
    printed: str
    password: str

    def run(self, name: str, under: str) -> dict[str, Any]:
        """The first run of a verb below a root."""
        return self.runs.named(name, under)[0]

    def of_verbs(self) -> Iterator[dict[str, Any]]:
        """The runs of all verbs."""
        names = TOOLS | {"learning.get_lessons", "get_context"}
        return (run for run in self.runs.by_id.values() if run["name"] in names)

    def below(self, root: str) -> list[dict[str, Any]]:
        """Those of them that belong to a root."""
        return [run for run in self.of_verbs() if self.runs.path(run)[0] == root]


@pytest.fixture(scope="module")
def done(server_url: str, template: str) -> Iterator[Done]:
    name = f"traced_learning_{os.getpid()}"
    with psycopg.connect(server_url, autocommit=True) as conn:
        conn.execute(f"CREATE DATABASE {name} TEMPLATE {template}".encode())
    password = str(conninfo_to_dict(server_url).get("password") or "not-for-anyone-either")
    url = make_conninfo(server_url, dbname=name, password=password)
    runs = Runs()
    with serving(runs) as endpoint:
        printed = run_program(PROGRAM, url, **traced_to(endpoint))
    yield Done(runs, printed, password)
    with psycopg.connect(server_url, autocommit=True) as conn:
        conn.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@pytest.mark.parametrize("root", GRAPHS)
def test_what_a_node_learned_hangs_below_the_node(done: Done, root: str) -> None:
    for node, name, verb in NODES:
        (run,) = done.runs.named(verb, under=root)

        assert run["run_type"] == "tool"
        assert done.runs.path(run) == [root, node, name, verb]
        assert "error" not in run


@pytest.mark.parametrize("root", ALONE)
def test_every_verb_of_learning_is_a_run_named_like_its_blocking_twin(
    done: Done, root: str
) -> None:
    below = done.below(root)

    assert {run["name"] for run in below} == TOOLS | {"learning.get_lessons"}
    for run in below:
        assert run["run_type"] == ("tool" if run["name"] in TOOLS else "retriever")
        assert done.runs.path(run) == [root, run["name"]]


@pytest.mark.parametrize("root", GRAPHS)
def test_a_reflexion_shows_the_attempts_and_what_was_stored(done: Done, root: str) -> None:
    run = done.run("learning.reflect", root)

    (attempt,) = run["inputs"]["attempts"]
    assert attempt == {
        "task_id": TASK,
        "approach": 'add({"amount": "1,234"})',
        "error": BROKEN,
        "tool": "add",
        "succeeded_with": None,
    }
    (stored,) = run["outputs"]["output"]
    assert stored | {"stored": True, "tier": "working"} == stored


@pytest.mark.parametrize("root", [*GRAPHS, *ALONE])
def test_a_promotion_shows_its_policy_and_each_decision_with_its_reasons(
    done: Done, root: str
) -> None:
    run = done.run("learning.promote", root)

    policy = run["inputs"]["policy"]
    assert policy["min_success_rate"] == EASY.min_success_rate
    assert policy["memory_types"] == list(EASY.memory_types)
    (promotion,) = run["outputs"]["output"]
    assert promotion["promoted"] is True, promotion["reason"]
    assert promotion["sources"] == [promotion["key"]]
    assert promotion["successor"] != promotion["key"]
    assert promotion["move"]
    decision = promotion["decision"]
    assert (decision["verdict"], decision["reasons"][:3]) == ("promote", REASONS)


@pytest.mark.parametrize("root", ALONE)
def test_lessons_are_documents_and_a_failure_is_shown_in_words(done: Done, root: str) -> None:
    run = done.run("learning.get_lessons", root)

    assert run["inputs"]["failures"] == "ValueError: the amount '1,234' has a comma"
    assert run["inputs"]["run_id"] == {"id": "1", "root": "whole"}
    (document,) = run["outputs"]["output"]
    assert document["type"] == "Document"
    assert "Do instead: Leave the comma out" in document["page_content"]
    assert document["metadata"]["explanation"]["signature"] > 0
    assert done.run("learning.record_exposure", root)["inputs"]["recollections"] == [document]
    assert done.run("store_reflexion", root)["inputs"]["failure"] == run["inputs"]["failures"]


def test_a_cycle_says_what_it_decided_and_why(done: Done) -> None:
    applied = [run for run in done.runs.named("apply", "cycle") if run.get("outputs")]
    assert "it says the same as an older one" in {
        one["reason"] for run in applied for one in run["inputs"].get("decisions", ())
    }


def test_no_run_holds_a_vector_a_key_or_the_password_of_the_database(done: Done) -> None:
    assert not any(vectors(run) for run in done.runs.by_id.values())
    failed = [run for run in done.of_verbs() if "Unavailable" in run.get("error", "")]

    assert len(failed) == 1  # where no server answers, which the driver says at length
    assert done.runs.sent
    assert not any(KEY in text or done.password in text for text in done.runs.sent)


class BrokenError(Exception):
    def __str__(self) -> str:
        raise RuntimeError


class Held(NamedTuple):
    key: str


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (ChatOpenAI(model="gpt-5-mini", api_key=SecretStr(KEY)), "ChatOpenAI(gpt-5-mini)"),
        (GenericFakeChatModel(messages=iter(())), "GenericFakeChatModel"),
        (Teacher(messages=iter(())).with_fallbacks([]), "RunnableWithFallbacks"),
        (partial(print, KEY), "partial"),
        (KEY.encode(), "bytes"),
        (BrokenError(KEY), f"{__name__}.BrokenError: <exception str() failed>"),
        (ValueError("line 1\nline 2"), "ValueError: line 1\nline 2"),
        (Clock().now, "2026-03-01T12:00:00+00:00"),
        (Tier.WORKING, "working"),
        ({1: {"b", "a"}}, {"1": ["a", "b"]}),
        ({"tag": 1}.keys(), ["tag"]),
        (Held("one"), {"key": "one"}),
        (len, "len"),
    ],
    ids=lambda one: type(one).__name__,
)
def test_what_was_given_is_shown_as_json_that_reads_well(given: object, shown: object) -> None:
    found = _inputs({"given": given, "nothing": None, "none": ()})

    assert found == {"given": shown}
    assert type(found["given"]) is type(shown)
