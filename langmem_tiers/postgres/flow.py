"""Flows: the package's work, written once and driven by blocking and by awaiting callers.

A flow is a generator. It yields the effects that it needs (an `Embed`, a `Query`, a `Script`, …),
and is sent their answers. `drive` of `driver.py` drives it, blocking or awaiting. So every module
above is written once, and never blocks by itself.

A flow is one transaction. Its first `Query` opens it. It is committed when the flow returns, or
together with a query that says `commit=True`, which saves a round trip. An `Embed` while a
transaction is open is an error, so no connection ever waits for a model.

The error of an effect is raised where the flow yielded it. After the error of a query that
committed by itself, a flow may go on. After any other error it may undo its work in memory, and
lets the error pass. After a ConflictError nothing of its transaction is left, and
`retry_on_conflict` may start it again. A cancelled flow is closed where it yielded: it may undo
its work, and yields nothing more.

A transaction that ran a `Script` is not repeated after an error, and keeps no list of its reads.

A `Unit` is a flow within a flow, with a transaction of its own. An `Ask` is awaited on the
caller's event loop, whichever loop the database uses.

`both` makes the two methods of a verb from its flow, `both_of_function` those of a plain function.
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
"""The number of items that one call's deadline covers: our own choice. Our models embed them in two
seconds on a shared core."""


class Embed(NamedTuple):
    """Embed texts. The answer is one vector for each text, in order."""

    texts: tuple[str, ...]
    purpose: Literal["documents", "query"]


class Ask(NamedTuple):
    """Call a model or function of the caller, in either form. The answer is its result."""

    call: Callable[[], Any]
    acall: Callable[[], Awaitable[Any]]

    def ask(self) -> Any:
        """Call the blocking form."""
        return self.call()

    async def aask(self) -> Any:
        """Call the awaited form."""
        return await self.acall()


class BlockingCall(NamedTuple):
    """Call a function that can only block, such as one on a file. A transaction may be open."""

    call: Callable[[], Any]


class Call(NamedTuple):
    """A named statement of our SQL files, with its parameters."""

    name: str
    params: Mapping[str, Any]


class Query(NamedTuple):
    """Run statements in one round trip. The answer is the rows of each, in order."""

    calls: tuple[Call, ...]
    commit: bool = False
    """Commit with this round trip. A later query opens a transaction of its own."""


class Lookup(NamedTuple):
    """Read one memory by its key, in a transaction of its own. The answer is its rows.

    Tasks that look up at the same time may share one statement.
    """

    tenant: str
    namespace: str
    key: str

    @staticmethod
    def call(lookups: Sequence[Lookup]) -> Call:
        """Return the call that reads all these memories."""
        if len(lookups) == 1:
            return Call("get", lookups[0]._asdict())
        tenants, namespaces, keys = (list(column) for column in zip(*lookups, strict=True))
        return Call("get_many", {"tenants": tenants, "namespaces": namespaces, "keys": keys})


class Script(NamedTuple):
    """Run a script without parameters in the flow's transaction. There is no answer.

    A script that begins the transaction runs before the transaction's settings.
    """

    text: str
    advice: str = ""
    """The advice in the error for a role that may not run it."""


class BuildIndex(NamedTuple):
    """Run statements that Postgres refuses inside a transaction, one after another.

    One process at a time does this. The answer is False, at once, if another one is doing it.
    """

    statements: tuple[str, ...]
    lock: int


class GroupWrite(NamedTuple):
    """Write an item in one transaction with the items of other waiting callers.

    `flow` makes the flow that writes several items. If the transaction fails, each item is
    written alone, so that none spoils another. There is no answer; the item is committed then.
    """

    item: Any
    flow: Callable[[Sequence[Any]], Flow[None]]


class ExtendDeadline(NamedTuple):
    """Set a flow's deadline by its number of items; None is no deadline.

    Work on many items at once, such as a cycle, has no deadline. There is no answer.
    """

    items: int | None


class Unit(NamedTuple):
    """Run a flow in a transaction of its own, while none is open. The answer is its result."""

    flow: Generator[Any, Any, Any]
    if_broken_off: Generator[Any, Any, Any] | None = None
    """A second flow, run if the first fails or is interrupted; its own failure is ignored."""


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
    """Return the flow; raise InvalidTypeError if it is none."""
    if not isinstance(flow, Generator):
        raise InvalidTypeError(f"a flow is a generator of effects, not {short(flow)}")
    return flow


def call_blocking(call: Callable[[], T]) -> Flow[T]:
    """Call a function that can only block, and return its result; see `BlockingCall`."""
    return cast("T", (yield BlockingCall(call)))


def with_deadline_for(items: int | None, flow: Flow[T]) -> Flow[T]:
    """Run a flow with the deadline for so many items; see `ExtendDeadline`."""
    yield ExtendDeadline(items)
    return (yield from flow)


def extend_deadline(items: int) -> Flow[None]:
    """Set the deadline for so many items, if it is a later one; see `ExtendDeadline`."""
    if items > ITEMS_IN_A_CALL:
        yield ExtendDeadline(items)


def without_deadline(verb: Callable[P, Flow[T]]) -> Callable[P, Flow[T]]:
    """Give the flows of a verb no deadline."""

    @wraps(verb)
    def undated(*args: P.args, **options: P.kwargs) -> Flow[T]:
        return with_deadline_for(None, verb(*args, **options))

    return undated


def unit(flow: Flow[T]) -> Flow[T]:
    """Run a flow in a transaction of its own; return its result, or raise its error, after that."""
    return cast("T", (yield Unit(flow)))


def map_result(flow: Flow[T], transform: Callable[[T], U]) -> Flow[U]:
    """Run a flow and return its transformed result."""
    return transform((yield from flow))


def single(flow: Flow[list[T]]) -> Flow[T]:
    """Run a batch flow for one item and return its result."""
    (answer,) = yield from flow
    return answer


def ask_model(model: Any, *args: Any) -> Flow[Any]:
    """Call a model, by its `call` for a blocking caller and its `acall` for an awaiting one."""
    return (yield Ask(partial(model.call, *args), partial(model.acall, *args)))


def rows_of(statement: str, **params: Any) -> Flow[Rows]:
    """Run a statement in a transaction of its own and return its rows."""
    (rows,) = yield Query((Call(statement, params),), commit=True)
    return cast("Rows", rows)


CHARACTERS_ON_LOOP = 4_000
"""Characters that a call may read on the event loop; one that reads more runs `off_loop`."""


def off_loop(call: Callable[[], T], characters: int) -> Flow[T]:
    """Run a call in a thread if its text is long, so that the event loop is not blocked."""
    if characters <= CHARACTERS_ON_LOOP:
        return call()
    return cast("T", (yield Ask(call, partial(asyncio.to_thread, call))))


def map_off_loop(call: Callable[..., T], characters: int, *columns: Iterable[Any]) -> Flow[list[T]]:
    """Map a call over columns, in a thread if their text is long; see `off_loop`."""
    call_all: Callable[[], list[T]] = partial(list, map(call, *columns))
    return off_loop(call_all, characters)


def reading_size(value: object) -> int:
    """Count the characters and parts of a value, until they exceed CHARACTERS_ON_LOOP."""
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
    """Embed each distinct text that is not blank; without an embedding model return {}."""
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
    """Run a flow, and start it again when another transaction changed what it read.

    It runs ten times at most. The flow must commit nothing before its last query.
    """
    for _ in range(_TRIES - 1):
        try:
            return (yield from flow())
        except ConflictError as error:
            if error.code == "lease_lost":  # another process keeps the lease while it consolidates
                raise
    return (yield from flow())


def retried_on_conflict(flow: Callable[P, Flow[T]]) -> Callable[P, Flow[T]]:
    """Decorate a function that makes a flow, so that it does `retry_on_conflict`."""

    @wraps(flow)
    def repeated(*args: P.args, **options: P.kwargs) -> Flow[T]:
        return retry_on_conflict(lambda: flow(*args, **options))

    return repeated


class FlowRunner(Protocol):
    """A runner of flows, opened blocking or on an event loop."""

    def run(self, flow: Flow[T], /) -> T:
        """Run a flow, blocking."""
        ...

    async def arun(self, flow: Flow[T], /) -> T:
        """Run a flow, awaiting."""
        ...


class HasRunner(Protocol):
    """An object with verbs, which knows the runner of their flows."""

    @property
    def runner(self) -> FlowRunner:
        """The runner of its flows."""
        ...


S = TypeVar("S", bound=HasRunner)


def both(
    verb: Callable[Concatenate[S, P], Flow[T]], run_type: RunType | None = None
) -> tuple[Callable[Concatenate[S, P], T], Callable[Concatenate[S, P], Coroutine[Any, Any, T]]]:
    """Make a verb's two methods, a blocking and an awaited one, from the flow that it returns.

    A verb is a function of its object that checks its arguments and returns a flow. A verb that is
    a method itself has a `_` before its name, one with the name of a builtin has it behind. With a
    `run_type`, calls are traced.

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
    """Make the two methods of a verb that needs no flow; see `both`."""

    def blocking(self: U, /, *args: P.args, **options: P.kwargs) -> T:
        return verb(self, *args, **options)

    async def awaited(self: U, /, *args: P.args, **options: P.kwargs) -> T:
        return verb(self, *args, **options)

    return _name_method(blocking, verb, ""), _name_method(awaited, verb, "a")


Method = TypeVar("Method", bound=Callable[..., Any])


def _name_method(method: Method, verb: Callable[..., Any], prefix: str) -> Method:
    """Name a method after its verb, for tracebacks, `help` and `inspect.signature`."""
    name = prefix + verb.__name__.strip("_")
    function: Any = method
    update_wrapper(function, verb)
    del function.__wrapped__
    function.__name__ = name
    function.__code__ = function.__code__.replace(co_name=name)
    of_verb = signature(verb)
    first, *rest = of_verb.parameters.values()
    result = str(of_verb.return_annotation)
    result = result.removeprefix("Flow[").removesuffix("]") if result.startswith("Flow") else result
    function.__signature__ = of_verb.replace(
        parameters=[
            first.replace(
                name="self", kind=Parameter.POSITIONAL_OR_KEYWORD, annotation=Parameter.empty
            ),
            *rest,
        ],
        return_annotation=result,
    )
    return method
