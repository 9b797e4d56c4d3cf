"""What one caller stores one after another: neighbours, as the turns of a session are."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from secrets import randbelow

from langmem_tiers.core.context import Caller
from langmem_tiers.core.namespaces import Place
from langmem_tiers.core.values import MAX_TURN
from langmem_tiers.store.write import Write

_LONGEST = 2**14
"""Turns of a run; the number of its first one is a multiple, drawn, so that no two runs touch."""
_APART = timedelta(minutes=30)
"""What is stored later than this after the last is of another run: our own choice."""
_MOST = 10_000
"""The number of callers' places whose runs are kept in mind."""


class Runs:
    """Numbers memories that are no turn of a session, in each caller's order of storing in a place.

    They have no session, or nobody said them. Several threads may use it.
    """

    def __init__(self) -> None:
        """Begin with none."""
        self._lock = threading.Lock()
        self._of: OrderedDict[tuple[Caller, Place], tuple[Iterator[int], datetime]] = OrderedDict()

    def numbered(self, caller: Caller, one: Write, now: datetime) -> Write:
        """The write, with a turn if it has none and gets none in a session."""
        told = one.told
        if told.turn is not None or (told.session and told.speaker):
            return one
        with self._lock:
            turn = self._next((caller, one.place), now)
        return replace(one, told=told._replace(turn=turn))

    def _next(self, place: tuple[Caller, Place], now: datetime) -> int:
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
