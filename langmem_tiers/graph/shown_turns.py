"""Finding what the turn of an agent is shown, once, and the same at each call of its model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from langchain_core.messages import BaseMessage
from langchain_core.runnables.config import ensure_config

from langmem_tiers.core.memory import Recollection, Recollections
from langmem_tiers.core.options import RecallOptions
from langmem_tiers.graph.agents import ModelRequest
from langmem_tiers.graph.node import Careful, by_words, of_state
from langmem_tiers.graph.remember import beside
from langmem_tiers.graph.remind import LEASE_SECONDS, Reminding
from langmem_tiers.graph.runs import asked
from langmem_tiers.graph.shown import Noted, Shown, Turns, question_of
from langmem_tiers.learn.outcome import Run
from langmem_tiers.memory.coordinator import MemoryCoordinator
from langmem_tiers.postgres.flow import Flow
from langmem_tiers.recall.floor import HELPS
from langmem_tiers.remind.intentions import Intention, Reminder, Status
from langmem_tiers.remind.prompted import SESSION_STARTS

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
