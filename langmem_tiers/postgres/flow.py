"""Flows: what the package does, written once and driven both ways.

A flow is a generator that yields what it needs (an `Embed`, a `Query`, a `Script`, …)
and is sent the answer. `run` drives it on a blocking session and `arun` on an asynchronous
one; the two are equal but for `await`. Everything above is therefore written once and never
blocks by itself.

A flow is one transaction, opened at its first `Query` and committed when the flow returns, or
together with the query that says `commit=True`, which saves a round trip. An `Embed` while a
transaction is open is an error, so no connection ever waits for a model.

A flow sees what Postgres refuses as an error raised where it yielded. It may go on after the
error of a query that committed by itself, or undo what it did in memory and let the error pass.
After a ConflictError nothing of its transaction is left, and it may begin `anew`. One whose model
raises, or that is cancelled, is closed where it yielded: it may undo, and asks for nothing more.

A plan yields whole flows, each a unit of work of its own, and `Ask`s that are awaited where its
caller awaits. The same two drivers drive it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Literal, NamedTuple, Protocol, Self, TypeAlias, TypeVar, cast

from langmem_tiers.core.errors import ConflictError, DatabaseError

T = TypeVar("T")
E = TypeVar("E")
E_contra = TypeVar("E_contra", contravariant=True)
Row = tuple[Any, ...]
Rows = list[Row]


class Embed(NamedTuple):
    """Ask for vectors. Answered with one vector a text, in order."""

    texts: tuple[str, ...]
    purpose: Literal["documents", "query"]


class Ask(NamedTuple):
    """Ask a model of the caller's, by either function. Answered with what it returns."""

    call: Callable[[], Any]
    acall: Callable[[], Awaitable[Any]]


class Call(NamedTuple):
    """One named statement of queries.sql and its parameters."""

    name: str
    params: Mapping[str, Any]


class Query(NamedTuple):
    """Run statements in one round trip. Answered with the rows of each, in order."""

    calls: tuple[Call, ...]
    commit: bool = False
    """Commit with this round trip. A later query opens a transaction of its own."""


class Lookup(NamedTuple):
    """Read one memory by its key, in a transaction of its own. Answered with its rows.

    Tasks that look up at the same time may share one statement.
    """

    tenant: str
    namespace: str
    key: str

    @staticmethod
    def call(lookups: Sequence[Lookup]) -> Call:
        """The call that reads all of these."""
        if len(lookups) == 1:
            return Call("get", lookups[0]._asdict())
        tenants, namespaces, keys = (list(column) for column in zip(*lookups, strict=True))
        return Call("get_many", {"tenants": tenants, "namespaces": namespaces, "keys": keys})


class Script(NamedTuple):
    """Run a script without parameters in the flow's transaction. Answered with nothing."""

    text: str


class Build(NamedTuple):
    """Run statements that Postgres refuses inside a transaction, one after another.

    Only one process at a time does: answered with False, at once, where another one is at it.
    """

    statements: tuple[str, ...]
    lock: int


class Together(NamedTuple):
    """Do this together with others of its kind that wait meanwhile: one transaction for all.

    `flow` makes the flow that does several items. One that fails is done again alone, so that
    it spoils no other. Answered with nothing once the item is committed.
    """

    item: Any
    flow: Callable[[Sequence[Any]], Flow[None]]


Effect: TypeAlias = Embed | Ask | Query | Lookup | Script | Build | Together
Flow: TypeAlias = Generator[Effect, Any, T]
Step: TypeAlias = Ask | Flow[Any]
Plan: TypeAlias = Generator[Step, Any, T]


class Session(Protocol[E_contra]):
    """What `run` needs: a unit of work that commits on a clean exit and else rolls back."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None: ...
    def perform(self, effect: E_contra, /) -> Any:
        """Do what a flow asked for."""


class AsyncSession(Protocol[E_contra]):
    """What `arun` needs: the same, awaited."""

    async def __aenter__(self) -> Self: ...
    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None: ...
    async def perform(self, effect: E_contra, /) -> Any:
        """Do what a flow asked for."""


AT_ONCE = 4_000
"""Characters that are read in a moment: what reads more is done `apart`."""


def apart(call: Callable[[], T], characters: int) -> Flow[T]:
    """What a call returns that reads so many characters; a loop is not held by it meanwhile."""
    if characters <= AT_ONCE:
        return call()
    return cast("T", (yield Ask(call, partial(asyncio.to_thread, call))))


def extent(given: object) -> int:
    """How much there is to be read of this, in characters and parts; no further than need be."""
    found, rest = 0, [given]
    while rest and found <= AT_ONCE:
        one = rest.pop()
        if isinstance(one, str | Mapping | list | tuple):
            found += len(one)
        if found <= AT_ONCE and isinstance(one, Mapping):
            rest += (*one, *one.values())
        elif found <= AT_ONCE and isinstance(one, list | tuple):
            rest += one
    return found


_TRIES = 10


def anew(flow: Callable[[], Flow[T]]) -> Flow[T]:
    """Do what this makes, from its start as often as somebody else was faster; ten times at most.

    It has committed nothing before its last query.
    """
    for _ in range(_TRIES - 1):
        try:
            return (yield from flow())
        except ConflictError:
            continue
    return (yield from flow())


def run(flow: Generator[E, Any, T], session: Session[E]) -> T:
    """Drive a flow or a plan to its result, blocking on every effect."""
    with session:
        resume: Callable[[Any], E] = flow.send
        answer: Any = None
        try:
            while True:
                try:
                    effect = resume(answer)
                except StopIteration as done:
                    return cast("T", done.value)
                finally:
                    answer = None  # an error kept here would keep this frame in turn
                try:
                    resume, answer = flow.send, session.perform(effect)
                except DatabaseError as error:
                    resume, answer = flow.throw, error
        finally:
            flow.close()


async def arun(flow: Generator[E, Any, T], session: AsyncSession[E]) -> T:
    """Drive a flow or a plan to its result, awaiting every effect."""
    async with session:
        resume: Callable[[Any], E] = flow.send
        answer: Any = None
        try:
            while True:
                try:
                    effect = resume(answer)
                except StopIteration as done:
                    return cast("T", done.value)
                finally:
                    answer = None  # an error kept here would keep this frame in turn
                try:
                    resume, answer = flow.send, await session.perform(effect)
                except DatabaseError as error:
                    resume, answer = flow.throw, error
        finally:
            flow.close()
