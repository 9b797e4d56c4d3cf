"""What LangSmith is told of a cycle of consolidation."""

from __future__ import annotations

import os
from collections.abc import Iterator

import psycopg
import pytest

from tests.support.chat_server import serving
from tests.support.langsmith_server import Runs, run_program, traced_to, vectors

PROGRAM = "tests.support.traced_consolidation"
MERGE = ["select", "propose", "review", "apply"]


@pytest.fixture(scope="module")
def runs(server_url: str, template: str) -> Iterator[Runs]:
    name = f"traced_consolidation_{os.getpid()}"
    with psycopg.connect(server_url, autocommit=True) as conn:
        conn.execute(f"CREATE DATABASE {name} TEMPLATE {template}".encode())
    url = psycopg.conninfo.make_conninfo(server_url, dbname=name)
    runs = Runs()
    with serving(runs) as endpoint:
        run_program(PROGRAM, url, **traced_to(endpoint))
    yield runs
    with psycopg.connect(server_url, autocommit=True) as conn:
        conn.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@pytest.mark.parametrize(("root", "around"), [("alone", "alone"), ("agent", "tidy")])
def test_each_node_is_a_run_of_its_name_in_the_trace_around_it(
    runs: Runs, root: str, around: str
) -> None:
    nodes = [
        run
        for node in ("begin", *MERGE, "report")
        for run in runs.named(node, root)
        if (run.get("extra") or {}).get("metadata", {}).get("langgraph_node") == node
    ]

    assert {run["name"] for run in nodes} == {"begin", *MERGE, "report"}
    assert all(around in runs.path(run) for run in nodes)


def test_a_run_says_what_was_decided_and_why_but_shows_no_vector(runs: Runs) -> None:
    applied = [run for run in runs.named("apply", "alone") if (run.get("outputs") or {})]
    decided = [
        (one["key"], one["target_key"], one["reason"])
        for run in applied
        for one in run["inputs"].get("decisions", ())
    ]

    assert ("2", "1", "it says the same as an older one") in decided
    assert not any(vectors(run.get("inputs")) or vectors(run.get("outputs")) for run in applied)
