"""What the turn of an agent is shown: found once, and the same at each call of its model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, NotRequired, TypeAlias, TypedDict

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, HumanMessage
from langchain_core.runnables.config import ensure_config
from langchain_core.tools import BaseTool

from langmem_tiers.core.config import Bounds
from langmem_tiers.core.errors import MissingExtraError
from langmem_tiers.core.memory import Recollection, Recollections
from langmem_tiers.core.options import RecallOptions
from langmem_tiers.core.types import PROSPECTIVE
from langmem_tiers.core.values import storable
from langmem_tiers.graph.messages import messages_of
from langmem_tiers.graph.node import Careful, asked, by_words, last_question, of_state, text_of
from langmem_tiers.graph.recall import beside
from langmem_tiers.graph.remind import LEASE_SECONDS, Reminding, reminder_line
from langmem_tiers.learn.outcome import Run
from langmem_tiers.memory.coordinator import MemoryCoordinator
from langmem_tiers.postgres.flow import Flow
from langmem_tiers.recall.fence import recalled_text, with_recalled
from langmem_tiers.recall.floor import HELPS
from langmem_tiers.remind.intentions import Intention, Reminder, Status
from langmem_tiers.remind.prompted import SESSION_STARTS

try:
    from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
    from langchain.agents.middleware.types import (
        AgentState,
        ExtendedModelResponse,
        ModelCallResult,
        PrivateStateAttr,
    )
except ImportError as error:
    raise MissingExtraError(
        "the middleware needs LangChain's agents: pip install 'langmem-tiers[langchain]'"
    ) from error

__all__ = [
    "AgentMiddleware",
    "AgentState",
    "ExtendedModelResponse",
    "ModelCallResult",
    "ModelRequest",
    "ModelResponse",
    "PrivateStateAttr",
    "shown",
    "with_tools",
]


def shown(request: ModelRequest[Any], text: str) -> ModelRequest[Any]:
    """The request, with a text at the end of its system message; nothing is added to none."""
    return request.override(system_message=with_recalled(request.system_message, text))


def with_tools(request: ModelRequest[Any], tools: Sequence[BaseTool]) -> ModelRequest[Any]:
    """The request, without these tools if its model cannot call any."""
    model = request.model
    if not tools or type(model).bind_tools is not BaseChatModel.bind_tools:
        return request
    return request.override(tools=[one for one in request.tools if one not in tools])


ModelHandler: TypeAlias = Callable[[ModelRequest[Any]], Any]
"""Calls the model: it returns its answer, or where the call is awaited what is awaited for it."""


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


STANDING: Final = 10
"""Reminders at most that were due before and are shown until they are done: our own choice."""


class ShownTurns:
    """Finds what turns are shown, and keeps it for the calls of each."""

    def __init__(
        self,
        careful: Careful,
        options: RecallOptions | None,
        waits: Reminding | None,
        holdout: float | None,
    ) -> None:
        """Go by the middleware's arguments.

        Without `options` nothing is recalled, without `waits` nobody is reminded.
        """
        self._careful, self._options = careful, options
        self._waits, self._holdout = waits, holdout
        self._turns = Turns()

    def known(self, state: Any) -> Shown | None:
        """Return what this run shows in its turn; None if that is gone, or not known yet."""
        return self._turns.get(str(of_state(state, "recalled_turn", None)))

    def find(
        self,
        memory: MemoryCoordinator,
        request: ModelRequest[Any],
        run: Run,
        noted: Noted,
        told: dict[str, str],
    ) -> Flow[Shown]:
        """Return what a turn is shown: what its first call found, or the same, read again."""
        if (known := self.known(request.state)) is not None:
            return known
        question = question_of(noted, request.state)
        due: Sequence[Reminder] = ()
        standing: Sequence[Intention] = ()
        if self._waits is not None and noted.get("reminds", True):
            with self._careful("remind", request.runtime, told):
                due = yield from self._due(memory, request, run, noted, self._waits)
                standing = yield from self._standing(memory)
        found, pinned = Recollections(), list[Recollection]()
        with self._careful("recall", request.runtime, told):
            if "shown" in noted:
                found = yield from self._again(memory, noted)
            elif self._options is not None:
                found = yield from self._recall(memory, request, run, question, self._options)
                told |= by_words(found.by_words)
            needed = self._options is not None and (found.helps >= HELPS or bool(found))
            if noted.get("pins", needed):
                pinned = yield from asked(memory.pinned, memory.apinned)
        turn = Shown.of(found, pinned, due, standing, asked=question[0], memory=memory)
        return self._turns.keep(noted["run"], turn)

    def _due(
        self,
        memory: MemoryCoordinator,
        request: ModelRequest[Any],
        run: Run,
        noted: Noted,
        waits: Reminding,
    ) -> Flow[Sequence[Reminder]]:
        """Raise what is due for a turn: leased, until the model has answered."""
        # An intention that waits for a session to start is due in the first turn of a thread.
        begins = noted.get("begins", False)
        return (
            yield from asked(
                memory.remind,
                memory.aremind,
                question_of(noted, request.state)[0] or None,
                state=request.state,
                predicates={SESSION_STARTS: lambda _: begins, **(waits.predicates or {})},
                lease_seconds=LEASE_SECONDS,
                run_id=run,
            )
        )

    def _standing(self, memory: MemoryCoordinator) -> Flow[Sequence[Intention]]:
        """Find what was raised before and is not done: it stays until somebody says that it is."""
        return (
            yield from asked(
                memory.intentions, memory.aintentions, Status.DELIVERED, limit=STANDING
            )
        )

    def _recall(
        self,
        memory: MemoryCoordinator,
        request: ModelRequest[Any],
        run: Run,
        question: tuple[str, Sequence[BaseMessage]],
        options: RecallOptions,
    ) -> Flow[Recollections]:
        """Recall for a turn; what the model sees among the messages is not shown as well."""
        asking, about = question
        wanted = beside([*about, *request.messages], options, memory, ensure_config())
        shown_to: Any = {"run_id": run, "holdout": self._holdout}
        return (
            yield from asked(memory.get_context, memory.aget_context, asking, **wanted, **shown_to)
        )

    def _again(self, memory: MemoryCoordinator, noted: Noted) -> Flow[Recollections]:
        """Read again what a turn was shown before an interrupt, as far as it is still there."""
        places = [(tuple(namespace), key) for namespace, key in noted["shown"]]
        store = memory.tiered_store
        reading = memory.flows.standing(places, memory.context)
        return Recollections((yield from asked(store.run, store.arun, reading)))
