"""The verbs by which a coordinator revises what is known, and asks how it came to be known."""

from __future__ import annotations

from langmem_tiers.consolidate import truth
from langmem_tiers.consolidate.truth import History, Restoration, Retraction, Revising
from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.core.memory import MemoryContext
from langmem_tiers.core.namespaces import utf8_bytes
from langmem_tiers.core.tracing import traced
from langmem_tiers.memory.asking import memory_key
from langmem_tiers.memory.flows import MemoryFlows
from langmem_tiers.postgres.flow import Flow
from langmem_tiers.remember.new import checked_text
from langmem_tiers.store.store import TieredStore


class RevisingVerbs:
    """What `MemoryCoordinator` does when the truth changes; every verb has an async twin."""

    context: MemoryContext
    _store: TieredStore
    _flows: MemoryFlows

    @traced("tool")
    def supersede(self, key: str, *, by: str) -> str:
        """Say that a memory was true until another one began to be; the move, for `rollback`.

        It leaves recall where that one begins: at its `valid_from`, else when it happened or was
        recorded. `get_context(as_of=…)` finds it for any moment before.

        Args:
            key: Of the older memory.
            by: The key of the newer one.

        Raises:
            InvalidInputError: if there is no such memory, either is not current, or the newer one
                began before the older.
        """
        return self._store.run(self._supersede(key, by))

    @traced("tool")
    async def asupersede(self, key: str, *, by: str) -> str:
        """Say that a memory was true until another one began to be; see `supersede`."""
        return await self._store.arun(self._supersede(key, by))

    @traced("tool")
    def retract(self, key: str, *, reason: str) -> Retraction:
        """Say that what a memory holds never was so.

        It leaves recall, and with it all that came from it, directly or not: what was derived
        from it, and what it was promoted, merged or generalised to. That is `suspect`, and so is
        whatever is derived from it later. It is one transaction. Done again it changes nothing.

        Args:
            key: Of the memory.
            reason: Why, for its history.

        Raises:
            InvalidInputError: if there is no such memory.
        """
        return self._store.run(self._retract(key, reason))

    @traced("tool")
    async def aretract(self, key: str, *, reason: str) -> Retraction:
        """Say that what a memory holds never was so; see `retract`."""
        return await self._store.arun(self._retract(key, reason))

    @traced("tool")
    def restore(self, key: str) -> Restoration:
        """Undo the retraction of a memory.

        The tables are then as they were before: what came from it is what it was, unless
        something else that it came from is retracted too.

        Raises:
            InvalidInputError: if there is no such memory, it is not retracted, or it is suspect
                on account of another one.
        """
        return self._store.run(self._restore(key))

    @traced("tool")
    async def arestore(self, key: str) -> Restoration:
        """Undo the retraction of a memory; see `restore`."""
        return await self._store.arun(self._restore(key))

    def history(self, key: str) -> History:
        """What a memory superseded and was superseded by, and what was done to it.

        Of what was rejected or made room it says that, and why.

        Raises:
            InvalidInputError: if there is no such memory, and was none.
        """
        return self._store.run(self._history(key))

    async def ahistory(self, key: str) -> History:
        """What a memory superseded and was superseded by; see `history`."""
        return await self._store.arun(self._history(key))

    def _supersede(self, key: str, by: str) -> Flow[str]:
        old = yield from self._flows.known(memory_key(key), self.context)
        new = yield from self._flows.known(memory_key(by), self.context)
        return (yield from truth.supersede(old, new, self._revising()))

    def _retract(self, key: str, reason: str) -> Flow[Retraction]:
        why = checked_text(reason, "reason")
        one = yield from self._flows.known(memory_key(key), self.context)
        return (yield from truth.retract(one, why, self._revising()))

    def _restore(self, key: str) -> Flow[Restoration]:
        one = yield from self._flows.known(memory_key(key), self.context)
        return (yield from truth.restore(one, self._revising()))

    def _history(self, key: str) -> Flow[History]:
        utf8_bytes(memory_key(key), "key")
        try:
            one = yield from self._flows.known(key, self.context)
        except InvalidInputError:
            gone = yield from truth.history_of_gone(key, self.context)
            if gone is None:
                raise
            return gone
        return (yield from truth.history(one, self.context))

    def _revising(self) -> Revising:
        return Revising(self.context.root, self._store.options, self._store.flows.now)
