"""A node by which a graph ends a session."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import Runnable

from langmem_tiers.core.errors import InvalidTypeError, short
from langmem_tiers.core.structured import checked_model
from langmem_tiers.graph.hooks import OnError, careful_of, hook_node
from langmem_tiers.graph.node import OfState, Remembered, checked_of_state, of_state
from langmem_tiers.memory.coordinator import MemoryCoordinator
from langmem_tiers.memory.hooks import MemoryHooks


def create_session_end_node(
    *,
    ended: OfState = "session_ended",
    events: OfState | None = None,
    concepts: OfState | None = None,
    model: BaseChatModel | None = None,
    on_error: OnError = "raise",
    tenant: str | None = None,
    project_id: str | None = None,
    session_id: str | None = None,
    coordinator: Callable[..., MemoryCoordinator] = MemoryCoordinator,
    name: str = "session_end",
) -> Runnable[Any, dict[str, Any]]:
    """A node that ends the run's session, if it has ended; see `MemoryHooks.on_session_stop`.

    It writes the state key `session`: the `SessionReport` as JSON, with the keys of the `events`
    and `concepts` that were kept, or None where the session goes on. A retry of the node keeps
    nothing twice. The session is the context's, else the thread.

    Args:
        ended: Whether the session has ended: a key of the state, or a function of the state. Until
            the key is written the session goes on; a state that does not know it is refused.
        events: Significant events, each with a `description` and a `type`: a key of the state, or a
            function of it. If not given, they are those that the session's notes tell of.
        concepts: What was learned, each with a `description` and a `category`, likewise.
        model: A chat model that sums up what happened, and what was learned; rules do if not given.
        on_error: `raise`, or `tell`: what went wrong is written to the log and to
            `session["error"]`, and the notes are there for another try.
        tenant: A label, in which `{name}` stands for `config["configurable"]["name"]`.
        project_id: Likewise.
        session_id: Likewise; `{thread_id}` for instance.
        coordinator: Makes the coordinator from a store and `context`.
        name: The node's name, in traces too.

    Raises:
        ConfigurationError: when it runs, if the state has no key `session`, or none that `ended`
            names.
        InvalidInputError: when it runs, if no session is named.
        ModelError: when it runs, if the model gave nothing usable; the notes are as they were.
    """
    whose = Remembered(
        tenant=tenant, project_id=project_id, session_id=session_id, coordinator=coordinator
    )
    for what, given in {"ended": ended, "events": events, "concepts": concepts}.items():
        if given is not None:
            checked_of_state(given, what)
    if model is not None:
        checked_model(model)
    careful = careful_of(on_error)

    async def end(hooks: MemoryHooks, state: Any) -> dict[str, Any]:
        if not _is_over(state, ended):
            return {"session": None}
        told = _told(state, events=events, concepts=concepts)
        return {"session": await careful(name, _stopped(hooks, told, model))}

    keys = ("session", ended) if isinstance(ended, str) else ("session",)
    return hook_node(name, whose, end, keys)


def _is_over(state: Any, ended: OfState) -> bool:
    over = of_state(state, ended, default=None)
    if over is not None and not isinstance(over, bool):
        raise InvalidTypeError(f"whether the session ended is True or False, not {short(over)}")
    return bool(over)


def _told(state: Any, **asked: OfState | None) -> dict[str, Any]:
    """What a state says of a session that ends, as far as it is asked."""
    return {name: of_state(state, of, None) for name, of in asked.items() if of is not None}


async def _stopped(
    hooks: MemoryHooks, told: dict[str, Any], model: BaseChatModel | None
) -> dict[str, Any]:
    stop = await hooks.aon_session_stop(told, model=model)
    return {
        **{key: _json(one) for key, one in asdict(stop.report).items()},
        "events": [one.key for one in stop.events if one.stored],
        "concepts": [one.key for one in stop.concepts if one.stored],
    }


def _json(one: Any) -> Any:
    return list(one) if isinstance(one, tuple) else one
