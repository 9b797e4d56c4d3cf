"""Short-term state: what is going on in a session, and with an agent."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from decimal import Decimal
from typing import Any
from uuid import uuid4

from langmem_tiers.core.memory import MemoryContext
from langmem_tiers.core.tracing import traced
from langmem_tiers.memory.pursuing import PursuingVerbs
from langmem_tiers.postgres.flow import Flow
from langmem_tiers.remember.new import label
from langmem_tiers.state import flows
from langmem_tiers.state.state import (
    DailySpend,
    EmotionalState,
    Message,
    ShortTermSnapshot,
    amount,
    checked_day,
)
from langmem_tiers.store.store import TieredStore


class ShortTermState(PursuingVerbs):
    """The conversation of a session, and an agent's tasks, goals, mood and spend.

    A coordinator has one, as `memory.state`. A conversation belongs to the context's session,
    everything else to its agent, in whatever project and session that is; where no name is given,
    to the session or the agent without one. Each read is one indexed statement, without a model,
    and each change is one transaction. Every verb has an async twin.

    Example:
        ```python
        from langmem_tiers import MemoryContext, MemoryCoordinator, TieredStore

        context = MemoryContext(tenant="acme", agent_id="coder", session_id="chat-7")
        with TieredStore.embedded("./.memory") as store:
            state = MemoryCoordinator(store, context=context).state
            state.add_interaction("user", "Please publish the report.")
            state.start_task("publishing", task_id="report")
            print(state.snapshot())
        ```
    """

    def __init__(self, store: TieredStore, context: MemoryContext) -> None:
        """Stand on a store; `context` says whose state it is."""
        self.context = context
        self._store = store

    def __repr__(self) -> str:
        """Whose state it is."""
        return f"ShortTermState({self.context!r})"

    def snapshot(self, limit: int = 20) -> ShortTermSnapshot:
        """All that is going on, with up to `limit` messages, in one round trip."""
        return self._store.run(self._look(limit, flows.KINDS))

    async def asnapshot(self, limit: int = 20) -> ShortTermSnapshot:
        """All that is going on; see `snapshot`."""
        return await self._store.arun(self._look(limit, flows.KINDS))

    # The conversation

    @traced("tool")
    def add_interaction(
        self,
        role: str,
        content: str,
        metadata: Mapping[str, Any] | None = None,
        *,
        message_id: str | None = None,
    ) -> Message:
        """Add to the session's conversation what somebody has just said.

        A conversation keeps the last hour, and of that the newest 200 messages.

        Args:
            role: Who said it, such as `user` or `assistant`.
            content: What was said, verbatim.
            metadata: Anything else that is JSON.
            message_id: An id of one's own. Said again under it, as by a retry, a message is
                replaced in its place.

        Raises:
            InvalidInputError: for what cannot be stored; nothing was.
        """
        return self._store.run(self._add(role, content, metadata, message_id=message_id))

    @traced("tool")
    async def aadd_interaction(
        self, role: str, content: str, metadata: Mapping[str, Any] | None = None, **fields: Any
    ) -> Message:
        """Add to the session's conversation; see `add_interaction`."""
        return await self._store.arun(self._add(role, content, metadata, **fields))

    def get_recent_context(self, limit: int = 20) -> list[Message]:
        """The session's newest messages of the last hour, oldest first; 200 at most."""
        return list(self._store.run(self._look(limit)).messages)

    async def aget_recent_context(self, limit: int = 20) -> list[Message]:
        """The session's newest messages of the last hour; see `get_recent_context`."""
        return list((await self._store.arun(self._look(limit))).messages)

    @traced("tool")
    def clear_conversation(self) -> int:
        """Forget what was said in the session; how many messages."""
        return self._store.run(flows.clear_messages(self._whose, self._now))

    @traced("tool")
    async def aclear_conversation(self) -> int:
        """Forget what was said in the session; see `clear_conversation`."""
        return await self._store.arun(flows.clear_messages(self._whose, self._now))

    # Mood and spend

    @traced("tool")
    def set_emotional_state(
        self,
        primary_emotion: str,
        *,
        confidence_level: float | None = None,
        conversation_sentiment: str | None = None,
        stress_indicators: Mapping[str, Any] | None = None,
    ) -> EmotionalState:
        """Say which mood the agent is in, for an hour from now.

        Args:
            primary_emotion: In a word, such as `engaged`.
            confidence_level: How sure that is, in 0…1.
            conversation_sentiment: Such as `positive`.
            stress_indicators: Numbers or anything else that is JSON, by name.

        Raises:
            InvalidInputError: for what is no mood; nothing was stored.
        """
        flow = self._set_emotional_state(
            primary_emotion,
            confidence_level=confidence_level,
            conversation_sentiment=conversation_sentiment,
            stress_indicators=stress_indicators,
        )
        return self._store.run(flow)

    @traced("tool")
    async def aset_emotional_state(self, primary_emotion: str, **fields: Any) -> EmotionalState:
        """Say which mood the agent is in; see `set_emotional_state`."""
        return await self._store.arun(self._set_emotional_state(primary_emotion, **fields))

    def get_emotional_state(self) -> EmotionalState | None:
        """The mood that the agent is in; None if it was not said within the last hour."""
        return self._store.run(self._look(0, [flows.EMOTION])).emotional_state

    async def aget_emotional_state(self) -> EmotionalState | None:
        """The mood that the agent is in; see `get_emotional_state`."""
        return (await self._store.arun(self._look(0, [flows.EMOTION]))).emotional_state

    @traced("tool")
    def add_spend(self, spent: Decimal | float, *, transaction_id: str | None = None) -> DailySpend:
        """Add to what the agent has spent today, in UTC; what that comes to.

        Args:
            spent: 0 or more, with nine decimals at most. It is added up exactly, a float as what
                it prints as.
            transaction_id: An id of one's own: the same transaction counts once in 24 hours.

        Raises:
            InvalidInputError: for what is no amount; nothing was added.
        """
        return self._store.run(self._add_spend(spent, transaction_id))

    @traced("tool")
    async def aadd_spend(
        self, spent: Decimal | float, *, transaction_id: str | None = None
    ) -> DailySpend:
        """Add to what the agent has spent today; see `add_spend`."""
        return await self._store.arun(self._add_spend(spent, transaction_id))

    def get_daily_spend(self, date: dt.date | None = None) -> DailySpend:
        """What the agent has spent on a day in UTC, today if none is given.

        A day is known for 24 hours after its last transaction; nothing was spent on any other.
        """
        return self._store.run(self._daily_spend(date))

    async def aget_daily_spend(self, date: dt.date | None = None) -> DailySpend:
        """What the agent has spent on a day; see `get_daily_spend`."""
        return await self._store.arun(self._daily_spend(date))

    def _add(
        self,
        role: str,
        content: str,
        metadata: Mapping[str, Any] | None,
        *,
        message_id: str | None = None,
    ) -> Flow[Message]:
        said = Message(
            message_id=str(uuid4()) if message_id is None else message_id,
            role=role,
            content=content,
            at=self._now,
            metadata={} if metadata is None else metadata,
        )
        return flows.add_message(self._whose, said)

    def _set_emotional_state(
        self,
        primary_emotion: str,
        *,
        confidence_level: float | None = None,
        conversation_sentiment: str | None = None,
        stress_indicators: Mapping[str, Any] | None = None,
    ) -> Flow[EmotionalState]:
        state = EmotionalState(
            primary_emotion=primary_emotion,
            last_updated=self._now,
            confidence_level=confidence_level,
            conversation_sentiment=conversation_sentiment,
            stress_indicators=stress_indicators or {},
        )
        return flows.set_emotional_state(self._whose, state)

    def _add_spend(self, spent: Decimal | float, transaction_id: str | None) -> Flow[DailySpend]:
        exact, once = amount(spent), label(transaction_id, "transaction_id")
        return flows.add_spend(self._whose, exact, once, self._now)

    def _daily_spend(self, date: dt.date | None) -> Flow[DailySpend]:
        now = self._now
        day = now.date() if date is None else checked_day(date, "date")
        return flows.daily_spend(self._whose, day, now)
