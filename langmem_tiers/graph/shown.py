"""What the turn of an agent is shown: found once, and the same at each call of its model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, NotRequired, TypedDict

from langchain_core.messages import BaseMessage, HumanMessage

from langmem_tiers.core.memory import Recollection, Recollections
from langmem_tiers.core.options import RecallOptions
from langmem_tiers.core.types import PROSPECTIVE
from langmem_tiers.core.values import storable
from langmem_tiers.graph.node import (
    Latest,
    Step,
    asked,
    last_question,
    messages_of,
    of_state,
    text_of,
)
from langmem_tiers.graph.recall import beside
from langmem_tiers.graph.remind import LEASE_SECONDS, Reminding, reminder_line
from langmem_tiers.learn.outcome import Run
from langmem_tiers.memory.coordinator import MemoryCoordinator
from langmem_tiers.postgres.flow import Flow
from langmem_tiers.recall.fence import recalled_text
from langmem_tiers.recall.floor import HELPS
from langmem_tiers.remind.intentions import Intention, Reminder, Status
from langmem_tiers.remind.prompted import SESSION_STARTS

_TURNS: Final = 256
"""The number of turns, the latest, whose memories are kept; those of others are read again."""
STANDING: Final = 10
"""Reminders at most that were due before and are shown until they are done: our own choice."""


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


def noted_in(state: Any) -> Noted | None:
    """Return the turn that a state tells of."""
    found: Noted | None = of_state(state, "recalled_run", None)
    return found


def turn_of(step: Step) -> Noted:
    """Find the turn that a state is in: the one that it tells of, or a new one if that has ended.

    A turn goes on while its message is the last of a human. It also goes on where a summary has
    taken the place of all that humans said.
    """
    before, question = noted_in(step.state), last_question(step.messages)
    message_id = None if question is None else question.id
    known = None if before is None else before["message_id"]
    if before is not None and known is not None and message_id in (None, known):
        return before
    said = step.memory.tiered_store.options.bounds.beginning(storable(text_of(question)))
    noted = Noted(run=step.run.id, message_id=message_id, asked=said, begins=before is None)
    if question is not None and question.name:
        noted["name"] = question.name
    return noted


def question_of(noted: Noted, state: Any) -> tuple[str, list[BaseMessage]]:
    """Return the question of a turn, and the message that asks it, if there is one."""
    messages = messages_of(state)
    about = [one for one in messages if one.id == noted["message_id"] and one.id is not None]
    said = noted.get("asked")
    if said is None:  # an earlier version noted it
        said = storable(text_of(last_question(messages)))
    if not about and noted["message_id"] is not None:
        about = [HumanMessage(said, id=noted["message_id"], name=noted.get("name"))]
    return said, about


class ShownTurns:
    """Finds what turns are shown, and keeps it for the calls of each; threads may share it."""

    def __init__(
        self, options: RecallOptions | None, waits: Reminding | None, holdout: float | None
    ) -> None:
        """Go by the middleware's arguments.

        Without `options` nothing is recalled, without `waits` nobody is reminded.
        """
        self._options, self._waits, self._holdout = options, waits, holdout
        self._turns = Latest[str, Shown](_TURNS)

    def known(self, state: Any) -> Shown | None:
        """Return what this run shows in its turn; None if that is gone, or not known yet."""
        return self._turns.get(str(of_state(state, "recalled_turn", None)))

    def find(self, step: Step, seen: Sequence[BaseMessage], run: Run, noted: Noted) -> Flow[Shown]:
        """Return what a turn is shown: what its first call found, or the same, read again.

        What the model has `seen` among the messages is not shown as well.
        """
        if (known := self.known(step.state)) is not None:
            return known
        memory, options = step.memory, self._options
        question, about = question_of(noted, step.state)
        due: Sequence[Reminder] = ()
        standing: Sequence[Intention] = ()
        if self._waits is not None and noted.get("reminds", True):
            with step.without("remind"):
                due = yield from self._due(step, self._waits, question, run, noted)
                standing = yield from asked(memory.intentions, Status.DELIVERED, limit=STANDING)
        found, pinned = Recollections(), list[Recollection]()
        with step.without("recall"):
            if "shown" in noted:
                found = yield from _again(memory, noted["shown"])
            elif options is not None:
                wanted: Any = {**beside(step, [*about, *seen], options), "run_id": run}
                wanted["holdout"] = self._holdout
                found = yield from asked(memory.get_context, question, **wanted)
                step.by_words(found.by_words)
            needed = options is not None and (found.helps >= HELPS or bool(found))
            if noted.get("pins", needed):
                pinned = yield from asked(memory.pinned)
        turn = Shown.of(found, pinned, due, standing, asked=question, memory=memory)
        self._turns.note(noted["run"], turn)
        return turn

    def _due(
        self, step: Step, waits: Reminding, question: str, run: Run, noted: Noted
    ) -> Flow[Sequence[Reminder]]:
        """Raise what is due for a turn: leased, until the model has answered.

        An intention that waits for a session to start is due in the first turn of a thread.
        """
        begins = noted.get("begins", False)
        return (
            yield from asked(
                step.memory.remind,
                question or None,
                state=step.state,
                predicates={SESSION_STARTS: lambda _: begins, **(waits.predicates or {})},
                lease_seconds=LEASE_SECONDS,
                run_id=run,
            )
        )


def _again(memory: MemoryCoordinator, shown: Sequence[Sequence[Any]]) -> Flow[Recollections]:
    """Read again what a turn was shown before an interrupt, as far as it is still there."""
    places = [(tuple(namespace), key) for namespace, key in shown]
    reading = memory.flows.standing(places, memory.context)
    return Recollections((yield from asked(memory.tiered_store.run, reading)))
