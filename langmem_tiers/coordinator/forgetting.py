"""Verbs that forget for good, and prove it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Literal, Protocol, TypeAlias, TypedDict, TypeVar, Unpack, overload

from langmem_tiers.coordinator.admin import archive_files
from langmem_tiers.coordinator.base import Memory, checked_memory_key
from langmem_tiers.coordinator.resolve import pick_memory, resolve_key
from langmem_tiers.core.checks import checked_flag, checked_strings, utf8_bytes
from langmem_tiers.core.context import MemoryContext
from langmem_tiers.core.errors import InvalidInputError, InvalidTypeError, short
from langmem_tiers.forget import forgetting as flows
from langmem_tiers.forget.find import ForgetKind, ForgetRequest, KeyMeaning
from langmem_tiers.forget.passages import Subject
from langmem_tiers.forget.receipt import (
    ForgetPlan,
    ForgetReceipt,
    Verification,
    checked_receipt,
    verify_receipt,
)
from langmem_tiers.postgres.flow import Flow, rows_of, without_deadline
from langmem_tiers.store.store import TieredStore

T = TypeVar("T")
Plan_co = TypeVar("Plan_co", covariant=True)
Receipt_co = TypeVar("Receipt_co", covariant=True)
Either_co = TypeVar("Either_co", covariant=True)


class ForgetTarget(TypedDict, total=False):
    """Arguments of `forget` beside `plan`."""

    key: str | None
    user: str | None
    subject: str | Sequence[str] | None
    tenant: str | None
    checkpointer: Any


class ForgetVerb(Protocol[Plan_co, Receipt_co, Either_co]):
    """Signatures of the verb `forget`, which returns a plan or a receipt."""

    @overload
    def __call__(self, *, plan: Literal[True], **target: Unpack[ForgetTarget]) -> Plan_co: ...

    @overload
    def __call__(
        self, *, plan: Literal[False] = False, **target: Unpack[ForgetTarget]
    ) -> Receipt_co: ...

    @overload
    def __call__(self, *, plan: bool, **target: Unpack[ForgetTarget]) -> Either_co: ...


ForgetResult: TypeAlias = ForgetPlan | ForgetReceipt
Awaited: TypeAlias = Coroutine[Any, Any, T]
Forget: TypeAlias = ForgetVerb[ForgetPlan, ForgetReceipt, ForgetResult]
AForget: TypeAlias = ForgetVerb[Awaited[ForgetPlan], Awaited[ForgetReceipt], Awaited[ForgetResult]]


def forget(
    memory: Memory,
    *,
    key: str | None = None,
    user: str | None = None,
    subject: str | Sequence[str] | None = None,
    tenant: str | None = None,
    plan: bool = False,
    checkpointer: Any = None,
) -> Flow[ForgetResult]:
    """Erase memories, with all derived from them alone, in one transaction, so that they stay gone.

    A memory derived from others as well is erased if it repeats an erased one, and is `suspect` if
    not. Every trace goes: vectors, counters, lineage, events and their quotes, states, reminders,
    lines of archives. No import and no archive brings the content back; `store` and `put` do. The
    next call finishes what an interrupted one left. docs/forgetting.md says what else to
    do for the data directory, the log and the backups of Postgres.

    Args:
        key: The key of the memory that `get` would return, or of an archived, rejected or evicted
            one.
        user: A user of the tenant, with all their own memories, in all projects.
        subject: A person or a thing, in all of the tenant: every memory of this speaker, that has
            it among its `entities`, or that names it as a phrase in its text, its place or its
            trigger. Accents do not matter, endings do: the plan lists near spellings (`near`), and
            a list of names includes them.
        tenant: The context's own tenant, by its name, with everything that it has.
        plan: Return the plan, and change nothing.
        checkpointer: A LangGraph checkpointer. Its threads with the names of the sessions in which
            the content was said or shown are deleted. Without one, the receipt names them. A thread
            with another name than its session stays: delete it yourself.

    Raises:
        FileError (archive): if an archive that may hold it cannot be read or written.
        InvalidInputError: if nothing, or more than one thing is named, there is no such memory, or
            the context's user asks for more than what is that user's own.
        MissingExtraError: without the `archive` extra, if the tenant has archives.

    Example:
        ```python
        print(memory.forget(subject="Ada Lovelace", plan=True))  # nothing has changed
        receipt = memory.forget(subject="Ada Lovelace")
        assert memory.admin.verify_forgotten(receipt)
        ```
    """
    target = {"key": key, "user": user, "subject": subject, "tenant": tenant}
    checked_flag(plan, "plan")
    flows.check_checkpointer(checkpointer)
    store = memory.tiered_store
    return forget_target(store, memory.context, target, plan=plan, checkpointer=checkpointer)


def verify_forgotten(
    memory: Memory, receipt: ForgetReceipt | Mapping[str, Any]
) -> Flow[Verification]:
    """Verify that nothing of a forgetting is left; the result is true if so.

    Rows are searched for by id in every table, contents and their sentences by hash in memories,
    events, states and archives of every user.

    Args:
        receipt: The receipt of `forget`, or its `to_json()`.

    Raises:
        InvalidInputError: if this is no receipt, one of another tenant or database, or one that was
            changed since it was given.
    """
    return verify_in_store(memory.tiered_store, memory.context, receipt)


# Flows of a store that may have no index and so no coordinator


@without_deadline
def forget_target(
    store: TieredStore,
    context: MemoryContext,
    target: Mapping[str, str | Sequence[str] | None],
    *,
    plan: bool,
    checkpointer: Any = None,
    advance: Callable[[int], object] = lambda _: None,
) -> Flow[ForgetResult]:
    """Forget the target, or plan it; call `advance` with the counts of finished rows."""
    kind, names = _check_target(target, context)
    request = ForgetRequest(
        context=context,
        kind=kind,
        name=names[0],
        also=names[1:],
        options=store.options,
        files=archive_files,
        now=store.flows.now,
        checkpointer=checkpointer,
        advance=advance,
    )
    return _forget_or_plan(store, request, plan=plan)


def _forget_or_plan(
    store: TieredStore, request: ForgetRequest, *, plan: bool
) -> Flow[ForgetResult]:
    yield from store.flows.flush()  # writes pending read counts, which are erased then
    name, under = request.name, tuple[KeyMeaning, ...]()
    if request.kind == "key":
        name, under = yield from _locate(request.context, name, store.flows.moment().alive_at)
    request = replace(request, name=name, under=under, now=store.flows.now)
    if plan:
        return (yield from flows.plan_forgetting(request))
    return (yield from flows.run_forgetting(request))


@without_deadline
def verify_in_store(
    store: TieredStore, context: MemoryContext, receipt: ForgetReceipt | Mapping[str, Any]
) -> Flow[Verification]:
    """Verify that nothing of a receipt's forgetting is left in a store."""
    return verify_receipt(checked_receipt(receipt), context.root, store.options, archive_files)


