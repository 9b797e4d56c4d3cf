"""What is stored and recalled."""

from __future__ import annotations

from benchmarks.recorded.world import World


def remembering(world: World) -> None:
    """Store, recall, get, delete."""
    memory = world.memory(project_id="billing", session_id="chat")
    world.call(memory, "store", "The API key rotates on Mondays", "semantic")
    world.call(memory, "get_context", "When do keys change?")
