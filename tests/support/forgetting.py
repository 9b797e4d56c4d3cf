"""A tenant full of traces of one memory, and everything of a database as text to look for them."""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from psycopg.types.json import Jsonb

from langmem_tiers import MemoryCoordinator, MemoryOrchestrator, TieredStore
from langmem_tiers.consolidation.archive_files import ArchiveFiles
from tests.support.archives import execute, policy, remember
from tests.support.coordinating import PATIENT, coordinator

MARK = "xylof"
"""What of the name is left by a stemmer: in whatever form, nothing may hold it."""
NAME = "Xylofant Maier"
USER = "xylofant"
KEY = "xylofant-maier-1"
SAID = "Xylofant Maier keeps bees behind the old chapel."
QUOTE = f"he said: {SAID}"
BOTH = f"{SAID} The meadow is mown in June."
MEADOW = "The meadow is mown in June."
_HEX = re.compile(r"\\\\x((?:[0-9a-f]{2})+)")
_ZIPPED = b"\x78\x01"
"""What the compressed begins with."""
_TABLES = """
    SELECT n.nspname || '.' || c.relname FROM pg_class c
    JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'v') AND n.nspname NOT IN ('pg_catalog', 'information_schema')
      AND n.nspname NOT LIKE 'pg_toast%' ORDER BY 1"""


_VALUE = {
    "content": "content",
    "goal": "goal",
    "reasons": "failure_reason",
    "advice": "improved_approach",
    "quotes": "quotes",
    "context": "context",
    "tags": "tags",
    "entities": "entities",
    "metadata": "metadata",
    "prompt of a tool call": "source_task",
}
_STATES = {"messages": "message", "tasks": "task", "goals of an agent": "goal"}
_BY_ID = {
    "vectors": "vectors t WHERE t.id",
    "usage": "usage t WHERE t.id",
    "exposures": "exposures t WHERE t.id",
    "lineage downwards": "lineage t WHERE t.source",
    "lineage upwards": "lineage t WHERE t.id",
    "intentions": "intentions t WHERE t.id",
    "recalls by what they saw": "recalls t CROSS JOIN unnest(t.ids) AS u (id) WHERE u.id",
    "events": "events t WHERE t.id",
}
KINDS = {
    **{
        kind: f"memory.memories WHERE (value -> '{field}')::text ~* 'xylof'"
        for kind, field in _VALUE.items()
    },
    "key": "memory.memories WHERE key ~* 'xylof'",
    "speaker": "memory.memories WHERE speaker ~* 'xylof'",
    "lexemes": "memory.memories WHERE lexemes::text ~* 'xylof'",
    "descendants": "memory.memories WHERE key = 'alone'",
    **{
        kind: f"memory.states WHERE kind = '{name}' AND value::text ~* 'xylof'"
        for kind, name in _STATES.items()
    },
    "traces of turns": "memory.events WHERE event LIKE 'turn/%%' AND detail::text ~* 'xylof'",
    "quotes of events": "memory.events WHERE kind = 'retracted' AND detail::text ~* 'xylof'",
    "rejected": "memory.events WHERE kind = 'rejected' AND detail::text ~* 'xylof'",
    "evicted": "memory.events WHERE kind = 'evicted' AND detail::text ~* 'xylof'",
    "triggers": "memory.intentions WHERE trigger::text ~* 'xylof'",
    "archived": "memory.archived WHERE key ~* 'xylof'",
    "tenant_sizes": "memory.tenant_sizes WHERE words::text ~* 'xylof'",
    "recalls": "memory.recalls WHERE asked::text ~* 'xylof'",
    "audit log": "memory.audit WHERE told::text ~* 'xylof'",
    "exports": "working.documents WHERE content ~* 'xylof'",
    **{kind: f"memory.{table} = ANY (%(ids)s)" for kind, table in _BY_ID.items()},
}
"""Rows of each kind of trace; archive files and checkpoints are looked at beside them."""


