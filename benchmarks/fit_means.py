"""Fits the weights that say what a message does: `remember/means.tsv`.

Run it with `python -m benchmarks.fit_means`; it prints how the messages of each hand are judged by
a fit on all others. With `--write` it then writes the fit on all of them, and which memory an act
is about (`fit_targets`). A kind is learned from these records of `benchmarks/data`:

- `talk`: messages that only talk or ask something of the world, and what is asked in lives and
  needs no memory; against messages that tell something or ask to be reminded, and what a later
  question of a life, or a later act, is about.
- `needs`: messages and questions that memory helps with; against those that anybody could answer.
- `intends`: messages that ask to be reminded, in any words; against all others.
- `retract`, `correct`: acts of that kind, with the answer to them; against all other acts and
  messages, and what is said in lives in which nothing is taken back.
"""

from __future__ import annotations

import json
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
from benchmarks.fit_targets import WHERE, fit_targets
from langmem_tiers.remember.instructs import BIAS, tokens
from langmem_tiers.remember.means import (
    Means,
    features,
    features_of_answer,
    first_of,
    named_in,
    parts,
    written,
)

KINDS: Final = Means._fields
ANSWERED_KINDS: Final = frozenset(["intends", "retract", "correct"])
"""Those of which the answer to a message tells."""
OF_ALL: Final = frozenset(["talk"])
"""Those that all sentences of a message are to be; of another kind one is enough."""
WRONGLY: Final = {
    "talk": 0.005,
    "needs": 0.02,
    "intends": 0.002,
    "retract": 0.001,
    "correct": 0.003,
}
"""The share of messages that are not of a kind, and not written to look like it, of which half a
chance is; of `needs`, of those that are."""
_TWICE: Final = 2
_OFTEN: Final = 3
"""Messages that a word is in which counts by itself."""
_SOFTNESS: Final = 30.0
_DIGITS: Final = 2
_LEAST: Final = 0.3
"""Weights that are smaller ship for no kind, but for words."""
_WHERE: Final = Path(langmem_tiers.__file__).parent / "remember" / "means.tsv"


class Message(NamedTuple):
    """A message of a hand, with the answer to it and what it is known to do and not to do."""

    writer: str
    text: str
    answer: str
    does: Mapping[str, bool]
    ordinary: bool = True
    """Whether it was not written to look like a kind that it is none of."""


class Judged(NamedTuple):
    """What a fit on all other hands makes of a message."""

    message: Message
    score: float

    def right(self, kind: str) -> bool:
        """Whether it is of a kind."""
        return self.message.does[kind]


def messages() -> list[Message]:
    """All messages, of every hand."""
    return [*_single(), *_acts(), *_lives(), *_asked()]


def told_of(several: Sequence[Message], kind: str) -> list[Message]:
    """Those of which a kind is known; each also as if it had no answer yet, where that counts."""
    told = [one for one in several if kind in one.does and tokens(one.text)]
    alone = [one._replace(answer="") for one in told if one.answer]
    return [*told, *alone] if kind in ANSWERED_KINDS else told


_NOTHING: Final = dict.fromkeys(("intends", "retract", "correct"), False)
_KNOWN: Final[Mapping[str, Mapping[str, bool]]] = {
    "need": {"needs": True, **_NOTHING},
    "world": {"talk": True, "needs": False, **_NOTHING},
    "talk": {"talk": True, "needs": False, **_NOTHING},
    "tell": {"talk": False, **_NOTHING},
    "remind": {"talk": False, **_NOTHING, "intends": True},
    "notremind": _NOTHING,
}
"""What is known of a single message of a kind."""


_OF_REMINDERS: Final = frozenset(["acts-n", "acts-o"])
"""Hands whose messages are about reminders, and may ask for one."""


def _single() -> Iterator[Message]:
    for one in records("messages"):
        ordinary = one["kind"] != "notremind"
        yield Message(one["writer"], one["message"], one["reply"], _KNOWN[one["kind"]], ordinary)


def _acts() -> Iterator[Message]:
    for one in records("acts"):
        does = {kind: one["act"] == kind for kind in ("retract", "correct")}
        if one["writer"] not in _OF_REMINDERS:
            does["intends"] = False
        yield Message(one["writer"], one["message"], one["reply"], does, ordinary=False)
        for place in one["targets"]:
            yield Message(one["writer"], one["turns"][place]["user"], "", {"talk": False})


def _lives() -> Iterator[Message]:
    for life in records("life"):
        wanted = [text for event in life["events"] for text in wanted_of(event)]
        acts = (
            {}
            if life["kind"] in ("retract", "correct", "update")
            else {"retract": False, "correct": False}
        )
        calm = acts if life["kind"] == "intention" else {**acts, "intends": False}
        for event in life["events"]:
            if (text := event.get("ask") or event.get("say")) is None:
                continue
            does = dict(calm)
            if any(one in text.casefold() for one in wanted):
                does["talk"] = False
            if event.get("nothing"):
                does |= {"talk": True, "needs": False}
            elif wanted_of(event):
                does["needs"] = True
            if does:
                yield Message(life["writer"], text, event.get("reply", ""), does)


def _asked() -> Iterator[Message]:
    for group in records("asked"):
        for one in group["queries"]:
            if one["kind"] != "absent":
                yield Message(group["writer"], one["query"], "", {"needs": bool(one["relevant"])})


