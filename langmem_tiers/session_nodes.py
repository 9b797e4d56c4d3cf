"""A node by which a graph ends a session."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import Runnable, RunnableConfig

from langmem_tiers.coordinator import MemoryCoordinator
from langmem_tiers.errors import InvalidTypeError
from langmem_tiers.nodes import node
from langmem_tiers.runs import OfState, Remembered, checked_of_state, of_state
from langmem_tiers.structured import checked_model


def create_session_end_node(
    *,
    ended: OfState = "session_ended",
    model: BaseChatModel | None = None,
    tenant: str | None = None,
    project_id: str | None = None,
    session_id: str | None = None,
    coordinator: Callable[..., MemoryCoordinator] = MemoryCoordinator,
    name: str = "session_end",
) -> Runnable[Any, dict[str, Any]]:
    """A node that ends the run's session, if it has ended; see `consolidate_session`.

    It writes the state key `session`: the `SessionReport` as JSON, or None where the session goes
    on. A retry of the node keeps nothing twice.

    Args:
        ended: Whether the session has ended: a key of the state, or a function of the state. A
            state without the key goes on.
        model: A chat model that sums up what happened, and what was learned; rules do if not given.
        tenant: A label, in which `{name}` stands for `config["configurable"]["name"]`.
        project_id: Likewise.
        session_id: Likewise; `{thread_id}` for instance.
        coordinator: Makes the coordinator from a store and `context`.
        name: The node's name, in traces too.

    Raises:
        InvalidInputError: when it runs, if no session is named.
        ModelError: when it runs, if the model gave nothing usable; the session is as it was.
    """
    whose = Remembered(
        tenant=tenant, project_id=project_id, session_id=session_id, coordinator=coordinator
    )
    checked_of_state(ended, "ended")
    if model is not None:
        checked_model(model)

    async def end(memory: MemoryCoordinator, state: Any, _: RunnableConfig) -> dict[str, Any]:
        over = of_state(state, ended, default=None)
        if over is not None and not isinstance(over, bool):
            raise InvalidTypeError(f"whether the session ended is True or False, not {over!r:.80}")
        if not over:
            return {"session": None}
        report = asdict(await memory.aconsolidate_session(model=model))
        return {"session": {key: _json(one) for key, one in report.items()}}

    return node(name, whose, end)


def _json(one: Any) -> Any:
    return list(one) if isinstance(one, tuple) else one
