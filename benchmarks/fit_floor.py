"""Fitting what memory helps with: questions that a scope can answer, told from those it cannot.

The latter are questions of other histories, what strangers say to an assistant that needs no
memory, and what in lives and beside facts needs none. How a question is worded is judged by a fit
on other hands (`fit_means`), as it will be for questions that nobody fitted.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.progress import track

from benchmarks.data import Record, records
from benchmarks.fit_means import Fit, Message, bound, fit, fits_without, messages, vocabulary
from benchmarks.fit_means import Judged as Worded
from benchmarks.fitting import Floats, fit_chance
from benchmarks.life import Clock
from benchmarks.listening import Overheard
from benchmarks.recall_data import ASKED, History, Question, Style
from benchmarks.recall_system import Evidence, evidence_of
from langmem_tiers import MemoryContext, MemoryCoordinator
from langmem_tiers.core.values import content_of
from langmem_tiers.postgres.offline_embeddings import OfflineEmbeddings
from langmem_tiers.recall.message_intent import clamp_logit, is_mostly_unknown, tokenize_sentences
from langmem_tiers.recall.ranking import HELP_FEATURES, help_features

FREE = frozenset(["known_name", "memories", "digits"])
"""What is measured that may speak against a question."""
NEARNESS = frozenset(["nearest", "third", "fifth", "said", "meant"])
"""What only the vectors of a known model say."""
LIFE = "life"
SIZES = (5, 20, 80)
"""Scopes of few memories, so that these are not cut off for being few."""
_EACH = 3
_COUNTS = {LIFE: 4.0, ASKED: 2.0}
"""What a style counts, where another one counts 1 at full size, and each small size a tenth."""
_SMALL = 0.1
_PRIOR = 0.75
"""The share of messages that memory helps with: our own choice."""
_RIDGE = 1e-2
_STRANGERS = 20
"""Messages of strangers that each scope is asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One question to one scope; `right` is whether the scope has an answer."""

    style: str
    size: int
    """0 for all memories."""
    right: bool
    parts: tuple[float, ...]
    """Values of `HELP_FEATURES`."""


class Words(NamedTuple):
    """What questions say by themselves, each judged by a fit on other hands than its own."""

    fits: Mapping[str, tuple[Fit, Floats]]
    every: tuple[Fit, Floats]
    """A fit of words, and what each number of a vector says beside it."""
    least: float
    """The score that the fits of words count from."""
    embeddings: OfflineEmbeddings

    def of(self, text: str, writer: str = "") -> tuple[float, float]:
        """What is `needs` and `meant` of a question."""
        words, meaning = self.fits.get(writer, self.every)
        return self._needs(text, words), float(np.dot(self.embeddings.embed_query(text), meaning))

    def _needs(self, text: str, words: Fit) -> float:
        # Without talk, which counts against it where it is served: fitted with it, more of what
        # strangers say was shown something, and no more of what memory can answer.
        if is_mostly_unknown(tokenize_sentences(text, words.known)):
            return 0.0
        return clamp_logit(words.score(Message("", text, {})) - self.least)


def words_of(embeddings: OfflineEmbeddings) -> Words:
    """Fit them for a model of embeddings."""
    several = [one for one in messages() if "needs" in one.does]
    fits = fits_without(several, "needs")
    judged = [Worded(one, fits[one.writer].score(one)) for one in several]
    least = bound(judged, "needs")
    vectors = np.array(embeddings.embed_documents([one.text for one in several]))
    scores = np.array([clamp_logit(one.score - least) for one in judged])
    right = np.array([one.right("needs") for one in judged])
    writers = np.array([one.writer for one in several])
    found = {
        name: (one, _meaning(vectors, scores, right, writers != name)) for name, one in fits.items()
    }
    every = (
        fit(several, "needs", vocabulary(several)),
        _meaning(vectors, scores, right, writers != ""),
    )
    return Words(found, every, least, embeddings)


def _meaning(vectors: Floats, scores: Floats, right: Floats, kept: Floats) -> Floats:
    """What the numbers of a vector say beside the words, both answers weighing alike."""
    matrix, told = np.column_stack([vectors, scores])[kept], right[kept]
    weight = np.where(told, 1 / told.sum(), 1 / (~told).sum())
    free = np.zeros(matrix.shape[1], bool)
    weights, _ = fit_chance(matrix, told, weight, free, ridge=3e-4)
    return weights[:-1]


def trial(
    evidence: Evidence, said: tuple[float, float], *, style: str, size: int, right: bool
) -> Trial:
    """What the chance goes by."""
    needs, meant = said
    parts = help_features(
        evidence.reading, evidence.telling, evidence.scope, needs=needs, meant=meant
    )
    return Trial(style=style, size=size, right=right, parts=parts)


class Asked(NamedTuple):
    """A question of a life or beside facts, with what was found for it."""

    trial: Trial
    question: Question
    evidence: Evidence


def lived(words: Words) -> Iterator[Asked]:
    """What is asked in the lives, each of tenants of its own."""
    clock = Clock()
    with TemporaryDirectory() as folder, ExitStack() as closing:
        index: dict[str, Any] = {"dims": words.embeddings.dims, "embed": words.embeddings}
        opened = Overheard.embedded(str(Path(folder) / "memory"), index=index, clock=clock)
        store = closing.enter_context(opened)
        for one in track(records("life"), "living", console=Console(stderr=True)):
            yield from _of_life(one, store, clock, words)


def _of_life(
    scenario: Mapping[str, Any], store: Overheard, clock: Clock, words: Words
) -> Iterator[Asked]:
    for event in scenario["events"]:
        clock.now = datetime.fromisoformat(event["at"]).replace(tzinfo=UTC)
        if (text := event.get("ask") or event.get("say")) is None:
            continue
        tenant, thread = f"{scenario['id']}-{event.get('user', 'ann')}", event["thread"]
        context = MemoryContext(tenant=tenant, session_id=thread)
        memory = MemoryCoordinator(store, context=context)
        if "ask" in event:
            memory.get_context(text, min_match=0)
            evidence = evidence_of(store, text, clock.now, without=thread)
            question = Question(text=text, gold=_gold(event, evidence), category=LIFE)
            right, said = not event.get("nothing"), words.of(text, scenario["writer"])
            yield Asked(trial(evidence, said, style=LIFE, size=0, right=right), question, evidence)
        said_ = [(text, "user"), (event.get("reply", "OK."), "assistant")]
        memory.store_many(
            {"content": one, "speaker": who, "source": "agent" if who != "user" else who}
            for one, who in said_
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


def strangers(history: History) -> list[Record]:
    """Messages of strangers that no memory helps with."""
    every = [one for one in records("messages") if one["kind"] in ("world", "talk")]
    return random.Random(history.name).sample(every, _STRANGERS)


def fit_floor(trials: Sequence[Trial], *, by_words: bool = False) -> dict[str, float]:
    """The chance that memory helps, by what is measured; `by_words` for an unknown model."""
    right = np.array([one.right for one in trials])
    used = np.array([not (by_words and name in NEARNESS) for name in HELP_FEATURES])
    matrix = np.array([one.parts for one in trials], float) * used
    bounded_ = np.array([name not in FREE for name in HELP_FEATURES])
    weights, bias = fit_chance(matrix, right, _weight(trials), bounded_, ridge=_RIDGE)
    return {**dict(zip(HELP_FEATURES, map(float, weights), strict=True)), "bias": bias}


def _weight(trials: Sequence[Trial]) -> Floats:
    kinds = [(one.style, one.size, one.right) for one in trials]
    counts = Counter(kinds)
    share = {True: _PRIOR, False: 1 - _PRIOR}
    weight = [
        _COUNTS.get(kind[0], 1.0) * (_SMALL if kind[1] else 1) * share[kind[2]] / counts[kind]
        for kind in kinds
    ]
    return np.array(weight)
