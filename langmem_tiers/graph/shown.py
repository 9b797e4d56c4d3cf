"""The turn of an agent: what it is about, and what its model is shown from the first call on."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple, NotRequired, TypedDict

from langchain_core.messages import BaseMessage, HumanMessage

from langmem_tiers.core.config import Bounds
from langmem_tiers.core.memory import Recollection
from langmem_tiers.core.values import storable
from langmem_tiers.graph.messages import messages_of
from langmem_tiers.graph.node import last_question, of_state, text_of
from langmem_tiers.graph.remind import reminder_line
from langmem_tiers.learn.outcome import Run
from langmem_tiers.recall.fence import recalled_text
from langmem_tiers.remind.intentions import Reminder

_TURNS: Final = 256
"""Turns of which is kept what they are shown, the latest: where it is gone it is read again."""


class Noted(TypedDict):
    """A turn in an agent's state: what it is about is found where it begins.

    Later no message need tell: a summary takes its place, or the model sees others.
    """

    run: str
    """What its memories are credited by."""
    message_id: str | None
    """The human's message that it answers."""
    asked: NotRequired[str]
    """What that says, as far as it is a question to memory."""
    begins: NotRequired[bool]
    """Whether it is the first of its thread."""
    shown: NotRequired[list[list[Any]]]
    """Where what it is shown lies, best first, as `[namespace, key]`, once a model was shown it."""
    reminds: NotRequired[bool]
    """Whether that is shown what is due as well."""


class Shown(NamedTuple):
    """What a turn is shown from its first call of the model on."""

    found: Sequence[Recollection] = ()
    due: Sequence[Reminder] = ()
    text: str = ""
    """The same for a prompt, to the letter the same at each call."""

    @classmethod
    def of(
        cls,
        found: Sequence[Recollection],
        due: Sequence[Reminder],
        asked: str,
        now: datetime,
        *,
        keys: bool = False,
    ) -> Shown:
        """What was found and what is due; the latter is not said among the memories as well."""
        said = {one.content for one in due}
        others = [one for one in found if one.content not in said]
        lines = [reminder_line(one, keys=keys) for one in due]
        return cls(found, due, recalled_text(others, (), lines, now=now, asked=asked))

    @property
    def places(self) -> list[list[Any]]:
        """Where what was found lies, as JSON."""
        return [[list(one.namespace), one.key] for one in self.found]


class Turns(dict[str, Shown]):
    """What the latest turns are shown, by their names; several threads may use it."""

    def keep(self, name: str, turn: Shown) -> Shown:
        """Keep what a turn is shown."""
        self[name] = turn
        for oldest in list(self)[:-_TURNS]:
            self.pop(oldest, None)
        return turn


def noted_in(state: Any) -> Noted | None:
    """The turn that a state tells of."""
    found: Noted | None = of_state(state, "recalled_run", None)
    return found


def turn_of(state: Any, run: Run, bounds: Bounds) -> Noted:
    """The turn that a state is in: the one that it tells of, or another one, as that has ended.

    It goes on while its message is the last of a human, also where a summary has taken the place of
    all that humans said.
    """
    before, question = noted_in(state), last_question(messages_of(state))
    message_id = None if question is None else question.id
    known = None if before is None else before["message_id"]
    if before is not None and known is not None and message_id in (None, known):
        return before
    asked = bounds.beginning(storable(text_of(question)))
    return Noted(run=run.id, message_id=message_id, asked=asked, begins=before is None)


def question_of(noted: Noted, state: Any) -> tuple[str, list[BaseMessage]]:
    """What a turn asks, and the message that asks it, if there is one."""
    messages = messages_of(state)
    about = [one for one in messages if one.id == noted["message_id"] and one.id is not None]
    asked = noted.get("asked")
    if asked is None:  # noted by an earlier version
        asked = storable(text_of(last_question(messages)))
    if not about and noted["message_id"] is not None:
        about = [HumanMessage(asked, id=noted["message_id"])]
    return asked, about
