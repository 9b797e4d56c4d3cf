"""What a run found, as plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.recall_metrics import METRICS, Floats, Interval, column, interval
from benchmarks.recall_system import Evidence

OURS = "get_context, by match"
BM25, PEER = "BM25", "PostgresStore"
DENSE, LEXICAL = "its dense leg alone", "its lexical leg alone"
PROFILES = ("calibrated", "aurora")
SYSTEMS = (
    *(OURS, BM25, PEER, DENSE, LEXICAL),
    *(f"profile {name}, {state}" for name in PROFILES for state in ("fresh", "used")),
)


def fresh(profile: str) -> str:
    """A profile in a store where nothing was read yet."""
    return f"profile {profile}, fresh"


def used(profile: str) -> str:
    """A profile after each question was asked once with it and its results counted as read."""
    return f"profile {profile}, used"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cutoff:
    """What the cut-off does: shares of questions that got nothing, and what right ones lost."""

    wrong: Sequence[float] = ()
    """1 for each question to another history that got nothing, else 0."""
    adversarial: Sequence[float] = ()
    """The same for questions to the right history about what was never said."""
    lost: Sequence[float] = ()
    """What each question lost of recall@10."""


@dataclass(slots=True, kw_only=True)
class StyleResult:
    """Everything measured on one style; figures are questions × METRICS."""

    name: str
    memories: int
    histories: int
    skipped: int
    categories: list[str] = field(default_factory=list)
    figures: dict[str, Floats] = field(default_factory=dict)
    chosen: dict[str, Sequence[tuple[float, float]]] = field(default_factory=dict)
    """By budget, for a sample: evidence that `max_tokens` chose, and that plain order has."""
    cutoff: Cutoff = field(default_factory=Cutoff)
    evidence: list[Evidence] = field(default_factory=list)
    gold: list[frozenset[str]] = field(default_factory=list)

    def of(self, system: str, metric: str) -> Interval:
        """A system's mean."""
        return interval(column(self.figures[system], metric))

    def over(self, system: str, metric: str) -> Interval:
        """How much better ours is than another, question by question."""
        ours, theirs = (column(self.figures[one], metric) for one in (OURS, system))
        return interval(ours - theirs)

    def as_json(self) -> dict[str, Any]:
        """For `json.dump`."""
        return {
            "name": self.name,
            "memories": self.memories,
            "histories": self.histories,
            "questions": len(self.categories),
            "skipped references": self.skipped,
            "systems": {
                system: {metric: self.of(system, metric)._asdict() for metric in METRICS}
                for system in self.figures
            },
            "wrong history: nothing": interval(self.cutoff.wrong)._asdict(),
            "adversarial: nothing": interval(self.cutoff.adversarial)._asdict(),
            "recall@10 lost": interval(self.cutoff.lost)._asdict(),
            "chosen by max_tokens": {
                name: [float(one) for one in np.mean(pairs, axis=0)]
                for name, pairs in self.chosen.items()
            },
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Ablation:
    """What recall@10 and nDCG@10 change without some features, by style."""

    without: str
    changes: Mapping[str, tuple[Interval, Interval]]


@dataclass(slots=True)
class Results:
    """A whole run."""

    environment: dict[str, str]
    styles: list[StyleResult] = field(default_factory=list)
    ablations: list[Ablation] = field(default_factory=list)
    seconds: float = 0.0

    def style(self, name: str) -> StyleResult | None:
        """What was measured on that style, if it was."""
        return next((one for one in self.styles if one.name == name), None)

    def as_json(self) -> dict[str, Any]:
        """For `json.dump`."""
        return {
            "environment": self.environment,
            "seconds": self.seconds,
            "styles": [one.as_json() for one in self.styles],
            "ablations": [
                {
                    "without": one.without,
                    "changes": {
                        style: {"recall@10": recall._asdict(), "nDCG@10": gain._asdict()}
                        for style, (recall, gain) in one.changes.items()
                    },
                }
                for one in self.ablations
            ],
        }