def kinds(url: str, ids: list[int]) -> dict[str, int]:
    """How many rows there are of each kind of trace; of some kinds by these ids."""
    with psycopg.connect(url) as conn:
        _as_user(conn)
        asked = {kind: f"SELECT count(*) FROM {rows}" for kind, rows in KINDS.items()}  # noqa: S608 - texts of ours
        found = {kind: conn.execute(q.encode(), {"ids": ids}) for kind, q in asked.items()}
        return {kind: int((rows.fetchone() or (0,))[0]) for kind, rows in found.items()}


def named(url: str) -> list[int]:
    """The memories that say it, by id."""
    query = "SELECT id FROM memory.memories WHERE value::text ~* 'xylof' OR key ~* 'xylof'"
    with psycopg.connect(url) as conn:
        return [row[0] for row in conn.execute(query).fetchall()]


def _as_user(conn: psycopg.Connection[Any]) -> None:
    """Let the views of documents show what that user sees."""
    for name, value in (("tenant", "acme"), ("user", USER)):
        conn.execute("SELECT set_config(%s, %s, true)", [f"langmem_tiers.{name}", value])


def dump(url: str) -> dict[str, list[str]]:
    """Every row of every table and view as COPY writes it; what is binary is shown as text.

    Rows are sorted: those of a view that joins come in the order of whatever plan there is.
    """
    found: dict[str, list[str]] = {}
    with psycopg.connect(url) as conn:
        _as_user(conn)
        for (name,) in conn.execute(_TABLES).fetchall():
            query = f"COPY (SELECT * FROM {name}) TO STDOUT"  # noqa: S608 - names of the catalog
            with conn.cursor().copy(query.encode()) as rows:
                text = b"".join(rows).decode()
            found[name] = sorted(_HEX.sub(_shown, line) for line in text.splitlines())
    return found


def _shown(found: re.Match[str]) -> str:
    told = bytes.fromhex(found[1])
    if told.startswith(_ZIPPED):
        with suppress(zlib.error):  # of many hashes one begins so
            told = zlib.decompress(told)
    return told.decode("latin-1")


def archived(directory: Path) -> list[str]:
    """Every line of every archive file below a directory, whoever names it."""
    files = ArchiveFiles()
    lines = []
    for path in sorted(directory.rglob("*")) if directory.exists() else ():
        if path.is_file():
            checksum = hashlib.sha256(path.read_bytes()).hexdigest()
            lines += [str(one) for one in files.read(str(path), checksum)]
    return lines


def traces(url: str, cold: Path) -> list[str]:
    """Where anything of the name is: tables, views, checkpoints and archives."""
    found = [table for table, rows in dump(url).items() if MARK in "\n".join(rows).lower()]
    return found + ["archive"] * (MARK in "\n".join(archived(cold)).lower())


def own(store: TieredStore, user: str | None = None) -> MemoryCoordinator:
    """Whose traces it is."""
    whose = {"project_id": "billing", "session_id": "chat-7", "agent_id": "coder"}
    return coordinator(store, **whose, user_id=user, settings=replace(PATIENT, recall_days=30))


def everywhere(store: TieredStore, url: str, cold: Path, user: str | None = None) -> None:
    """Leave a trace of one memory of every kind, and of others that have to stay."""
    memory = own(store, user)
    place = "billing." if user is None else f"billing.@{user}."
    for key in (KEY, "hay"):
        said = {"content": SAID if key == KEY else "The hay is in the barn.", "text": "old"}
        remember(url, key, namespace=place, value=Jsonb(said))
        execute(url, "UPDATE memory.memories SET user_id = %s", user)
    memory.admin.archive(policy(cold), dry_run=False)

    bystanders(store)
    memory.tiered_store.put(memory.context.places("working")[-1], KEY, _value())  # type: ignore[arg-type]
    memory.store(MEADOW, "semantic", key="meadow")
    memory.store("Their honey is dark.", "semantic", key="alone", derived_from=[KEY])
    memory.store(BOTH, "semantic", key="both", derived_from=[KEY, "meadow"])
    memory.reminders.add(
        f"Ring {NAME} up.", cue=NAME, key="ring-up", derived_from=[KEY], personal=user is not None
    )
    for shown in memory.get_context("Who keeps bees?", run_id="run-1", min_match=0):
        memory.learning.record_outcome([shown], success=True)
    memory.truth.retract("meadow", reason=QUOTE)
    memory.truth.restore("meadow")
    memory.state.add_interaction("user", SAID)
    memory.state.start_task("call", metadata={"note": QUOTE})
    memory.state.set_goal("bees", SAID)
    with MemoryOrchestrator(memory) as turn:
        turn.assemble_context(SAID)
        turn.track_tool_invocation("noop", {}, result="ok")
        turn.commit()
    for number, kind in enumerate(("rejected", "evicted")):
        detail = {"key": KEY, "namespace": place, "reasons": [QUOTE], "user_id": user}
        _event(url, f"gone-{number}", kind, 10**9 + number, detail)
    sizes = "INSERT INTO memory.tenant_sizes VALUES ('acme', 9, '{bee,xylof}', '{4,4}', '{}', '{}')"
    execute(url, sizes)
    store.run(store.flows.flush())


