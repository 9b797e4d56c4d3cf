"""Measuring all contenders at one number of rows."""

from __future__ import annotations

import asyncio
import gc
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from benchmarks import contenders, databases
from benchmarks.contenders import BATCH, CLIENTS, GET, OURS, PEER, PUT, SEARCH, Client, keys_of
from benchmarks.corpus import Corpus, Memory
from benchmarks.databases import Databases
from benchmarks.raw import LIMIT
from benchmarks.store_report import ONE, TASKS, Comparison, Quality, SizeResult
from benchmarks.timing import Effort, Timing, many_tasks, one_client

Progress = Callable[[str], object]
"""Told what is measured next."""

STEPS = 9
"""Calls of a Progress by `Measurer.run`."""

BATCH_SIZE = 50
_READS, _WRITES = (GET, SEARCH), (PUT, BATCH)
_RECALL_QUERIES = 200
_STRIDE = 7919


class Workload:
    """What to do next: the same sequence for every contender, never the same put twice."""

    def __init__(self, corpus: Corpus) -> None:
        self._stored = (
            corpus.stored[number * _STRIDE % corpus.size] for number in itertools.count()
        )
        self._queries = itertools.cycle(corpus.queries)
        self._fresh = _fresh(corpus.spare)

    def next(self, verb: str, count: int) -> list[Any]:
        """So many arguments for that verb."""
        if verb == GET:
            return list(itertools.islice(self._stored, count))
        if verb == SEARCH:
            return list(itertools.islice(self._queries, count))
        size = BATCH_SIZE if verb == BATCH else 1
        return [list(itertools.islice(self._fresh, size)) for _ in range(count)]


def _fresh(spare: Sequence[Memory]) -> Iterator[Memory]:
    for number, memory in enumerate(itertools.cycle(spare)):
        yield replace(memory, key=f"{number:08x}-new")


@dataclass(frozen=True, slots=True)
class Setup:
    """What is measured on, how long, and who is told."""

    databases: Databases
    corpus: Corpus
    effort: Effort
    progress: Progress

    def effort_of(self, verb: str) -> Effort:
        """Batches take longer, so their blocks do."""
        if verb != BATCH:
            return self.effort
        return replace(self.effort, seconds=3 * self.effort.seconds)


class Measurer:
    """Runs every verb in every mode on one set of databases."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._workload = Workload(setup.corpus)
        self.result = SizeResult(setup.corpus.size)

    def run(self) -> SizeResult:
        """Reads first: the writes make the tables grow."""
        self.result.relations = {
            OURS: databases.relations(self._setup.databases.tiers),
            PEER: databases.relations(self._setup.databases.peer),
        }
        gc.collect()
        gc.freeze()
        with contenders.one_client(self._setup.databases, self._setup.corpus) as clients:
            self._measure_quality(clients)
            for verbs in (_READS, _WRITES):
                self._measure_one(clients, verbs)
                asyncio.run(self._measure_tasks(verbs))
        gc.unfreeze()
        return self.result

    def _measure_quality(self, clients: Mapping[str, Client]) -> None:
        self._setup.progress("recall")
        corpus = self._setup.corpus
        asked = corpus.queries[:_RECALL_QUERIES]
        nearest = [corpus.nearest(query, LIMIT) for query in asked]
        for name, client in clients.items():
            found = [keys_of(client[SEARCH](query)) for query in asked]
            self.result.quality[name] = Quality.of(list(zip(found, nearest, strict=True)), LIMIT)

    def _measure_one(self, clients: Mapping[str, Client], verbs: Sequence[str]) -> None:
        for verb in verbs:
            runs = {name: client[verb] for name, client in clients.items()}
            work, effort = self._begin(ONE, verb)
            self._keep(ONE, verb, one_client(runs, work, effort, 6 if verb == BATCH else 30))

    async def _measure_tasks(self, verbs: Sequence[str]) -> None:
        setup = self._setup
        async with contenders.tasks(setup.databases, setup.corpus) as clients:
            for verb in verbs:
                runs = {name: [one[verb] for one in several] for name, several in clients.items()}
                work, effort = self._begin(TASKS, verb)
                # Tasks share flights, and each of the connections has to have flown some.
                warm = CLIENTS * (1 if verb == BATCH else 8 * CLIENTS)
                self._keep(TASKS, verb, await many_tasks(runs, work, effort, warm))

    def _begin(self, mode: str, verb: str) -> tuple[Callable[[int], list[Any]], Effort]:
        self._setup.progress(f"{verb}, {mode}")
        return lambda count: self._workload.next(verb, count), self._setup.effort_of(verb)

    def _keep(self, mode: str, verb: str, timings: Mapping[str, Timing]) -> None:
        self.result.comparisons.append(Comparison(self.result.size, mode, verb, timings))
