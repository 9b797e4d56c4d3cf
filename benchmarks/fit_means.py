"""Fits the weights that say whether a message only talks and whether it needs memory.

Run it with `python -m benchmarks.fit_means`; it prints how the messages of each hand are judged by
a fit on all others. With `--write` it then writes the fit on all of them, `recall/means`. What
ships was cut from a fit for which 3,458 more messages stood among the others, about what is taken
back. A kind is learned from these records of `benchmarks/data`:

- `talk`: messages that only talk or ask something of the world, and what is asked in lives and
  needs no memory; against messages that tell something or ask to be reminded, and what a later
  question of a life is about.
- `needs`: messages and questions that memory helps with; against those that anybody could answer.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import numpy as np
import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table

import langmem_tiers
from benchmarks.data import Record, records
from benchmarks.fit_likeness import Matrix, fitted
from langmem_tiers.core import linear_model
from langmem_tiers.core.texts import BIAS, tokens
from langmem_tiers.recall.message_intent import (
    MessageIntent,
    sentence_features,
    tokenize_sentence,
    tokenize_sentences,
)

KINDS: Final = MessageIntent._fields
OF_ALL: Final = frozenset(["talk"])
"""Those that all sentences of a message are to be; of another kind one is enough."""
WRONGLY: Final = {"talk": 0.005, "needs": 0.02}
"""The share of messages that are not of a kind of which half a chance is; of `needs`, of those that
are."""
_TWICE: Final = 2
_OFTEN: Final = 3
"""Messages that a word is in which counts by itself."""
_SOFTNESS: Final = 30.0
_LEAST: Final = 0.3
"""Weights that are smaller ship for no kind, but for words."""
_WHERE: Final = Path(langmem_tiers.__file__).parent / "recall"


class Message(NamedTuple):
    """A message of a hand, and what it is known to do and not to do."""

    writer: str
    text: str
    does: Mapping[str, bool]


class Judged(NamedTuple):
    """What a fit on all other hands makes of a message."""

    message: Message
    score: float

    def right(self, kind: str) -> bool:
        """Whether it is of a kind."""
        return self.message.does[kind]


def messages() -> list[Message]:
    """All messages, of every hand."""
    return [*_single(), *_lives(), *_asked()]


def told_of(several: Sequence[Message], kind: str) -> list[Message]:
    """Those of which a kind is known."""
    return [one for one in several if kind in one.does and tokens(one.text)]


_KNOWN: Final[Mapping[str, Mapping[str, bool]]] = {
    "need": {"needs": True},
    "world": {"talk": True, "needs": False},
    "talk": {"talk": True, "needs": False},
    "tell": {"talk": False},
    "remind": {"talk": False},
}
"""What is known of a single message of a kind."""


def _single() -> Iterator[Message]:
    for one in records("messages"):
        yield Message(one["writer"], one["message"], _KNOWN[one["kind"]])


def _lives() -> Iterator[Message]:
    for life in records("life"):
        wanted = [text for event in life["events"] for text in wanted_of(event)]
        for event in life["events"]:
            if (text := event.get("ask") or event.get("say")) is None:
                continue
            does = dict[str, bool]()
            if any(one in text.casefold() for one in wanted):
                does["talk"] = False
            if event.get("nothing"):
                does |= {"talk": True, "needs": False}
            elif wanted_of(event):
                does["needs"] = True
            if does:
                yield Message(life["writer"], text, does)


def _asked() -> Iterator[Message]:
    for group in records("asked"):
        for one in group["queries"]:
            if one["kind"] != "absent":
                yield Message(group["writer"], one["query"], {"needs": bool(one["relevant"])})


def wanted_of(event: Record) -> list[str]:
    """What a question of a life is to be shown, in small letters."""
    wanted = [*event.get("shown", ()), *event.get("any", ())]
    return [one.casefold() for one in (*wanted, *(first for first, _ in event.get("order", ())))]


def vocabulary(several: Iterable[Message]) -> frozenset[str]:
    """The words of several messages."""
    counted = Counter(word for one in several for word in {*tokenize_sentence(one.text, _EVERY)})
    return frozenset(word for word, count in counted.items() if count >= _OFTEN)


class _Every(frozenset[str]):
    """Where every word is known."""

    def __contains__(self, word: object) -> bool:
        return True


_EVERY: Final = _Every()


class Fit(NamedTuple):
    """The weights of a kind."""

    kind: str
    known: frozenset[str]
    weights: Mapping[str, float]

    def score(self, message: Message) -> float:
        """The logarithm of the odds that a message is of the kind."""
        several = [
            self._sum(sentence_features(one))
            for one in tokenize_sentences(message.text, self.known)
        ]
        if not several:
            return math.inf if self.kind in OF_ALL else -math.inf
        best = min(several) if self.kind in OF_ALL else max(several)
        return self.weights[BIAS] + best

    def _sum(self, found: frozenset[str]) -> float:
        return sum(self.weights.get(one, 0.0) for one in found) / math.sqrt(max(1, len(found)))


def fit(several: Sequence[Message], kind: str, known: frozenset[str]) -> Fit:
    """The weights of a kind."""
    told = told_of(several, kind)
    rows = [_features(one, known) for one in told]
    counted = Counter(feature for row in rows for feature in row)
    names = sorted(name for name, count in counted.items() if count >= _TWICE)
    right = np.array([one.does[kind] for one in told], float)
    found = fitted(Matrix.of(rows, names), right, _SOFTNESS)
    return Fit(
        kind, known, {BIAS: float(found[-1]), **dict(zip(names, map(float, found), strict=False))}
    )


def _features(one: Message, known: frozenset[str]) -> frozenset[str]:
    return frozenset[str]().union(*map(sentence_features, tokenize_sentences(one.text, known)))


def fits_without(several: Sequence[Message], kind: str) -> dict[str, Fit]:
    """A fit for each hand, on the messages of all others."""
    found = {}
    for writer in sorted({one.writer for one in several if kind in one.does}):
        others = [one for one in several if one.writer != writer]
        found[writer] = fit(others, kind, vocabulary(others))
    return found


def judged(several: Sequence[Message], kind: str) -> list[Judged]:
    """Each message, judged by a fit on all other hands."""
    fits = fits_without(several, kind)
    return [Judged(one, fits[one.writer].score(one)) for one in told_of(several, kind)]


def bound(several: Sequence[Judged], kind: str) -> float:
    """The score that `WRONGLY` says."""
    wanted = kind == "needs"
    scores = [one.score for one in several if one.right(kind) is wanted]
    share = WRONGLY[kind] if wanted else 1 - WRONGLY[kind]
    return float(np.quantile([one for one in scores if math.isfinite(one)], share))


def table(kind: str, several: Sequence[Judged], least: float) -> Table:
    """What is found of each hand from a score on."""
    columns = ("hand", "messages", "are", "found", "rightly", "are not", "found wrongly")
    made = Table(*columns, title=f"{kind}, by other hands")
    for writer in (*sorted({one.message.writer for one in several}), ""):
        own = [one for one in several if writer in ("", one.message.writer)]
        found = [one for one in own if one.score >= least]
        are, rightly = (sum(one.right(kind) for one in some) for some in (own, found))
        counts = (len(own), are, len(found), rightly, len(own) - are, len(found) - rightly)
        made.add_row(writer or "all", *map(str, counts))
    return made


def main(*, write: Annotated[bool, typer.Option(help="Write what ships.")] = False) -> None:
    """Print what is made of each hand's messages, and write the fit of all."""
    console = Console(width=100)
    several = messages()
    known = vocabulary(several)
    columns: list[dict[str, float]] = []
    for kind in track(KINDS, "fitting", console=Console(stderr=True)):
        seen = judged(several, kind)
        least = bound(seen, kind)
        console.print(table(kind, seen, least))
        weights = dict(fit(several, kind, known).weights)
        columns.append({**weights, BIAS: weights[BIAS] - least})
    if write:
        names = {name for one in columns for name in one}
        rows = {name: [one.get(name, 0.0) for one in columns] for name in names}
        kept = {name: row for name, row in rows.items() if name in known or _counts(row)}
        linear_model.write_weights(_WHERE, "message_intent", kept)
        console.print(f"{len(kept):,} weights of {len(several):,} messages: means")


def _counts(row: Sequence[float]) -> bool:
    return max(map(abs, row)) >= _LEAST


if __name__ == "__main__":
    typer.run(main)
