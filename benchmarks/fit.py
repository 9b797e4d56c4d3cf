"""Fitting recall's weights: `python -m benchmarks.fit [FILE…]`.

Features are read from the real system, on conversations whose licence allows it: the files that
are named, and generated logs, chats and facts. docs/recall.md says how to use one's own.
"""

from __future__ import annotations

import json
import math
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import psycopg
import typer
from rich.console import Console
from rich.progress import track

from benchmarks.fit_floor import (
    LIFE,
    Living,
    Trial,
    fit_floor,
    lived,
    small_histories,
    trial,
    wrong_questions,
)
from benchmarks.fitting import Floats, Lists, fit_chance, fit_ranking
from benchmarks.recall_data import CHATS, History, Question, Style, generated, read
from benchmarks.recall_metrics import interval
from benchmarks.recall_system import NAMES, Evidence, System
from langmem_tiers import EmbeddedPostgres, LocalEmbeddings
from langmem_tiers.recall.matching import shipped
from langmem_tiers.recall.recall import POOL

MEETINGS_FILE = Path("../shared/data/qmsum-dev.jsonl")
"""Fitted on where it is there and no other file is named: MIT licence."""
OUT = Path("benchmarks/out/weights.json")
REAL_COUNTS = 2.0
"""What a style of real data counts, where a generated one counts 1."""
KINDS = ("named", "assistant", "when", "date")
"""Features that fit a kind of question and say nothing of the level."""

_SHOWN = 10
"""The best so many candidates of each question teach what a match is worth."""
_WRONG, _WRONG_SMALL = 60, 6
"""Questions of others to each history, and to each part of one."""
_DIGITS = 3
_CHATTING = {
    one.speaker
    for style in generated()
    if style.name == CHATS
    for history in style.histories
    for one in history.memories
    if one.speaker
}
_SAID = re.compile(rf"\A(On \d+ \w+ \d+, )?({'|'.join(sorted(_CHATTING))}) said: ")


class NamelessChats(LocalEmbeddings):
    """Embeds what people of generated chats say without their names and the date.

    Each question to them has a name, so that nearness would earn what `named` should.
    """

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed texts, one vector each, in order."""
        return super().embed_documents([_SAID.sub("", text, count=1) for text in texts])


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A question of a style, what was found for it, and which of that is evidence."""

    style: str
    weight: float
    question: Question
    evidence: Evidence

    @property
    def gold(self) -> np.typing.NDArray[np.bool_]:
        return np.array([key in self.question.gold for key in self.evidence.keys], bool)


def main(
    files: Annotated[
        list[Path] | None, typer.Argument(help="Conversations with questions; see docs/recall.md.")
    ] = None,
    *,
    measured: Annotated[
        list[Path] | None,
        typer.Option("--measure", help="Compare on this file, fit nothing on it."),
    ] = None,
    out: Annotated[Path, typer.Option(help="The file to write.")] = OUT,
    alone: Annotated[bool, typer.Option(help="Fit on the files alone.")] = False,
) -> None:
    """Fit the weights, the match and what memory helps with, and write them as JSON."""
    real = [read(one) for one in files or [MEETINGS_FILE] if files or one.exists()]
    fitted = [(one, REAL_COUNTS) for one in real]
    fitted += [] if alone else [(one, 1.0) for one in generated()]
    aside = [(read(one), 0.0) for one in measured or ()]
    console = Console(stderr=True)
    with (
        tempfile.TemporaryDirectory() as path,
        EmbeddedPostgres(path) as server,
        System(server.url, NamelessChats()) as system,
    ):
        examples, trials = collect(system, server.url, [*fitted, *aside])
    lives = list(lived())
    trials += [one.trial for one in lives]
    examples += [] if alone else _examples(lives)
    weights = fit(examples, trials)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(weights, indent=2) + "\n", encoding="utf-8")
    for name in dict.fromkeys(one.style for one in examples):
        chosen = [one for one in examples if one.style == name]
        found = [quality(chosen, one) for one in (shipped().features, weights["features"])]
        console.print(f"{name}: nDCG@10 {found[0]} as shipped, {found[1]} fitted")
    console.print(f"written: {out}")


