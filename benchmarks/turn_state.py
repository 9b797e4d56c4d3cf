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

from benchmarks.context_databases import server
from benchmarks.databases import create
from benchmarks.timing import Effort, Timing, one_client
from langmem_tiers import MemoryContext, MemoryCoordinator, ShortTermState, TieredStore
from langmem_tiers.testing import TrigramEmbeddings

TENANTS, AGENTS = 10, 100
BAR_MS = 1.0
"""What a read of short-term memory takes at most (specification)."""
FULL = Effort(blocks=9, seconds=0.5)
QUICK = Effort(blocks=5, seconds=0.25)

_FILL = """
INSERT INTO memory.states (tenant, owner, kind, name, value, at, expires_at)
SELECT 'tenant' || t, CASE k.kind WHEN 'message' THEN 'project.session' || a || '.'
                      ELSE 'agent' || a || '.' END,
       k.kind, CASE k.kind WHEN 'emotion' THEN '' WHEN 'spend' THEN current_date::text
               ELSE i::text END,
       CASE k.kind
       WHEN 'message' THEN jsonb_build_object('role', 'user', 'content', repeat('word ', 30),
                                              'metadata', jsonb_build_object('platform', 'web'))
       WHEN 'task' THEN jsonb_build_object('task_id', i::text, 'task_type', 'writing', 'status',
                                           'in_progress', 'created_at', now(),
                                           'estimated_completion', NULL, 'worker_assigned', 'w',
                                           'confidence_so_far', 0.5,
                                           'metadata', jsonb_build_object())
       WHEN 'goal' THEN jsonb_build_object('goal_id', i::text, 'description', 'A goal to reach',
                                           'progress', 0.5, 'deltas', jsonb_build_array(),
                                           'priority', 0, 'constraints', jsonb_build_array(),
                                           'status', 'active')
       WHEN 'emotion' THEN jsonb_build_object('primary_emotion', 'engaged', 'last_updated', now(),
                                              'confidence_level', 0.88, 'conversation_sentiment',
                                              NULL, 'stress_indicators', jsonb_build_object())
       ELSE jsonb_build_object('date', current_date, 'total_spent', '32.50', 'transaction_count',
                               8, 'last_transaction_time', now()) END,
       now() - i * interval '1 second',
       CASE WHEN k.kind NOT IN ('task', 'goal') THEN now() + interval '1 day' END
FROM generate_series(1, 10) t, generate_series(1, 100) a,
     (VALUES ('message', 100), ('task', 10), ('goal', 5), ('emotion', 1), ('spend', 1))
         AS k (kind, number),
     LATERAL generate_series(1, k.number) i
"""
_MESSAGES = """
SELECT s.name, s.value, s.at FROM memory.states s
WHERE s.tenant = %s AND s.owner = %s AND s.kind = 'message' AND s.at > now() - interval '1 hour'
ORDER BY s.at DESC, s.number DESC LIMIT 20
"""
_STATES = """
SELECT s.name, s.value FROM memory.states s
WHERE s.tenant = %s AND s.owner = %s AND s.kind = ANY (%s)
  AND (s.expires_at IS NULL OR s.expires_at > now())
"""

Who = tuple[str, str]
Verb = Callable[[ShortTermState], object]
Reads = Mapping[str, tuple[Verb, Callable[["Raw", Who], object]]]


class Raw:
    """The same reads in plain psycopg."""

    def __init__(self, url: str) -> None:
        self._conn = psycopg.connect(url, autocommit=True, prepare_threshold=0)
        self._cursor = self._conn.cursor(binary=True)

    def messages(self, who: Who) -> Sequence[Any]:
        self._cursor.execute(_MESSAGES, (who[0], f"project.session{who[1]}."))
        return self._cursor.fetchall()

    def states(self, who: Who, kinds: Sequence[str]) -> Sequence[Any]:
        self._cursor.execute(_STATES, (who[0], f"agent{who[1]}.", list(kinds)))
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
    with server(url, "1GB") as found:
        database = create(found, "turn_state")
        with TieredStore.from_conn_string(database, index=index) as store:
            store.setup()
            with psycopg.connect(database, autocommit=True) as conn:
                conn.execute(_FILL.encode())
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
