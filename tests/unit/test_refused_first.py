"""What cannot be asked is refused before a connection is taken, whether Postgres answers or not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from langmem_tiers import (
    MemoryContext,
    MemoryCoordinator,
    MemoryHooks,
    MemoryOrchestrator,
    TieredStore,
)
from langmem_tiers.coordinator import remember, sessions, truth
from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.postgres.flow import Flow
from tests.support.opening import text_index

NOBODY = "postgresql://u:p@127.0.0.1:1/none"
ODD: Any = 3
WRONG: dict[str, Callable[[MemoryCoordinator], Any]] = {
    "get_context": lambda memory: memory.get_context(ODD),
    "reminders.add": lambda memory: memory.reminders.add("Call the bank", priority="urgent"),
    "acknowledge": lambda memory: memory.reminders.acknowledge("no token"),
    "reminders.list": lambda memory: memory.reminders.list("unknown"),
    "audit": lambda memory: memory.admin.audit(limit=0),
    "forget": lambda memory: memory.forget(key="k", user="ada"),
    "export_tenant": lambda memory: memory.admin.export_tenant(ODD),
    "import_tenant": lambda memory: memory.admin.import_tenant(ODD),
    "set_emotional_state": lambda memory: memory.state.set_emotional_state(ODD),
    "update_task": lambda memory: memory.state.update_task("t", confidence_so_far=ODD),
    "update_task_metadata": lambda memory: memory.state.update_task("t", metadata=ODD),
    "on_user_prompt_submit": lambda memory: MemoryHooks(memory).on_user_prompt_submit(" "),
    "on_todo_write_complete": lambda memory: MemoryHooks(memory).on_todo_write_complete({}),
    "complete_task": lambda memory: MemoryHooks(memory).complete_task(ODD),
    "on_session_stop": lambda memory: MemoryHooks(memory).on_session_stop(),
    "memorize": lambda memory: MemoryOrchestrator(memory).begin().memorize(ODD),
    "note_progress": lambda memory: MemoryOrchestrator(memory).begin().note_progress("g", 7, "so"),
    "turns": lambda memory: MemoryOrchestrator(memory).turns(limit=-1),
}


@pytest.fixture
def memory() -> MemoryCoordinator:
    store = TieredStore(NOBODY, index=text_index(), pool_config={"timeout": 1})
    return MemoryCoordinator(store, context=MemoryContext(tenant="acme"))


@pytest.mark.parametrize("verb", WRONG)
def test_what_cannot_be_asked_is_refused_though_nobody_answers(
    memory: MemoryCoordinator, verb: str
) -> None:
    with pytest.raises(InvalidInputError):
        WRONG[verb](memory)


LOOKING_UP: dict[str, Callable[[MemoryCoordinator], Flow[Any]]] = {
    "store": lambda memory: remember.store(memory, "No nuts", pinned=True, importance=7),
    "store_many": lambda memory: remember.store_many(memory, [{"content": ODD, "pinned": True}]),
    "supersede": lambda memory: truth.supersede(memory, "k", by=ODD),
    "release": lambda memory: sessions.release(memory, "k", reason="It is so", version=ODD),
    "reject": lambda memory: sessions.reject(memory, "k", reason="It is not so", version=ODD),
}


def refused_at_once(flow: Flow[Any], why: str | None = None) -> None:
    """Let a flow go, which is refused before it asks anything."""
    with pytest.raises(InvalidInputError, match=why):
        next(flow)


@pytest.mark.parametrize("verb", LOOKING_UP)
def test_what_cannot_be_asked_is_refused_before_anything_is_looked_up(
    memory: MemoryCoordinator, verb: str
) -> None:
    refused_at_once(LOOKING_UP[verb](memory))


OF_ANOTHER_KIND: list[tuple[str, Any]] = [
    *(("key", False), ("key", ()), ("key", {})),
    *((name, False) for name in ("content", "memory_type", "speaker", "source", "tags", "turn")),
    *((name, False) for name in ("entities", "derived_from", "recalled", "trust", "importance")),
    *((name, ()) for name in ("content", "pinned", "metadata", "context", "occurred_at")),
    ("content", None),
    ("recalled", {}),
]


@pytest.mark.parametrize(("field", "given"), OF_ANOTHER_KIND)
def test_what_is_empty_or_false_is_refused_where_it_is_of_another_kind(
    memory: MemoryCoordinator, field: str, given: Any
) -> None:
    told = {"content": "The key rotates on Mondays", "speaker": "Ada", field: given}
    refused_at_once(remember.store(memory, **told), f"^(a )?{field} is ")
