"""A life whose recalls are recorded: writes of every kind, and questions with every argument."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from random import Random
from typing import Any

from langchain_core.documents import BaseDocumentCompressor, Document

from langmem_tiers import MemoryCoordinator, Reviewer, Tier, TieredStore
from langmem_tiers.core.memory import TIERS, Recollection
from langmem_tiers.recall.ranking import PROFILES, RankingQuery
from langmem_tiers.remember.review import Reviewers
from langmem_tiers.testing import TrigramEmbeddings
from tests.support.coordinating import PATIENT, coordinator
from tests.support.opening import DIMS, Clock

RECORDING = replace(PATIENT, recall_days=30)
_WHO = ("Ada", "Ben", "Cleo")
_DOES = ("likes", "sold", "painted", "lost", "bought", "repaired")
_WHAT = ("the red boat", "a piano", "two roses", "the old barn", "her key", "a lorry")
_TYPES = ("semantic", "episodic", "procedural", "working", "learning")


class Backwards(BaseDocumentCompressor):
    """Orders the best the other way round, and leaves the last out."""

    def compress_documents(
        self,
        documents: Sequence[Document],
        query: str,  # noqa: ARG002 - the interface's
        callbacks: Any = None,  # noqa: ARG002 - the interface's
    ) -> Sequence[Document]:
        return [*documents][1:][::-1]


def by_length(memory: Recollection, _: RankingQuery) -> dict[str, float]:
    """A profile of the caller's own."""
    return {"match": memory.match, "length": len(memory.content) / 1000}


def shorter(content: str, query: str) -> tuple[float, str]:
    """A reviewer of the caller's own."""
    return 1 / (1 + len(content)), query


@dataclass
class Life:
    """Writes at random, and recalls what a replay is to find again."""

    store: TieredStore
    clock: Clock
    random: Random
    recalled: list[tuple[MemoryCoordinator, str, int]] = field(default_factory=list)
    """Who recalled, under which name, and how many were shown."""

    def __post_init__(self) -> None:
        """Somebody for the team, two users, and one who orders the other way round."""
        whose: dict[str, Any] = {"project_id": "p", "session_id": "s", "settings": RECORDING}
        whose["reviewers"] = Reviewers([Reviewer(name="own", relevance=shorter)])
        self.callers = [coordinator(self.store, user_id=user, **whose) for user in _USERS]
        self.callers.append(coordinator(self.store, reranker=Backwards(), **whose))
        self._embed = TrigramEmbeddings(DIMS)
        self._keys: list[str] = []

    def live(self, recalls: int) -> None:
        """Write now and then, and recall so often."""
        for _ in range(8):
            self._store()
        for number in range(recalls):
            self.clock.advance(minutes=self.random.randrange(1, 600))
            self.random.choice(self._writes())()
            self._recall(number)

    def _writes(self) -> list[Callable[[], object]]:
        return [self._store, self._store, self._overwrite, self._delete, self._move, self._settle]

    def _who(self) -> MemoryCoordinator:
        return self.random.choice(self.callers)

    def _says(self) -> str:
        return " ".join(map(self.random.choice, (_WHO, _DOES, _WHAT))) + "."

    def _store(self, key: str | None = None) -> None:
        key = key or f"m{len(self._keys)}"
        self._keys.append(key)
        when = self.clock.now - timedelta(days=self.random.randrange(60))
        self._who().store(
            self._says(),
            self.random.choice(_TYPES),
            key=key,
            tags=self.random.sample(["boat", "home", "work"], 2),
            importance=self.random.random(),
            speaker=self.random.choice((None, *_WHO)),
            occurred_at=when.isoformat(),
        )

    def _overwrite(self) -> None:
        self._store(self.random.choice(self._keys))

    def _delete(self) -> None:
        self._who().delete_memory(self.random.choice(self._keys))

    def _move(self) -> None:
        found = self.store.search(("acme",), limit=100)
        if found:
            one = self.random.choice(found)
            tier = self.random.choice((Tier.WORKING, Tier.LONG_TERM))
            self.store.move(one.namespace, one.key, tier)

    def _settle(self) -> None:
        if self.recalled:
            memory, name, _ = self.random.choice(self.recalled)
            memory.learning.record_outcome(run_id=name, success=self.random.random() < 0.5)

    def _recall(self, number: int) -> None:
        memory, run = self._who(), f"run-{number}" if self.random.random() < 0.3 else None
        query = self.random.choice((self._asks, self._asks, self._asks, str))()
        options = dict(self.random.sample(list(self._options(query)), 3))
        if run is not None:
            options |= {"run_id": run, "holdout": 0.3}
        found = memory.get_context(query, **options)
        assert found.recall_id is not None
        assert run in (None, found.recall_id)
        self.recalled.append((memory, found.recall_id, len(found)))

    def _asks(self) -> str:
        return self.random.choice(
            (
                f"Who {self.random.choice(_DOES)} {self.random.choice(_WHAT)}?",
                f"What happened to {self.random.choice(_WHO)} last month?",
                "Thanks!",
                self._says(),
            )
        )

    def _options(self, query: str) -> Iterator[tuple[str, Any]]:
        some, now = self.random, self.clock.now
        yield "tiers", some.sample(list(TIERS), 2)
        yield "memory_types", some.sample(_TYPES, 2)
        yield "tags", ["home"]
        yield "limit", some.choice((0, 1, 3, 10, 100))
        yield "max_tokens", some.choice((0, 10, 40, 400))
        yield "since", now - timedelta(days=some.randrange(40))
        yield "as_of", now - timedelta(days=some.randrange(20))
        yield "known_at", now - timedelta(days=some.randrange(2))
        yield "min_importance", 0.5
        yield "filter", {"speaker": some.choice(_WHO)}
        yield "deduplicate", True
        yield "similarity_threshold", 0.3
        yield "profile", some.choice((*PROFILES, by_length))
        yield "min_match", some.choice((0, 0.1, (0.05, 0.5)))
        yield "exclude", some.sample(self._keys, 3)
        yield "review", "own"
        yield "embedding", self._embed.embed_query(query or "boat")


_USERS = (None, "ada", "ben")
