"""Tools that fail, and tasks for them: how a task tells which fault it will meet.

docs/learning-benchmarks.md says what was chosen before anything was measured.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from benchmarks.faulty_families import FAMILIES, Draw, FaultFamily, path

OWN, SHARED, HIDDEN = WORLDS = (
    "a tool for each family",
    "two families in each tool",
    "two families, told by nothing",
)
"""How a task tells which fault it will meet: by its tool, by its words, or not at all."""
PROJECTS = ("north", "south")
TASKS = 200
FIRES = 0.9
"""The share of tasks whose fault fires while the remedy is missing."""


class Task(NamedTuple):
    """Something to be done; `fires` says whether the family's fault strikes."""

    number: int
    project: str
    family: FaultFamily
    tool: str
    question: str
    target: str
    fires: bool


_SILENT = ("Take care of {target} for {city}", "{city} waits for {target}", "Do {target} in {city}")
_CITIES = ("Lyon", "Oslo", "Porto", "Ghent", "Turin", "Graz", "Malmö", "Bilbao", "Cork", "Brno")


def tool_of(family: FaultFamily, world: str) -> str:
    """The name of the tool that a family strikes in."""
    return family.tool if world != OWN else f"{family.tool}_{family.noun.replace(' ', '_')}"


def tools(world: str) -> dict[str, list[str]]:
    """Each tool of a world, and the arguments that it takes beside its target."""
    found: dict[str, list[str]] = {}
    for one in FAMILIES:
        found.setdefault(tool_of(one, world), []).extend(one.remedy)
    return found


def tasks(world: str, seed: int, count: int = TASKS) -> Iterator[Task]:
    """The same tasks for the same seed, in every world."""
    draw = random.Random(f"tasks {seed}")
    for number in range(count):
        family = draw.choice(FAMILIES)
        target = path(draw)
        phrasings = _SILENT if world == HIDDEN else family.phrasings
        said = draw.choice(phrasings).format(target=target, city=draw.choice(_CITIES))
        project, fires = draw.choice(PROJECTS), draw.random() < FIRES
        yield Task(number, project, family, tool_of(family, world), said, target, fires)


def call(task: Task, arguments: Mapping[str, Any], draw: Draw) -> str:
    """Do what the tool does for this task, or fail as its family does."""
    family = task.family
    remedied = all(arguments.get(name) == value for name, value in family.remedy.items())
    if task.fires and not remedied:
        raise family.make(draw)
    return f"{task.tool} is done with {task.target}"
