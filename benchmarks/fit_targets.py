"""Fits the weights that say which memory an act is about: `remember/targets.json`.

`fit_means` runs it. A memory is chosen among all, or none is. Each act of `data/acts.jsonl` that
has an answer is about some of the messages before it; among them stand messages of other records:
of a hundred and fifty drawn by chance the nearest, up to six, and up to five more, as in the memory
of somebody who talks of many things, or of few. Of an act that says what it is about a copy teaches
that it is about none of the others.

How often what a message does and which memory it means are right together, is printed as well: of
acts, of what looks like one, and of what is said in lives in which nothing is taken back.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from rich.table import Table

import langmem_tiers
from benchmarks.data import Record, records
from benchmarks.fitting import Flags, Floats, Lists, fit_ranking
from langmem_tiers.postgres.embeddings import LocalEmbeddings
from langmem_tiers.postgres.minilm import MiniLMEmbeddings
from langmem_tiers.postgres.multilingual import MultilingualEmbeddings
from langmem_tiers.postgres.offline import OfflineEmbeddings
from langmem_tiers.recall.dedupe import words
from langmem_tiers.remember.acts import Earlier
from langmem_tiers.remember.means import bounded, parts
from langmem_tiers.remember.targets import (
    FEATURES,
    MAY_ACT,
    MEANT,
    OTHER,
    RARE,
    Near,
    features,
    meant,
)

WHERE: Final = Path(langmem_tiers.__file__).parent / "remember" / "targets.json"
EMBEDDINGS: Final[Mapping[str, type[OfflineEmbeddings]]] = {
    "local": LocalEmbeddings,
    "minilm": MiniLMEmbeddings,
    "multilingual": MultilingualEmbeddings,
}
NEARNESS: Final = frozenset(
    ["near", "behind", "sentence", "sentence_behind", "best", "last_far", "latest_far"]
)
"""What only a known model says."""
_DRAWN, _NEAREST, _FURTHER = 150, 6, 5
_DRAWS: Final = 3
"""How often each act is put among others: what is drawn is chance."""
_LATE: Final = 0.5
"""The share of what others said that stands between, and not before, what was said."""
_BEGAN: Final = datetime(2026, 3, 1, tzinfo=UTC)
_RIDGE: Final = 1e-3
_NAMES: Final = 5
"""Words from which an act says what it is about."""
_HALF: Final = 0.5
"""What a copy of an act counts."""
_DIGITS: Final = 3


ACTS: Final = ("retract", "correct")
LOOKS: Final = "none"
ORDINARY: Final = "ordinary"
"""What is said in a life in which nothing is taken back or corrected."""
_BEFORE: Final = 12
"""What was said last in a life, at most."""
Odds = Mapping[tuple[str, str, str], float]
"""The logarithm of the odds that a text is of a kind, with an answer, by a fit on other hands."""


class Sought(NamedTuple):
    """A message, with what is measured of each memory before it and whether it is about that."""

    writer: str
    kind: str
    said: str
    answer: str
    rows: Floats
    """The last one is of no memory."""
    right: Flags
    others: Floats | None
    """The rows of those memories that it is not about, if it says what it is about."""


def common() -> dict[str, float]:
    """What each word weighs that one message of 200 has: the less, the more messages have it."""
    counted, several = Counter[str](), 0
    for one in records("acts"):
        for text in (one["message"], *(turn["user"] for turn in one["turns"])):
            counted.update({*words(text)})
            several += 1
    weights = {word: math.log(several / count) for word, count in counted.items()}
    return {word: round(one, 2) for word, one in sorted(weights.items()) if one < RARE}


def sought(embeddings: OfflineEmbeddings, weighs: Mapping[str, float]) -> Iterator[Sought]:
    """All acts that have an answer, what looks like one, and what is said in lives."""
    several = [one for one in records("acts") if one["reply"]]
    lives = list(lived())
    vectors = _Vectors(embeddings, [*several, *lives])
    rng = random.Random(1)
    others = [(n, turn) for n, one in enumerate(several) for turn in one["turns"]]
    drawn_for = [(n, one) for _ in range(_DRAWS) for n, one in enumerate(several)]
    for number, one in (*drawn_for, *enumerate(lives, len(several))):
        strange = list[str]()
        if one["act"] != ORDINARY:
            drawn = [turn["user"] for n, turn in rng.sample(others, _DRAWN) if n != number]
            near = sorted(drawn, key=lambda text: -vectors.near(one["message"], text).whole)
            strange = [*near[: rng.randint(0, _NEAREST)], *drawn[: rng.randint(0, _FURTHER)]]
        told = list(_told(one, strange, rng))

        def rows_of(said: str, earlier: Sequence[Earlier]) -> Floats:
            near = [vectors.near(said, each.content) for each in earlier]
            return np.array([*features(said, earlier, near, weighs), (0.0,) * len(FEATURES)])

        rest = [each for each, right in told if not right]
        named = len(one["message"].split()) >= _NAMES and rest
        yield Sought(
            one["writer"],
            one["act"],
            one["message"],
            one["reply"],
            rows_of(one["message"], [each for each, _ in told]),
            np.array([*(right for _, right in told), not one["targets"]]),
            rows_of(one["message"], rest) if named else None,
        )


def lived() -> Iterator[Record]:
    """What is said in lives in which nothing is taken back, as acts that are none."""
    for life in records("life"):
        if life["kind"] in (*ACTS, "update"):
            continue
        before = list[str]()
        for event in life["events"]:
            if (text := event.get("say") or event.get("ask")) is None:
                continue
            if before:
                yield {
                    "writer": life["writer"],
                    "act": ORDINARY,
                    "message": text,
                    "reply": event.get("reply", ""),
                    "turns": [
                        {"session": n, "user": one} for n, one in enumerate(before[-_BEFORE:])
                    ],
                    "now": len(before[-_BEFORE:]) - 1,
                    "targets": [],
                }
            before += [text] if "say" in event else []


def _told(
    record: Record, strange: Sequence[str], rng: random.Random
) -> Iterator[tuple[Earlier, bool]]:
    """What was said before an act, the oldest first, and whether the act is about it."""
    sessions = sorted({turn["session"] for turn in record["turns"]})
    blocks = [
        [
            (turn["user"], str(session), place in record["targets"])
            for place, turn in enumerate(record["turns"])
            if turn["session"] == session
        ]
        for session in sessions
    ]
    now = str(record["now"])
    last = [blocks.pop()] if sessions[-1] == record["now"] else []
    for number, text in enumerate(strange):
        place = rng.randint(0, len(blocks)) if rng.random() < _LATE else 0
        blocks.insert(place, [(text, f"other {number}", False)])
    for number, (text, session, right) in enumerate(
        each for block in (*blocks, *last) for each in block
    ):
        at = _BEGAN + timedelta(minutes=number)
        yield Earlier(text, at, session == now, session), right


class _Vectors:
    """The vectors of all messages and of their sentences."""

    def __init__(self, embeddings: OfflineEmbeddings, several: Sequence[Record]) -> None:
        texts = {turn["user"] for one in several for turn in one["turns"]}
        for one in several:
            texts |= {one["message"], *parts(one["message"])}
        ordered = sorted(texts)
        found = np.array(embeddings.embed_documents(ordered))
        self._rows = dict(zip(ordered, found, strict=True))

    def near(self, message: str, text: str) -> Near:
        """How near a text is to a message, and to its sentences."""
        other = self._rows[text]
        whole = float(self._rows[message] @ other)
        sentences = [float(self._rows[one] @ other) for one in parts(message)]
        return Near(whole, max(sentences, default=whole))


def fitted_on(several: Sequence[Sought], kind: str, *, by_words: bool = False) -> dict[str, float]:
    """The weights of a kind of acts."""
    own = [one for one in several if one.kind == kind]
    used = np.array([not (by_words and name in NEARNESS) for name in FEATURES])
    lists = [(one.rows * used, one.right, 1.0) for one in own]
    for one in own:
        if one.others is not None:
            none = np.arange(len(one.others)) == len(one.others) - 1
            lists.append((one.others * used, none, _HALF))
    rows, right, weight = zip(*lists, strict=True)
    found = fit_ranking(
        Lists.of_questions(rows, right, weight), np.zeros(len(FEATURES), bool), ridge=_RIDGE
    )
    return {name: round(float(one), _DIGITS) for name, one in zip(FEATURES, found, strict=True)}


Fits = Mapping[str, Mapping[str, Floats]]
"""For each hand the weights of each kind of acts, by all other hands."""


def fits_without(several: Sequence[Sought]) -> Fits:
    """A fit for each hand, on the acts of all others."""
    found = dict[str, dict[str, Floats]]()
    for writer in sorted({one.writer for one in several}):
        others = [one for one in several if one.writer != writer]
        weights = {kind: fitted_on(others, kind) for kind in ACTS}
        found[writer] = {
            kind: np.array([row[name] for name in FEATURES]) for kind, row in weights.items()
        }
    return found


def table(several: Sequence[Sought], fits: Fits, model: str) -> Table:
    """What is found of the acts of each kind by fits on other hands."""
    columns = (
        "act",
        "there",
        "about one surely",
        "that one",
        "none is meant",
        "found all the same",
    )
    made = Table(*columns, title=f"what acts are about, by other hands: {model}")
    for kind in ACTS:
        own = [one for one in several if one.kind == kind]
        counts = sum(np.array(_counted(one, fits[one.writer][kind])) for one in own)
        made.add_row(kind, *map(str, np.array(counts)))
    return made


def table_together(several: Sequence[Sought], fits: Fits, odds: Odds, model: str) -> Table:
    """What is done to memory for messages of each kind, by fits on other hands."""
    columns = ("message", "there", "acts on what is meant", "on another memory")
    made = Table(*columns, title=f"act and memory together, by other hands: {model}")
    for kind in (*ACTS, LOOKS, ORDINARY):
        own = [one for one in several if one.kind == kind]
        done = [_done(one, fits, odds) for one in own]
        right = sum(
            place is not None and bool(one.right[place])
            for one, place in zip(own, done, strict=True)
        )
        acted = sum(place is not None for place in done)
        made.add_row(kind, *map(str, (len(own), right, acted - right)))
    return made


def _done(one: Sought, fits: Fits, odds: Odds) -> int | None:
    """The memory that is taken back or corrected, as `targets.read` decides; or none."""
    scores = {kind: _odds(one, kind, odds) for kind in ACTS}
    kind = max(scores, key=scores.__getitem__)
    acts = 1 / (1 + math.exp(-bounded(scores[kind])))
    if acts < MAY_ACT:
        return None
    chances = np.exp(one.rows @ fits[one.writer][kind])
    return meant(acts, [float(each) for each in chances[:-1] / chances.sum()])


def _odds(one: Sought, kind: str, odds: Odds) -> float:
    """What is plainly taken back or corrected is so, whatever is answered."""
    return max(odds.get((kind, one.said, answer), -math.inf) for answer in (one.answer, ""))


def _counted(one: Sought, weights: Floats) -> list[int]:
    odds = np.exp(one.rows @ weights)
    likely = odds[:-1] / odds.sum()
    surely = likely.max() >= MEANT
    right = surely and bool(one.right[likely.argmax()])
    gone = 0
    if one.others is not None:
        odds = np.exp(one.others @ weights)
        gone = odds[:-1].max() / odds.sum() >= MEANT
    return [1, surely, right, one.others is not None, gone]


def fit_targets(odds: Odds) -> tuple[dict[str, Any], list[Table]]:
    """What ships, and how good it is."""
    weights, tables, weighs = dict[str, Any](), list[Table](), common()
    for name, kind in EMBEDDINGS.items():
        several = list(sought(kind(), weighs))
        weights[name] = {act: fitted_on(several, act) for act in ACTS}
        fits = fits_without(several)
        once = list({(one.writer, one.said, one.answer): one for one in several}.values())
        tables += [table(once, fits, name), table_together(once, fits, odds, name)]
        if name == "local":
            weights[OTHER] = {act: fitted_on(several, act, by_words=True) for act in ACTS}
    return {"common": weighs, "models": weights}, tables
