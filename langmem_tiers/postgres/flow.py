"""Flows: what the package does, written once and driven both ways.

A flow is a generator that yields what it needs (an `Embed`, a `Query`, a `Script`, …)
and is sent the answer. `driven` of `driver.py` drives it, blocking or awaiting. Everything
above is therefore written once and never blocks by itself.

A flow is one transaction, opened at its first `Query` and committed when the flow returns, or
together with the query that says `commit=True`, which saves a round trip. An `Embed` while a
transaction is open is an error, so no connection ever waits for a model.

What goes wrong with an effect is raised where the flow yielded. After the error of a query that
committed by itself a flow may go on; else it may undo what it did in memory and let the error pass.
After a ConflictError nothing of its transaction is left, and it may begin `anew`. One that is
cancelled is closed where it yielded: it may undo, and asks for nothing more.

After a `Script` a transaction is not done again by itself, and need not remember what it read.

A `Unit` is a flow within a flow, with a transaction of its own. An `Ask` is awaited on the loop of
whoever called, wherever the database is.

`both` makes the two methods of a verb of its flow, `plain` those of one that needs none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Mapping, Sequence
from functools import partial, update_wrapper, wraps
from inspect import Parameter, signature
from typing import (
    Any,
    Concatenate,
    Final,
    Literal,
    NamedTuple,
    ParamSpec,
    Protocol,
    TypeAlias,
    TypeVar,
    cast,
)

from langmem_tiers.core.config import StoreOptions
from langmem_tiers.core.errors import ConflictError, InvalidTypeError, short
from langmem_tiers.core.tracing import RunType, traced
from langmem_tiers.core.vectors import PackedVector, pack_all

T = TypeVar("T")
U = TypeVar("U")
P = ParamSpec("P")
Row = tuple[Any, ...]
Rows = list[Row]

ITEMS_IN_A_CALL: Final = 200
"""The number of items that one call's time is for: our own choice. A model of ours embeds them in
two seconds on a shared core."""


class Embed(NamedTuple):
    """Ask for vectors. Answered with one vector a text, in order."""

    texts: tuple[str, ...]
    purpose: Literal["documents", "query"]


class Ask(NamedTuple):
    """Ask a model or a function of the caller's, by either form. Answered with what it returns."""

    call: Callable[[], Any]
    acall: Callable[[], Awaitable[Any]]

    def ask(self) -> Any:
        """Ask, blocking."""
        return self.call()

    async def aask(self) -> Any:
        """Ask, awaiting."""
        return await self.acall()


class BlockingCall(NamedTuple):
    """Call what only knows to block, such as a file; a transaction may be open meanwhile."""

    call: Callable[[], Any]


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
    """Run a script without parameters in the flow's transaction. Answered with nothing.

    A script that begins the transaction goes before the transaction's settings.
    """

    text: str
    advice: str = ""
    """The advice for a role that may not run it."""


class BuildIndex(NamedTuple):
    """Run statements that Postgres refuses inside a transaction, one after another.

    Only one process at a time does: answered with False, at once, where another one is at it.
    """

    statements: tuple[str, ...]
    lock: int


class GroupWrite(NamedTuple):
    """Do this together with others of its kind that wait meanwhile: one transaction for all.

    `flow` makes the flow that does several items. One that fails is done again alone, so that
    it spoils no other. Answered with nothing once the item is committed.
    """

    item: Any
    flow: Callable[[Sequence[Any]], Flow[None]]


class ExtendDeadline(NamedTuple):
    """Say how many items a flow does, which sets its deadline; None is no deadline.

    Work on many items at once, such as a cycle, takes as long as it takes. Answered with nothing.
    """

    items: int | None


class Unit(NamedTuple):
    """Run a flow as a unit of work of its own, between two transactions. Answered by its result."""

    flow: Generator[Any, Any, Any]
    if_broken_off: Generator[Any, Any, Any] | None = None
    """A flow that is run after it as well if it fails or is interrupted, as far as it can be."""


Effect: TypeAlias = (
    Embed
    | Ask
    | BlockingCall
    | Query
    | Lookup
    | Script
    | BuildIndex
    | GroupWrite
    | Unit
    | ExtendDeadline
)
Flow: TypeAlias = Generator[Effect, Any, T]


