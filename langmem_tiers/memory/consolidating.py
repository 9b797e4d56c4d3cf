"""The verbs about a session's notes: what it noted, and its end, when what counts is kept."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from langchain_core.language_models import BaseChatModel

from langmem_tiers.consolidate.models import Summariser, summariser_of
from langmem_tiers.consolidate.policy import RisePolicy
from langmem_tiers.consolidate.session_end import EndedSession, SessionReport, end_session, notes_of
from langmem_tiers.consolidate.steps import Cycle
from langmem_tiers.core.context import MemoryContext
from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.core.memory import Tier
from langmem_tiers.core.namespaces import encode
from langmem_tiers.core.values import content_of
from langmem_tiers.memory.base import Memory
from langmem_tiers.memory.reviews import begin_reviews
from langmem_tiers.postgres.flow import Flow
from langmem_tiers.remember.new import label


class SessionNote(NamedTuple):
    """What a session noted: a memory of type `working`."""

    key: str
    content: str
    at: datetime
    """When it happened, or was noted."""
    state: str | None
    """None is current."""
    value: Mapping[str, Any]
    """The whole stored value."""


def consolidate_session(
    memory: Memory, session_id: str | None = None, *, model: BaseChatModel | None = None
) -> Flow[SessionReport]:
    """End a session: keep what it noted, and clear its notes, the memories of type `working`.

    A note that is significant becomes a `semantic` memory of the project: one of importance
    0.6 or more, read three times or more, noted more than once, or stated by the user, which is all
    that does not only ask.
    All notes, in order and with their times, become one `episodic` digest; beyond 8,000
    characters it goes on in another memory. What else of the session is in short_term moves to
    working. All of it is one transaction, and done again it changes nothing.

    It is the session of the context's project, or of all if it names none.

    Args:
        session_id: The session; the context's if not given.
        model: A chat model that adds a summary to the digest, and says what was learned in place
            of all that the user stated. Everything it says names the notes it comes from.

    Raises:
        ConflictError: if somebody kept on noting meanwhile; nothing was changed.
        InvalidInputError: if no session is named.
        ModelError: if the model gave nothing usable; nothing was changed.

    Example:
        ```python
        from langmem_tiers import MemoryContext, MemoryCoordinator, TieredStore

        context = MemoryContext(tenant="acme", project_id="billing", session_id="chat-7")
        with TieredStore.embedded("./.memory") as store:
            memory = MemoryCoordinator(store, context=context)
            memory.store("The invoice API times out after 30 s", memory_type="working")
            print(memory.consolidate_session())
        ```
    """
    summariser = None if model is None else summariser_of(model)
    ending = _ending(memory, session_id, summariser)
    yield from memory.tiered_store.flows.flush()  # what was read a moment ago counts
    yield from memory.tiered_store.flows.refresh_state()
    report = yield from end_session(ending)
    begin_reviews(memory, [*report.semantic, *report.episodic])
    return report


def session_notes(memory: Memory, session_id: str | None = None) -> Flow[list[SessionNote]]:
    """What a session has noted so far, in order; nothing counts as accessed by looking.

    It is the session of the context's project, or of all if it names none.

    Args:
        session_id: The session; the context's if not given.

    Raises:
        InvalidInputError: if no session is named.
    """
    found = yield from notes_of(_ending(memory, session_id, None))
    return [
        SessionNote(
            key=one.key,
            content=content_of(one.value),
            at=one.occurred_at or one.created_at,
            state=one.state,
            value=one.value,
        )
        for one in found
    ]


def _ending(memory: Memory, session_id: str | None, summariser: Summariser | None) -> EndedSession:
    session = label(session_id, "session_id") or memory.context.session_id
    if session is None:
        raise InvalidInputError("no session is named: pass session_id, or a context with one")
    project = memory.context.project_id
    names = {"project_id": project, "session_id": session}
    own = MemoryContext(tenant=memory.context.tenant, **names).namespace(Tier.SHORT_TERM)
    moment = memory.tiered_store.flows.moment()
    cycle = Cycle(
        tenant=memory.context.root,
        cycle=f"{session} {moment.now.isoformat()}",
        moment=moment,
        options=memory.tiered_store.options,
    )
    return EndedSession(
        cycle=cycle,
        session=session,
        projects=None if project is None else [project],
        namespace=encode(own).namespace,
        policy=RisePolicy(),
        summariser=summariser,
    )
