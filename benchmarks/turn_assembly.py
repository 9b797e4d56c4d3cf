"""How long a turn takes to assemble its context: `python -m benchmarks.turn_assembly`.

A tenant's project has 10,000 memories of every type; each turn gets a context of at most 8,000
tokens for a question about one of them. Embedding is left out: vectors are looked up. Beside it
stand the statements that the turn sends, alone, in their round trips, and the fit alone.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from benchmarks.corpus import LookupEmbeddings
from benchmarks.databases import environment
from benchmarks.listening import Statements
from benchmarks.timing import milliseconds, p95
from langmem_tiers import (
    Budget,
    CoordinatorSettings,
    EmbeddedPostgres,
    MemoryContext,
    MemoryCoordinator,
    MemoryOrchestrator,
    TieredStore,
)
from langmem_tiers.memory.asking import new_memories
from langmem_tiers.postgres.flow import Call, Flow, Query, Script
from langmem_tiers.turn.fitting import assemble
from langmem_tiers.turn.fragment import Fragment, Section
from langmem_tiers.turn.layout import ORCHESTRATOR
from langmem_tiers.turn.memories import circumstances

MEMORIES, TOKENS = 10_000, 8_000
BAR = 200.0
"""Milliseconds that 95 of 100 contexts may take (the specification's end-to-end target)."""

_DIMS, _WORDS, _LENGTH, _ASKED, _BATCH = 256, 20_000, 60, 5, 500
_SAID = 40
"""Messages of the conversation so far, each as long as a memory."""
_STOP = 60
"""The most frequent words of a language, which no index holds, are not among ours."""
_KINDS = ("semantic", "episodic", "semantic", "pattern", "episodic", "reflexion", "interaction")
_SELDOM = {"working": 40, "prospective": 40}
_SYLLABLES = ("ka", "lo", "mi", "ren", "ta", "su", "vel", "dor", "in", "pa", "che", "gra", "nu")
_PATIENT = CoordinatorSettings(query_timeout_ms=60_000)
_CONTEXT = MemoryContext(tenant="acme", project_id="ops", session_id="chat")
_IDENTITY = {"identity": ["I keep the calendar of ops"], "governance": ["Never print a key"]}


def main(
    *,
    turns: Annotated[int, typer.Option(help="Contexts to assemble.")] = 300,
    memories: Annotated[int, typer.Option(help="Memories of the project.")] = MEMORIES,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write every figure.")] = None,
) -> None:
    """Measure assemble_context beside its statements alone, on one server."""
    random = np.random.default_rng(7)
    embeddings = LookupEmbeddings()
    texts = _texts(random, memories)
    questions = _questions(random, texts, turns)
    conversation = _conversation(texts)
    asked = [*questions, *_asked_along(conversation)]
    _embed(embeddings, random, texts, asked)
    with tempfile.TemporaryDirectory() as directory, EmbeddedPostgres(directory) as server:
        index: Any = {"dims": _DIMS, "embed": embeddings, "fields": ["content"]}
        with TieredStore(server.url, index=index, short_term_ttl=None) as store:
            store.setup()
            memory = MemoryCoordinator(store, context=_CONTEXT, settings=_PATIENT)
            _fill(memory, texts)
            figures = _measured(memory, questions, conversation)
            found = {"environment": environment(server.url), "memories": memories, **figures}
    _show(figures, turns, memories)
    if json_file is not None:
        json_file.write_text(json.dumps(found, indent=1, default=str), encoding="utf-8")


def _measured(
    memory: MemoryCoordinator, questions: Sequence[str], messages: Sequence[dict[str, str]]
) -> dict[str, Any]:
    """Turn by turn: the context, its statements alone, and the fit alone."""
    store = memory.tiered_store
    times: dict[str, list[float]] = {"assemble_context": [], "its statements": [], "the fit": []}
    tokens = []
    for place, question in enumerate(questions):
        noted = Statements()
        with MemoryOrchestrator(
            memory, budget=Budget(tokens=TOKENS), sources={"identity": _IDENTITY}
        ) as turn:
            began = time.perf_counter()
            context = turn.assemble_context(question, messages=messages)
            whole = 1000 * (time.perf_counter() - began)
        with noted.of(store), MemoryOrchestrator(memory) as turn:
            turn.assemble_context(question, messages=messages)
        alone = milliseconds(partial(_send, store, list(filter(_reads, noted.sent))))
        fit = milliseconds(_fit(context, memory, question))
        if place >= len(questions) // 10:  # the first ones warm up
            for name, took in zip(times, (whole, alone, fit), strict=True):
                times[name].append(took)
            tokens.append(context.tokens)
    return {"milliseconds": times, "tokens": tokens}


def _fit(context: Any, memory: MemoryCoordinator, question: str) -> Callable[[], object]:
    """Fitting what was found into the budget again, with nothing read."""
    fragments: dict[str, list[Fragment]] = {}
    for one in context.decisions:
        fragments.setdefault(one.fragment.source, []).append(one.fragment)
    filled = [
        (stage, Section(tuple(fragments.get(stage.source, ())))) for stage in ORCHESTRATOR.stages
    ]
    return lambda: assemble(
        filled, layout=ORCHESTRATOR, budget=TOKENS, count_tokens=memory.count_tokens, query=question
    )


def _reads(calls: Sequence[Call]) -> bool:
    return any(one.name.startswith(("recall", "states")) for one in calls)


def _send(store: TieredStore, calls: Sequence[tuple[Call, ...]]) -> int:
    return sum(store.run(_sent(one)) for one in calls)


def _sent(calls: tuple[Call, ...]) -> Flow[int]:
    rows = yield Query(calls, commit=True)
    return sum(map(len, rows))


def _texts(random: np.random.Generator, number: int) -> list[str]:
    """Sentences of words as frequent as words are."""
    words = [
        "".join(random.choice(_SYLLABLES, size=int(random.integers(2, 5)))) for _ in range(_WORDS)
    ]
    share = 1 / np.arange(1 + _STOP, _WORDS + _STOP + 1)
    chosen = random.choice(_WORDS, size=(number, _LENGTH), p=share / share.sum())
    return [" ".join(words[one] for one in row) for row in chosen]


def _questions(random: np.random.Generator, texts: Sequence[str], number: int) -> list[str]:
    about = [texts[place].split() for place in random.integers(0, len(texts), size=number)]
    return [f"When {' '.join(random.choice(one, size=_ASKED))}?" for one in about]


def _conversation(texts: Sequence[str]) -> list[dict[str, str]]:
    roles = ("user", "assistant")
    return [{"role": roles[n % 2], "content": text} for n, text in enumerate(texts[:_SAID])]


def _asked_along(conversation: Sequence[dict[str, str]]) -> list[str]:
    """What a turn embeds beside each question: the end of its conversation."""
    said = Section(
        tuple(
            Fragment(text=one["content"], source="conversation", fields={"speaker": one["role"]})
            for one in conversation
        )
    )
    return [one.query for one in circumstances({"conversation": said}, ("conversation",))]


def _embed(
    embeddings: LookupEmbeddings,
    random: np.random.Generator,
    texts: Sequence[str],
    asked: Sequence[str],
) -> None:
    for text in (*texts, *asked):
        embeddings.vectors[text] = random.standard_normal(_DIMS).astype(np.float32).tolist()


def _fill(memory: MemoryCoordinator, texts: Sequence[str]) -> None:
    seldom = [kind for kind, number in _SELDOM.items() for _ in range(number)]
    kinds = [*seldom, *(_KINDS[n % len(_KINDS)] for n in range(len(texts) - len(seldom)))]
    given = [
        {"content": text, "memory_type": kind} for text, kind in zip(texts, kinds, strict=True)
    ]
    for start in range(0, len(given), _BATCH):
        some = new_memories(given[start : start + _BATCH])
        memory.tiered_store.run(memory.flows.remember(some, memory.context))  # nobody judges them
    memory.tiered_store.run(_analyzed())
    memory.tiered_store.optimize()


def _analyzed() -> Flow[None]:
    yield Script("ANALYZE")


def _show(figures: dict[str, Any], turns: int, memories: int) -> None:
    tokens = figures["tokens"]
    table = Table(title=f"{turns} turns over {memories:,} memories, {TOKENS:,} tokens at most")
    for name in ("", "p50 ms", "p95 ms"):
        table.add_column(name, justify="left" if not name else "right")
    for name, times in figures["milliseconds"].items():
        table.add_row(name, f"{statistics.median(times):.1f}", f"{p95(times):.1f}")
    console = Console()
    console.print(table)
    console.print(f"tokens: median {statistics.median(tokens):,.0f}, at most {max(tokens):,}")
    slow = p95(figures["milliseconds"]["assemble_context"])
    console.print(f"bar: p95 below {BAR:.0f} ms: {'passed' if slow < BAR else 'missed'}")


if __name__ == "__main__":
    typer.run(main)
