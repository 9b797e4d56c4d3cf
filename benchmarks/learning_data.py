"""The logs of the Reflexion agent, where they are: programming tasks, and ALFWorld trials."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

FOLDER = Path("../shared/data/reflexion")
"""Where the logs are looked for if nothing else is said."""
WINDOW = 3
"""Reflexions that the ALFWorld agent was shown at once."""

_ADVICE = re.compile(r"(?<=[.!?]) +(?=[^.!?]*(?:should have|will|next trial))")


class Programming(NamedTuple):
    """A task of the programming log."""

    name: str
    prompt: str
    reflections: Sequence[str]
    solution: str
    solved: bool
    test: str


class Household(NamedTuple):
    """An environment after a trial."""

    name: str
    memory: Sequence[str]
    success: bool


class Advice(NamedTuple):
    """A reflexion in the parts of a lesson."""

    tried: str
    reason: str
    instead: str


Trial = Mapping[str, Household]


def missing(folder: Path) -> str | None:
    """Why the logs cannot be used; None if they can."""
    wanted = [folder / "mbpp-py-run1.jsonl", folder / "alfworld-trial-00.json"]
    absent = [one.name for one in wanted if not one.exists()]
    return f"no {' and no '.join(absent)} in {folder}" if absent else None


def programming(folder: Path, run: int) -> list[Programming]:
    """The tasks of one run, in their order."""
    path = folder / f"mbpp-py-run{run}.jsonl"
    rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return [
        Programming(
            row["name"],
            row["prompt"],
            [said.strip() for said in row["reflections"] or () if said.strip()],
            row["solution"],
            row["is_solved"],
            row["test"],
        )
        for row in rows
    ]


def trials(folder: Path) -> list[Trial]:
    """The trials in their order: of each household its reflexions *after* the trial."""
    found: list[Trial] = []
    for path in sorted(folder.glob("alfworld-trial-*.json")):
        rows = json.loads(path.read_text(encoding="utf-8"))
        found.append(
            {
                row["name"]: Household(
                    row["name"], [one.strip() for one in row["memory"]], row["is_success"]
                )
                for row in rows
            }
        )
    return found


def parts(reflexion: str) -> Advice:
    """A reflexion cut where it begins to say what should have been done.

    Where it begins with advice, or has none, the whole of it stands for the missing part.
    """
    reason, *advice = _ADVICE.split(reflexion, maxsplit=1)
    tried = re.split(r"(?<=[.!?]) ", reflexion, maxsplit=1)[0]
    return Advice(tried, reason, advice[0] if advice else reflexion)
