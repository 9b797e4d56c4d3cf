"""The shipped system under measurement: a real store, asked by `get_context`, and overheard."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from benchmarks.listening import Overheard
from benchmarks.recall_data import History, Question
from langmem_tiers import LocalEmbeddings, MemoryContext, MemoryCoordinator
from langmem_tiers.coordinator.base import word_vectors
from langmem_tiers.coordinator.remember import new_memories
from langmem_tiers.core.memory import Recollection
from langmem_tiers.core.values import small_talk_chance
from langmem_tiers.core.vectors import Distance
from langmem_tiers.postgres.offline_embeddings import OfflineEmbeddings
from langmem_tiers.recall.matching import (
    FEATURES,
    Candidate,
    SearchFacts,
    Weights,
    candidate_features,
    read_candidates_and_facts,
    score_candidates,
    word_similarities,
)
from langmem_tiers.recall.question import TALKS, read_question
from langmem_tiers.recall.question import Question as Reading

Floats = NDArray[np.float64]

LIMIT = 100
"""Memories asked for, so that one ranking fills 4,000 tokens."""
NAMES = FEATURES
"""The features in the order of the columns."""

_LATER = timedelta(days=7)
"""Questions are asked so long after the last thing happened."""


@dataclass(slots=True)
class Clock:
    """Tells the time of the history that is being remembered or asked."""

    now: datetime

    def __call__(self) -> datetime:
        return self.now


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the statement found for one question: a row of features for each candidate."""

    found: Sequence[Candidate]
    matrix: Floats
    cosine: Floats
    own: Floats
    reading: Reading
    scope: SearchFacts
    alike: Sequence[float] = ()
    """How alike the words of each are."""

    @property
    def telling(self) -> list[Candidate]:
        """What was found and is no small talk."""
        return [one for one in self.found if (small_talk_chance(one.value) or 0.0) < TALKS]

    @property
    def keys(self) -> list[str]:
        """Of what was found."""
        return [one.key for one in self.found]

    def matched(self, weights: Weights) -> list[str]:
        """The keys by the match that these weights make, best first."""
        judged = score_candidates(self.found, self.reading, self.scope, weights, self.alike)
        return [one.candidate.key for one in judged]

    def ranked(self, scores: Floats) -> list[str]:
        """The keys, best first; ties by key."""
        order = sorted(range(len(self.keys)), key=lambda n: (-scores[n], self.keys[n]))
        return [self.keys[n] for n in order]


class System:
    """The shipped system, a tenant for each history."""

    def __init__(self, url: str, embeddings: OfflineEmbeddings | None = None) -> None:
        """Describe it; `with` opens it."""
        used = LocalEmbeddings() if embeddings is None else embeddings
        index = {"dims": used.dims, "embed": used}
        self._clock = Clock(datetime.fromisoformat("2025-01-01T00:00:00+00:00"))
        self.store = Overheard.from_conn_string(url, index=index, clock=self._clock)

    def __enter__(self) -> Self:
        self.store.__enter__()
        self.store.setup()
        return self

    def __exit__(self, *_: object) -> None:
        self.store.close()

    @property
    def now(self) -> datetime:
        """What its clock says."""
        return self._clock.now

    def remember(self, history: History) -> None:
        """Import a history session by session, each at its own time; no gate judges it."""
        memory = self._coordinator(history)
        self._clock.now = history.end
        for when, together in groupby(history.memories, key=lambda one: one.occurred_at):
            self._clock.now = when or history.end
            todo = new_memories([one.fields for one in together])
            self.store.run(memory.pipeline.remember(todo, memory.context))

    def ask(self, history: History, question: Question, **options: Any) -> list[Recollection]:
        """What `get_context` returns a week after the end of the history, by match alone."""
        self._clock.now = self.asked_at(history)
        chosen = {"limit": LIMIT, "profile": "match", **options}
        return self._coordinator(history).get_context(question.text, **chosen)

    def evidence(self, history: History, question: Question) -> Evidence:
        """What was found for the question that was just asked."""
        return evidence_of(self.store, question.text, self.asked_at(history))

    @staticmethod
    def asked_at(history: History) -> datetime:
        """When the questions about a history are asked."""
        return history.end + _LATER

    def _coordinator(self, history: History) -> MemoryCoordinator:
        return MemoryCoordinator(self.store, context=MemoryContext(tenant=history.name))


def evidence_of(
    store: Overheard, question: str, now: datetime, *, without: str | None = None
) -> Evidence:
    """What a store found for the question that it was just asked, but for one session."""
    every, scope = read_candidates_and_facts(store.rows, Distance.COSINE)
    found = [one for one in every if without is None or one.session != without]
    reading = read_question(question, now.date())
    alike = word_similarities(found, reading, scope, word_vectors(store))
    return Evidence(
        found=found,
        matrix=np.array(candidate_features(found, reading, scope, alike), float).reshape(
            -1, len(NAMES)
        ),
        cosine=np.array([one.cosine or 0.0 for one in found]),
        own=np.array([one.own or 0.0 for one in found]),
        reading=reading,
        scope=scope,
        alike=alike,
    )
