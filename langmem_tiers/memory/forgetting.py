"""The verbs by which something is forgotten for good, and by which that is proven."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Literal, Protocol, TypeAlias, TypedDict, TypeVar, Unpack, overload

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
from langmem_tiers.memory.administration import archive_files
from langmem_tiers.memory.base import Memory, memory_key
from langmem_tiers.memory.meant import key_of, meant
from langmem_tiers.postgres.flow import Flow, rows_of, without_deadline
from langmem_tiers.store.store import TieredStore

T = TypeVar("T")
Plan_co = TypeVar("Plan_co", covariant=True)
Receipt_co = TypeVar("Receipt_co", covariant=True)
Either_co = TypeVar("Either_co", covariant=True)


class Named(TypedDict, total=False):
    """What `forget` takes beside `plan`."""

    key: str | None
    user: str | None
    subject: str | Sequence[str] | None
    tenant: str | None
    checkpointer: Any


class Forgets(Protocol[Plan_co, Receipt_co, Either_co]):
    """The verb `forget`, which answers a plan or a receipt."""

    @overload
    def __call__(self, *, plan: Literal[True], **named: Unpack[Named]) -> Plan_co: ...

    @overload
    def __call__(self, *, plan: Literal[False] = False, **named: Unpack[Named]) -> Receipt_co: ...

    @overload
    def __call__(self, *, plan: bool, **named: Unpack[Named]) -> Either_co: ...


Told: TypeAlias = ForgetPlan | ForgetReceipt
Awaited: TypeAlias = Coroutine[Any, Any, T]
Forget: TypeAlias = Forgets[ForgetPlan, ForgetReceipt, Told]
AForget: TypeAlias = Forgets[Awaited[ForgetPlan], Awaited[ForgetReceipt], Awaited[Told]]


def forget(
    memory: Memory,
    *,
    key: str | None = None,
    user: str | None = None,
    subject: str | Sequence[str] | None = None,
    tenant: str | None = None,
    plan: bool = False,
    checkpointer: Any = None,
) -> Flow[Told]:
    """Erase something with all that came from it alone, in one transaction, so that it stays gone.

    What came from other memories as well goes if it repeats it, and is `suspect` if not. Every
    trace goes: vectors, counters, lineage, events and what they quote, states, reminders, lines of
    archives. No import and no archive brings it back; `store` and `put` do. What a call that was
    broken off left to be removed is removed by the next one. docs/forgetting.md says what else to
    do for the data directory, the log and the backups of Postgres.

    Args:
        key: Of the memory that `get` would return, or of an archived, rejected or evicted one.
        user: A user of the tenant, with all that is that user's own, in all projects.
        subject: A person or a thing, in all of the tenant: what was said by that speaker, has it
            among its `entities`, or names it as a phrase in any of its words, in its place or in
            what it waits for. Accents do not matter, endings do: the plan tells near spellings
            (`near`), and a list of names takes them along.
        tenant: The context's own tenant, by its name, with everything that it has.
        plan: Answer what would be done, and change nothing.
        checkpointer: A LangGraph checkpointer, whose threads that are called as the sessions in
            which it was said or shown are deleted. Without one they are named. A thread that has
            another name than its session stays: delete it yourself.

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
    named = {"key": key, "user": user, "subject": subject, "tenant": tenant}
    checked_flag(plan, "plan")
    flows.check_checkpointer(checkpointer)
    store = memory.tiered_store
    return forgetting(store, memory.context, named, plan=plan, checkpointer=checkpointer)


def verify_forgotten(
    memory: Memory, receipt: ForgetReceipt | Mapping[str, Any]
) -> Flow[Verification]:
    """Look whether anything is still there of what was forgotten; the answer is true if nothing is.

    Rows are sought by id in every table, contents and their sentences by hash in memories, events,
    states and archives, whoever's they are.

    Args:
        receipt: What `forget` answered, or its `to_json()`.

    Raises:
        InvalidInputError: if this is no receipt, one of another tenant or database, or one that was
            changed since it was given.
    """
    return verifying(memory.tiered_store, memory.context, receipt)


# The same, of a store that may have no index and so no coordinator.


@without_deadline
def forgetting(
    store: TieredStore,
    context: MemoryContext,
    named: Mapping[str, str | Sequence[str] | None],
    *,
    plan: bool,
    checkpointer: Any = None,
    advance: Callable[[int], object] = lambda _: None,
) -> Flow[Told]:
    """Forget what is named, or plan to; `advance` hears of what is done with."""
    kind, names = _checked(named, context)
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
    return _forgetting(store, request, plan=plan)


def _forgetting(store: TieredStore, request: ForgetRequest, *, plan: bool) -> Flow[Told]:
    yield from store.flows.flush()  # what was read a moment ago counts, and goes
    name, under = request.name, tuple[KeyMeaning, ...]()
    if request.kind == "key":
        name, under = yield from _located(request.context, name, store.flows.moment().alive_at)
    request = replace(request, name=name, under=under, now=store.flows.now)
    if plan:
        return (yield from flows.plan_forgetting(request))
    return (yield from flows.run_forgetting(request))


@without_deadline
def verifying(
    store: TieredStore, context: MemoryContext, receipt: ForgetReceipt | Mapping[str, Any]
) -> Flow[Verification]:
    """Look whether what a receipt speaks of is gone."""
    return verify_receipt(checked_receipt(receipt), context.root, store.options, archive_files)


def _checked(
    named: Mapping[str, str | Sequence[str] | None], context: MemoryContext
) -> tuple[ForgetKind, tuple[str, ...]]:
    """Return what is named, if it is one thing that may be asked for; a subject with all names."""
    targets: list[tuple[Any, Any]] = [(k, name) for k, name in named.items() if name is not None]
    if len(targets) != 1:
        kinds = " and ".join(k for k, _ in targets) or "nothing"
        raise InvalidInputError(
            f"forget takes exactly one of key, user, subject and tenant, not {kinds}"
        )
    ((kind, name),) = targets
    if kind == "subject" and not isinstance(name, str):
        names = [_checked_one(kind, part, context) for part in checked_strings(name, "subject")]
        if not names:
            raise InvalidInputError("subject is an empty list: name one")
        return kind, tuple(dict.fromkeys(names))
    return kind, (_checked_one(kind, name, context),)


def _checked_one(kind: ForgetKind, name: object, context: MemoryContext) -> str:
    """Return a name of what is to be forgotten, if it may be asked for."""
    if not isinstance(name, str):
        raise InvalidTypeError(f"{kind} is a string, not {short(name)}")
    if kind == "key":
        return memory_key(name)
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
        MemoryContext(tenant=context.tenant, user_id=name)  # refuses what can be no user
    return name


def _located(
    context: MemoryContext, key: str, alive_at: datetime
) -> Flow[tuple[str, tuple[KeyMeaning, ...]]]:
    """Return the key and what it means; the key of the handle, where it is one."""
    if under := (yield from _under(context, key)):
        return key, under
    key = yield from key_of(key, context, alive_at)
    return key, (yield from _under(context, key))


def _under(context: MemoryContext, key: str) -> Flow[tuple[KeyMeaning, ...]]:
    """What a key means: what the context reaches and lives, else is archived, else is gone."""
    rows = yield from rows_of("memories_under_key", **context.whose, key=key)
    places = [KeyMeaning(context.root, key, *row) for row in rows]
    for origin in ("lives", "archived", "gone"):
        match = meant([each for each in places if each.origin == origin], key, context)
        if match is not None:
            return tuple(each for each in places if each.namespace == match.namespace)
    return ()
