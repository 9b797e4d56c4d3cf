"""Fits the weights by which the gate tells what reads like an attack, `remember/likeness`.

Run it with `make ordinary fit-likeness`; it takes some minutes and prints, for each of six authors
and each kind of ordinary text, what the gate makes of it with a fit on all others
(`gate_left_out.py`: of each kind of carrier, and each who wrote them). With `--write` it then
writes the fit on all of them.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Final, NamedTuple
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track
from rich.table import Table

import langmem_tiers
from benchmarks.gate_corpus import HALVES, OBLIQUE, Half, carried, hands
from benchmarks.ordinary import KINDS, ordinary
from langmem_tiers.core import linear_model
from langmem_tiers.core.memory import Source
from langmem_tiers.core.texts import BIAS, words
from langmem_tiers.remember import injection
from langmem_tiers.remember.injection import (
    Weights,
    decode_disguises,
    find_concealment,
    injection_features,
    instructions_in,
    passages,
    undisguise,
)

Floats = NDArray[np.float64]

SOFTNESS: Final = 8.0
"""What the losses of all texts weigh against the weights' squares: scikit-learn's C."""
_TWICE: Final = 2
"""Texts in which a feature stands that is fitted; what one alone has says nothing of others."""
_STEPS: Final = 400
_DISGUISED: Final = ("encoded", "encoder", "direct: encoded", "direct: obfuscated")
"""Kinds of attacks that are written in a code."""
_SHORT: Final = 2
"""Letters of a word that stands in a code by chance."""
_WHERE: Final = Path(langmem_tiers.__file__).parent / "remember"
_MOST: Final = 16_000
"""Weights that ship: those that weigh most, either way."""
_BROUGHT: Final = 4.0
"""Texts for which one counts that a tool brings: there are few, and they are what is asked most."""
_ORDINARY: Final = 0.3
"""The same for one of the many that nobody asks about; with 1 less of what is direct is found."""


class Text(NamedTuple):
    """One text of an author."""

    author: str
    attack: bool
    kind: str
    text: str
    span: str = ""
    counts: float = 1.0
    """For how many it counts."""


class Row(NamedTuple):
    """What the fit sees of a text, or of a passage of it."""

    of: Text
    names: frozenset[str]


def texts() -> list[Text]:
    """All texts of the corpora, each once; what is told from other memories is none of this."""
    found: dict[str, Text] = {}
    written_once = [(half, 1.0) for half in (*(make() for make in HALVES), *hands())]
    for half, counts in (*written_once, *((one, _BROUGHT) for one in carried())):
        for attack, samples in ((True, half.attacks), (False, half.benign)):
            for one in samples:
                if not one.recalled + one.stored:
                    text = Text(half.name, attack, one.kind, one.text, one.span, counts)
                    found.setdefault(one.text, text)
    return list(found.values())


def harmless() -> Iterator[Text]:
    """Ordinary texts of every kind, and this project's own documents."""
    for kind in KINDS:
        for one in ordinary(kind):
            yield Text(kind, attack=False, kind="ordinary", text=one, counts=_ORDINARY)
    yield from documents()


def documents() -> Iterator[Text]:
    """The project's own documents, by paragraphs, and what its functions say of themselves."""
    root = Path(langmem_tiers.__file__).parents[1]
    said: list[str] = []
    for page in sorted([*root.glob("docs/*.md"), *root.glob("*.md")]):
        said += [] if page.name in _SHOWING else page.read_text("utf-8").split("\n\n")
    for module in sorted(root.glob("langmem_tiers/**/*.py")):
        tree = ast.parse(module.read_text("utf-8"))
        several = [one for one in ast.walk(tree) if isinstance(one, _DOCUMENTED)]
        said += [told for one in several if (told := ast.get_docstring(one))]
    for one in dict.fromkeys(said):
        yield Text("own", attack=False, kind="document", text=one, counts=_ORDINARY)


_SHOWING: Final = frozenset(("gate.md", "review.md", "turn.md", "README.md"))
"""Pages that show attacks."""
_DOCUMENTED: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Module)


def fit(several: Iterable[Text]) -> dict[str, float]:
    """The weights of a fit on these texts."""
    return fit_on(rows_of(several))


def fit_of_brought(rows: Iterable[Row]) -> dict[str, float]:
    """What ships of a fit on these rows."""
    return shipped(fit_on([*rows]))


def rows_of(several: Iterable[Text]) -> list[Row]:
    """What is fitted of these texts: each three sentences of a note are a note as well.

    What is disguised teaches by what it says behind that, as the gate undoes it before it reads.
    """
    corpus = list(several)
    known = {word for one in corpus if not _disguised(one) for word in words(one.text)}
    rows: list[Row] = []
    for one in corpus:
        text = _undone(one.text, known) if _disguised(one) else undisguise(one.text)
        parts = {undisguise(one.span) or text} if one.attack else {text, *passages(text)}
        rows += [Row(one, injection_features(part)) for part in sorted(parts)]
    return rows


