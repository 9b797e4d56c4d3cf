"""How recall's time grows with one tenant, on real talk: `python -m benchmarks.growth`.

The conversations are those of `benchmarks.recall`: LoCoMo and meetings where they are there, logs
and chats of a script. A tenant is as many of them as it is large, told again under other keys
where there are not enough: what is said twice is as near twice, which no time depends on.
"""

from __future__ import annotations

import gc
import itertools
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated

import numpy as np
import psycopg
import typer
from pgvector import HalfVector
from pgvector.psycopg import register_vector

from benchmarks.data import statements
from benchmarks.databases import environment
from benchmarks.recall import FILES
from benchmarks.recall_data import History, Memory, Question, generated, read
from benchmarks.recall_peers import Bm25
from benchmarks.recall_system import System
from benchmarks.tables import (
    Bar,
    Json,
    Markdown,
    Quick,
    Report,
    Sheet,
    facts,
    progress,
    ratio_bar,
)
from langmem_tiers import EmbeddedPostgres, LocalEmbeddings, MemoryContext, MemoryCoordinator

SIZES = (1_000, 3_000, 10_000, 30_000, 100_000)
QUICK = (100, 300)
RARE, RARELY = "semantic", 50
"""One memory of so many is of another type than the rest."""
BY_HAND, BM25 = "SQL by hand", "BM25 in the process"
WANTED = 0.25
"""The exponent that time may grow with: ten times as many memories take 1.8 times as long."""

_ASKED, _LONG = 40, 8
_WORDS = (150, 300)
"""Of a long question: what somebody said in a meeting or told an assistant."""
_BLOCKS = 5
_WIDTH = 40


@dataclass(frozen=True, slots=True)
class Questions:
    """What is asked, of every size the same."""

    short: Sequence[str]
    long: Sequence[str]


@dataclass(slots=True)
class Grown:
    """Milliseconds at each size, median of five rounds over all questions, by what is called."""

    times: dict[str, dict[int, float]] = field(default_factory=dict)

    def exponent(self, name: str) -> float:
        """The slope of the logarithm of the time over that of the size."""
        sizes, times = zip(*self.times[name].items(), strict=True)
        return float(np.polyfit(np.log(sizes), np.log(times), 1)[0])


def main(
    *,
    quick: Quick = False,
    size: Annotated[
        list[int] | None, typer.Option(help="Memories of a tenant to measure; repeatable.")
    ] = None,
    json_file: Json = None,
    markdown: Markdown = False,
) -> None:
    """Measure get_context and search in tenants of growing size, in one run."""
    started = time.monotonic()
    sizes = sorted(set(size or (QUICK if quick else SIZES)))
    if len(sizes) < 2 or sizes[0] < 1:
        raise typer.BadParameter("give two sizes or more: growth is between them")
    with tempfile.TemporaryDirectory() as directory, EmbeddedPostgres(directory) as server:
        found = run(server.url, sizes)
        foot = facts(environment(server.url), time.monotonic() - started)
    Report([sheet(found, sizes), plot(found, sizes)], list(bars(found)), foot).write(
        markdown=markdown, json_file=json_file
    )


def run(url: str, sizes: Sequence[int]) -> Grown:
    """Fill a database with a tenant of each size, and ask all of each, one size after another."""
    histories = [
        one
        for style in (*(read(file) for file in FILES if file.exists()), *generated())
        for one in style.histories
    ]
    found, questions = Grown(), asked(histories)
    with System(url) as system, progress("memories") as bar:
        task = bar.add_task("storing", total=sum(sizes))
        for size in sizes:
            memories = told_to(histories, size)
            system.remember(History(name=f"of {size}", memories=memories, questions=[]))
            bar.advance(task, size)
        system.store.optimize()
        with psycopg.connect(url, autocommit=True) as conn:
            conn.execute("VACUUM ANALYZE")
        for size in sizes:
            bar.update(task, description=f"asking {size:,}")
            tenant, memories = f"of {size}", told_to(histories, size)
            for name, call, texts in itertools.chain(
                calls(system, tenant, questions), others(url, tenant, memories, questions)
            ):
                found.times.setdefault(name, {})[size] = measured(call, texts)
    return found


def told(histories: Sequence[History]) -> Iterator[Memory]:
    """Memories without end: every history, then all of them again under other keys."""
    for again in itertools.count():
        for number, history in enumerate(histories):
            before = f"{again}-{number}-"
            for place, one in enumerate(history.memories):
                session = one.session and before + one.session
                kind = one.memory_type if place % RARELY else RARE
                yield replace(one, key=before + one.key, session=session, memory_type=kind)


