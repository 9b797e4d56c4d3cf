"""What comes in from elsewhere: files, a chat history, feedback; and what others read."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import psycopg

from benchmarks.recorded.adapter import (
    aimport_chat_history,
    aopen_tier,
    arecord_feedback,
    count_records,
    detect_format,
    import_chat_history,
    import_records,
    open_tier,
    read_records,
    record_feedback,
)
from benchmarks.recorded.world import World

_JSONL = """
{"content": "Keys rotate on Mondays", "memory_type": "semantic", "tags": ["Ops"], "key": "k"}
{"text": "Ann spilled coffee", "speaker": "Ann", "session_id": "s", "occurred_at": "2026-02-01"}
{"content": ""}
not json
{"content": "odd", "importance": 7}
"""
_OPENAI = [
    {"role": "user", "content": "Where is the vault?"},
    {"role": "assistant", "content": [{"type": "text", "text": "In the cellar."}]},
    {"role": "odd", "content": 7},
]
_LANGCHAIN = [
    {"type": "human", "data": {"content": "When do keys rotate?", "id": "h1"}},
    {"type": "ai", "data": {"content": "On Mondays.", "id": "a1"}},
]
_LOCOMO = [
    {
        "sample_id": "talk",
        "conversation": {
            "speaker_a": "Ann",
            "speaker_b": "Ben",
            "session_1_date_time": "1:56 pm on 8 May, 2023",
            "session_1": [
                {"speaker": "Ann", "dia_id": "D1:1", "text": "I bought a kite."},
                {"speaker": "Ben", "dia_id": "D1:2", "text": "What colour is it?"},
            ],
        },
    }
]
_NODE = {"author": {"role": "user"}, "create_time": 1.7e9}
_CHATGPT = [
    {
        "title": "Kites",
        "create_time": 1.7e9,
        "conversation_id": "c1",
        "current_node": "n2",
        "mapping": {
            "n1": {
                "id": "n1",
                "parent": None,
                "children": ["n2"],
                "message": {"id": "n1", **_NODE, "content": {"parts": ["Do kites need wind?"]}},
            },
            "n2": {
                "id": "n2",
                "parent": "n1",
                "children": [],
                "message": {"id": "n2", **_NODE, "content": {"parts": ["They do."]}},
            },
        },
    }
]
_FILES = {
    "notes.jsonl": _JSONL.strip(),
    "openai.json": json.dumps(_OPENAI),
    "langchain.json": json.dumps(_LANGCHAIN),
    "locomo.json": json.dumps(_LOCOMO),
    "chatgpt.json": json.dumps(_CHATGPT),
    "odd.json": '{"odd": 1}',
    "empty.jsonl": "",
}


def files(world: World) -> None:
    """Import each kind of file, a chat history and feedback; open a tier for others."""
    for name, text in _FILES.items():
        path = world.folder / name
        path.write_text(text, "utf-8")
        world.made(detect_format, path)
        world.made(count_records, path)
        records = world.made(lambda path=path: list(read_records(path, tenant="acme")))
        world.made(import_records, world.store, records or [])
    world.made(detect_format, world.folder / "absent.json")
    memory = world.memory()
    world.call(memory, "get_context", "When do keys rotate?")
    world.call(memory, "stats")
    _chat_history(world)
    _feedback(world)
    _documents(world)


def _chat_history(world: World) -> None:
    memory = world.memory(project_id="chats")
    with psycopg.connect(world.url) as conn:
        conn.execute(
            "CREATE TABLE chat_history (id serial, session_id uuid, message jsonb, "
            "created_at timestamptz DEFAULT '2026-02-01T00:00:00Z')"
        )
        for one in (*_LANGCHAIN, {"type": "odd"}):
            conn.execute(
                "INSERT INTO chat_history (session_id, message) VALUES (%s, %s)",
                ["11111111-1111-5111-8111-111111111111", json.dumps(one)],
            )
    for table in ("chat_history", "chat_history", "absent"):
        world.twins(
            lambda table=table: _imported(world, memory, table),
            lambda table=table: _aimported(world, memory, table),
        )
    with psycopg.connect(world.url) as conn:
        conn.execute("DROP TABLE chat_history")


def _imported(world: World, memory: Any, table: str) -> Any:
    with psycopg.connect(world.url) as conn:
        return import_chat_history(memory, conn, table)


async def _aimported(world: World, memory: Any, table: str) -> Any:
    async with await psycopg.AsyncConnection.connect(world.url) as conn:
        return await aimport_chat_history(memory, conn, table)


def _feedback(world: World) -> None:
    memory = world.memory()
    world.call(memory, "get_context", "keys", run_id="run-1")
    said = [_told("run-1", 1.0), _told("run-1", 0.0), _told("run-2", None)]
    world.twins(record_feedback, arecord_feedback, memory, said)
    world.twins(record_feedback, arecord_feedback, memory, ["odd"])


def _told(run: str, score: float | None) -> Any:
    return SimpleNamespace(run_id=run, trace_id=run, score=score, key="user_score")


def _documents(world: World) -> None:
    """What others read: the view of a tier, and that view as langchain-postgres reads it."""
    world.twins(open_tier, aopen_tier, world.store, "working", tenant="acme")
    for tier in ("short_term", "working", "long_term"):
        query = f"SELECT id, content, metadata FROM {tier}.documents ORDER BY id"  # noqa: S608 - ours
        with psycopg.connect(world.url) as conn:
            conn.execute("SET langmem_tiers.tenant = 'acme'")
            world.told(f"{tier} as documents", conn.execute(query.encode()).fetchall())
