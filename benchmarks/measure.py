"""Measuring all contenders at one number of rows."""

from __future__ import annotations

import asyncio
import gc
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, cast

from benchmarks import contenders, databases, tuned
from benchmarks.contenders import CLIENTS, OURS, PEER, RAW, AsyncClient, Client, keys_of
from benchmarks.corpus import Corpus, Memory, Query
from benchmarks.databases import Databases
from benchmarks.raw import LIMIT, RawClient
from benchmarks.results import (
    BATCH,
    GET,
    ONE,
    PUT,
    SEARCH,
    TASKS,
    THREADS,
    Comparison,
    SizeResult,
    quality_of,
)
from benchmarks.timing import Effort, Timing, many_tasks, many_threads, one_client

Progress = Callable[[str], object]
"""Told what is measured next."""

STEPS = 14
"""Calls of a Progress for each size."""

BATCH_SIZE = 50
RAW_AT_ONCE = "raw SQL, counting at once"
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

    def get(self, count: int) -> list[Memory]:
        return list(itertools.islice(self._stored, count))

    def search(self, count: int) -> list[Query]:
        return list(itertools.islice(self._queries, count))

    def put(self, count: int) -> list[list[Memory]]:
        return [[memory] for memory in itertools.islice(self._fresh, count)]

    def batch(self, count: int) -> list[list[Memory]]:
        return [list(itertools.islice(self._fresh, BATCH_SIZE)) for _ in range(count)]


def _bound(client: Client | AsyncClient, verb: str) -> Callable[[Any], Any]:
    method = {GET: client.get, SEARCH: client.search, PUT: client.put, BATCH: client.put}[verb]
    return cast("Callable[[Any], Any]", method)


def _fresh(spare: Sequence[Memory]) -> Iterator[Memory]:
    for number, memory in enumerate(itertools.cycle(spare)):
        yield replace(memory, key=f"{number:08x}-new")


class Measurer:
    """Runs every verb in every mode on one set of databases."""

    def __init__(
        self, databases: Databases, corpus: Corpus, effort: Effort, progress: Progress
    ) -> None:
        self._databases, self._corpus = databases, corpus
        self._effort, self._progress = effort, progress
        self._workload = Workload(corpus)
        self.result = SizeResult(corpus.size)

    def run(self) -> SizeResult:
        """Reads first: the writes make the tables grow."""
        self.result.relations = {
            OURS: databases.relations(self._databases.tiers),
            PEER: databases.relations(self._databases.peer),
        }
        gc.collect()
        gc.freeze()
        with contenders.one_client(self._databases, self._corpus) as clients:
            self._measure_quality(clients)
            self._measure_one(clients, _READS)
            asyncio.run(self._measure_tasks(_READS))
            self._measure_threads(_READS)
            self._measure_one(clients, _WRITES)
            asyncio.run(self._measure_tasks(_WRITES))
            self._measure_threads((PUT,))
        gc.unfreeze()
        return self.result

    def _measure_quality(self, clients: Mapping[str, Client]) -> None:
        self._progress("recall")
        asked = self._corpus.queries[:_RECALL_QUERIES]
        nearest = [self._corpus.nearest(query, LIMIT) for query in asked]
        for name, client in clients.items():
            found = [keys_of(client.search(query)) for query in asked]
            self.result.quality[name] = quality_of(list(zip(found, nearest, strict=True)))

    def _measure_one(self, clients: Mapping[str, Client], verbs: Sequence[str]) -> None:
        for verb in verbs:
            self._progress(f"{verb}, {ONE}")
            runs = {name: _bound(client, verb) for name, client in clients.items()}
            if verb == GET and isinstance(raw := clients[RAW], RawClient):
                runs[RAW_AT_ONCE] = raw.get_and_count
            warm = 6 if verb == BATCH else 30
            self._keep(ONE, verb, one_client(runs, self._work(verb), self._effort_of(verb), warm))

    async def _measure_tasks(self, verbs: Sequence[str]) -> None:
        async with contenders.tasks(self._databases, self._corpus) as clients:
            for verb in verbs:
                self._progress(f"{verb}, {TASKS}")
                runs = {
                    name: [_bound(client, verb) for client in several]
                    for name, several in clients.items()
                }
                warm = CLIENTS * (1 if verb == BATCH else 8)
                effort = self._effort_of(verb)
                self._keep(TASKS, verb, await many_tasks(runs, self._work(verb), effort, warm))

    def _measure_threads(self, verbs: Sequence[str]) -> None:
        with contenders.threads(self._databases, self._corpus) as clients:
            for verb in verbs:
                self._progress(f"{verb}, {THREADS}")
                runs = {
                    name: [_bound(client, verb) for client in several]
                    for name, several in clients.items()
                }
                effort = self._effort_of(verb)
                self._keep(THREADS, verb, many_threads(runs, self._work(verb), effort, CLIENTS * 8))

    def _work(self, verb: str) -> Callable[[int], list[Any]]:
        work = {
            GET: self._workload.get,
            SEARCH: self._workload.search,
            PUT: self._workload.put,
            BATCH: self._workload.batch,
        }
        return work[verb]

    def _effort_of(self, verb: str) -> Effort:
        if verb != BATCH:
            return self._effort
        return replace(self._effort, seconds=3 * self._effort.seconds)

    def _keep(self, mode: str, verb: str, timings: Mapping[str, Timing]) -> None:
        self.result.comparisons.append(Comparison(self._corpus.size, mode, verb, timings))


def measure_hand_set(
    server_url: str,
    found: Databases,
    corpus: Corpus,
    effort: Effort,
    progress: Progress,
    result: SizeResult,
) -> None:
    """Find the best hand-set PostgresStore for small namespaces and measure it beside ours."""
    flat = tuned.flat_copy(server_url, corpus.size)
    for name in tuned.ways():
        progress(f"PostgresStore, {name}")
        url = tuned.address(name, found.peer, flat)
        result.settings.append(tuned.attempt(name, url, corpus))
    for setting in tuned.best(result.settings).values():
        progress(f"beside {setting.name}")
        with ExitStack() as stack:
            clients = stack.enter_context(contenders.one_client(found, corpus))
            url = tuned.address(setting.name, found.peer, flat)
            clients[PEER] = stack.enter_context(tuned.opened(url, corpus))
            searches = {name: client.search for name, client in clients.items()}
            timings = one_client(searches, Workload(corpus).search, effort, 30)
        result.hand_set[setting.name] = Comparison(corpus.size, ONE, SEARCH, timings)
