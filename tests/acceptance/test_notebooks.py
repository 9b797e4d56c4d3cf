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
        "No memories.",
        "recalled in the session: True",
        "recalled in the project: False",
        "As far as I know: Ben approves every refund above 500 euros.",
    ),
    "02_recall": ("0 memories", "Every Tuesday at seven", "left out:"),
    "03_learning": (
        "python: ValueError: invalid literal for <value> with base <value>",
        "7 of 7 runs succeeded, 0.63 to 1.00",
        "promoted: promoted (accesses 9 > 5 yes; success 1.00 > 0.80 yes; age 8.00 > 7 days yes;",
        "rolled back: True",
        "payroll knows 0 lessons",
        "repeated failures: 144 without memory",
    ),
    "04_consolidation": (
        "merge      apply    1 memories  1 done",
        "now: ['The deployment port is 8443.']",
        "at ten past nine: ['The deployment port is 80.']",
        "rolled back: 3 moves",
        "in two weeks: 18 rose; proposed: {'merge': 14, 'supersede': 20}",
    ),
    "05_a_turn": (
        "quarantined by now: 0",
        "tokens of 400",
        "events 4 of 10, 60 seconds left",
        "09:00:05  committed",
        "kept: 1 as events, 0 as concepts",
        "[LOW] Clean up the old branches later, no rush",
        "Ben asks: []",
        "Anna asks: [MEDIUM] Ask Anna for the figures",
    ),
}
PICTURES = dict(zip(SHOWN, (0, 8, 2, 1, 1), strict=True))
SECONDS = 300
"""What one cell may take on a machine that is busy; a whole notebook takes a tenth of it."""

pytestmark = pytest.mark.slow


def read(path: Path) -> Any:
    return nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]


def outputs(notebook: Any) -> list[Mapping[str, Any]]:
    return [one for cell in notebook.cells for one in cell.get("outputs", ())]


def as_text(output: Mapping[str, Any]) -> str:
    data = output.get("data", {})
    parts = (output.get("text"), data.get("text/plain"))
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

    assert outputs(notebook) == []
    assert not any(cell.get("execution_count") for cell in notebook.cells)
    assert notebook.metadata.kernelspec.name == "python3"