def fit_on(rows: Sequence[Row]) -> dict[str, float]:
    """The weights by which these rows are told apart best."""
    counted = Counter(feature for row in rows for feature in row.names)
    names = sorted(name for name, count in counted.items() if count >= _TWICE)
    found = fitted(
        Matrix.of([row.names for row in rows], names),
        np.array([row.of.attack for row in rows], float),
        counts=np.array([row.of.counts for row in rows]),
    )
    return {BIAS: float(found[-1]), **dict(zip(names, map(float, found), strict=False))}


def _disguised(one: Text) -> bool:
    return one.attack and (one.kind in _DISGUISED or find_concealment(one.text) is not None)


def _undone(text: str, known: Collection[str]) -> str:
    """What a disguised text says: the reading that has most words which others use."""

    def readable(reading: str) -> int:
        return sum(1 if word in known else -1 for word in words(reading) if len(word) > _SHORT)

    return max((undisguise(text), *decode_disguises(text)), key=readable)


def shipped(weights: Mapping[str, float]) -> dict[str, float]:
    """What of the weights ships, in tenths."""
    names = sorted(weights, key=lambda name: (name != BIAS, -abs(weights[name]), name))
    return {name: round(weights[name], 1) for name in names[: _MOST + 1]}


class Matrix(NamedTuple):
    """Which features each text has, with a last one that all have: the bias."""

    row: NDArray[np.int64]
    column: NDArray[np.int64]
    value: Floats
    shape: tuple[int, int]

    @classmethod
    def of(cls, rows: Sequence[frozenset[str]], names: Sequence[str]) -> Matrix:
        """Where each feature stands, and what it counts there."""
        places = {name: place for place, name in enumerate(names)}
        known = [sorted(places[one] for one in row if one in places) for row in rows]
        lengths = [len(one) + 1 for one in known]
        column = [place for one in known for place in (*one, len(names))]
        shares = [max(1, len(row)) ** -0.5 for row in rows]
        value = [
            part
            for one, share in zip(known, shares, strict=True)
            for part in (*[share] * len(one), 1.0)
        ]
        row = np.repeat(np.arange(len(rows)), lengths)
        return cls(row, np.array(column), np.array(value), (len(rows), len(names) + 1))

    def times(self, weights: Floats) -> Floats:
        """The sum of each text."""
        return np.bincount(self.row, self.value * weights[self.column], self.shape[0]).astype(float)

    def back(self, sums: Floats) -> Floats:
        """What each feature has of these sums."""
        return np.bincount(self.column, self.value * sums[self.row], self.shape[1]).astype(float)


def fitted(
    matrix: Matrix, wanted: Floats, softness: float = SOFTNESS, counts: Floats | float = 1.0
) -> Floats:
    """The weights of least loss: Nesterov's steps, for each weight as long as its column allows."""
    steep = matrix.back(counts * matrix.times(np.ones(matrix.shape[1]))) / 4
    stride = 1 / (steep + 1 / softness)
    weights = ahead = np.zeros(matrix.shape[1])
    for step in range(_STEPS):
        wrong = 1 / (1 + np.exp(-matrix.times(ahead))) - wanted
        slope = matrix.back(counts * wrong)
        slope[:-1] += ahead[:-1] / softness
        moved = ahead - stride * slope
        ahead = moved + step / (step + 3) * (moved - weights)
        weights = moved
    return weights


def found_with(weights: Weights, several: Iterable[str]) -> list[bool]:
    """Whether the gate finds that each text of a page instructs, were these what ships."""
    instructions_in.cache_clear()
    with patch.object(injection, "load_weights", lambda: weights):
        found = [bool(instructions_in(text, Source.WEB)) for text in several]
    instructions_in.cache_clear()
    return found


def main() -> None:
    """Print what is made of each author's texts, and write the fit of all."""
    console = Console(width=100)
    rows = rows_of([*texts(), *harmless()])
    columns = ("plain attacks pass", "oblique", "notes held back")
    authors = Table("author", *columns, title="with a fit on the others' texts")
    kinds = Table("ordinary texts", "held back", title="with a fit on the other kinds")
    for half, kind in track(list(zip_longest(hands(), KINDS)), "Leaving out one of each"):
        left_out = (half and half.name, kind)
        weights = fit_of_brought(row for row in rows if row.of.author not in left_out)
        if half is not None:
            authors.add_row(half.name, *_rates(half, weights))
        found = found_with(weights, ordinary(kind))
        kinds.add_row(kind, f"{sum(found) / max(1, len(found)):.1%}")
    console.print(authors, kinds)
    if "--write" in sys.argv:
        weights = fit_of_brought(rows)
        linear_model.write_weights(
            _WHERE, "likeness", {name: [weight] for name, weight in weights.items()}
        )
        console.print(f"the weights of {len(rows):,} passages: likeness")


def _rates(half: Half, weights: Weights) -> Iterator[str]:
    plain = [one for one in half.attacks if OBLIQUE not in one.kind]
    oblique = [one for one in half.attacks if OBLIQUE in one.kind]
    for several, wrong in ((plain, False), (oblique, False), (half.benign, True)):
        found = found_with(weights, [one.text for one in several])
        yield f"{found.count(wrong)} of {len(several)}"


if __name__ == "__main__":
    main()
