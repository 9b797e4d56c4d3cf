"""Sessions by hooks, their end, what is in mind, and archival."""

from __future__ import annotations

from benchmarks.recorded.world import World
from benchmarks.ruling import Ruling
from langmem_tiers import ArchivalPolicy, MemoryCoordinator, MemoryHooks, WorkingMemoryBuffer


def sessions(world: World) -> None:
    """Hooks through a session, the end of another, and a buffer beside them."""
    memory = world.memory(project_id="billing", session_id="chat")
    hooks = world.made(MemoryHooks, memory, before_tools=["deploy"])
    _prompted(world, hooks)
    _completed(world, hooks)
    _stopped(world, hooks)
    _consolidated(world)
    _in_mind(world, memory)


def _prompted(world: World, hooks: MemoryHooks) -> None:
    world.call(hooks, "on_session_start")
    prompts = (
        ("Remind me to call Ben tomorrow at nine", "m1"),
        ("Remind me to call Ben tomorrow at nine", "m1"),
        ("I need to tag the commit before you deploy", "m2"),
        ("We decided to move the launch to 3 May because the audit failed", "m3"),
        ("Todo: fix the flaky test when Anna mentions it", None),
        ("Anna's favourite colour is green", None),
        ("", None),
    )
    for prompt, message in prompts:
        world.call(hooks, "on_user_prompt_submit", prompt, message_id=message)
        world.clock.advance(minutes=3)
    world.call(hooks, "key", "one", "two")
    world.call(hooks.memory, "session_notes")
    world.call(hooks.memory, "session_notes", "nowhere")
    world.clock.advance(days=1)
    world.call(hooks, "on_session_start", "Anna mentions the flaky test", limit=2, run_id="run-1")


def _completed(world: World, hooks: MemoryHooks) -> None:
    todo = {
        "content": "Rotate the keys of the vault",
        "status": "completed",
        "steps": ["open the vault", "make a key", "store it"],
        "duration": 12,
    }
    world.call(hooks, "on_todo_write_complete", todo, key="rotated")
    world.call(hooks, "on_todo_write_complete", todo, key="rotated")
    world.call(hooks, "on_todo_write_complete", {"content": "Later", "status": "pending"})
    world.call(hooks, "on_todo_write_complete", {"odd": 1})
    detail = {"content": "File all of the invoices", "steps": ["open", "sort"]}
    world.call(hooks.memory.state, "start_task", "filing", task_id="t1", metadata=detail)
    world.clock.advance(minutes=30)
    world.call(hooks, "complete_task", "t1")
    world.call(hooks, "complete_task", "t1")


def _stopped(world: World, hooks: MemoryHooks) -> None:
    data = {
        "events": [{"description": "The launch moved to 3 May", "type": "decision"}],
        "concepts": [{"description": "An audit is due before a launch", "category": "process"}],
    }
    world.call(hooks, "on_session_stop", data)
    world.call(hooks, "on_session_stop")
    world.call(hooks, "on_session_stop", {"events": [{"odd": 1}]})
    world.call(MemoryHooks(world.memory()), "on_session_stop")


def _consolidated(world: World) -> None:
    memory = world.memory(project_id="billing", session_id="second")
    for turn, (speaker, said) in enumerate(
        (
            ("Ann", "We agreed to use Postgres 18 for the ledger"),
            ("Ben", "The migration failed with a timeout, so we rolled it back"),
            ("Ann", "The ledger has 40 tables"),
            ("Ann", "I see"),
        )
    ):
        world.call(memory, "store", said, "working", speaker=speaker, turn=turn, importance=0.9)
        world.clock.advance(minutes=2)
    world.call(memory, "session_notes")
    world.call(memory, "consolidate_session", model=Ruling())
    world.call(memory, "consolidate_session", "second")
    world.call(world.memory(), "consolidate_session")
    world.call(memory, "get_context", "What of the ledger?")


def _in_mind(world: World, memory: MemoryCoordinator) -> None:
    buffer = world.made(WorkingMemoryBuffer, memory, capacity=2)
    world.made(WorkingMemoryBuffer, memory, capacity=0)
    world.call(buffer, "update_context", "the ledger in Postgres")
    found = world.call(buffer, "search", "launch", limit=1)
    world.call(buffer, "add_search_results", found)
    world.call(buffer, "add_search_results", ["odd"])
    world.call(buffer, "update_context", embedding=[0.125] * 64)
    world.call(buffer, "update_context")
    world.call(buffer, "get_prompt_context_memories", max_tokens=25)
    world.call(buffer, "get_prompt_context_memories", min_relevance=2)
    world.told("in mind", buffer.items)
    world.call(buffer, "clear")
    world.call(buffer, "get_prompt_context_memories")


def archives(world: World) -> None:
    """Old memories leave for a file and come back."""
    memory = world.memory(project_id="billing")
    for number, content in enumerate(("red", "orange", "yellow", "green", "blue", "violet")):
        text = f"The {content} folder is kept on shelf {number}"
        world.call(memory, "store", text, "episodic", key=content, importance=0.1)
    world.clock.advance(days=200)
    policy = ArchivalPolicy(url=f"file://{world.folder}/archive", max_share=0.5)
    world.call(memory, "archive", policy, dry_run=True)
    world.call(memory, "archive", policy)
    world.call(memory, "archive", policy)
    world.call(memory, "archive", ArchivalPolicy(url="odd://nowhere"))
    world.call(memory, "get", "red")
    files = world.call(memory, "archives")
    world.call(memory, "delete_memory", "orange")
    for one in files:
        world.call(memory, "restore_archive", one.archive, ["red"])
        world.call(memory, "restore_archive", one.archive)
        world.call(memory, "restore_archive", one.archive)
    world.call(memory, "restore_archive", "odd")
    world.call(memory, "archives")
