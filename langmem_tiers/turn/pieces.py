"""Fragments while a context is fitted: as they are written, and what says the same."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from langmem_tiers.core.memory import Recollection
from langmem_tiers.turn.layout import Fragment, Section, Stage, written


@dataclass(slots=True, eq=False)
class Piece:
    """A fragment of a stage, and what becomes of it."""

    stage: Stage
    fragment: Fragment
    taken: bool = False
    reason: str = ""
    original: Piece | None = None
    """What says the same before it, of a memory."""
    nearest: Piece | None = None
    """What it repeats in other words, among the memories that are chosen."""
    needless: bool = False
    """Whether the model reads it anyway."""
    written: str = field(init=False)
    """As its stage writes it."""
    said: tuple[object, ...] = field(init=False)
    """What it is known by: its words, and as a memory its place."""

    def __post_init__(self) -> None:
        """Write it."""
        memory = self.fragment.memory
        self.says(self.fragment)
        self.said = (words(self.fragment.text), *(() if memory is None else (place(memory),)))

    def says(self, fragment: Fragment) -> None:
        """Say this much of it."""
        self.fragment, self.written = fragment, written(fragment, self.stage)

    @property
    def late(self) -> bool:
        """Tell whether it gets room after all else, as a memory that answers nothing."""
        return self.fragment.memory is not None and self.fragment.rank > 0

    @property
    def precedence(self) -> tuple[bool, int, bool, float]:
        """Where it stands among those that wait for room."""
        memory = self.fragment.memory
        matters = self.fragment.rank if memory is None else -memory.score
        return self.late, self.stage.rank, memory is not None, matters


def alike(one: Piece, other: Piece) -> bool:
    """Whether two say the same; of what is no memory, each stands for itself."""
    memories = one.fragment.memory is not None or other.fragment.memory is not None
    return memories and any(each in other.said for each in one.said)


def place(memory: Recollection) -> tuple[tuple[str, ...], str]:
    """Where a memory is."""
    return memory.namespace, memory.key


def words(text: str) -> str:
    """A text, whatever its case and spaces."""
    return " ".join(text.split()).casefold()


def told(stage: Stage, section: Section) -> Iterator[Fragment]:
    """What a section says; if nothing, what its stage says instead."""
    if len(section):
        yield from section
    elif stage.empty:
        yield nothing(stage)


def nothing(stage: Stage) -> Fragment:
    """What stands in the place of a section that says nothing."""
    return Fragment(
        text=stage.empty, source=stage.source, rationale="its source answered nothing", data=False
    )
