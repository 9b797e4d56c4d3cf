"""Hearing an agent's turn in its middleware, which stores what was said before the answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config

from langmem_tiers.core.errors import DatabaseError, TieredMemoryError, TooLargeError
from langmem_tiers.graph.context_tools import Done
from langmem_tiers.graph.messages import messages_of
from langmem_tiers.graph.node import of_state
from langmem_tiers.graph.remember import Kept, Told, remember
from langmem_tiers.graph.runs import asked
from langmem_tiers.graph.shown import noted_in, question_of
from langmem_tiers.graph.speakers import HEARD, Speakers, is_within, speakers_in, trusting
from langmem_tiers.graph.spoken import (
    Heard,
    Left,
    ended,
    hear,
    is_of_turn,
    key_of,
    last_word,
    unanswered,
)
from langmem_tiers.memory.coordinator import MemoryCoordinator
from langmem_tiers.postgres.flow import Flow

MemoryOf = Callable[[Mapping[str, Any]], MemoryCoordinator]
"""Makes the memory of a context from its fields."""


def hear_turn(memory: MemoryCoordinator, state: Any, *, keep: bool) -> Flow[dict[str, Any]]:
    """Note a run's new messages in the state, before anybody can drop them.

    Unless they are to be kept, they are only told from what else comes.
    """
    config, messages = ensure_config(), messages_of(state)
    speakers = yield from speakers_in(config, memory.gate)
    before: Heard | None = of_state(state, HEARD, None)
    known = () if before is None else (*before["said"], *before["others"])
    elsewhere: list[str] = []
    if keep and is_within(config):  # another agent of the same message may have heard it
        new = [one for one in unanswered(messages) if str(one.id) not in known]
        elsewhere = yield from _stored_already(memory, new, config, speakers)
    heard = hear(messages, before, speakers, memory, config, elsewhere=elsewhere)
    return {HEARD: heard if keep else Heard(**{**heard, "left": []})}


def _stored_already(
    memory: MemoryCoordinator,
    messages: Sequence[BaseMessage],
    config: RunnableConfig,
    speakers: Speakers,
) -> Flow[list[str]]:
    """Find the ids of messages that are stored."""
    found = list[str]()
    for one in messages:
        known = yield from asked(memory.get, memory.aget, key_of(one, config, speakers))
        found += [] if known is None else [str(one.id)]
    return found


def store_heard(memory_of: MemoryOf, state: Any) -> Flow[tuple[dict[str, Any], list[Exception]]]:
    """Store what was said and is not stored yet, after its recall and before its answer.

    If it were stored sooner, it and its words would count among what is recalled for it. It goes
    to the memory of whoever said it. The errors of what could not be stored are returned too; what
    is too large for the store is left no longer.
    """
    heard: Heard | None = of_state(state, HEARD, None)
    if not heard or not heard["left"]:
        return {}, []
    left: list[Left] = []
    errors: list[Exception] = []
    for whose, several in groupby(heard["left"], key=lambda one: one["whose"]):
        mine = list(several)
        memory = memory_of(whose)
        try:
            yield from _stored(memory, mine, heard)
            continue
        except DatabaseError as error:  # which would be the same of each
            left += mine
            errors.append(error)
            continue
        except TieredMemoryError as error:
            if len(mine) == 1:
                left += [] if isinstance(error, TooLargeError) else mine
                errors.append(error)
                continue
        for one in mine:
            try:
                yield from _stored(memory, [one], heard)
            except TieredMemoryError as error:
                left += [] if isinstance(error, TooLargeError) else [one]
                errors.append(error)
    return {HEARD: Heard(**{**heard, "left": left})}, errors


def _stored(memory: MemoryCoordinator, several: Sequence[Left], heard: Heard) -> Flow[None]:
    """Store messages; what was said in an earlier turn happened then."""
    notes = [
        one["note"] if is_of_turn(one, heard) else {**one["note"], "occurred_at": one["at"]}
        for one in several
    ]
    yield from asked(memory.store_many, memory.astore_many, notes)


def remember_turn(
    memory: MemoryCoordinator,
    state: Any,
    recalled: Sequence[object],
    done: Done,
) -> Flow[Kept]:
    """Store the answer and what is left of the turn, in which a model did this by its tools."""
    config, messages = ensure_config(), messages_of(state)
    heard: Heard | None = of_state(state, HEARD, None)
    speakers = yield from speakers_in(config, memory.gate)
    answer = last_word(messages, of_state(state, "structured_response", None))
    after = messages if answer is None else answer.after
    trust = yield from trusting(after, memory.gate, config)
    humans: list[BaseMessage] = [*unanswered(messages)]
    left = None
    if heard:  # else an earlier version began the run, and noted nothing
        there, noted = {one.id for one in humans}, noted_in(state)
        asking = () if noted is None else question_of(noted, state)[1]
        humans += [one for one in asking if one.id not in there]  # a summary dropped it
        humans = [one for one in humans if str(one.id) in heard["said"]]
        left = [one["note"] for one in heard["left"] if is_of_turn(one, heard)]
    told = Told(memory, config, speakers, humans, answer, trust, recalled, left, done)
    return (yield from remember(told))


def ended_of(state: Any, errors: Mapping[str, str]) -> dict[str, Any]:
    """Return the update of the state once the turn is over."""
    heard: Heard | None = of_state(state, HEARD, None)
    if not heard:
        return {}
    done = ended(heard, messages_of(state), stored="remember" not in errors)
    return {} if done == heard else {HEARD: done}
