"""What one caller stores one after another: neighbours, as the turns of a session are."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from secrets import randbelow

from langmem_tiers.core.namespaces import Place
from langmem_tiers.core.values import MAX_TURN
from langmem_tiers.store.write import Write

_LONGEST = 2**14
"""Turns of a run; the number of its first one is a multiple, drawn, so that no two runs touch."""
_APART = timedelta(minutes=30)
"""What is stored later than this after the last is of another run: our own choice."""
_MOST = 1_000
"""Places of which a caller's runs are kept in mind."""


class Runs:
    """Numbers what is no turn of a session, in the order in which one caller stores it in a place.

    That is what has no session, or what nobody said.
    """

    def __init__(self) -> None:
        """Begin with none."""
        self._of: OrderedDict[Place, tuple[Iterator[int], datetime]] = OrderedDict()

    def numbered(self, writes: Sequence[Write], now: datetime) -> list[Write]:
        """The writes, with a turn for each that has none and gets none in a session."""
        return [
            replace(one, told=one.told._replace(turn=self._next(one.place, now)))
            if one.told.turn is None and not (one.told.session and one.told.speaker)
            else one
            for one in writes
        ]

    def _next(self, place: Place, now: datetime) -> int:
        turns, last = self._of.pop(place, (iter(()), now))
        turn = next(turns, None) if abs(now - last) <= _APART else None
        if turn is None:
            first = _LONGEST * (1 + randbelow(MAX_TURN // _LONGEST - 2))
            turns = iter(range(first + 1, first + _LONGEST - 4))
            turn = first
        self._of[place] = turns, now
        if len(self._of) > _MOST:
            self._of.popitem(last=False)
        return turn
