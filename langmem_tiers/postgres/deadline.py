"""The time by which a call has to be done, whatever it waits for.

A call's time counts while it waits for a connection, for locks, for the embedding model, for the
writes of others and for being tried again. It does not count while a function or a chat model of
the caller's is asked, which have time-outs of their own.
"""

from __future__ import annotations

from time import monotonic
from typing import Final

from langmem_tiers.core.errors import QueryTimeoutError

ITEMS_IN_A_CALL: Final = 200
"""The number of items that one call's time is for: our own choice. A model of ours embeds them in
two seconds on a shared core."""

_PARTS: Final = 4
"""A write waits a fourth of its time for those that go with it, and then goes alone."""
_MORE_TIME: Final = "open the store with bounds=Bounds(call_timeout_ms=…)"


class Deadline:
    """The time that a call has: a number of seconds from now on, or no end."""

    __slots__ = ("_of_a_call", "_until", "seconds")

    def __init__(self, seconds: float | None) -> None:
        """Begin the time now."""
        self.seconds = seconds
        self._of_a_call = seconds
        """The seconds of a call of few items."""
        self._until = None if seconds is None else monotonic() + seconds

    @property
    def left(self) -> float | None:
        """Return the seconds that are left; None for no end."""
        return None if self._until is None else max(0.0, self._until - monotonic())

    @property
    def passed(self) -> bool:
        """Tell whether no time is left."""
        return self._until is not None and monotonic() >= self._until

    def stood(self, seconds: float) -> None:
        """Give back the seconds in which a function or a model of the caller's was asked."""
        if self._until is not None:
            self._until += seconds

    def of(self, items: int | None) -> Deadline:
        """Return the deadline of a call for so many items: no earlier one. For None it is none."""
        if items is None or self.seconds is None or self._of_a_call is None:
            return NEVER
        wanted = self._of_a_call * (1 + max(items - 1, 0) // ITEMS_IN_A_CALL)
        longer = Deadline(max(self.seconds, wanted))
        longer._of_a_call = self._of_a_call
        longer.stood((self.left or 0.0) - self.seconds)
        return longer

    @property
    def part(self) -> float | None:
        """Return the seconds for a first way, where there is a second if that takes too long."""
        if self.seconds is None or self.left is None:
            return None
        return min(self.seconds / _PARTS, self.left)

    @property
    def part_passed(self) -> bool:
        """Tell whether the first way has had its fourth of the time."""
        if self.seconds is None or self._until is None:
            return False
        return monotonic() >= self._until - self.seconds * (1 - 1 / _PARTS)

    def within(self, limit: float) -> float:
        """Return the seconds to wait for something that has a limit of its own."""
        return limit if self.left is None else min(limit, self.left)

    def late(self, waited_for: str) -> QueryTimeoutError:
        """Make the error of a call whose time ran out before anything of it was written."""
        return QueryTimeoutError(
            f"the call was not done within {self.seconds:g} seconds: {waited_for}; for more time "
            f"{_MORE_TIME}"
        )


NEVER: Final = Deadline(None)
