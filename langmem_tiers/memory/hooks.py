"""MemoryHooks: what is remembered when something happens to an agent, without its being asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import NAMESPACE_OID, uuid5

from langchain_core.language_models import BaseChatModel

from langmem_tiers.core.errors import InvalidTypeError
from langmem_tiers.core.memory import MemoryContext, Source, StoreResult
from langmem_tiers.core.tracing import traced
from langmem_tiers.graph.node import at_once, blocking
from langmem_tiers.learn.outcome import Run
from langmem_tiers.memory.coordinator import MemoryCoordinator
from langmem_tiers.memory.hook_data import (
    EXPIRE_DAYS,
    Intends,
    PromptSubmit,
    SessionStart,
    SessionStop,
    alike,
    checked_data,
    checked_days,
    checked_intends,
    checked_names,
    events_of,
    given,
    told_of,
)
from langmem_tiers.remember.new import checked_text, label
from langmem_tiers.remind.asked import DEFAULT_LIMIT, Predicates
from langmem_tiers.remind.prompted import SESSION_STARTS, Intended, intended_in
from langmem_tiers.remind.triggers import If
from langmem_tiers.state.state import Task, checked_id
from langmem_tiers.state.tasks import COMPLETED, workflow_of


class MemoryHooks:
    """What is remembered when a session starts or stops, a prompt comes, or a task is completed.

    Every text passes the coordinator's gate, as any that is stored. Every verb has an async twin
    with an `a` in front, raises what the coordinator raises, and can be repeated: under the same
    names nothing is written twice.

    Example:
        ```python
        from langmem_tiers import MemoryContext, MemoryCoordinator, MemoryHooks, TieredStore

        context = MemoryContext(tenant="acme", project_id="billing", session_id="chat-7")
        with TieredStore.embedded("./.memory") as store:
            hooks = MemoryHooks(MemoryCoordinator(store, context=context))
            print(hooks.on_session_start())
            hooks.on_user_prompt_submit("I need to renew the certificate tomorrow, it is urgent")
            hooks.on_todo_write_complete({"content": "Renew it", "status": "completed"})
            print(hooks.on_session_stop())
        ```
    """

    def __init__(
        self,
        memory: MemoryCoordinator,
        *,
        session_id: str | None = None,
        before_tools: Sequence[str] = (),
        intends: Intends = "keywords",
        expire_days: float | None = EXPIRE_DAYS,
    ) -> None:
        """Stand on a coordinator.

        Args:
            memory: Whose memory it is.
            session_id: The session; the context's if not given.
            before_tools: Names of tools that a prompt may intend something before ("before you
                deploy").
            intends: What of a prompt is intended: with `keywords` what the routing calls
                prospective ("todo", "later", "need to", "plan to", …); with `asked` only what it
                asks to be reminded of ("remind me", "don't let me forget", a todo).
            expire_days: After how many days an intention expires of which the prompt names no
                occasion; None for never.

        Raises:
            InvalidInputError: for an option that cannot be.
        """
        if not isinstance(memory, MemoryCoordinator):
            raise InvalidTypeError(f"hooks need a MemoryCoordinator, not {type(memory).__name__}")
        self.memory = memory
        self.session_id = label(session_id, "session_id") or memory.context.session_id
        self.before_tools = checked_names(before_tools)
        self.intends = checked_intends(intends)
        self.expire_days = checked_days(expire_days)

    def __repr__(self) -> str:
        """Whose hooks they are."""
        return f"MemoryHooks({self.memory!r}, session_id={self.session_id!r})"

    @property
    def context(self) -> MemoryContext:
        """Whose memory it is, and which session's."""
        return replace(self.memory.context, session_id=self.session_id)

    @traced("tool")
    def on_session_start(
        self,
        query: str | None = None,
        *,
        state: Any = None,
        predicates: Predicates | None = None,
        limit: int = DEFAULT_LIMIT,
        lease_seconds: float | None = None,
        run_id: str | Run | None = None,
    ) -> SessionStart:
        """Raise what is due, what waits for a session to start included, and list what is open.

        Args:
            query: What the session begins with, for cues.
            state: The graph's state, for predicates.
            predicates: The functions of the state by the names that intentions know them by.
            limit: How many of each at most, by priority.
            lease_seconds: How long a reminder waits to be acknowledged; see
                `MemoryCoordinator.remind`.
            run_id: Whom it is raised for; see `MemoryCoordinator.remind`.
        """
        memory = blocking(self.memory)
        asked = {"state": state, "predicates": predicates, "limit": limit}
        asked |= {"lease_seconds": lease_seconds, "run_id": run_id}
        return at_once(_started(memory, query, **asked))

    @traced("tool")
    async def aon_session_start(
        self,
        query: str | None = None,
        *,
        state: Any = None,
        predicates: Predicates | None = None,
        limit: int = DEFAULT_LIMIT,
        lease_seconds: float | None = None,
        run_id: str | Run | None = None,
    ) -> SessionStart:
        """Raise what is due and list what is open; see `on_session_start`."""
        asked = {"state": state, "predicates": predicates, "limit": limit}
        asked |= {"lease_seconds": lease_seconds, "run_id": run_id}
        return await _started(self.memory, query, **asked)

    @traced("tool")
    def on_user_prompt_submit(self, prompt: str, *, message_id: str | None = None) -> PromptSubmit:
        """Keep a prompt as working memory, and what it intends as prospective memory.

        The prompt is a memory of type `working`, with the session in its metadata. What it intends
        ("todo", "later", "need to", "plan to", …) is a `prospective` memory, with the priority in
        its metadata, that is raised at the time or the cue, or before the tool, that the prompt
        names, else when the next session starts. Nothing is intended that the gate did not accept.

        Args:
            prompt: What the user said, verbatim.
            message_id: An id of one's own, unique in the session: a retry stores nothing twice.
        """
        return at_once(self._prompted(blocking(self.memory), prompt, message_id))

    @traced("tool")
    async def aon_user_prompt_submit(
        self, prompt: str, *, message_id: str | None = None
    ) -> PromptSubmit:
        """Keep a prompt and what it intends; see `on_user_prompt_submit`."""
        return await self._prompted(self.memory, prompt, message_id)

    @traced("tool")
    def on_todo_write_complete(
        self,
        todo_item: Mapping[str, Any] | Task,
        *,
        source: str = Source.AGENT,
        key: str | None = None,
    ) -> StoreResult | None:
        """Keep the workflow of a completed todo as procedural memory; None if it is not completed.

        Args:
            todo_item: `content` and `status`, and if they are known `steps`, `task_type`,
                `duration` in minutes and `success` (true if not given); or a task that
                `memory.state` closed.
            source: Who says so.
            key: A key of one's own, under which a retry stores nothing twice.

        Raises:
            InvalidInputError: for what is no todo; nothing was stored.
        """
        return at_once(self._completed(blocking(self.memory), todo_item, source, key))

    @traced("tool")
    async def aon_todo_write_complete(
        self,
        todo_item: Mapping[str, Any] | Task,
        *,
        source: str = Source.AGENT,
        key: str | None = None,
    ) -> StoreResult | None:
        """Keep the workflow of a completed todo; see `on_todo_write_complete`."""
        return await self._completed(self.memory, todo_item, source, key)

    @traced("tool")
    def complete_task(self, task_id: str) -> StoreResult | None:
        """Keep the workflow of an active task of `memory.state`, and close it as completed.

        How long it took is known since it was started; `content`, `steps` and `success` may stand
        in its metadata. None if it is not active.
        """
        memory, state = blocking(self.memory), blocking(self.memory.state)
        return at_once(self._complete_task(memory, state, task_id))

    @traced("tool")
    async def acomplete_task(self, task_id: str) -> StoreResult | None:
        """Keep the workflow of an active task and close it; see `complete_task`."""
        return await self._complete_task(self.memory, self.memory.state, task_id)

    @traced("tool")
    def on_session_stop(
        self, session_data: Mapping[str, Any] | None = None, *, model: BaseChatModel | None = None
    ) -> SessionStop:
        """Keep a session's events and concepts, consolidate it, and clear its working memory.

        Significant events are `episodic` memories with a `decision_type` in their metadata, learned
        concepts `semantic` ones with a `category`. Then the session is consolidated, see
        `MemoryCoordinator.consolidate_session`: what comes from its notes says so by
        `promoted_from`.

        Args:
            session_data: `session_id`, else that of these hooks; `events`, each with a
                `description` and a `type`, else those that its notes tell of; `concepts`, each with
                a `description` and a `category`, beside those that its notes state.
            model: A chat model that sums the session up; see `consolidate_session`.

        Raises:
            InvalidInputError: if no session is named, or for what is no event or concept; nothing
                was stored.
            ModelError: if the model gave nothing usable; the notes are as they were.
        """
        return at_once(self._stopped(blocking(self.memory), session_data, model))

    @traced("tool")
    async def aon_session_stop(
        self, session_data: Mapping[str, Any] | None = None, *, model: BaseChatModel | None = None
    ) -> SessionStop:
        """Keep what a session was worth, and clear its notes; see `on_session_stop`."""
        return await self._stopped(self.memory, session_data, model)

    def key(self, *of: str) -> str:
        """A key that is the same for the same thing of the session."""
        whose = self.memory.context
        return str(
            uuid5(NAMESPACE_OID, "\0".join((str(whose.project_id), str(self.session_id), *of)))
        )

    async def _prompted(
        self, memory: MemoryCoordinator, prompt: str, message_id: str | None
    ) -> PromptSubmit:
        text, named = checked_text(prompt, "the prompt"), label(message_id, "message_id")
        note = {
            "content": text,
            "memory_type": "working",
            "session_id": self.session_id,
            "speaker": "user",
            "metadata": {"session_id": self.session_id},
            "key": None if named is None else self.key(named, "prompt"),
        }
        (working,) = await memory.astore_many([note])
        now = self.memory.tiered_store.flows.now
        found = intended_in(text, now, tools=self.before_tools, asked=self.intends == "asked")
        if found is None or not working.stored or working.quarantined:
            return PromptSubmit(working=working)
        key = None if named is None else self.key(named, "intended")
        intended = await self._intend(memory, found, key, now)
        return PromptSubmit(
            working=working, intended=intended, priority=found.priority, trigger=found.trigger
        )

    async def _intend(
        self, memory: MemoryCoordinator, found: Intended, key: str | None, now: datetime
    ) -> StoreResult:
        """Intend it, once: a time that a prompt names is counted from when it came first."""
        known: Any = None if key is None else await memory.aget(key)
        known = known or alike(found, await memory.aintentions())
        if known is not None:
            return StoreResult(stored=True, key=known.key, tier=known.tier, reason="it is intended")
        lasts = self.expire_days is None or found.trigger != If(SESSION_STARTS)
        return await memory.aintend(
            found.content,
            priority=found.priority,
            key=key,
            speaker="user",
            expires_at=None if lasts else now + timedelta(days=self.expire_days or 0),
            **given(found.trigger),
        )

    async def _completed(
        self,
        memory: MemoryCoordinator,
        todo: Mapping[str, Any] | Task,
        source: str,
        key: str | None,
    ) -> StoreResult | None:
        flow = workflow_of(todo, ended=self.memory.tiered_store.flows.now)
        if flow is None:
            return None
        one = {
            "content": flow.content,
            "memory_type": "procedural",
            "metadata": flow.metadata,
            "source": source,
            "key": key,
        }
        (result,) = await memory.astore_many([one])
        return result

    async def _complete_task(
        self, memory: MemoryCoordinator, state: Any, task_id: str
    ) -> StoreResult | None:
        """Kept before it is closed: what dies between the two is repeated, under the same key."""
        active = {one.task_id: one for one in await state.aget_active_tasks()}
        if (task := active.get(checked_id(task_id, "task_id"))) is None:
            return None
        key = self.key(task_id, task.created_at.isoformat(), "task")
        done = replace(task, status=COMPLETED)
        kept = await self._completed(memory, done, Source.AGENT, key)
        await state.aclose_task(task_id, COMPLETED)
        return kept

    async def _stopped(
        self,
        memory: MemoryCoordinator,
        session_data: Mapping[str, Any] | None,
        model: BaseChatModel | None,
    ) -> SessionStop:
        data = checked_data(session_data)
        session = label(data.get("session_id"), "session_id") or self.session_id
        notes = await memory.asession_notes(session)
        hooks = MemoryHooks(self.memory, session_id=session)
        told = data.get("events")
        events = events_of(notes) if told is None else told_of(told, "event")
        concepts = told_of(data.get("concepts") or (), "concept")
        kept = [hooks._kept(one, "episodic") for one in events]
        kept += [hooks._kept(one, "semantic") for one in concepts]
        results = await memory.astore_many(kept) if kept else []
        report = await memory.aconsolidate_session(session, model=model)
        return SessionStop(
            report=report,
            events=tuple(results[: len(events)]),
            concepts=tuple(results[len(events) :]),
        )

    def _kept(self, one: Mapping[str, Any], memory_type: str) -> dict[str, Any]:
        """An event or a concept as a memory of the session, the same each time."""
        key = self.key(memory_type, one["content"])
        return {"session_id": self.session_id, **one, "memory_type": memory_type, "key": key}


async def _started(
    memory: MemoryCoordinator,
    query: str | None,
    *,
    state: Any,
    predicates: Predicates | None,
    limit: int,
    lease_seconds: float | None,
    run_id: str | Run | None,
) -> SessionStart:
    reminders = await memory.aremind(
        query,
        state=state,
        predicates={**(predicates or {}), SESSION_STARTS: lambda _: True},
        limit=limit,
        lease_seconds=lease_seconds,
        run_id=run_id,
    )
    pending = await memory.aintentions(limit=limit)
    return SessionStart(reminders=tuple(reminders), pending=tuple(pending))
