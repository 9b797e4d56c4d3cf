"""The whole record: each scenario both ways, and what is public."""

from __future__ import annotations

import asyncio
import tempfile
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from benchmarks.databases import create
from benchmarks.recorded.adapter import at_rest, noted, statements
from benchmarks.recorded.coverage import wanted
from benchmarks.recorded.difference import SECTION
from benchmarks.recorded.rows import rows
from benchmarks.recorded.scenarios import SCENARIOS
from benchmarks.recorded.schema import schema
from benchmarks.recorded.signatures import commands, import_paths, signatures
from benchmarks.recorded.stable import stable_names
from benchmarks.recorded.world import MODES, Called, Mode, World
from langmem_tiers import EmbeddedPostgres, TieredStore

BROKE_OFF = "# broke off:"
"""How it says that a verb did not answer what a scenario goes on with."""
_TEMPLATE = "recorded_empty"


@dataclass(frozen=True, slots=True)
class Recorded:
    """A record, and which verbs were called for it."""

    text: str
    called: frozenset[Called]
    brief: str


def recorded(before: str = "", only: str = "") -> Recorded:
    """Go through every scenario (or those of a name), blocking and awaiting."""
    with _server() as (url, folder), _loop() as loop:
        worlds = []
        sections = _public(url, before)
        for name in SCENARIOS:
            for mode in MODES if only in name else ():
                world = _lived(name, mode, url, folder, loop)
                worlds.append(world)
                sections[f"{name} ({mode})"] = world.blocks
    text = "".join(
        f"{SECTION}{title}\n" + "".join(f"{block}\n" for block in blocks)
        for title, blocks in sections.items()
    )
    called = frozenset(one for world in worlds for one in world.called)
    return Recorded(text, called, _brief(worlds, called))


def _public(url: str, before: str) -> dict[str, list[str]]:
    template = create(url, _TEMPLATE)
    with TieredStore.from_conn_string(template, index=World.index()) as store:
        store.setup()
        sent = statements(store)
    return {
        "import paths": import_paths(before),
        "signatures": signatures(),
        "commands": commands(),
        "statements": sent,
        "schema": schema(template),
    }


def _lived(name: str, mode: Mode, url: str, folder: Path, loop: asyncio.AbstractEventLoop) -> World:
    """A world in which a scenario was gone through, with the rows that it left."""
    own = folder / f"{name}-{mode}"
    own.mkdir()
    sent: list[str] = []
    database = create(url, f"recorded_{name}_{mode}", template=_TEMPLATE)
    with stable_names(), at_rest(), noted(sent.append):
        world = World(mode, database, own, loop, sent)
        world.open()
        try:
            SCENARIOS[name](world)
        except Exception as error:  # noqa: BLE001 - the record says so, and goes on
            world.blocks.append(f"{BROKE_OFF} {world.plain.error(error)}")
            traceback.print_exc()
        world.close()
        world.blocks += rows(database, world.plain)
    return world


def _brief(worlds: list[World], called: frozenset[Called]) -> str:
    calls = {
        mode: sum(one.calls for one in worlds if one.mode == mode) for mode in ("sync", "async")
    }
    verbs = wanted() & called
    both = {mode: sum(one[2] == mode for one in verbs) for mode in MODES}
    told = (f"{both[mode]} verbs in {calls[mode]} calls, {mode}" for mode in MODES)
    return "; ".join(told)


@contextmanager
def _server() -> Iterator[tuple[str, Path]]:
    with tempfile.TemporaryDirectory() as name, EmbeddedPostgres(f"{name}/server") as server:
        with psycopg.connect(server.url, autocommit=True) as conn:
            conn.execute("ALTER SYSTEM SET fsync = off")
            conn.execute("SELECT pg_reload_conf()")
        yield server.url, Path(name)


@contextmanager
def _loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    yield loop
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()