def fit(examples: Sequence[Example], trials: Sequence[Trial]) -> dict[str, dict[str, float]]:
    """All numbers of weights.json; examples that weigh nothing are left out."""
    examples = [one for one in examples if one.weight]
    lists = Lists.of_questions(
        [one.evidence.matrix for one in examples],
        [one.gold for one in examples],
        [one.weight for one in examples],
    )
    weights = fit_ranking(lists, np.ones(len(NAMES), bool))
    found = {
        "features": dict(zip(NAMES, weights, strict=True)),
        "match": _fit_match(examples, weights),
        **fit_floor(trials),
    }
    return {part: _rounded(numbers) for part, numbers in found.items()}


def collect(
    system: System, url: str, styles: Sequence[tuple[Style, float]]
) -> tuple[list[Example], list[Trial]]:
    """Ask everything of whole histories, and of parts of them; each style has its weight."""
    examples: list[Example] = []
    trials: list[Trial] = []
    every = list(_histories(styles))
    for *_, history in track(every, "storing", console=Console(stderr=True)):
        system.remember(history)
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute("VACUUM ANALYZE")
    for style, weight, size, history in track(every, "asking", console=Console(stderr=True)):
        counts = sum(len(one.answerable) for one in style.histories)
        asked = list(_right(system, style, history, weight / counts))
        if not size:
            examples += asked
        if weight:
            trials += [_trial(one, size) for one in asked]
            trials += _wrong(system, style, size, history)
    return examples, trials


def quality(examples: Sequence[Example], weights: Mapping[str, float]) -> str:
    """nDCG@10 of a ranking by these weights, with its interval."""
    row = np.array([weights[name] for name in NAMES])
    return str(interval([_ndcg(one, row) for one in examples]))


def _histories(
    styles: Sequence[tuple[Style, float]],
) -> Iterator[tuple[Style, float, int, History]]:
    for style, weight in styles:
        yield from ((style, weight, 0, one) for one in style.histories)
        if weight:
            yield from ((style, weight, size, one) for size, one in small_histories(style))


def _right(system: System, style: Style, history: History, weight: float) -> Iterator[Example]:
    for question in history.answerable:
        evidence = _evidence(system, history, question)
        yield Example(style=style.name, weight=weight, question=question, evidence=evidence)


def _examples(lives: Sequence[Living]) -> list[Example]:
    found = [one for one in lives if one.trial.style == LIFE and one.question.gold]
    weight = 1 / max(1, len(found))
    return [
        Example(style=LIFE, weight=weight, question=one.question, evidence=one.evidence)
        for one in found
    ]


def _wrong(system: System, style: Style, size: int, history: History) -> Iterator[Trial]:
    for question in wrong_questions(history, style, _WRONG_SMALL if size else _WRONG):
        evidence = _evidence(system, history, question)
        yield trial(evidence, style=style.name, size=size, right=False)


def _evidence(system: System, history: History, question: Question) -> Evidence:
    system.ask(history, question, limit=POOL, min_match=0)
    return system.evidence(history, question)


def _trial(one: Example, size: int) -> Trial:
    return trial(one.evidence, style=one.style, size=size, right=True)


def _fit_match(examples: Sequence[Example], weights: Floats) -> dict[str, float]:
    """How the score becomes a chance, from the best candidates of each question."""
    kinds = np.array([name in KINDS for name in NAMES])
    rows, happened, share = [], [], []
    for one in examples:
        parts = one.evidence.matrix * weights
        scores = parts.sum(axis=1)
        level = scores - parts[:, kinds].max(axis=0).sum()
        best = np.argsort(-scores, kind="stable")[:_SHOWN]
        rows.append(np.column_stack([level, scores - scores.max()])[best])
        happened.append(one.gold[best])
        share.append(np.full(len(best), one.weight / len(best)))
    found, bias = fit_chance(
        np.concatenate(rows), np.concatenate(happened), np.concatenate(share), np.ones(2, bool)
    )
    return {"level": found[0], "gap": found[1], "bias": bias}


def _ndcg(one: Example, weights: Floats) -> float:
    best = one.evidence.ranked(one.evidence.matrix @ weights)[:10]
    gains = [1 / math.log2(place + 2) for place in range(10)]
    found = sum(gain for gain, key in zip(gains, best, strict=False) if key in one.question.gold)
    return found / sum(gains[: len(one.question.gold)])


def _rounded(numbers: Mapping[str, Any]) -> dict[str, float]:
    return {name: round(float(found), _DIGITS) for name, found in numbers.items()}


if __name__ == "__main__":
    typer.run(main)