def _check_target(
    target: Mapping[str, str | Sequence[str] | None], context: MemoryContext
) -> tuple[ForgetKind, tuple[str, ...]]:
    """Return the kind and the names of the one target, if the context may forget it."""
    targets: list[tuple[Any, Any]] = [(k, name) for k, name in target.items() if name is not None]
    if len(targets) != 1:
        kinds = " and ".join(k for k, _ in targets) or "nothing"
        raise InvalidInputError(
            f"forget takes exactly one of key, user, subject and tenant, not {kinds}"
        )
    ((kind, name),) = targets
    if kind == "subject" and not isinstance(name, str):
        names = [_checked_name(kind, part, context) for part in checked_strings(name, "subject")]
        if not names:
            raise InvalidInputError("subject is an empty list: name one")
        return kind, tuple(dict.fromkeys(names))
    return kind, (_checked_name(kind, name, context),)


def _checked_name(kind: ForgetKind, name: object, context: MemoryContext) -> str:
    """Return a name of a target, if the context may forget it."""
    if not isinstance(name, str):
        raise InvalidTypeError(f"{kind} is a string, not {short(name)}")
    if kind == "key":
        return checked_memory_key(name)
    utf8_bytes(name, kind)
    if not name.strip() or (kind == "subject" and not all(Subject(name).names)):
        raise InvalidInputError(f"{kind} is blank: name one")
    if kind == "tenant" and name != context.tenant:
        raise InvalidInputError(
            f"tenant is that of the context, {context.tenant!r}, and not {name!r}: it is named so "
            "that nobody forgets another one"
        )
    if context.user_id is not None and (kind != "user" or name != context.user_id):
        raise InvalidInputError(
            f"{context.user_id!r} may forget a key and user={context.user_id!r}: what is all of "
            "the tenant's is forgotten through a context that names no user"
        )
    if kind == "user":
        MemoryContext(tenant=context.tenant, user_id=name)  # refuses an invalid user
    return name


def _locate(
    context: MemoryContext, key: str, alive_at: datetime
) -> Flow[tuple[str, tuple[KeyMeaning, ...]]]:
    """Return the key, or the key that a handle names, and the memories under it."""
    if under := (yield from _find_under_key(context, key)):
        return key, under
    key = yield from resolve_key(key, context, alive_at)
    return key, (yield from _find_under_key(context, key))


def _find_under_key(context: MemoryContext, key: str) -> Flow[tuple[KeyMeaning, ...]]:
    """Return the reached memories of a key: living ones, else archived, else deleted ones."""
    rows = yield from rows_of("memories_under_key", **context.scope_params, key=key)
    places = [KeyMeaning(context.root, key, *row) for row in rows]
    for origin in ("lives", "archived", "gone"):
        match = pick_memory([each for each in places if each.origin == origin], key, context)
        if match is not None:
            return tuple(each for each in places if each.namespace == match.namespace)
    return ()
