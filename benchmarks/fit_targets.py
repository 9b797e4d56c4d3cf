"""Fits the weights that say which memory an act is about: `remember/targets.json`.

`fit_means` runs it. A memory is chosen among all, or none is. Each act of `data/acts.jsonl` that
has an answer is about some of the messages before it; among them stand messages of other records:
of a hundred and fifty drawn by chance the nearest, up to six, and up to five more, as in the memory
of somebody who talks of many things, or of few. Of an act that says what it is about a copy teaches
that it is about none of the others.
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
from langmem_tiers.remember.means import parts
from langmem_tiers.remember.targets import FEATURES, MEANT, OTHER, RARE, Near, features

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
_LATE: Final = 0.5
"""The share of what others said that stands between, and not before, what was said."""
_BEGAN: Final = datetime(2026, 3, 1, tzinfo=UTC)
_RIDGE: Final = 1e-3
_NAMES: Final = 5
"""Words from which an act says what it is about."""
_HALF: Final = 0.5
"""What a copy of an act counts."""
_DIGITS: Final = 3


class Sought(NamedTuple):
    """An act, with what is measured of each memory before it and whether it is about that."""

    writer: str
    kind: str
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
    """All acts that have an answer."""
    several = [one for one in records("acts") if one["reply"]]
    vectors = _Vectors(embeddings, several)
    rng = random.Random(1)
    others = [(n, turn) for n, one in enumerate(several) for turn in one["turns"]]
    for number, one in enumerate(several):
        if one["act"] == "none":
            continue
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
            rows_of(one["message"], [each for each, _ in told]),
            np.array([*(right for _, right in told), not one["targets"]]),
            rows_of(one["message"], rest) if named else None,
        )


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


def table(several: Sequence[Sought], model: str) -> Table:
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
    for kind in ("retract", "correct"):
        counts = np.zeros(5, int)
        for writer in sorted({one.writer for one in several}):
            others = [one for one in several if one.writer != writer]
            weights = fitted_on(others, kind)
            row = np.array([weights[name] for name in FEATURES])
            for one in several:
                if one.kind == kind and one.writer == writer:
                    counts += _counted(one, row)
        made.add_row(kind, *map(str, counts))
    return made


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


def fit_targets() -> tuple[dict[str, Any], list[Table]]:
    """What ships, and how good it is."""
    weights, tables, weighs = dict[str, Any](), list[Table](), common()
    for name, kind in EMBEDDINGS.items():
        several = list(sought(kind(), weighs))
        weights[name] = {act: fitted_on(several, act) for act in ("retract", "correct")}
        tables.append(table(several, name))
        if name == "local":
            found = {act: fitted_on(several, act, by_words=True) for act in ("retract", "correct")}
            weights[OTHER] = found
    return {"common": weighs, "models": weights}, tables