def told_to(histories: Sequence[History], size: int) -> list[Memory]:
    """What the tenant of that size is told."""
    return list(itertools.islice(told(histories), size))


def asked(histories: Sequence[History]) -> Questions:
    """Questions of the first histories, and what was said at length in any."""
    short = [one.text for history in histories for one in history.answerable]
    least, most = _WORDS
    long = [
        one.content
        for history in histories
        for one in history.memories
        if least <= len(one.content.split()) <= most
    ]
    return Questions(short[:: max(1, len(short) // _ASKED)][:_ASKED], long[:_LONG])


def calls(
    system: System, tenant: str, questions: Questions
) -> Iterator[tuple[str, Callable[[str], object], Sequence[str]]]:
    """What is timed in a tenant: its name, the call, and what it is asked."""
    memory = MemoryCoordinator(system.store, context=MemoryContext(tenant=tenant))
    yield "get_context", lambda text: memory.get_context(text, limit=10), questions.short
    if questions.long:
        name = f"get_context, {_WORDS[0]} words and more"
        yield name, lambda text: memory.get_context(text, limit=10), questions.long

    def rare(text: str) -> object:
        return memory.get_context(text, limit=10, memory_types=[RARE])

    yield "get_context of a rare type", rare, questions.short
    yield "search", lambda text: system.store.search((tenant,), query=text), questions.short


def others(
    url: str, tenant: str, memories: Sequence[Memory], questions: Questions
) -> Iterator[tuple[str, Callable[[str], object], Sequence[str]]]:
    """What is timed beside it: SQL as one writes it first, and BM25 in the process."""
    embeddings = LocalEmbeddings()
    with psycopg.connect(url, autocommit=True, prepare_threshold=0) as conn:
        register_vector(conn)
        text = statements("growth")["by_hand"]

        def by_hand(query: str) -> object:
            vector = HalfVector(embeddings.embed_query(query))
            asked = {"tenant": tenant, "text": query, "vector": vector}
            return conn.execute(text, asked, binary=True).fetchall()

        yield BY_HAND, by_hand, questions.short
    asked = [Question(text=one, gold=frozenset([""]), category="") for one in questions.short]
    bm25 = Bm25(url, History(name=tenant, memories=memories, questions=asked))
    of_text = {one.text: one for one in asked}
    yield BM25, lambda text: bm25.ranked(of_text[text], 10), questions.short


def measured(call: Callable[[str], object], texts: Sequence[str]) -> float:
    """Milliseconds a call: the median of rounds, each the median of its questions."""
    for text in texts:
        call(text)
    rounds = []
    for _ in range(_BLOCKS):
        gc.collect()
        taken = []
        for text in texts:
            started = time.perf_counter()
            call(text)
            taken.append((time.perf_counter() - started) * 1000)
        rounds.append(statistics.median(taken))
    return statistics.median(rounds)


def sheet(found: Grown, sizes: Sequence[int]) -> Sheet:
    """Milliseconds by size, and the exponents."""
    rows = [
        (name, *(f"{times[size]:.1f}" for size in sizes), f"{found.exponent(name):.2f}")
        for name, times in found.times.items()
    ]
    ours = found.times["get_context"]
    for name in (BY_HAND, BM25):
        shares = (f"{ours[size] / found.times[name][size]:.2f}" for size in sizes)
        rows.append((f"get_context / {name}", *shares, ""))
    columns = ("ms a call, p50, one client", *(f"{size:,}" for size in sizes), "exponent")
    return Sheet("One tenant that grows", columns, rows)


def plot(found: Grown, sizes: Sequence[int]) -> Sheet:
    """The same as bars."""
    longest = max(time for times in found.times.values() for time in times.values())
    rows = [
        (name, f"{size:,}", "█" * max(1, round(_WIDTH * times[size] / longest)))
        for name, times in found.times.items()
        for size in sizes
    ]
    return Sheet("Time by size", ("", "memories", "time"), rows)


def bars(found: Grown) -> Iterator[Bar]:
    """What may grow with the size, and how fast."""
    for name in (one for one in found.times if one not in {BY_HAND, BM25}):
        claim = f"{name}: exponent of its time over the size of a tenant"
        yield ratio_bar(claim, "<=", WANTED, found.exponent(name), "")


if __name__ == "__main__":
    typer.run(main)
