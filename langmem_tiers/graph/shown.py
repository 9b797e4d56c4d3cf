"""The turn of an agent: its question, and the memories that its model sees from its first call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, NotRequired, TypedDict

from langchain_core.messages import BaseMessage, HumanMessage

from langmem_tiers.core.config import Bounds
from langmem_tiers.core.memory import Recollection
from langmem_tiers.core.types import PROSPECTIVE
from langmem_tiers.core.values import storable
from langmem_tiers.graph.messages import messages_of
from langmem_tiers.graph.node import last_question, of_state, text_of
from langmem_tiers.graph.remind import reminder_line
from langmem_tiers.learn.outcome import Run
from langmem_tiers.memory.coordinator import MemoryCoordinator
from langmem_tiers.recall.fence import recalled_text
from langmem_tiers.remind.intentions import Intention, Reminder

_TURNS: Final = 256
"""The number of turns, the latest, whose memories are kept; those of others are read again."""


class Noted(TypedDict):
    """A turn in an agent's state; its question is found where it begins.

    Later the question may be gone: a summary takes its place, or the model sees other messages.
    """

    run: str
    """The run that its memories are credited by."""
    message_id: str | None
    """The id of the human message that it answers."""
    asked: NotRequired[str]
    """The part of that message that is a question to memory."""
    name: NotRequired[str]
    """The name of who asks, if the message bears one."""
    begins: NotRequired[bool]
    """True if it is the first turn of its thread."""
    shown: NotRequired[list[list[Any]]]
    """The places of the memories that a model was shown, best first, as `[namespace, key]`."""
    reminds: NotRequired[bool]
    """True if the turn is shown what is due as well."""
    pins: NotRequired[bool]
    """True if it is shown what is pinned."""


class Shown(NamedTuple):
    """The memories and reminders that a turn is shown from its first call of the model on."""

    found: Sequence[Recollection] = ()
    pinned: Sequence[Recollection] = ()
    due: Sequence[Reminder] = ()
    reminds: bool = False
    """True if it is reminded of anything, due now or before."""
    text: str = ""
    """The same as text for a prompt, identical at each call."""

    @classmethod
    def of(
        cls,
        found: Sequence[Recollection],
        pinned: Sequence[Recollection],
        due: Sequence[Reminder],
        standing: Sequence[Intention],
        *,
        asked: str,
        memory: MemoryCoordinator,
    ) -> Shown:
        """Take what was found, is pinned, is due, and was due before and still stands.

        What is to be reminded of is no memory beside that: it is told when it is due.
        """
        others = [one for one in found if one.memory_type != PROSPECTIVE]
        raised = {(one.namespace, one.key) for one in due}
        still = [one for one in standing if (one.namespace, one.key) not in raised]
        stands: list[Reminder | Intention] = [*due, *still]
        lines = [reminder_line(one, memory.context.zone) for one in stands]
        text = recalled_text(others, (), lines, pinned=pinned, now=memory.now, asked=asked)
        return cls(others, pinned, due, bool(lines), text)

    @property
    def places(self) -> list[list[Any]]:
        """Return the places of what was found, as JSON."""
        return [[list(one.namespace), one.key] for one in self.found]

    @property
    def told(self) -> list[Any]:
        """Return what the model was told, which is no news if it repeats it."""
        return [*self.found, *self.pinned, *(one.content for one in self.due)]


class Turns(dict[str, Shown]):
    """The memories that the latest turns are shown, by name; several threads may use it."""

    def keep(self, name: str, turn: Shown) -> Shown:
        """Keep the memories that a turn is shown."""
        self[name] = turn
        for oldest in list(self)[:-_TURNS]:
            self.pop(oldest, None)
        return turn


def noted_in(state: Any) -> Noted | None:
    """Return the turn that a state tells of."""
    found: Noted | None = of_state(state, "recalled_run", None)
    return found


def turn_of(state: Any, run: Run, bounds: Bounds) -> Noted:
    """Find the turn that a state is in: the one that it tells of, or a new one if that has ended.

    A turn goes on while its message is the last of a human. It also goes on where a summary has
    taken the place of all that humans said.
    """
    before, question = noted_in(state), last_question(messages_of(state))
    message_id = None if question is None else question.id
    known = None if before is None else before["message_id"]
    if before is not None and known is not None and message_id in (None, known):
        return before
    asked = bounds.beginning(storable(text_of(question)))
    noted = Noted(run=run.id, message_id=message_id, asked=asked, begins=before is None)
    if question is not None and question.name:
        noted["name"] = question.name
    return noted


def question_of(noted: Noted, state: Any) -> tuple[str, list[BaseMessage]]:
    """Return the question of a turn, and the message that asks it, if there is one."""
    messages = messages_of(state)
    about = [one for one in messages if one.id == noted["message_id"] and one.id is not None]
    asked = noted.get("asked")
    if asked is None:  # an earlier version noted it
        asked = storable(text_of(last_question(messages)))
    if not about and noted["message_id"] is not None:
        about = [HumanMessage(asked, id=noted["message_id"], name=noted.get("name"))]
    return asked, about
