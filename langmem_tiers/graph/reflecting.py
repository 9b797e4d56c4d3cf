"""What an agent learns when a turn is over: what failed, and later a model's lessons."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables.config import ensure_config

from langmem_tiers.core.checks import checked_function
from langmem_tiers.core.memory import StoreResult
from langmem_tiers.core.structured import checked_model
from langmem_tiers.core.values import storable
from langmem_tiers.graph.messages import (
    Failing,
    Ran,
    attempts_in,
    failing,
    messages_of,
    said_in,
    this_turn,
)
from langmem_tiers.graph.node import last_question, text_of
from langmem_tiers.graph.runs import asked
from langmem_tiers.graph.speakers import trusting
from langmem_tiers.learn.reflector import Experience
from langmem_tiers.learn.reflexion import FailedAttempt
from langmem_tiers.memory.coordinator import MemoryCoordinator
from langmem_tiers.memory.learning import begin_reflection, learned_lately
from langmem_tiers.postgres.flow import Flow


class Reflecting(NamedTuple):
    """How an agent learns from its turns."""

    wanted: bool = False
    model: BaseChatModel | None = None
    failed: Failing | None = None

    def marked(self, messages: Sequence[Any]) -> list[BaseMessage]:
        """Return the messages, with a mark on the answers that report a failure."""
        return failing(messages, self.failed)

    def after(
        self, memory: MemoryCoordinator, state: Any, ran: Ran, *, judged: bool | None
    ) -> Flow[list[dict[str, Any]]]:
        """Keep what of a turn is evidence; where a model is named, let it draw the lessons later.

        What is returned was learned since it was told last: the model's lessons in a later turn, as
        is the error where it failed.
        """
        if not self.wanted:
            return []
        messages = self.marked(messages_of(state))
        attempts = attempts_in(messages, ran)
        if self.model is not None:
            trust = yield from trusting(messages, memory.gate, ensure_config())
            told = _experience(messages, attempts, failed=judged is False)
            bounds = memory.tiered_store.options.bounds
            told = replace(told, asked=bounds.beginning(told.asked), trust=trust)
            if told.teaches:
                begin_reflection(memory, told, self.model)
            return [*map(_told, learned_lately(memory))]
        kept = [one for one in attempts if one.succeeded_with is not None]
        return [*map(_told, (yield from asked(memory.reflect, memory.areflect, kept)))]


Outcome = Callable[[Any], bool | None]
"""Tells of an agent's state whether the turn succeeded; None is not known."""


def taught_by(
    outcome: Outcome | None,
    reflect: bool | BaseChatModel,  # noqa: FBT001 - of the middleware
    failed: Failing | None,
) -> tuple[Outcome | None, Reflecting]:
    """Return what judges a turn, and how an agent learns from it, as its middleware is told."""
    if outcome is not None:
        checked_function(outcome, "outcome")
    model = None if isinstance(reflect, bool) else reflect
    if model is not None:
        checked_model(model)
    if failed is not None:
        checked_function(failed, "failed")
    return outcome, Reflecting(reflect is not False, model, failed)


def _experience(
    messages: Sequence[BaseMessage],
    attempts: Sequence[FailedAttempt],
    *,
    failed: bool,
) -> Experience:
    """What a turn went through, as its messages tell it."""
    earlier = messages[: len(messages) - len(this_turn(messages))]
    answers = (text_of(one) for one in reversed(earlier) if isinstance(one, AIMessage))
    return Experience(
        attempts=attempts,
        asked=storable(text_of(last_question(messages))),
        answered=said_in(messages).get("answer", ""),
        before=storable(next(filter(None, answers), "")),
        failed=failed,
    )


def _told(one: StoreResult) -> dict[str, Any]:
    return {"key": one.key, "quarantined": one.quarantined, "reason": one.reason}
