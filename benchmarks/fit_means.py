"""Fits the weights that say what a message does: `remember/means.tsv`.

Run it with `python -m benchmarks.fit_means FOLDER`; it prints, for each source, how its messages
are judged by a fit on all others. With `--write` it then writes the fit on all of them.

The folder has a file a source, `NAME.tsv`, of lines `LABEL<tab>MESSAGE`. A label is `t` (talks,
tells nothing), `f` (tells something), `i` (asks to be reminded, or to note what is to be done) or
`n` (none of `i`; it says nothing of `t`). None of these texts is in this repository, and none was
written for it; which label a message has was judged by this project, but where its source says so.
The weights that ship were fitted on:

- `byu-a`, `byu-b`: 1,708 of the 258,145 messages of the Chit-Chat Challenge of Brigham Young
  University (`chitchat-dataset` 0.9.0, MIT), which students wrote to each other: most of them drawn
  by chance, 266 that speak of reminders, 296 that an earlier fit took for talk.
- `microsoft`: 306 of Microsoft's Virtual Assistant and To Do skill
  (github.com/microsoft/botframework-solutions, MIT): general.lu, chitchat.lu, ToDo.lu.
- `clinc`: 216 of CLINC150 (github.com/clinc/oos-eval, CC BY 3.0; Larson et al. 2019), with its own
  labels for reminders and lists.
- `hwu`: 130 of NLU-Evaluation-Data (github.com/xliuhw/NLU-Evaluation-Data, CC BY 4.0; Liu et al.
  2019): what people asked of their calendar.
- `persona`: 191 sentences of Synthetic-Persona-Chat (Google, CC BY 4.0), the personas by people.
- `openvoice`: 320 of the skills of OpenVoiceOS (Apache 2.0) and Neon (BSD), and of the reminder bot
  of Rasa (Apache 2.0).
- `chatterbot`: 200 questions of `chatterbot-corpus` 1.3.3 (BSD).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

import langmem_tiers
from benchmarks.fit_likeness import Matrix, fitted
from langmem_tiers.remember.instructs import BIAS
from langmem_tiers.remember.means import Means, features, named_in, parts, written

LABELS: Final[Mapping[str, Mapping[str, bool]]] = {
    "talk": {"t": True, "f": False, "i": False},
    "intends": {"i": True, "t": False, "f": False, "n": False},
    "retract": {"retract": True, "correct": False, "none": False},
    "correct": {"correct": True, "retract": False, "none": False},
}
"""What each label says of each kind; the last two are those of `benchmarks/acts.py`."""
OVER: Final[Mapping[str, Callable[[Iterable[float]], float]]] = {"talk": min, "intends": max}
"""A message talks only if all of its sentences do, and intends if one of them does."""
PRECISION: Final = 0.97
_TWICE: Final = 2
_LEAST: Final = 0.02
"""Weights that are smaller ship for none of the kinds, but for words."""
_STEPS: Final = 50
_WHERE: Final = Path(langmem_tiers.__file__).parent / "remember" / "means.tsv"


class Message(NamedTuple):
    """One message of a source."""

    source: str
    label: str
    text: str


class Judged(NamedTuple):
    """What a fit on all other sources makes of a message, and what it is."""

    source: str
    score: float
    right: bool
    text: str


def messages(folder: Path) -> Iterator[Message]:
    """All messages, by their sources."""
    for file in sorted(folder.glob("*.tsv")):
        for line in file.read_text("utf-8").splitlines():
            label, text = line.split("\t", 1)
            yield Message(file.stem, label, text)


def vocabulary(several: Iterable[Message]) -> frozenset[str]:
    """The words of more than one message."""
    counted = Counter(word for one in several for word in {*named_in(one.text, _Everything())})
    return frozenset(word for word, count in counted.items() if count >= _TWICE)


class _Everything(frozenset[str]):
    """Where every word is known."""

    def __contains__(self, word: object) -> bool:
        return True


def fit(several: Sequence[Message], kind: str, known: frozenset[str]) -> dict[str, float]:
    """The weights of a kind."""
    told = [(one.text, LABELS[kind][one.label]) for one in several if one.label in LABELS[kind]]
    rows = [features(text, known) for text, _ in told]
    counted = Counter(feature for row in rows for feature in row)
    names = sorted(name for name, count in counted.items() if count >= _TWICE)
    found = fitted(Matrix.of(rows, names), np.array([right for _, right in told], float))
    return {BIAS: float(found[-1]), **dict(zip(names, map(float, found), strict=False))}


def judged(several: Sequence[Message], kind: str) -> Iterator[Judged]:
    """Each message, judged by a fit on all other sources."""
    for source in sorted({one.source for one in several}):
        others = [one for one in several if one.source != source]
        known = vocabulary(others)
        weights = fit(others, kind, known)
        for one in several:
            if one.source == source and one.label in LABELS[kind]:
                scores = (scored(weights, part, known) for part in parts(one.text))
                yield Judged(source, OVER[kind](scores), LABELS[kind][one.label], one.text)


def scored(weights: Mapping[str, float], sentence: str, known: frozenset[str]) -> float:
    """The score of a sentence."""
    found = features(sentence, known)
    return weights[BIAS] + sum(weights.get(one, 0.0) for one in found) / math.sqrt(len(found))


def calibrated(several: Sequence[Judged]) -> tuple[float, float]:
    """By what a score is multiplied, and what is added, to be the logarithm of the odds."""
    score = np.array([(one.score, 1.0) for one in several])
    right = np.array([one.right for one in several], float)
    found = np.zeros(2)
    for _ in range(_STEPS):
        chance = 1 / (1 + np.exp(-score @ found))
        bend = (score * (chance * (1 - chance))[:, None]).T @ score + 1e-6 * np.eye(2)
        found += np.linalg.solve(bend, score.T @ (right - chance))
    return float(found[0]), float(found[1])


def threshold(several: Sequence[Judged], *, of: bool) -> float:
    """The score from which on (or below which) so many are right, as `PRECISION` says."""
    way = 1 if of else -1
    ordered = sorted(several, key=lambda one: -way * one.score)
    right, found = 0, math.inf * way
    for count, one in enumerate(ordered, 1):
        right += one.right is of
        found = one.score if right >= PRECISION * count else found
    return found


def table(kind: str, several: Sequence[Judged], least: float) -> Table:
    """What is found of each source at a threshold."""
    made = Table("source", "messages", "are", "found", "rightly", title=f"{kind}, by other sources")
    for source in (*sorted({one.source for one in several}), ""):
        own = [one for one in several if source in ("", one.source)]
        found = [one for one in own if one.score >= least]
        counts = (len(own), sum(one.right for one in own), len(found), sum(o.right for o in found))
        made.add_row(source or "all", *map(str, counts))
    return made


def main(
    folder: Annotated[Path, typer.Argument(help="A file a source.")], *, write: bool = False
) -> None:
    """Print what is made of each source, and write the fit of all."""
    console = Console(width=100)
    several = list(messages(folder))
    known = vocabulary(several)
    columns: list[dict[str, float]] = []
    for kind in Means._fields:
        seen = list(judged(several, kind))
        times, plus = calibrated(seen)
        console.print(table(kind, seen, threshold(seen, of=True)))
        for of in (True, False):
            least = times * threshold(seen, of=of) + plus
            console.print(f"{kind} {'from' if of else 'below'} {1 / (1 + math.exp(-least)):.2f}")
        weights = {name: times * one for name, one in fit(several, kind, known).items()}
        columns.append({**weights, BIAS: weights[BIAS] + plus})
    if write:
        names = {name for one in columns for name in one}
        rows = {name: Means(*(round(one.get(name, 0.0), 2) for one in columns)) for name in names}
        kept = {name: row for name, row in rows.items() if name in known or _counts(row)}
        _WHERE.write_text(written(kept), "utf-8")
        console.print(f"{len(kept):,} weights of {len(several):,} messages: {_WHERE.name}")


def _counts(row: Means) -> bool:
    return max(map(abs, row)) >= _LEAST


if __name__ == "__main__":
    typer.run(main)
