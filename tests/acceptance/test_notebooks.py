"""The notebooks run from top to bottom, and show what they say they show."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
SHOWN = {
    "01_quickstart": (
        "The API key rotates on Mondays.",
        "<p>No memories.</p>",
        "recalled in the session: True",
        "recalled in the project: False",
        "As far as I know: Ben approves every refund above 500 euros.",
    ),
    "02_recall": ("0 memories", "Every Tuesday at seven", "left out:"),
    "03_learning": (
        "python: ValueError: invalid literal for <value> with base <value>",
        "credited by the second report of a run: 0",
        "7 of 7 runs succeeded, 0.63 to 1.00",
        "chance of success above 0.80 0.83 >= 0.95 no",
        "promoted: promoted (accesses 9 > 5 yes; success 1.00 > 0.80 yes; age 8.00 > 7 days yes;",
        "<b>source</b>",
        "<b>successor</b>",
        "rolled back: True",
        "payroll knows 0 lessons",
        "repeated failures: 144 without memory",
    ),
    "04_consolidation": (
        "merge      apply    1 memories  1 done",
        "proposed: port, new port: a newer one may contradict it, or say the same</li>",
        "consolidated",
        "now: ['The deployment port is 8443.']",
        "at ten past nine: ['The deployment port is 80.']",
        "rolled back: 3 moves",
        "launch     short_term current",
        "in two weeks: 18 rose; proposed: {'merge': 14, 'supersede': 20}",
    ),
    "05_a_turn": (
        "trivial: a greeting",
        "recalled: False",
        "quarantined by now: 0",
        "## Frontal Cortex",
        "the agent may call it",
        "tokens of 400",
        "events 4 of 10, 60 seconds left",
        "tool calls   2",
        'Do instead: rotate({"key": "api", "vault": "open"})',
        "09:00:05  committed",
        "[high] at 2026-03-03T17:00:00+00:00",
        "kept: 1 as events, 0 as concepts",
        "{'decision_type': 'decision'}",
        "[LOW] Clean up the old branches later, no rush",
        "Ben asks: []",
        "Anna asks: [MEDIUM] When Anna mentions the budget",
        "at five: [HIGH] I need to renew the certificate",
    ),
}
PICTURES = {
    "01_quickstart": 0,
    "02_recall": 8,
    "03_learning": 2,
    "04_consolidation": 1,
    "05_a_turn": 1,
}
SECONDS = 300
"""What one cell may take on a machine that is busy; a whole notebook takes a tenth of it."""

pytestmark = pytest.mark.slow


def read(path: Path) -> Any:
    return nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]


def outputs(notebook: Any) -> list[Mapping[str, Any]]:
    return [one for cell in notebook.cells for one in cell.get("outputs", ())]


def as_text(output: Mapping[str, Any]) -> str:
    data = output.get("data", {})
    parts = (output.get("text"), data.get("text/html"), data.get("text/plain"))
    return "\n".join(str(part) for part in parts if part)


@pytest.fixture
def kernel_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels that import this checkout, and leave nothing in the home directory."""
    for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    monkeypatch.setenv("PYTHONPATH", path)


@pytest.mark.usefixtures("kernel_home")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_from_top_to_bottom_and_shows_what_it_says(
    path: Path, tmp_path: Path
) -> None:
    notebook = read(path)
    client = NotebookClient(
        notebook,
        timeout=SECONDS,
        startup_timeout=SECONDS,
        resources={"metadata": {"path": str(tmp_path)}},
    )
    client.execute()

    shown = outputs(notebook)
    text = "\n".join(map(as_text, shown))
    assert [part for part in SHOWN[path.stem] if part not in text] == []
    assert sum("image/png" in one.get("data", {}) for one in shown) == PICTURES[path.stem]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_without_outputs_for_any_python_3(path: Path) -> None:
    notebook = read(path)

    assert path.stem in SHOWN.keys() & PICTURES.keys()
    assert outputs(notebook) == []
    assert [
        one.execution_count
        for one in notebook.cells
        if one.cell_type == "code" and one.execution_count
    ] == []
    assert notebook.metadata.kernelspec.name == "python3"
