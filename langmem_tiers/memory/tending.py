"""The verbs by which memory is tended: a session's end, its notes, and what is archived."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from langchain_core.language_models import BaseChatModel

from langmem_tiers.consolidate import archive as cold
from langmem_tiers.consolidate.archive import ArchiveFile, ArchiveReport, RestoreReport
from langmem_tiers.consolidate.models import summariser_of
from langmem_tiers.consolidate.policy import ArchivalPolicy
from langmem_tiers.consolidate.session_end import EndedSession, SessionReport, end_session, notes_of
from langmem_tiers.consolidate.steps import Cycle
from langmem_tiers.core.checks import checked_flag, label
from langmem_tiers.core.context import MemoryContext
from langmem_tiers.core.errors import InvalidInputError, InvalidTypeError
from langmem_tiers.core.memory import Tier
from langmem_tiers.core.namespaces import encode
from langmem_tiers.memory.base import Memory
from langmem_tiers.postgres.flow import Flow, unhurried
from langmem_tiers.store.store import TieredStore

if TYPE_CHECKING:
    from langmem_tiers.consolidate.files import ArchiveFiles


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

    A note is lifted that is pinned, that somebody told to be important (0.7 or more), or that was
    recalled in more than one turn: it becomes a `semantic` memory of the project. The rest is left
    as it is told in the digest: all notes, in their own words and order and with their times, in
    one `episodic` memory; beyond 8,000 characters it goes on in another one. What else of the
    session is in short_term moves to working. All of it is one transaction, and done again it
    changes nothing.

    It is the session of the context's project, or of all if it names none. Of a user's session it
    is what that user noted, and what is shared.

    Args:
        session_id: The session; the context's if not given.
        model: A chat model that adds a summary to the digest, and says what was learned.
            Everything it says names the notes it comes from. It also reads what was said in the
            session and stays (`episodic`, with a speaker), once.

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
    return session_ended(memory, session_id, model)


def session_ended(
    memory: Memory, session_id: str | None, model: BaseChatModel | None, *, stated: bool = False
) -> Flow[SessionReport]:
    """End a session; what the user `stated` is lifted too, if the hook of specifications asks."""
    summariser = None if model is None else summariser_of(model)
    ending = _ending(memory, session_id)._replace(summariser=summariser, stated=stated)
    yield from memory.tiered_store.flows.flush()  # what was read a moment ago counts
    yield from memory.tiered_store.flows.refresh_state()
    return (yield from end_session(ending))


def session_notes(memory: Memory, session_id: str | None = None) -> Flow[list[SessionNote]]:
    """What a session has noted so far, in order; nothing counts as accessed by looking.

    It is the session of the context's project, or of all if it names none.

    Args:
        session_id: The session; the context's if not given.

    Raises:
        InvalidInputError: if no session is named.
    """
    found = yield from notes_of(_ending(memory, session_id))
    return [SessionNote(one.key, one.content, one.told_at, one.state, one.value) for one in found]


def _ending(memory: Memory, session_id: str | None) -> EndedSession:
    session = label(session_id, "session_id") or memory.context.session_id
    if session is None:
        raise InvalidInputError("no session is named: pass session_id, or a context with one")
    project = memory.context.project_id
    own = replace(memory.context, session_id=session).places(Tier.SHORT_TERM)
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
        namespaces=[encode(one).namespace for one in own],
        user_id=memory.context.user_id,
    )


def archive(memory: Memory, policy: ArchivalPolicy, *, dry_run: bool = True) -> Flow[ArchiveReport]:
    """Move what is old, hardly read and unimportant in the tenant to Parquet files.

    It is only counted, unless `dry_run` is False. Each file is read back and compared before
    anything is removed. What is archived is neither recalled nor found by key, and takes no room in
    the database but for a row of its name.

    What is not current stays, and what has a lineage (what was promoted, merged or derived, and
    what that came from): questions about the past and `rollback` need it. What a session keeps
    until it is cleared stays as well, and what is intended still.

    Raises:
        ArchiveError: if a file cannot be written, or not be read back; what is in the files
            before it is archived.
        ConfigurationError: for a URL that fsspec does not know.
        LeaseLostError: if a worker is consolidating the tenant.
        MissingExtraError: without the `archive` extra.

    Example:
        ```python
        from langmem_tiers import ArchivalPolicy

        print(memory.archive(ArchivalPolicy(url="./archive")))  # what would leave
        report = memory.archive(ArchivalPolicy(url="./archive"), dry_run=False)
        ```
    """
    return archiving(memory.tiered_store, memory.context, policy, dry_run=dry_run)


def restore_archive(memory: Memory, archive: str) -> Flow[RestoreReport]:
    """Bring memories back from an archive, as they were; doing it again changes nothing.

    A memory whose key lives again stays in the archive, and one that was deleted or has expired
    meanwhile does not come back.

    Args:
        archive: Its name or its URL, as `archives` lists them.

    Raises:
        ArchiveError: if the file is missing, damaged, or not what was written; nothing was
            restored.
        InvalidInputError: if the tenant has no such archive.
        MissingExtraError: without the `archive` extra.
    """
    return restoring(memory.tiered_store, memory.context, archive)


def archives(memory: Memory) -> Flow[list[ArchiveFile]]:
    """The tenant's archives, oldest first."""
    return cold.archives(memory.context.root)


# The same, of a store that may have no index and so no coordinator: files know no words.


@unhurried
def archiving(
    store: TieredStore,
    context: MemoryContext,
    policy: ArchivalPolicy,
    *,
    dry_run: bool = False,
    advance: Callable[[int], object] = lambda _: None,
) -> Flow[ArchiveReport]:
    """Archive what the policy means; `advance` hears of each batch.

    A cycle is named after its day, so that one that was broken off is done again under the same
    names.
    """
    if not isinstance(policy, ArchivalPolicy):
        raise InvalidTypeError(f"policy is an ArchivalPolicy, not {type(policy).__name__}")
    checked_flag(dry_run, "dry_run")
    files = archive_files()
    files.check(policy.url)
    yield from store.flows.flush()  # what was read a moment ago counts
    moment = store.flows.moment()
    cycle = Cycle(
        tenant=context.root, cycle=f"{moment.now:%Y-%m-%d}", moment=moment, options=store.options
    )
    step = cold.Archive(policy, files)
    return (yield from cold.archive_all(step, cycle, dry_run=dry_run, advance=advance))


@unhurried
def restoring(store: TieredStore, context: MemoryContext, archive: str) -> Flow[RestoreReport]:
    """Bring memories back from an archive of the context's tenant."""
    if not isinstance(archive, str):
        hint = ": pass its .archive" if isinstance(archive, ArchiveFile) else ""
        raise InvalidTypeError(
            f"an archive is named by a string, not {type(archive).__name__}{hint}"
        )
    how = cold.Restoring(context, archive_files(), store.options, store.flows.now)
    return cold.restore(how, archive)


def archive_files() -> ArchiveFiles:
    """Where archives are, if the extra is there."""
    from langmem_tiers.consolidate.files import ArchiveFiles

    return ArchiveFiles()
