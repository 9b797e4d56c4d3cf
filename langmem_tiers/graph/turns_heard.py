"""Hearing an agent's turn in its middleware, which stores what was said before the answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables.config import ensure_config

from langmem_tiers.graph.messages import messages_of
from langmem_tiers.graph.node import of_state
from langmem_tiers.graph.remember import Kept, Told, remember
from langmem_tiers.graph.runs import asked
from langmem_tiers.graph.speakers import HEARD, speakers_in, trusting
from langmem_tiers.graph.spoken import Heard, ended, hear, last_word, unanswered
from langmem_tiers.memory.coordinator import MemoryCoordinator
from langmem_tiers.postgres.flow import Flow


def hear_turn(memory: MemoryCoordinator, state: Any) -> Flow[dict[str, Any]]:
    """Note a run's new messages in the state, before anybody can drop them."""
    config = ensure_config()
    speakers = yield from speakers_in(config, memory.gate)
    heard = hear(messages_of(state), of_state(state, HEARD, None), speakers, memory, config)
    return {HEARD: heard}


def store_heard(memory: MemoryCoordinator, state: Any) -> Flow[dict[str, Any]]:
    """Store what was said and is not stored yet, after its recall and before its answer.

    If it were stored sooner, it and its words would count among what is recalled for it.
    """
    heard: Heard | None = of_state(state, HEARD, None)
    if not heard or not heard["left"]:
        return {}
    yield from asked(memory.store_many, memory.astore_many, heard["left"])
    return {HEARD: Heard(**{**heard, "left": []})}


def remember_turn(
    memory: MemoryCoordinator,
    state: Any,
    recalled: Sequence[object],
    *,
    decides: BaseChatModel | bool,
) -> Flow[Kept]:
    """Store the answer and what is left, and take back what a message called wrong."""
    config, messages = ensure_config(), messages_of(state)
    heard: Heard | None = of_state(state, HEARD, None)
    speakers = yield from speakers_in(config, memory.gate)
    answer = last_word(messages, of_state(state, "structured_response", None))
    after = messages if answer is None else answer.after
    trust = yield from trusting(after, memory.gate, config)
    humans, left = unanswered(messages), None
    if heard:  # else an earlier version began the run, and noted nothing
        humans = [one for one in humans if str(one.id) in heard["said"]]
        left = heard["left"]
    told = Told(memory, config, speakers, humans, answer, trust, recalled, left)
    return (yield from remember(told, decides=decides))


def ended_of(state: Any, errors: Mapping[str, str]) -> dict[str, Any]:
    """Return the update of the state once the turn is over."""
    heard: Heard | None = of_state(state, HEARD, None)
    if not heard:
        return {}
    left = heard["left"] if "remember" in errors else []
    done = ended(heard, messages_of(state), left)
    return {} if done == heard else {HEARD: done}
