"""Exports with one damaged value, and every verb that reads them once imported."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from langmem_tiers import (
    At,
    BeforeTool,
    If,
    MemoryCoordinator,
    MemoryOrchestrator,
    TieredStore,
)
from langmem_tiers.core.errors import FileError, InvalidInputError
from langmem_tiers.graph.consolidation import create_consolidation_graph
from langmem_tiers.learning.reflexion import FailedAttempt
from langmem_tiers.reminders.triggers import Topic
from tests.support.carrying import lines_of, rich
from tests.support.coordinating import coordinator

DAMAGES: Final[tuple[Any, ...]] = (
    *(None, "", "zzz", "2026-13-45T99:00:00+00:00", "9999-12-31T23:59:59.999999+00:00"),
    *("0001-01-01T00:00:00+00:00", 0, -1, 7, 2**31 - 1, 0.5, True),
    *([], ["zzz"], [None], {}, {"kind": "zzz"}, "topic", "NaN", "Infinity"),
)
"""The values put in place of another one."""
_KINDS: Final = {"events": "kind", "intentions": "kind", "states": "kind", "memories": "state"}


class Damage(NamedTuple):
    """A row with one damaged value."""

    line: int
    """Its place in the file, from 1."""
    text: str
    """The line of the file."""
    where: str


def various(store: TieredStore, url: str, cold: Path) -> None:
    """Fill every table, with an intention and a state of each kind."""
    rich(store, url, cold, 6)
    memory = coordinator(store, project_id="billing", session_id="chat-7", agent_id="coder")
    at = memory.tiered_store.flows.now
    memory.reminders.add(
        "Water the roses.", at=At(at, every="FREQ=DAILY", timezone="Europe/Berlin")
    )
    memory.reminders.add(
        "Look at the dashboard.", before_tool=BeforeTool("deploy", {"to": "prod*"})
    )
    memory.reminders.add("Empty the cart.", when=If("cart_is_full"))
    memory.reminders.add("Ask Ben about honey.", topic=Topic.from_content("Ask Ben about honey."))
    memory.state.set_emotional_state("glad", confidence_level=0.5)
    memory.state.advance_goal("bees", 0.25, "a hive stands")
    memory.state.add_spend(3.25, transaction_id="t-1")
    error = "ModuleNotFoundError: No module named apiary"
    tried = {"task_id": "t", "approach": "pytest -x", "tool": "pytest"}
    memory.learning.reflect(
        [FailedAttempt(**tried, error=error, succeeded_with="pip install apiary")]
    )
    with MemoryOrchestrator(memory, turn_id="turn-2") as turn:
        turn.assemble_context("What is in the barn?")
        turn.memorize("The barn is red.")
        turn.commit()


def read_all(store: TieredStore, to: Path) -> None:
    """Let every verb read all of the tenant; a refusal is an error of ours."""
    memory = coordinator(store, project_id="billing", session_id="chat-7", agent_id="coder")
    wide = coordinator(store)
    for one in (memory, wide):
        _ask(one)
    _tell(memory)
    for item in store.search(("acme",), limit=1000):
        _about(memory, item.key)
        _about(wide, item.key)
    wide.admin.export_tenant(to)
    to.unlink()
    create_consolidation_graph(store=store).invoke({}, context=memory.context)
    _ask(memory)


def _ask(memory: MemoryCoordinator) -> None:
    for question in ("Who keeps bees?", "dark honey", "when was the meadow mown?"):
        str(memory.get_context(question, limit=50, min_match=0))
        memory.get_context(question, as_of="2026-01-15T00:00:00+00:00")
    memory.stats()
    memory.learning.get_lessons(tools="pytest", query="no module named apiary")
    for one in memory.admin.list_quarantined():
        str(one)
    for status in (None, ("pending", "leased", "delivered", "done", "cancelled", "expired")):
        for intention in memory.reminders.list(status):
            str((intention, intention.trigger))
    memory.admin.archives()
    memory.admin.audit()
    with suppress(FileError):  # the file of an archive stays where it was
        memory.forget(subject="honey", plan=True)


def _tell(memory: MemoryCoordinator) -> None:
    state = memory.state
    snapshot = state.snapshot()
    str(snapshot)
    for goal in snapshot.goals:
        state.advance_goal(goal.goal_id, 0.01, "so")
    for task in snapshot.tasks:
        state.update_task(task.task_id, metadata={"more": 1})
    state.get_recent_context()
    state.get_daily_spend()
    state.add_spend(1, transaction_id="t-2")
    memory.admin.session_notes()
    with MemoryOrchestrator(memory, turn_id="turn-3") as turn:
        for ended in turn.turns():
            str(ended)
            with suppress(InvalidInputError):  # it has another name
                str(turn.history(ended.turn))
        str(turn.assemble_context("Who keeps bees?"))
        turn.commit()
    for reminder in memory.reminders.due(
        "honey bees roses",
        tool={"name": "deploy", "args": {"to": "prod"}},
        state={},
        predicates={"cart_is_full": lambda _: True},
        lease_seconds=60,
    ):
        str(reminder)
        memory.reminders.acknowledge(reminder)


def _about(memory: MemoryCoordinator, key: str) -> None:
    for verb in (memory.get, memory.truth.history, memory.learning.explain):
        with suppress(InvalidInputError):  # it is out of reach from here
            str(verb(key))


def damages(path: Path) -> Iterator[Damage]:
    """Damage one row of each kind in each of its values, in a column or in JSON."""
    seen: set[tuple[Any, ...]] = set()
    for number, line in enumerate(lines_of(path)[1:-1], 2):
        table, row = json.loads(line)
        value = row.get("value") if table == "memories" else {}
        kind = (table, row.get(_KINDS.get(table, "")), value.get("memory_type"), value.get("kind"))
        if kind in seen:
            continue
        seen.add(kind)
        for where in _places(row):
            told = f"{table} {row.get('kind', '')} {'.'.join(map(str, where))}"
            for damage in DAMAGES:
                text = json.dumps([table, _changed(row, where, damage)])
                if text != json.dumps([table, row]):
                    yield Damage(number, text, f"{told} = {damage!r}")


def _changed(row: dict[str, Any], where: tuple[Any, ...], damage: object) -> dict[str, Any]:
    """Return a row with the damage in place of a value."""
    found = copy.deepcopy(row)
    held: Any = found
    for each in where[:-1]:
        held = held[each]
    held[where[-1]] = damage
    return found


def _places(value: Any, depth: int = 3) -> Iterator[tuple[Any, ...]]:
    """Find the places of the values within a value."""
    if isinstance(value, dict):
        for name, one in value.items():
            yield (name,)
            if depth > 1:
                yield from ((name, *rest) for rest in _places(one, depth - 1))
    elif isinstance(value, list) and value:
        yield (0,)
        yield from ((0, *rest) for rest in _places(value[0], depth - 1) if depth > 1)
