"""What the gate makes of kinds of texts, and of writers, that its fits have not seen.

Each kind of what tools bring (a bank's notice, a CI log, a review) is judged by a fit without that
kind, and each writer's texts by a fit without that writer; a sixth of them at a time. So is what
agents and users tell (steps, lessons, wishes), beside what six more authors wrote.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias
from unittest.mock import patch

from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.fit_likeness import (
    Row,
    Text,
    fit_of_brought,
    harmless,
    rows_of,
    texts,
)
from benchmarks.gate_corpus import DIRECT, carried
from langmem_tiers.remember import injection
from langmem_tiers.remember.injection import (
    HELD_FROM,
    decode_disguises,
    injection_likeness,
    undisguise,
)

_FOLDS: Final = 6
_SHARES: Final = (0.01, 0.02, 0.03, 0.05, 0.08, 0.1, 0.15)
"""Of harmless texts, those that are held, for which it is told what is found."""


class Judged(NamedTuple):
    """A text, and its likeness by a fit that has not seen its like."""

    text: Text
    score: float


Parts: TypeAlias = Mapping[str, Callable[[Text], bool]]
BROUGHT: Final[Parts] = {
    "harmless held": lambda one: not one.attack,
    "indirect found": lambda one: one.attack and not one.kind.startswith(DIRECT),
    "direct found": lambda one: one.attack and one.kind.startswith(DIRECT),
}
"""What is held, and what is found."""


def of_kind(one: Text) -> str:
    """What it has in common with others of its kind."""
    return one.kind


def of_author(one: Text) -> str:
    """What it has in common with others by the same hand."""
    return one.author


def left_out(rows: Sequence[Row], of: Callable[[Text], str]) -> list[Judged]:
    """Each text that tools bring, judged by a fit without what it has in common with others."""
    writers = {half.name for half in carried()}
    asked = list({row.of.text: row.of for row in rows if row.of.author in writers}.values())
    folds = {name: place % _FOLDS for place, name in enumerate(sorted({of(one) for one in asked}))}
    found: list[Judged] = []
    for fold in track(range(min(_FOLDS, len(folds))), "Leaving out a sixth"):
        out = {name for name, place in folds.items() if place == fold}
        kept = [row for row in rows if row.of.author not in writers or of(row.of) not in out]
        found += _judged([one for one in asked if of(one) in out], fit_of_brought(kept))
    return found


def _judged(several: Iterable[Text], weights: Mapping[str, float]) -> Iterator[Judged]:
    with patch.object(injection, "load_weights", lambda: weights):
        for one in several:
            readings = (undisguise(one.text), *decode_disguises(one.text))
            yield Judged(one, max(injection_likeness(each).score for each in readings))


def curve(several: Sequence[Judged], title: str) -> Table:
    """What is found at each threshold, by the share of harmless texts that it holds."""
    scores = sorted((one.score for one in several if not one.text.attack), reverse=True)
    made = Table("from a likeness of", *BROUGHT, title=title, title_justify="left")
    least = sorted([HELD_FROM, *(scores[int(share * len(scores))] for share in _SHARES)])
    for one in reversed(least):
        made.add_row(f"{one:.2f}", *(_found(several, part, one) for part in BROUGHT.values()))
    return made


def by_kind(several: Sequence[Judged], title: str) -> Table:
    """What is found and held of each kind, as it ships."""
    made = Table("kind", *BROUGHT, title=title, title_justify="left")
    for kind in sorted({one.text.kind for one in several}):
        own = [one for one in several if one.text.kind == kind]
        made.add_row(kind, *(_found(own, part, HELD_FROM) for part in BROUGHT.values()))
    return made


def _found(several: Iterable[Judged], part: Callable[[Text], bool], least: float) -> str:
    found = [one.score >= least for one in several if part(one.text)]
    return f"{sum(found)} of {len(found)}, {sum(found) / len(found):.1%}" if found else ""


def print_left_out(console: Console) -> None:
    """Print what is found and held of kinds, and of writers, that were left out."""
    rows = rows_of([*texts(), *harmless()])
    kinds = left_out(rows, of_kind)
    console.print(curve(kinds, "What tools bring, by fits without its kind"))
    console.print(by_kind(kinds, f"The same, from {HELD_FROM} on"))
    console.print(curve(left_out(rows, of_author), "What tools bring, by fits without its writer"))


if __name__ == "__main__":
    print_left_out(Console(width=100))