def _value() -> dict[str, Any]:
    return {
        "content": SAID,
        "text": SAID,
        "memory_type": "reflexion",
        "goal": f"to meet {NAME}",
        "failure_reason": f"{NAME} was out",
        "improved_approach": f"ring {NAME} up",
        "quotes": [QUOTE],
        "context": {"where": f"with {NAME}"},
        "tags": ["xylofant-maier"],
        "entities": [NAME],
        "metadata": {NAME: f"{NAME} is kind"},
        "speaker": NAME,
        "session_id": "chat-7",
    }


def bystanders(store: TieredStore) -> None:
    """Others, of whom nothing may change."""
    coordinator(store, "beta").store("Beta has a memory.", key="beta")
    other = coordinator(store, project_id="garden", session_id="chat-9", user_id="ben")
    other.store("Ben likes roses.", "semantic", key="roses", derived_from=[])
    other.state.add_interaction("user", "Ben asks about roses.")
    with MemoryOrchestrator(other) as turn:
        turn.assemble_context("Which roses does Ben like?")
        turn.commit()
    for shown in other.get_context("roses", run_id="run-2", min_match=0):
        other.learning.record_outcome([shown], success=True)


def _event(url: str, name: str, kind: str, about: int, detail: dict[str, Any]) -> None:
    execute(
        url,
        """INSERT INTO memory.events (tenant, event, kind, id, at, detail)
           VALUES ('acme', %s, %s, %s, '2026-03-01', %s)""",
        *(name, kind, about, Jsonb(detail)),
    )


def converse(checkpointer: BaseCheckpointSaver[Any], thread: str, text: str) -> None:
    """Leave checkpoints of a conversation in which something is said."""
    graph = StateGraph(MessagesState)
    graph.add_node("answer", lambda _: {"messages": [("ai", f"So {text}")]})
    graph.add_edge(START, "answer")
    graph.add_edge("answer", END)
    compiled = graph.compile(checkpointer=checkpointer)
    config: Any = {"configurable": {"thread_id": thread}}
    asked: Any = {"messages": [("user", text)]}
    compiled.invoke(asked, config)


def rows(url: str, keys: Iterable[str]) -> list[str]:
    """The rows of memories of these keys, with their vectors and counters, and all of `ben`."""
    query = """
        SELECT m::text, v::text, u::text FROM memory.memories m
        LEFT JOIN memory.vectors v ON v.tenant = m.tenant AND v.id = m.id
        LEFT JOIN memory.usage u ON u.tenant = m.tenant AND u.id = m.id
        WHERE m.key = ANY (%s)
        UNION ALL SELECT e::text, '', '' FROM memory.events e WHERE e.detail ->> 'user_id' = 'ben'
        UNION ALL SELECT s::text, '', '' FROM memory.states s WHERE s.owner LIKE '%%@ben.'
        UNION ALL SELECT x::text, '', '' FROM memory.exposures x WHERE x.user_id = 'ben'
        ORDER BY 1"""
    with psycopg.connect(url) as conn:
        return [str(row) for row in conn.execute(query, [list(keys)]).fetchall()]
