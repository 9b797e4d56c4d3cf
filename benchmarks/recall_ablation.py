"""What each feature is worth: the same candidates ranked without it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from benchmarks.recall_metrics import Floats, Interval, interval
from benchmarks.recall_report import Ablation, StyleResult
from benchmarks.recall_system import NAMES, Evidence
from langmem_tiers.recall.matching import weights_for_model

GROUPS = (
    *((name,) for name in NAMES),
    ("window", "previous"),
    ("named", "assistant"),
    ("when", "date"),
)
_DISCOUNT = 1 / np.log2(np.arange(2, 12))


def ablations(styles: Sequence[StyleResult]) -> Iterator[Ablation]:
    """Each group of features left out, the other weights as they are."""
    full = np.array([weights_for_model("local").features[name] for name in NAMES])
    for group in GROUPS:
        less = full * [name not in group for name in NAMES]
        yield Ablation(
            without=", ".join(group), changes={one.name: _change(one, full, less) for one in styles}
        )


def _change(style: StyleResult, full: Floats, less: Floats) -> tuple[Interval, Interval]:
    changed = np.array(
        [
            np.subtract(_quality(one, less, gold), _quality(one, full, gold))
            for one, gold in zip(style.evidence, style.gold, strict=True)
        ]
    )
    return interval(changed[:, 0]), interval(changed[:, 1])


def _quality(evidence: Evidence, weights: Floats, gold: frozenset[str]) -> tuple[float, float]:
    """recall@10 and nDCG@10."""
    best = evidence.ranked(evidence.matrix @ weights)[:10]
    hits = np.array([key in gold for key in best], float)
    ideal = _DISCOUNT[: len(gold)].sum()
    return float(hits.sum() / len(gold)), float(hits @ _DISCOUNT[: len(hits)] / ideal)
