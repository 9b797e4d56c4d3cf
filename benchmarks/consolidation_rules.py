"""Whether the rules know what is the same, and what is no longer true.

`python -m benchmarks.consolidation_rules [--memories 50000] [--set tune]`, on a year of
docs/consolidation-benchmarks.md, offline, with the local embeddings.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Literal, NamedTuple

import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from benchmarks.year import Event, Truth, Year
from benchmarks.year_held_out import HELD_OUT
from benchmarks.year_plots import LOOK_ALIKES, NEAR_MISSES, PARAPHRASES
from benchmarks.year_tune import TUNE
from benchmarks.year_validation import VALIDATION
from langmem_tiers.consolidate.contradictions import contradictions
from langmem_tiers.consolidate.duplicates import clusters
from langmem_tiers.consolidate.items import Item
from langmem_tiers.consolidate.policy import MergePolicy, SupersedePolicy
from langmem_tiers.postgres.embeddings import LocalEmbeddings

SETS = {"tune": TUNE, "validation": VALIDATION, "held-out": HELD_OUT}
SEED = 7
"""Of the year that is reported; the rules were looked at on others."""
TENANT_MEMORIES = 250
THRESHOLDS = tuple(number / 100 for number in range(50, 100))

Pairs = set[tuple[str, str]]
"""What was decided, and the older or newer memory it was decided by."""


class Share(NamedTuple):
    """So many of so many."""

    of: int
    all: int

    @property
    def value(self) -> float:
        return self.of / self.all if self.all else 1.0

    def __str__(self) -> str:
        return f"{self.value:.4f} ({self.of:,} of {self.all:,})"


class Namespace(NamedTuple):
    """The memories of one namespace in working, with the cosine of each two."""

    keys: list[str]
    items: list[Item]
    cosines: NDArray[np.float32]

    def near(self, least: float) -> dict[tuple[int, int], float]:
        """The pairs that are as near as that, by id."""
        ones, others = np.nonzero(np.triu(self.cosines >= least, 1))
        return {
            (int(one), int(other)): float(self.cosines[one, other])
            for one, other in zip(ones, others, strict=True)
        }


class Found(NamedTuple):
    """What rules and thresholds decided over all namespaces."""

    merged: Pairs
    by_cosine: Mapping[float, Pairs]
    superseded: Pairs


def namespaces(year: Year) -> Iterator[Namespace]:
    """Everything stored in working, as it would lie in the store at the year's end."""
    stored: defaultdict[tuple[str, str], list[Event]] = defaultdict(list)
    for event in year.events():
        if event.kind == "store" and event.tier == "working":
            stored[event.tenant, event.project].append(event)
    model = LocalEmbeddings()
    for events in stored.values():
        vectors = np.array(model.embed_documents([one.content for one in events]), np.float32)
        items = [
            Item(number, one.at, one.content, one.memory_type) for number, one in enumerate(events)
        ]
        yield Namespace([one.key for one in events], items, vectors @ vectors.T)


def find(year: Year) -> Found:
    """Put every namespace to the rules, and to a cosine threshold alone."""
    merged, superseded = Pairs(), Pairs()
    by_cosine: dict[float, Pairs] = {one: set() for one in THRESHOLDS}
    policy, types = MergePolicy(), SupersedePolicy().memory_types
    for space in namespaces(year):
        keys, items = space.keys, space.items
        for one in clusters(items, space.near(policy.near_duplicate), policy):
            merged |= {(keys[other], keys[one.survivor]) for other in one.others}
        changing = [one for one in items if one.memory_type in types]
        superseded |= {(keys[one.older], keys[one.newer]) for one in contradictions(changing)}
        for least in THRESHOLDS:
            by_cosine[least] |= _nearest_older(space, least)
    return Found(merged, by_cosine, superseded)


def _nearest_older(space: Namespace, least: float) -> Pairs:
    """What is tempting: each memory lives on in the oldest survivor that is near enough."""
    pairs, survivors = Pairs(), list[int]()
    for number, key in enumerate(space.keys):
        close = [one for one in survivors if space.cosines[one, number] >= least]
        if close:
            pairs.add((key, space.keys[close[0]]))
        else:
            survivors.append(number)
    return pairs


