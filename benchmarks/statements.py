"""Which statements a store sends, how often, and how long each round trip takes."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

from langmem_tiers import TieredStore
from langmem_tiers.postgres.flow import Effect, Lookup, Query


class Statements:
    """Counts statements by name, and the seconds of the round trips that began with each."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.seconds: defaultdict[str, float] = defaultdict(float)

    @property
    def total(self) -> int:
        return self.counts.total()

    @contextmanager
    def of(self, store: TieredStore) -> Iterator[Self]:
        """Those that an open store sends meanwhile."""
        database = store._runner._database  # noqa: SLF001 - there is no other way to see them
        if database is None:
            raise ValueError("the store is not open")
        begin = database.session
        database.session = lambda ask=None: _Counting(begin(ask), self)  # type: ignore[assignment, method-assign, return-value]
        try:
            yield self
        finally:
            database.session = begin  # type: ignore[method-assign]


class _Counting:
    """A session that does the work and notes every statement."""

    def __init__(self, session: Any, found: Statements) -> None:
        self._session = session
        self._found = found

    def __enter__(self) -> Self:
        self._session.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._session.__exit__(*error)

    def perform(self, effect: Effect) -> Any:
        names = [call.name for call in effect.calls] if isinstance(effect, Query) else []
        if isinstance(effect, Lookup):
            names = [Lookup.call([effect]).name]
        started = time.perf_counter()
        answer = self._session.perform(effect)
        self._found.counts.update(names)
        if names:
            self._found.seconds["+".join(names)] += time.perf_counter() - started
        return answer