def wanted_of(event: Record) -> list[str]:
    """What a question of a life is to be shown, in small letters."""
    wanted = [*event.get("shown", ()), *event.get("any", ())]
    return [one.casefold() for one in (*wanted, *(first for first, _ in event.get("order", ())))]


def vocabulary(several: Iterable[Message]) -> frozenset[str]:
    """The words of several messages."""
    words = (
        {*named_in(one.text, _EVERY), *named_in(first_of(one.answer), _EVERY)} for one in several
    )
    counted = Counter(word for found in words for word in found)
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
        several = [self._sum(features(one, self.known)) for one in parts(message.text)]
        if not several:
            return math.inf if self.kind in OF_ALL else -math.inf
        best = min(several) if self.kind in OF_ALL else max(several)
        return self.weights[BIAS] + best + self._sum(self._answered(message))

    def _answered(self, message: Message) -> frozenset[str]:
        answer = message.answer if self.kind in ANSWERED_KINDS else ""
        return features_of_answer(first_of(answer), self.known)

    def _sum(self, found: frozenset[str]) -> float:
        return sum(self.weights.get(one, 0.0) for one in found) / math.sqrt(max(1, len(found)))


def fit(several: Sequence[Message], kind: str, known: frozenset[str]) -> Fit:
    """The weights of a kind."""
    told = told_of(several, kind)
    rows = [_rows(one, kind, known) for one in told]
    counted = Counter(feature for row in rows for part in row for feature in part)
    names = sorted(name for name, count in counted.items() if count >= _TWICE)
    right = np.array([one.does[kind] for one in told], float)
    found = fitted(_matrix(rows, names), right, _SOFTNESS)
    return Fit(
        kind, known, {BIAS: float(found[-1]), **dict(zip(names, map(float, found), strict=False))}
    )


def _rows(one: Message, kind: str, known: frozenset[str]) -> tuple[frozenset[str], frozenset[str]]:
    said = frozenset(feature for part in parts(one.text) for feature in features(part, known))
    answer = one.answer if kind in ANSWERED_KINDS else ""
    return said, features_of_answer(first_of(answer), known)


def _matrix(rows: Sequence[tuple[frozenset[str], frozenset[str]]], names: Sequence[str]) -> Matrix:
    """Both parts of each row; the length of one says nothing of what the other counts."""
    parts_of = [Matrix.of([row[n] for row in rows], names) for n in (0, 1)]
    size = len(names)
    second = parts_of[1].column != size  # one bias is enough
    return Matrix(
        np.concatenate([parts_of[0].row, parts_of[1].row[second]]),
        np.concatenate([parts_of[0].column, parts_of[1].column[second]]),
        np.concatenate([parts_of[0].value, parts_of[1].value[second]]),
        parts_of[0].shape,
    )


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
    scores = [one.score for one in several if one.right(kind) is wanted and one.message.ordinary]
    share = WRONGLY[kind] if wanted else 1 - WRONGLY[kind]
    return float(np.quantile([one for one in scores if math.isfinite(one)], share))


def table(kind: str, several: Sequence[Judged], least: float) -> Table:
    """What is found of each hand from a score on."""
    columns = ("hand", "messages", "are", "found", "rightly", "ordinary", "found wrongly")
    made = Table(*columns, title=f"{kind}, by other hands")
    for writer in (*sorted({one.message.writer for one in several}), ""):
        own = [one for one in several if writer in ("", one.message.writer)]
        found = [one for one in own if one.score >= least]
        plain = [one for one in own if one.message.ordinary and not one.right(kind)]
        wrong = [one for one in plain if one.score >= least]
        rightly = sum(one.right(kind) for one in found)
        counts = (len(own), sum(one.right(kind) for one in own), len(found), rightly)
        made.add_row(writer or "all", *map(str, (*counts, len(plain), len(wrong))))
    return made


def main(*, write: Annotated[bool, typer.Option(help="Write what ships.")] = False) -> None:
    """Print what is made of each hand's messages, and write the fit of all."""
    console = Console(width=100)
    several = messages()
    known = vocabulary(several)
    columns: list[dict[str, float]] = []
    odds = dict[tuple[str, str, str], float]()
    for kind in track(KINDS, "fitting", console=Console(stderr=True)):
        seen = judged(several, kind)
        least = bound(seen, kind)
        console.print(table(kind, seen, least))
        odds |= {(kind, one.message.text, one.message.answer): one.score - least for one in seen}
        weights = dict(fit(several, kind, known).weights)
        columns.append({**weights, BIAS: weights[BIAS] - least})
    if write:
        names = {name for one in columns for name in one}
        rows = {name: [round(one.get(name, 0.0), _DIGITS) for one in columns] for name in names}
        kept = {name: row for name, row in rows.items() if name in known or _counts(row)}
        _WHERE.write_text(written(kept), "utf-8")
        console.print(f"{len(kept):,} weights of {len(several):,} messages: {_WHERE.name}")
    targets, tables = fit_targets(odds)
    for one in tables:
        console.print(one)
    if write:
        WHERE.write_text(json.dumps(targets, indent=1) + "\n", "utf-8")


def _counts(row: Sequence[float]) -> bool:
    return max(map(abs, row)) >= _LEAST


if __name__ == "__main__":
    typer.run(main)
