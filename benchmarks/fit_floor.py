"""Fitting what memory helps with: questions that a scope can answer, told from those it cannot.

The latter are questions of other histories, and what people of `benchmarks/data/life.jsonl` say to
an assistant that needs no memory. How a question is worded is learned from these lives alone.
"""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.progress import track

from benchmarks.data import FOLDER, Record, records_of
from benchmarks.fitting import Floats, fit_chance
from benchmarks.life import Clock
from benchmarks.listening import Overheard
from benchmarks.recall_data import History, Question, Style
from benchmarks.recall_system import Evidence, evidence_of
from langmem_tiers import MemoryContext, MemoryCoordinator
from langmem_tiers.core.values import content_of
from langmem_tiers.recall.dedupe import words
from langmem_tiers.recall.floor import MEASURED, measured
from langmem_tiers.recall.matching import shipped
from langmem_tiers.store.store import LocalModel

FREE = frozenset(["known_name", "memories", "length", "digits", "foreign"])
"""What is measured that may speak against a question."""
LIFE, KEYWORDS = "life", "keywords"
SIZES = (5, 20, 80)
"""Scopes of few memories, so that these are not cut off for being few."""
_EACH = 3
_LOSS = 0.012
"""The share of the questions of lives that the bound may cost."""
_FULL = {LIFE: 60.0, KEYWORDS: 4.0}
"""What the scopes at full size count, where each small size counts 1: 15 where not said."""
_OFTEN = 20
"""Questions of lives that a word is in, of those that are weighed."""
_RIDGE = 1e-2


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One question to one scope; `right` is whether the scope has an answer."""

    style: str
    size: int
    """0 for all memories."""
    right: bool
    text: str
    facts: tuple[float, ...]


def trial(evidence: Evidence, *, style: str, size: int, right: bool) -> Trial:
    """What the bound goes by."""
    text = evidence.reading.text
    facts = measured(evidence.reading, words(text), evidence.found, evidence.scope, shipped())
    return Trial(style=style, size=size, right=right, text=text, facts=facts)


@cache
def common() -> frozenset[str]:
    """The words that are in many questions of lives."""
    asked = [e.get("ask", "") for one in _lives() for e in one["events"]]
    counts = Counter(word for text in asked for word in {*words(text)})
    return frozenset(word for word, n in counts.items() if n >= _OFTEN and word.isalpha())


def keywords(text: str) -> str:
    """A question as one types it into a search box: without its common words."""
    return " ".join(one for one in words(text) if one not in common()) or text


@cache
def _lives() -> tuple[Record, ...]:
    return records_of(FOLDER / "life.jsonl")


class Living(NamedTuple):
    """A question of a life, with what was found for it."""

    trial: Trial
    question: Question
    evidence: Evidence


def lived(embeddings: LocalModel = "local") -> Iterator[Living]:
    """What is asked in the lives, each of tenants of its own."""
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as closing:
        opened = Overheard.embedded(str(Path(folder) / "memory"), index=embeddings, clock=clock)
        store = closing.enter_context(opened)
        for one in track(_lives(), "living", console=Console(stderr=True)):
            yield from _asked(one, store, clock)


def _asked(scenario: Mapping[str, Any], store: Overheard, clock: Clock) -> Iterator[Living]:
    for event in scenario["events"]:
        clock.now = datetime.fromisoformat(event["at"]).replace(tzinfo=UTC)
        if (text := event.get("ask") or event.get("say")) is None:
            continue
        tenant, thread = f"{scenario['id']}-{event.get('user', 'ann')}", event["thread"]
        context = MemoryContext(tenant=tenant, session_id=thread)
        memory = MemoryCoordinator(store, context=context)
        for asked in (text, keywords(text)) if "ask" in event else ():
            right = not event.get("nothing")
            if asked == text or right:
                memory.get_context(asked, min_match=0)
                style = LIFE if asked == text else KEYWORDS
                evidence = evidence_of(store, asked, clock.now, without=thread)
                question = Question(text=asked, gold=_gold(event, evidence), category=style)
                yield Living(trial(evidence, style=style, size=0, right=right), question, evidence)
        said = [(text, "user"), (event.get("reply", "OK."), "assistant")]
        memory.store_many(
            {"content": one, "speaker": who, "source": "agent" if who != "user" else who}
            for one, who in said
        )


def _gold(event: Mapping[str, Any], evidence: Evidence) -> frozenset[str]:
    """The memories that hold something of what is to be shown."""
    wanted = [*event.get("shown", ()), *event.get("any", ())]
    wanted += [first for first, _ in event.get("order", ())]
    found = [(one.key, content_of(one.value).lower()) for one in evidence.found]
    return frozenset(key for key, text in found if any(one.lower() in text for one in wanted))


def small_histories(style: Style) -> Iterator[tuple[int, History]]:
    """Parts of histories, each with some of its questions and what answers them."""
    rng = random.Random(5)
    for history in style.histories:
        for size in SIZES:
            for number in range(_EACH):
                yield size, _part(history, size, number, rng)


def _part(history: History, size: int, number: int, rng: random.Random) -> History:
    asked = rng.sample(history.answerable, min(max(1, size // 4), len(history.answerable)))
    gold = [key for one in asked for key in sorted(one.gold)[:2]]
    rest = [one.key for one in history.memories if one.key not in gold]
    filler = rng.sample(rest, min(max(1, size - len(gold)), len(rest)))
    kept = {*gold, *filler}
    return History(
        name=f"{history.name}-{size}-{number}",
        memories=[one for one in history.memories if one.key in kept],
        questions=[replace(one, gold=one.gold & kept) for one in asked],
    )


def wrong_questions(history: History, style: Style, most: int) -> list[Question]:
    """Questions of others that this history surely cannot answer."""
    own = {one.about for one in history.questions}
    generic = style.name in ("logs", "facts")
    others = [
        one
        for other in style.histories
        if not history.name.startswith(other.name)
        for one in other.answerable
        if not generic or (one.about and one.about not in own)
    ]
    return random.Random(history.name).sample(others, min(most, len(others)))


def fit_floor(trials: Sequence[Trial]) -> dict[str, dict[str, float]]:
    """What is measured, and the words, as weights.json has them; half is the bound."""
    vocabulary = sorted(common()) if any(one.style == LIFE for one in trials) else []
    right = np.array([one.right for one in trials])
    rows = [
        (*one.facts[:-1], float(asked.isdisjoint(vocabulary)), *(w in asked for w in vocabulary))
        for one, asked in ((each, {*words(each.text)}) for each in trials)
    ]
    matrix = np.array(rows, float)
    bounded = np.array([*(name not in FREE for name in MEASURED), *(False for _ in vocabulary)])
    weights, _ = fit_chance(matrix, right, _weight(trials), bounded, ridge=_RIDGE)
    numbers = dict(zip((*MEASURED, *vocabulary), map(float, weights), strict=True))
    helps = {name: numbers[name] for name in MEASURED}
    helps["bias"] = -_bound(trials, matrix @ weights)
    return {"helps": helps, "words": {name: numbers[name] for name in vocabulary}}


def _weight(trials: Sequence[Trial]) -> Floats:
    """Styles, sizes and both answers weigh alike, but for what `_FULL` says."""
    kinds = [(one.style, one.size, one.right) for one in trials]
    counts = Counter(kinds)
    return np.array([(1 if kind[1] else _FULL.get(kind[0], 15.0)) / counts[kind] for kind in kinds])


def _bound(trials: Sequence[Trial], level: Floats) -> float:
    """The highest that costs no more than `_LOSS` of what lives, or else all styles, can answer."""
    lives = [n for n, one in enumerate(trials) if one.style == LIFE and one.right]
    right = lives or [n for n, one in enumerate(trials) if one.right]
    return float(np.quantile(level[right], _LOSS))