def right(found: Pairs, truth: Mapping[str, str]) -> Pairs:
    """Merges of one planted group: two misspelt ones may find each other before the original."""
    return {(one, other) for one, other in found if truth.get(one, one) == truth.get(other, other)}


def precision(found: Pairs, truth: Mapping[str, str]) -> Share:
    return Share(len(right(found, truth)), len(found))


def recall(found: Pairs, truth: Mapping[str, str]) -> Share:
    return Share(sum(one in truth for one, _ in right(found, truth)), len(truth))


def f1(found: Pairs, truth: Mapping[str, str]) -> float:
    merged = len(right(found, truth))
    return 2 * merged / (len(found) + len(truth)) if merged else 0.0


class Sheet(NamedTuple):
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


def sheets(found: Found, truth: Truth, name: str) -> Iterator[Sheet]:
    """Every table of a run."""
    best = max(THRESHOLDS, key=lambda one: f1(found.by_cosine[one], truth.duplicates))
    rows = [
        (said, str(precision(pairs, truth.duplicates)), str(recall(pairs, truth.duplicates)))
        for said, pairs in (
            ("the rules", found.merged),
            (f"a cosine of {best:.2f} alone, its best", found.by_cosine[best]),
            ("a cosine of 0.90 alone", found.by_cosine[0.9]),
        )
    ]
    planted = found.superseded & set(truth.contradictions.items())
    rows.append(
        (
            "superseded, by the rules",
            str(Share(len(planted), len(found.superseded))),
            str(Share(len(planted), len(truth.contradictions))),
        )
    )
    yield Sheet(f"Decisions, {name}", ("", "precision", "recall"), rows)
    tempting = found.by_cosine[best]
    yield Sheet(
        f"Paraphrases that were merged, {name}",
        ("family", "the rules", "the cosine"),
        [
            (one, str(_merged(found.merged, truth, one)), str(_merged(tempting, truth, one)))
            for one in (*PARAPHRASES, "told again")
        ],
    )
    yield Sheet(
        f"Merged, and were different: {name}",
        ("plot", "family", "the rules", "the cosine"),
        list(_mistaken(found.merged, tempting, truth)),
    )
    wrongly = Counter(truth.family[one][1] for one, _ in _wrong(found.superseded, truth))
    yield Sheet(
        f"Superseded, and were true: {name}",
        ("family", "memories"),
        [(one, str(wrongly[one])) for one in LOOK_ALIKES],
    )


def _wrong(superseded: Pairs, truth: Truth) -> Pairs:
    return {pair for pair in superseded if truth.contradictions.get(pair[0]) != pair[1]}


def _merged(found: Pairs, truth: Truth, family: str) -> Share:
    planted = {
        key: first for key, first in truth.duplicates.items() if truth.family[key][1] == family
    }
    return recall(found, planted)


def _mistaken(found: Pairs, tempting: Pairs, truth: Truth) -> Iterator[tuple[str, ...]]:
    kinds: list[tuple[str, str]] = [("near-miss", one) for one in NEAR_MISSES]
    kinds += [("look-alike", one) for one in LOOK_ALIKES]
    counts = [
        Counter(truth.family[one] for one, _ in pairs - right(pairs, truth.duplicates))
        for pairs in (found, tempting)
    ]
    for kind in kinds:
        yield (*kind, *(str(one[kind]) for one in counts))
    others = [sum(one.values()) - sum(one[kind] for kind in kinds) for one in counts]
    yield ("others", "", *map(str, others))


def show(sheets: Iterator[Sheet], console: Console) -> None:
    for sheet in sheets:
        table = Table(title=sheet.title, title_justify="left")
        for number, name in enumerate(sheet.columns):
            table.add_column(name, justify="left" if number == 0 else "right")
        for row in sheet.rows:
            table.add_row(*row)
        console.print(table)


def main(
    memories: Annotated[int, typer.Option(help="How many a year holds.")] = 50_000,
    phrases: Annotated[
        Literal["tune", "validation", "held-out"], typer.Option("--set")
    ] = "held-out",
    seed: Annotated[int, typer.Option()] = SEED,
) -> None:
    """Measure the rules on a year, and print every table."""
    tenants = max(1, memories // TENANT_MEMORIES)
    year = Year(seed, memories, tenants, SETS[phrases])
    show(sheets(find(year), year.truth, phrases), Console(width=120))


if __name__ == "__main__":
    typer.run(main)
