"""Conversations to recall from, and questions about them: deterministic, nothing of it timed.

Every tenant has 1,000 memories: turns of two people with names, in sessions of 25. The oldest 12
sessions stand in long_term, 24 in working; the newest hundred turns are one session, the one that
asks, in short_term. A text has 10 to 25 words; those that carry meaning follow Zipf's law.

Ten tenants are made. Further ones are copies of them: the same texts, and each tenant's vectors
shifted by a vector of its own, so that no two tenants' vectors are the same.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from benchmarks.corpus import LookupEmbeddings, Matrix
from langmem_tiers import MemoryContext

TENANT_SIZE = 1_000
MADE = 10
"""Tenants that are made, not copied."""
DIMS = 256

_TURNS, _CURRENT_TURNS = 25, 100
_TIERS = ("long_term",) * 12 + ("working",) * 24
_NOW = "session-now"
_START = datetime(2026, 1, 5, 9, tzinfo=UTC)
_TALKERS = ("Dora", "Milan", "Ines", "Jonas", "Leila", "Oskar", "Petra", "Viktor")
_LITTLE_WORDS = ("the", "I", "to", "and", "a", "of", "in", "it", "was", "is", "that", "for", "on")
_LITTLE_SHARE, _OWN_SHARE = 0.45, 0.2
"""Of a text's words, how many say nothing; of the others, how many its session has to itself."""
_VOCABULARY, _OWN_WORDS, _OFFSET = 6_000, 30, 2.7
_ONSETS = ("b", "br", "d", "f", "g", "k", "l", "m", "n", "p", "r", "s", "st", "t", "tr", "v")
_VOWELS = ("a", "e", "i", "o", "u", "ai", "ea", "ou")
_ASKED = (
    "What did {speaker} say about {words}?",
    "When did {speaker} talk about {words}?",
    "Did {speaker} mention {words}?",
    "Who said that {words}?",
    "Tell me about {words}",
)
_SUBJECTS, _SPREAD, _NOISE, _SHIFT, _QUERY_NOISE = 200, 0.7, 0.6, 0.2, 0.35


@dataclass(frozen=True, slots=True)
class Memory:
    """A turn of a talk; `words` are those of its text that carry meaning."""

    key: str
    content: str
    words: tuple[str, ...]
    tier: str
    session: str
    turn: int
    speaker: str
    occurred_at: datetime

    @property
    def fields(self) -> dict[str, Any]:
        """The arguments that store it."""
        return {
            "key": self.key,
            "content": self.content,
            "tier": self.tier,
            "session_id": self.session,
            "turn": self.turn,
            "speaker": self.speaker,
            "occurred_at": self.occurred_at,
        }


@dataclass(frozen=True, slots=True)
class Question:
    """What a tenant asks, and the memory that it has in mind."""

    tenant: str
    text: str
    key: str


class ContentEmbeddings(LookupEmbeddings):
    """Looks vectors up by what was said, whatever is put before it."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.vectors[text.rpartition(" said: ")[2]] for text in texts]


class Talks:
    """The memories of the tenants that are made, and questions of all tenants."""

    def __init__(self, size: int, *, questions: int, seed: int = 11) -> None:
        rng = random.Random(seed)
        self.size, self.tenants = size, -(-size // TENANT_SIZE)
        writer = _Writer(rng)
        self.made = [list(writer.tenant(n)) for n in range(min(self.tenants, MADE))]
        numbers = np.random.default_rng(seed)
        self._vectors = _vectors(len(self.made) * TENANT_SIZE, numbers)
        shifts = _unit(numbers.standard_normal((self.tenants, DIMS), dtype=np.float32))
        shifts[:MADE] = 0
        self._shifts: Matrix = _SHIFT * shifts
        self.embeddings = ContentEmbeddings()
        self.questions = list(self._ask(questions, rng, numbers))

    def lend(self, tenant: int) -> None:
        """Know the vectors of a tenant that is made, to store it."""
        rows = self._vectors[tenant * TENANT_SIZE :][:TENANT_SIZE].tolist()
        contents = (memory.content for memory in self.made[tenant])
        self.embeddings.vectors.update(zip(contents, rows, strict=True))

    def shift(self, tenant: int) -> NDArray[np.float32]:
        """What a copied tenant's vectors differ by from those of the tenant it is copied from."""
        shift: NDArray[np.float32] = self._shifts[tenant]
        return shift

    def _ask(
        self, count: int, rng: random.Random, numbers: np.random.Generator
    ) -> Iterator[Question]:
        """Each names two to five words of a memory; no two are the same."""
        noise = _unit(numbers.standard_normal((count, DIMS), dtype=np.float32))
        for n in range(count):
            tenant, row = rng.randrange(self.tenants), rng.randrange(TENANT_SIZE)
            memory = self.made[tenant % MADE][row]
            text = _question(memory, rng)
            while text in self.embeddings.vectors:
                text = _question(memory, rng) + f" ({n})"
            near = self._vectors[tenant % MADE * TENANT_SIZE + row] + self._shifts[tenant]
            self.embeddings.vectors[text] = _unit(near + _QUERY_NOISE * noise[n]).tolist()
            yield Question(tenant_name(tenant), text, memory.key)


