"""How fast short-term state is, beside the same SQL by hand: `python -m benchmarks.turn_state`.

1,000 agents in 10 tenants, each with a conversation of 100 messages, 10 tasks, 5 goals, a mood and
a spend. Reads are of random agents, with one client. "Raw" is the smallest statement that reads the
same, on a connection that is held, with rows as they come; what a library must carry is left out.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any

import psycopg
import typer
from rich.console import Console
from rich.table import Table

from benchmarks.data import statements
from benchmarks.databases import create, server
from benchmarks.timing import Effort, Timing, one_client
from langmem_tiers import MemoryContext, MemoryCoordinator, ShortTermState, TieredStore
from langmem_tiers.testing import TrigramEmbeddings

TENANTS, AGENTS = 10, 100
BAR_MS = 1.0
"""What a read of short-term memory takes at most (specification)."""
FULL = Effort(blocks=9, seconds=0.5)
QUICK = Effort(blocks=5, seconds=0.25)


_SQL = statements("turn_state")

Who = tuple[str, str]
Verb = Callable[[ShortTermState], object]
Reads = Mapping[str, tuple[Verb, Callable[["Raw", Who], object]]]


class Raw:
    """The same reads in plain psycopg."""

    def __init__(self, url: str) -> None:
        self._conn = psycopg.connect(url, autocommit=True, prepare_threshold=0)
        self._cursor = self._conn.cursor(binary=True)

    def messages(self, who: Who) -> Sequence[Any]:
        self._cursor.execute(_SQL["messages"], (who[0], f"project.session{who[1]}."))
        return self._cursor.fetchall()

    def states(self, who: Who, kinds: Sequence[str]) -> Sequence[Any]:
        self._cursor.execute(_SQL["states"], (who[0], f"agent{who[1]}.", list(kinds)))
        return self._cursor.fetchall()

    def snapshot(self, who: Who) -> Sequence[Any]:
        kinds = ("task", "goal", "emotion", "spend")
        return [*self.messages(who), *self.states(who, kinds)]


READS: Reads = {
    "get_recent_context": (lambda state: state.get_recent_context(), Raw.messages),
    "get_active_tasks": (
        lambda state: state.get_active_tasks(),
        lambda r, w: r.states(w, ["task"]),
    ),
    "get_goals": (lambda state: state.get_goals(), lambda r, w: r.states(w, ["goal"])),
    "get_emotional_state": (
        lambda state: state.get_emotional_state(),
        lambda r, w: r.states(w, ["emotion"]),
    ),
    "get_daily_spend": (lambda state: state.get_daily_spend(), lambda r, w: r.states(w, ["spend"])),
    "snapshot": (lambda state: state.snapshot(), Raw.snapshot),
}
WRITES: Mapping[str, Verb] = {
    "add_interaction": lambda state: state.add_interaction("user", "word " * 30),
    "set_emotional_state": lambda state: state.set_emotional_state("calm"),
    "add_spend": lambda state: state.add_spend(0.01),
    "advance_goal": lambda state: state.advance_goal("1", 0.0, "a step"),
}


def main(
    *,
    quick: Annotated[bool, typer.Option(help="Few blocks.")] = False,
    url: Annotated[str, typer.Option(help="A server to use instead of an embedded one.")] = "",
) -> None:
    """Measure the reads and writes of short-term state."""
    effort, console = QUICK if quick else FULL, Console(width=100)
    embeddings = TrigramEmbeddings()
    index = {"dims": embeddings.dims, "embed": embeddings}
    with server(url) as found:
        database = create(found, "turn_state")
        with TieredStore.from_conn_string(database, index=index) as store:
            store.setup()
            with psycopg.connect(database, autocommit=True) as conn:
                conn.execute(_SQL["fill"])
                conn.execute("VACUUM ANALYZE")
            table = Table("verb", "p50 ms", "raw ms", "of raw", f"under {BAR_MS:g} ms")
            for row in _measured(store, Raw(database), effort):
                table.add_row(*row)
            console.print(table)


def _measured(store: TieredStore, raw: Raw, effort: Effort) -> list[list[str]]:
    dice = random.Random(7)
    states = {
        (f"tenant{tenant}", str(agent)): _state(store, f"tenant{tenant}", str(agent))
        for tenant in range(1, TENANTS + 1)
        for agent in range(1, AGENTS + 1)
    }
    people = list(states)

    def work(count: int) -> list[Who]:
        return dice.choices(people, k=count)

    table = []
    for verb, (ours, by_hand) in READS.items():
        contenders = {"ours": partial(_call, states, ours), "raw": partial(by_hand, raw)}
        timings = one_client(contenders, work, effort, warm=200)
        table.append(_row(verb, timings["ours"], timings["raw"]))
    for verb, write in WRITES.items():
        timings = one_client({"ours": partial(_call, states, write)}, work, effort, warm=50)
        table.append(_row(verb, timings["ours"], None))
    return table


def _call(states: Mapping[Who, ShortTermState], verb: Verb, who: Who) -> object:
    return verb(states[who])


def _state(store: TieredStore, tenant: str, agent: str) -> ShortTermState:
    context = MemoryContext(
        tenant=tenant, agent_id=f"agent{agent}", project_id="project", session_id=f"session{agent}"
    )
    return MemoryCoordinator(store, context=context).state


def _row(verb: str, ours: Timing, raw: Timing | None) -> list[str]:
    if raw is None:
        return [verb, f"{ours.milliseconds:.2f}", "", "", "(a write)"]
    share = ours.milliseconds / raw.milliseconds
    passed = "yes" if ours.milliseconds < BAR_MS else "no"
    return [verb, f"{ours.milliseconds:.3f}", f"{raw.milliseconds:.3f}", f"{share:.1f}", passed]


if __name__ == "__main__":
    typer.run(main)
