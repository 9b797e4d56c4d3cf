"""What a store sends: its statements, counted, and what its last recall was answered."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self, TypeVar

from langmem_tiers import TieredStore
from langmem_tiers.core.concurrency import Work
from langmem_tiers.postgres.driver import drive
from langmem_tiers.postgres.flow import Call, Effect, Flow, Lookup, Query, Row, Unit

T = TypeVar("T")


class Statements:
    """Notes the statements of each round trip."""

    def __init__(self) -> None:
        self.sent: list[tuple[Call, ...]] = []

    @property
    def total(self) -> int:
        return sum(map(len, self.sent))

    @contextmanager
    def of(self, store: TieredStore) -> Iterator[Self]:
        """Those that an open store sends meanwhile."""
        database = store.runner._database  # noqa: SLF001 - there is no other way to see them
        if database is None:
            raise ValueError("the store is not open")
        begin = database.session
        database.session = lambda *given, **named: _Noting(lambda: begin(*given, **named), self)  # type: ignore[assignment, method-assign]
        try:
            yield self
        finally:
            database.session = begin  # type: ignore[method-assign]


class _Noting:
    """A session that does the work and notes every statement."""

    def __init__(self, begin: Callable[[], Any], found: Statements) -> None:
        self._begin, self._session = begin, begin()
        self._found = found

    def end(self, error: BaseException | None) -> Work[None]:
        yield from self._session.end(error)

    def perform(self, effect: Effect) -> Work[Any]:
        if isinstance(effect, Unit):
            return (yield from drive(effect.flow, _Noting(self._begin, self._found)))
        if isinstance(effect, Query):
            self._found.sent.append(tuple(effect.calls))
        if isinstance(effect, Lookup):
            self._found.sent.append((Lookup.call([effect]),))
        return (yield from self._session.perform(effect))


class Overheard(TieredStore):
    """A store that keeps the last recall statement and what it answered."""

    call: Call
    rows: Sequence[Row] = ()

    def __init__(self, *given: Any, **options: Any) -> None:
        """Listen to every flow that is run, blocking."""
        super().__init__(*given, **options)
        run = self.runner.run
        self.runner.run = lambda flow: run(self._listen(flow))  # type: ignore[method-assign]

    def _listen(self, flow: Flow[T]) -> Flow[T]:
        answer: Any = None
        while True:
            try:
                effect = flow.send(answer)
            except StopIteration as done:
                value: T = done.value
                return value
            answer = yield effect
            if isinstance(effect, Query):
                for call, rows in zip(effect.calls, answer, strict=True):
                    if call.name.startswith("recall"):
                        self.call, self.rows = call, rows
