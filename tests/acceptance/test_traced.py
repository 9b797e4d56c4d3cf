"""With tracing on, everything is as it is without, and every verb is a run of a LangSmith."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.chat_server import serving
from tests.support.langsmith_server import OFF, ROOT, Runs, traced_to

HERE = Path(__file__).parent
SNIPPETS = "test_docs.py::test_every_snippet_of_a_page_runs_in_order_and_prints_what_is_shown"
PAGES = ("hooks", "reminders", "truth")
SCENARIOS = [
    *(
        str(HERE / f"test_specification_{one}.py")
        for one in ("amplihack", "chimera", "orchestrator")
    ),
    *(f"{HERE / SNIPPETS}[{page}.md]" for page in PAGES),
]
"""What uses the verbs as users do: examples of specifications, and pages of the documentation."""
HOOKS = {
    "on_session_start",
    "on_user_prompt_submit",
    "on_todo_write_complete",
    "complete_task",
    "on_session_stop",
}
VERBS = {
    *("store", "store_many", "get_context", "delete_memory"),
    *("reminders.due", "reminders.add", "reminders.acknowledge", "learning.evolve"),
    *("admin.archive", "admin.restore_archive", "truth.supersede", "truth.retract"),
    *("assemble_context", "memorize", "commit"),
    *("add_interaction", "start_task", "set_goal"),
}


@pytest.mark.slow
def test_the_scenarios_pass_with_tracing_on_and_their_verbs_are_runs(server_url: str) -> None:
    runs, env = Runs(), {name: one for name, one in os.environ.items() if "PYTEST" not in name}
    with serving(runs) as endpoint:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", *SCENARIOS],
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
            cwd=ROOT,
            env={**env, **OFF, "LANGMEM_TIERS_TEST_DSN": server_url, **traced_to(endpoint)},
        )
    assert done.returncode == 0, done.stdout[-20_000:]
    assert {run["name"] for run in runs.by_id.values()} >= HOOKS | VERBS
    for run in runs.by_id.values():
        if run["name"] in HOOKS:
            assert run["run_type"] == "tool"
            assert "tenant" in run["extra"]["metadata"]
