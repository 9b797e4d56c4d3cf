"""The verbs by which somebody looks at what the gate held back."""

from __future__ import annotations

from langmem_tiers.asking import checked_limit, memory_key
from langmem_tiers.flow import Flow
from langmem_tiers.memory import MemoryContext
from langmem_tiers.memory_flows import MemoryFlows
from langmem_tiers.namespaces import Place
from langmem_tiers.remember import quarantine
from langmem_tiers.remember.memories import checked_text
from langmem_tiers.remember.quarantine import Quarantined, Released
from langmem_tiers.remember.room import Held
from langmem_tiers.store import TieredStore
from langmem_tiers.tracing import traced


class QuarantineVerbs:
    """What `MemoryCoordinator` does with quarantined memories; every verb has an async twin."""

    context: MemoryContext
    _store: TieredStore
    _flows: MemoryFlows

    def list_quarantined(self, *, limit: int = 100) -> list[Quarantined]:
        """What of the tenant is stored and not recalled, oldest first, and why.

        Args:
            limit: Memories at most, 0 to 1,000.

        Example:
            ```python
            for one in memory.list_quarantined():
                print(one.source, one.content, one.reason)
            ```
        """
        return self._store.run(self._listed(limit))

    async def alist_quarantined(self, *, limit: int = 100) -> list[Quarantined]:
        """What of the tenant is stored and not recalled; see `list_quarantined`."""
        return await self._store.arun(self._listed(limit))

    @traced("tool")
    def release(self, key: str, *, reason: str) -> Released:
        """Let a quarantined memory be recalled, trusted just as much as its type needs.

        Nothing else raises the trust in a memory. What was derived from it stays quarantined until
        it is released itself.

        Args:
            key: Of the memory.
            reason: Why, for its history.

        Raises:
            InvalidInputError: if there is no such memory, or it is not quarantined.
        """
        return self._store.run(self._release(key, reason))

    @traced("tool")
    async def arelease(self, key: str, *, reason: str) -> Released:
        """Let a quarantined memory be recalled; see `release`."""
        return await self._store.arun(self._release(key, reason))

    @traced("tool")
    def reject(self, key: str, *, reason: str) -> str:
        """Delete a quarantined memory; the event that says why, which `history` shows.

        Args:
            key: Of the memory.
            reason: Why, for its history.

        Raises:
            InvalidInputError: if there is no such memory, or it is not quarantined.
        """
        return self._store.run(self._reject(key, reason))

    @traced("tool")
    async def areject(self, key: str, *, reason: str) -> str:
        """Delete a quarantined memory; see `reject`."""
        return await self._store.arun(self._reject(key, reason))

    def _listed(self, limit: int) -> Flow[list[Quarantined]]:
        moment = self._store.flows.moment()
        return quarantine.quarantined(self.context.root, moment, checked_limit(limit))

    def _release(self, key: str, reason: str) -> Flow[Released]:
        why = checked_text(reason, "reason")
        one = yield from self._meant(key)
        policy = self._flows.gate.policy.trust
        options, moment = self._store.options, self._store.flows.moment()
        return (yield from quarantine.release(one, why, policy, options, moment))

    def _reject(self, key: str, reason: str) -> Flow[str]:
        why = checked_text(reason, "reason")
        one = yield from self._meant(key)
        options, moment = self._store.options, self._store.flows.moment()
        return (yield from quarantine.reject(one, why, options, moment))

    def _meant(self, key: str) -> Flow[Held]:
        one = yield from self._flows.known(memory_key(key), self.context)
        return Held(Place(one.tenant, one.namespace), one.key, one.id)
