"""What a run found, as plain data."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from typing import Any

import psycopg

from benchmarks.databases import Relation
from benchmarks.timing import Timing

GET, PUT, BATCH, SEARCH = "get", "put", "batch of 50 puts", "search"
VERBS = (GET, PUT, BATCH, SEARCH)
ONE, TASKS, THREADS = "1 client", "16 tasks", "16 threads"
MODES = (ONE, TASKS, THREADS)
RAW_AT_ONCE = "raw SQL, counting each access at once"
HNSW, EXACT = "HNSW", "exact"

_PACKAGES = ("langgraph-checkpoint-postgres", "langgraph-checkpoint", "psycopg", "pgvector")


@dataclass(frozen=True, slots=True)
class Comparison:
    """One verb at one size, all contenders in the same blocks."""

    size: int
    mode: str
    verb: str
    timings: Mapping[str, Timing]

    def ratio(self, slower: str, faster: str) -> float:
        """How many times as long the one takes as the other."""
        return self.timings[slower].milliseconds / self.timings[faster].milliseconds


@dataclass(frozen=True, slots=True)
class Quality:
    """What searches of limit 10 found, each in a namespace of 1 % of the rows."""

    full_pages: float
    """Share of searches that returned 10."""
    recall: float
    """Share of the ten nearest by exact cosine that were among them."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A way to set PostgresStore by hand, and what it gave."""

    name: str
    kind: str
    """Which plan it led to: HNSW or EXACT."""
    milliseconds: float
    quality: Quality

    @property
    def good(self) -> bool:
        return self.quality.recall >= 0.99 and self.quality.full_pages == 1


@dataclass(slots=True)
class SizeResult:
    """Everything measured at one number of rows."""

    size: int
    comparisons: list[Comparison] = field(default_factory=list)
    quality: dict[str, Quality] = field(default_factory=dict)
    relations: dict[str, list[Relation]] = field(default_factory=dict)
    settings: list[Setting] = field(default_factory=list)
    hand_set: dict[str, tuple[Setting, Comparison]] = field(default_factory=dict)
    """By kind, the best setting: searches in blocks beside ours."""

    def find(self, mode: str, verb: str) -> Comparison | None:
        """The comparison of that mode and verb, if it was measured."""
        chosen = [one for one in self.comparisons if (one.mode, one.verb) == (mode, verb)]
        return chosen[0] if chosen else None

    def bytes_per_memory(self, contender: str, *, vectors: bool = True) -> float:
        """Tables and indexes, divided by the number of memories."""
        kept = [one for one in self.relations[contender] if vectors or not one.of_vectors]
        return sum(one.bytes for one in kept) / self.size


@dataclass(slots=True)
class Results:
    """A whole run."""

    dims: int
    environment: dict[str, str]
    sizes: list[SizeResult] = field(default_factory=list)
    seconds: float = 0.0

    def at(self, size: int) -> SizeResult | None:
        """What was measured at that number of rows, if it was."""
        return next((one for one in self.sizes if one.size == size), None)

    def as_json(self) -> dict[str, Any]:
        """For `json.dump`."""
        return asdict(self)


def environment(server_url: str) -> dict[str, str]:
    """What the figures depend on."""
    with psycopg.connect(server_url) as conn:
        (server,) = conn.execute("SHOW server_version").fetchone() or ("",)
        query = "SELECT default_version FROM pg_available_extensions WHERE name = 'vector'"
        (vector,) = conn.execute(query).fetchone() or ("",)
    return {
        "PostgreSQL": server,
        "extension vector": vector,
        "Python": platform.python_version(),
        "CPUs": str(os.cpu_count()),
        **{name: version(name) for name in _PACKAGES},
    }


def quality_of(pages: Sequence[tuple[set[str], set[str]]]) -> Quality:
    """From (found, nearest) of each search."""
    return Quality(
        full_pages=sum(len(found) >= len(nearest) for found, nearest in pages) / len(pages),
        recall=sum(len(found & nearest) / len(nearest) for found, nearest in pages) / len(pages),
    )