def tenant_name(number: int) -> str:
    """The name of a tenant."""
    return f"tenant-{number:04}"


def context(tenant: str) -> MemoryContext:
    """Who asks: in the one project of the tenant, in its newest session."""
    return MemoryContext(tenant=tenant, project_id="project", session_id=_NOW)


class _Writer:
    """Makes up words, then talks of them."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._words = _vocabulary(rng)
        self._cumulated = list(accumulate(1 / (n + _OFFSET) for n in range(1, _VOCABULARY + 1)))

    def tenant(self, number: int) -> Iterator[Memory]:
        """All memories of a tenant, oldest first."""
        talkers = (_TALKERS[number % len(_TALKERS)], _TALKERS[(number + 3) % len(_TALKERS)])
        for n, tier in enumerate(_TIERS):
            yield from self._session(f"session-{n:02}", tier, talkers, _TURNS, n)
        yield from self._session(_NOW, "short_term", talkers, _CURRENT_TURNS, len(_TIERS))

    def _session(
        self, name: str, tier: str, talkers: tuple[str, str], turns: int, week: int
    ) -> Iterator[Memory]:
        own = self._rng.choices(self._words, k=_OWN_WORDS)
        for turn in range(turns):
            text, words = self._text(own)
            yield Memory(
                key=str(UUID(int=self._rng.getrandbits(128), version=4)),
                content=text,
                words=words,
                tier=tier,
                session=name,
                turn=turn,
                speaker=talkers[turn % 2],
                occurred_at=_START + timedelta(weeks=week, minutes=turn),
            )

    def _text(self, own: list[str]) -> tuple[str, tuple[str, ...]]:
        rng = self._rng
        length = rng.randint(10, 25)
        words = rng.choices(self._words, cum_weights=self._cumulated, k=length)
        words = [rng.choice(own) if rng.random() < _OWN_SHARE else word for word in words]
        little = [rng.random() < _LITTLE_SHARE for _ in words]
        told = [
            rng.choice(_LITTLE_WORDS) if skip else w for w, skip in zip(words, little, strict=True)
        ]
        said = dict.fromkeys(w for w, skip in zip(words, little, strict=True) if not skip)
        return " ".join(told).capitalize() + ".", tuple(said)


def _question(memory: Memory, rng: random.Random) -> str:
    count = min(len(memory.words), rng.randint(2, 5))
    words = " ".join(rng.sample(memory.words, count))
    return rng.choice(_ASKED).format(speaker=memory.speaker, words=words)


def _vocabulary(rng: random.Random) -> list[str]:
    """Words that look like some, in the order of their frequency."""
    found: dict[str, None] = {}
    while len(found) < _VOCABULARY:
        syllables = rng.choices((2, 3), (3, 2))[0]
        word = "".join(rng.choice(_ONSETS) + rng.choice(_VOWELS) for _ in range(syllables))
        found[word + rng.choice(("", "n", "r", "l", "t"))] = None
    return list(found)


def _vectors(count: int, rng: np.random.Generator) -> Matrix:
    """Sessions' subjects and noise, whose spectrum falls off as in real models."""
    spectrum = (1.0 + np.arange(DIMS, dtype=np.float32)) ** -0.5
    subjects = _unit(rng.standard_normal((_SUBJECTS, DIMS), dtype=np.float32) * spectrum)
    common = _unit(rng.standard_normal(DIMS, dtype=np.float32) * spectrum)
    noise = _unit(rng.standard_normal((count, DIMS), dtype=np.float32) * spectrum)
    about = rng.integers(_SUBJECTS, size=-(-count // _TURNS)).repeat(_TURNS)[:count]
    return _unit(common + _SPREAD * subjects[about] + _NOISE * noise)


def _unit(matrix: NDArray[np.float32]) -> Matrix:
    unit: Matrix = matrix / np.linalg.norm(matrix, axis=-1, keepdims=True)
    return unit.astype(np.float32)