def check_flow(flow: Flow[T]) -> Flow[T]:
    """What can be driven, and nothing else."""
    if not isinstance(flow, Generator):
        raise InvalidTypeError(f"a flow is a generator of effects, not {short(flow)}")
    return flow


def call_blocking(call: Callable[[], T]) -> Flow[T]:
    """What a call returns that only knows to block; see `Aside`."""
    return cast("T", (yield BlockingCall(call)))


def with_deadline_for(items: int | None, flow: Flow[T]) -> Flow[T]:
    """Give a flow the time for so many items; see `Lasts`."""
    yield ExtendDeadline(items)
    return (yield from flow)


def extend_deadline(items: int) -> Flow[None]:
    """Say how many items a flow does, if that gives it more time; see `Lasts`."""
    if items > ITEMS_IN_A_CALL:
        yield ExtendDeadline(items)


def without_deadline(verb: Callable[P, Flow[T]]) -> Callable[P, Flow[T]]:
    """Let a verb take as long as it takes."""

    @wraps(verb)
    def taking_its_time(*args: P.args, **options: P.kwargs) -> Flow[T]:
        return with_deadline_for(None, verb(*args, **options))

    return taking_its_time


def unit(flow: Flow[T]) -> Flow[T]:
    """A flow within a flow: its result, or its error, once its own transaction has ended."""
    return cast("T", (yield Unit(flow)))


def map_result(flow: Flow[T], made: Callable[[T], U]) -> Flow[U]:
    """What is `made` of a flow's result."""
    return made((yield from flow))


def single(flow: Flow[list[T]]) -> Flow[T]:
    """The one answer of a flow that was asked for one thing."""
    (answer,) = yield from flow
    return answer


def ask_model(model: Any, *args: Any) -> Flow[Any]:
    """Ask a model by its `call` or its `acall`, as the caller blocks or awaits."""
    return (yield Ask(partial(model.call, *args), partial(model.acall, *args)))


def rows_of(statement: str, **params: Any) -> Flow[Rows]:
    """What one statement answers, in a transaction of its own."""
    (rows,) = yield Query((Call(statement, params),), commit=True)
    return cast("Rows", rows)


CHARACTERS_ON_LOOP = 4_000
"""Characters that are read in a moment: what reads more is done `apart`."""


def off_loop(call: Callable[[], T], characters: int) -> Flow[T]:
    """What a call returns that reads so many characters; a loop is not held by it meanwhile."""
    if characters <= CHARACTERS_ON_LOOP:
        return call()
    return cast("T", (yield Ask(call, partial(asyncio.to_thread, call))))


def map_off_loop(call: Callable[..., T], characters: int, *columns: Iterable[Any]) -> Flow[list[T]]:
    """What a call returns of each of these, which have so many characters; see `apart`."""
    call_all: Callable[[], list[T]] = partial(list, map(call, *columns))
    return off_loop(call_all, characters)


def reading_size(value: object) -> int:
    """How much there is to be read of this, in characters and parts; no further than need be."""
    size, rest = 0, [value]
    while rest and size <= CHARACTERS_ON_LOOP:
        part = rest.pop()
        if isinstance(part, str | Mapping | list | tuple):
            size += len(part)
        if size <= CHARACTERS_ON_LOOP and isinstance(part, Mapping):
            rest += (*part, *part.values())
        elif size <= CHARACTERS_ON_LOOP and isinstance(part, list | tuple):
            rest += part
    return size


def embed_texts(
    texts: Iterable[str], options: StoreOptions, purpose: Literal["documents", "query"] = "query"
) -> Flow[dict[str, PackedVector | None]]:
    """A vector for each distinct text that is not blank; none without an embedding model."""
    if options.index is None or options.index.vector is None:
        return {}
    distinct = tuple(dict.fromkeys(filter(str.strip, texts)))
    if not distinct:
        return {}
    vectors = yield Embed(distinct, purpose)
    pack = partial(pack_all, vectors, len(distinct), options.index.vector)
    packed = yield from off_loop(pack, len(distinct) * options.index.vector.dims)
    return dict(zip(distinct, packed, strict=True))


