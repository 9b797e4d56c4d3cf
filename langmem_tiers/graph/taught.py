"""Lessons of a failure, in the answer of the call that failed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from langmem_tiers.core.memory import Recollection
from langmem_tiers.graph.messages import TAUGHT, Called, Ran, answered_in, this_turn
from langmem_tiers.recall.fence import recalled_text

_LESSONS: Final = "langmem_tiers_lessons"
"""The key, among an answer's kwargs, of the keys of the lessons that stand before it."""


def just_failed(messages: Sequence[BaseMessage], ran: Ran) -> list[Called]:
    """Find the calls that ran and failed since the model spoke last, and are not taught yet."""
    places = [place for place, one in enumerate(messages) if isinstance(one, AIMessage)]
    return [
        one
        for one in answered_in(messages[places[-1] :] if places else ())
        if one.failed and ran(one) and TAUGHT not in one.answer.additional_kwargs
    ]


def taught_in(messages: Sequence[BaseMessage]) -> set[str]:
    """Return the keys of the lessons that answers of this turn teach already."""
    told = (one.additional_kwargs.get(_LESSONS, ()) for one in this_turn(messages))
    return {key for several in told for key in several}


def taught(error: ToolMessage, lessons: Sequence[Recollection]) -> ToolMessage:
    """The error, with the lessons before it."""
    if not lessons:
        return error
    said = f"{recalled_text((), lessons)}\n"
    block = {"type": "text", "text": said}
    content = (
        f"{said}{error.content}" if isinstance(error.content, str) else [block, *error.content]
    )
    told = {TAUGHT: len(said), _LESSONS: [one.key for one in lessons]}
    noted = {**error.additional_kwargs, **told}
    return error.model_copy(update={"content": content, "additional_kwargs": noted})


def with_taught(
    messages: Sequence[Any], lessons: Mapping[str | None, Sequence[Recollection]]
) -> list[Any]:
    """Put lessons before the answers that they belong to, by id, and return the messages."""
    return [
        taught(one, lessons.get(one.id, ())) if isinstance(one, ToolMessage) else one
        for one in messages
    ]
