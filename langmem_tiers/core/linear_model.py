"""Read and write the shipped weights of linear models over words.

A model is two files. In `NAME.words` each line ends with a word; before it stands, between tabs,
what the names of its features have in front of it, which is nothing for the word alone. In
`NAME.tenths` each feature's weight is a signed byte; of several kinds one follows the other.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources.abc import Traversable
from pathlib import Path


def write_weights(folder: Path, name: str, weights: Mapping[str, Sequence[float]]) -> None:
    """Write weights, each rounded to a tenth; one beyond ±12.7 is an OverflowError."""
    lines: dict[str, list[str]] = {}
    for feature in sorted(weights):
        before, _, word = feature.rpartition(" ")
        lines.setdefault(word, []).append(before)
    words = "".join("\t".join([*lines[word], word]) + "\n" for word in sorted(lines))
    kinds = zip(*(weights[feature] for feature in _features(words)), strict=True)
    tenths = array("b", (round(weight * 10) for kind in kinds for weight in kind))
    (folder / f"{name}.words").write_text(words, "utf-8")
    (folder / f"{name}.tenths").write_bytes(tenths.tobytes())


def read_weights(folder: Traversable, name: str) -> dict[str, tuple[float, ...]]:
    """Read weights as `write` wrote them, by their features."""
    features = [*_features((folder / f"{name}.words").read_text("utf-8"))]
    weights = [tenth / 10 for tenth in array("b", (folder / f"{name}.tenths").read_bytes())]
    starts = range(0, len(weights), len(features))
    kinds = (weights[start : start + len(features)] for start in starts)
    return dict(zip(features, zip(*kinds, strict=True), strict=True))


def _features(words: str) -> Iterator[str]:
    for line in words.splitlines():
        *prefixes, word = line.split("\t")
        yield from (f"{before} {word}".lstrip() for before in prefixes)
