"""Driving a flow to its result: effect by effect, and then to the end of its session."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Protocol, TypeVar, cast

from langmem_tiers.core.threads import Work, adone, done

T = TypeVar("T")
E = TypeVar("E")
E_contra = TypeVar("E_contra", contravariant=True)


class UnitOfWork(Protocol[E_contra]):
    """What a flow is driven on."""

    def perform(self, effect: E_contra, /) -> Work[Any]:
        """Do what a flow asked for."""
        ...

    def end(self, error: BaseException | None, /) -> Work[None]:
        """Commit, or roll back after an error."""
        ...


def run(flow: Generator[E, Any, T], session: UnitOfWork[E]) -> T:
    """Drive a flow to its result, blocking."""
    return done(driven(flow, session))


async def arun(flow: Generator[E, Any, T], session: UnitOfWork[E]) -> T:
    """Drive a flow to its result, awaiting every effect."""
    return await adone(driven(flow, session))


def driven(flow: Generator[E, Any, T], session: UnitOfWork[E]) -> Work[T]:
    """What a flow comes to: its effects, one after another, and the end of its session."""
    try:
        result = yield from _performed(flow, session)
    except BaseException as error:
        yield from session.end(error)
        raise
    yield from session.end(None)
    return result


def _performed(flow: Generator[E, Any, T], session: UnitOfWork[E]) -> Work[T]:
    resume: Callable[[Any], E] = flow.send
    answer: Any = None
    try:
        while True:
            try:
                effect = resume(answer)
            except StopIteration as end:
                return cast("T", end.value)
            finally:
                answer = None  # an error kept here would keep this frame in turn
            try:
                resume, answer = flow.send, (yield from session.perform(effect))
            except Exception as error:  # noqa: BLE001 - the flow handles it, or lets it pass
                resume, answer = flow.throw, error
    finally:
        flow.close()
