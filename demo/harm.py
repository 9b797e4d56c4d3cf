"""Three lessons, one of which harms: nobody says which, and runs find out."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from langmem_tiers import MemoryContext, MemoryCoordinator, TieredStore

EFFECTS: Final[Mapping[str, float]] = {"helps": 0.35, "does nothing": 0.0, "harms": -0.4}
"""How much more often a run succeeds that is shown the lesson."""
NIGHTS: Final = 12
A_DAY: Final = 20
"""Runs of each lesson's task between two nights."""
_USUAL: Final = 0.5
_SEED: Final = 3


@dataclass(slots=True)
class Trial:
    """How often each lesson was shown, day by day, and what was held back."""

    shown: dict[str, list[int]] = field(default_factory=lambda: {name: [] for name in EFFECTS})
    held_back: dict[str, int] = field(default_factory=dict)
    """Lessons, with the night in which it was done."""


def tried(store: TieredStore) -> Trial:
    """Let runs succeed and fail by chance, with the lessons and without; each night is judged."""
    memory = MemoryCoordinator(store, context=MemoryContext(tenant="trial", project_id="luck"))
    names = {_lesson(memory, name): name for name in EFFECTS}
    luck = random.Random(_SEED)  # noqa: S311 - chance, not a secret
    trial = Trial()
    for night in range(NIGHTS):
        for name, effect in EFFECTS.items():
            seen = 0
            for number in range(A_DAY):
                run = f"{name}-{night}-{number}"
                shown = bool(memory.learning.get_lessons(tools=name, run_id=run))
                chance = _USUAL + effect * shown
                memory.learning.record_outcome(run_id=run, success=luck.random() < chance)
                seen += shown
            trial.shown[name].append(seen)
        for one in memory.learning.demote():
            if one.demoted:
                trial.held_back[names[one.key]] = night + 1
    return trial


def _lesson(memory: MemoryCoordinator, name: str) -> str:
    stored = memory.store_reflexion(
        task_id=f"a task whose lesson {name}",
        original_approach="the usual way",
        failure_reason="it failed",
        improved_approach=f"a way that {name}",
        tool=name,
    )
    return str(stored.key)