_TRIES = 10


def retry_on_conflict(flow: Callable[[], Flow[T]]) -> Flow[T]:
    """Do what this makes, from its start as often as somebody else was faster; ten times at most.

    It has committed nothing before its last query.
    """
    for _ in range(_TRIES - 1):
        try:
            return (yield from flow())
        except ConflictError as error:
            if error.code == "lease_lost":  # by now, and for as long as they consolidate
                raise
    return (yield from flow())


def retried_on_conflict(flow: Callable[P, Flow[T]]) -> Callable[P, Flow[T]]:
    """A flow that begins `anew` where somebody else was faster."""

    @wraps(flow)
    def repeated(*args: P.args, **options: P.kwargs) -> Flow[T]:
        return retry_on_conflict(lambda: flow(*args, **options))

    return repeated


class FlowRunner(Protocol):
    """What runs flows, whichever way it was opened."""

    def run(self, flow: Flow[T], /) -> T:
        """Run a flow, blocking."""
        ...

    async def arun(self, flow: Flow[T], /) -> T:
        """Run a flow, awaiting."""
        ...


class HasRunner(Protocol):
    """What has verbs: it knows what runs their flows."""

    @property
    def runner(self) -> FlowRunner:
        """What runs its flows."""
        ...


S = TypeVar("S", bound=HasRunner)


def both(
    verb: Callable[Concatenate[S, P], Flow[T]], run_type: RunType | None = None
) -> tuple[Callable[Concatenate[S, P], T], Callable[Concatenate[S, P], Coroutine[Any, Any, T]]]:
    """The two methods of a verb, one that blocks and one that is awaited, of the flow it makes.

    A verb is a function of its object that checks what it is given and returns a flow; one that is
    a method itself has a `_` before its name, and one named like a builtin behind it. With a
    `run_type` its calls are traced.

    Example:
        ```python
        class MemoryCoordinator:
            store, astore = both(remembering.store)
        ```
    """

    def blocking(self: S, /, *args: P.args, **options: P.kwargs) -> T:
        return self.runner.run(verb(self, *args, **options))

    async def awaited(self: S, /, *args: P.args, **options: P.kwargs) -> T:
        return await self.runner.arun(verb(self, *args, **options))

    methods = _name_method(blocking, verb, ""), _name_method(awaited, verb, "a")
    if run_type is None:
        return methods
    return traced(run_type)(methods[0]), traced(run_type)(methods[1])


def both_of_function(
    verb: Callable[Concatenate[U, P], T],
) -> tuple[Callable[Concatenate[U, P], T], Callable[Concatenate[U, P], Coroutine[Any, Any, T]]]:
    """The two methods of a verb that asks for nothing and writes nothing; see `both`."""

    def blocking(self: U, /, *args: P.args, **options: P.kwargs) -> T:
        return verb(self, *args, **options)

    async def awaited(self: U, /, *args: P.args, **options: P.kwargs) -> T:
        return verb(self, *args, **options)

    return _name_method(blocking, verb, ""), _name_method(awaited, verb, "a")


Method = TypeVar("Method", bound=Callable[..., Any])


def _name_method(method: Method, verb: Callable[..., Any], prefix: str) -> Method:
    """A method that tracebacks, `help` and `inspect.signature` know by the name of its verb."""
    name = prefix + verb.__name__.strip("_")
    plain: Any = method
    update_wrapper(plain, verb)
    del plain.__wrapped__
    plain.__name__ = name
    plain.__code__ = plain.__code__.replace(co_name=name)
    whole = signature(verb)
    first, *rest = whole.parameters.values()
    answer = str(whole.return_annotation)
    answer = answer.removeprefix("Flow[").removesuffix("]") if answer.startswith("Flow") else answer
    plain.__signature__ = whole.replace(
        parameters=[
            first.replace(
                name="self", kind=Parameter.POSITIONAL_OR_KEYWORD, annotation=Parameter.empty
            ),
            *rest,
        ],
        return_annotation=answer,
    )
    return method
