"""One flow, driven both ways where its caller stands."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from functools import partial, wraps
from typing import Any, ParamSpec, TypeVar, cast

from langmem_tiers.postgres.flow import Ask, Flow

P = ParamSpec("P")
T = TypeVar("T")


class Caller:
    """Drives a flow that does nothing but ask, where its caller stands.

    What it asks for are verbs, each of which is a unit of work, and what the graph handed over. No
    thread and no connection is held meanwhile, however long a model takes. Whatever ends an asking,
    an interruption as well, is raised where the flow asked, as it were where it awaits.
    """

    def run(self, asking: Flow[T]) -> T:
        """Run a flow, blocking."""
        resume: Callable[[], Any] = partial(next, asking)
        while True:
            try:
                effect = resume()
            except StopIteration as done:
                return cast("T", done.value)
            finally:
                del resume  # an error kept here would keep this frame in turn
            try:
                resume = partial(asking.send, effect.ask())
            except BaseException as error:  # noqa: BLE001 - the flow deals with it, or lets it pass
                resume = partial(asking.throw, error)

    async def arun(self, asking: Flow[T]) -> T:
        """Run a flow, awaiting."""
        resume: Callable[[], Any] = partial(next, asking)
        while True:
            try:
                effect = resume()
            except StopIteration as done:
                return cast("T", done.value)
            finally:
                del resume  # an error kept here would keep this frame in turn
            try:
                resume = partial(asking.send, await effect.aask())
            except BaseException as error:  # noqa: BLE001 - the flow deals with it, or lets it pass
                resume = partial(asking.throw, error)


CALLER = Caller()


def asked(
    call: Callable[P, Any], acall: Callable[P, Awaitable[T]], *given: P.args, **options: P.kwargs
) -> Flow[T]:
    """What a verb, or whatever has two forms, answers: by that of them that the flow is driven."""
    answer = yield Ask(partial(call, *given, **options), partial(acall, *given, **options))
    return cast("T", answer)


def ways(made: Callable[P, Flow[T]]) -> tuple[Callable[P, T], Callable[P, Coroutine[Any, Any, T]]]:
    """The two forms, one that blocks and one that is awaited, of a function that makes a flow."""

    @wraps(made)
    def call(*given: P.args, **options: P.kwargs) -> T:
        return CALLER.run(made(*given, **options))

    @wraps(made)
    async def acall(*given: P.args, **options: P.kwargs) -> T:
        return await CALLER.arun(made(*given, **options))

    return call, acall
