"""A LangSmith on this machine: it keeps the runs that it is sent, and serves feedback on them."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

ROOT = Path(__file__).parents[2]
OFF = {name: "" for name in os.environ if name.startswith(("LANGSMITH_", "LANGCHAIN_"))}
"""What keeps a program from being traced by what the environment says."""
_BATCHES = {
    "use_multipart_endpoint": False,
    "size_limit": 100,
    "size_limit_bytes": 20_000_000,
    "scale_up_qsize_trigger": 1000,
    "scale_up_nthreads_limit": 1,
    "scale_down_nempty_trigger": 4,
}


class Runs:
    """What was sent to LangSmith: each run by its id; and the feedback there is."""

    def __init__(self) -> None:
        self.by_id: dict[str, dict[str, Any]] = {}
        self.sent: list[str] = []
        self.feedback: list[dict[str, Any]] = []
        self.requests = 0

    def __call__(self, path: str, body: bytes, headers: dict[str, str]) -> Any:
        self.requests += 1
        if path.startswith("/info"):
            return {"batch_ingest_config": _BATCHES}
        if path.startswith("/feedback"):
            return self._page(parse_qs(urlsplit(path).query))
        if body:
            text = gzip.decompress(body) if headers.get("content-encoding") == "gzip" else body
            self.sent.append(text.decode())
            sent = json.loads(text)
            for run in [*sent.get("post", []), *sent.get("patch", [])]:
                known = self.by_id.setdefault(run["id"], {})
                known |= {name: one for name, one in run.items() if one is not None}
        return {}

    def _page(self, asked: dict[str, list[str]]) -> list[dict[str, Any]]:
        """What LangSmith answers to `list_feedback`: the feedback on these runs, newest first."""
        start, limit = (int(asked.get(name, ["0"])[0]) for name in ("offset", "limit"))
        found = [one for one in self.feedback if one["run_id"] in asked.get("run", [])]
        return found[::-1][start : start + limit]

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


def traced_to(endpoint: str) -> dict[str, str]:
    """The environment of a program that is traced."""
    return {
        "LANGSMITH_TRACING": "true",
        "LANGSMITH_ENDPOINT": endpoint,
        "LANGSMITH_API_KEY": "none",
        "LANGSMITH_PROJECT": "tests",
    }


def run_program(module: str, url: str, **env: str) -> str:
    """Run a program of the tests on a database; what it printed."""
    done = subprocess.run(
        [sys.executable, "-m", module, url],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        cwd=ROOT,
        env={**os.environ, **OFF, "PYTHONPATH": os.fspath(ROOT), **env},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def vectors(found: Any) -> bool:
    """Whether there is a list of many numbers somewhere within."""
    if isinstance(found, dict):
        return any(map(vectors, found.values()))
    if isinstance(found, list):
        numbers = [one for one in found if isinstance(one, float)]
        return len(numbers) > 8 or any(map(vectors, found))
    return False
