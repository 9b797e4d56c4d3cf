"""One flow, driven both ways where its caller stands."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from functools import partial, wraps
from typing import Any, ParamSpec, TypeVar, cast

from langmem_tiers.postgres.flow import Ask, Flow
from langmem_tiers.postgres.session import arun, run
from langmem_tiers.postgres.work import Work

P = ParamSpec("P")
T = TypeVar("T")
U = TypeVar("U")


class _AtCaller:
    """What a flow is driven on that does nothing but ask."""

    def __init__(self, ask: Callable[[Ask], Any]) -> None:
        self._ask = ask

    def perform(self, effect: Any) -> Work[Any]:
        return (yield self._ask(effect))

    def end(self, _: BaseException | None) -> Work[None]:
        yield from ()  # nothing was opened


class Caller:
    """Drives a flow that does nothing but ask, where its caller stands.

    What it asks for are verbs, each of which is a unit of work, and what the graph handed over. No
    thread and no connection is held meanwhile, however long a model takes.
    """

    def run(self, asking: Flow[T]) -> T:
        """Run a flow, blocking."""
        return run(asking, _AtCaller(Ask.ask))

    async def arun(self, asking: Flow[T]) -> T:
        """Run a flow, awaiting."""
        return await arun(asking, _AtCaller(Ask.aask))


CALLER = Caller()


def asked(
    call: Callable[P, Any], acall: Callable[P, Awaitable[T]], *given: P.args, **options: P.kwargs
) -> Flow[T]:
    """What a verb, or whatever has two forms, answers: by that of them that the flow is driven."""
    answer = yield Ask(partial(call, *given, **options), partial(acall, *given, **options))
    return cast("T", answer)


def handed_over(handler: Callable[[U], Any], request: U) -> Flow[Any]:
    """What a handler answers, one that blocks or one that is awaited, as its caller wants it."""
    call = partial(handler, request)
    return (yield Ask(call, call))


def ways(made: Callable[P, Flow[T]]) -> tuple[Callable[P, T], Callable[P, Coroutine[Any, Any, T]]]:
    """The two forms, one that blocks and one that is awaited, of a function that makes a flow."""

    @wraps(made)
    def call(*given: P.args, **options: P.kwargs) -> T:
        return CALLER.run(made(*given, **options))

    @wraps(made)
    async def acall(*given: P.args, **options: P.kwargs) -> T:
        return await CALLER.arun(made(*given, **options))

    return call, acall
