"""Fitting what identifies a project and what is about it alone: `python -m benchmarks.fit_private`.

Projects of several hands (`data/private.jsonl`): each has notes, and lessons of which its author
said which words identify somebody, and whether it is for everybody (`general`), with placeholders
(`maskable`), or about its project alone (`bound`). With `--write` the weights go to the package.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from benchmarks.data import FOLDER, records
from benchmarks.fitting import Floats
from langmem_tiers.learn.generalise import abstracted
from langmem_tiers.learn.reflexion import Reflexion
from langmem_tiers.learn.verdict import (
    HASHED,
    IDENTIFIES,
    Occurrences,
    PrivateWeights,
    Token,
    features,
    judged,
    masked,
    text_features,
    tokens,
)

OUT = Path("langmem_tiers/learn/private.json")
WORDS = Path("langmem_tiers/learn/common.txt")
COMMON = 3
DRAWN = "drawn"
_LONGEST = 1_000
NOTES = (None, 8, 1)
"""How many notes of each project are known: much, some, or hardly anything."""
_RIDGE, _RIDGE_OF_TEXTS = 1.0, 3.0
_STEPS, _ENOUGH = 30, 1e-6
_DIGITS = 3
Seen = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Lesson:
    """A lesson with what its author said of it, and what is seen of its words."""

    writer: str
    text: str
    verdict: str
    private: Sequence[str]
    names: Sequence[str]
    known: Occurrences
    words: Sequence[tuple[Token, Seen]]

    @property
    def identifies(self) -> list[bool]:
        """Whether each word belongs to what identifies somebody."""
        spans = [span for one in self.private for span in _found(self.text, one)]
        return [
            any(first < one.end and one.start < last for first, last in spans)
            for one, _ in self.words
        ]


def _found(text: str, part: str) -> Iterator[tuple[int, int]]:
    at = text.find(part)
    while at >= 0:
        yield at, at + len(part)
        at = text.find(part, at + 1)


def common_words() -> list[str]:
    """Words that `COMMON` writers of all other data, or more, have in lower case."""
    writers: dict[str, set[str]] = {}
    for file in sorted(FOLDER.glob("**/*.jsonl")):
        for one in () if file.stem == "private" else records(str(file.relative_to(FOLDER))[:-6]):
            writer = str(one.get("writer") or one.get("author") or file.stem)
            for token in (each for text in _texts(one) for each in tokens(text)):
                if token.text.islower():
                    writers.setdefault(token.text, set()).add(writer)
    return sorted(word for word, some in writers.items() if len(some) >= COMMON)


def _texts(given: object) -> Iterator[str]:
    if isinstance(given, str):
        yield given
    elif isinstance(given, tuple | dict):
        for one in given.values() if isinstance(given, dict) else given:
            yield from _texts(one)


def lessons(notes: int | None = None) -> list[Lesson]:
    """All of them, where so many notes of each project are known, all if not given.

    To each project the others of its writer are the tenant's others.
    """
    projects = list(records("private"))
    found = []
    for one in projects:
        others = [
            note
            for other in projects
            if other is not one and other["writer"] == one["writer"]
            for note in other["notes"][:notes]
        ]
        known = Occurrences.of(one["notes"][:notes], others)
        names = [one["project"], one["tenant"]]
        for each in one["lessons"]:
            seen = list(features(each["text"], known, names))
            told = (each["text"], each["verdict"], each["private"])
            found.append(Lesson(one["writer"], *told, names, known, seen))
    return found


def drawn() -> list[Lesson]:
    """Lessons as they are stored, of recorded failures and of all walks of life: for everybody.

    But for the task's name, whose parts may be anybody's.
    """
    found = []
    nothing = Occurrences.of((), ())
    for one in (*(each["lesson"] | {"task": each["task"]} for each in records("failed")), *_told()):
        lesson = Reflexion(
            task_id=one["task"],
            original_approach=one["original_approach"],
            failure_reason=one["failure_reason"],
            improved_approach=one["improved_approach"],
        )
        text = lesson.to_memory_format()[:_LONGEST]
        seen = list(features(text, nothing, ()))
        found.append(Lesson(DRAWN, text, "general", [one["task"]], [], nothing, seen))
    return found


def _told() -> Iterator[dict[str, str]]:
    for number, one in enumerate(records("lessons")):
        parts = ("original_approach", one["tried"]), ("failure_reason", one["why"])
        yield {"task": f"task-{number}", **dict(parts), "improved_approach": one["instead"]}


def fit(several: Sequence[Lesson]) -> PrivateWeights:
    """Both models; that of texts sees the chances that its own words have by the first."""
    rows = [seen for one in several for _, seen in one.words]
    words = _logistic(rows, [told for one in several for told in one.identifies], _RIDGE)
    seen = [_text(one, [_chance(each, words) for _, each in one.words]) for one in several]
    bound, general = (
        _logistic(seen, [one.verdict == kind for one in several], _RIDGE_OF_TEXTS)
        for kind in ("bound", "general")
    )
    return PrivateWeights(words, bound, general)


def _chance(seen: Seen, weights: Seen) -> float:
    return float(1 / (1 + np.exp(-sum(one * weights.get(name, 0.0) for name, one in seen.items()))))


def _text(one: Lesson, chances: Sequence[float]) -> dict[str, float]:
    pairs = zip(one.words, chances, strict=True)
    identifying = {token.text for (token, _), chance in pairs if chance >= IDENTIFIES}
    return text_features(chances, abstracted(masked(one.text, identifying), one.names))


def _logistic(rows: Sequence[Seen], happened: Sequence[bool], ridge: float) -> dict[str, float]:
    """A logistic model by Newton steps; the ridge holds for all but the bias."""
    names = sorted({name for one in rows for name in one})
    place = {name: n for n, name in enumerate(names)}
    matrix = np.zeros((len(rows), len(names)))
    for n, one in enumerate(rows):
        for name, value in one.items():
            matrix[n, place[name]] = value
    found, right = np.zeros(len(names)), np.array(happened, float)
    damped = np.array([0.0 if name == "bias" else ridge for name in names]) + 1e-9
    for _ in range(_STEPS):
        step = _newton(matrix, right, found, damped)
        found -= step
        if np.abs(step).max() < _ENOUGH:
            break
    return {name: round(float(one), _DIGITS) for name, one in zip(names, found, strict=True)}


def _newton(matrix: Floats, right: Floats, at: Floats, damped: Floats) -> Floats:
    chance = 1 / (1 + np.exp(-(matrix @ at)))
    first = matrix.T @ (chance - right) + damped * at
    second = (matrix * (chance * (1 - chance) + 1e-9)[:, None]).T @ matrix + np.diag(damped)
    return np.linalg.solve(second, first).astype(np.float64)


@dataclass(slots=True)
class Found:
    """What was found of the lessons of a hand that was left out of the fit."""

    writer: str
    planted: int = 0
    survived: int = 0
    bound: int = 0
    stayed: int = 0
    others: int = 0
    others_stayed: int = 0
    general: int = 0
    damaged: int = 0


def left_out(every: Sequence[Lesson], several: Collection[Sequence[Lesson]]) -> Iterator[Found]:
    """Each hand by a fit on what all others wrote, whatever is known of it."""
    for writer in dict.fromkeys(one.writer for one in every):
        weights = fit([one for known in several for one in known if one.writer != writer])
        yield measured(writer, [one for one in every if one.writer == writer], weights)


def measured(writer: str, several: Sequence[Lesson], weights: PrivateWeights) -> Found:
    """What becomes of lessons: planted names that survive, and what stays at home."""
    found = Found(writer)
    for one in several:
        verdict = judged(one.text, one.names, one.known, weights)
        told = abstracted(masked(one.text, verdict.private), one.names)
        found.bound += one.verdict == "bound"
        found.stayed += one.verdict == "bound" and verdict.stays()
        found.others += one.verdict != "bound"
        found.others_stayed += one.verdict != "bound" and verdict.stays()
        if one.verdict == "maskable":
            found.planted += len(one.private)
            found.survived += sum(each.lower() in told.lower() for each in one.private)
        if one.verdict == "general":
            found.general += 1
            found.damaged += told != one.text
    return found


def main(
    *, write: Annotated[bool, typer.Option(help="Write the weights to the package.")] = False
) -> None:
    """Measure each hand by a fit on the others; fit on all of them."""
    if write:
        WORDS.write_text("\n".join(common_words()) + "\n", encoding="utf-8")
    several: dict[int | None, list[Lesson]] = {notes: lessons(notes) for notes in NOTES}
    known = [*several.values(), drawn()]
    for notes, every in several.items():
        typer.echo(f"{notes or 'all'} notes of each project are known:")
        tell(list(left_out(every, known)))
    if write:
        weights = fit([one for every in known for one in every])
        OUT.write_text(json.dumps(asdict(weights), indent=0) + "\n", encoding="utf-8")
        typer.echo(f"written: {OUT}, {HASHED} places of stems")


def tell(found: Sequence[Found]) -> None:
    """Print what was found of each hand, and of all."""
    total = Found("all")
    for one in found:
        for name in Found.__slots__[1:]:
            setattr(total, name, getattr(total, name) + getattr(one, name))
    for one in (*found, total):
        rows = {
            "names that survive": (one.survived, one.planted),
            "bound that stay": (one.stayed, one.bound),
            "others that stay": (one.others_stayed, one.others),
            "general ones changed": (one.damaged, one.general),
        }
        told = (f"{what} {some:3} of {every:3}" for what, (some, every) in rows.items())
        typer.echo(f"{one.writer:10} {'; '.join(told)}")


if __name__ == "__main__":
    typer.run(main)
